"""Counting by a profile rate that every allocation compares with its thread's."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from typing_extensions import override

from fuzz.oracles.counting.bytes import DrawnOnceClock
from fuzz.oracles.counting.clock import Clock, distances_of_threads
from fuzz.oracles.counting.distances import Distances
from fuzz.oracles.counting.expected import ExpectedSample, Request, Sum
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import ProfileRate
from fuzz.protocol.observation import Observation


class RateClock(DrawnOnceClock):
    """Counts down to the next sample, unless the rate in force makes this allocation one."""

    def __init__(
        self, rule: SamplingRule, thread: int, distances: Distances, rate: ProfileRate
    ) -> None:
        self._rate = rate
        # The period for which the distance was drawn; 0 if sampling was off.
        self._known_period_bytes = 0
        super().__init__(rule, thread, distances)

    @override
    def allocated(self, request: Request, answer: Observation | None) -> Sequence[ExpectedSample]:
        period_bytes = request.period_bytes or 0
        if self._is_certain(period_bytes):
            self.until_bytes = 0
            return self._take(request.size_bytes, period_bytes)
        return super().allocated(request, answer)

    def _is_certain(self, period_bytes: int) -> bool:
        """Whether the next allocation is sampled wherever the distance ends."""
        if period_bytes and period_bytes == self._rate.certain_period_bytes:
            return True
        return self._rate.new_period == "samples" and period_bytes != self._known_period_bytes

    @override
    def explained(self, its: Sum) -> Sum:
        left_bytes = its.until_bytes or 0
        if its.hits and its.period_bytes == self._rate.certain_period_bytes:
            return attrs.evolve(its, reason="this period samples each allocation")
        if its.hits and its.counted_bytes < left_bytes + self._due_at:
            return attrs.evolve(its, reason="the period is a new one")
        return its

    @override
    def _draw(self, period_bytes: int) -> None:
        super()._draw(period_bytes)
        self._known_period_bytes = period_bytes
        self._distances.skip(self._rate.spent_numbers)


def clocks_of(contract: Contract) -> list[Clock]:
    """A clock for each thread."""
    rule = contract.sampling
    assert isinstance(rule.counting, ProfileRate)
    return [
        RateClock(rule, thread, each, rule.counting)
        for thread, each in enumerate(distances_of_threads(rule))
    ]
