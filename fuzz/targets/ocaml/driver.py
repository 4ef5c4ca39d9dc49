"""The driver of `ocaml`: `python -m fuzz.targets.ocaml.driver NAME PROGRAM VERSION`.

It sends the actions to the mutator. Each trace has a copy of the mutator's process, since only that
resets Memprof's generator. Invariant: of Memprof it uses only what Memprof's callbacks report.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct, unpack
from typing import ClassVar

from fuzz.protocol import actions
from fuzz.protocol.contract import Contract
from fuzz.targets.ocaml.contract import SETTINGS, WORD_BYTES, contract
from fuzz.targets.process.asked_process import AskedProcess
from fuzz.targets.process.driver import CarryOut, Driver

MESSAGE = Struct("=8q")
WALK, END, SUMS = 13, 14, 23


class OcamlMutator(AskedProcess):
    """The mutator's program. (See mutator.ml.)"""

    def __init__(self, program: str) -> None:
        super().__init__([program], {"OCAMLRUNPARAM": f"s={SETTINGS[0].default}"})
        self._beginning: tuple[int, int] | None = (SETTINGS[0].default, 0)
        self.collections = 0
        """The minor collections of this trace."""
        self.sampled: tuple[int, ...] = ()
        """The words of the block that was sampled meanwhile, and how often it was, if one was."""

    def begin(self, minor_heap_words: int, batches: int) -> None:
        """Start a trace. The mutator forks at the first question: half of the headers have none."""
        if self._beginning is None:
            self._send_numbers(END)
        self._beginning, self.collections = (minor_heap_words, batches), 0

    def _send_numbers(self, *numbers: int) -> None:
        self.send(MESSAGE.pack(*numbers, *[0] * (8 - len(numbers))))

    def ask(self, what: int, *numbers: int) -> tuple[int, ...]:
        if self._beginning is not None:
            self._send_numbers(*self._beginning)
            self._beginning = None
        self._send_numbers(what, *numbers)
        [count] = unpack("=q", self.receive(8))
        value_count, *answer = unpack(f"={count - 1}q", self.receive(8 * (count - 1)))
        if value_count < 0:
            raise ValueError("OCaml cannot do that")
        self.collections, *sampled = answer[value_count:]
        self.sampled = tuple(sampled)
        return tuple(answer[:value_count])


class OcamlDriver(Driver):
    """Memprof."""

    settings = SETTINGS

    def __init__(self, name: str, program: str, version: str) -> None:
        super().__init__(name)
        self._program = program
        self._version = version
        self.mutator: OcamlMutator | None = None

    def close(self) -> None:
        if self.mutator is not None:
            self.mutator.close()

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        if self.mutator is None or self.mutator.has_ended:
            self.mutator = OcamlMutator(self._program)
        self.mutator.begin(chosen["minor_heap_words"], chosen["sampler_seed"])
        self.collections = 0
        return contract(self._version, self.actions, chosen)

    def ask(self, what: int, *numbers: int) -> tuple[int, ...]:
        assert self.mutator is not None
        values = self.mutator.ask(what, *numbers)
        self.collections = self.mutator.collections
        return values

    def allocate(self, what: int, *numbers: int) -> int:
        """The size of the block; whether it was sampled goes to the observation."""
        [words] = self.ask(what, *numbers)
        assert self.mutator is not None
        if self.mutator.sampled:
            sampled_words, self.observation.samples = self.mutator.sampled
            if sampled_words != words:
                raise ValueError(f"a block of {sampled_words} words was sampled, not of {words}")
        return words * WORD_BYTES

    def read(self, root: int, field: int) -> int | None:
        [found] = self.ask(4, root, field)
        return None if found < 0 else found

    def write(self, root: int, field: int, value: int | None) -> None:
        self.ask(5, root, field, -1 if value is None else value)

    def after_collection(self) -> None:
        self.observation.graph = self.graph()

    def graph(self) -> list[list[int]]:
        """What a walk from the roots finds."""
        rows = []
        numbers = iter(self.ask(WALK))
        for count in numbers:
            kind, low, high, *references = (next(numbers) for _ in range(count))
            rows.append([kind, joined(low, high), *references])
        return rows

    CARRY_OUT: ClassVar[CarryOut] = {
        actions.AllocateNode: lambda driver, each: driver.allocate(0, *halves(each.number)),
        actions.AllocateString: lambda driver, each: driver.allocate(1, each.length),
        actions.AllocateArray: lambda driver, each: driver.allocate(2, each.length),
        actions.Free: lambda driver, each: driver.ask(3, each.root),
        actions.Read: lambda driver, each: driver.read(each.root, each.field),
        actions.Write: lambda driver, each: driver.write(each.root, each.field, each.value),
        actions.ReadNumber: lambda driver, each: joined(*driver.ask(6, each.root)),
        actions.WriteNumber: lambda driver, each: driver.ask(7, each.root, *halves(each.number)),
        actions.CopyArray: lambda driver, each: driver.ask(
            *(8, each.source, each.dest, each.source_start, each.dest_start, each.length)
        ),
        actions.CollectMinor: lambda driver, _: driver.ask(9),
        actions.CollectFull: lambda driver, _: driver.ask(10),
        actions.EnableSampling: lambda driver, each: driver.ask(
            11, each.period_bytes // WORD_BYTES
        ),
        actions.DisableSampling: lambda driver, _: driver.ask(12),
        actions.CheckHeap: lambda driver, _: driver.graph(),
        actions.CheckContents: lambda driver, _: [[each] for each in driver.ask(SUMS)],
    }


def halves(number: int) -> tuple[int, int]:
    """The halves of an integer; one of OCaml has one bit less than one of the protocol."""
    return number & 2**32 - 1, number >> 32


def joined(low: int, high: int) -> int:
    """The integer of these halves."""
    return low | high << 32


if __name__ == "__main__":
    OcamlDriver.main()
