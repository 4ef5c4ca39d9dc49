"""The minor collection: it moves the survivors out of the nursery, and everything else is dead.

A young object survives exactly when it is reachable from the roots or from an old object. Old
objects that can refer to a young one are in the barrier's lists. Survivors with references join
them, so the trace ends when these lists are empty.
"""

from __future__ import annotations

from typing import Protocol

from gcmodel.collector.collected_heap import CollectedHeap
from gcmodel.collector.dangling import dangling_reference
from gcmodel.collector.major import MajorCollection
from gcmodel.memory.layout import Kind
from gcmodel.memory.objects import (
    CARDS_SET,
    HAS_SHADOW,
    OUTSIDE,
    PINNED,
    TRACK_YOUNG,
    VISITED,
    VISITED_YOUNG,
    YOUNG,
    Object,
)

KINDS_WITH_REFERENCES = (Kind.NODE, Kind.ARRAY)


class MinorHeap(CollectedHeap, Protocol):
    """The heap whose nursery it empties."""

    @property
    def major(self) -> MajorCollection: ...


class MinorCollection:
    """`surviving_bytes` is how much the last one moved out of the nursery."""

    def __init__(self, heap: MinorHeap) -> None:
        self._heap = heap
        self.surviving_bytes = 0

    def collect(self, is_anything_new: bool = True) -> None:
        """Empty the nursery. The order of the steps matters.

        Nothing is new if neither the mutator has run nor the major collection has entered another
        state since the last one.
        """
        heap = self._heap
        heap.events.minor_collection()
        self.surviving_bytes = 0
        if is_anything_new:
            heap.sampling.before_minor_collection()  # `nursery_free` is where allocation stopped.
            is_young = heap.nursery.memory or heap.large_objects.young
            is_written = heap.barrier.remembered or heap.barrier.dirty_arrays
            if is_young or is_written:
                self._drag_out_all(self._prepare())
                self._conclude()
            else:
                self._rescan_roots()  # Nothing moves, but while marking one may be white.
                heap.sampling.report(heap.statistics)
            heap.nursery.empty(heap.pinning.kept)
            heap.sampling.after_minor_collection()  # `nursery_free` is back, the limit is the top.
        heap.events.minor_collection_ended(heap.statistics)

    def _prepare(self) -> list[Object]:
        """Prepare the parts before anything moves; return the parents of pinned objects."""
        heap = self._heap
        heap.barrier.forget_young()
        parents = heap.pinning.before_minor_collection()
        if heap.major.is_marking():
            # Before the trace, which empties the list and moves the objects that lost their pin.
            heap.major.rescan_black(heap.barrier.remembered)
            heap.major.rescan_black(heap.pinning.losing_a_pin(parents))
        return parents

    def _drag_out_all(self, parents: list[Object]) -> None:
        self._drag_out_roots()
        for parent in parents:
            self._drag_out_range(parent.refs, 0, len(parent.refs), parent)
        self._drag_out_from_old()  # Last, because survivors join the barrier's lists.

    def _conclude(self) -> None:
        """Finish the parts when the survivors are known, by `forwarded_to` or VISITED_YOUNG.

        The first two read VISITED_YOUNG, which pinning clears on pinned objects and large_objects
        on those outside.
        """
        heap = self._heap
        heap.weakrefs.after_minor_collection()
        heap.sampling.report(heap.statistics)
        heap.pinning.after_minor_collection()
        heap.identities.after_minor_collection(heap.pinning.kept, heap.major.is_marking())
        heap.large_objects.free_young(f"minor collection {heap.nursery.filling + 1}")
        heap.major.made_old_bytes += self.surviving_bytes

    def _drag_out_roots(self) -> None:
        roots = self._heap.roots
        self._drag_out_range(roots, 0, len(roots), None)
        self._rescan_roots()

    def _rescan_roots(self) -> None:
        """While marking, rescan unvisited roots: roots have no barrier, so they may be new."""
        heap = self._heap
        if heap.major.is_marking():
            unvisited = [obj for obj in heap.roots if not obj.flags & (VISITED | PINNED)]
            heap.major.to_rescan.extend(unvisited)

    def _drag_out_from_old(self) -> None:
        barrier = self._heap.barrier
        while barrier.remembered or barrier.dirty_arrays:
            while barrier.dirty_arrays:
                self._drag_out_cards(barrier.dirty_arrays.pop())
            while barrier.remembered:
                obj = barrier.remembered.pop()
                obj.flags |= TRACK_YOUNG
                self._drag_out_range(obj.refs, 0, len(obj.refs), obj)

    def _drag_out_cards(self, array: Object) -> None:
        assert array.cards is not None
        array.flags &= ~CARDS_SET
        # An array that is also remembered is traced whole.
        if array.flags & TRACK_YOUNG:
            for card in sorted(array.cards):
                self._drag_out_card(array, card)
            if self._heap.major.is_marking():
                self._heap.major.rescan(array)
        array.cards.clear()

    def _drag_out_card(self, array: Object, card: int) -> None:
        items = self._heap.configuration.card_items
        stop = min((card + 1) * items, len(array.refs))
        self._drag_out_range(array.refs, card * items, stop, array)

    def _drag_out_range(
        self, refs: list[Object] | list[Object | None], start: int, stop: int, parent: Object | None
    ) -> None:
        """Drag out the objects of these references of `parent`, or of the roots."""
        for index in range(start, stop):
            obj = refs[index]
            if obj is not None and (obj.place != OUTSIDE or obj.flags & YOUNG):
                refs[index] = self._drag_out(obj, parent)

    def _drag_out(self, obj: Object, parent: Object | None) -> Object:
        """Let an object that is not old survive; return it where it is afterwards."""
        if obj.place == OUTSIDE:
            self._visit_young(obj)
            return obj
        if obj.place != self._heap.nursery.filling:
            raise dangling_reference(self._heap, obj, "the minor collection found a reference to")
        if obj.flags & PINNED:
            self._heap.pinning.reach(obj, parent)
            return obj
        if obj.forwarded_to is None:
            obj.forwarded_to = self._move_out(obj)
        return obj.forwarded_to

    def _visit_young(self, obj: Object) -> None:
        """Let a young object outside survive in place."""
        if obj.flags & VISITED_YOUNG:
            return
        obj.flags |= VISITED_YOUNG
        self._heap.major.made_old_bytes += obj.size_bytes
        if not obj.flags & TRACK_YOUNG:
            self._heap.barrier.remembered.append(obj)
        if obj.cards is not None:
            self._heap.barrier.dirty_arrays.append(obj)

    def _move_out(self, obj: Object) -> Object:
        self.surviving_bytes += obj.size_bytes
        if obj.flags & HAS_SHADOW:
            moved = self._heap.identities.move_to_shadow(obj)
        else:
            moved = Object(obj.kind, OUTSIDE, obj.size_bytes, obj.number, obj.refs)
            moved.target = obj.target
            moved.contents = obj.contents
            self._heap.place_old(moved)
        if moved.kind in KINDS_WITH_REFERENCES:
            self._heap.barrier.remembered.append(moved)
        return moved
