"""Counting by allocation contexts: a distance ends where its context does."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from typing_extensions import override

from fuzz.oracles.counting.bytes import DrawnOnceClock
from fuzz.oracles.counting.clock import Clock, distances_of_threads
from fuzz.oracles.counting.distances import Distances
from fuzz.oracles.counting.expected import NONE, ExpectedSample, Place, Request, Sum
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import Contexts
from fuzz.protocol.observation import Observation


class ContextClock(DrawnOnceClock):
    """A thread that allocates in contexts: what was drawn ends where its context does.

    Where it ends behind that, no byte of the context is sampled. `clocks` are those of all threads.
    """

    def __init__(
        self,
        rule: SamplingRule,
        thread: int,
        distances: Distances,
        contexts: Contexts,
        clocks: list[Clock],
    ) -> None:
        super().__init__(rule, thread, distances)
        self._contexts = contexts
        self._clocks = clocks
        self._room_bytes = 0
        # Where in its context the thread allocates next.
        self._at = 0

    @property
    @override
    def room_bytes(self) -> int:
        return self._room_bytes

    @override
    def collected(self, minors: int, period_bytes: int | None) -> None:
        if minors:
            self._room_bytes = 0

    @override
    def allocated(self, request: Request, answer: Observation | None) -> Sequence[ExpectedSample]:
        """A collection that the allocation causes comes before its object, which it judges alike.

        It ends the contexts of the other threads, and of this one if the object lies outside.
        """
        if answer is not None and answer.ended:
            self._room_bytes = 0
        hits = self._allocate(request, answer)
        for clock in self._clocks if request.minors else ():
            if request.outside or clock is not self:
                clock.collected(request.minors, request.period_bytes)
        return hits

    def _allocate(self, request: Request, answer: Observation | None) -> Sequence[ExpectedSample]:
        size_bytes, outside, period_bytes = (
            request.size_bytes,
            request.outside,
            request.period_bytes,
        )
        left_bytes = self._room_bytes
        fits = size_bytes <= left_bytes and not outside
        if self._contexts.predicts_places:
            self.place = self._place(request, fits, answer)
        if outside and self._contexts.outside == "apart":
            return NONE if period_bytes is None else self._judge(size_bytes, period_bytes, 0, 0)
        if not outside:
            self._room_bytes = left_bytes if fits else self._new_room_bytes(size_bytes, answer)
            self._room_bytes -= size_bytes
        if fits and size_bytes <= self.until_bytes:
            self.until_bytes -= size_bytes
            return NONE
        hits: Sequence[ExpectedSample] = NONE
        if period_bytes is not None:
            hits = self._judge(size_bytes, period_bytes, left_bytes, self.until_bytes)
            self._draw(period_bytes)
        else:
            self.until_bytes = self._room_bytes
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

    def _new_room_bytes(self, size_bytes: int, answer: Observation | None) -> int:
        """What there is from an object on that does not fit in the present context."""
        if self._contexts.sizes == "fixed":
            return max(self._contexts.context_bytes, size_bytes)
        return (answer and answer.buffer) or size_bytes

    def _place(self, request: Request, fits: bool, answer: Observation | None) -> Place:
        """Where the object lies: in its context, or it begins one."""
        collections = answer.minors if answer else 0
        if request.outside:
            return Place("outside", None, collections, None)
        at = self._at if fits else 0
        self._at = at + request.size_bytes
        return Place("buffer" if fits else "new buffer", at, collections, None)

    @override
    def explained(self, its: Sum) -> Sum:
        is_apart = self._contexts.outside == "apart" and its.outside
        room_bytes = 0 if is_apart else its.room_bytes or 0
        has_own_distance = is_apart or (its.until_bytes or 0) >= room_bytes
        return attrs.evolve(its, room_bytes=room_bytes, has_own_distance=has_own_distance)


def clocks_of(contract: Contract) -> list[Clock]:
    """A clock for each thread."""
    rule = contract.sampling
    assert isinstance(rule.counting, Contexts)
    clocks: list[Clock] = []
    for thread, each in enumerate(distances_of_threads(rule)):
        clocks.append(ContextClock(rule, thread, each, rule.counting, clocks))
    return clocks
