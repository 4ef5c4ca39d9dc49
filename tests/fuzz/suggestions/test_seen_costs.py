"""What objects cost, solved from the sizes that answers have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import KindLayout, Layout
from fuzz.suggestions.change import Change, changed
from fuzz.suggestions.seen_costs import SeenCost, solved_sizes, unsolved

LAYOUT = Layout(
    kinds={
        "node": KindLayout(1, 32),
        "string": KindLayout(4, 25, 1),
        "array": KindLayout(3, 16, 8),
    },
    large_object_bytes=256,
    word_bytes=8,
    object_bytes_max=2**16,
)
LENGTHS = (*range(20), 100, 230, 231, 300)


def contract_with(layout: Layout) -> Contract:
    return Contract(0, layout, (), ())


def costs(layout: Layout, shows_outside: bool = True) -> Iterator[SeenCost]:
    for kind in layout.kinds:
        for length in (0,) if kind == "node" else LENGTHS:
            for nonmovable in (False, True):
                size_bytes, outside = layout.cost(kind, length, nonmovable)
                yield SeenCost(
                    kind, length, nonmovable, size_bytes, outside if shows_outside else None
                )


def with_changes(changes: Mapping[str, Any]) -> Layout:
    keys = [Change(f"layout.{key}", value) for key, value in changes.items()]
    return changed(contract_with(LAYOUT), keys).layout


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"kinds.node.fixed_bytes": 24},
        {"kinds.string.fixed_bytes": 24},
        {"kinds.string.item_bytes": 2},
        {"kinds.array.item_bytes": 4},
        {"kinds.array.fixed_bytes": 24, "kinds.array.item_bytes": 4},
        {"word_bytes": 16},
        {"word_bytes": 1},
        {"large_object_bytes": 512},
        {"large_object_bytes": 64},
        {"nonmovable": "ignored"},
        {"word_bytes": 4, "kinds.string.fixed_bytes": 40},
    ],
    ids=str,
)
def test_the_wrong_sizes_are_found(wrong: dict[str, Any]) -> None:
    found = solved_sizes(with_changes(wrong), costs(LAYOUT))
    assert found is not None
    assert {each.key for each in found} == {f"layout.{key}" for key in wrong}
    assert changed(contract_with(with_changes(wrong)), found) == contract_with(LAYOUT)


def test_without_outside_the_sizes_are_found() -> None:
    wrong = with_changes({"kinds.string.fixed_bytes": 24})
    found = solved_sizes(wrong, costs(LAYOUT, shows_outside=False))
    assert found == (Change("layout.kinds.string.fixed_bytes", 25),)


def test_of_a_limit_that_is_a_range_the_power_of_two_is_taken() -> None:
    sizes = {200: False, 300: True}
    known = [SeenCost("string", size - 25, False, size, outside) for size, outside in sizes.items()]
    found = solved_sizes(with_changes({"large_object_bytes": 512}), known)
    assert found == (Change("layout.large_object_bytes", 256),)


def test_sizes_without_a_rule_have_no_solution() -> None:
    known = [SeenCost("string", length, False, size, None) for length, size in ((0, 32), (7, 24))]
    assert solved_sizes(LAYOUT, known) is None


def test_without_outside_nonmovable_objects_may_be_rounded_like_others() -> None:
    ignored = with_changes({"nonmovable": "ignored", "word_bytes": 16})
    found = solved_sizes(LAYOUT, costs(ignored, shows_outside=False))
    assert found is not None
    assert changed(contract_with(LAYOUT), found).layout == ignored


def test_of_costs_that_no_layout_explains_a_few_are_shown() -> None:
    odd = SeenCost("string", 7, False, 24, None)
    known = [*costs(LAYOUT, shows_outside=False)]
    found = unsolved(LAYOUT, [*known, odd])
    assert odd in found
    assert len(found) <= 3
    for cost in found:
        assert solved_sizes(LAYOUT, [each for each in found if each != cost]) is not None
