"""The contents oracle: strings and blocks have the bytes that the mutator wrote.

They keep them when they move, when others are allocated or freed, and when they are resized, up to
the smaller of both sizes. The mutator writes what is missing then. `fuzz/protocol/written.py`
states the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn
from zlib import crc32

from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.heap import HeapOracle
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action, CheckContents
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.written import NUMBER_BYTES, SHOWN_BYTES, contents_of, number_in

BYTE = range(256)
NUMBER_AND_OFFSET = 2
"""What comes before the bytes in a row."""


class ContentsOracle(Oracle):
    """Compares the rows of the target with the numbers of the shadow."""

    name = "contents"
    judges = ("contents",)
    relies_on = (HeapOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._kinds = contract.layout.kinds
        # A method of its own as an attribute would keep the oracle, and the whole shadow, in a
        # cycle that only a search for garbage frees.
        self._are_sums = contract.contents == "checksums"

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return contract.contents is not None and "contents" in contract.observes

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        if not isinstance(action, CheckContents):
            return
        objects, rows = self._shadow.filled(), observation.contents
        if rows is None or len(rows) != len(objects):
            got = None if rows is None else len(rows)
            why = "one row for each string and block that a walk finds"
            raise self.mismatch("contents", len(objects), got, why)
        check = self._check_sum if self._are_sums else self._check_bytes
        for obj, row in zip(objects, rows, strict=True):
            check(obj, row)

    def _count(self, obj: ShadowObject) -> int:
        """How many bytes the mutator wrote."""
        return obj.number * self._kinds[obj.kind].item_bytes

    def _check_bytes(self, obj: ShadowObject, row: Sequence[int]) -> None:
        count = self._count(obj)
        first = contents_of(obj.contents, min(count, NUMBER_BYTES))
        if [*row] == [number_in(first)]:
            return
        shown = row[0] if row else -1
        if shown != number_in(first) and shown in range(256 ** len(first)):
            got = shown.to_bytes(len(first), "little")
            offset = next(at for at in range(len(first)) if got[at] != first[at])
            self._raise(obj, offset, first[offset:], got[offset:])
        has_bytes = shown == number_in(first) and len(row) > NUMBER_AND_OFFSET
        if has_bytes and row[1] in range(count):
            found = row[NUMBER_AND_OFFSET:]
            right = contents_of(obj.contents, count)[row[1] :][: min(len(found), SHOWN_BYTES)]
            self._raise(obj, row[1], right, found)
        expected = f"the row [{number_in(first)}]"
        raise self.mismatch("contents", expected, f"the row {[*row]}", self._named(obj))

    def _check_sum(self, obj: ShadowObject, row: Sequence[int]) -> None:
        expected = crc32(contents_of(obj.contents, self._count(obj)))
        if [*row] != [expected]:
            why = f"CRC-32 of the bytes; {self._named(obj)}"
            raise self.mismatch("contents", f"the row [{expected}]", f"the row {[*row]}", why)

    def _raise(
        self, obj: ShadowObject, offset: int, expected: Sequence[int], got: Sequence[int]
    ) -> NoReturn:
        right, wrong = (_hexadecimal(numbers) for numbers in (expected, got))
        raise self.mismatch("contents", f"{right} at offset {offset}", wrong, self._named(obj))

    def _named(self, obj: ShadowObject) -> str:
        return f"{obj.label} has {self._count(obj)} bytes and the number {obj.contents}"


def _hexadecimal(numbers: Sequence[int]) -> str:
    return " ".join(f"{number:02x}" if number in BYTE else str(number) for number in numbers)
