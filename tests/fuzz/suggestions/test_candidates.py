"""The keys that a suggestion may change: named values, read from the classes of the contract."""

from __future__ import annotations

from typing import Any, Literal

import attrs
import pytest
from small_sampler import CONTRACT

from fuzz.failures.weaker import IS_WEAKER
from fuzz.protocol.contract import DRAWN, Contract, SamplingRule
from fuzz.protocol.counting import Way
from fuzz.suggestions.candidates import candidates_for
from fuzz.suggestions.change import Change, changed
from fuzz.targets import make_target
from fuzz.targets.references import REFERENCES


@pytest.fixture(params=REFERENCES)
def contract(request: pytest.FixtureRequest) -> Contract:
    return make_target(request.param).start({})


def test_no_candidate_is_weaker_than_the_contract(contract: Contract) -> None:
    for change in candidates_for(contract):
        judged = IS_WEAKER.get(change.key)
        assert judged is None or not judged(change.stated(contract), change.value)


def test_no_candidate_is_a_generator_or_promises_nothing(contract: Contract) -> None:
    values = {change.value for change in candidates_for(contract)}
    assert values.isdisjoint((*DRAWN, "unstated", "random", "sums", "none"))


def test_candidates_are_named_values(contract: Contract) -> None:
    assert {type(change.value) for change in candidates_for(contract)} - {str} == {
        type(change.value) for change in candidates_for(contract) if isinstance(change.value, Way)
    }


def test_each_candidate_changes_the_contract(contract: Contract) -> None:
    assert all(change.applied(contract) != contract for change in candidates_for(contract))


@attrs.frozen
class RuleWithANewKey(SamplingRule):
    tomorrow: Literal["early", "late"] = "early"


def test_a_new_key_is_a_candidate() -> None:
    rule = RuleWithANewKey(CONTRACT.sampling.period_bytes)
    keys = candidates_for(attrs.evolve(CONTRACT, sampling=rule))
    assert [each.value for each in keys if each.key == "sampling.tomorrow"] == ["late"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("sampling.crosses", "at"), ("layout.kinds.string.fixed_bytes", 3), ("nursery_bytes", 8)],
)
def test_a_change_changes_its_key_and_no_other(key: str, value: Any) -> None:
    change = Change(key, value)
    wrong = changed(CONTRACT, (change,))
    assert change.stated(wrong) == value
    assert changed(wrong, (Change(key, change.stated(CONTRACT)),)) == CONTRACT


@pytest.mark.parametrize(
    ("one", "other", "excludes"),
    [
        ("sampling.crosses", "sampling.crosses", True),
        ("sampling.counting", "sampling.counting.charges", True),
        ("sampling.counts", "sampling.counting", False),
    ],
)
def test_a_part_is_not_replaced_and_changed(one: str, other: str, excludes: bool) -> None:
    assert Change(one, 1).excludes(Change(other, 1)) is excludes
