"""What the mutator knows of finalizers, ephemerons and weak references that may be cleared early.

It does not know when an object is found dead, only which finalizers have run. Invariant: an object
is in `waiting` from its registration until its finalizer has run, and keeps alive what it refers
to, unless the contract states that it is dead by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import attrs

from fuzz.mutator.objects import ShadowObject
from fuzz.protocol.finalizers import Finalizers


class FinalizerTable:
    """The finalizers by number, and the ephemerons that may have a value."""

    def __init__(self, promised: Finalizers | None) -> None:
        promised = promised or Finalizers()
        self._clears_before = promised.weak == "cleared_before"
        self._keeps = promised.objects == "kept"
        self._attaches = promised.ephemerons == "attached"
        self.registered: dict[int, ShadowObject] = {}
        """The object of each number that a finalizer ever had."""
        self.destructors: dict[int, ShadowObject] = {}
        """The object of each number that a destructor ever had."""
        self.unregistered: set[ShadowObject] = set()
        """The objects whose finalizers were ever taken back."""
        self.waiting: dict[int, ShadowObject] = {}
        """Those whose finalizer has not run."""
        self.kept: dict[int, ShadowObject] = {}
        """Those that can be resurrected until finalizers run again."""
        self.ephemerons: list[ShadowObject] = []
        self._weakrefs: list[ShadowObject] = []
        # Weak references that may be cleared, by the object that they referred to.
        self._doubtful: dict[ShadowObject, list[ShadowObject]] = {}

    def register(self, number: int, obj: ShadowObject) -> None:
        self.registered[number] = self.waiting[number] = obj

    def new_number(self) -> int:
        """A number that none has, if the others were given by this method."""
        return len(self.registered) + len(self.destructors)

    def unregister(self, obj: ShadowObject) -> None:
        self.unregistered.add(obj)
        self.waiting = {number: other for number, other in self.waiting.items() if other is not obj}

    def run(self, finalized: Sequence[int], keep: bool) -> None:
        """The target has run the finalizers of these numbers. It may invent numbers."""
        run = {number: self.waiting.pop(number) for number in finalized if number in self.waiting}
        self.kept = run if keep and self._keeps else {}
        for obj in (self.destructors[number] for number in finalized if number in self.destructors):
            obj.age = type(obj.age).DEAD
        for obj in run.values():
            if not self._keeps:
                obj.age = type(obj.age).DEAD
            for weakref in self._doubtful.pop(obj, ()):
                assert weakref.target is not None
                weakref.target.age = type(obj.age).DEAD

    def add_weakref(self, weakref: ShadowObject) -> None:
        if self._clears_before:
            self._weakrefs.append(weakref)

    def collected(
        self, reachable: Collection[ShadowObject], living: Collection[ShadowObject]
    ) -> None:
        """A collection may have cleared weak references to objects that only finalizers keep.

        From here on they refer to a substitute, about which nothing is known until the finalizer
        of the object has run. Such an object may become reachable, and they stay cleared.
        """
        clear: list[ShadowObject] = []
        for weakref in self._weakrefs:
            target = weakref.target
            if target is None or target in reachable or target not in living:
                clear.append(weakref)
            else:
                weakref.target = attrs.evolve(target, age=type(target.age).OLD)
                self._doubtful.setdefault(target, []).append(weakref)
        self._weakrefs = clear

    def extend_by_values(self, found: dict[ShadowObject, None]) -> Iterable[ShadowObject]:
        """The values of ephemerons that were found together with their keys."""
        for entry in self.ephemerons:
            value = entry.value
            is_found = entry.target in found and (self._attaches or entry in found)
            if value is not None and value not in found and is_found:
                yield value

    def keeping(self) -> Collection[ShadowObject]:
        """The objects that are alive because their finalizers have not run."""
        return self.waiting.values() if self._keeps else ()

    def values(self) -> Iterable[ShadowObject | None]:
        """The values that a minor collection may keep, even if their ephemerons are dead."""
        return [entry.value for entry in self.ephemerons]

    def clear_ephemerons(self, living: Collection[ShadowObject]) -> None:
        """After a full collection the others have no value."""
        for entry in self.ephemerons:
            if entry.target not in living:
                entry.value = None
        self.ephemerons = [
            each for each in self.ephemerons if each.value and (self._attaches or each in living)
        ]
