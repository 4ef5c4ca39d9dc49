"""Counting by allocation contexts: a distance ends where its context does."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from typing_extensions import override

from fuzz.oracles.counting.bytes import DrawnOnceClock
from fuzz.oracles.counting.expected import NONE, ExpectedSample, Place, Request, Sum
from fuzz.protocol.contract import Contract
from fuzz.protocol.counting import Contexts
from fuzz.protocol.observation import Observation


class ContextClock(DrawnOnceClock[Contexts]):
    """Counts in contexts. A distance that ends after its context samples none of its bytes."""

    clocks: Sequence[ContextClock] = ()
    """The clocks of all threads."""
    _free_bytes = 0
    # Where in its context the thread allocates next.
    _at = 0

    @property
    def free_bytes(self) -> int:
        return self._free_bytes

    def collected(self, minors: int, period_bytes: int | None) -> None:
        if minors:
            self._free_bytes = 0

    @override
    def begin_thread(self, seed: int | None, period_bytes: int | None) -> None:
        """The thread has no context yet, and nothing is left of a distance."""
        self._free_bytes = 0

    def allocated(self, request: Request, observation: Observation) -> Sequence[ExpectedSample]:
        """Predict the samples. A collection that the object causes does not change them.

        It ends the contexts of the other threads, and that of this one if the object lies outside.
        """
        if observation.ended:
            self._free_bytes = 0
        hits = self._allocate(request, observation)
        for clock in self.clocks if observation.minors else ():
            if request.outside or clock is not self:
                clock.collected(observation.minors, request.period_bytes)
        return hits

    def _allocate(self, request: Request, observation: Observation) -> Sequence[ExpectedSample]:
        size_bytes, outside, period_bytes = (
            request.size_bytes,
            request.outside,
            request.period_bytes,
        )
        left_bytes = self._free_bytes
        fits = size_bytes <= left_bytes and not outside
        if self._counting.predicts_places:
            self.place = self._place(request, fits, observation.minors)
        if outside and self._counting.outside == "apart":
            return NONE if period_bytes is None else self._judge(size_bytes, period_bytes, 0, 0)
        if not outside:
            self._free_bytes = left_bytes if fits else self._new_free_bytes(size_bytes, observation)
            self._free_bytes -= size_bytes
        is_quick = fits and request.kind not in self._counting.slow_kinds
        if is_quick and size_bytes <= self.until_bytes:
            self.until_bytes -= size_bytes
            return NONE
        if period_bytes is None:
            self.until_bytes = self._free_bytes
            return NONE
        hits = self._judge(size_bytes, period_bytes, left_bytes, self.until_bytes)
        self._draw(period_bytes)
        return hits

    def _judge(
        self, size_bytes: int, period_bytes: int, left_bytes: int, until_bytes: int
    ) -> Sequence[ExpectedSample]:
        """The old distance decides about the rest of its context, a new one about what follows."""
        offset = until_bytes
        if offset >= left_bytes:
            if size_bytes <= left_bytes:
                return NONE
            offset = left_bytes + self._generator.draw(period_bytes)
        return [ExpectedSample(offset)] if offset < size_bytes else NONE

    def _new_free_bytes(self, size_bytes: int, observation: Observation) -> int:
        """The size of the context that begins with an object."""
        if self._counting.sizes == "fixed":
            return max(self._counting.context_bytes, size_bytes)
        return observation.buffer or size_bytes

    def _place(self, request: Request, fits: bool, minors: int) -> Place:
        """Where the object lies: in its context, or at the beginning of a new one."""
        if request.outside:
            return Place("outside", None, minors, None)
        at = self._at if fits else 0
        self._at = at + request.size_bytes
        return Place("buffer" if fits else "new buffer", at, minors, None)

    def explained(self, its: Sum) -> Sum:
        is_apart = self._counting.outside == "apart" and its.outside
        free_bytes = 0 if is_apart else its.free_bytes or 0
        has_own_distance = is_apart or (its.until_bytes or 0) >= free_bytes
        return attrs.evolve(its, free_bytes=free_bytes, has_own_distance=has_own_distance)


def clocks_of(contract: Contract) -> list[ContextClock]:
    """One clock per thread."""
    clocks = ContextClock.for_each_thread(contract)
    for clock in clocks:
        clock.clocks = clocks
    return clocks
