"""Contracts: ranges, what an object costs, and which configurations are legal."""

import attrs
import pytest

from fuzz.protocol.contract import Contract, Range, SamplingRule, Setting, problem_of_configuration
from fuzz.protocol.layout import Layout

SETTINGS = (
    Setting("nursery", 256, Range(64, 1024, 8)),
    Setting("large", 64, Range(17, 1024), at_most="nursery"),
    Setting("cards", 4, Range(0, 32), choices=(0, 4, 32)),
)


@pytest.fixture
def layout(contract: Contract) -> Layout:
    return contract.layout


@pytest.mark.parametrize("number", [16, 24, 64])
def test_a_range_contains_its_ends_and_the_multiples_between(number: int) -> None:
    assert number in Range(16, 64, 8)


@pytest.mark.parametrize("number", [8, 15, 17, 20, 65, 72])
def test_a_range_contains_nothing_else(number: int) -> None:
    assert number not in Range(16, 64, 8)


@pytest.mark.parametrize(
    ("number", "nearest"),
    [(-8, 24), (17, 24), (24, 24), (31, 24), (32, 32), (96, 96), (100, 96), (1000, 96)],
)
def test_the_nearest_member_of_a_range_is_below_unless_there_is_none(
    number: int, nearest: int
) -> None:
    assert Range(17, 100, 8).nearest(number) == nearest


def test_a_range_of_all_numbers_reads_as_such() -> None:
    assert str(Range(0, 8)) == "from 0 to 8"


def test_a_range_of_multiples_reads_as_such() -> None:
    assert str(Range(8, 64, 8)) == "a multiple of 8 from 8 to 64"


def test_an_object_in_the_nursery_is_rounded_up_to_words(layout: Layout) -> None:
    assert layout.cost("string", 1, nonmovable=False) == (32, False)


def test_an_object_of_whole_words_is_not_rounded(layout: Layout) -> None:
    assert layout.cost("string", 7, nonmovable=False) == (32, False)


def test_each_item_costs_its_bytes(layout: Layout) -> None:
    assert layout.cost("array", 3, nonmovable=False) == (40, False)


def test_an_object_a_byte_below_the_threshold_lies_in_the_nursery(layout: Layout) -> None:
    assert layout.cost("string", 38, nonmovable=False) == (64, False)


def test_an_object_of_the_threshold_lies_outside(layout: Layout) -> None:
    assert layout.cost("string", 39, nonmovable=False) == (64, True)


def test_an_object_outside_is_not_rounded(layout: Layout) -> None:
    assert layout.cost("string", 40, nonmovable=False) == (65, True)


def test_a_small_nonmovable_object_lies_outside_and_is_not_rounded(layout: Layout) -> None:
    assert layout.cost("string", 0, nonmovable=True) == (25, True)


# Blocks.


@pytest.mark.parametrize(
    ("requested", "class_bytes"), [(0, 8), (1, 8), (8, 8), (9, 16), (65, 128), (128, 128)]
)
def test_a_block_is_of_the_least_class_that_holds_it(
    blocks: Contract, requested: int, class_bytes: int
) -> None:
    assert blocks.layout.class_bytes(requested) == class_bytes
    assert blocks.layout.capacity_bytes(requested) == class_bytes


@pytest.mark.parametrize(("requested", "room"), [(129, 256), (256, 256), (257, 512)])
def test_a_block_larger_than_all_classes_has_whole_pages(
    blocks: Contract, requested: int, room: int
) -> None:
    assert blocks.layout.class_bytes(requested) is None
    assert blocks.layout.capacity_bytes(requested) == room


def test_where_nothing_is_said_of_classes_a_block_has_what_it_asks_for(layout: Layout) -> None:
    assert [layout.capacity_bytes(size) for size in (0, 1, 13)] == [0, 1, 13]


# Periods and threads.

POWERS = SamplingRule(Range(1, 4096), periods=(16, 64, 256))


@pytest.mark.parametrize("period_bytes", [16, 64, 256])
def test_where_the_periods_are_listed_these_are_legal(period_bytes: int) -> None:
    assert POWERS.why_illegal(period_bytes) is None


@pytest.mark.parametrize("period_bytes", [1, 17, 255, 4096])
def test_where_the_periods_are_listed_no_others_are_legal(period_bytes: int) -> None:
    problem = f"period_bytes is {period_bytes}; it must be one of 16, 64, 256"
    assert POWERS.why_illegal(period_bytes) == problem


def test_a_period_out_of_range_is_reported_before_the_list() -> None:
    assert POWERS.why_illegal(0) == "period_bytes is 0; it must be from 1 to 4096"


@pytest.mark.parametrize(
    ("period_bytes", "nearest"),
    [(-5, 16), (1, 16), (16, 16), (63, 16), (64, 64), (300, 256), (10**9, 256)],
)
def test_the_nearest_of_the_listed_periods_is_below_unless_there_is_none(
    period_bytes: int, nearest: int
) -> None:
    assert POWERS.nearest(period_bytes) == nearest


def test_where_no_periods_are_listed_the_nearest_is_of_the_range() -> None:
    assert SamplingRule(Range(8, 64, 8)).nearest(63) == 56


def test_there_are_as_many_threads_as_seeds(contract: Contract, blocks: Contract) -> None:
    assert (contract.threads, blocks.threads) == (1, 3)


@pytest.mark.parametrize(
    ("actions", "initial_period_bytes", "samples"),
    [(("free",), 0, False), (("free",), 8, True), (("free", "enable_sampling"), 0, True)],
)
def test_sampling_can_be_on_where_it_is_at_the_start_or_can_be_enabled(
    contract: Contract, actions: tuple[str, ...], initial_period_bytes: int, samples: bool
) -> None:
    rule = attrs.evolve(contract.sampling, initial_period_bytes=initial_period_bytes)
    assert attrs.evolve(contract, actions=actions, sampling=rule).samples is samples


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"nursery": 64, "large": 64},
        {"large": 256},
        {"large": 1024, "nursery": 1024},
        {"cards": 0},
        {"cards": 32},
    ],
    ids=str,
)
def test_a_legal_configuration_has_no_problem(configuration: dict[str, int]) -> None:
    assert problem_of_configuration(configuration, SETTINGS) is None


@pytest.mark.parametrize(
    ("configuration", "problem"),
    [
        ({"nursary": 64}, "config has no setting 'nursary'; it has nursery, large, cards"),
        ({"nursery": 56}, "nursery is 56; it must be a multiple of 8 from 64 to 1024"),
        ({"nursery": 65}, "nursery is 65; it must be a multiple of 8 from 64 to 1024"),
        ({"nursery": 1032}, "nursery is 1032; it must be a multiple of 8 from 64 to 1024"),
        ({"large": 16}, "large is 16; it must be from 17 to 1024"),
        ({"large": 257}, "large is 257; it must be at most nursery, 256"),
        ({"large": 65, "nursery": 64}, "large is 65; it must be at most nursery, 64"),
        ({"cards": 8}, "cards is 8; it must be one of 0, 4, 32"),
    ],
    ids=str,
)
def test_the_problem_of_a_configuration(configuration: dict[str, int], problem: str) -> None:
    assert problem_of_configuration(configuration, SETTINGS) == problem


def test_a_contract_that_says_nothing_of_pins_allows_none(contract: Contract) -> None:
    assert contract.pins_max == 0


def test_a_sampling_rule_that_says_nothing_else_is_the_papers() -> None:
    rule = SamplingRule(Range(8, 64, 8))
    assert (rule.crosses, rule.surplus, rule.samples_per_allocation) == ("beyond", "carried", "all")
    assert (rule.distances, rule.pinning) == ("period", "excluded")
