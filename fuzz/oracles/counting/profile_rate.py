"""Counting by a profile rate: each allocation compares it with the rate of its thread."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fuzz.oracles.counting.bytes import DrawnOnceClock
from fuzz.oracles.counting.expected import ExpectedSample, Request, Sum
from fuzz.protocol.counting import ProfileRate
from fuzz.protocol.observation import Observation


class RateClock(DrawnOnceClock[ProfileRate]):
    """Counts down to the next sample. The rate in force may sample an allocation earlier."""

    # The period of the last distance that was drawn; 0 if sampling was off.
    _drawn_period_bytes = 0

    def allocated(self, request: Request, observation: Observation) -> Sequence[ExpectedSample]:
        period_bytes = request.period_bytes or 0
        if self._is_certain(period_bytes):
            self.until_bytes = 0
            return self._take(request.size_bytes, period_bytes)
        return super().allocated(request, observation)

    def _is_certain(self, period_bytes: int) -> bool:
        """Whether the next allocation is sampled, regardless of the distance."""
        if period_bytes and period_bytes == self._counting.certain_period_bytes:
            return True
        return self._counting.new_period == "samples" and period_bytes != self._drawn_period_bytes

    def explained(self, its: Sum) -> Sum:
        left_bytes = its.until_bytes or 0
        if its.hits and its.period_bytes == self._counting.certain_period_bytes:
            return attrs.evolve(its, reason="this period samples each allocation")
        if its.hits and its.counted_bytes < left_bytes + self._due_at:
            return attrs.evolve(its, reason="the period is a new one")
        return its

    def _draw(self, period_bytes: int) -> None:
        super()._draw(period_bytes)
        self._drawn_period_bytes = period_bytes
        self._generator.skip(self._counting.spent_numbers)


clocks_of = RateClock.for_each_thread
