"""The base of the drivers of stock allocators, each in its own process.

Each thread of the mutator is a thread of this process, and the library has a sampler for each. The
threads take turns. Each block is filled with the bytes of its number, which are compared when it is
resized, freed or checked, and at the next header. Of a large block, only its pieces are: see
`pieces`. Blocks that overlap show by their addresses. Invariant: a header frees all blocks, so the
answers to a trace do not depend on the traces before it. A block that overlaps another one, or that
calloc has not cleared, is a failure; it is not freed, since that might crash.
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
from fuzz.protocol.written import NUMBER_BYTES, SHOWN_BYTES, contents_of, number_in
from fuzz.targets.allocators.stock_library import Allocator
from fuzz.targets.process.driver import CarryOut, Driver
from fuzz.targets.process.threads import Result, Threads

AnyLibrary = TypeVar("AnyLibrary", bound=Allocator)
AnySampler = TypeVar("AnySampler")


class DamageError(ValueError):
    """A block has other bytes than were written, or than calloc promises, or overlaps another."""


@attrs.frozen
class StockBlock:
    """A live block of `size_bytes` requested bytes. Its pieces have the bytes of its number."""

    library: Allocator
    address: int
    size_bytes: int
    capacity_bytes: int
    number: int

    def write(self) -> None:
        self.library.fill(self.address, self.number, self.capacity_bytes)

    def check(self) -> None:
        """Raises DamageError if a byte has changed. It is written again, so that it shows once."""
        if difference := self.difference():
            self.write()
            raise DamageError(f"block {self.number} is damaged: {_shown(*difference)}")

    def row(self) -> list[int]:
        """The answer of `check_contents`. Raises DamageError for a byte that was not requested."""
        row = [number_in(contents_of(self.number, min(self.size_bytes, NUMBER_BYTES)))]
        if difference := self.difference():
            offset, found = difference
            if offset >= self.size_bytes:
                self.check()
            self.write()
            row += [offset, *found[: self.size_bytes - offset][:SHOWN_BYTES]]
        return row

    def difference(self) -> tuple[int, bytes] | None:
        """The offset of the first byte that has changed, and the bytes from there on."""
        return self.library.difference(self.address, self.number, self.capacity_bytes)


def _shown(offset: int, found: bytes) -> str:
    return f"at offset {offset} it has {found[:SHOWN_BYTES].hex(' ')}"


class BlockDriver(Driver, Generic[AnyLibrary, AnySampler]):
    """An allocator that only the mutator uses. `threads` is one of its settings."""

    block_bytes_max: int
    load: Callable[..., AnyLibrary]
    """Loads the library of a name, or without arguments the usual one. Raises BadInputError."""

    def __init__(self, name: str, *library_name: str) -> None:
        super().__init__(name)
        self._library_name = library_name
        self.samplers: list[AnySampler] = []
        """The samplers of the threads that were needed until now."""
        self.blocks: list[StockBlock] = []
        """A block for each root slot."""
        self.threads = Threads()
        self._numbers = count(1)

    @cached_property
    def library(self) -> AnyLibrary:
        """The library, which is loaded at the first header."""
        return self.load(*self._library_name)

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        self._free_all()
        for thread in range(len(self.samplers), self.thread_count):
            self.samplers.append(self.run(thread, self.find_sampler))
        return attrs.evolve(self.begin_samplers(chosen), version=self.library.version)

    def _free_all(self) -> None:
        """Free the blocks of the last trace. Raises DamageError for the first damaged one."""
        blocks, self.blocks, self._numbers = self.blocks, [], count(1)
        damage: list[DamageError] = []
        for block in blocks:
            try:
                block.check()
            except DamageError as problem:
                damage.append(problem)
            self.library.free(block.address)
        if damage:
            raise damage[0]

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

    def switch(self, *, is_on: bool) -> None:
        raise NotImplementedError

    @abstractmethod
    def set_period(self, period_bytes: int) -> None:
        """Set the mean of the next distances."""

    def call(self, entry: Callable[[Any, Any], object], action: Action) -> object:
        return self.run(action.thread, lambda: entry(self, action))

    def run(self, thread: int, work: Callable[[], Result]) -> Result:
        """The result of work in a thread of the mutator."""
        return self.threads.run(thread, work)

    def malloc(self, action: actions.Malloc) -> int:
        size_bytes = self._checked_size(action)
        address = self.allocated(action.thread, lambda: self.library.malloc(size_bytes))
        return self.keep(address, len(self.blocks), size_bytes, next(self._numbers))

    def calloc(self, action: actions.Calloc) -> int:
        size_bytes, library = self._checked_size(action), self.library
        address = self.allocated(
            action.thread, lambda: library.calloc(action.count, action.size_bytes)
        )
        number = next(self._numbers)
        if not library.is_zero(address, number, size_bytes):
            raise DamageError("calloc's block is not all zero")
        return self.keep(address, len(self.blocks), size_bytes, number)

    def realloc(self, action: actions.Realloc) -> int:
        old, size_bytes = self.blocks[action.root], self._checked_size(action)
        old.check()
        kept_bytes = min(old.size_bytes, size_bytes)
        # The last bytes that are kept may be in no piece of the block.
        self.library.fill(old.address, old.number, kept_bytes)

        def call() -> int:
            address = self.library.realloc(old.address, size_bytes)
            if address != old.address:
                self.forget(old.address)
            return address

        address = self.allocated(action.thread, call)
        lost = self.library.difference(address, old.number, kept_bytes)
        capacity_bytes = self.keep(address, action.root, size_bytes, old.number)
        if lost:
            raise DamageError(f"realloc lost what was in block {old.number}: {_shown(*lost)}")
        return capacity_bytes

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

    def keep(self, address: int, root: int, size_bytes: int, number: int) -> int:
        """Fill the block of a number, and put it into a root slot; returns its usable bytes.

        Raises DamageError if it overlaps another one, and does not keep it, so that it shows once.
        """
        capacity_bytes = self.library.usable_bytes(address)
        del self.blocks[root : root + 1]
        for other in self.blocks:
            is_behind = address >= other.address + other.capacity_bytes
            if not is_behind and address + capacity_bytes > other.address:
                raise DamageError(f"block {number} overlaps block {other.number}")
        block = StockBlock(self.library, address, size_bytes, capacity_bytes, number)
        block.write()
        self.blocks.insert(root, block)
        return capacity_bytes

    CARRY_OUT: ClassVar[CarryOut] = {
        actions.Malloc: lambda driver, each: driver.malloc(each),
        actions.Calloc: lambda driver, each: driver.calloc(each),
        actions.Realloc: lambda driver, each: driver.realloc(each),
        actions.Free: lambda driver, each: driver.free(each.root),
        actions.SetPeriod: lambda driver, each: driver.set_period(each.period_bytes),
        actions.PauseSampling: lambda driver, _: driver.switch(is_on=False),
        actions.ResumeSampling: lambda driver, _: driver.switch(is_on=True),
        actions.CheckContents: lambda driver, _: [block.row() for block in driver.blocks],
    }
