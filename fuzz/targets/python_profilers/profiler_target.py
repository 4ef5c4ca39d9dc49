"""What the targets have in common that are a profiler of Python, with the process that it samples.

Invariants: at a header all blocks are freed, and the sampler begins, or is led to where it has just
taken a sample, so that a trace says the same wherever it stands in a session; after that nothing is
read but what the profiler says of its samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from tempfile import TemporaryFile

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol import actions
from fuzz.protocol.actions import Action, name_of
from fuzz.protocol.contract import Contract, Setting, chosen_settings
from fuzz.protocol.observation import Observation
from fuzz.targets.process.asked_process import AskedProcess
from fuzz.targets.python_profilers import mutator

ACTIONS = ("malloc", "free")
OBSERVES = ("samples", "weights")
HEADER_BYTES = 34
"""What a `bytes` of n + 1 has beside n: `sizeof(PyBytesObject)`, and one."""
BLOCK_BYTES_MAX = 2**17 - 2
SLOTS = 2**16
AS_IT_IS = dict.fromkeys(("PYTHONMALLOC", "PYTHONTRACEMALLOC", "PYTHONDEVMODE"), "")
"""Python's allocator, of which the user's environment has nothing to say."""


@attrs.frozen
class ToldSample:
    """What a profiler says of one."""

    weight_bytes: int
    is_free: bool = False
    """Whether it is of bytes that were freed."""


class Mutator(AskedProcess):
    """That process. Raises BadInputError if there is no such profiler."""

    def __init__(
        self, python: str, profiler: str, words: tuple[str, ...], variables: Mapping[str, str]
    ) -> None:
        command = [python, mutator.__file__, profiler, *words]
        with TemporaryFile() as said:
            super().__init__(command, {**AS_IT_IS, **variables}, said)
            line = self._answers.readline()
            if self._answers.read(1) == mutator.ANSWER:
                self.version = line.decode().strip()
                return
            self.process.kill()
            self.close()
            said.seek(0)
            [*_, last] = said.read().decode(errors="replace").strip().splitlines() or ["a crash"]
        raise BadInputError(f"{python}: {profiler} cannot be run: {last}")

    def ask(self, what: int, number: int = 0, slot: int = 0) -> None:
        """Raises EOFError if the process has ended."""
        self.send(bytes([what]) + number.to_bytes(3, "big") + slot.to_bytes(2, "big"))
        self.receive(len(mutator.ANSWER))


class ProfilerTarget(ABC):
    """A profiler as a target."""

    settings: tuple[Setting, ...]

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        self.python = python
        self._slots: list[int] = []
        """That of each block of the trace, and then those with which it was begun."""
        self._slots_before: list[int] = []
        self._free_slots = [*range(SLOTS)]
        self._has_weights = False

    @abstractmethod
    def begin(self, chosen: Mapping[str, int]) -> Contract:
        """Begin the sampler, and say what is promised. Raises BadInputError."""

    @abstractmethod
    def new_samples(self) -> list[ToldSample]:
        """What was sampled since it was asked before."""

    @property
    @abstractmethod
    def mutator(self) -> Mutator:
        """The process of the present trace."""

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """Raises BadInputError also if there is no such profiler."""
        chosen = chosen_settings(configuration, self.settings)
        self._slots, self._slots_before = self._slots + self._slots_before, []
        while self._slots:
            self.free(0)
        contract = self.begin(chosen)
        self._has_weights = "weights" in contract.observes
        self._slots_before, self._slots = self._slots, []
        return contract

    def perform(self, action: Action) -> Observation:
        """Nothing that goes wrong ends the program, but the end of the process."""
        try:
            return self._perform(action)
        except EOFError:
            raise
        except Exception as problem:  # noqa: BLE001 - also what nobody thought of is an answer
            return Observation(error=f"{type(problem).__name__}: {problem}")

    def _perform(self, action: Action) -> Observation:
        match action:
            case actions.Malloc(size_bytes=size_bytes, thread=0):
                self.allocate(size_bytes)
            case actions.Free(root=root, thread=0):
                self.free(root)
            case _:
                raise ValueError(f"{self.name} carries out no such {name_of(type(action))}")
        samples = self.new_samples()
        if any(each.is_free is not isinstance(action, actions.Free) for each in samples):
            raise ValueError(f"{samples} of a {name_of(type(action))}")
        weights = [each.weight_bytes for each in samples] if self._has_weights else []
        return Observation(samples=len(samples), weights=weights)

    def allocate(self, size_bytes: int) -> None:
        """Raises ValueError where that is not promised."""
        if not 0 <= size_bytes <= BLOCK_BYTES_MAX:
            raise ValueError(f"{size_bytes} bytes; 0 to {BLOCK_BYTES_MAX} are promised")
        self._slots.append(self._free_slots.pop())
        self.mutator.ask(mutator.ALLOCATE, size_bytes + 1, self._slots[-1])

    def free(self, root: int) -> None:
        """Free the block there."""
        slot = self._slots.pop(root)
        self._free_slots.append(slot)
        self.mutator.ask(mutator.FREE, 0, slot)
