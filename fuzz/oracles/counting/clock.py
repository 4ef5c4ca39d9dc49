"""A clock: the bytes that one thread has left until its next sample, by arithmetic alone.

    until_bytes |-------------------->*  the byte that is sampled, `crosses` says which exactly
    room_bytes  |------------->|         what the thread has left of its part of the nursery

Invariant: what a clock predicts follows from the rule, the thread's seed, and the requests. This
base class reads the keys that all ways to count share; a key of one way is read in its module.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from fuzz.oracles.counting.distances import Distances, distances_of
from fuzz.oracles.counting.expected import NONE, ExpectedSample, Place, Request, Sum, is_open
from fuzz.protocol.contract import SamplingRule
from fuzz.protocol.observation import Observation


class Clock(ABC):
    """One thread's. What it does once a sample is due is a matter of its subclass."""

    def __init__(self, rule: SamplingRule, thread: int, distances: Distances) -> None:
        self._rule = rule
        self._distances = distances
        self._first_bytes = rule.first_bytes[thread] if rule.first_bytes else None
        # The period for which the present distance was drawn, or counts, and that distance.
        self._distance_period_bytes = 0
        self._distance_bytes = 0
        self._due_at = int(rule.crosses == "beyond")
        self.until_bytes = 0
        # Where the last allocation's object lies, if that is predicted.
        self.place: Place | None = None
        if rule.enabling == "keeps" and self._first_bytes is not None:
            self._begin()
        elif rule.enabling == "keeps" and rule.initial_period_bytes:
            self._draw(rule.initial_period_bytes)

    @property
    def room_bytes(self) -> int:
        """What the thread has left of its part of the nursery."""
        return 0

    def _begin(self) -> None:
        """The first distance begins."""
        assert self._first_bytes is not None
        self.until_bytes, self._first_bytes = self._first_bytes, None

    def start(self, period_bytes: int, seed: int | None = None) -> None:
        """Sampling is enabled. No seed: the target reported none."""
        if seed is not None and self._rule.enabling == "reseeds":
            self._distances.reseed(seed)
        self._distances.restart()
        self._distance_period_bytes = period_bytes
        if self._first_bytes is not None:
            self._begin()
        elif self._rule.enabling != "keeps":
            self._draw(period_bytes)
        self._distance_bytes = self.until_bytes

    def begin_thread(self, seed: int | None, period_bytes: int | None) -> None:
        """The thread is a new one. No seed: the target reported none. No period: none was set."""
        if period_bytes is not None:
            self._draw(period_bytes)

    def allocated(self, request: Request, answer: Observation | None) -> Sequence[ExpectedSample]:
        """The samples of an allocation. No answer: it is foreseen, and no target performed it."""
        if request.period_bytes is None:
            return NONE
        return self.count(request.size_bytes, request.period_bytes)

    def freed(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """The samples of freeing a block that counted this many bytes."""
        return NONE

    def collected(self, minors: int, period_bytes: int | None) -> None:  # noqa: B027 - for most
        """Minor collections came, which no allocation caused."""

    def is_due(self, size_bytes: int) -> bool:
        """Whether there is a sample within the next bytes."""
        return size_bytes >= self.until_bytes + self._due_at

    def count(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """The samples of the next bytes. `period_bytes` is what distances are drawn for now."""
        if not self.is_due(size_bytes):
            self.until_bytes -= size_bytes
            return NONE
        hits = self._take(size_bytes, period_bytes)
        return hits[:1] if self._rule.samples_per_allocation == "one" else hits

    def uncount(self, size_bytes: int) -> None:
        """Bytes that were counted are allocated later; their samples stay taken."""
        self.until_bytes += size_bytes

    def explained(self, its: Sum) -> Sum:
        """What decided about the last action, where that is more than the countdown before it."""
        return its

    def until_as_drawn(self, its: Sum) -> int | None:
        """What was left for the counted bytes, if another distance may have been drawn for them."""
        if is_open(its.hits):
            return None
        if its.hits:
            return its.hits[0].offset + 1 - self._due_at
        return self.until_bytes + its.counted_bytes

    @abstractmethod
    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """At least one sample is due; begins the distance to the next."""

    def _hit(self, until_bytes: int, size_bytes: int) -> ExpectedSample:
        offset = until_bytes - 1 + self._due_at
        if self._rule.weights == "since":
            return ExpectedSample(offset, self._distance_bytes - until_bytes + size_bytes)
        if self._rule.weights == "whole_objects":
            objects = -1 / math.expm1(-size_bytes / self._distance_period_bytes)
            return ExpectedSample(offset, math.floor(objects + 0.5) * size_bytes)
        return ExpectedSample(offset, self._distance_period_bytes + size_bytes - offset - 1)

    def _draw(self, period_bytes: int) -> None:
        self._distance_period_bytes = period_bytes
        self.until_bytes = self._distance_bytes = self._distances.draw(period_bytes)


def distances_of_threads(rule: SamplingRule) -> list[Distances]:
    """What each thread draws from, if each has its own generator."""
    return [distances_of(rule.distances, seed) for seed in rule.seeds]
