"""Counting with a generator that is seeded when a sample is first due."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from typing_extensions import override

from fuzz.oracles.counting.bytes import DrawnClock, DrawnOnceClock
from fuzz.oracles.counting.clock import Clock, distances_of_threads
from fuzz.oracles.counting.distances import Distances, distances_of
from fuzz.oracles.counting.expected import ExpectedSample, Sum
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import LazySeeds


class LazyClock(Clock):
    """Counts down a first distance, which only says when the generator is seeded."""

    def __init__(
        self, rule: SamplingRule, thread: int, distances: Distances, lazy_seeds: LazySeeds
    ) -> None:
        super().__init__(rule, thread, distances)
        self._seed: int | None = lazy_seeds.seeds[thread]

    @override
    def count(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        if self._seed is not None and self.is_due(size_bytes):
            self._distances = distances_of(self._rule.distances, self._seed)
            self._seed = None
            self._draw(period_bytes)
        return super().count(size_bytes, period_bytes)

    @override
    def explained(self, its: Sum) -> Sum:
        return attrs.evolve(its, until_bytes=self.until_as_drawn(its))


class LazyDrawnClock(LazyClock, DrawnClock):
    """Passes all distances that end in an allocation."""


class LazyDrawnOnceClock(LazyClock, DrawnOnceClock):
    """Draws one distance for each allocation that is sampled."""


def clocks_of(contract: Contract) -> list[Clock]:
    """A clock for each thread."""
    rule = contract.sampling
    assert isinstance(rule.counting, LazySeeds)
    kind = LazyDrawnOnceClock if rule.samples_once else LazyDrawnClock
    return [
        kind(rule, thread, each, rule.counting)
        for thread, each in enumerate(distances_of_threads(rule))
    ]
