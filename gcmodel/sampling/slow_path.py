"""The slow paths of allocation: the nursery's limit was passed, or the object lies outside.

The fast path is `Nursery.allocate`. Passing the limit means a sample, a minor collection, or both.
The sample comes first if the sample point lies within the nursery. It comes second if the minor
collection has moved the sample point into the new object.
"""

from collections.abc import Sequence
from typing import Protocol

from gcmodel.memory.configuration import Configuration
from gcmodel.memory.errors import HeapError
from gcmodel.memory.layout import Kind, rounded
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import CARDS_SET, OUTSIDE, TRACK_YOUNG, Object
from gcmodel.sampling.sample_point import Sampling
from gcmodel.sampling.sampler import Sampler


class SlowPathHeap(Protocol):
    """What the slow paths need of their heap."""

    configuration: Configuration
    nursery: Nursery
    sampling: Sampler

    def collect_minor(self) -> None:
        """Run a minor collection only."""

    def progress_and_call_back(self, extra_bytes: int) -> None:
        """Collect as for a full nursery, then run the mutator's callback.

        `extra_bytes` are about to be allocated outside the nursery.
        """

    def is_major_due(self, extra_bytes: int) -> bool:
        """Whether `extra_bytes` more would start a major collection."""

    def place_outside(self, obj: Object, is_young: bool) -> None:
        """Place a new object outside the nursery."""


class Allocation:
    """The slow paths."""

    def __init__(self, heap: SlowPathHeap) -> None:
        self._heap = heap

    def collect_and_reserve(self, size_bytes: int) -> int:
        """Return an address for an object that passed `nursery_limit`. (Listing 4.)

        `nursery_free` has been moved forward by `size_bytes` already.
        """
        nursery, sampling = self._heap.nursery, self._heap.sampling
        assert isinstance(sampling, Sampling)  # Contexts have a slow path of their own.
        nursery.nursery_free -= size_bytes
        collections = 0
        if nursery.is_collection_due:
            collections = self._collect(collections)
        passed = sampling.passed_in_nursery(nursery.nursery_free + size_bytes)
        while nursery.nursery_free + size_bytes > nursery.nursery_limit:
            if nursery.obstacles:
                sampling.jumped(nursery.enter_next_room())
            else:
                collections = self._collect(collections)
            passed += sampling.passed_in_nursery(nursery.nursery_free + size_bytes)
        address = nursery.nursery_free
        nursery.nursery_free += size_bytes
        # Last, so that a report of the collection above does not include this object.
        self.record(address, size_bytes, passed)
        return address

    def record(self, address: int, size_bytes: int, passed: Sequence[int]) -> None:
        """Record the samples of an object. `passed` says how far before its end each byte lies."""
        self._heap.sampling.record(address, len(passed), size_bytes)

    def _collect(self, collections: int) -> int:
        """Make room. A second collection only has to remove what the callback allocated."""
        if not collections:
            self._heap.progress_and_call_back(0)
        elif collections == 1:
            self._heap.collect_minor()
        else:
            raise HeapError("collecting twice is not enough to make room for one object")
        return collections + 1

    def outside(self, kind: Kind, raw_bytes: int, number: int, length: int) -> Object:
        """Allocate a young object of unrounded size outside the nursery. (Section 3.4.)"""
        obj = Object(kind, OUTSIDE, rounded(raw_bytes), number, [None] * length)
        configuration = self._heap.configuration
        is_large = raw_bytes >= configuration.large_object_bytes
        if kind is Kind.ARRAY and is_large and configuration.card_items:
            # CARDS_SET without being listed: the list is for old arrays only.
            obj.cards = set()
            obj.flags = TRACK_YOUNG | CARDS_SET
        return self._placed_outside(obj, raw_bytes, is_young=True)

    def old(self, kind: Kind, raw_bytes: int, number: int) -> Object:
        """Allocate an object without references that only a major collection frees.

        (PyPy's external_malloc with alloc_young=False.)
        """
        obj = Object(kind, OUTSIDE, rounded(raw_bytes), number, [])
        return self._placed_outside(obj, raw_bytes, is_young=False)

    def _placed_outside(self, obj: Object, raw_bytes: int, is_young: bool) -> Object:
        """Place an object, after a collection if it would pass the major threshold."""
        heap = self._heap
        if heap.is_major_due(raw_bytes):
            heap.progress_and_call_back(raw_bytes + heap.configuration.nursery_bytes // 2)
        heap.place_outside(obj, is_young)
        heap.sampling.allocated_outside(obj, raw_bytes)
        return obj
