"""The slow paths of allocation: the nursery's limit was passed, or the object lies outside.

The fast path is `Nursery.allocate`. Passing the limit means a sample, a minor collection, or
both: a sample first if the sample point lies within the nursery, and a sample afterwards if the
minor collection has moved the sample point into the new object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcmodel.layout import Kind, rounded
from gcmodel.objects import CARDS_SET, OUTSIDE, TRACK_YOUNG, Object

if TYPE_CHECKING:
    from gcmodel.heap import Heap


class Allocation:
    """The slow paths."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap

    def collect_and_reserve(self, size_bytes: int) -> int:
        """`nursery_free`, moved forward by `size_bytes`, passed `nursery_limit`. (Listing 4.)

        Returns the address at which the object can lie.
        """
        nursery, sampling = self._heap.nursery, self._heap.sampling
        samples = sampling.passed_in_nursery()
        if nursery.nursery_free > nursery.nursery_limit:
            nursery.nursery_free -= size_bytes
            self._heap.major.progress(0)
            nursery.nursery_free += size_bytes
            samples += sampling.passed_in_nursery()
        address = nursery.nursery_free - size_bytes
        # Only now: a report of the collection above must not speak of this object.
        sampling.record(address, samples)
        return address

    def outside(self, kind: Kind, raw_bytes: int, number: int, length: int) -> Object:
        """A young object of `raw_bytes`, unrounded, outside the nursery. (Section 3.4.)"""
        heap = self._heap
        if heap.major.threshold_reached(raw_bytes):
            heap.major.progress(raw_bytes + heap.configuration.nursery_bytes // 2)
        obj = Object(kind, OUTSIDE, rounded(raw_bytes), number, [None] * length)
        configuration = heap.configuration
        is_large = raw_bytes >= configuration.large_object_bytes
        if kind is Kind.ARRAY and is_large and configuration.card_items:
            # CARDS_SET without being listed: the list is for old arrays only.
            obj.cards = set()
            obj.flags = TRACK_YOUNG | CARDS_SET
        heap.large_objects.add_young(obj)
        heap.sampling.allocated_outside(obj, raw_bytes)
        return obj
