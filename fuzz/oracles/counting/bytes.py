"""Plain counting: each thread counts its bytes down to its next sample."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from fuzz.oracles.counting.clock import Clock, distances_of_threads
from fuzz.oracles.counting.expected import Alike, ExpectedSample
from fuzz.protocol.contract import Contract, SamplingRule


class FixedClock(Clock):
    """Distances that are all alike need not be passed one by one: a division counts them."""

    @override
    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        samples = 1 + (size_bytes - self.until_bytes - self._due_at) // period_bytes
        if self._rule.surplus == "carried":
            self.until_bytes += samples * period_bytes - size_bytes
        else:
            hit = self._hit(self.until_bytes, size_bytes)
            self.until_bytes = self._distance_bytes = period_bytes
            if self._rule.weights == "since":
                return [hit]
        return Alike(samples)


class DrawnClock(Clock):
    """Distances are drawn until one ends beyond the allocation: it passes all that end in it."""

    @override
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


class DrawnOnceClock(Clock):
    """One distance is drawn for each allocation that is sampled, and begins at its end."""

    @override
    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        hit = self._hit(self.until_bytes, size_bytes)
        self._draw(period_bytes)
        return [hit]


def kind_of(rule: SamplingRule) -> type[Clock]:
    """Which of them counts by a rule."""
    if not rule.is_drawn:
        return FixedClock
    return DrawnOnceClock if rule.samples_once else DrawnClock


def clocks_of(contract: Contract) -> list[Clock]:
    """A clock for each thread."""
    rule = contract.sampling
    kind = kind_of(rule)
    return [kind(rule, thread, each) for thread, each in enumerate(distances_of_threads(rule))]
