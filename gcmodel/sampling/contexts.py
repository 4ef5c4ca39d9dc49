"""Allocation contexts, as in .NET: each thread allocates in a block of its own, and samples there.

A context is a block of the nursery that belongs to one thread. The one check that the thread makes
anyway also finds samples:

    alloc_ptr              sampling_limit         alloc_limit
    |<- bytes that fail ->|<- one that succeeds      |
                         == combined_limit

Invariants, for the context of each thread:

    alloc_ptr <= combined_limit <= alloc_limit
    combined_limit == min(sampling_limit, alloc_limit)    while sampling is on
    combined_limit == alloc_limit                         while it is off

Every byte of every object is a trial of its own, and an object is sampled if one of its bytes
succeeds. Trials are independent, so a distance that reaches beyond the context can be dropped: a
fresh one judges the bytes beyond. So the sampling limit is only stored while it is the combined
limit. The next context starts at `nursery_free`. Nothing is pinned in the nursery.

(Nasarre and Falk, Randomized Allocation Sampling. Their document does not define how an object that
does not fit, and one outside, is judged.)
"""

from collections.abc import Callable, Mapping

import attrs

from gcmodel.memory.configuration import Configuration
from gcmodel.memory.events import ContextSample, Events
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import Object
from gcmodel.sampling.distances import Distances, DotnetDocument
from gcmodel.sampling.sampler import Sampler
from gcmodel.sampling.slow_path import Allocation


@attrs.define
class Context:
    """A thread's block; an empty one if the thread has none."""

    alloc_ptr: int = 0
    alloc_limit: int = 0
    combined_limit: int = 0

    @property
    def left_bytes(self) -> int:
        """The bytes of the block that are not allocated yet."""
        return self.alloc_limit - self.alloc_ptr


class ContextNursery(Nursery):
    """A nursery that hands out contexts; `contexts` has one for each thread."""

    def __init__(self, size_bytes: int, moving: bool, reserve: Callable[[int], int]) -> None:
        super().__init__(size_bytes, moving, reserve)
        self.contexts: list[Context] = []

    def serve(self, threads: int) -> None:
        """Give each thread an empty context."""
        self.contexts = [Context() for _ in range(threads)]

    def allocate(self, size_bytes: int) -> int:
        """The same fast path, in the thread's context. (FastAssemblyAllocate.)"""
        context = self.contexts[self.thread]
        result = context.alloc_ptr
        context.alloc_ptr = result + size_bytes
        if context.alloc_ptr > context.combined_limit:
            result = self._reserve(size_bytes)
        return result

    def hand_out(self, size_bytes: int) -> None:
        """Give the thread the next `size_bytes`, which must be free, as its context."""
        start = self.nursery_free
        self.nursery_free = start + size_bytes
        self.contexts[self.thread] = Context(start, self.nursery_free, self.nursery_free)

    def empty(self, pinned: Mapping[int, Object]) -> None:
        """Drop the contexts with everything else. (GcEnumAllocContexts.)"""
        super().empty(pinned)
        self.serve(len(self.contexts))


class ContextSampling(Sampler):
    """The sampler of all threads, each with a generator of its own.

    A minor collection changes nothing, since no distance outlives its context.
    """

    make_distances: Callable[[int], Distances] = DotnetDocument

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        assert isinstance(nursery, ContextNursery)
        nursery.serve(len(configuration.sampler_seeds))
        self._threads = nursery
        self._distances = [self.make_distances(seed) for seed in configuration.sampler_seeds]

    def begin(self) -> None:
        """Draw for every thread at once, in the middle of its context."""
        for thread in range(len(self._distances)):
            self.draw_limit(thread)

    def end(self) -> None:
        for context in self._threads.contexts:
            context.combined_limit = context.alloc_limit

    def draw_limit(self, thread: int) -> None:
        """While sampling is on, draw the next byte of the thread's context that succeeds."""
        if self.period_bytes:
            context = self._threads.contexts[thread]
            sampling_limit = context.alloc_ptr + self._draw(thread)
            context.combined_limit = min(sampling_limit, context.alloc_limit)

    def _draw(self, thread: int) -> int:
        return self._distances[thread].draw(self.period_bytes)

    def judge(self, size_bytes: int) -> int:
        """Sample the thread's object, which passes the combined limit, 0 or 1 times.

        If no byte that is left in the context succeeds, the object does not fit. Then a fresh
        distance judges its bytes beyond the context.
        """
        if not self.period_bytes:
            return 0
        context = self._threads.contexts[self._threads.thread]
        if context.combined_limit < context.alloc_limit:
            return self.succeed(size_bytes, context.combined_limit - context.alloc_ptr)
        return self.succeed(size_bytes, context.left_bytes + self._draw(self._threads.thread))

    def succeed(self, size_bytes: int, offset: int) -> int:
        """Sample an object if the byte that succeeds, `offset`, is part of it; return 0 or 1."""
        if offset >= size_bytes:
            return 0
        self._events.sample(ContextSample(self._threads.thread, size_bytes, offset))
        return 1

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        """Judge the object by a distance of its own, and leave the context as it is."""
        if self.period_bytes:
            count = self.succeed(counted_bytes, self._draw(self._threads.thread))
            self.record(obj, count, counted_bytes)


class ContextAllocation(Allocation):
    """The slow path: a sample is due, or the context is used up, or both."""

    def collect_and_reserve(self, size_bytes: int) -> int:
        """Return an address for an object that passed the thread's `combined_limit`.

        `alloc_ptr` has been moved forward by `size_bytes` already.
        """
        nursery, sampling = self._heap.nursery, self._heap.sampling
        assert isinstance(nursery, ContextNursery)
        assert isinstance(sampling, ContextSampling)
        context = nursery.contexts[nursery.thread]
        context.alloc_ptr -= size_bytes
        samples = sampling.judge(size_bytes)
        if size_bytes > context.left_bytes:
            context = self._next_context(nursery, size_bytes)
        address = context.alloc_ptr
        context.alloc_ptr += size_bytes
        sampling.draw_limit(nursery.thread)
        # Last, so that a report of a collection above does not include this object.
        sampling.record(address, samples, size_bytes)
        return address

    def _next_context(self, nursery: ContextNursery, size_bytes: int) -> Context:
        """A context for an object of `size_bytes`, after a collection if there is no room."""
        context_bytes = max(self._heap.configuration.context_bytes, size_bytes)
        collections = 0
        while nursery.nursery_free + context_bytes > nursery.nursery_limit:
            collections = self._collect(collections)
        nursery.hand_out(context_bytes)
        return nursery.contexts[nursery.thread]
