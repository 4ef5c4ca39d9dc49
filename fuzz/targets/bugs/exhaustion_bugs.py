"""Known bugs of a heap that is full, in the reference that has a limit.

Each subclass overrides the method with the mistake, and a comment states the correct behaviour.
"""

from __future__ import annotations

from fuzz.targets.bugs.known_bug import Host
from gcmodel.collector.limited import LimitedMajor, LimitedParts
from gcmodel.memory.errors import HeapExhaustedError
from gcmodel.memory.layout import Kind, rounded
from gcmodel.memory.objects import OUTSIDE, Object
from gcmodel.sampling.slow_path import Allocation

LIMITED = Host("reference-exhaustion", LimitedParts())
OURS = "our own"


@LIMITED.bug("exhausted-by-garbage", OURS, ("exhaustion", "heap"), 4)
class ExhaustedByGarbage(LimitedMajor):
    """The limit is compared with what was in use before the sweep."""

    _before_bytes = 0

    def _finish_marking(self) -> None:
        self._before_bytes = self._heap.memory_used_bytes()
        super()._finish_marking()

    def _is_exhausted(self, reserve_bytes: int) -> bool:
        # Correct: what is in use when the sweep has ended.
        return self._before_bytes + reserve_bytes > self._limit_bytes


@LIMITED.bug("limit-never-compared", OURS, ("exhaustion",), 3)
class LimitNeverCompared(LimitedMajor):
    """Without an object to make room for, the limit is not compared."""

    def _is_exhausted(self, reserve_bytes: int) -> bool:
        # Correct: also if nothing is reserved.
        return reserve_bytes > 0 and super()._is_exhausted(reserve_bytes)


@LIMITED.bug("exhaustion-drops-pending", OURS, ("finalization", "memory"), 5)
class ExhaustionDropsPending(LimitedMajor):
    """The pending finalizers are lost when memory is exhausted."""

    def _exhaust(self) -> None:
        self._heap.finalizers.pending = []  # Correct: nothing. They wait in the queue.
        super()._exhaust()


@LIMITED.bug("exhaustion-ends-in-sweep", OURS, ("major",), 1)
class ExhaustionEndsInSweep(LimitedMajor):
    """After memory was exhausted, the major collection is still sweeping."""

    def _exhaust(self) -> None:
        state = self.state
        try:
            super()._exhaust()
        finally:
            self.state = state  # Correct: SCANNING, as the sweep has ended.


@LIMITED.bug("exhausted-allocation-counts", OURS, ("sampling", "pointers"), 2)
class ExhaustedAllocationCounts(Allocation):
    """An object that was not allocated, as memory was exhausted, counts for the next sample."""

    def outside(self, kind: Kind, raw_bytes: int, number: int, length: int) -> Object:
        try:
            return super().outside(kind, raw_bytes, number, length)
        except HeapExhaustedError:
            # Correct: nothing. Only an object that exists counts.
            nothing = Object(kind, OUTSIDE, rounded(raw_bytes), number, [])
            self._heap.sampling.allocated_outside(nothing, raw_bytes)
            raise
