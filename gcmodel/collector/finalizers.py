"""Finalizers: which objects with one are dead, and the queue of those whose finalizer is pending.

An object in the queue is a root, so it and all it refers to stay as they are until it is taken.
Invariant, before each step of the major collection: every finalizer that is not in the queue is in
`old`, and its object is old. The rules are those of PyPy's incminimark
(deal_with_young_objects_with_finalizers, deal_with_objects_with_finalizers).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs

from gcmodel.memory.objects import VISITED, Object

DragOut = Callable[[Object], Object]
"""Lets an object survive the minor collection; returns it where it is afterwards."""


@attrs.define(eq=False)
class Finalizer:
    """A finalizer of an object; a later one of the same object is another one."""

    number: int
    obj: Object


class Finalizers:
    """`young` ones were registered since the last minor collection, `pending` ones are queued.

    `kept` has the objects that the mutator has taken and may still resurrect, by number.
    `kept_alive_bytes` are those of the objects that only finalizers kept at the last marking.
    """

    def __init__(self) -> None:
        self.young: list[Finalizer] = []
        self.old: list[Finalizer] = []
        self.pending: list[Finalizer] = []
        self.kept: dict[int, Object] = {}
        self.kept_alive_bytes = 0

    def register(self, obj: Object, number: int) -> None:
        """Call this finalizer when `obj` is dead. It may have several."""
        self.young.append(Finalizer(number, obj))

    def unregister(self, obj: Object) -> None:
        """Call no finalizer of `obj`, unless it is pending."""
        self.young = [entry for entry in self.young if entry.obj is not obj]
        self.old = [entry for entry in self.old if entry.obj is not obj]

    def run(self, keep: bool) -> list[int]:
        """Empty the queue; return the numbers in order. Keep the objects until the next time."""
        taken, self.pending = self.pending, []
        self.kept = {entry.number: entry.obj for entry in taken} if keep else {}
        return [entry.number for entry in taken]

    def roots(self) -> list[Object]:
        """The objects that the queue keeps, or that may still be resurrected."""
        return [*(entry.obj for entry in self.pending), *self.kept.values()]

    def after_minor_trace(self, drag_out: DragOut) -> None:
        """The objects of young finalizers survive, and are old afterwards."""
        promoted, self.young = self.young, []
        for entry in promoted:
            entry.obj = drag_out(entry.obj)
        self.old += promoted

    def after_marking(self) -> Deaths:
        """Queue the objects that nothing keeps; return what finalizers keep alive.

        A *head* is dead, and no head before it in the list refers to it. It is queued if no other
        head refers to it. So an object waits for those that refer to it, and of a cycle the first
        one is a head. The heads that wait go to the end of the list.
        """
        deaths, heads, left = Deaths(), [], []
        for entry in self.old:
            if entry.obj.flags & VISITED or deaths.count(entry.obj):
                left.append(entry)
            else:
                heads.append(entry)
                deaths.add_head(entry.obj)
        waiting = [entry for entry in heads if not self._is_due(deaths.count(entry.obj))]
        self.pending += [entry for entry in heads if self._is_due(deaths.count(entry.obj))]
        self.old = left + waiting
        self.kept_alive_bytes = sum(obj.size_bytes for obj in deaths.objects())
        return deaths

    def _is_due(self, heads: int) -> bool:
        """Whether a head is queued to which that many heads refer, itself included."""
        return heads == 1


class Deaths:
    """The dead objects to which heads refer, each with the number of these heads."""

    def __init__(self) -> None:
        self.heads: list[Object] = []
        self._counts: dict[Object, int] = {}

    def add_head(self, head: Object) -> None:
        self.heads.append(head)
        found, pending = {head}, [head]
        for obj in pending:  # It grows.
            self._counts[obj] = self.count(obj) + 1
            for ref in obj.refs:
                if ref is not None and ref not in found and not ref.flags & VISITED:
                    found.add(ref)
                    pending.append(ref)

    def count(self, obj: Object) -> int:
        return self._counts.get(obj, 0)

    def objects(self) -> Collection[Object]:
        return self._counts
