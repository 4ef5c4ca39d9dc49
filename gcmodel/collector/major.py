"""The major collection: incremental mark and sweep of the old space, a step at a time.

    SCANNING -> MARKING -> SWEEPING -> FINALIZING -> SCANNING
    roots are   gray ones   white      one step      the next one
    gray        turn black  are freed                may start

Tri-colour invariant, right after a minor collection while marking: a black (VISITED) object never
refers to a white one that is not gray, that is, in `to_trace` or `to_rescan`. The barrier makes
black objects that are written gray again (incremental update), in the minor collection that
precedes every step. There are no finalizers: FINALIZING takes one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

from gcmodel.collector.collected_heap import CollectedHeap
from gcmodel.collector.dangling import dangling_reference
from gcmodel.memory.configuration import (
    GROWTH_FACTOR_MAX,
    MAJOR_FACTOR,
    PAGE_BYTES,
    SMALL_OBJECT_BYTES,
)
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.objects import NO_HEAP_REFERENCES, OUTSIDE, VISITED, Object

PRESSURE_EXTRA_BYTES = 2 * WORD_BYTES
MARKING_NURSERIES_PER_STEP = 4
SWEEPING_NURSERIES_PER_STEP = 3


class State(IntEnum):
    """What the next step of the major collection does."""

    SCANNING = 0
    MARKING = 1
    SWEEPING = 2
    FINALIZING = 3


SCANNING, MARKING, SWEEPING, FINALIZING = State


class CollectsMinor(Protocol):
    """The minor collection, which precedes every step."""

    def collect(self, is_anything_new: bool = True) -> None:
        """Run one."""


class MajorHeap(CollectedHeap, Protocol):
    """The heap that it collects."""

    @property
    def minor(self) -> CollectsMinor: ...


class MajorCollection:
    """The state of the cycle, the gray objects, and when the next cycle starts."""

    def __init__(self, heap: MajorHeap) -> None:
        self._heap = heap
        self._nursery_bytes = heap.configuration.nursery_bytes
        self.state = SCANNING
        self.started = 0  # the number of cycles so far, including this one
        self.to_trace: list[Object] = []
        self.to_rescan: list[Object] = []
        # Steps keep pace with the mutator: the bytes that became old, and their limit.
        self.made_old_bytes = 0
        self.made_old_limit_bytes = 0
        self._heap_bytes_min = MAJOR_FACTOR * self._nursery_bytes
        self.initial_bytes = self._heap_bytes_min
        self.threshold_bytes = self._heap_bytes_min

    def is_marking(self) -> bool:
        """Whether it marks, so that the mutator could make a black object refer to a white one."""
        return self.state is MARKING

    def threshold_reached(self, extra_bytes: int) -> bool:
        """Whether `extra_bytes` more would start the next major collection."""
        return self.threshold_bytes - self._heap.memory_used_bytes() < extra_bytes

    def rescan(self, obj: Object) -> None:
        """Make `obj` gray, as it may refer to white objects."""
        obj.flags &= ~VISITED
        self.to_rescan.append(obj)

    def rescan_black(self, written: list[Object]) -> None:
        """Make the black objects among those written since the last minor collection gray."""
        for obj in written:
            if obj.flags & VISITED:
                self.rescan(obj)

    def collect(self) -> None:
        """A full collection: finish the cycle in progress, then run a whole one."""
        self.step_until(SCANNING)
        self.step_until(MARKING)
        self.step_until(SCANNING)

    def pressure(self, extra_bytes: int) -> bool:
        """Count bytes outside the heap that depend on it; return whether a collection is due.

        (PyPy's raw_malloc_memory_pressure, which counts a few bytes more for each call.)
        """
        self.threshold_bytes -= extra_bytes + PRESSURE_EXTRA_BYTES
        return self.threshold_bytes < 0

    def step_until(self, state: State) -> None:
        """Run minor collections and steps until that state. The mutator does not run meanwhile."""
        is_anything_new = True
        while self.state is not state:
            self._heap.minor.collect(is_anything_new)
            is_anything_new = self.step(0)

    def progress(self, extra_bytes: int) -> None:
        """A minor collection, and past the threshold enough steps to keep pace with the mutator.

        `extra_bytes` are about to be allocated outside the nursery.
        """
        self._heap.minor.collect()
        if self.state is SCANNING and not self.threshold_reached(extra_bytes):
            return
        self.step(extra_bytes)
        while self.state is not SCANNING and (
            self.made_old_bytes + extra_bytes > self.made_old_limit_bytes
        ):
            self._heap.minor.collect()
            self.step(extra_bytes)

    def step(self, reserve_bytes: int) -> bool:
        """One step, after a minor collection; return whether it entered another state."""
        state, events = self.state, self._heap.events
        events.major_step(state)
        self.made_old_limit_bytes += self._nursery_bytes // 2
        if state is SCANNING:
            self._scan_roots()
        elif state is MARKING:
            self._mark()
        elif state is SWEEPING:
            self._sweep(reserve_bytes)
        else:
            self.state = SCANNING
        events.major_step_ended(self.state)
        return self.state is not state

    def _scan_roots(self) -> None:
        self.started += 1
        self.made_old_bytes = 0
        self.made_old_limit_bytes = self._nursery_bytes // 2
        self.to_trace = list(self._heap.barrier.prebuilt_roots)
        self._make_gray(self._heap.roots)
        self.state = MARKING

    def _mark(self) -> None:
        budget_bytes = MARKING_NURSERIES_PER_STEP * self._nursery_bytes
        left_bytes = self._visit(budget_bytes, self._heap.configuration.single_step_marking)
        if left_bytes >= budget_bytes // 2 and self.to_rescan:
            # Little is left. Rescan all of it at once, so that marking ends however much the
            # mutator writes.
            self.to_trace, self.to_rescan = self.to_rescan, []
            self._visit()
        if not self.to_trace and not self.to_rescan:
            self._finish_marking()

    def _finish_marking(self) -> None:
        # Prebuilt objects may have been written for the first time since the roots were scanned.
        self.to_trace.extend(self._heap.barrier.prebuilt_roots)
        self._visit()
        self._heap.weakrefs.after_marking()
        self._heap.pinning.after_marking()
        name = f"major collection {self.started}"
        self._heap.arenas.prepare_sweep(name)
        self._heap.large_objects.prepare_sweep(name)
        self.state = SWEEPING

    def _visit(self, budget_bytes: float = math.inf, is_single_step: bool = False) -> float:
        """Blacken gray objects, the last first; return the rest of the budget, or 0."""
        while self.to_trace:
            obj = self.to_trace.pop()
            if obj.place != OUTSIDE:
                raise dangling_reference(self._heap, obj, "marking found a reference to")
            if not obj.flags & (VISITED | NO_HEAP_REFERENCES):
                # The minor collection has set TRACK_YOUNG, so the barrier handles the next write.
                obj.flags |= VISITED
                budget_bytes -= obj.size_bytes
                if any(obj.refs):
                    self._make_gray(obj.refs)
            if is_single_step or budget_bytes < 0:
                return 0
        return budget_bytes

    def _make_gray(self, refs: Sequence[Object | None]) -> None:
        """Queue the objects of `refs`, but not pinned ones, which are the only ones in the nursery.

        Pinned objects have no references, and only minor collections free them. One could be
        unpinned or die before it is visited.
        """
        filling = self._heap.nursery.filling
        self.to_trace.extend([ref for ref in refs if ref is not None and ref.place != filling])

    def _sweep(self, reserve_bytes: int) -> None:
        heap, step_bytes = self._heap, SWEEPING_NURSERIES_PER_STEP * self._nursery_bytes
        if heap.large_objects.to_sweep:
            heap.large_objects.sweep(step_bytes // SMALL_OBJECT_BYTES)
        elif heap.arenas.sweep(step_bytes // PAGE_BYTES):
            for obj in heap.barrier.prebuilt_roots:
                obj.flags &= ~VISITED
            self._set_threshold(heap.memory_used_bytes() * MAJOR_FACTOR, reserve_bytes)
            self.state = FINALIZING

    def _set_threshold(self, bytes_wanted: float, reserve_bytes: int) -> None:
        bounded = min(bytes_wanted, self.initial_bytes * GROWTH_FACTOR_MAX) + reserve_bytes
        self.initial_bytes = self.threshold_bytes = max(bounded, self._heap_bytes_min)
