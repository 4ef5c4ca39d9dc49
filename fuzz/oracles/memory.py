"""The memory oracle: what a contract promises about the old space.

    memory      after a full collection, only living objects take bytes, and arenas for them alone
    progress    beyond the threshold, an automatic collection begins a major one
    pressure    after more pressure than the threshold, the next allocation collects

The target does not report what is dead but not freed. So after a full collection the oracle knows
a lower bound of the used bytes, since nothing old is freed before a major collection begins, and an
upper bound of the threshold. When another major collection has started, it knows neither until the
next full one. Figures in reports have the same bounds.

A pinned object whose identity was taken has a reserved place in the old space. The place may
outlive the object, so even after a full collection there are two bounds. So there are if an object
whose finalizer was taken back may be kept once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from fuzz.mutator.objects import Age, ShadowObject
from fuzz.mutator.occupancy import Exhausted, bytes_outside
from fuzz.mutator.shadow import Shadow
from fuzz.oracles.arenas import ArenaBound
from fuzz.oracles.major import MARKING, SCANNING, STATES, SWEEPING, MajorOracle
from fuzz.oracles.memory_descriptions import describe_used
from fuzz.oracles.oracle import Oracle
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol.actions import Action, AddMemoryPressure, TakeIdentity
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation, Report

YOUNG, OLD = Age.YOUNG, Age.OLD
OF_OLD_SPACE = {"memory", "progress", "pressure"}
FIGURES = ("memory_used_bytes", "arena_bytes")
UNKNOWN = math.inf
"""No threshold is higher."""


class MemoryOracle(Oracle):
    """Counts the objects that grow old, from one full collection to the next."""

    name = "memory"
    judges = ("memory", "minors", "state")
    relies_on = (MajorOracle,)

    def __init__(self, contract: Contract, shadow: Shadow) -> None:
        super().__init__(contract, shadow)
        self._layout, self._space = contract.layout, contract.old_space
        self._promises = frozenset(contract.promises)
        self._prebuilt = frozenset(shadow.prebuilt)
        self._arenas = ArenaBound(contract.old_space)
        # None: the target does not show it, and may be sweeping.
        self._state: int | None = SCANNING if "state" in contract.observes else None
        # Objects whose identity was taken while they were in the nursery.
        self._reserved: set[ShadowObject] = set()
        # Objects that have had a place in the old space since the last full collection began.
        self._placed: set[ShadowObject] = set()
        # Objects that are old from the start. They may lie in arenas or not.
        self._born_old: set[ShadowObject] = set()
        self._watch_young()
        self._begin(used_bytes_min=0, used_bytes_max=0)

    @classmethod
    def can_judge(cls, contract: Contract) -> bool:
        return not OF_OLD_SPACE.isdisjoint(contract.promises)

    def check(self, action: Action, observation: Observation, sampling: SamplingState) -> None:
        new = self._shadow.placed if action.allocates else None
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
        else:
            is_judged = self._is_due or (outside and "progress" in self._promises)
            if new and is_judged and (excess := self._excess(outside)):
                raise self.mismatch("minors", 1, 0, excess)
        if outside:
            self._place_outside(outside)
        elif isinstance(action, TakeIdentity):
            self._reserve(self._shadow.roots[action.root])
        elif isinstance(action, AddMemoryPressure) and "pressure" in self._promises:
            self._threshold_bytes -= action.extra_bytes
            self._is_due = self._threshold_bytes < 0

    # What grows old.

    def _watch_young(self) -> None:
        self._young = self._shadow.young  # It grows until the next minor collection.
        self._young_outside_bytes = 0
        # Pinned objects, which may be dead the next time.
        self._kept = {obj for obj in self._young if obj.survived}

    def _grow_old(self) -> None:
        """A minor collection has determined the survivors."""
        # Including those that a full collection frees in the end.
        survivors = [obj for obj in self._young if obj.survived and obj.age is not YOUNG]
        if survivors:
            # A pinned object that only dead ones hold stays in the nursery.
            gone = [obj for obj in survivors if obj not in self._kept and not obj.pinned]
            self._used_bytes += self._bytes_of(gone)
            self._placed.update(survivors)
            self._place_in_arenas([obj for obj in survivors if obj not in self._reserved])
        self._watch_young()

    def _reserve(self, obj: ShadowObject) -> None:
        """An object whose identity is taken gets a place in the old space."""
        if obj.is_in_nursery and obj not in self._reserved:
            self._reserved.add(obj)
            self._placed.add(obj)
            self._place_in_arenas([obj])

    def _place_in_arenas(self, objects: Iterable[ShadowObject]) -> None:
        sizes = self._sizes_in_arenas(objects)
        if sizes:
            self._arenas.place(sizes, is_sweeping=self._state in (SWEEPING, None))

    def _place_outside(self, obj: ShadowObject) -> None:
        self._placed.add(obj)
        if obj.age is OLD:
            self._used_bytes += self._bytes_outside(obj)
            self._born_old.add(obj)
            self._place_in_arenas([obj])
        else:
            self._young_outside_bytes += self._bytes_outside(obj)

    # In reports, and after a full collection.

    def _check_report(self, report: Report) -> None:
        """A report is made when the survivors are known, before a step of a major collection."""
        is_known = self._threshold_bytes < UNKNOWN and report.major_state == SCANNING
        used_bytes = self._used_bytes if is_known else 0
        arena_bytes_max = self._arenas.arenas * self._space.arena_bytes
        why = f"it must be at least {used_bytes}"
        self._check_figure("memory_used_bytes", report.memory_used_bytes, used_bytes, UNKNOWN, why)
        self._check_figure("arena_bytes", report.arena_bytes, 0, arena_bytes_max)

    def _check_figure(
        self, field: str, got: int, least: int, most: float, why: str | None = None
    ) -> None:
        if not least <= got <= most:
            bounds = "for what lives" if least == most else f"it must be from {least} to {most}"
            raise self.mismatch(field, least if got < least else most, got, why or bounds)

    def _check_full(self, observation: Observation) -> None:
        living = self._shadow.living()
        alive = {obj for obj in living - self._prebuilt if obj.age is OLD}
        reserved = {obj for obj in self._reserved if obj.pinned} - alive
        self._reserved = reserved & living
        kept_once = self._shadow.with_kept_once(living) - living
        self._born_old &= alive
        surely_there = self._sizes_in_arenas(alive - self._born_old)
        perhaps_there = self._sizes_in_arenas(reserved | kept_once | self._born_old)
        self._arenas.sweep(surely_there + perhaps_there)
        used_bytes = self._bytes_of(alive)
        used_bytes_max = used_bytes + self._bytes_of(reserved | kept_once)
        if "memory" in self._promises:
            memory = observation.memory
            if memory is None or len(memory) != len(FIGURES):
                raise self.mismatch("memory", "two figures", memory, "after a full collection")
            got_bytes, arena_bytes = memory
            why = None
            if not used_bytes <= got_bytes <= used_bytes_max:
                sizes = map(self._sizes_of, (alive, (self._placed | kept_once) - alive))
                why = describe_used(got_bytes, (used_bytes, used_bytes_max), *sizes)
            self._check_figure("memory_used_bytes", got_bytes, used_bytes, used_bytes_max, why)
            each_bytes = self._space.arena_bytes
            least_bytes = self._arenas.least(surely_there) * each_bytes
            most_bytes = self._arenas.arenas * each_bytes
            self._check_figure("arena_bytes", arena_bytes, least_bytes, most_bytes)
        self._placed = alive | reserved | kept_once
        self._begin(used_bytes, used_bytes_max)

    # Between two of them.

    def _begin(self, used_bytes_min: int, used_bytes_max: int) -> None:
        """A full collection has ended."""
        grown_bytes = used_bytes_max * self._space.threshold_percent / 100
        self._threshold_bytes = max(self._space.threshold_bytes, grown_bytes)
        self._used_bytes = used_bytes_min
        self._is_due = False

    def _check_begun(
        self, action: Action, observation: Observation, outside: ShadowObject | None
    ) -> None:
        """After minor collections, a major one may have started."""
        has_ended = isinstance(action, Exhausted)
        if has_ended or observation.state != SCANNING or observation.minors >= STATES:
            self._threshold_bytes = UNKNOWN
        elif "progress" in self._promises and action.collects != "minor":
            is_step = action.collects == "step" and self._threshold_bytes < UNKNOWN
            excess = "the action is a step of it" if is_step else self._excess(outside)
            if excess:
                raise self.mismatch("state", MARKING, SCANNING, excess)

    def _excess(self, outside: ShadowObject | None) -> str | None:
        """By how much the threshold is surely exceeded, in a sentence; None if it may not be."""
        new_bytes = outside.size_bytes if outside else 0
        used_bytes = self._used_bytes + self._young_outside_bytes
        if used_bytes + new_bytes <= self._threshold_bytes:
            return None
        more = f", {new_bytes} more are asked for" if new_bytes else ""
        most = f"the threshold is {self._threshold_bytes:.0f} at most"
        return f"at least {used_bytes} bytes are used{more}, {most}"

    # What objects take.

    def _sizes_in_arenas(self, objects: Iterable[ShadowObject]) -> list[int]:
        """The sizes of the objects that may lie there."""
        most = self._space.arena_object_bytes_max
        if not most:
            return []
        inside = [obj for obj in objects if not obj.outside or obj in self._born_old]
        return [size_bytes for size_bytes in self._sizes(inside) if 0 < size_bytes <= most]

    def _bytes_of(self, objects: Iterable[ShadowObject]) -> int:
        return sum(self._sizes(objects))

    def _sizes_of(self, objects: Iterable[ShadowObject]) -> dict[ShadowObject, int]:
        return {obj: self._sizes([obj])[0] for obj in objects}

    def _sizes(self, objects: Iterable[ShadowObject]) -> list[int]:
        """What each object takes in the old space."""
        return [self._bytes_outside(obj) if obj.outside else obj.size_bytes for obj in objects]

    def _bytes_outside(self, obj: ShadowObject) -> int:
        return bytes_outside(obj, self._layout, self._space)
