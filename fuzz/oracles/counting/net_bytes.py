"""Counting net bytes: freed bytes count back."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fuzz.oracles.counting.bytes import FixedClock
from fuzz.oracles.counting.expected import NONE, ExpectedSample, Request, Sum
from fuzz.protocol.counting import NetBytes
from fuzz.protocol.observation import Observation


class NetClock(FixedClock[NetBytes]):
    """Counts allocated bytes down and freed bytes up."""

    def allocated(self, request: Request, observation: Observation) -> Sequence[ExpectedSample]:
        hits = super().allocated(request, observation)
        return NONE if 0 < request.size_bytes == self._counting.unsampled_bytes else hits

    def freed(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        self.until_bytes += size_bytes
        freed_bytes = self.until_bytes - self._distance_bytes
        if freed_bytes < period_bytes:
            return NONE
        self.until_bytes = self._distance_bytes = period_bytes
        return [ExpectedSample(0, freed_bytes)]

    def explained(self, its: Sum) -> Sum:
        if not its.hits and 0 < its.counted_bytes == self._counting.unsampled_bytes:
            return attrs.evolve(its, reason="no block of this size is sampled")
        return its


clocks_of = NetClock.for_each_thread
