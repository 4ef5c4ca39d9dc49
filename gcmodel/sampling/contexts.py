"""Allocation contexts: each thread allocates in a block of its own, and is sampled on its own.

A context is carved from the nursery and handed to one thread. Sampling is folded into the one check
that the thread makes anyway:

    alloc_ptr              sampling_limit         alloc_limit
    |<- bytes that fail ->|<- one that succeeds      |
                         == combined_limit

Invariants, for the context of each thread:

    alloc_ptr <= combined_limit <= alloc_limit
    combined_limit == min(sampling_limit, alloc_limit)    while sampling is on
    combined_limit == alloc_limit                         while it is off

The sampling limit is kept nowhere else: as long as it lies in the context it is the combined limit.
Every byte of every object is a trial of its own, and an object is sampled if one of its bytes
succeeds. So a distance may be thrown away as long as that does not depend on where its success
lies: one that reaches beyond the context is, and the bytes beyond are judged by a fresh one.

The nursery's free pointer is where the next context begins, and its limit is its end. Nothing is
pinned in it. (Nasarre and Falk, Randomized Allocation Sampling. What judges an object that does not
fit, and one outside, their document leaves open.)
"""

from __future__ import annotations

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
    """A thread's block; an empty one if the thread must ask for one first."""

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
        """So many threads allocate, and none of them has room."""
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
        """The thread's context is the next block of so many bytes, which must be free."""
        start = self.nursery_free
        self.nursery_free = start + size_bytes
        self.contexts[self.thread] = Context(start, self.nursery_free, self.nursery_free)

    def empty(self, pinned: Mapping[int, Object]) -> None:
        """The contexts are gone with all else. (GcEnumAllocContexts.)"""
        super().empty(pinned)
        self.serve(len(self.contexts))


class ContextSampling(Sampler):
    """The sampler of all threads, each with a generator of its own."""

    make_distances: Callable[[int], Distances] = DotnetDocument

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        assert isinstance(nursery, ContextNursery)
        nursery.serve(len(configuration.sampler_seeds))
        self._threads = nursery
        self._distances = [self.make_distances(seed) for seed in configuration.sampler_seeds]

    def begin(self) -> None:
        """Every thread draws at once, in the middle of its context."""
        for thread in range(len(self._distances)):
            self.draw_limit(thread)

    def end(self) -> None:
        for context in self._threads.contexts:
            context.combined_limit = context.alloc_limit

    def draw_limit(self, thread: int) -> None:
        """While sampling is on: which byte of the thread's context is the next to succeed."""
        if self.period_bytes:
            context = self._threads.contexts[thread]
            sampling_limit = context.alloc_ptr + self._draw(thread)
            context.combined_limit = min(sampling_limit, context.alloc_limit)

    def _draw(self, thread: int) -> int:
        return self._distances[thread].draw(self.period_bytes)

    def judge(self, size_bytes: int) -> int:
        """An object of the thread's passes the combined limit; how often it is sampled, 0 or 1.

        If no byte that is left in the context succeeds, the object does not fit, and a fresh
        distance judges those of its bytes that lie beyond.
        """
        if not self.period_bytes:
            return 0
        context = self._threads.contexts[self._threads.thread]
        if context.combined_limit < context.alloc_limit:
            return self.succeed(size_bytes, context.combined_limit - context.alloc_ptr)
        return self.succeed(size_bytes, context.left_bytes + self._draw(self._threads.thread))

    def succeed(self, size_bytes: int, offset: int) -> int:
        """Byte `offset` from an object's start on succeeds; how often that samples it, 0 or 1."""
        if offset >= size_bytes:
            return 0
        self._events.sample(ContextSample(self._threads.thread, size_bytes, offset))
        return 1

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        """A distance of its own judges it, and the context stays as it is."""
        if self.period_bytes:
            count = self.succeed(counted_bytes, self._draw(self._threads.thread))
            self.record(obj, count, counted_bytes)

    def before_minor_collection(self) -> None:
        """Nothing: distances are not kept beyond a context."""

    def after_minor_collection(self) -> None:
        """Nothing: whoever allocates next asks for a context, and draws then."""


class ContextAllocation(Allocation):
    """The slow path: a sample is due, or the context is used up, or both."""

    def collect_and_reserve(self, size_bytes: int) -> int:
        """The thread's `alloc_ptr`, moved forward by `size_bytes`, passed its `combined_limit`.

        Returns the address at which the object can lie.
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
        # Only now: a report of a collection above must not speak of this object.
        sampling.record(address, samples, size_bytes)
        return address

    def _next_context(self, nursery: ContextNursery, size_bytes: int) -> Context:
        """Room for an object of `size_bytes` at least, after a collection if there is no more."""
        context_bytes = max(self._heap.configuration.context_bytes, size_bytes)
        collections = 0
        while nursery.nursery_free + context_bytes > nursery.nursery_limit:
            collections = self._collect(collections)
        nursery.hand_out(context_bytes)
        return nursery.contexts[nursery.thread]
