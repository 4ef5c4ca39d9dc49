"""Counting with a generator that is seeded when a sample is first due."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fuzz.oracles.counting.bytes import DrawnClock, DrawnOnceClock
from fuzz.oracles.counting.clock import Clock
from fuzz.oracles.counting.distances.generator import Generator
from fuzz.oracles.counting.expected import ExpectedSample, Sum
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import LazySeeds


class LazyClock(Clock[LazySeeds]):
    """Counts down a first distance. Its end only decides when the generator is seeded."""

    def __init__(self, rule: SamplingRule, thread: int, generator: Generator) -> None:
        super().__init__(rule, thread, generator)
        self._seed: int | None = self._counting.seeds[thread]

    def count(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        if self._seed is not None and self.is_due(size_bytes):
            self._generator.reseed(self._seed)
            self._seed = None
            self._draw(period_bytes)
        return super().count(size_bytes, period_bytes)

    def explained(self, its: Sum) -> Sum:
        return attrs.evolve(its, until_bytes=self.until_as_drawn(its))


class LazyDrawnClock(LazyClock, DrawnClock[LazySeeds]):
    """Passes all distances that end in an allocation."""


class LazyDrawnOnceClock(LazyClock, DrawnOnceClock[LazySeeds]):
    """Draws one distance for each sampled allocation."""


def clocks_of(contract: Contract) -> Sequence[Clock[LazySeeds]]:
    """One clock per thread."""
    kind = LazyDrawnOnceClock if contract.sampling.samples_once else LazyDrawnClock
    return kind.for_each_thread(contract)
