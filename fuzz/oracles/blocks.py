"""What counts of a block: memory that the mutator of an allocator requests, resizes and frees."""

from __future__ import annotations

from math import gcd

from fuzz.mutator.objects import ShadowObject
from fuzz.protocol.contract import SamplingRule
from fuzz.protocol.layout import Layout, rounded_up

GROWTH_SHARE = 4
"""A block that moves to grow grows by at least a quarter of its room."""
SHRINKING_SHARE = 2
"""A block that keeps half of its room stays where it is."""
WORD_BYTES = 8


class SharedBlock:
    """The block in which one thread puts its small blocks, one after another (Go)."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self.forget()

    def forget(self) -> None:
        """A collection ends it. The next small block begins another."""
        self._used_bytes = self._capacity_bytes
        self._first: ShadowObject | None = None

    def place(self, block: ShadowObject, requested_bytes: int) -> ShadowObject:
        """The block whose memory a new block shares; itself, if it begins a shared one.

        It is aligned by its size. Of the old and the new shared block, the one with more room is
        kept.
        """
        at = rounded_up(self._used_bytes, gcd(requested_bytes, WORD_BYTES))
        if at + requested_bytes <= self._capacity_bytes and self._first is not None:
            self._used_bytes = at + requested_bytes
            return self._first
        if requested_bytes < self._used_bytes or self._first is None:
            self._used_bytes, self._first = requested_bytes, block
        return block


def bytes_counted(rule: SamplingRule, layout: Layout, requested_bytes: int) -> int:
    """What a block counts for which `requested_bytes` are requested."""
    match rule.counts:
        case "requested":
            return requested_bytes + layout.kinds["block"].fixed_bytes
        case "requested_plus_one":
            return requested_bytes + 1
        case "class_or_requested":
            return layout.class_bytes(requested_bytes) or requested_bytes
        case "size":
            return layout.capacity_bytes(requested_bytes)


def bytes_to_move(capacity_bytes: int, requested_bytes: int) -> int | None:
    """The bytes requested for a block with `capacity_bytes` that gets another size.

    None if the block stays where it is, and nothing counts. (gperftools'
    do_realloc_with_callback.)
    """
    if capacity_bytes // SHRINKING_SHARE <= requested_bytes <= capacity_bytes:
        return None
    if requested_bytes > capacity_bytes:
        return max(requested_bytes, capacity_bytes + capacity_bytes // GROWTH_SHARE)
    return requested_bytes
