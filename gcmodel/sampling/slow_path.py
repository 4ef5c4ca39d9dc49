"""The slow paths of allocation: the nursery's limit was passed, or the object lies outside.

The fast path is `Nursery.allocate`. Passing the limit means a sample, a minor collection, or
both: a sample first if the sample point lies within the nursery, and a sample afterwards if the
minor collection has moved the sample point into the new object.
"""

from __future__ import annotations

from typing import Protocol

from gcmodel.memory.configuration import Configuration
from gcmodel.memory.errors import HeapError
from gcmodel.memory.layout import Kind, rounded
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import CARDS_SET, OUTSIDE, TRACK_YOUNG, Object
from gcmodel.sampling.sample_point import Sampling
from gcmodel.sampling.sampler import Sampler


class SlowPathHeap(Protocol):
    """What the slow paths ask of their heap."""

    configuration: Configuration
    nursery: Nursery
    sampling: Sampler

    def collect_minor(self) -> None:
        """A minor collection only."""

    def progress_and_call_back(self, extra_bytes: int) -> None:
        """What a full nursery causes, and the mutator's callback after it.

        `extra_bytes` are about to be allocated outside the nursery.
        """

    def is_major_due(self, extra_bytes: int) -> bool:
        """Whether so many bytes more would start a major collection."""

    def place_outside(self, obj: Object, is_young: bool) -> None:
        """Give a new object its place outside the nursery."""


class Allocation:
    """The slow paths."""

    def __init__(self, heap: SlowPathHeap) -> None:
        self._heap = heap

    def collect_and_reserve(self, size_bytes: int) -> int:
        """`nursery_free`, moved forward by `size_bytes`, passed `nursery_limit`. (Listing 4.)

        Returns the address at which the object can lie.
        """
        nursery, sampling = self._heap.nursery, self._heap.sampling
        assert isinstance(sampling, Sampling)  # Contexts have a slow path of their own.
        nursery.nursery_free -= size_bytes
        collections = 0
        if nursery.is_collection_due:
            collections = self._collect(collections)
        samples = sampling.passed_in_nursery(nursery.nursery_free + size_bytes)
        while nursery.nursery_free + size_bytes > nursery.nursery_limit:
            if nursery.obstacles:
                sampling.jumped(nursery.enter_next_room())
            else:
                collections = self._collect(collections)
            samples += sampling.passed_in_nursery(nursery.nursery_free + size_bytes)
        address = nursery.nursery_free
        nursery.nursery_free += size_bytes
        # Only now: a report of the collection above must not speak of this object.
        sampling.record(address, samples, size_bytes)
        return address

    def _collect(self, collections: int) -> int:
        """Make room. The second time what the callback allocated is in the way, and only that."""
        if not collections:
            self._heap.progress_and_call_back(0)
        elif collections == 1:
            self._heap.collect_minor()
        else:
            raise HeapError("collecting twice is not enough to make room for one object")
        return collections + 1

    def outside(self, kind: Kind, raw_bytes: int, number: int, length: int) -> Object:
        """A young object of `raw_bytes`, unrounded, outside the nursery. (Section 3.4.)"""
        obj = Object(kind, OUTSIDE, rounded(raw_bytes), number, [None] * length)
        configuration = self._heap.configuration
        is_large = raw_bytes >= configuration.large_object_bytes
        if kind is Kind.ARRAY and is_large and configuration.card_items:
            # CARDS_SET without being listed: the list is for old arrays only.
            obj.cards = set()
            obj.flags = TRACK_YOUNG | CARDS_SET
        return self._placed_outside(obj, raw_bytes, is_young=True)

    def old(self, kind: Kind, raw_bytes: int, number: int) -> Object:
        """An object without references, old from the start: only a major collection frees it.

        (PyPy's external_malloc with alloc_young=False.)
        """
        obj = Object(kind, OUTSIDE, rounded(raw_bytes), number, [])
        return self._placed_outside(obj, raw_bytes, is_young=False)

    def _placed_outside(self, obj: Object, raw_bytes: int, is_young: bool) -> Object:
        """An object outside does not fill the nursery, but the heap, and that is collected too."""
        heap = self._heap
        if heap.is_major_due(raw_bytes):
            heap.progress_and_call_back(raw_bytes + heap.configuration.nursery_bytes // 2)
        heap.place_outside(obj, is_young)
        heap.sampling.allocated_outside(obj, raw_bytes)
        return obj
