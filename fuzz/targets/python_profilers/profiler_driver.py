"""The base of the drivers of Python's profilers, with the process that is sampled.

Invariant: at a header all blocks are freed, and the sampler starts, or is brought to where it has
just taken a sample. So the answers to a trace do not depend on the traces before it. After that the
driver reads only what the profiler reports about its samples, and the bytes of blocks.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from tempfile import TemporaryFile
from typing import ClassVar

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol import actions
from fuzz.protocol.contract import Contract
from fuzz.protocol.written import contents_of, row_of
from fuzz.targets.process.asked_process import AskedProcess
from fuzz.targets.process.driver import CarryOut, Driver
from fuzz.targets.python_profilers import mutator

HEADER_BYTES = 34
"""The bytes of a `bytes` of n + 1 beside n: `sizeof(PyBytesObject)`, and one."""
BLOCK_BYTES_MAX = 2**17 - 2
SLOTS = 2**16
WORD_BYTES, LIST_AT, BYTES_AT = 8, 24, 32
"""Where the address of a list's items is, and where the bytes of a `bytes` start, in CPython."""
OWN_ALLOCATOR = dict.fromkeys(("PYTHONMALLOC", "PYTHONTRACEMALLOC", "PYTHONDEVMODE"), "")
"""The user's environment must not change Python's allocator."""


@attrs.frozen
class ReportedSample:
    """A sample as a profiler reports it."""

    weight_bytes: int
    is_free: bool = False
    """Whether it is a sample of freed bytes."""


class Mutator(AskedProcess):
    """The process that is sampled. Raises BadInputError if it lacks the profiler."""

    def __init__(
        self, python: str, profiler: str, arguments: tuple[str, ...], variables: Mapping[str, str]
    ) -> None:
        self._memory: int | None = None
        command = [python, mutator.__file__, profiler, *arguments]
        with TemporaryFile() as complaint:
            super().__init__(command, {**OWN_ALLOCATOR, **variables}, complaint)
            line = self._answers.readline()
            if self._answers.read(1) == mutator.ANSWER:
                self.version, table = line.decode().split()
                self._memory = os.open(f"/proc/{self.process.pid}/mem", os.O_RDWR)
                rows = self._word(int(table) + LIST_AT)
                lists = [self._word(rows + WORD_BYTES * row) for row in range(SLOTS >> 8)]
                self._rows = [self._word(row + LIST_AT) for row in lists]
                return
            self.process.kill()
            self.close()
            complaint.seek(0)
            text = complaint.read().decode(errors="replace").strip()
        [*_, last] = text.splitlines() or ["a crash"]
        raise BadInputError(f"{python}: {profiler} cannot be run: {last}")

    def _read(self, address: int, size_bytes: int) -> bytes:
        assert self._memory is not None
        return os.pread(self._memory, size_bytes, address)

    def _word(self, address: int) -> int:
        return int.from_bytes(self._read(address, WORD_BYTES), "little")

    def _bytes_of(self, slot: int) -> int:
        return self._word(self._rows[slot >> 8] + WORD_BYTES * (slot & 255)) + BYTES_AT

    def contents(self, slot: int, size_bytes: int) -> bytes:
        """The first bytes of the block in that slot, read from the process's memory."""
        return self._read(self._bytes_of(slot), size_bytes)

    def set_contents(self, slot: int, data: bytes) -> None:
        """Write the first bytes of the block in that slot."""
        assert self._memory is not None
        os.pwrite(self._memory, data, self._bytes_of(slot))

    def close(self) -> None:
        super().close()
        if self._memory is not None:
            os.close(self._memory)
            self._memory = None

    def ask(self, what: int, number: int = 0, slot: int = 0) -> None:
        """Raises EOFError if the process has ended."""
        self.send(bytes([what]) + number.to_bytes(3, "big") + slot.to_bytes(2, "big"))
        self.receive(len(mutator.ANSWER))


@attrs.frozen
class HeldBlock:
    """A live block of which `size_bytes` were requested, filled with the bytes of its number."""

    slot: int
    size_bytes: int
    number: int


class ProfilerDriver(Driver):
    """A profiler."""

    FATAL = (EOFError,)

    def __init__(self, name: str, python: str) -> None:
        super().__init__(name)
        self.python = python
        self.blocks: list[HeldBlock] = []
        """The blocks that the trace has allocated."""
        self._blocks_before: list[HeldBlock] = []
        """The blocks that were allocated before the trace."""
        self._newest = 0
        self._free_slots = [*range(SLOTS)]
        self._has_weights = False

    @abstractmethod
    def begin_sampler(self, chosen: Mapping[str, int]) -> Contract:
        """Start the sampler; returns the contract. Raises BadInputError."""

    @abstractmethod
    def new_samples(self) -> list[ReportedSample]:
        """The samples since the last call."""

    @property
    @abstractmethod
    def mutator(self) -> Mutator:
        """The process of the present trace."""

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        self.blocks, self._blocks_before = self.blocks + self._blocks_before, []
        while self.blocks:
            self.free(0)
        contract = self.begin_sampler(chosen)
        self._has_weights = "weights" in contract.observes
        self._blocks_before, self.blocks, self._newest = self.blocks, [], 0
        return contract

    def allocate(self, size_bytes: int) -> None:
        if not 0 <= size_bytes <= BLOCK_BYTES_MAX:
            raise ValueError(f"{size_bytes} bytes; the contract promises 0 to {BLOCK_BYTES_MAX}")
        self._newest += 1
        block = HeldBlock(self._free_slots.pop(), size_bytes, self._newest)
        self.blocks.append(block)
        self.mutator.ask(mutator.ALLOCATE, size_bytes + 1, block.slot)
        self.mutator.set_contents(block.slot, contents_of(block.number, size_bytes))

    def free(self, root: int) -> None:
        slot = self.blocks.pop(root).slot
        self._free_slots.append(slot)
        self.mutator.ask(mutator.FREE, 0, slot)

    def rows(self) -> list[list[int]]:
        """What `check_contents` answers."""
        return [
            row_of(self.mutator.contents(block.slot, block.size_bytes), block.number)
            for block in self.blocks
        ]

    def observe(self, *, are_free: bool) -> None:
        """Observe the new samples. Raises ValueError for one of the other kind of call."""
        samples = self.new_samples()
        if any(each.is_free is not are_free for each in samples):
            raise ValueError(f"{samples} where a block was {'freed' if are_free else 'allocated'}")
        self.observation.samples = len(samples)
        if self._has_weights:
            self.observation.weights = [each.weight_bytes for each in samples]

    def malloc(self, size_bytes: int) -> None:
        self.allocate(size_bytes)
        self.observe(are_free=False)

    def release(self, root: int) -> None:
        self.free(root)
        self.observe(are_free=True)

    CARRY_OUT: ClassVar[CarryOut] = {
        actions.Malloc: lambda driver, each: driver.malloc(each.size_bytes),
        actions.Free: lambda driver, each: driver.release(each.root),
        actions.CheckContents: lambda driver, _: driver.rows(),
    }
