"""Counting with a generator that also places large blocks (jemalloc).

(jemalloc 5.3.0, arena_inlines_b.h: arena_cache_oblivious_randomize.)
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from fuzz.protocol.counting.limits import Positive
from fuzz.protocol.counting.way import ONE_DRAW, Way


@attrs.frozen
class PlacedBlocks(Way):
    """One countdown per thread. A large block that is not sampled takes a number for its place."""

    by = "placed_blocks"
    predicts_places = True
    needs_observed = ("samples", "at")
    needs: ClassVar = {"distances": "jemalloc", **ONE_DRAW}

    large_bytes: Positive
    """A block that counts this much or more is large."""

    @property
    def edge_bytes(self) -> tuple[int, ...]:
        return (self.large_bytes,)
