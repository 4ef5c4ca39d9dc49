"""What a block counts: one that the mutator of an allocator asks for, resizes and frees itself."""

from __future__ import annotations

from fuzz.protocol.contract import Layout, SamplingRule

GROWTH_SHARE = 4
"""A block that moves to grow grows by one in so many bytes, at least."""
SHRINKING_SHARE = 2
"""One that keeps one in so many bytes stays where it is."""


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
