"""The memory oracle: what a contract promises of the old space, each promise for itself.

    memory      after a full collection it holds what lives, and arenas for no more than that
    progress    once it holds more than its threshold, an automatic collection begins a major one
    pressure    once more than its threshold was pressed, the next allocation collects

What lives the shadow heap knows, and what that takes the contract says. What is dead and not freed
yet nobody tells, so the bytes in use and the threshold are known from one side only: so much is
used at least, since nothing old is freed before a major collection begins, and so high is the
threshold at most, after a full collection. From where another major collection has begun nothing
is known of them until the next full one. The figures in reports are held to the same bounds. The
place of a pinned object in the old space is reserved if its identity was taken, and may outlive it:
of that there are bounds also after a full collection.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from typing_extensions import override

from fuzz.mutator.shadow import Age, Shadow, ShadowObject
from fuzz.oracles.arenas import ArenaBound
from fuzz.oracles.major import MARKING, SCANNING, STATES, SWEEPING, MajorOracle
from fuzz.oracles.oracle import Mismatch, Oracle
from fuzz.oracles.sampling_facts import SamplingFacts
from fuzz.protocol.actions import Action, AddMemoryPressure, TakeIdentity
from fuzz.protocol.contract import Contract, rounded_up
from fuzz.protocol.observation import Observation, Report

YOUNG, OLD = Age.YOUNG, Age.OLD
OF_OLD_SPACE = {"memory", "progress", "pressure"}
FIGURES = ("memory_used_bytes", "arena_bytes")
BITS_PER_BYTE = 8
UNKNOWN = math.inf
"""No threshold is higher."""


class MemoryMismatch(Mismatch):
    """The old space holds what is dead, or is not collected when that was promised."""

    oracle = "memory"


class MemoryOracle(Oracle):
    """Counts what grows old, from one full collection to the next."""

    judges = ("memory", "minors", "state")
    relies_on = (MajorOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._layout, self._space = contract.layout, contract.old_space
        self._promises = frozenset(contract.promises)
        self._prebuilt = frozenset(shadow.prebuilt)
        self._arenas = ArenaBound(contract.old_space)
        # Where the state is not shown, a sweep may always be going on.
        self._state: int | None = SCANNING if "state" in contract.observes else None
        # The identity of these was taken while they were in the nursery.
        self._reserved: set[ShadowObject] = set()
        # These are old from the start; they lie in arenas or not, as the target likes.
        self._born_old: set[ShadowObject] = set()
        self._watch_young()
        self._begin(used_bytes_min=0, used_bytes_max=0)

    @classmethod
    @override
    def can_judge(cls, contract: Contract) -> bool:
        return not OF_OLD_SPACE.isdisjoint(contract.promises)

    @override
    def check(
        self, action: Action, observation: Observation, sampling: SamplingFacts | None = None
    ) -> None:
        """Compare with what the target said. Raises MemoryMismatch."""
        new = self._shadow.roots[-1] if action.allocates else None
        outside = new if new and new.outside else None
        if observation.minors:
            self._grow_old()
            for report in observation.reports if "memory" in self._promises else ():
                self._check_report(report)
            if action.collects == "full":
                self._check_full(observation)
            else:
                self._check_begun(action, observation, outside)
            self._is_due = False
            self._state = observation.state
        elif new and (self._is_due or (outside and "progress" in self._promises)):
            self._check_collected(outside)
        if outside:
            self._place_outside(outside)
        elif isinstance(action, TakeIdentity):
            self._reserve(self._shadow.roots[action.root])
        elif isinstance(action, AddMemoryPressure):
            self._press(action.extra_bytes)

    # What grows old.

    def _watch_young(self) -> None:
        """The shadow's list goes on growing until the next minor collection."""
        self._young = self._shadow.young
        self._young_outside_bytes = 0
        # What is pinned, and may be dead the next time although nobody says so.
        self._kept = {obj for obj in self._young if obj.survived}

    def _grow_old(self) -> None:
        """A minor collection has found out who survives."""
        # One that a full collection frees in the end has its place before.
        survivors = [obj for obj in self._young if obj.survived and obj.age is not YOUNG]
        if survivors:
            # One that is pinned, and held by what is dead, stays in the nursery.
            gone = [obj for obj in survivors if obj not in self._kept and not obj.pinned]
            self._used_bytes += self._bytes_of(gone)
            self._place_in_arenas([obj for obj in survivors if obj not in self._reserved])
        self._watch_young()

    def _reserve(self, obj: ShadowObject) -> None:
        """What is asked for its identity has a place in the old space from then on."""
        if obj.is_in_nursery and obj not in self._reserved:
            self._reserved.add(obj)
            self._place_in_arenas([obj])

    def _place_in_arenas(self, objects: Iterable[ShadowObject]) -> None:
        sizes = self._sizes_in_arenas(objects)
        if sizes:
            self._arenas.place(sizes, is_sweeping=self._state in (SWEEPING, None))

    def _place_outside(self, obj: ShadowObject) -> None:
        if obj.age is OLD:
            self._used_bytes += self._bytes_outside(obj)
            self._born_old.add(obj)
            self._place_in_arenas([obj])
        else:
            self._young_outside_bytes += self._bytes_outside(obj)

    # In reports, and after a full collection.

    def _check_report(self, report: Report) -> None:
        """It is made when survivors are known, and before any step that comes after that."""
        is_known = self._threshold_bytes < UNKNOWN and report.major_state == SCANNING
        used_bytes = self._used_bytes if is_known else 0
        arena_bytes_max = self._arenas.arenas * self._space.arena_bytes
        _check_figure("memory_used_bytes", report.memory_used_bytes, used_bytes, UNKNOWN)
        _check_figure("arena_bytes", report.arena_bytes, 0, arena_bytes_max)

    def _check_full(self, observation: Observation) -> None:
        reachable = self._shadow.reachable()
        alive = {obj for obj in reachable - self._prebuilt if obj.age is OLD}
        reserved = {obj for obj in self._reserved if obj.pinned} - alive
        self._reserved = reserved & reachable
        self._born_old &= alive
        surely_there = self._sizes_in_arenas(alive - self._born_old)
        perhaps_there = self._sizes_in_arenas(reserved | self._born_old)
        self._arenas.sweep(surely_there + perhaps_there)
        used_bytes = self._bytes_of(alive)
        used_bytes_max = used_bytes + self._bytes_of(reserved)
        if "memory" in self._promises:
            memory = observation.memory
            if memory is None or len(memory) != len(FIGURES):
                raise MemoryMismatch("memory", "two figures", memory, "after a full collection")
            arenas_min = self._arenas.least(surely_there)
            arenas = (arenas_min, self._arenas.arenas)
            arena_bytes = tuple(each * self._space.arena_bytes for each in arenas)
            bounds = (used_bytes, used_bytes_max), arena_bytes
            for field, got, (least, most) in zip(FIGURES, memory, bounds, strict=True):
                _check_figure(field, got, least, most)
        self._begin(used_bytes, used_bytes_max)

    # Between two of them.

    def _begin(self, used_bytes_min: int, used_bytes_max: int) -> None:
        """No major collection goes on, and so many bytes are used."""
        grown_bytes = used_bytes_max * self._space.threshold_percent / 100
        self._threshold_bytes = max(self._space.threshold_bytes, grown_bytes)
        self._used_bytes = used_bytes_min
        self._is_due = False

    def _press(self, extra_bytes: int) -> None:
        if "pressure" in self._promises:
            self._threshold_bytes -= extra_bytes
            self._is_due = self._threshold_bytes < 0

    def _check_collected(self, outside: ShadowObject | None) -> None:
        """An object was allocated, outside or not, and no collection took place."""
        excess = self._excess(outside)
        if excess:
            raise MemoryMismatch("minors", 1, 0, excess)

    def _check_begun(
        self, action: Action, observation: Observation, outside: ShadowObject | None
    ) -> None:
        """Minor collections took place, after which a major one may have begun."""
        if observation.state != SCANNING or observation.minors >= STATES:
            self._threshold_bytes = UNKNOWN
        elif "progress" in self._promises and action.collects != "minor":
            is_step = action.collects == "step" and self._threshold_bytes < UNKNOWN
            excess = "the action is a step of it" if is_step else self._excess(outside)
            if excess:
                raise MemoryMismatch("state", MARKING, SCANNING, excess)

    def _excess(self, outside: ShadowObject | None) -> str | None:
        """What is beyond the threshold, in a sentence; None if that may be nothing."""
        new_bytes = outside.size_bytes if outside else 0
        used_bytes = self._used_bytes + self._young_outside_bytes
        if used_bytes + new_bytes <= self._threshold_bytes:
            return None
        more = f", {new_bytes} more are asked for" if new_bytes else ""
        most = f"the threshold is {self._threshold_bytes:.0f} at most"
        return f"at least {used_bytes} bytes are used{more}, {most}"

    # What objects take.

    def _sizes_in_arenas(self, objects: Iterable[ShadowObject]) -> list[int]:
        """Of those that may lie there."""
        most = self._space.arena_object_bytes_max
        if not most:
            return []
        inside = [obj for obj in objects if not obj.outside or obj in self._born_old]
        return [size_bytes for size_bytes in self._sizes(inside) if 0 < size_bytes <= most]

    def _bytes_of(self, objects: Iterable[ShadowObject]) -> int:
        return sum(self._sizes(objects))

    def _sizes(self, objects: Iterable[ShadowObject]) -> list[int]:
        """What each takes in the old space."""
        return [self._bytes_outside(obj) if obj.outside else obj.size_bytes for obj in objects]

    def _bytes_outside(self, obj: ShadowObject) -> int:
        """What one takes that did not come from the nursery, card marks included."""
        word_bytes, card_items = self._layout.word_bytes, self._space.card_items
        size_bytes = rounded_up(obj.size_bytes, word_bytes)
        is_large = obj.size_bytes >= self._layout.large_object_bytes
        if card_items and is_large and obj.kind == "array":
            items_per_word = card_items * word_bytes * BITS_PER_BYTE
            size_bytes += -(-obj.number // items_per_word) * word_bytes
        return size_bytes


def _check_figure(field: str, got: int, least: int, most: float) -> None:
    if not least <= got <= most:
        why = "for what lives" if least == most else f"it must be from {least} to {most}"
        raise MemoryMismatch(field, least if got < least else most, got, why)
