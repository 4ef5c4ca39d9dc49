"""Counting net bytes: freed bytes count back (Scalene).

(Scalene 2.4, samplefile.hpp and sampleheap.hpp: ThresholdSampler.)
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from fuzz.protocol.counting.limits import Count
from fuzz.protocol.counting.way import ONE_DRAW, Way


@attrs.frozen
class NetBytes(Way):
    """One countdown per thread, of the bytes that are allocated less those that are freed.

    If more bytes were freed than allocated, by the period, the free is a sample itself.
    """

    by = "net_bytes"
    counts_frees = True
    needs: ClassVar = {"distances": "period", "crosses": "at", **ONE_DRAW}

    unsampled_bytes: Count = 0
    """If not 0: an allocation that counts exactly this many bytes is never reported as a sample,
    though it ends a distance. Scalene takes it for a mark of its own."""

    @property
    def edge_bytes(self) -> tuple[int, ...]:
        return (self.unsampled_bytes,) if self.unsampled_bytes else ()
