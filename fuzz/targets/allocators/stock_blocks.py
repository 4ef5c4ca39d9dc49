"""What the targets have in common that are a stock allocator, each in a process of its own.

Each thread of the mutator is a thread of this process, for which the library keeps a sampler; they
take turns. Every block has a stamp at both ends of its room, which is looked at when the block is
resized or freed. Invariants: at a header all blocks are freed, so that a trace says the same
wherever it stands in a session; and whatever is asked, there is an answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import count
from typing import Generic, TypeVar

import attrs

from fuzz.protocol import actions
from fuzz.protocol.actions import Action, name_of, requested_bytes
from fuzz.protocol.contract import Contract, Setting, chosen_settings
from fuzz.protocol.observation import Observation
from fuzz.targets.allocators.stock_library import Allocator
from fuzz.targets.process.threads import Threads

AnyLibrary = TypeVar("AnyLibrary", bound=Allocator)
AnySampler = TypeVar("AnySampler")

ACTIONS = (
    *("malloc", "calloc", "realloc", "free"),
    *("set_period", "pause_sampling", "resume_sampling"),
)
OBSERVES = ("samples", "size")
STAMP_BYTES = 8
"""Every block has room for so many."""


class DamageError(Exception):
    """A block's bytes are not what was written, or what calloc promises."""


@attrs.frozen
class StockBlock:
    """A block that is not freed yet. Its `stamp` stands at both ends of its room."""

    library: Allocator
    address: int
    room_bytes: int
    stamp: bytes

    def write(self) -> None:
        """Write the stamp."""
        for address in self._ends():
            self.library.write(address, self.stamp)

    def check(self) -> None:
        """Raises DamageError if the stamp is not there any more."""
        for address in self._ends():
            _check(self.library, address, self.stamp, "a block is damaged")

    def _ends(self) -> tuple[int, int]:
        return self.address, self.address + self.room_bytes - STAMP_BYTES


class StockTarget(ABC, Generic[AnyLibrary, AnySampler]):
    """An allocator as a target, in a process that uses it for nothing else."""

    settings: tuple[Setting, ...]
    """`threads` is among them."""
    block_bytes_max: int

    def __init__(self, name: str, library_name: str) -> None:
        """`library_name` is what the loader finds the library by."""
        self.name, self.library_name = name, library_name
        self.samplers: list[AnySampler] = []
        """Those of the threads that were needed until now."""
        self.blocks: list[StockBlock] = []
        """A block for each root slot."""
        self.threads = Threads()
        self._threads_now = 0
        self._stamps = count(1)

    @cached_property
    def library(self) -> AnyLibrary:
        """Loaded at the first header, whose answer can say why it cannot be."""
        return self.load()

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """Raises BadInputError also if there is no such library."""
        chosen = chosen_settings(configuration, self.settings)
        for block in self.blocks:
            self.library.free(block.address)
        self.blocks, self._stamps = [], count(1)
        self._threads_now = chosen["threads"]
        for thread in range(len(self.samplers), self._threads_now):
            self.samplers.append(self.threads.run(thread, self.find_sampler))
        return attrs.evolve(self.begin(chosen), version=self.library.version)

    @abstractmethod
    def load(self) -> AnyLibrary:
        """The library. Raises BadInputError."""

    @abstractmethod
    def find_sampler(self) -> AnySampler:
        """The library's sampler for the thread that calls. Raises BadInputError."""

    @abstractmethod
    def begin(self, chosen: Mapping[str, int]) -> Contract:
        """Begin each thread's sampler under these settings; what is promised then."""

    @abstractmethod
    def allocated(self, thread: int, call: Callable[[], int]) -> tuple[int, Observation]:
        """Make a call that allocates; the block's address, and what samples were taken."""

    def forget(self, address: int) -> None:
        """The block that was there is no more."""

    def pause(self) -> None:
        """Take no samples."""
        raise NotImplementedError

    def resume(self) -> None:
        """Take samples again."""
        raise NotImplementedError

    @abstractmethod
    def set_period(self, period_bytes: int) -> None:
        """Draw distances of another mean."""

    def perform(self, action: Action) -> Observation:
        """Nothing that goes wrong ends the process, whoever is to blame."""
        try:
            return self._run(action)
        except Exception as problem:  # noqa: BLE001 - also what nobody thought of is an answer
            return Observation(error=f"{type(problem).__name__}: {problem}")

    def _run(self, action: Action) -> Observation:
        if action.thread not in range(self._threads_now):
            raise ValueError(f"there is no thread {action.thread}")
        return self.threads.run(action.thread, lambda: self._perform(action))

    def _perform(self, action: Action) -> Observation:
        match action:
            case actions.Malloc() | actions.Calloc():
                return self._allocate(action)
            case actions.Realloc():
                return self._reallocate(action)
            case actions.Free():
                block = self.blocks.pop(action.root)
                block.check()
                self.forget(block.address)
                self.library.free(block.address)
            case actions.SetPeriod():
                self.set_period(action.period_bytes)
            case actions.PauseSampling():
                self.pause()
            case actions.ResumeSampling():
                self.resume()
            case _:
                raise ValueError(f"{self.name} carries out no {name_of(type(action))}")
        return Observation()

    def _allocate(self, action: actions.Malloc | actions.Calloc) -> Observation:
        size_bytes = self._size_of(action)

        def call() -> int:
            if isinstance(action, actions.Malloc):
                return self.library.malloc(action.size_bytes)
            return self.library.calloc(action.count, action.size_bytes)

        address, said = self.allocated(action.thread, call)
        if isinstance(action, actions.Calloc):
            _check(self.library, address, bytes(size_bytes), "calloc's block is not all zero")
        self.blocks.append(self._block(address))
        said.size = self.blocks[-1].room_bytes
        return said

    def _reallocate(self, action: actions.Realloc) -> Observation:
        old, size_bytes = self.blocks[action.root], self._size_of(action)
        old.check()

        def call() -> int:
            address = self.library.realloc(old.address, size_bytes)
            if address != old.address:
                self.forget(old.address)
            return address

        address, said = self.allocated(action.thread, call)
        _check(self.library, address, old.stamp[:size_bytes], "realloc lost what was in the block")
        self.blocks[action.root] = self._block(address)
        said.size = self.blocks[action.root].room_bytes
        return said

    def _size_of(self, action: actions.Malloc | actions.Calloc | actions.Realloc) -> int:
        """How large a block is asked for. Raises ValueError where that is not promised."""
        size_bytes = requested_bytes(action)
        least = 1 if isinstance(action, actions.Realloc) else 0
        if not least <= size_bytes <= self.block_bytes_max:
            raise ValueError(
                f"{name_of(type(action))} of {size_bytes} bytes; {least} to "
                f"{self.block_bytes_max} are promised"
            )
        return size_bytes

    def _block(self, address: int) -> StockBlock:
        """A block of which the library is asked how large it is, with a stamp of its own."""
        stamp = next(self._stamps).to_bytes(STAMP_BYTES, "big")
        block = StockBlock(self.library, address, self.library.usable_bytes(address), stamp)
        block.write()
        return block


def _check(library: Allocator, address: int, expected: bytes, problem: str) -> None:
    """Raises DamageError if something else is there in memory."""
    if library.read(address, len(expected)) != expected:
        raise DamageError(problem)
