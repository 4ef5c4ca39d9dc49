"""Allocation contexts as .NET 10 ships them, where its design document is another (see contexts).

The rule differs in three points. What was drawn stays where it is, whether sampling is on or off,
until an allocation passes the combined limit: so enabling draws nothing, and what is left of a
context goes unsampled. An object outside is judged like one that does not fit, by the distance of
its thread's context first, and another is drawn after it. And distances come from another generator
and by another formula. (.NET 10, gchelpers.cpp and gcheaputilities.h.)
"""

from __future__ import annotations

from gcmodel.memory.objects import Object
from gcmodel.sampling.contexts import ContextAllocation, ContextSampling
from gcmodel.sampling.distances import Dotnet


class ShippedSampling(ContextSampling):
    """The sampler of all threads, of which enabling and disabling is only a switch."""

    make_distances = Dotnet
    samples_outside: int
    """How often the object that is about to be placed outside is sampled."""

    def begin(self) -> None:
        """Nothing: whoever passes a combined limit next draws."""

    def end(self) -> None:
        """Nothing: whoever passes a combined limit next is not sampled."""

    def draw_limit(self, thread: int) -> None:
        """After an allocation on the slow path. (UpdateCombinedLimit.)"""
        context = self._threads.contexts[thread]
        context.combined_limit = context.alloc_limit
        super().draw_limit(thread)

    def judge_outside(self, size_bytes: int) -> None:
        """An object is about to be placed outside; its thread's context judges it."""
        self.samples_outside = self.judge(size_bytes)

    def judge(self, size_bytes: int) -> int:
        context = self._threads.contexts[self._threads.thread]
        # One outside may be smaller than what the context has left, where nothing succeeds.
        if context.combined_limit == context.alloc_limit and size_bytes <= context.left_bytes:
            return 0
        return super().judge(size_bytes)

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        self.record(obj, self.samples_outside, counted_bytes)
        self.draw_limit(self._threads.thread)


class ShippedAllocation(ContextAllocation):
    """The slow path, on which all objects outside are."""

    def _placed_outside(self, obj: Object, raw_bytes: int, is_young: bool) -> Object:
        sampling = self._heap.sampling
        assert isinstance(sampling, ShippedSampling)
        # Before it collects, which ends the context.
        sampling.judge_outside(raw_bytes)
        return super()._placed_outside(obj, raw_bytes, is_young)
