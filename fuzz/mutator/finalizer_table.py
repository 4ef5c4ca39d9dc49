"""What the mutator knows of finalizers, ephemerons and weak references that may be cleared early.

It does not know when an object is found dead, only which finalizers have run. Invariant: an object
is in `waiting` from its registration until its finalizer has run, and keeps alive what it refers
to, unless the contract states that it is dead by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import attrs

from fuzz.mutator.objects import DEAD, OLD, ShadowObject
from fuzz.protocol.finalizers import Finalizers


class FinalizerTable:
    """The finalizers by number, and the ephemerons that may have a value."""

    def __init__(self, promised: Finalizers | None) -> None:
        promised = promised or Finalizers()
        self._clears_before = promised.weak == "cleared_before"
        self._keeps = promised.objects == "kept"
        self._attaches = promised.ephemerons == "attached"
        self._clears_in_dead = promised.weak_in_dead == "cleared"
        self._keeps_once = promised.taken_back == "kept_once"
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
        self.keeps_once: list[ShadowObject] = []
        """Those whose finalizer was taken back, and that no full collection has found dead."""
        self.kept_once: list[ShadowObject] = []
        """Those that the last full collection found dead. They may live until the next one."""
        self._weakrefs: list[ShadowObject] = []
        # Weak references that may be cleared, by the object that they referred to.
        self._doubtful: dict[ShadowObject, list[ShadowObject]] = {}
        # Substitutes that weak references lead to until the object is dead, with the object.
        self._undecided: list[tuple[ShadowObject, ShadowObject]] = []
        # The object of each substitute.
        self._originals: dict[ShadowObject, ShadowObject] = {}

    def register(self, number: int, obj: ShadowObject) -> None:
        self.registered[number] = self.waiting[number] = obj
        self.keeps_once = [other for other in self.keeps_once if other is not obj]

    def new_number(self) -> int:
        """A number that none has, if the others were given by this method."""
        return len(self.registered) + len(self.destructors)

    def unregister(self, obj: ShadowObject) -> None:
        self.unregistered.add(obj)
        if self._keeps_once and obj in self.waiting.values():
            self.keeps_once.append(obj)
        self.waiting = {number: other for number, other in self.waiting.items() if other is not obj}

    def run(self, finalized: Sequence[int], keep: bool) -> None:
        """The target has run the finalizers of these numbers. It may invent numbers."""
        run = {number: self.waiting.pop(number) for number in finalized if number in self.waiting}
        self.kept = run if keep and self._keeps else {}
        for obj in (self.destructors[number] for number in finalized if number in self.destructors):
            obj.age = DEAD
        for obj in run.values():
            if not self._keeps:
                obj.age = DEAD
            for weakref in self._doubtful.pop(obj, ()):
                assert weakref.target is not None
                weakref.target.age = DEAD

    def add_weakref(self, weakref: ShadowObject) -> None:
        if self._clears_before:
            self._weakrefs.append(weakref)

    @property
    def may_clear(self) -> bool:
        """Whether a collection may clear weak references to objects that are kept."""
        return bool(self.waiting or self.keeps_once or self.kept_once)

    def collected(
        self, reachable: Collection[ShadowObject], living: Collection[ShadowObject]
    ) -> None:
        """A collection may have cleared weak references to objects that only finalizers keep.

        From here on they refer to a substitute, about which nothing is known until the finalizer
        of the object has run. Such an object may become reachable, and they stay cleared. If they
        need not be cleared since they are unreachable, nothing is known until the object is dead.
        """
        if not self._clears_in_dead:
            self._except_unreachable(reachable)
        clear: list[ShadowObject] = []
        for weakref in self._weakrefs:
            target, is_excepted = weakref.target, False
            if target is not None and not self._clears_in_dead:
                is_excepted = weakref not in reachable
            is_kept = target in living or (is_excepted and target in self._once_kept())
            if target is None or target in reachable or not is_kept:
                clear.append(weakref)
                continue
            weakref.target = attrs.evolve(target, age=OLD)
            self._originals[weakref.target] = target
            if is_excepted:
                self._undecided.append((weakref.target, target))
            else:
                self._doubtful.setdefault(target, []).append(weakref)
        self._weakrefs = clear

    def _except_unreachable(self, reachable: Collection[ShadowObject]) -> None:
        """Weak references that were reachable when a collection may not have found the object."""
        for target, weakrefs in self._doubtful.items():
            for weakref in weakrefs:
                if weakref not in reachable and weakref.target is not None:
                    self._undecided.append((weakref.target, target))
            weakrefs[:] = [weakref for weakref in weakrefs if weakref in reachable]

    def _once_kept(self) -> Collection[ShadowObject]:
        return {*self.keeps_once, *self.kept_once}

    def original(self, obj: ShadowObject) -> ShadowObject:
        """The object itself, if that is its substitute."""
        return self._originals.get(obj, obj)

    def found_dead(self, living: Collection[ShadowObject]) -> None:
        """A full collection has found all dead, but for these objects."""
        self.kept_once = [obj for obj in self.keeps_once if obj not in living]
        self.keeps_once = [obj for obj in self.keeps_once if obj in living]
        for substitute, obj in self._undecided:
            if obj not in living and obj not in self.kept_once:
                substitute.age = DEAD
        self._undecided = [each for each in self._undecided if each[0].age is not DEAD]

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
        """After a full collection the others have no value. `living` are those that may live."""
        for entry in self.ephemerons:
            if entry.target not in living:
                entry.value = None
        self.ephemerons = [
            each for each in self.ephemerons if each.value and (self._attaches or each in living)
        ]
