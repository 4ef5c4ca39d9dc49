"""Ephemerons: pairs that keep their value alive while their key is alive. (Hayes, 1997.)

Invariant: an ephemeron in `old` and its key and value are old. A minor collection treats a key and
a value as strong references. A major collection decides when all else is marked: it visits the
values of living keys, which may be the keys of others, until nothing is new.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gcmodel.collector.finalizers import DragOut
from gcmodel.memory.objects import (
    NO_HEAP_REFERENCES,
    OUTSIDE,
    VISITED,
    VISITED_YOUNG,
    YOUNG,
    Object,
)


@attrs.define(eq=False)
class Ephemeron:
    """A pair. `obj` is the object in the heap that the mutator has."""

    obj: Object
    key: Object
    value: Object


def is_marked(obj: Object) -> bool:
    """Whether the major collection has found the object; a prebuilt one is always alive."""
    return bool(obj.flags & (VISITED | NO_HEAP_REFERENCES))


class Ephemerons:
    """The ephemerons that have a value; the `young` ones are not older than a minor collection."""

    def __init__(self) -> None:
        self.young: list[Ephemeron] = []
        self.old: list[Ephemeron] = []

    def add(self, obj: Object, key: Object, value: Object) -> None:
        self.young.append(Ephemeron(obj, key, value))

    def value_of(self, obj: Object) -> Object | None:
        """The value of an ephemeron, or None if its key is dead."""
        for entry in (*self.young, *self.old):
            if entry.obj is obj:
                return entry.value
        return None

    def after_minor_trace(self, drag_out: DragOut, trace: Callable[[], None]) -> None:
        """Let keys and values of those that survive, survive too. `trace` drags out the rest."""
        undecided, self.young = self.young, []
        while surviving := [entry for entry in undecided if _has_survived(entry.obj)]:
            undecided = [entry for entry in undecided if entry not in surviving]
            for entry in surviving:
                self._promote(entry, drag_out)
            trace()

    def _promote(self, entry: Ephemeron, drag_out: DragOut) -> None:
        entry.obj = entry.obj.forwarded_to or entry.obj
        entry.key, entry.value = drag_out(entry.key), drag_out(entry.value)
        self.old.append(entry)

    def visit_values(self, visit: Callable[[Object], None]) -> None:
        """All gray objects are black: visit what ephemerons keep alive."""
        found = True
        while found:
            found = False
            for entry in self.old:
                if is_marked(entry.obj) and is_marked(entry.key) and not is_marked(entry.value):
                    visit(entry.value)
                    found = True

    def after_marking(self) -> None:
        """Those whose key is dead lose their value."""
        self.old = [entry for entry in self.old if is_marked(entry.obj) and is_marked(entry.key)]


def _has_survived(obj: Object) -> bool:
    """Whether the minor collection in progress has found a young object, or it is old."""
    if obj.place == OUTSIDE:
        return not obj.flags & YOUNG or bool(obj.flags & VISITED_YOUNG)
    return obj.forwarded_to is not None
