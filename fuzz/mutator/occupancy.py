"""What the mutator knows of a heap that may be full, and what an exhausted action is to others.

An action that fails for lack of memory is no allocation: to the shadow and to the oracles it is an
action of its own, `Exhausted`, which only collects. Invariant: the bytes in use after the next
major collection are at most `Occupancy.most_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from fuzz.mutator.objects import ShadowObject
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, OldSpace
from fuzz.protocol.exhaustion import Exhaustion
from fuzz.protocol.layout import Layout, rounded_up

BITS_PER_BYTE = 8


@attrs.frozen
class Exhausted(Action, collects="progress"):
    """An action that was exhausted. No target performs it."""

    action: Action


@attrs.frozen
class ExhaustedFully(Exhausted, collects="full"):
    """One that was exhausted after a full collection."""


def as_exhausted(action: Action, exhaustion: Exhaustion | None) -> Action:
    """What the action is if it is exhausted: itself, if it never can be."""
    if exhaustion is None or not may_be_exhausted(action, exhaustion):
        return action
    kind = ExhaustedFully if exhaustion.found_by == "allocations" else Exhausted
    return kind(action, thread=action.thread)


def may_be_exhausted(action: Action, exhaustion: Exhaustion) -> bool:
    """Whether that kind of action can be exhausted."""
    if action.allocates:
        return True
    return exhaustion.found_by == "major_collections" and action.collects not in ("never", "minor")


def bytes_outside(obj: ShadowObject, layout: Layout, space: OldSpace) -> int:
    """What an object takes that was allocated outside the nursery, card marks included."""
    word_bytes, card_items = layout.word_bytes, space.card_items
    size_bytes = rounded_up(obj.size_bytes, word_bytes)
    is_large = obj.size_bytes >= layout.large_object_bytes
    if card_items and is_large and obj.kind == "array":
        items_per_word = card_items * word_bytes * BITS_PER_BYTE
        size_bytes += -(-obj.number // items_per_word) * word_bytes
    return size_bytes


class Occupancy:
    """How many bytes may be in use, at most.

    `exhausted` is how often an action was. `before_bytes` is what may have been in use when one was
    exhausted last.
    """

    def __init__(
        self, contract: Contract, promised: Exhaustion, living: Callable[[], Iterable[ShadowObject]]
    ) -> None:
        """`living` returns the objects that live now. Prebuilt ones take nothing."""
        self._layout, self._space = contract.layout, contract.old_space
        self._survivable, self._living = promised.survivable, living
        self.exhausted = self.before_bytes = 0
        # All that lived after the last full collection, and all that was allocated since.
        self._allocated_bytes = 0
        # Whether no major collection is in progress, which may have missed dead objects.
        self._is_idle = True

    @property
    def is_used_up(self) -> bool:
        """Whether the target ends when the next action is exhausted."""
        return self._survivable is not None and self.exhausted >= self._survivable

    def most_bytes(self) -> int:
        """What may be in use after the major collection that is in progress, or the next one."""
        return self.living_bytes() if self._is_idle else self._allocated_bytes

    def living_bytes(self) -> int:
        return self.bytes_of(self._living())

    def bytes_of(self, objects: Iterable[ShadowObject]) -> int:
        layout, space = self._layout, self._space
        return sum(
            bytes_outside(obj, layout, space) if obj.outside else obj.size_bytes for obj in objects
        )

    def follow(self, action: Action, minors: int, newest: ShadowObject | None) -> None:
        """The shadow has followed an action. `newest` is the object in the last root slot."""
        is_full, is_exhausted = action.collects == "full", isinstance(action, Exhausted)
        if is_exhausted:
            self.exhausted += 1
            self._is_idle |= is_full
            self.before_bytes = self.most_bytes()
        if action.allocates and newest is not None:
            self._allocated_bytes += self.bytes_of([newest])
        if is_full or (is_exhausted and self._is_idle):
            self._allocated_bytes = self.living_bytes()
        if minors:
            self._is_idle = is_full or is_exhausted
