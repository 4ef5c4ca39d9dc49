"""The base of the drivers of Python's profilers, with the process that is sampled.

Invariant: at a header all blocks are freed, and the sampler starts, or is brought to where it has
just taken a sample. So the answers to a trace do not depend on the traces before it. After that the
driver reads only what the profiler reports about its samples.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from tempfile import TemporaryFile
from typing import ClassVar

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol import actions
from fuzz.protocol.contract import Contract
from fuzz.targets.process.asked_process import AskedProcess
from fuzz.targets.process.driver import CarryOut, Driver
from fuzz.targets.python_profilers import mutator

HEADER_BYTES = 34
"""The bytes of a `bytes` of n + 1 beside n: `sizeof(PyBytesObject)`, and one."""
BLOCK_BYTES_MAX = 2**17 - 2
SLOTS = 2**16
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
        command = [python, mutator.__file__, profiler, *arguments]
        with TemporaryFile() as complaint:
            super().__init__(command, {**OWN_ALLOCATOR, **variables}, complaint)
            line = self._answers.readline()
            if self._answers.read(1) == mutator.ANSWER:
                self.version = line.decode().strip()
                return
            self.process.kill()
            self.close()
            complaint.seek(0)
            text = complaint.read().decode(errors="replace").strip()
        [*_, last] = text.splitlines() or ["a crash"]
        raise BadInputError(f"{python}: {profiler} cannot be run: {last}")

    def ask(self, what: int, number: int = 0, slot: int = 0) -> None:
        """Raises EOFError if the process has ended."""
        self.send(bytes([what]) + number.to_bytes(3, "big") + slot.to_bytes(2, "big"))
        self.receive(len(mutator.ANSWER))


class ProfilerDriver(Driver):
    """A profiler."""

    FATAL = (EOFError,)

    def __init__(self, name: str, python: str) -> None:
        super().__init__(name)
        self.python = python
        self._slots: list[int] = []
        """The slot of each block that the trace has allocated."""
        self._slots_before: list[int] = []
        """The slots of the blocks that were allocated before the trace."""
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
        self._slots, self._slots_before = self._slots + self._slots_before, []
        while self._slots:
            self.free(0)
        contract = self.begin_sampler(chosen)
        self._has_weights = "weights" in contract.observes
        self._slots_before, self._slots = self._slots, []
        return contract

    def allocate(self, size_bytes: int) -> None:
        if not 0 <= size_bytes <= BLOCK_BYTES_MAX:
            raise ValueError(f"{size_bytes} bytes; the contract promises 0 to {BLOCK_BYTES_MAX}")
        self._slots.append(self._free_slots.pop())
        self.mutator.ask(mutator.ALLOCATE, size_bytes + 1, self._slots[-1])

    def free(self, root: int) -> None:
        slot = self._slots.pop(root)
        self._free_slots.append(slot)
        self.mutator.ask(mutator.FREE, 0, slot)

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
    }
