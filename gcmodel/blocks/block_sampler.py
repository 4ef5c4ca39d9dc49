"""When an allocator samples a block: one counter a thread, and a distance to the next sample.

Invariant: each thread counts for itself, and whatever it counts is counted once. After a sample the
bytes beyond it are dropped, and a fresh distance begins behind the block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import attrs

from gcmodel.estimation.tcmalloc import weight_bytes
from gcmodel.sampling.distances import Distances, Gperftools, Jemalloc, Tcmalloc


@attrs.frozen
class BlockSample:
    """A block is sampled.

    `weight_bytes` is how many allocated bytes the sample stands for, where the sampler says so.
    `period_bytes` is the mean distance of now, or with a weight the one that it was made with.
    """

    period_bytes: int
    weight_bytes: int | None = None


class BlockSampler(ABC):
    """One thread's. While `is_paused` it counts and draws, and samples nothing."""

    def __init__(self, seed: int, period_bytes: int) -> None:
        self.period_bytes = period_bytes
        self.is_paused = False
        self._seed = seed

    @abstractmethod
    def count(self, counted_bytes: int) -> BlockSample | None:
        """A block counts so many bytes; how it is sampled, or None if it is not."""

    def count_resized(self, counted_bytes: int) -> BlockSample | None:
        """The same for a block that is resized: it counts like a new one."""
        return self.count(counted_bytes)


class JemallocSampler(BlockSampler):
    """Sampled when as many bytes as the wait were allocated since the last event.

    The bytes are those of `thread.allocated`, which other events share. (jemalloc 5.3.0,
    thread_event.h and prof.h.)
    """

    def __init__(self, seed: int, period_bytes: int) -> None:
        super().__init__(seed, period_bytes)
        self._distances = Jemalloc(seed)
        self.allocated_bytes = 0
        self.last_event_bytes = 0
        self.wait_bytes = self.draw()

    def draw(self) -> int:
        """A fresh wait, for the period of now."""
        return self._distances.draw(self.period_bytes)

    def count(self, counted_bytes: int) -> BlockSample | None:
        self.allocated_bytes += counted_bytes
        if self.allocated_bytes - self.last_event_bytes < self.wait_bytes:
            return None
        return self.fire()

    def fire(self) -> BlockSample | None:
        """The wait is over."""
        self.last_event_bytes = self.allocated_bytes
        self.wait_bytes = self.draw()
        return None if self.is_paused else BlockSample(self.period_bytes)


class GperftoolsSampler(BlockSampler):
    """Sampled when a block counts more than the bytes that are left until the next sample.

    As it was meant: from the first block on, whatever its thread. As it was built, a thread's
    generator begins anew at its first sample, and the main thread's first distance is 16 MiB.
    Nothing is said of what a sample stands for. (gperftools 2.10, sampler.h.)
    """

    DISTANCES: type[Gperftools] = Gperftools

    def __init__(self, seed: int, period_bytes: int) -> None:
        super().__init__(seed, period_bytes)
        self.distances: Distances = self.DISTANCES(seed)
        self.left_bytes = 0
        self.picked_period_bytes = 0
        self.pick()

    def pick(self) -> None:
        """A fresh distance begins."""
        self.picked_period_bytes = self.period_bytes
        self.left_bytes = self.distances.draw(self.period_bytes)

    def count(self, counted_bytes: int) -> BlockSample | None:
        self.left_bytes -= counted_bytes
        if self.left_bytes >= 0:
            return None
        hit = self.hit()
        self.pick()
        return hit

    def hit(self) -> BlockSample:
        """A sample is due, `-left_bytes` bytes before the end of what was counted."""
        return BlockSample(self.period_bytes)


class TcmallocSampler(GperftoolsSampler):
    """A sample stands for the period, and what of its block lies beyond the byte that was drawn.

    The period is the one with which the distance was drawn. (google/tcmalloc,
    Sampler::RecordAllocationSlow.)
    """

    DISTANCES = Tcmalloc

    def hit(self) -> BlockSample:
        period_bytes = self.picked_period_bytes
        return BlockSample(period_bytes, weight_bytes(self.left_bytes, period_bytes))
