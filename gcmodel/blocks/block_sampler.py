"""When an allocator samples a block: one counter a thread, and a distance to the next sample.

Invariant: each thread counts its own bytes, and counts them once. After a sample the bytes beyond
it are dropped, and a new distance starts behind the block.
"""

from abc import ABC, abstractmethod

import attrs

from gcmodel.estimation.tcmalloc import weight_bytes
from gcmodel.sampling.distances import Distances, Gperftools, Jemalloc, Tcmalloc


@attrs.frozen
class BlockSample:
    """A sample of a block.

    `weight_bytes` is how many allocated bytes it stands for, if the sampler computes that. Then
    `period_bytes` is the mean distance when its distance was drawn, and otherwise the current one.
    """

    period_bytes: int
    weight_bytes: int | None = None


class BlockSampler(ABC):
    """One thread's sampler. While `is_paused` it counts and draws, and samples nothing."""

    def __init__(self, seed: int, period_bytes: int) -> None:
        self.period_bytes = period_bytes
        self.is_paused = False
        self._seed = seed

    @abstractmethod
    def count(self, counted_bytes: int) -> BlockSample | None:
        """Count a block, and return its sample if it is sampled."""

    def count_resized(self, counted_bytes: int) -> BlockSample | None:
        """Count a block that is resized, by default like a new one."""
        return self.count(counted_bytes)


class JemallocSampler(BlockSampler):
    """Samples when the bytes allocated since the last event reach the wait.

    Other events share `thread.allocated`, the count of bytes. (jemalloc 5.3.0, thread_event.h and
    prof.h.)
    """

    def __init__(self, seed: int, period_bytes: int) -> None:
        super().__init__(seed, period_bytes)
        self._distances = Jemalloc(seed)
        self.allocated_bytes = 0
        self.last_event_bytes = 0
        self.wait_bytes = self.draw()

    def draw(self) -> int:
        """Draw a wait for the current period."""
        return self._distances.draw(self.period_bytes)

    def count(self, counted_bytes: int) -> BlockSample | None:
        self.allocated_bytes += counted_bytes
        if self.allocated_bytes - self.last_event_bytes < self.wait_bytes:
            return None
        return self.fire()

    def fire(self) -> BlockSample | None:
        """End the wait, and start the next one."""
        self.last_event_bytes = self.allocated_bytes
        self.wait_bytes = self.draw()
        return None if self.is_paused else BlockSample(self.period_bytes)


class GperftoolsSampler(BlockSampler):
    """Samples a block that counts more than the bytes left until the next sample.

    This is the intended rule. In the implementation, a thread's generator is seeded again at its
    first sample, and the main thread's first distance is 16 MiB. Samples have no weight.
    (gperftools 2.10, sampler.h.)
    """

    DISTANCES: type[Gperftools] = Gperftools

    def __init__(self, seed: int, period_bytes: int) -> None:
        super().__init__(seed, period_bytes)
        self.distances: Distances = self.DISTANCES(seed)
        self.left_bytes = 0
        self.picked_period_bytes = 0
        self.pick()

    def pick(self) -> None:
        """Start a new distance."""
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
        """The sample that is due, `-left_bytes` bytes before the end of the counted bytes."""
        return BlockSample(self.period_bytes)


class TcmallocSampler(GperftoolsSampler):
    """Samples stand for the period and the bytes of the block beyond the drawn byte.

    The period is the one for which the distance was drawn. (google/tcmalloc,
    Sampler::RecordAllocationSlow.)
    """

    DISTANCES = Tcmalloc

    def hit(self) -> BlockSample:
        period_bytes = self.picked_period_bytes
        return BlockSample(period_bytes, weight_bytes(self.left_bytes, period_bytes))
