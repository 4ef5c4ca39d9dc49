"""Allocation contexts as in .NET 10, which differs from its design document (see contexts).

There are three differences. A drawn limit stays until an allocation passes it, whether sampling is
on or off; so enabling draws nothing, and the rest of a context goes unsampled. An object outside is
judged like one that does not fit: first by the distance of its thread's context, after which
another is drawn. Distances come from another generator and formula. (.NET 10, gchelpers.cpp and
gcheaputilities.h.)
"""

from gcmodel.memory.objects import Object
from gcmodel.sampling.contexts import ContextAllocation, ContextSampling
from gcmodel.sampling.distances import Dotnet


class ShippedSampling(ContextSampling):
    """The sampler of all threads. Enabling and disabling only flip a switch."""

    make_distances = Dotnet
    samples_outside: int
    """How often the object that is about to be placed outside is sampled."""

    def begin(self) -> None:
        """Do nothing: a thread draws when it passes its combined limit."""

    def end(self) -> None:
        """Do nothing: a thread that passes its combined limit is not sampled then."""

    def draw_limit(self, thread: int) -> None:
        """Set the limit after an allocation on the slow path. (UpdateCombinedLimit.)"""
        context = self._threads.contexts[thread]
        context.combined_limit = context.alloc_limit
        super().draw_limit(thread)

    def judge_outside(self, size_bytes: int) -> None:
        """Judge an object that is about to be placed outside by its thread's context."""
        self.samples_outside = self.judge(size_bytes)

    def judge(self, size_bytes: int) -> int:
        context = self._threads.contexts[self._threads.thread]
        # An object outside may be smaller than the rest of the context, where nothing succeeds.
        if context.combined_limit == context.alloc_limit and size_bytes <= context.left_bytes:
            return 0
        return super().judge(size_bytes)

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        self.record(obj, self.samples_outside, counted_bytes)
        self.draw_limit(self._threads.thread)


class ShippedAllocation(ContextAllocation):
    """The slow path, which all objects outside take."""

    def _placed_outside(self, obj: Object, raw_bytes: int, is_young: bool) -> Object:
        sampling = self._heap.sampling
        assert isinstance(sampling, ShippedSampling)
        # Before a collection, which drops the context.
        sampling.judge_outside(raw_bytes)
        return super()._placed_outside(obj, raw_bytes, is_young)
