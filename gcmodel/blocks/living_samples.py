"""Estimates of living blocks from their samples: how many objects, and how many bytes.

Invariant: each sample is unbiased by itself and then added, because a sum over blocks of several
sizes cannot be unbiased. (jemalloc, PROFILING_INTERNALS.md, "Aggregation must be done after
unbiasing samples".)
"""

import math
from abc import ABC, abstractmethod

import attrs

from gcmodel.blocks.block_sampler import BlockSample
from gcmodel.estimation import jemalloc, tcmalloc


@attrs.frozen(eq=False)
class SampledBlock:
    """A block when it was sampled. `usable_bytes` is its room if it were not sampled."""

    hit: BlockSample
    requested_bytes: int
    counted_bytes: int
    usable_bytes: int


def chance(counted_bytes: int, period_bytes: int) -> float:
    """The probability that a block is sampled, if the sampled bytes are a Poisson process."""
    return -math.expm1(-counted_bytes / period_bytes)


class LivingSamples(ABC):
    """The samples of the living blocks, the oldest first."""

    def __init__(self) -> None:
        self._alive: dict[SampledBlock, None] = {}

    def add(self, sample: SampledBlock) -> None:
        self._alive[sample] = None

    def remove(self, sample: SampledBlock) -> None:
        """Remove the sample of a freed block, unless it was dropped."""
        self._alive.pop(sample, None)

    def drop(self) -> None:
        self._alive.clear()

    def read(self) -> tuple[int, int]:
        """The objects and the bytes that the samples stand for."""
        stand_for = [self.stands_for(sample) for sample in self._alive]
        return round(sum(count for count, _ in stand_for)), sum(size for _, size in stand_for)

    @abstractmethod
    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        """The objects and the bytes that one sample stands for."""


class JemallocLivingSamples(LivingSamples):
    """Counts objects in eighths. (jemalloc 5.3.0, prof_unbias_map_init.)"""

    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        figures = sample.counted_bytes, sample.hit.period_bytes
        eighths = jemalloc.unbiased_eighths(*figures)
        return eighths / jemalloc.EIGHTHS, jemalloc.unbiased_bytes(*figures)


class GperftoolsLivingSamples(LivingSamples):
    """Unbiases the counted bytes, as intended. (pprof unbiases the requested bytes.)"""

    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        probability = chance(sample.counted_bytes, sample.hit.period_bytes)
        return 1 / probability, round(sample.usable_bytes / probability)


class TcmallocLivingSamples(LivingSamples):
    """The weight is a number of counted bytes. (google/tcmalloc, allocation_sample.h.)"""

    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        assert sample.hit.weight_bytes is not None
        represented = tcmalloc.bytes_represented(
            sample.hit.weight_bytes, sample.usable_bytes, sample.requested_bytes
        )
        return tcmalloc.objects_represented(represented, sample.usable_bytes), represented
