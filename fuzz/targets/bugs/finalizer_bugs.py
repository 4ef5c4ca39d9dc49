"""Known bugs of finalizers and ephemerons, in the reference that has them.

Each subclass overrides the method with the mistake, and a comment states the correct behaviour. The
numbers are those of issues or pull requests in the named repositories.
"""

from __future__ import annotations

from collections.abc import Callable

from fuzz.targets.bugs.known_bug import Host
from gcmodel.collector.destructors import Destructors
from gcmodel.collector.ephemerons import Ephemeron, Ephemerons
from gcmodel.collector.finalizers import Deaths, DragOut, Finalizer, Finalizers
from gcmodel.collector.finalizing import (
    FinalizingMajor,
    FinalizingMinor,
    FinalizingParts,
    FinalizingWeakrefs,
)
from gcmodel.memory.objects import OUTSIDE, VISITED, VISITED_YOUNG, YOUNG, Object

FINALIZING = Host("reference-finalizers", FinalizingParts())

# The order, the bound and the number of calls.


@FINALIZING.bug("finalizers-in-wrong-order", "JuliaLang/julia 26939", ("finalization",), 9)
class FinalizersInWrongOrder(Finalizers):
    """An object is finalized together with another one that refers to it."""

    def _is_due(self, heads: int) -> bool:
        return heads > 0  # Correct: heads == 1, so that no other head refers to it.


@FINALIZING.bug("wrong-index-drops-finalizer", "ocaml/ocaml 13502", ("finalization", "memory"), 7)
class WrongIndexDropsFinalizer(Finalizers):
    """When some finalizers are called, one that stays in the table is lost."""

    def after_marking(self) -> Deaths:
        pending = len(self.pending)
        deaths = super().after_marking()
        if len(self.pending) > pending:
            del self.old[-1:]  # Correct: all of them stay.
        return deaths


@FINALIZING.bug("resurrection-blocks-sweep", "python/cpython 82560", ("finalization",), 10)
class ResurrectionBlocksSweep(Finalizers):
    """If one object may be resurrected, no other dead object is finalized."""

    def after_marking(self) -> Deaths:
        if not self.kept:
            return super().after_marking()
        deaths = Deaths()  # Correct: the others are finalized in the same collection.
        for each in self.old:
            if not each.obj.flags & VISITED:
                deaths.add_head(each.obj)
        return deaths


@FINALIZING.bug("finalized-bit-reset", "python/cpython 113750", ("finalization", "memory"), 7)
class FinalizedBitReset(Finalizers):
    """An object that may be resurrected is finalized again when it dies."""

    def run(self, keep: bool) -> list[int]:
        if keep:
            self.old += self.pending  # Correct: nothing. A registration is called once.
        return super().run(keep)


@FINALIZING.bug("one-list-searched", "JuliaLang/julia 13986", ("finalization", "memory"), 6)
class OneListSearched(Finalizers):
    """A finalizer that is taken back is searched for among the young ones only."""

    def unregister(self, obj: Object) -> None:
        old = self.old
        super().unregister(obj)
        self.old = old  # Correct: without those of the object.


# The queue.


@FINALIZING.bug(
    "pending-not-rooted", "JuliaLang/julia 62969", ("heap", "memory", "finalization"), 5
)
class PendingNotRooted(Finalizers):
    """The objects of pending finalizers are not roots of the next collection."""

    def roots(self) -> list[Object]:
        return [*self.kept.values()]  # Correct: those of `pending`, too.


@FINALIZING.bug("entry-removed-before-run", "ruby/ruby 11375", ("finalization", "memory"), 6)
class EntryRemovedBeforeRun(Finalizers):
    """A collection removes the finalizers that are still pending from the one before."""

    def after_marking(self) -> Deaths:
        self.pending = []  # Correct: nothing. They stay until they are taken.
        return super().after_marking()


# Young objects.


@FINALIZING.bug("decided-before-promotion", "ocaml/ocaml 11995", ("finalization", "heap"), 5)
class DecidedBeforePromotion(FinalizingMinor):
    """A young object that only an old one refers to is finalized."""

    def _drag_out_all(self, parents: list[Object]) -> None:
        self._drag_out_roots()
        finalizers = self._heap.finalizers
        # Correct: what is dead is known when the remembered set is traced, and all are promoted.
        found = [each for each in finalizers.young if self._is_found(each.obj)]
        dead = [each for each in finalizers.young if each not in found]
        for each in dead:
            each.obj = self._drag_out_if_young(each.obj)
        finalizers.young, finalizers.pending = found, finalizers.pending + dead
        super()._drag_out_all(parents)

    def _is_found(self, obj: Object) -> bool:
        if obj.place == OUTSIDE:
            return not obj.flags & YOUNG or bool(obj.flags & VISITED_YOUNG)
        return obj.forwarded_to is not None


@FINALIZING.bug("finalizer-table-not-updated", "ocaml/ocaml 6919", ("heap",), 3)
class FinalizerTableNotUpdated(Finalizers):
    """A minor collection moves the object, and its finalizer keeps the old address."""

    def after_minor_trace(self, drag_out: DragOut) -> None:
        def drag_out_only(obj: Object) -> Object:
            drag_out(obj)
            return obj  # Correct: where it is afterwards.

        super().after_minor_trace(drag_out_only)


# Destructors.


@FINALIZING.bug("destructor-of-kept-object", "pypy/pypy 2287", ("finalization",), 5)
class DestructorOfKeptObject(FinalizingMajor):
    """A destructor is called although a finalizer that is pending keeps its object."""

    def _mark_finalizable(self, deaths: Deaths) -> None:
        self._heap.destructors.after_marking()  # Correct: after all that finalizers keep is marked.
        super()._mark_finalizable(deaths)


@FINALIZING.bug("destructor-lost-in-promotion", "our own", ("finalization",), 5)
class DestructorLostInPromotion(Destructors):
    """The destructor of an object that survives a minor collection is never called."""

    def _promote(self, each: Finalizer, survivor: Object) -> None:
        pass  # Correct: it is among the old ones from then on.


# Weak references.


@FINALIZING.bug("weakref-shows-finalized", "JuliaLang/julia 35169", ("heap",), 7)
class WeakrefShowsFinalized(FinalizingWeakrefs):
    """A weak reference still shows an object whose finalizer has run."""

    def _is_kept(self, target: Object | None, deaths: Deaths) -> bool:
        assert target is not None
        # Correct: only if two heads or more refer to it.
        return bool(target.flags & VISITED) or deaths.count(target) > 0


@FINALIZING.bug("new-weakref-not-cleared", "python/cpython 136401", ("heap",), 11)
class NewWeakrefNotCleared(FinalizingWeakrefs):
    """A weak reference that is made to a resurrected object is not cleared when it dies."""

    def __init__(self) -> None:
        super().__init__()
        self._finalized: set[Object] = set()

    def before_finalizers(self, deaths: Deaths) -> None:
        # Correct: the second life of an object ends like the first one.
        ignored = [weakref for weakref in self.old if weakref.target in self._finalized]
        self.old = [weakref for weakref in self.old if weakref not in ignored]
        super().before_finalizers(deaths)
        self._finalized.update(deaths.heads)


@FINALIZING.bug("resurrected-weakrefs-unprocessed", "mmtk/mmtk-core 1125", ("heap",), 11)
class ResurrectedWeakrefsUnprocessed(FinalizingWeakrefs):
    """A weak reference that only a resurrected object has is not cleared."""

    def before_finalizers(self, deaths: Deaths) -> None:
        # Correct: it depends on its object alone, since finalizers keep it.
        self.old = [weakref for weakref in self.old if weakref.flags & VISITED]
        super().before_finalizers(deaths)


@FINALIZING.bug("weak-to-freed-object", "golang/go 69210", ("heap",), 7)
class WeakToFreedObject(FinalizingWeakrefs):
    """A weak reference to an object with a finalizer leads to it after it was freed."""

    def before_finalizers(self, deaths: Deaths) -> None:
        # Correct: it is cleared together with the others.
        self.old = [weakref for weakref in self.old if weakref.target not in deaths.heads]
        super().before_finalizers(deaths)


# Ephemerons.


@FINALIZING.bug("ephemeron-value-without-barrier", "ocaml/ocaml 9391", ("heap",), 5)
class EphemeronValueWithoutBarrier(Ephemerons):
    """A young value of an old key is forgotten by the minor collection."""

    def _promote(self, each: Ephemeron, drag_out: DragOut) -> None:
        is_old, value = each.key.place == OUTSIDE, each.value
        super()._promote(each, drag_out)
        if is_old:
            each.value = value  # Correct: where it is afterwards.


@FINALIZING.bug("ephemeron-stale-after-move", "puerts/backend-v8 29", ("heap",), 4)
class EphemeronStaleAfterMove(Ephemerons):
    """The table of ephemerons has the old address of one that has moved."""

    def _promote(self, each: Ephemeron, drag_out: DragOut) -> None:
        before = each.obj
        super()._promote(each, drag_out)
        each.obj = before  # Correct: where it is afterwards.


@FINALIZING.bug(
    "ephemeron-chain-not-followed",
    "our own, after Hayes, Ephemerons (1997)",
    ("heap", "memory", "finalization"),
    10,
)
class EphemeronChainNotFollowed(Ephemerons):
    """Values are visited once, so that the value of a value's ephemeron is lost."""

    def visit_values(self, visit: Callable[[Object], None]) -> None:
        # Correct: again, until nothing new is found.
        alive = [each for each in self.old if each.obj.flags & VISITED and each.key.flags & VISITED]
        for each in alive:
            visit(each.value)
