"""The base of the drivers of stock allocators, each in its own process.

Each thread of the mutator is a thread of this process, and the library has a sampler for each. The
threads take turns. Each block has a stamp at both ends, which is checked when the block is resized
or freed. Invariant: a header frees all blocks, so the answers to a trace do not depend on the
traces before it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, Generic, TypeVar

import attrs

from fuzz.protocol import actions
from fuzz.protocol.actions import Action, name_of, requested_bytes
from fuzz.protocol.contract import Contract
from fuzz.targets.allocators.stock_library import Allocator
from fuzz.targets.process.driver import CarryOut, Driver
from fuzz.targets.process.threads import Threads

AnyLibrary = TypeVar("AnyLibrary", bound=Allocator)
AnySampler = TypeVar("AnySampler")
STAMP_BYTES = 8
"""Every block has room for one stamp."""


class DamageError(Exception):
    """A block has other bytes than were written, or than calloc promises."""


@attrs.frozen
class StockBlock:
    """A live block, with its `stamp` at both ends."""

    library: Allocator
    address: int
    room_bytes: int
    stamp: bytes

    def write(self) -> None:
        for address in self._ends():
            self.library.write(address, self.stamp)

    def check(self) -> None:
        """Raises DamageError if the stamp has changed."""
        for address in self._ends():
            _check(self.library, address, self.stamp, "a block is damaged")

    def _ends(self) -> tuple[int, int]:
        return self.address, self.address + self.room_bytes - STAMP_BYTES


class BlockDriver(Driver, Generic[AnyLibrary, AnySampler]):
    """An allocator that only the mutator uses. `threads` is one of its settings."""

    block_bytes_max: int

    def __init__(self, name: str, library_name: str) -> None:
        super().__init__(name)
        self.library_name = library_name
        self.samplers: list[AnySampler] = []
        """The samplers of the threads that were needed until now."""
        self.blocks: list[StockBlock] = []
        """A block for each root slot."""
        self.threads = Threads()
        self._stamps = count(1)

    @cached_property
    def library(self) -> AnyLibrary:
        """The library, which is loaded at the first header."""
        return self.load()

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        for block in self.blocks:
            self.library.free(block.address)
        self.blocks, self._stamps = [], count(1)
        for thread in range(len(self.samplers), self.thread_count):
            self.samplers.append(self.threads.run(thread, self.find_sampler))
        return attrs.evolve(self.begin_samplers(chosen), version=self.library.version)

    @abstractmethod
    def load(self) -> AnyLibrary:
        """The library. Raises BadInputError."""

    @abstractmethod
    def find_sampler(self) -> AnySampler:
        """The library's sampler for the calling thread. Raises BadInputError."""

    @abstractmethod
    def begin_samplers(self, chosen: Mapping[str, int]) -> Contract:
        """Start each thread's sampler under these settings; returns the contract."""

    @abstractmethod
    def allocated(self, thread: int, call: Callable[[], int]) -> int:
        """Make a call that allocates, and observe its samples; returns the block's address."""

    def forget(self, address: int) -> None:
        """Forget the block at this address, which is being freed."""

    def pause(self) -> None:
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    @abstractmethod
    def set_period(self, period_bytes: int) -> None:
        """Set the mean of the next distances."""

    def call(self, entry: Callable[[Any, Any], object], action: Action) -> object:
        return self.threads.run(action.thread, lambda: entry(self, action))

    def malloc(self, action: actions.Malloc) -> int:
        size_bytes = self._checked_size(action)
        address = self.allocated(action.thread, lambda: self.library.malloc(size_bytes))
        return self.keep(address, len(self.blocks))

    def calloc(self, action: actions.Calloc) -> int:
        size_bytes, library = self._checked_size(action), self.library
        address = self.allocated(
            action.thread, lambda: library.calloc(action.count, action.size_bytes)
        )
        if not library.is_zero(address, size_bytes):
            raise DamageError("calloc's block is not all zero")
        return self.keep(address, len(self.blocks))

    def realloc(self, action: actions.Realloc) -> int:
        old, size_bytes = self.blocks[action.root], self._checked_size(action)
        old.check()

        def call() -> int:
            address = self.library.realloc(old.address, size_bytes)
            if address != old.address:
                self.forget(old.address)
            return address

        address = self.allocated(action.thread, call)
        _check(self.library, address, old.stamp[:size_bytes], "realloc lost what was in the block")
        return self.keep(address, action.root)

    def free(self, root: int) -> None:
        block = self.blocks.pop(root)
        block.check()
        self.forget(block.address)
        self.library.free(block.address)

    def _checked_size(self, action: actions.Malloc | actions.Calloc | actions.Realloc) -> int:
        size_bytes = requested_bytes(action)
        least = 1 if isinstance(action, actions.Realloc) else 0
        if not least <= size_bytes <= self.block_bytes_max:
            raise ValueError(
                f"{name_of(type(action))} of {size_bytes} bytes; the contract promises {least} to "
                f"{self.block_bytes_max}"
            )
        return size_bytes

    def keep(self, address: int, root: int) -> int:
        """Stamp the block, and put it into a root slot; returns its usable bytes."""
        stamp = next(self._stamps).to_bytes(STAMP_BYTES, "big")
        block = StockBlock(self.library, address, self.library.usable_bytes(address), stamp)
        block.write()
        self.blocks[root : root + 1] = [block]
        return block.room_bytes

    CARRY_OUT: ClassVar[CarryOut] = {
        actions.Malloc: lambda driver, each: driver.malloc(each),
        actions.Calloc: lambda driver, each: driver.calloc(each),
        actions.Realloc: lambda driver, each: driver.realloc(each),
        actions.Free: lambda driver, each: driver.free(each.root),
        actions.SetPeriod: lambda driver, each: driver.set_period(each.period_bytes),
        actions.PauseSampling: lambda driver, _: driver.pause(),
        actions.ResumeSampling: lambda driver, _: driver.resume(),
    }


def _check(library: Allocator, address: int, expected: bytes, problem: str) -> None:
    if not library.holds(address, expected):
        raise DamageError(problem)
