"""Novelty: what a trace has done already, so that it does something else.

Of several drawn actions the trace takes the one that it has done least often to objects of which
the same facts were true, in the same phase of the collector. Invariant: a trace has a table of its
own, so the same choices give the same trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from fuzz.mutator.shadow import ShadowObject
from fuzz.protocol import actions
from fuzz.protocol.actions import SLOT_FIELDS, Action

if TYPE_CHECKING:
    from fuzz.drawing.rules import Situation

CANDIDATES = 4
Key = tuple[object, ...]
"""An action, a phase, and facts, which all have a hash."""
_CHANGES: tuple[tuple[type[Action], str], ...] = (
    *((actions.TakeIdentity, "root"), (actions.AllocateWeakref, "root")),
    *((actions.Write, "root"), (actions.Write, "value")),
    *((actions.CopyArray, "source"), (actions.CopyArray, "dest")),
)
FACTS_LEFT: dict[type[Action], tuple[tuple[str, int], ...]] = {
    kind: tuple((field, 1 << bit) for bit, (each, field) in enumerate(_CHANGES) if each is kind)
    for kind, _ in _CHANGES
}
"""The slots of each action in which something becomes true of the object, with a bit for it."""


class Novelty:
    """What one trace has done: the number of its actions, and how often it did each."""

    def __init__(self) -> None:
        self.actions = 0
        self._times: Counter[Key] = Counter()
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
        self.actions += 1
        self._times[self._key(situation, action)] += 1
        for field, fact in FACTS_LEFT.get(type(action), ()):
            slot = getattr(action, field)
            if slot is not None:
                obj = situation.roots[slot]
                self._facts[obj] = self._facts.get(obj, 0) | fact

    def _key(self, situation: Situation, action: Action) -> Key:
        """The action, the phase, and the facts of its objects; of the newest one if it has none."""
        kind, roots = type(action), situation.roots
        key: list[object] = [kind, situation.phase]
        fields = SLOT_FIELDS[kind]
        slots = [getattr(action, field) for field in fields] if fields else [-1] if roots else []
        if slots:
            pending, facts = situation.bench.pending, self._facts
            for slot in slots:
                if slot is not None:
                    obj = roots[slot]
                    key += obj.pinned, obj in pending, facts.get(obj, 0)
        return tuple(key)
