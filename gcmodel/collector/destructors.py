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
            entry = self.young.pop()
            survivor = entry.obj.forwarded_to
            if survivor is None:
                self.called.append(entry.number)
            else:
                self._promote(entry, survivor)

    def _promote(self, entry: Finalizer, survivor: Object) -> None:
        assert survivor.place == OUTSIDE
        entry.obj = survivor
        self.old.append(entry)

    def after_marking(self) -> None:
        """Call those of the objects that neither the mutator nor a finalizer reaches."""
        kept: list[Finalizer] = []
        while self.old:
            entry = self.old.pop()
            if entry.obj.flags & VISITED:
                kept.append(entry)
            else:
                self.called.append(entry.number)
        self.old = kept
