"""The collector with a greatest heap size, which it compares when a sweep has ended.

The first time that too much is in use, the major collection ends and the action fails. The heap is
whole, and can be used and collected. The second time, the program ends. (PyPy's PYPY_GC_MAX.)
"""

from __future__ import annotations

import attrs
from typing_extensions import override

from gcmodel.collector.finalizing import FinalizingHeap, FinalizingMajor, FinalizingParts
from gcmodel.collector.major import SCANNING
from gcmodel.memory.errors import HeapError, HeapExhaustedError


class LimitedMajor(FinalizingMajor):
    """No threshold is above the limit. Invariant: `threshold_bytes <= limit_bytes`."""

    def __init__(self, heap: FinalizingHeap) -> None:
        super().__init__(heap)
        self._limit_bytes = heap.configuration.heap_bytes_max
        self._was_exhausted = False
        self.initial_bytes = self.threshold_bytes = min(self.threshold_bytes, self._limit_bytes)

    @override
    def _set_threshold(self, bytes_wanted: float, reserve_bytes: int) -> None:
        """Raises HeapExhaustedError if what is in use and reserved exceeds the limit."""
        super()._set_threshold(bytes_wanted, reserve_bytes)
        if self.threshold_bytes > self._limit_bytes:
            self.initial_bytes = self.threshold_bytes = self._limit_bytes
            if self._is_exhausted(reserve_bytes):
                self._exhaust()

    def _is_exhausted(self, reserve_bytes: int) -> bool:
        return self.threshold_reached(reserve_bytes)

    def _exhaust(self) -> None:
        """End the major collection; finalizers that became due wait in the queue."""
        if self._was_exhausted:
            raise HeapError("the heap is exhausted for the second time")
        self._was_exhausted = True
        self.state = SCANNING
        raise HeapExhaustedError(f"more than {self._limit_bytes} bytes are in use")


@attrs.frozen
class LimitedParts(FinalizingParts):
    """The classes of which a heap with a limit is composed."""

    major: type[LimitedMajor] = LimitedMajor
