"""The collector with finalizers and ephemerons: a heap, and collections that know about them.

It is apart from the plain collector, which stays as it is. The order matters at the end of marking.
The values of living keys are marked first. Then it is decided which finalizers are due, and which
weak references are cleared. What finalizers keep is marked last. What is dead then has its
destructor called.
"""

from __future__ import annotations

import attrs
from typing_extensions import override

from gcmodel.collector.destructors import Destructors
from gcmodel.collector.ephemerons import Ephemerons
from gcmodel.collector.finalizers import Deaths, Finalizers
from gcmodel.collector.heap import Heap, Parts
from gcmodel.collector.major import MajorCollection
from gcmodel.collector.minor import MinorCollection
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.configuration import MAJOR_FACTOR, Configuration
from gcmodel.memory.events import Events
from gcmodel.memory.layout import EPHEMERON_BYTES, Kind
from gcmodel.memory.objects import OUTSIDE, VISITED, YOUNG, Object


class FinalizingMinor(MinorCollection):
    """Objects with finalizers survive, and what surviving ephemerons refer to."""

    _heap: FinalizingHeap

    @override
    def collect(self, is_anything_new: bool = True) -> None:
        super().collect(is_anything_new)
        # If nothing was young, their objects were old before.
        self._heap.finalizers.after_minor_trace(self._drag_out_if_young)

    @override
    def _drag_out_all(self, parents: list[Object]) -> None:
        super()._drag_out_all(parents)
        self._heap.finalizers.after_minor_trace(self._drag_out_if_young)
        self._drag_out_from_old()
        self._heap.ephemerons.after_minor_trace(self._drag_out_if_young, self._drag_out_from_old)

    @override
    def _conclude(self) -> None:
        super()._conclude()
        self._heap.destructors.after_minor_collection()

    def _drag_out_if_young(self, obj: Object) -> Object:
        if obj.place != OUTSIDE or obj.flags & YOUNG:
            return self._drag_out(obj, None)
        return obj


class FinalizingMajor(MajorCollection):
    """It queues dead objects with finalizers when marking ends, and they stay alive."""

    _heap: FinalizingHeap

    @override
    def _scan_roots(self) -> None:
        super()._scan_roots()
        self._make_gray(self._heap.finalizers.roots())

    @override
    def _finish_marking(self) -> None:
        heap = self._heap
        self.to_trace.extend(heap.barrier.prebuilt_roots)
        self._visit()
        heap.ephemerons.visit_values(self._mark_now)
        deaths = heap.finalizers.after_marking()
        heap.weakrefs.before_finalizers(deaths)
        self._mark_finalizable(deaths)
        heap.ephemerons.after_marking()
        heap.destructors.after_marking()
        super()._finish_marking()

    def _mark_finalizable(self, deaths: Deaths) -> None:
        for head in deaths.heads:
            self._mark_now(head)
        self._heap.ephemerons.visit_values(self._mark_now)

    def _mark_now(self, obj: Object) -> None:
        self.to_trace.append(obj)
        self._visit()

    @override
    def _set_threshold(self, bytes_wanted: float, reserve_bytes: int) -> None:
        """What finalizers keep is about to die, and does not count. (PyPy issue 2590.)"""
        kept_bytes = self._heap.finalizers.kept_alive_bytes
        super()._set_threshold(max(bytes_wanted - kept_bytes * MAJOR_FACTOR, 0), reserve_bytes)


class FinalizingWeakrefs(Weakrefs):
    """Weak references to a dying object are cleared although its finalizer may resurrect it."""

    def before_finalizers(self, deaths: Deaths) -> None:
        """Clear those whose object is dead, unless two heads or more refer to it.

        Nothing that finalizers keep is marked yet. (PyPy's invalidate_old_weakrefs.)
        """
        kept = []
        for weakref in self.old:
            if self._is_kept(weakref.target, deaths):
                kept.append(weakref)
            else:
                weakref.target = None
        self.old = kept

    def _is_kept(self, target: Object | None, deaths: Deaths) -> bool:
        assert target is not None
        return bool(target.flags & VISITED) or deaths.count(target) > 1


@attrs.frozen
class FinalizingParts(Parts):
    """The classes of which a heap with finalizers is composed."""

    minor: type[FinalizingMinor] = FinalizingMinor
    major: type[FinalizingMajor] = FinalizingMajor
    weakrefs: type[FinalizingWeakrefs] = FinalizingWeakrefs
    finalizers: type[Finalizers] = Finalizers
    destructors: type[Destructors] = Destructors
    ephemerons: type[Ephemerons] = Ephemerons


class FinalizingHeap(Heap):
    """A heap with finalizers and ephemerons."""

    weakrefs: FinalizingWeakrefs

    def __init__(
        self,
        configuration: Configuration,
        parts: FinalizingParts = FinalizingParts(),
        events: Events | None = None,
    ) -> None:
        super().__init__(configuration, parts, events)
        self.finalizers = parts.finalizers()
        self.destructors = parts.destructors()
        self.ephemerons = parts.ephemerons()

    def allocate_destructible(self, number: int, destructor: int) -> tuple[int, int | None]:
        """A node with a destructor, which the configuration must place in the nursery."""
        placed = self.allocate_node(number)
        self.destructors.add(self.roots[-1], destructor)
        return placed

    def register_finalizer(self, root: int, number: int) -> None:
        """Give the object in slot `root` a finalizer; it may not be prebuilt."""
        self.finalizers.register(self._object(root), number)

    def unregister_finalizer(self, root: int) -> None:
        """Take back the finalizers of the object in slot `root` that are not pending."""
        self.finalizers.unregister(self._object(root))

    def run_finalizers(self, keep: bool) -> list[int]:
        """Empty the queue; return the numbers of the finalizers, those of destructors first.

        See Finalizers.run.
        """
        return [*self.destructors.take(), *self.finalizers.run(keep)]

    def resurrect(self, number: int) -> None:
        """Append the object of a finalizer that was kept to the roots."""
        self.roots.append(self._alive(self.finalizers.kept[number]))

    def allocate_ephemeron(self, key_root: int, value_root: int) -> tuple[int, int | None]:
        """An ephemeron with the objects in these slots."""
        placed = self._allocate(Kind.EPHEMERON, EPHEMERON_BYTES, 0, 0, False)
        pair = self._object(key_root), self._object(value_root)
        self.ephemerons.add(self.roots[-1], *pair)
        return placed

    def read_ephemeron(self, root: int) -> int | None:
        """The number of the value of the ephemeron in slot `root`; None if its key is dead."""
        value = self.ephemerons.value_of(self._object(root))
        return None if value is None else self._alive(value).number
