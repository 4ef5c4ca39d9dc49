"""A clock: the bytes that one thread has left until its next sample, by arithmetic alone.

    until_bytes |-------------------->*  the sampled byte; `crosses` says which one exactly
    free_bytes  |------------->|         what is left of the thread's own part of the nursery

Invariant: the rule, the thread's seed and the requests determine what a clock predicts. This base
class reads only the keys that all ways to count share. The module of a way reads that way's keys.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Self, TypeVar, cast

from fuzz.oracles.counting.distances import generator_of
from fuzz.oracles.counting.distances.generator import Generator
from fuzz.oracles.counting.expected import NONE, ExpectedSample, Place, Request, Sum, is_open
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import Way
from fuzz.protocol.observation import Observation

W = TypeVar("W", bound=Way)
"""The way to count."""


class Clock(ABC, Generic[W]):
    """The countdown of one thread. A subclass decides what happens when a sample is due."""

    def __init__(self, rule: SamplingRule, thread: int, generator: Generator) -> None:
        self._rule = rule
        self._counting = cast(W, rule.counting)
        self._generator = generator
        self._first_bytes = rule.first_bytes[thread] if rule.first_bytes else None
        # The present distance, and the period that it was drawn for, or counts for.
        self._distance_bytes = 0
        self._distance_period_bytes = 0
        self._due_at = int(rule.crosses == "beyond")
        self.until_bytes = 0
        # Where the last object lies, if that is predicted.
        self.place: Place | None = None
        keeps = rule.enabling == "keeps"
        # Whether enabling keeps a distance, and none was there yet.
        self._is_first_open = keeps and rule.distances == "period"
        if keeps and not self._take_first_distance() and rule.initial_period_bytes:
            self._draw(rule.initial_period_bytes)

    @classmethod
    def for_each_thread(cls, contract: Contract) -> list[Self]:
        """One clock per thread."""
        rule = contract.sampling
        return [cls(rule, *each) for each in enumerate(generators_of(rule))]

    @property
    def free_bytes(self) -> int:
        """What is left of the thread's own part of the nursery."""
        return 0

    def _take_first_distance(self) -> bool:
        """Begin the first distance, if the contract states one that was not used yet."""
        if self._first_bytes is None:
            return False
        self.until_bytes, self._first_bytes = self._first_bytes, None
        return True

    def start(self, period_bytes: int, seed: int | None = None) -> None:
        """Sampling is enabled. `seed` is what the target reported."""
        if seed is not None and self._rule.enabling == "reseeds":
            self._generator.reseed(seed)
        self._generator.restart()
        self._distance_period_bytes = period_bytes
        begins = self._rule.enabling != "keeps" or self._is_first_open
        if not self._take_first_distance() and begins:
            self._draw(period_bytes)
        self._distance_bytes = self.until_bytes

    def begin_thread(self, seed: int | None, period_bytes: int | None) -> None:
        """The thread is a new one. `period_bytes` is what was set last, None if nothing was."""
        if period_bytes is not None:
            self._draw(period_bytes)

    def allocated(self, request: Request, observation: Observation) -> Sequence[ExpectedSample]:
        """The samples of an allocation. The observation's fields say what no rule predicts."""
        if request.period_bytes is None:
            return NONE
        return self.count(request.size_bytes, request.period_bytes)

    def freed(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """The samples of freeing a block that counted `size_bytes`."""
        return NONE

    def collected(self, minors: int, period_bytes: int | None) -> None:
        """Minor collections took place that no allocation caused."""

    def is_due(self, size_bytes: int) -> bool:
        """Whether a sample is due within the next bytes."""
        return size_bytes >= self.until_bytes + self._due_at

    def count(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """The samples of the next bytes. New distances are drawn for `period_bytes`."""
        if not self.is_due(size_bytes):
            self.until_bytes -= size_bytes
            return NONE
        hits = self._take(size_bytes, period_bytes)
        return hits[:1] if self._rule.samples_per_allocation == "one" else hits

    def uncount(self, size_bytes: int) -> None:
        """These bytes are allocated later. The samples that they caused remain."""
        self.until_bytes += size_bytes

    def explained(self, its: Sum) -> Sum:
        """Completes the explanation of the last action, if the countdown alone does not decide."""
        return its

    def until_as_drawn(self, its: Sum) -> int | None:
        """What the explained bytes had left, if a new distance may have been drawn for them."""
        if is_open(its.hits):
            return None
        if its.hits:
            return its.hits[0].offset + 1 - self._due_at
        return self.until_bytes + its.counted_bytes

    @abstractmethod
    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """The samples of bytes of which at least one is due. Begins the next distance."""

    def _hit(self, until_bytes: int, size_bytes: int) -> ExpectedSample:
        offset = until_bytes - 1 + self._due_at
        if self._rule.weights == "since":
            return ExpectedSample(offset, self._distance_bytes - until_bytes + size_bytes)
        if self._rule.weights == "whole_objects":
            if not size_bytes:
                return ExpectedSample(offset)  # Any number of such blocks has no bytes.
            objects = -1 / math.expm1(-size_bytes / self._distance_period_bytes)
            return ExpectedSample(offset, math.floor(objects + 0.5) * size_bytes)
        return ExpectedSample(offset, self._distance_period_bytes + size_bytes - offset - 1)

    def _draw(self, period_bytes: int) -> None:
        self._is_first_open = False
        self._distance_period_bytes = period_bytes
        self.until_bytes = self._distance_bytes = self._generator.draw(period_bytes)


def generators_of(rule: SamplingRule) -> list[Generator]:
    """Each thread's generator."""
    return [generator_of(rule.distances, seed) for seed in rule.seeds]
