"""Solves what objects cost, from the fields `size` and `outside` of allocations.

A size in the nursery is rounded up to words, one outside is exact. So each answer limits
`fixed_bytes + item_bytes * length` to a range, and the smallest number of changed keys is wanted
that is within all ranges. Blocks are left alone: their sizes are a table of the allocator.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import get_args, get_type_hints

import attrs

from fuzz.protocol.actions import AllocateGroup
from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import KindLayout, Layout, rounded_up
from fuzz.suggestions.change import Change, Changes
from fuzz.suggestions.collect import Collected

LAYOUT = "layout"
NONMOVABLE = get_args(get_type_hints(Layout)["nonmovable"])
WORDS = (1, 2, 4, 8, 16, 32, 64)
ITEMS = range(1, 65)


@attrs.frozen
class SeenCost:
    """What an answer says that an object costs."""

    kind: str
    length: int
    nonmovable: bool
    size_bytes: int | None
    outside: bool | None

    def agrees(self, layout: Layout) -> bool:
        """Whether a layout predicts it."""
        size_bytes, outside = layout.cost(self.kind, self.length, self.nonmovable)
        return self.size_bytes in (None, size_bytes) and self.outside in (None, outside)

    def assumed(self, layout: Layout) -> SeenCost:
        """The same with the place that a layout states, if no answer shows it.

        The largest object inside may be rounded up to the size of the smallest one outside.
        """
        most_bytes = rounded_up(layout.large_object_bytes - 1, layout.word_bytes)
        is_kept = self.nonmovable and layout.nonmovable == "outside"
        if self.outside is not None or self.size_bytes is None:
            return self
        if self.size_bytes == most_bytes and not is_kept:
            return self
        return attrs.evolve(self, outside=is_kept or self.size_bytes > most_bytes)

    def limits(self, word_bytes: int) -> tuple[int, int]:
        """The least and the most unrounded bytes that the object may have."""
        assert self.size_bytes is not None
        rounding = 0 if self.outside else word_bytes - 1
        return self.size_bytes - rounding, self.size_bytes


def costs_in(trace: Collected) -> Iterator[SeenCost]:
    """The costs of objects that are no blocks and have no parts."""
    contract, layout = trace.contract, trace.contract.layout
    for action, answer in zip(trace.actions, trace.answers, strict=True):
        kind = action.kind
        if not action.allocates or isinstance(action, AllocateGroup) or answer.exhausted:
            continue
        if getattr(action, "destructor", None) is not None:
            continue  # If it lies outside, it was not legal.
        if kind is None or kind == "block" or layout.kinds[kind].parts:
            continue
        yield SeenCost(
            kind,
            getattr(action, "length", 0),
            action.old or getattr(action, "nonmovable", False),
            answer.size if "size" in contract.observes else None,
            answer.outside if "outside" in contract.observes else None,
        )


def agree(traces: Iterable[Collected]) -> bool:
    """Whether all sizes are as the contracts state."""
    return all(cost.agrees(trace.contract.layout) for trace in traces for cost in costs_in(trace))


def solved_sizes(layout: Layout, costs: Iterable[SeenCost]) -> Changes | None:
    """The fewest changes of a layout after which it predicts all costs; None if there are none."""
    known = [*dict.fromkeys(costs)]
    words = dict.fromkeys((layout.word_bytes, *WORDS))
    meanings = dict.fromkeys((layout.nonmovable, *NONMOVABLE))
    solutions = []
    for word_bytes, nonmovable in product(words, meanings):
        # Without `outside`, the meaning says which of them lie outside, where sizes are exact.
        meant = attrs.evolve(layout, nonmovable=nonmovable)
        changes = _solved_kinds(layout, [cost.assumed(meant) for cost in known], word_bytes)
        if changes is None:
            continue
        others = {"word_bytes": word_bytes, "nonmovable": nonmovable}
        changes = *changes, *_changes(LAYOUT, layout, others)
        changes += _solved_limit(_changed_layout(layout, changes), known)
        if all(cost.agrees(_changed_layout(layout, changes)) for cost in known):
            solutions.append(changes)
    return min(solutions, key=len, default=None)


def unsolved(layout: Layout, costs: Iterable[SeenCost]) -> list[SeenCost]:
    """A few of the costs that no sizes explain together: without any of them, some do.

    Of a growing number of costs, the last one that makes it impossible belongs to them.
    """
    known = sorted(dict.fromkeys(costs), key=lambda cost: (cost.kind, cost.length))
    needed: list[SeenCost] = []
    while solved_sizes(layout, needed) is not None:
        sizes = range(1, len(known) + 1)
        count = sizes[bisect(sizes, x=False, key=partial(_is_unsolved, layout, needed, known))]
        needed.append(known[count - 1])
        known = known[: count - 1]
    return needed


def _is_unsolved(layout: Layout, needed: list[SeenCost], known: list[SeenCost], count: int) -> bool:
    return solved_sizes(layout, [*needed, *known[:count]]) is None


def _changes(place: str, part: object, values: Mapping[str, object]) -> Changes:
    """The changes of a part that give it these values."""
    return tuple(
        Change(f"{place}.{key}", value)
        for key, value in values.items()
        if value != getattr(part, key)
    )


def _changed_layout(layout: Layout, changes: Changes) -> Layout:
    contract = Contract(nursery_bytes=0, layout=layout, actions=(), observes=())
    for change in changes:
        contract = change.applied(contract)
    return contract.layout


def _solved_kinds(layout: Layout, costs: Sequence[SeenCost], word_bytes: int) -> Changes | None:
    changes: Changes = ()
    for kind, stated in layout.kinds.items():
        own = [cost for cost in costs if cost.kind == kind and cost.size_bytes is not None]
        if any(not cost.outside and cost.limits(1)[1] % word_bytes for cost in own):
            return None
        found = _solved_kind(stated, own, word_bytes)
        if found is None:
            return None
        changes += _changes(f"{LAYOUT}.kinds.{kind}", stated, found)
    return changes


def _solved_kind(
    stated: KindLayout, costs: Sequence[SeenCost], word_bytes: int
) -> Mapping[str, int] | None:
    """Its fixed bytes and those of an item, of which as few as possible are changed."""
    if _is_within(stated.fixed_bytes, stated.item_bytes, costs, word_bytes):
        return {}
    has_items = any(cost.length for cost in costs)
    others = ITEMS if has_items else ()

    def fixed_bytes_for(item_bytes: int) -> int:
        """The most: a size that is not rounded up, as many are, is exact."""
        most = (cost.limits(word_bytes)[1] - item_bytes * cost.length for cost in costs)
        return max(min(most), 0)

    tried = (
        (fixed_bytes_for(stated.item_bytes), stated.item_bytes),
        *((stated.fixed_bytes, item_bytes) for item_bytes in others),
        *((fixed_bytes_for(item_bytes), item_bytes) for item_bytes in others),
    )
    for fixed_bytes, item_bytes in tried:
        if _is_within(fixed_bytes, item_bytes, costs, word_bytes):
            return {"fixed_bytes": fixed_bytes, "item_bytes": item_bytes}
    return None


def _is_within(
    fixed_bytes: int, item_bytes: int, costs: Iterable[SeenCost], word_bytes: int
) -> bool:
    for cost in costs:
        least, most = cost.limits(word_bytes)
        if not least <= fixed_bytes + item_bytes * cost.length <= most:
            return False
    return True


def _solved_limit(layout: Layout, costs: Sequence[SeenCost]) -> Changes:
    """The change of `large_object_bytes`, if that of a layout does not explain what lies outside.

    The answers leave a range. A power of two in it is the likeliest.
    """
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for cost in costs:
        if cost.outside is not None and not (cost.nonmovable and layout.nonmovable == "outside"):
            kind = layout.kinds[cost.kind]
            sizes[cost.outside].append(kind.fixed_bytes + kind.item_bytes * cost.length)
    least, most = max(sizes[False], default=0) + 1, min(sizes[True], default=None)
    if layout.large_object_bytes >= least and (most is None or layout.large_object_bytes <= most):
        return ()
    if most is None:
        most = rounded_up(layout.object_bytes_max + 1, 2)
    if least > most:
        return ()
    power = 1 << (most.bit_length() - 1)
    return (Change("layout.large_object_bytes", power if power >= least else most),)
