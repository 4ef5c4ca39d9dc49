"""What became of an allocator's sampled blocks: what TCMalloc's profiles are made of.

A history stands between a mutator and its allocator, and notes of each sampled block where and when
it was allocated and freed. Invariant: it takes no part in what is sampled; the allocator counts and
draws as it would without.

For each sampled block that is small the allocator is asked for a proxy, a second block of the class
that counts nothing and lies among the others, since the sampled one has pages of its own. How many
blocks of the proxy's span are alive says how fragmented that place is. (TCMalloc, How sampling in
TCMalloc works.)
"""

from __future__ import annotations

import attrs

from gcmodel.blocks.block_heap import Block, BlockHeap
from gcmodel.blocks.living_samples import SampledBlock
from gcmodel.estimation import profiles
from gcmodel.estimation.profiles import ProxySpan, SampledObject
from gcmodel.estimation.samples import Sample, Site
from gcmodel.estimation.unbiased import Totals


class BlockHistory:
    """The sampled blocks of an allocator whose samples have weights.

    Times are nanoseconds of any clock, and the caller's.
    """

    def __init__(self, heap: BlockHeap) -> None:
        self._heap = heap
        self._objects: list[SampledObject] = []
        # Of a living block that is sampled: its place among the objects, and its proxy if it has
        # one.
        self._alive: dict[Block, tuple[int, Block | None]] = {}

    @property
    def objects(self) -> tuple[SampledObject, ...]:
        """All that was sampled, in the order in which it was allocated."""
        return tuple(self._objects)

    def malloc(self, requested_bytes: int, kind: str, site: Site, at_ns: int) -> Block:
        """A block with room for `requested_bytes`, 0 or more, for an object of that kind."""
        block = self._heap.malloc(requested_bytes)
        if block.sample is not None:
            sample = _sample_of(block.sample, kind, site)
            self._alive[block] = len(self._objects), self._heap.proxy_of(block)
            self._objects.append(SampledObject(sample=sample, allocated_at_ns=at_ns))
        return block

    def free(self, block: Block, site: Site, at_ns: int) -> None:
        """Take the block back, and its proxy. Raises DoubleFreeError."""
        self._heap.free(block)
        if block in self._alive:
            number, proxy = self._alive.pop(block)
            self._objects[number] = attrs.evolve(
                self._objects[number], freed_at_ns=at_ns, freeing_site=site
            )
            if proxy is not None:
                self._heap.free(proxy)

    def fragmentation(self) -> dict[Site, Totals]:
        """The free blocks that each site's living ones keep from being given back, as of now."""
        return profiles.fragmentation(
            (self._objects[number].sample, self._span_of(proxy))
            for number, proxy in self._alive.values()
        )

    def _span_of(self, proxy: Block | None) -> ProxySpan | None:
        return None if proxy is None else ProxySpan(*self._heap.span_of(proxy))


def _sample_of(sampled: SampledBlock, kind: str, site: Site) -> Sample:
    """Which byte was drawn follows from the weight: the period, and the bytes after that one."""
    period_bytes, weight_bytes = sampled.hit.period_bytes, sampled.hit.weight_bytes
    assert weight_bytes is not None
    return Sample(
        type=kind,
        site=site,
        requested_bytes=sampled.requested_bytes,
        allocated_bytes=sampled.usable_bytes,
        counted_bytes=sampled.counted_bytes,
        offset_bytes=period_bytes + sampled.counted_bytes - 1 - weight_bytes,
        period_bytes=period_bytes,
    )
