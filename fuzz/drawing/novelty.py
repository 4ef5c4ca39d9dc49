"""Novelty: what a trace has done already, so that it does something else.

Of several drawn actions the trace takes the one that it has done least often to objects of which
the same facts were true, in the same phase of the collector. Invariant: a trace has a table of its
own, so the same choices give the same trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING

from fuzz.mutator.shadow import ShadowObject
from fuzz.protocol import actions
from fuzz.protocol.actions import SLOT_FIELDS, Action

if TYPE_CHECKING:
    from fuzz.drawing.rules import Situation

CANDIDATES = 4
LEAVES_A_FACT = {
    each: 1 << bit
    for bit, each in enumerate(
        (
            *((actions.TakeIdentity, "root"), (actions.AllocateWeakref, "root")),
            *((actions.Write, "root"), (actions.Write, "value")),
            *((actions.CopyArray, "source"), (actions.CopyArray, "dest")),
        )
    )
}
"""A bit for each action that changes what is true of the object in one of its slots."""


class Novelty:
    """What one trace has done."""

    def __init__(self) -> None:
        self._times: Counter[Hashable] = Counter()
        self._facts: dict[ShadowObject, int] = {}

    def least_seen(self, situation: Situation, draw: Callable[[], Action]) -> Action:
        """The drawn action that the trace has done least often so far; the first of equals."""
        times, least = self._times, draw()
        count = times[self._key(situation, least)]
        for _ in range(1, CANDIDATES):
            if not count:
                break
            action = draw()
            seen = times[self._key(situation, action)]
            if seen < count:
                least, count = action, seen
        return least

    def note(self, situation: Situation, action: Action) -> None:
        """The trace does that next."""
        self._times[self._key(situation, action)] += 1
        kind = type(action)
        for field in SLOT_FIELDS[kind]:
            fact, slot = LEAVES_A_FACT.get((kind, field)), getattr(action, field)
            if fact and slot is not None:
                obj = situation.roots[slot]
                self._facts[obj] = self._facts.get(obj, 0) | fact

    def _key(self, situation: Situation, action: Action) -> Hashable:
        return type(action), situation.phase, *self._facts_of(situation, action)

    def _facts_of(self, situation: Situation, action: Action) -> Iterator[Hashable]:
        """The facts of the action's objects; of the newest one if it has none."""
        roots, pending = situation.roots, situation.bench.pending
        slots = [getattr(action, field) for field in SLOT_FIELDS[type(action)]]
        for slot in slots or ([-1] if roots else []):
            if slot is not None:
                obj = roots[slot]
                yield obj.pinned, obj in pending, self._facts.get(obj, 0)
