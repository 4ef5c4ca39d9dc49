"""A clock: the bytes that one thread has left until its next sample, by arithmetic alone.

    until_bytes |-------------------->*  the byte that is sampled, `crosses` says which exactly
    room_bytes  |------------->|         where the thread allocates in contexts (.NET)

Invariant: what a clock says is a matter of the rule, of the thread's seed, and of the bytes that it
was told of. Addresses and collections are nothing to it, but that a collection ends a context.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, overload

import attrs
from typing_extensions import override

from fuzz.oracles.distances import Distances, distances_of
from fuzz.protocol.contract import DRAWN, SamplingRule
from fuzz.protocol.observation import Observation


@attrs.frozen
class ExpectedSample:
    """One sample: the byte of the allocation that was drawn, from 0, and what it stands for."""

    offset: int
    weight: int = 0


NONE: tuple[ExpectedSample, ...] = ()
UNTOLD = ExpectedSample(0)
"""One where the distances are all alike, of which no contract promises more."""


@attrs.frozen
class Untold(Sequence[ExpectedSample]):
    """So many of these, which may be more than a list has room for."""

    samples: int

    def __len__(self) -> int:
        return self.samples

    @overload
    def __getitem__(self, index: int) -> ExpectedSample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ExpectedSample]: ...
    def __getitem__(self, index: int | slice) -> ExpectedSample | Sequence[ExpectedSample]:
        chosen = range(self.samples)[index]
        return Untold(len(chosen)) if isinstance(chosen, range) else UNTOLD


def all_of(*parts: Sequence[ExpectedSample]) -> Sequence[ExpectedSample]:
    """The samples of several parts, one after another."""
    if any(isinstance(part, Untold) for part in parts):
        return Untold(sum(map(len, parts)))
    return [hit for part in parts for hit in part]


@attrs.frozen
class Place:
    """Where the object of an allocation must lie."""

    where: Literal["buffer", "new buffer", "outside"]
    at: int | None
    """Its offset from the start of the nursery, or of its buffer; None outside of that."""
    collections: int
    """How many came first, because the nursery had no room for it."""
    nursery_used_bytes: int | None
    """What is taken of the nursery then, by buffers too; None if nobody can tell."""
    tlab: list[int] | None = None
    """The thread's buffer; see Observation."""


class Clock(ABC):
    """One thread's. What it takes once a sample is due is a matter of its subclass."""

    def __init__(self, rule: SamplingRule, thread: int, distances: Distances) -> None:
        self._rule = rule
        self._distances = distances
        self._first_bytes = rule.first_bytes[thread] if rule.first_bytes else None
        self._reseed = rule.reseeds[thread] if rule.reseeds else None
        # The period for which the present distance was drawn, or counts, and that distance.
        self._drawn_for_bytes = 0
        self._distance_bytes = 0
        # The period for which it was drawn; 0 if sampling was off.
        self._known_period_bytes = 0
        self._has_certain = bool(rule.certain_period_bytes) or rule.new_period == "samples"
        self._due_at = int(rule.crosses == "beyond")
        self.until_bytes = 0
        # What is left of the thread's allocation context, if it has one.
        self.room_bytes = 0
        # Where the last allocation's object lies, if that is foretold.
        self.place: Place | None = None
        if rule.enabling == "keeps" and self._first_bytes is not None:
            self._begin()
        elif rule.enabling == "keeps" and rule.initial_period_bytes:
            self._draw(rule.initial_period_bytes)

    def _begin(self) -> None:
        """The first distance begins."""
        assert self._first_bytes is not None
        self.until_bytes, self._first_bytes = self._first_bytes, None

    def start(self, period_bytes: int, seed: int | None = None) -> None:
        """Count from here on. No seed: nothing was said of it."""
        if seed is not None and self._rule.enabling == "reseeds":
            self._distances.reseed(seed)
        self._distances.restart()
        self._drawn_for_bytes = period_bytes
        if self._first_bytes is not None:
            self._begin()
        elif self._rule.enabling != "keeps":
            self._draw(period_bytes)
        self._distance_bytes = self.until_bytes

    def begin_thread(self, seed: int | None, period_bytes: int | None) -> None:
        """The thread is a new one. No seed: nothing was said of it. No period: none was set."""
        if seed is not None and self._rule.births == "reseeds":
            self._distances.reseed(seed)
        if period_bytes is not None:
            self._draw(period_bytes)

    def allocate(
        self, size_bytes: int, outside: bool, period_bytes: int | None
    ) -> Sequence[ExpectedSample]:
        """An object of so many bytes, wherever it lies. No period: sampling is off."""
        if self._has_certain and self._is_certain(period_bytes or 0):
            self.until_bytes = 0
            return self._take(size_bytes, period_bytes or 0)
        return self.count(size_bytes, period_bytes) if period_bytes is not None else NONE

    def _is_certain(self, period_bytes: int) -> bool:
        """Whether the next allocation is sampled wherever the distance ends."""
        if period_bytes and period_bytes == self._rule.certain_period_bytes:
            return True
        return self._rule.new_period == "samples" and period_bytes != self._known_period_bytes

    def is_due(self, size_bytes: int) -> bool:
        """Whether there is a sample within the next so many bytes."""
        return size_bytes >= self.until_bytes + self._due_at

    def count(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """So many bytes are allocated. `period_bytes` is what distances are drawn for now."""
        if not self.is_due(size_bytes):
            self.until_bytes -= size_bytes
            return NONE
        if self._reseed is not None:
            # The first time that a sample is due another generator decides about it.
            self._distances, self._reseed = _distances_of(self._rule, self._reseed), None
            self._draw(period_bytes)
            return self.count(size_bytes, period_bytes)
        hits = self._take(size_bytes, period_bytes)
        return hits[:1] if self._rule.samples_per_allocation == "one" else hits

    def hear(self, observation: Observation) -> None:  # noqa: B027 - most foretell everything
        """What the target said of the allocation that comes next, where not all is foretold."""

    def free(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """So many bytes are not allocated any more, where that counts."""
        self.until_bytes += size_bytes
        freed_bytes = self.until_bytes - self._distance_bytes
        if freed_bytes < period_bytes:
            return NONE
        self.until_bytes = self._distance_bytes = period_bytes
        return [ExpectedSample(0, freed_bytes)]

    def uncount(self, size_bytes: int) -> None:
        """So many bytes that were counted are allocated later; their samples stay taken."""
        self.until_bytes += size_bytes

    def end_context(self) -> None:
        """The thread's allocation context ends, if it has one."""
        self.room_bytes = 0

    @abstractmethod
    def _take(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """At least one sample is due; begins the distance to the next."""

    def _hit(self, until_bytes: int, size_bytes: int) -> ExpectedSample:
        offset = until_bytes - 1 + self._due_at
        if self._rule.weights == "since":
            return ExpectedSample(offset, self._distance_bytes - until_bytes + size_bytes)
        if self._rule.weights == "whole_objects":
            objects = -1 / math.expm1(-size_bytes / self._drawn_for_bytes)
            return ExpectedSample(offset, math.floor(objects + 0.5) * size_bytes)
        return ExpectedSample(offset, self._drawn_for_bytes + size_bytes - offset - 1)

    def _draw(self, period_bytes: int) -> None:
        self._drawn_for_bytes = self._known_period_bytes = period_bytes
        self.until_bytes = self._distance_bytes = self._distances.draw(period_bytes)
        self._distances.skip(self._rule.spent_numbers)


class FixedClock(Clock):
    """Distances that are all alike need not be passed one by one: a division tells how many."""

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
        return Untold(samples)


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


class StreamsClock(DrawnClock):
    """Blocks outside the nursery have a distance of their own, which is drawn first."""

    def __init__(self, rule: SamplingRule, thread: int, distances: Distances) -> None:
        super().__init__(rule, thread, distances)
        self.outside = DrawnClock(rule, thread, distances)

    @override
    def start(self, period_bytes: int, seed: int | None = None) -> None:
        self.outside.start(period_bytes, seed)
        self._draw(period_bytes)

    def allocate_of_kind(
        self, size_bytes: int, outside: bool, kind: str, minors: int, period_bytes: int
    ) -> Sequence[ExpectedSample]:
        """An object of that kind, and so many minor collections."""
        if outside:
            hits = self.outside.count(size_bytes, period_bytes)
            self.collect(minors, period_bytes)
        else:
            self.collect(minors, period_bytes)
            is_postponed = kind in self._rule.postponed and self.is_due(size_bytes)
            count = self._postpone if is_postponed else self.count
            hits = count(size_bytes, period_bytes)
        if hits and "callbacks" in self._rule.renewed_by:
            self._draw(period_bytes)
        return hits

    def collect(self, minors: int, period_bytes: int) -> None:
        """So many minor collections."""
        for _ in range(minors if "collections" in self._rule.renewed_by else 0):
            self._draw(period_bytes)

    def _postpone(self, size_bytes: int, period_bytes: int) -> Sequence[ExpectedSample]:
        """A sample is due; behind it the other distance decides."""
        left_bytes = size_bytes - self.until_bytes
        hits = [UNTOLD, *self.outside.count(left_bytes, period_bytes)]
        self._draw(period_bytes)
        return hits


class ContextClock(DrawnOnceClock):
    """A thread that allocates in contexts: what was drawn ends where its context does.

    Where it ends behind that, no byte of the context is sampled.
    """

    def __init__(self, rule: SamplingRule, thread: int, distances: Distances) -> None:
        super().__init__(rule, thread, distances)
        self._is_told = rule.contexts == "told"
        self._heard: Observation | None = None
        # Where in its context the thread allocates next.
        self._at = 0

    @override
    def hear(self, observation: Observation) -> None:
        self._heard = observation
        if observation.ended:
            self.end_context()

    @override
    def allocate(
        self, size_bytes: int, outside: bool, period_bytes: int | None
    ) -> Sequence[ExpectedSample]:
        left_bytes = self.room_bytes
        fits = size_bytes <= left_bytes and not outside
        self.place = self._place(size_bytes, fits, outside) if self._is_told else None
        if outside and self._rule.outside == "apart":
            return NONE if period_bytes is None else self._judge(size_bytes, period_bytes, 0, 0)
        if not outside:
            self.room_bytes = left_bytes if fits else self._new_room_bytes(size_bytes)
            self.room_bytes -= size_bytes
        if fits and size_bytes <= self.until_bytes:
            self.until_bytes -= size_bytes
            return NONE
        hits: Sequence[ExpectedSample] = NONE
        if period_bytes is not None:
            hits = self._judge(size_bytes, period_bytes, left_bytes, self.until_bytes)
            self._draw(period_bytes)
        else:
            self.until_bytes = self.room_bytes
        return hits

    def _judge(
        self, size_bytes: int, period_bytes: int, left_bytes: int, until_bytes: int
    ) -> Sequence[ExpectedSample]:
        """The old distance decides about what was left of its context, a new one about the rest."""
        offset = until_bytes
        if offset >= left_bytes:
            if size_bytes <= left_bytes:
                return NONE
            offset = left_bytes + self._distances.draw(period_bytes)
        return [ExpectedSample(offset)] if offset < size_bytes else NONE

    def _new_room_bytes(self, size_bytes: int) -> int:
        """What there is from an object on that does not fit in the present context."""
        if not self._is_told:
            return max(self._rule.context_bytes, size_bytes)
        return (self._heard and self._heard.buffer) or size_bytes

    def _place(self, size_bytes: int, fits: bool, outside: bool) -> Place:
        """Where the object lies: in its context, or it begins one."""
        collections = self._heard.minors if self._heard else 0
        if outside:
            return Place("outside", None, collections, None)
        at = self._at if fits else 0
        self._at = at + size_bytes
        return Place("buffer" if fits else "new buffer", at, collections, None)


def new_distances(rule: SamplingRule) -> list[Distances]:
    """What each thread draws from."""
    if rule.generators == "shared":
        return [_distances_of(rule, rule.seeds[0])] * len(rule.seeds)
    return [_distances_of(rule, seed) for seed in rule.seeds]


def _distances_of(rule: SamplingRule, seed: int) -> Distances:
    return distances_of(rule.distances, seed, rule.unit_bytes)


def new_clocks(rule: SamplingRule) -> Sequence[Clock]:
    """A clock for each thread, which counts as the rule wants it."""
    kind: type[Clock] = DrawnClock
    if rule.context_bytes:
        kind = ContextClock
    elif rule.streams == "places":
        kind = StreamsClock
    elif rule.distances not in DRAWN:
        kind = FixedClock
    elif (rule.surplus, rule.samples_per_allocation) == ("dropped", "one"):
        kind = DrawnOnceClock
    return [kind(rule, thread, each) for thread, each in enumerate(new_distances(rule))]
