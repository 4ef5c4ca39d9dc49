"""The bytes of a block that the drivers of allocators write and compare.

These are all bytes of a block up to WHOLE_BYTES. Of a larger one they are the first and last
END_BYTES, and between them a line of LINE_BYTES in one page of each LINE_DISTANCE_BYTES. Blocks
with consecutive numbers have lines in other pages. To write and compare all bytes of large blocks
took three quarters of an action: the processor's cache has no place for them, and the system finds
a new page for each 4 KiB. Invariant: the block's number and length determine its pieces, so a
replay has the same.

So each run of LINE_DISTANCE_BYTES has bytes that are compared. A shorter wrong range is missed if
it is between two pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from fuzz.protocol.written import PERIOD_BYTES, contents_of, part_of

WHOLE_BYTES = 2**18
"""gperftools has no size class above this, and in jemalloc 17 classes have pages of their own."""
END_BYTES = 2**14
LINE_BYTES = 64
"""A line of the processor's cache."""
PAGE_BYTES = 4096
LINE_DISTANCE_BYTES = 4 * PERIOD_BYTES
"""A multiple of the period, so that all lines of a block have the same bytes."""
KEPT = 128
"""A trace has fewer blocks at a time, and a block is compared more than once."""


@lru_cache(KEPT)
def pieces_of(number: int, length: int) -> Sequence[tuple[int, bytes]]:
    """The pieces of a block with that number: the offset and the bytes of each."""
    if length <= WHOLE_BYTES:
        return [(0, contents_of(number, length))]
    end = length - END_BYTES
    first = number * PAGE_BYTES % LINE_DISTANCE_BYTES
    second = first + LINE_DISTANCE_BYTES  # The first one may be the block's number.
    line = part_of(number, second, second + LINE_BYTES)
    lines = range(first, end, LINE_DISTANCE_BYTES)
    return [
        (0, contents_of(number, END_BYTES)),
        *((offset, line) for offset in lines if offset >= END_BYTES),
        (end, part_of(number, end, length)),
    ]
