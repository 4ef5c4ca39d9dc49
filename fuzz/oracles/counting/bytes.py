"""Plain counting: each thread counts its bytes down to its next sample.

The countdown is in `clock`. Here is what follows when a sample is due.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.oracles.counting.clock import Clock, W
from fuzz.oracles.counting.expected import Alike, ExpectedSample
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import Bytes


class FixedClock(Clock[W]):
    """All distances are the period. A division counts those that end in an allocation."""

    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        first_offset = self.until_bytes - 1 + self._due_at
        if self._rule.surplus == "due":
            self.until_bytes += period_bytes - size_bytes
            return Alike(1, max(first_offset, 0), period_bytes)
        samples = 1 + (size_bytes - self.until_bytes - self._due_at) // period_bytes
        if self._rule.surplus == "carried":
            self.until_bytes += samples * period_bytes - size_bytes
        else:
            hit = self._hit(self.until_bytes, size_bytes)
            self.until_bytes = self._distance_bytes = period_bytes
            if self._rule.weights == "since":
                return [hit]
        return Alike(samples, first_offset, period_bytes)


class DrawnClock(Clock[W]):
    """Draws distances until one ends beyond the allocation."""

    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        hits = []
        sample_point = self.until_bytes
        while size_bytes >= sample_point + self._due_at:
            hits.append(self._hit(sample_point, size_bytes))
            self._draw(period_bytes)
            sample_point += self.until_bytes
        if self._rule.surplus == "carried":
            self.until_bytes = sample_point - size_bytes
        return hits


class DrawnOneByOneClock(Clock[W]):
    """Draws one distance for each sampled allocation. It begins where the last one ended.

    It may end before the allocation does. Then the next allocation is sampled.
    """

    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        offset, left_bytes = self.until_bytes - 1 + self._due_at, self.until_bytes - size_bytes
        self._draw(period_bytes)
        self.until_bytes += left_bytes
        return [ExpectedSample(max(offset, 0))]


class DrawnOnceClock(Clock[W]):
    """Draws one distance for each sampled allocation. It begins at the allocation's end."""

    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        hit = self._hit(self.until_bytes, size_bytes)
        self._draw(period_bytes)
        return [hit]


def kind_of(rule: SamplingRule) -> type[Clock[Bytes]]:
    """The clock that counts by a rule."""
    if not rule.is_drawn:
        return FixedClock
    if rule.surplus == "due":
        return DrawnOneByOneClock
    return DrawnOnceClock if rule.samples_once else DrawnClock


def clocks_of(contract: Contract) -> list[Clock[Bytes]]:
    """One clock per thread."""
    return kind_of(contract.sampling).for_each_thread(contract)
