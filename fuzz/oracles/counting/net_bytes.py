"""Counting net bytes: what is freed counts back."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from typing_extensions import override

from fuzz.oracles.counting.bytes import FixedClock
from fuzz.oracles.counting.clock import Clock, distances_of_threads
from fuzz.oracles.counting.distances import Distances
from fuzz.oracles.counting.expected import NONE, ExpectedSample, Request, Sum
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import NetBytes
from fuzz.protocol.observation import Observation


class NetClock(FixedClock):
    """Counts down what is allocated, and up what is freed."""

    def __init__(
        self, rule: SamplingRule, thread: int, distances: Distances, net_bytes: NetBytes
    ) -> None:
        super().__init__(rule, thread, distances)
        self._net_bytes = net_bytes

    @override
    def allocated(self, request: Request, answer: Observation | None) -> Sequence[ExpectedSample]:
        hits = super().allocated(request, answer)
        return NONE if 0 < request.size_bytes == self._net_bytes.unsampled_bytes else hits

    @override
    def freed(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        self.until_bytes += size_bytes
        freed_bytes = self.until_bytes - self._distance_bytes
        if freed_bytes < period_bytes:
            return NONE
        self.until_bytes = self._distance_bytes = period_bytes
        return [ExpectedSample(0, freed_bytes)]

    @override
    def explained(self, its: Sum) -> Sum:
        if not its.hits and 0 < its.counted_bytes == self._net_bytes.unsampled_bytes:
            return attrs.evolve(its, reason="no block of this size is sampled")
        return its


def clocks_of(contract: Contract) -> list[Clock]:
    """A clock for each thread."""
    rule = contract.sampling
    assert isinstance(rule.counting, NetBytes)
    return [
        NetClock(rule, thread, each, rule.counting)
        for thread, each in enumerate(distances_of_threads(rule))
    ]
