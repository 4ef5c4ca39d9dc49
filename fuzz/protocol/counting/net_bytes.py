"""Counting net bytes: what is freed counts back (Scalene).

(Scalene 2.4, samplefile.hpp and sampleheap.hpp: ThresholdSampler.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
from typing_extensions import override

from fuzz.protocol.counting.way import ONE_DRAW, Way

if TYPE_CHECKING:
    from fuzz.protocol.contract import Contract


@attrs.frozen
class NetBytes(Way):
    """One countdown per thread, of the bytes that are allocated less those that are freed.

    Where more bytes were freed than allocated, by the period, the free is a sample itself.
    """

    by = "net_bytes"
    counts_frees = True

    unsampled_bytes: int = 0
    """If not 0: an allocation that counts exactly this many bytes is never reported as a sample,
    though it ends a distance. Scalene takes it for a mark of its own."""

    @property
    @override
    def edge_bytes(self) -> tuple[int, ...]:
        return (self.unsampled_bytes,) if self.unsampled_bytes else ()

    @override
    def problems(self, contract: Contract) -> Iterator[str]:
        rule = contract.sampling
        if not (rule.distances == "period" and rule.crosses == "at" and rule.samples_once):
            yield f"net_bytes need distances that are the period, crosses at, {ONE_DRAW}"
        if self.unsampled_bytes < 0:
            yield f"unsampled_bytes is {self.unsampled_bytes}; it must be at least 0"
