"""Counting with a generator that also places large blocks (jemalloc 5.3.0).

The place is the offset in a page at which the block begins. Its number is drawn before the next
distance. Whether a block stays when it grows depends on its neighbours, so the target reports that.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.oracles.counting.bytes import DrawnOnceClock
from fuzz.oracles.counting.expected import ExpectedSample, Place, Request
from fuzz.protocol.counting import PlacedBlocks
from fuzz.protocol.observation import Observation

LINE_BYTES, UNUSED_BITS = 64, 53 - 6
"""A place is a multiple of a cache line: of the 64 in a page, the upper bits of the number."""


class PlacingClock(DrawnOnceClock[PlacedBlocks]):
    """Draws a place for each large block, unless the block is sampled: that one begins a page."""

    def allocated(self, request: Request, observation: Observation) -> Sequence[ExpectedSample]:
        stays = request.is_resized and observation.at is None and not request.is_predicted
        at = None
        if request.size_bytes >= self._counting.large_bytes and not stays:
            is_sampled = request.is_recorded and self.is_due(request.size_bytes)
            at = 0 if is_sampled else (self._generator.number() >> UNUSED_BITS) * LINE_BYTES
        self.place = Place("page", at, 0, None)
        return super().allocated(request, observation)


clocks_of = PlacingClock.for_each_thread
