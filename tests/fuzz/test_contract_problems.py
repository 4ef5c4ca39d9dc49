"""What a target may not state: each mistake in a contract is told in a sentence."""

from typing import Any

import attrs
import pytest

from fuzz.contract import Contract, KindLayout, Layout, Prebuilt, Range, SamplingRule, Setting
from fuzz.contract_problems import problems_of
from fuzz.lines import contract_from_data, unstructured
from fuzz.targets import Target


def problems_with(contract: Contract, **changes: Any) -> list[str]:  # noqa: ANN401
    return list(problems_of(attrs.evolve(contract, **changes)))


def layout_with(contract: Contract, **changes: Any) -> Layout:  # noqa: ANN401
    return attrs.evolve(contract.layout, **changes)


def test_the_contract_of_the_reference_has_no_problem(reference: Target) -> None:
    assert list(problems_of(reference.start({}))) == []


def test_a_contract_is_read_as_it_was_written(reference: Target) -> None:
    contract = reference.start({})
    assert contract_from_data(unstructured(contract)) == contract


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"actions": ("alocate_node",)}, "actions lists 'alocate_node', which is unknown"),
        ({"actions": ()}, "actions is empty"),
        ({"observes": ("sample",)}, "observes lists 'sample', which is unknown"),
        ({"nursery_bytes": 0}, "nursery_bytes is 0; it must be at least 1"),
        ({"pins_max": -1}, "pins_max is -1; it must be at least 0"),
        ({"prebuilt": (Prebuilt("array", -1),)}, "prebuilt has a array of length -1"),
        (
            {"prebuilt": (Prebuilt("array", 10**12),)},
            "prebuilt has 1000000000001 objects and items; it may have 4096",
        ),
        (
            {"actions": ("free",), "sampling": SamplingRule(Range(1, 10, 0))},
            "multiple of period_bytes is 0; it must be at least 1",
        ),
        (
            {"actions": ("enable_sampling",), "sampling": SamplingRule(Range(9, 15, 8))},
            "sampling has no legal period_bytes: a multiple of 8 from 9 to 15",
        ),
        (
            {"actions": ("enable_sampling",), "sampling": SamplingRule(Range(0, 64))},
            "sampling has no legal period_bytes: from 0 to 64",
        ),
        (
            {
                "actions": ("enable_sampling", "disable_sampling"),
                "sampling": SamplingRule(Range(8, 64), disabling=()),
            },
            "disabling is empty, but actions lists disable_sampling",
        ),
        (
            {
                "actions": ("enable_sampling",),
                "sampling": SamplingRule(Range(8, 64), paused="placeholders"),
            },
            "paused is placeholders, but distances is period",
        ),
        (
            {"settings": (Setting("cards", 4, Range(0, 8)),) * 2},
            "settings has two of one name",
        ),
        ({"settings": (Setting("cards", 4, Range(9, 8)),)}, "cards has no legal value: from 9 to"),
        (
            {"settings": (Setting("cards", 4, Range(0, 8), at_most="nursery"),)},
            "cards is at most 'nursery', which is no setting",
        ),
        (
            {"settings": (Setting("cards", 4, Range(0, 8), choices=(4, 16)),)},
            "cards has a choice that is not from 0 to 8",
        ),
        ({"settings": (Setting("cards", 16, Range(0, 8)),)}, "by default, cards is 16; it must"),
        (
            {"settings": (Setting("cards", 4, Range(0, 8), at_most="cards"),)},
            "cards is at most cards, which has such a bound itself",
        ),
        (
            {
                "settings": (
                    Setting("small", 1, Range(0, 8), at_most="middle"),
                    Setting("middle", 2, Range(0, 8), at_most="large"),
                    Setting("large", 3, Range(0, 8)),
                )
            },
            "small is at most middle, which has such a bound itself",
        ),
        (
            {
                "settings": (
                    Setting("cards", 50, Range(50, 100), at_most="size"),
                    Setting("size", 100, Range(0, 100)),
                )
            },
            "cards is at most size, but their least values are 50 and 0",
        ),
        (
            {
                "settings": (
                    Setting("cards", 50, Range(0, 100), choices=(50, 60), at_most="size"),
                    Setting("size", 100, Range(40, 100)),
                )
            },
            "cards is at most size, but their least values are 50 and 40",
        ),
    ],
)
def test_a_mistake_in_a_contract_is_told(
    contract: Contract, changes: dict[str, Any], problem: str
) -> None:
    contract = attrs.evolve(contract, observes=(*contract.observes, "samples"))
    assert any(each.startswith(problem) for each in problems_with(contract, **changes))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"word_bytes": 0}, "word_bytes is 0; it must be at least 1"),
        ({"large_object_bytes": 0}, "large_object_bytes is 0; it must be at least 1"),
        ({"object_bytes_max": 16}, "fixed_bytes of a node is 32; it must be from 0 to 16"),
        ({"kinds": {"tuple": KindLayout(1, 16)}}, "layout has the unknown kind 'tuple'"),
        ({"kinds": {"string": KindLayout(1, 16)}}, "item_bytes of a string is 0; it is too small"),
        ({"kinds": {}}, "actions lists allocate_node, but layout has no kind 'node'"),
    ],
)
def test_a_mistake_in_a_layout_is_told(
    contract: Contract, changes: dict[str, Any], problem: str
) -> None:
    problems = problems_with(contract, layout=layout_with(contract, **changes))
    assert any(each.startswith(problem) for each in problems)


def test_a_contract_without_sampling_needs_no_rule(contract: Contract) -> None:
    data = unstructured(attrs.evolve(contract, actions=("allocate_node", "free")))
    del data["sampling"]
    assert 8 not in contract_from_data(data).sampling.period_bytes


def meaningless(contract: Contract, actions: str, observes: str) -> list[str]:
    """What such a contract lists without what it takes to judge it."""
    rule = SamplingRule(Range(8, 64), disabling=("drop",))
    problems = problems_with(
        contract,
        actions=tuple(actions.split()),
        observes=tuple(observes.split()),
        sampling=rule,
    )
    return [each for each in problems if "means nothing without" in each]


@pytest.mark.parametrize(
    ("actions", "observes", "missing"),
    [
        ("collect_full", "size", "collect_full means nothing without minors in observes"),
        ("set_callback", "minors", "set_callback means nothing without order in observes"),
        ("free", "order", "order means nothing without minors in observes"),
        ("enable_sampling", "order minors", "order means nothing without samples in observes"),
        ("enable_sampling", "reports minors", "reports means nothing without samples in observes"),
        ("free", "limit minors top", "limit means nothing without free in observes"),
        ("free", "limit minors free", "limit means nothing without top in observes"),
        (
            "enable_sampling",
            "limit minors free top",
            "limit means nothing without sample_point in observes",
        ),
        (
            "free",
            "limit minors free top size at",
            "limit means nothing without outside in observes",
        ),
        (
            "free",
            "limit minors free top size outside",
            "limit means nothing without at in observes",
        ),
    ],
)
def test_what_cannot_be_judged_without_another_field_needs_it(
    contract: Contract, actions: str, observes: str, missing: str
) -> None:
    assert meaningless(contract, actions, observes) == [missing]


def test_disabling_that_reports_needs_the_minor_collection_told(contract: Contract) -> None:
    problems = problems_with(contract, actions=("disable_sampling",), observes=("size",))
    assert problems == ["disable_sampling means nothing without minors in observes"]


@pytest.mark.parametrize(
    "observes", ["size graph", "minors order", "minors reports", "minors limit free top"]
)
def test_where_nothing_is_sampled_no_field_of_sampling_is_needed(
    contract: Contract, observes: str
) -> None:
    assert meaningless(contract, "allocate_node free disable_sampling", observes) == []


@pytest.mark.parametrize("number", [10**400, -(10**400)], ids=["large", "negative"])
def test_a_number_that_no_target_could_mean_is_told(contract: Contract, number: int) -> None:
    settings = (Setting("cards", 4, Range(number, 8)), Setting("size", 4, Range(0, number)))
    layout = layout_with(contract, object_bytes_max=number)
    problems = problems_with(contract, nursery_bytes=number, layout=layout, settings=settings)
    told = {problem.split()[0] for problem in problems if "is too far from 0" in problem}
    assert told == {"nursery_bytes", "object_bytes_max", "minimum", "maximum"}
