"""What a block counts: one that the mutator of an allocator asks for, resizes and frees itself."""

from __future__ import annotations

from math import gcd

from fuzz.mutator.shadow import ShadowObject
from fuzz.protocol.contract import Layout, SamplingRule, rounded_up

GROWTH_SHARE = 4
"""A block that moves to grow grows by one in so many bytes, at least."""
SHRINKING_SHARE = 2
"""One that keeps one in so many bytes stays where it is."""
WORD_BYTES = 8


class SharedBlock:
    """The block in which a thread puts its small ones together, one behind the other (Go)."""

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes
        self._used_bytes = room_bytes
        self._first: ShadowObject | None = None

    def forget(self) -> None:
        """A collection ends it: what comes next begins another."""
        self._used_bytes, self._first = self._room_bytes, None

    def place(self, block: ShadowObject, requested_bytes: int) -> ShadowObject:
        """The one beside which a block is put; itself, if a shared one is begun for it.

        It is aligned by its size. Of the two that are begun, that with more room left is kept.
        """
        at = rounded_up(self._used_bytes, gcd(requested_bytes, WORD_BYTES))
        if at + requested_bytes <= self._room_bytes and self._first is not None:
            self._used_bytes = at + requested_bytes
            return self._first
        if requested_bytes < self._used_bytes or self._first is None:
            self._used_bytes, self._first = requested_bytes, block
        return block


def bytes_counted(rule: SamplingRule, layout: Layout, requested_bytes: int) -> int:
    """What a block for which `requested_bytes` are asked counts."""
    match rule.counts:
        case "requested":
            return requested_bytes + layout.kinds["block"].fixed_bytes
        case "requested_plus_one":
            return requested_bytes + 1
        case "class_or_requested":
            return layout.class_bytes(requested_bytes) or requested_bytes
        case "size":
            return layout.room_bytes(requested_bytes)


def bytes_to_move(room_bytes: int, requested_bytes: int) -> int | None:
    """What is asked for when a block with room for `room_bytes` is made another size.

    None if it stays where it is and nothing counts. (gperftools' do_realloc_with_callback.)
    """
    if room_bytes // SHRINKING_SHARE <= requested_bytes <= room_bytes:
        return None
    if requested_bytes > room_bytes:
        return max(requested_bytes, room_bytes + room_bytes // GROWTH_SHARE)
    return requested_bytes
