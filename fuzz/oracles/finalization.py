"""The finalization oracle: finalizers are called for unreachable objects, once, in order, and soon.

- A finalizer is pending only if its object was unreachable at a collection.
- Each registration is called once at most, and none that was taken back before.
- After `within` full collections it is pending, unless the order delays it. So it is after
  `within_collections` of any kind, if the contract states them.
- A destructor is called once, after a collection at which nothing kept its object, not even an
  object whose finalizer has not run, and within that many full ones.
- In `referrer_first`, no other object with a finalizer refers to a pending one, not even from the
  queue. Of a cycle at most one object is pending at a time. That is the first registered one, or
  any one if it waited for an object outside the cycle before, which changes the order (PyPy).

What is unreachable does not change, so the references of the shadow are those of the collection.
A full collection may first finish one in progress, which finds some of the dead objects. These are
then pending, and keep alive what they refer to, also by ephemerons.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import attrs

from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.heap import HeapOracle
from fuzz.oracles.oracle import Mismatch, Oracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation


@attrs.define(eq=False)
class Finalizer:
    """A finalizer that has not run."""

    number: int
    obj: ShadowObject
    place: int | None = 0
    """In the order of registration; None if it is unknown."""
    may_be_pending: bool = False
    """Whether a collection has seen its object unreachable since the queue was emptied."""
    full_collections: int = 0
    """How many of those were full ones in which nothing delayed it."""
    collections: int = 0
    """The same for collections of any kind."""
    has_waited: bool = False
    """Whether one has seen an object outside its cycle that refers to it."""

    def find_dead(self, *, is_delayed: bool) -> None:
        """A collection sees its object unreachable, and may find it dead."""
        self.may_be_pending = True
        self.has_waited |= is_delayed

    def count(self, minors: int, *, is_full: bool) -> None:
        """An action with these collections sees it so, and nothing delays it."""
        self.full_collections += is_full
        self.collections += minors

    def come_back(self) -> None:
        """Its object is reachable again, by a weak reference or another object."""
        self.full_collections = self.collections = 0

    def leave_queue(self, *, may_enter: bool) -> None:
        """The queue was emptied, and it was not there. It `may_enter` without a new collection."""
        self.may_be_pending &= may_enter


class FinalizationOracle(Oracle):
    """Keeps the finalizers that have not run, and the numbers of those that were taken back."""

    name = "finalization"
    judges = ("finalized",)
    relies_on = (HeapOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        assert contract.finalizers is not None
        self._promised = contract.finalizers
        self._promises_collections = "collections" in contract.promises
        self._waiting: dict[int, Finalizer] = {}
        self._taken_back: dict[int, Finalizer] = {}
        self._ever_taken_back: set[int] = set()
        self._is_called_later = self._promised.called == "later"
        self._keeps_places = self._promised.again == "old_place"
        # The places of objects whose finalizer was taken back, None where a collection may have
        # found the object dead, so that it has lost its place.
        self._old_places: dict[ShadowObject, int | None] = {}
        self._registrations = 0
        self._destructors: dict[int, Finalizer] = {}
        # Of each of these groups one must be pending.
        self._due: list[list[Finalizer]] = []
        # Those that one collection found dead, in the order of registration.
        self._together: list[list[Finalizer]] = []
        # Whether no major collection can be in progress: none came since the start or a full one.
        self._is_idle = True

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return contract.finalizers is not None and "finalized" in contract.observes

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        # What the action does to finalizers comes after a collection in it.
        if observation.minors:
            # One in a `free` or a write came before that, while the object was still reachable.
            drops_nothing = action.allocates or action.collects != "never"
            self._note_collections(action, observation.minors if drops_nothing else 0)
        if isinstance(action, actions.ReadWeakref) and action.keep:
            self._note_returned()
        if isinstance(action, actions.RunFinalizers):
            self._check_run(self._check_destructors(observation.finalized))
        elif observation.finalized:
            raise self.mismatch("finalized", [], observation.finalized, "the action runs none")
        elif isinstance(action, actions.RegisterFinalizer):
            self._register(action.number, self._shadow.roots[action.root])
        elif isinstance(action, actions.UnregisterFinalizer):
            self._take_back(self._shadow.roots[action.root])
        elif isinstance(action, actions.AllocateNode) and action.destructor is not None:
            obj = self._shadow.roots[-1]
            self._destructors[action.destructor] = Finalizer(action.destructor, obj)

    def _register(self, number: int, obj: ShadowObject) -> None:
        self._registrations += 1
        place = self._old_places.pop(obj, self._registrations)
        self._waiting[number] = Finalizer(number, obj, place)

    def _take_back(self, obj: ShadowObject) -> None:
        taken = {number: entry for number, entry in self._waiting.items() if entry.obj is obj}
        if self._keeps_places:
            self._old_places.update((obj, entry.place) for entry in taken.values())
        self._waiting = {n: entry for n, entry in self._waiting.items() if n not in taken}
        self._taken_back |= taken
        self._ever_taken_back |= taken.keys()
        left = [group for group in self._due if not any(entry.obj is obj for entry in group)]
        if left != self._due:  # The others of its group are counted afresh.
            for entry in self._waiting.values():
                entry.come_back()
        self._due = left

    # At a collection.

    def _note_collections(self, action: Action, minors: int) -> None:
        is_full = action.collects == "full"
        if self._old_places:
            self._note_places(is_full=is_full)
        if self._waiting:
            self._note_collection(minors, is_full=is_full)
        if self._destructors:
            self._note_destructors(minors, is_full=is_full)
        # `collect_minor` takes no step of a major collection, if collections are promised.
        if is_full or action.collects != "minor" or not self._promises_collections:
            self._is_idle = is_full

    def _note_collection(self, minors: int, *, is_full: bool) -> None:
        reachable = self._shadow.reachable()
        dead = []
        for entry in self._waiting.values():
            if entry.obj not in reachable:
                dead.append(entry)
            elif not self._is_due(entry):
                entry.come_back()
        led_to = {entry: _led_to(entry.obj) for entry in dead}
        delayed = {
            one for one in dead if any(_outside_leads_to(one, other, led_to) for other in dead)
        }
        are_kept = self._promised.objects == "kept"
        if self._promised.within and (is_full or self._promised.within_collections):
            # Lua may have found one dead when an allocation failed, also if a dead object keeps it.
            table = self._shadow.finalizers
            once_kept = [obj for obj in table.keeps_once if obj not in reachable] + table.kept_once
            for group in self._groups(dead, led_to):
                others = [entry.obj for entry in dead if are_kept and entry not in group]
                others += once_kept
                kept_by_others = self._shadow.reachable_with(others)
                # Another one may be found dead first, and keep it from the queue.
                if group[0].obj not in kept_by_others:
                    self._count(group, minors, is_full=is_full)
        if is_full and self._is_idle:
            self._together.append([entry for entry in dead if not entry.may_be_pending])
        for entry in dead:
            entry.find_dead(is_delayed=entry in delayed)

    def _note_places(self, *, is_full: bool) -> None:
        """An object that dies without a finalizer loses its place."""
        reachable = self._shadow.reachable()
        for obj in [obj for obj in self._old_places if obj not in reachable]:
            self._old_places[obj] = None
            if is_full:
                del self._old_places[obj]

    def _groups(
        self, dead: Collection[Finalizer], led_to: dict[Finalizer, set[ShadowObject]]
    ) -> Iterator[list[Finalizer]]:
        """The finalizers that nothing delays, those of a cycle together."""
        if self._promised.order != "referrer_first":
            yield from ([entry] for entry in dead)
            return
        seen: set[Finalizer] = set()
        for entry in dead:
            cycle = [o for o in dead if entry.obj in led_to[o] and o.obj in led_to[entry]]
            is_delayed = any(_outside_leads_to(entry, other, led_to) for other in dead)
            is_never = self._promised.cycles == "never" and _is_in_cycle(entry.obj)
            if entry not in seen and not is_delayed and not is_never:
                yield cycle
            seen.update(cycle)

    def _count(self, group: list[Finalizer], minors: int, *, is_full: bool) -> None:
        was_due = self._is_due(group[0])
        for entry in group:
            entry.count(minors, is_full=is_full)
        if self._is_due(group[0]) and not was_due:
            self._due.append(group if any(entry.has_waited for entry in group) else group[:1])

    def _is_due(self, entry: Finalizer) -> bool:
        """Whether its object was unreachable at as many collections as are promised."""
        within, within_collections = self._promised.within, self._promised.within_collections
        return bool(within and entry.full_collections >= within) or bool(
            within_collections and entry.collections >= within_collections
        )

    def _note_returned(self) -> None:
        """An object that was read by a weak reference may be reachable only until it is freed."""
        reachable, living = self._shadow.reachable(), self._shadow.living()
        for entry in self._waiting.values():
            if entry.obj in reachable and not self._is_due(entry):
                entry.come_back()
        for entry in self._destructors.values():
            if entry.obj in living:
                entry.come_back()

    def _note_destructors(self, minors: int, *, is_full: bool) -> None:
        living = self._shadow.living()
        for entry in self._destructors.values():
            if entry.obj not in living:
                entry.find_dead(is_delayed=False)
                entry.count(minors, is_full=is_full)
            elif not self._is_due(entry):
                entry.come_back()

    # When finalizers run.

    def _check_destructors(self, finalized: list[int]) -> list[int]:
        """Check those that were called; return the other numbers."""
        called = {n: self._destructors.pop(n) for n in finalized if n in self._destructors}
        for number, entry in called.items():
            if not entry.may_be_pending:
                why = f"{entry.obj.label} was alive at each collection"
                raise self._unexpected(number, finalized, why)
        for number, entry in self._destructors.items():
            if self._is_due(entry):
                raise self._late(f"{number} (destructor of {entry.obj.label})", entry, finalized)
        others = [*finalized]
        for number in called:
            others.remove(number)
        return others

    def _late(self, names: str, entry: Finalizer, finalized: list[int]) -> Mismatch:
        count, kind = self._promised.within, "full collection"
        if entry.full_collections < count:
            count, kind = self._promised.within_collections, "collection"
        why = f"after {count} {kind}{'s' * (count != 1)}"
        return self.mismatch("finalized", names, finalized, why)

    def _check_run(self, finalized: list[int]) -> None:
        run: list[Finalizer] = []
        for number in finalized:
            finalizer = self._waiting.get(number)
            if finalizer is None or finalizer in run:
                finalizer = self._check_taken_back(number, finalized)
            elif not finalizer.may_be_pending:
                why = f"{finalizer.obj.label} was reachable at each collection"
                raise self._unexpected(number, finalized, why)
            run.append(finalizer)
        for group in self._due:
            if not any(entry in run for entry in group):
                names = " or ".join(f"{entry.number} (of {entry.obj.label})" for entry in group)
                raise self._late(names, group[0], finalized)
        if self._promised.order == "referrer_first":
            self._check_order(run, finalized)
        elif self._promised.order == "reverse_registration":
            self._check_reverse(run)
        self._begin(run)

    def _check_taken_back(self, number: int, finalized: list[int]) -> Finalizer:
        finalizer = self._taken_back.pop(number, None)
        if finalizer is None or not finalizer.may_be_pending:
            what = "has run before"
            if self._object_of(number) is None:
                what = "was never registered"
            elif number in self._ever_taken_back:
                what = "was taken back"
            raise self._unexpected(number, finalized, f"{self._named(number)} {what}")
        return finalizer

    def _unexpected(self, number: int, finalized: list[int], why: str) -> Mismatch:
        return self.mismatch("finalized", f"not {self._named(number)}", finalized, why)

    def _named(self, number: int) -> str:
        """A number, with its object if it was ever given."""
        obj = self._object_of(number)
        return str(number) if obj is None else f"{number} (of {obj.label})"

    def _object_of(self, number: int) -> ShadowObject | None:
        table = self._shadow.finalizers
        return table.registered.get(number) or table.destructors.get(number)

    def _check_order(self, run: list[Finalizer], finalized: list[int]) -> None:
        led_to = {entry: _led_to(entry.obj) for entry in self._waiting.values()}
        for entry in run:
            for other, found in led_to.items():
                if other is entry or entry.obj not in found:
                    continue
                is_cycle = other.obj in led_to.get(entry, ())
                if not (is_cycle and self._may_be_called_in_cycle(other, run)):
                    owner = f"{other.obj.label} (finalizer {other.number})"
                    why = f"{owner} refers to {entry.obj.label}"
                    raise self._unexpected(entry.number, finalized, why)

    def _may_be_called_in_cycle(self, other: Finalizer, run: list[Finalizer]) -> bool:
        """Whether one of a cycle may have been called, if `other` belongs to it too."""
        cycles = self._promised.cycles
        return cycles == "any" or (cycles == "first_registered" and other not in run)

    def _check_reverse(self, run: list[Finalizer]) -> None:
        for together in self._together:
            placed = [entry for entry in together if entry.place is not None]
            placed.sort(key=lambda entry: entry.place or 0)
            got = [entry.number for entry in run if entry in placed]
            expected = [entry.number for entry in reversed(placed) if entry in run]
            if got != expected:
                why = "the last registered first, of those that died together"
                raise self.mismatch("finalized", expected, got, why)

    def _begin(self, run: list[Finalizer]) -> None:
        """The queue is empty, if calls are promised."""
        for entry in run:
            self._waiting.pop(entry.number, None)
        self._due, self._together = [], []
        if self._promised.within:
            self._taken_back = {}
            for entry in self._waiting.values():
                entry.leave_queue(may_enter=self._is_called_later)
                if run:  # One of these may have kept its object alive.
                    entry.come_back()


def _outside_leads_to(
    entry: Finalizer, other: Finalizer, led_to: dict[Finalizer, set[ShadowObject]]
) -> bool:
    """Whether `other` refers to `entry`, which does not refer back."""
    return entry.obj in led_to[other] and other.obj not in led_to[entry]


def _is_in_cycle(obj: ShadowObject) -> bool:
    """Whether another object leads from it back to it."""
    others = [ref for ref in obj.refs if ref is not None and ref is not obj]
    return any(obj in _led_to(other) for other in others)


def _led_to(obj: ShadowObject) -> set[ShadowObject]:
    """The object, and all to which its references lead."""
    found, pending = {obj}, [obj]
    while pending:
        new: Iterable[ShadowObject] = filter(None, pending.pop().refs)
        for ref in new:
            if ref not in found:
                found.add(ref)
                pending.append(ref)
    return found
