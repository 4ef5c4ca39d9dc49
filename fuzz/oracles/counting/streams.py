"""Counting by streams: objects in the nursery and outside it have separate distances."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fuzz.oracles.counting.bytes import DrawnClock
from fuzz.oracles.counting.distances.generator import Generator
from fuzz.oracles.counting.expected import ALIKE, NONE, ExpectedSample, Request, Sum
from fuzz.protocol.contract import SamplingRule
from fuzz.protocol.counting import Streams
from fuzz.protocol.observation import Observation


class StreamsClock(DrawnClock[Streams]):
    """Counts objects in the nursery. A second clock counts those outside."""

    def __init__(self, rule: SamplingRule, thread: int, generator: Generator) -> None:
        super().__init__(rule, thread, generator)
        self._outside = DrawnClock[Streams](rule, thread, generator)

    def start(self, period_bytes: int, seed: int | None = None) -> None:
        self._outside.start(period_bytes, seed)
        self._draw(period_bytes)

    def allocated(self, request: Request, observation: Observation) -> Sequence[ExpectedSample]:
        size_bytes, period_bytes = request.size_bytes, request.period_bytes
        if period_bytes is None:
            return NONE
        if request.outside:
            hits = self._outside.count(size_bytes, period_bytes)
            self.collected(observation.minors, period_bytes)
        else:
            self.collected(observation.minors, period_bytes)
            is_postponed = request.kind in self._counting.postponed and self.is_due(size_bytes)
            count = self._postpone if is_postponed else self.count
            hits = count(size_bytes, period_bytes)
        if hits and "callbacks" in self._counting.renewed_by:
            self._draw(period_bytes)
        return hits

    def collected(self, minors: int, period_bytes: int | None) -> None:
        if period_bytes is not None and "collections" in self._counting.renewed_by:
            for _ in range(minors):
                self._draw(period_bytes)

    def _postpone(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """The samples if one is due. The distance outside decides about the bytes after it."""
        left_bytes = size_bytes - self.until_bytes
        hits = [ALIKE, *self._outside.count(left_bytes, period_bytes)]
        self._draw(period_bytes)
        return hits

    def explained(self, its: Sum) -> Sum:
        clock = self._outside if its.outside else self
        return attrs.evolve(its, until_bytes=clock.until_as_drawn(its))


clocks_of = StreamsClock.for_each_thread
