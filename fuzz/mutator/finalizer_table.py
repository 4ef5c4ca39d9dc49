"""What the mutator knows of finalizers, ephemerons and weak references that may be cleared early.

It does not know when an object is found dead, only which finalizers have run. Invariant: an object
is in `waiting` from its registration until its finalizer has run, and keeps alive what it refers
to, unless the contract states that it is dead by then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import attrs

from fuzz.mutator.objects import DEAD, OLD, ShadowObject
from fuzz.protocol.finalizers import Finalizers

LivingWith = Callable[[ShadowObject], Collection[ShadowObject]]


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
        self.delayed: list[ShadowObject] = []
        """Those of `keeps_once` that the last full collection may not have found."""
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
        self,
        reachable: Collection[ShadowObject],
        living: Collection[ShadowObject],
        once_kept: Collection[ShadowObject],
    ) -> None:
        """A collection may have cleared weak references to objects that only finalizers keep.

        From here on they refer to a substitute, about which nothing is known until the finalizer
        of the object has run. Such an object may become reachable, and they stay cleared. If the
        weak reference is unreachable and need not be cleared, or if only an object that is kept
        once keeps the other one, nothing is known until that is dead. `once_kept` is `living`, the
        objects that are kept once, and what these refer to.
        """
        if not self._clears_in_dead:
            self._except_unreachable(reachable)
        clear: list[ShadowObject] = []
        kept = living if self._clears_in_dead else once_kept
        for weakref in self._weakrefs:
            target = weakref.target
            if target is None or target in reachable or target not in kept:
                clear.append(weakref)
                continue
            weakref.target = attrs.evolve(target, age=OLD)
            self._originals[weakref.target] = target
            # No finalizer that runs shows that an object is dead that is kept once.
            if self._clears_in_dead or (weakref in reachable and target in living):
                self._doubtful.setdefault(target, []).append(weakref)
            else:
                self._undecided.append((weakref.target, target))
        self._weakrefs = clear

    def _except_unreachable(self, reachable: Collection[ShadowObject]) -> None:
        """Weak references that were reachable when a collection may not have found the object."""
        for target, weakrefs in self._doubtful.items():
            for weakref in weakrefs:
                if weakref not in reachable and weakref.target is not None:
                    self._undecided.append((weakref.target, target))
            weakrefs[:] = [weakref for weakref in weakrefs if weakref in reachable]

    def original(self, obj: ShadowObject) -> ShadowObject:
        """The object itself, if that is its substitute."""
        return self._originals.get(obj, obj)

    def found_dead(self, living: Collection[ShadowObject], living_with: LivingWith) -> None:
        """A full collection has found all dead, but for these objects.

        Of two that are kept once, if one refers to the other, the latter may be found by the next
        full collection. Lua may have found the former when an allocation failed, and has kept what
        it refers to. Those of a cycle are found together. `living_with` gives what would be alive
        if the object were.
        """
        dead = [obj for obj in self.keeps_once if obj not in living]
        kept = {obj: living_with(obj) for obj in dead}
        self.delayed = [
            obj
            for obj in dead
            if obj not in self.delayed
            and any(obj in kept[other] and other not in kept[obj] for other in dead)
        ]
        self.kept_once = [obj for obj in dead if obj not in self.delayed]
        self.keeps_once = [obj for obj in self.keeps_once if obj in living] + self.delayed

    def returned(self, reachable: Collection[ShadowObject]) -> None:
        """A weak reference has made these reachable again."""
        self.delayed = [obj for obj in self.delayed if obj not in reachable]

    def decide(self, living: Collection[ShadowObject]) -> None:
        """After a full collection, these may be alive, and no others."""
        for substitute, obj in self._undecided:
            if obj not in living:
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
