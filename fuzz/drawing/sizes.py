"""Sizes and periods, often at an edge: where a collector or a sampler begins to do something else.

The edges come from the state of the oracles. For example, a size just fits in the nursery or just
does not; it just reaches the sample point or passes it; it is twice the period, or several
nurseries.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.drawing.situation import Choices, Situation
from fuzz.mutator.legality import length_max
from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import KindLayout, PartLayout

NURSERIES_MAX = 4
LENGTHS_MAX = {"string": 2**20, "array": 160}
"""Long strings cost no time, long arrays do."""
EDGE_WORDS = 2
"""A size at an edge is at most two words away from it."""
SMALL_BLOCK_BYTES = 128


def _edges(situation: Situation) -> Sequence[int]:
    """The sizes at which something changes; those that matter more are repeated."""
    contract, sampling = situation.contract, situation.bench.sampling
    nursery_bytes = contract.nursery_bytes
    large_bytes = contract.layout.large_object_bytes
    free_bytes = nursery_bytes - sampling.nursery_used_bytes
    if contract.sampling.counting.has_local_buffers:
        if large_bytes > contract.layout.object_bytes_max:
            large_bytes = free_bytes  # Objects outside a thread's buffer are in the nursery, too.
        free_bytes = sampling.free_bytes[situation.thread]
    if sampling.period_bytes is None:
        edges = [free_bytes, free_bytes, large_bytes, large_bytes, nursery_bytes]
    else:
        sample_bytes = sampling.bytes_until_sample(situation.thread)
        twice_bytes = 2 * sampling.period_bytes
        edges = [*[sample_bytes] * 3, free_bytes, large_bytes, twice_bytes, nursery_bytes]
    # A contract names these without a promise, so nothing else leads to them.
    return [*edges, *contract.boundary_bytes]


def edge_bytes(situation: Situation, choices: Choices) -> int:
    """The size of an object at some edge, or up to two words away from it."""
    contract = situation.contract
    nursery_bytes = contract.nursery_bytes
    edge_bytes = size = choices.pick(_edges(situation))
    if size == nursery_bytes:
        size *= choices.between(1, NURSERIES_MAX)
    size += contract.layout.word_bytes * (choices.below(2 * EDGE_WORDS + 1) - EDGE_WORDS)
    is_useful = size <= NURSERIES_MAX * nursery_bytes or edge_bytes in contract.boundary_bytes
    return size if is_useful else nursery_bytes


def any_length(situation: Situation, choices: Choices, kind: str) -> int:
    """A length that makes an object small, or of an interesting size."""
    if not choices.below(2):
        return min(choices.below(12), length_max(kind, situation.contract))
    return edge_length(situation, choices, kind)


def edge_length(situation: Situation, choices: Choices, kind: str) -> int:
    """A length that makes an object of an interesting size."""
    layout = situation.contract.layout.kinds.get(kind)
    if layout is None:
        return 0  # The scenario that allocates such an object ends.
    # One of the parts has that size, or all of them together.
    sizes: KindLayout | PartLayout
    parts = [part for part in layout.parts if part.item_bytes]
    sizes = choices.pick(parts) if parts and choices.below(2) else layout
    size = min(edge_bytes(situation, choices), situation.contract.layout.object_bytes_max)
    if layout.item_bytes == 1:
        size -= choices.below(2)
    length = max((size - sizes.fixed_bytes) // sizes.item_bytes, 0)
    if parts:
        return min(length, length_max(kind, situation.contract))
    if _only_arrays_reach(size, situation.contract):
        return length
    return min(length, LENGTHS_MAX[kind])


def lengths_at_limits(contract: Contract, kind: str) -> Sequence[int]:
    """For each limit of the contract: the longest object within it, and the next ones.

    One is longer by an item, and one larger by a word. `edge_length` draws strings of whole words
    and a byte less, and no object of more than some nurseries.
    """
    layout = contract.layout
    sizes, longest = layout.kinds[kind], length_max(kind, contract)
    limits = {
        *(layout.large_object_bytes, layout.object_bytes_max, contract.nursery_bytes),
        *(contract.old_space.arena_object_bytes_max, *contract.boundary_bytes),
    }
    lengths: set[int] = set()
    for limit_bytes in limits:
        last = (limit_bytes - sizes.fixed_bytes) // sizes.item_bytes
        lengths |= {last, last + 1, last + max(layout.word_bytes // sizes.item_bytes, 1)}
    return sorted(length for length in lengths if 0 <= length <= longest)


def _only_arrays_reach(size_bytes: int, contract: Contract) -> bool:
    """Whether a size is at a boundary of the contract, and strings have too large items for it.

    In .NET, an array of 85,000 bytes is large. While arrays had at most 160 items, no session found
    a contract with 85,008 bytes there (commit 969a9a5).
    """
    layout = contract.layout
    string = layout.kinds.get("string")
    if string is not None and string.item_bytes <= layout.word_bytes:
        return False
    boundaries = layout.large_object_bytes, *contract.boundary_bytes
    most_bytes = EDGE_WORDS * layout.word_bytes
    return any(abs(size_bytes - boundary) <= most_bytes for boundary in boundaries)


# Blocks.


def _block_edges(situation: Situation) -> Sequence[int]:
    """The sizes, with the header of the block, at which something changes."""
    contract, layout = situation.contract, situation.contract.layout
    until_bytes = situation.bench.sampling.bytes_until_sample(situation.thread)
    most_bytes = layout.object_bytes_max + layout.kinds["block"].fixed_bytes
    edges = [until_bytes, until_bytes, until_bytes, most_bytes]
    if layout.size_classes:
        edges.append(layout.size_classes[-1])
        edges.append(layout.class_bytes(until_bytes) or layout.page_bytes)
    # Scalene never samples a block of one size. Before sessions drew such sizes, and more than
    # eight blocks that are never freed, `scalene-as-documented` showed none of its findings in
    # 167,680 actions. Since then it shows both in 5,000 (commit 969a9a5).
    return [*edges, *contract.sampling.counting.edge_bytes, *contract.boundary_bytes]


def block_bytes(situation: Situation, choices: Choices) -> int:
    """The size of a block: small, at some edge, of some size class, or any size."""
    layout = situation.contract.layout
    most, header_bytes = layout.object_bytes_max, layout.kinds["block"].fixed_bytes
    match choices.below(4):
        case 0:
            size_bytes = choices.below(SMALL_BLOCK_BYTES)
        case 1:
            size_bytes = choices.pick(_block_edges(situation)) - header_bytes + choices.below(3) - 1
        case 2 if layout.size_classes:
            size_bytes = choices.pick(layout.size_classes) - header_bytes + choices.below(3) - 1
        case _:
            size_bytes = choices.log_between(1, most)
    return min(max(size_bytes, 0), most)


# Periods.


def block_period(situation: Situation, choices: Choices) -> int:
    """A legal period of a target without a nursery."""
    rule = situation.contract.sampling
    if rule.periods:
        return choices.pick(rule.periods)
    legal, most = rule.period_bytes, situation.contract.layout.object_bytes_max
    return rule.nearest(choices.log_between(max(legal.minimum, 1), max(most, legal.minimum, 1)))


def short_period(situation: Situation, choices: Choices) -> int:
    """A legal period of some words."""
    rule = situation.contract.sampling
    return rule.nearest(choices.between(1, 16) * rule.period_bytes.multiple)


def is_every(situation: Situation, choices: Choices) -> bool:
    """Whether the period is 0, which samples each allocation."""
    return situation.contract.sampling.why_illegal(0) is None and not choices.below(8)


def period(situation: Situation, choices: Choices) -> int:
    """A legal period, from a word to many nurseries."""
    nursery = situation.contract.nursery_bytes
    if not nursery:
        return block_period(situation, choices)
    legal = situation.contract.sampling.period_bytes
    if is_every(situation, choices):
        return 0
    match choices.below(4):
        case 0:
            return short_period(situation, choices)
        case 1:
            period_bytes = nursery - situation.bench.sampling.nursery_used_bytes
        case 2:
            period_bytes = nursery * choices.between(1, NURSERIES_MAX)
        case _:
            period_bytes = choices.log_between(legal.multiple, max(8 * nursery, legal.multiple))
    return situation.contract.sampling.nearest(period_bytes)
