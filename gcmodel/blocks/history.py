"""The history of an allocator's sampled blocks, from which TCMalloc's profiles are made.

It wraps an allocator, and records where and when each sampled block was allocated and freed.
Invariant: it does not change what is sampled.

A sampled small block has pages of its own. So a history also allocates a proxy for it, another
block of its class that counts nothing and lies among the others. The share of living blocks in the
proxy's span shows the fragmentation there. (TCMalloc, How sampling in TCMalloc works.)
"""

import attrs

from gcmodel.blocks.block_heap import Block, BlockHeap
from gcmodel.blocks.living_samples import SampledBlock
from gcmodel.estimation import profiles
from gcmodel.estimation.profiles import ProxySpan, SampledObject
from gcmodel.estimation.samples import Sample, Site
from gcmodel.estimation.unbiased import Totals


class BlockHistory:
    """The sampled blocks of an allocator whose samples have weights.

    The caller passes the times, in nanoseconds of any clock.
    """

    def __init__(self, heap: BlockHeap) -> None:
        self._heap = heap
        self._objects: list[SampledObject] = []
        # For each living sampled block its index among the objects, and its proxy if it has one.
        self._alive: dict[Block, tuple[int, Block | None]] = {}

    @property
    def objects(self) -> tuple[SampledObject, ...]:
        """All sampled objects, in the order of their allocation."""
        return tuple(self._objects)

    def malloc(self, requested_bytes: int, kind: str, site: Site, at_ns: int) -> Block:
        """Allocate a block with room for `requested_bytes`, 0 or more."""
        block = self._heap.malloc(requested_bytes)
        if block.sample is not None:
            sample = _sample_of(block.sample, kind, site)
            self._alive[block] = len(self._objects), self._heap.proxy_of(block)
            self._objects.append(SampledObject(sample=sample, allocated_at_ns=at_ns))
        return block

    def free(self, block: Block, site: Site, at_ns: int) -> None:
        """Free the block and its proxy. Raises DoubleFreeError."""
        self._heap.free(block)
        if block in self._alive:
            number, proxy = self._alive.pop(block)
            self._objects[number] = attrs.evolve(
                self._objects[number], freed_at_ns=at_ns, freeing_site=site
            )
            if proxy is not None:
                self._heap.free(proxy)

    def fragmentation(self) -> dict[Site, Totals]:
        """The free blocks that each site's living blocks currently keep in their spans."""
        return profiles.fragmentation(
            (
                self._objects[number].sample,
                None if proxy is None else ProxySpan(*self._heap.span_of(proxy)),
            )
            for number, proxy in self._alive.values()
        )


def _sample_of(sampled: SampledBlock, kind: str, site: Site) -> Sample:
    """Compute the drawn byte: the weight is the period plus the bytes behind that byte."""
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
