"""Counting by streams: objects in the nursery and outside it have distances of their own."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from typing_extensions import override

from fuzz.oracles.counting.bytes import DrawnClock
from fuzz.oracles.counting.clock import Clock, distances_of_threads
from fuzz.oracles.counting.distances import Distances
from fuzz.oracles.counting.expected import ALIKE, NONE, ExpectedSample, Request, Sum
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import Streams
from fuzz.protocol.observation import Observation


class StreamsClock(DrawnClock):
    """Counts what lies in the nursery, and with a clock of its own what lies outside."""

    def __init__(
        self, rule: SamplingRule, thread: int, distances: Distances, streams: Streams
    ) -> None:
        super().__init__(rule, thread, distances)
        self._streams = streams
        self._outside = DrawnClock(rule, thread, distances)

    @override
    def start(self, period_bytes: int, seed: int | None = None) -> None:
        self._outside.start(period_bytes, seed)
        self._draw(period_bytes)

    @override
    def allocated(self, request: Request, answer: Observation | None) -> Sequence[ExpectedSample]:
        size_bytes, period_bytes = request.size_bytes, request.period_bytes
        if period_bytes is None:
            return NONE
        if request.outside:
            hits = self._outside.count(size_bytes, period_bytes)
            self.collected(request.minors, period_bytes)
        else:
            self.collected(request.minors, period_bytes)
            is_postponed = request.kind in self._streams.postponed and self.is_due(size_bytes)
            count = self._postpone if is_postponed else self.count
            hits = count(size_bytes, period_bytes)
        if hits and "callbacks" in self._streams.renewed_by:
            self._draw(period_bytes)
        return hits

    @override
    def collected(self, minors: int, period_bytes: int | None) -> None:
        if period_bytes is not None and "collections" in self._streams.renewed_by:
            for _ in range(minors):
                self._draw(period_bytes)

    def _postpone(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """A sample is due; behind it the distance outside decides."""
        left_bytes = size_bytes - self.until_bytes
        hits = [ALIKE, *self._outside.count(left_bytes, period_bytes)]
        self._draw(period_bytes)
        return hits

    @override
    def explained(self, its: Sum) -> Sum:
        clock = self._outside if its.outside else self
        return attrs.evolve(its, until_bytes=clock.until_as_drawn(its))


def clocks_of(contract: Contract) -> list[Clock]:
    """A clock for the one thread."""
    rule = contract.sampling
    assert isinstance(rule.counting, Streams)
    [distances] = distances_of_threads(rule)
    return [StreamsClock(rule, 0, distances, rule.counting)]
