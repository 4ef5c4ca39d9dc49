"""An allocator without a collector: blocks that the mutator asks for, resizes and frees itself.

Several threads take turns, each with a sampler of its own and a cache of small blocks. Invariants:
no two living blocks share an address; whatever is asked for counts once, with the sampler of the
thread that asks; a block that was freed can be neither freed nor resized again, which is a named
error, whoever has its address by then.

Which system it is, by its size classes, sampler and profile, is said by its `BlockParts`. A sampled
block is none of the cache's, and has the room of its class all the same.
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
    """A block. `class_bytes` is what the thread's cache knows it by, None for one of its own."""

    address: int
    usable_bytes: int
    class_bytes: int | None
    sample: SampledBlock | None
    is_freed: bool = False


class ThreadCache:
    """A thread's free blocks of each size class, those given back last in use first.

    An address is handed out again only after it was given back. Nothing is counted here: the
    sampler counts a block once, whether the cache had one or had to be filled.
    """

    FILL_COUNT = 4
    """How many blocks of a class are fetched at a time."""

    def __init__(
        self, new_address: Callable[[int], int], spans: dict[int, tuple[int, ...]]
    ) -> None:
        """`spans`, which all threads' caches share, has the addresses fetched with each."""
        self._new_address = new_address
        self._spans = spans
        self._free: defaultdict[int, list[int]] = defaultdict(list)

    def take(self, class_bytes: int) -> int:
        if not self.has(class_bytes):
            self._fill(class_bytes)
        return self._free[class_bytes].pop()

    def has(self, class_bytes: int) -> bool:
        """Whether a block of that class can be taken without the slow path."""
        return bool(self._free[class_bytes])

    def _fill(self, class_bytes: int) -> None:
        """The slow path: fetch free blocks of that class."""
        fetched = tuple(self._new_address(class_bytes) for _ in range(self.FILL_COUNT))
        self._spans.update(dict.fromkeys(fetched, fetched))
        self._free[class_bytes].extend(reversed(fetched))

    def give(self, class_bytes: int, address: int) -> None:
        self._free[class_bytes].append(address)


class BlockHeap:
    """An allocator. `thread` is the mutator's thread that does whatever is asked next.

    `hits` are the samples taken so far; the listener clears the list.
    """

    def __init__(
        self, parts: BlockParts, period_bytes: int, sampler_seeds: tuple[int, ...]
    ) -> None:
        """Sample one byte in `period_bytes` (1 or more; a power of two for jemalloc).

        There are as many threads as seeds. Raises ConfigurationError for what is out of range.
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
        """A block with room for `requested_bytes`, 0 or more."""
        counted_bytes = self._sizes.counted_bytes(requested_bytes)
        hit = self._samplers[self.thread].count(counted_bytes)
        return self._place(requested_bytes, counted_bytes, hit)

    def calloc(self, count: int, size_bytes: int) -> Block:
        """A block of zeros with room for `count` times `size_bytes`."""
        return self.malloc(count * size_bytes)

    def realloc(self, block: Block, requested_bytes: int) -> Block:
        """The block with room for `requested_bytes`, 1 or more; `block` itself, or one instead.

        Raises DanglingReferenceError if it was freed.
        """
        if block.is_freed:
            raise DanglingReferenceError("a block is resized that was freed")
        requested = self._sizes.resizing_bytes(block.usable_bytes, requested_bytes)
        if requested is None:
            return block
        counted_bytes = self._sizes.counted_bytes(requested)
        hit = self._samplers[self.thread].count_resized(counted_bytes)
        resized = self._place(requested, counted_bytes, hit)
        self.free(block)
        return resized

    def free(self, block: Block) -> None:
        """Take the block back. Raises DoubleFreeError if it was freed before."""
        if block.is_freed:
            raise DoubleFreeError("a block is freed that was freed before")
        block.is_freed = True
        if block.sample is not None:
            self._profile.remove(block.sample)
        if block.class_bytes is not None:
            self._in_use.remove(block.address)
            self._caches[self.thread].give(block.class_bytes, block.address)

    def proxy_of(self, block: Block) -> Block | None:
        """Another block of the class, which counts nothing; None if the block is not small."""
        return self._take(block.usable_bytes) if self._is_small(block.usable_bytes) else None

    def span_of(self, block: Block) -> tuple[int, int]:
        """Of a block of the cache: how many lie where it does, and how many of them are in use."""
        span = self._spans[block.address]
        return len(span), len(self._in_use.intersection(span))

    def set_period(self, period_bytes: int) -> None:
        """Distances are drawn for `period_bytes` from here on; those that are under way stay.

        Raises ConfigurationError unless it is 1 or more.
        """
        _check_period(period_bytes)
        for sampler in self._samplers:
            sampler.period_bytes = period_bytes
        if self._parts.setting_period_drops:
            self._profile.drop()

    def pause_sampling(self) -> None:
        """Samplers count and draw as ever, but nothing is sampled. (jemalloc's prof.active.)"""
        for sampler in self._samplers:
            sampler.is_paused = True

    def resume_sampling(self) -> None:
        """Blocks are sampled again. Harmless if sampling was not paused."""
        for sampler in self._samplers:
            sampler.is_paused = False

    def profile(self) -> tuple[int, int]:
        """The objects and the bytes that the samples of what is alive stand for."""
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
        """A block of that class, of the thread's cache."""
        address = self._caches[self.thread].take(class_bytes)
        self._in_use.add(address)
        return Block(address, class_bytes, class_bytes, None)

    def _is_small(self, usable_bytes: int) -> bool:
        return usable_bytes <= self._sizes.SMALL_BYTES_MAX

    def _new_address(self, size_bytes: int) -> int:
        """Where `size_bytes` are free that never were in use."""
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
    """Whether the samples taken are forgotten when the period is set (jemalloc's prof.reset)."""
    heap: type[BlockHeap] = BlockHeap


JEMALLOC = BlockParts(
    JemallocSizes, JemallocSampler, JemallocLivingSamples, setting_period_drops=True
)
TCMALLOC = BlockParts(TcmallocSizes, TcmallocSampler, TcmallocLivingSamples)
GPERFTOOLS = BlockParts(GperftoolsSizes, GperftoolsSampler, GperftoolsLivingSamples)
