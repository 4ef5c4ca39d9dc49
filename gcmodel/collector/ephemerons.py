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
        for each in (*self.young, *self.old):
            if each.obj is obj:
                return each.value
        return None

    def after_minor_trace(self, drag_out: DragOut, trace: Callable[[], None]) -> None:
        """Let keys and values of those that survive, survive too. `trace` drags out the rest."""
        undecided, self.young = self.young, []
        while surviving := [each for each in undecided if _has_survived(each.obj)]:
            undecided = [each for each in undecided if each not in surviving]
            for each in surviving:
                self._promote(each, drag_out)
            trace()

    def _promote(self, each: Ephemeron, drag_out: DragOut) -> None:
        each.obj = each.obj.forwarded_to or each.obj
        each.key, each.value = drag_out(each.key), drag_out(each.value)
        self.old.append(each)

    def visit_values(self, visit: Callable[[Object], None]) -> None:
        """All gray objects are black: visit what ephemerons keep alive."""
        found = True
        while found:
            found = False
            for each in self.old:
                if is_marked(each.obj) and is_marked(each.key) and not is_marked(each.value):
                    visit(each.value)
                    found = True

    def after_marking(self) -> None:
        """Those whose key is dead lose their value."""
        self.old = [each for each in self.old if is_marked(each.obj) and is_marked(each.key)]


def _has_survived(obj: Object) -> bool:
    """Whether the minor collection in progress has found a young object, or it is old."""
    if obj.place == OUTSIDE:
        return not obj.flags & YOUNG or bool(obj.flags & VISITED_YOUNG)
    return obj.forwarded_to is not None
