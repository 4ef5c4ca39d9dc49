"""An allocator without a collector: the mutator allocates, resizes and frees blocks itself.

Threads take turns. Each has a sampler and a cache of small blocks. Invariants: no two living blocks
overlap; requested bytes count once, with the sampler of the requesting thread; freeing or resizing
a freed block is a named error, even if its address is in use again.

`BlockParts` defines which system it is: its size classes, sampler and profile. A sampled block does
not come from the cache, but has the room of its class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import attrs

from gcmodel.blocks.block_sampler import (
    BlockSample,
    BlockSampler,
    GperftoolsSampler,
    JemallocSampler,
    TcmallocSampler,
)
from gcmodel.blocks.living_samples import (
    GperftoolsLivingSamples,
    JemallocLivingSamples,
    LivingSamples,
    SampledBlock,
    TcmallocLivingSamples,
)
from gcmodel.blocks.size_classes import GperftoolsSizes, JemallocSizes, Sizes, TcmallocSizes
from gcmodel.memory.errors import ConfigurationError, DanglingReferenceError, DoubleFreeError


@attrs.define(eq=False)
class Block:
    """A block. `class_bytes` is its class in the thread's cache, None if it is not from there."""

    address: int
    usable_bytes: int
    class_bytes: int | None
    sample: SampledBlock | None
    is_freed: bool = False
    contents: bytes = b""
    """The first bytes, which the mutator has written."""


class ThreadCache:
    """A thread's free blocks of each size class, last in, first out.

    It counts nothing: the sampler counts a block once, whether the cache had one or had to fetch.
    """

    FILL_COUNT = 4
    """How many blocks of a class are fetched at a time."""

    def __init__(
        self, new_address: Callable[[int], int], spans: dict[int, tuple[int, ...]]
    ) -> None:
        """All threads share `spans`: for each address, the addresses fetched with it."""
        self._new_address = new_address
        self._spans = spans
        self._free: defaultdict[int, list[int]] = defaultdict(list)

    def take(self, class_bytes: int) -> int:
        if not self.has(class_bytes):
            self._fill(class_bytes)
        return self._free[class_bytes].pop()

    def has(self, class_bytes: int) -> bool:
        """Whether a block of that class is available without the slow path."""
        return bool(self._free[class_bytes])

    def _fill(self, class_bytes: int) -> None:
        """Fetch free blocks of that class, on the slow path."""
        fetched = tuple(self._new_address(class_bytes) for _ in range(self.FILL_COUNT))
        self._spans.update(dict.fromkeys(fetched, fetched))
        self._free[class_bytes].extend(reversed(fetched))

    def give(self, class_bytes: int, address: int) -> None:
        self._free[class_bytes].append(address)


class BlockHeap:
    """An allocator. `thread` is the thread that makes the next call.

    `hits` has the samples taken since the listener last cleared it.
    """

    def __init__(
        self, parts: BlockParts, period_bytes: int, sampler_seeds: tuple[int, ...]
    ) -> None:
        """Sample one byte in `period_bytes` (1 or more; a power of two for jemalloc).

        Each thread has one seed. Raises ConfigurationError for an argument out of range.
        """
        _check_period(period_bytes)
        if not sampler_seeds:
            raise ConfigurationError("sampler_seeds is empty; it must have one number a thread")
        self.thread = 0
        self.hits: list[BlockSample] = []
        self._parts = parts
        self._sizes = parts.sizes()
        self._profile = parts.profile()
        self._samplers = [parts.sampler(seed, period_bytes) for seed in sampler_seeds]
        self._spans: dict[int, tuple[int, ...]] = {}
        self._in_use: set[int] = set()
        self._caches = [ThreadCache(self._new_address, self._spans) for _ in sampler_seeds]
        self._next_address = 0

    def malloc(self, requested_bytes: int) -> Block:
        """Allocate a block with room for `requested_bytes`, 0 or more."""
        counted_bytes = self._sizes.counted_bytes(requested_bytes)
        hit = self._samplers[self.thread].count(counted_bytes)
        return self._place(requested_bytes, counted_bytes, hit)

    def calloc(self, count: int, size_bytes: int) -> Block:
        """Allocate a block of zeros with room for `count` times `size_bytes`."""
        return self.malloc(count * size_bytes)

    def realloc(self, block: Block, requested_bytes: int) -> Block:
        """Resize a block to `requested_bytes`, 1 or more; return it, or a new one.

        Raises DanglingReferenceError if it was freed.
        """
        if block.is_freed:
            raise DanglingReferenceError("a block is resized that was freed")
        requested = self._sizes.resizing_bytes(block.usable_bytes, requested_bytes)
        if requested is None:
            return self.copied(block, block, requested_bytes)
        counted_bytes = self._sizes.counted_bytes(requested)
        hit = self._samplers[self.thread].count_resized(counted_bytes)
        resized = self.copied(block, self._place(requested, counted_bytes, hit), requested_bytes)
        self.free(block)
        return resized

    def copied(self, block: Block, resized: Block, requested_bytes: int) -> Block:
        """The resized block with what was in the block, up to its own size."""
        resized.contents = block.contents[:requested_bytes]
        return resized

    def free(self, block: Block) -> None:
        """Free a block. Raises DoubleFreeError if it was freed before."""
        if block.is_freed:
            raise DoubleFreeError("a block is freed that was freed before")
        block.is_freed = True
        if block.sample is not None:
            self._profile.remove(block.sample)
        if block.class_bytes is not None:
            self._in_use.remove(block.address)
            self._caches[self.thread].give(block.class_bytes, block.address)

    def proxy_of(self, block: Block) -> Block | None:
        """Another block of the class, which counts nothing, or None if the block is not small."""
        return self._take(block.usable_bytes) if self._is_small(block.usable_bytes) else None

    def span_of(self, block: Block) -> tuple[int, int]:
        """How many blocks the span of a cached block has, and how many of them are in use."""
        span = self._spans[block.address]
        return len(span), len(self._in_use.intersection(span))

    def set_period(self, period_bytes: int) -> None:
        """Draw the next distances for `period_bytes`. The current ones stay.

        Raises ConfigurationError unless it is 1 or more.
        """
        _check_period(period_bytes)
        for sampler in self._samplers:
            sampler.period_bytes = period_bytes
        if self._parts.setting_period_drops:
            self._profile.drop()

    def pause_sampling(self) -> None:
        """Sample nothing, but continue to count and draw. (jemalloc's prof.active.)"""
        for sampler in self._samplers:
            sampler.is_paused = True

    def resume_sampling(self) -> None:
        """Sample blocks again."""
        for sampler in self._samplers:
            sampler.is_paused = False

    def profile(self) -> tuple[int, int]:
        """The objects and the bytes that the samples of living blocks stand for."""
        return self._profile.read()

    def _place(self, requested_bytes: int, counted_bytes: int, hit: BlockSample | None) -> Block:
        usable_bytes = self._sizes.usable_bytes(requested_bytes)
        if hit is not None:
            self.hits.append(hit)
            sample = SampledBlock(hit, requested_bytes, counted_bytes, usable_bytes)
            self._profile.add(sample)
            return Block(self._new_address(usable_bytes), usable_bytes, None, sample)
        if not self._is_small(usable_bytes):
            return Block(self._new_address(usable_bytes), usable_bytes, None, None)
        return self._take(usable_bytes)

    def _take(self, class_bytes: int) -> Block:
        address = self._caches[self.thread].take(class_bytes)
        self._in_use.add(address)
        return Block(address, class_bytes, class_bytes, None)

    def _is_small(self, usable_bytes: int) -> bool:
        return usable_bytes <= self._sizes.SMALL_BYTES_MAX

    def _new_address(self, size_bytes: int) -> int:
        """The address of `size_bytes` that were never in use."""
        address = self._next_address
        self._next_address += size_bytes
        return address


def _check_period(period_bytes: int) -> None:
    if period_bytes < 1:
        raise ConfigurationError(f"period_bytes is {period_bytes}; it must be at least 1")


@attrs.frozen
class BlockParts:
    """The classes of which an allocator is composed, and what setting the period does."""

    sizes: type[Sizes]
    sampler: type[BlockSampler]
    profile: type[LivingSamples]
    setting_period_drops: bool = False
    """Setting the period drops all samples (jemalloc's prof.reset)."""
    heap: type[BlockHeap] = BlockHeap


JEMALLOC = BlockParts(
    JemallocSizes, JemallocSampler, JemallocLivingSamples, setting_period_drops=True
)
TCMALLOC = BlockParts(TcmallocSizes, TcmallocSampler, TcmallocLivingSamples)
GPERFTOOLS = BlockParts(GperftoolsSizes, GperftoolsSampler, GperftoolsLivingSamples)
