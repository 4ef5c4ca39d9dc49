"""Destructors: which objects with one are dead. A destructor keeps nothing alive.

Invariant, between two collections: the object of each destructor in `young` is in the nursery, that
of each in `old` is old. (PyPy's deal_with_young_objects_with_destructors, and that for old ones.)
"""

from __future__ import annotations

from gcmodel.collector.finalizers import Finalizer
from gcmodel.memory.objects import OUTSIDE, VISITED, Object


class Destructors:
    """`young` and `old` are stacks. `called` ones have not been reported yet."""

    def __init__(self) -> None:
        self.young: list[Finalizer] = []
        self.old: list[Finalizer] = []
        self.called: list[int] = []

    def add(self, obj: Object, number: int) -> None:
        """Call this destructor when `obj`, which is new and in the nursery, is dead."""
        self.young.append(Finalizer(number, obj))

    def take(self) -> list[int]:
        """The numbers of those that were called since the last time, in order."""
        called, self.called = self.called, []
        return called

    def after_minor_collection(self) -> None:
        """Call those of the young objects that have not moved out of the nursery."""
        while self.young:
            each = self.young.pop()
            survivor = each.obj.forwarded_to
            if survivor is None:
                self.called.append(each.number)
            else:
                self._promote(each, survivor)

    def _promote(self, each: Finalizer, survivor: Object) -> None:
        assert survivor.place == OUTSIDE
        each.obj = survivor
        self.old.append(each)

    def after_marking(self) -> None:
        """Call those of the objects that neither the mutator nor a finalizer reaches."""
        kept: list[Finalizer] = []
        while self.old:
            each = self.old.pop()
            if each.obj.flags & VISITED:
                kept.append(each)
            else:
                self.called.append(each.number)
        self.old = kept
