"""The major oracle: a major collection goes on in steps, each after a minor collection."""

from __future__ import annotations

import attrs
import pytest

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.major import MajorOracle
from fuzz.oracles.oracle import Mismatch
from fuzz.oracles.sampling import SamplingOracle
from fuzz.protocol.actions import (
    Action,
    AllocateNode,
    CollectFull,
    CollectMinor,
    CollectStep,
    DisableSampling,
    Free,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation, Report

SCANNING, MARKING, SWEEPING, FINALIZING = range(4)


class Judge:
    """A major oracle, and what it is observation."""

    def __init__(self, contract: Contract, *observes: str) -> None:
        contract = attrs.evolve(contract, observes=("minors", *observes))
        self._oracle = MajorOracle(contract, Shadow(contract))
        self._sampling = SamplingOracle(contract, Shadow(contract)).facts

    def follow(
        self, action: Action, state: int | None, minors: int = 0, *reported: int, order: str = ""
    ) -> None:
        reports = [Report([], 0, 0, major_state) for major_state in reported]
        seen = Observation(minors=minors, order=order, state=state, reports=reports)
        self._oracle.check(action, seen, self._sampling)

    def mismatch(
        self, action: Action, state: int | None, minors: int = 0, *reported: int, order: str = ""
    ) -> tuple[str, object, object]:
        with pytest.raises(Mismatch, match=r"^major: ") as raised:
            self.follow(action, state, minors, *reported, order=order)
        return raised.value.field, raised.value.expected, raised.value.got


@pytest.fixture
def judge(contract: Contract) -> Judge:
    return Judge(contract, "state", "reports")


def test_a_collection_goes_through_all_its_states_step_by_step(judge: Judge) -> None:
    for state in (MARKING, MARKING, SWEEPING, SWEEPING, FINALIZING, SCANNING, MARKING):
        judge.follow(CollectStep(), state, 1)


def test_an_allocation_may_take_as_many_steps_as_minor_collections(judge: Judge) -> None:
    judge.follow(AllocateNode(0), SWEEPING, 2)


@pytest.mark.parametrize("state", [-1, 4, 99, None])
def test_an_unknown_state_is_a_mismatch(judge: Judge, state: int | None) -> None:
    assert judge.mismatch(CollectStep(), state, 9) == ("state", [0, 1, 2, 3], state)


def test_a_collection_begins_at_scanning(judge: Judge) -> None:
    assert judge.mismatch(AllocateNode(0), MARKING) == ("state", [SCANNING], MARKING)


def test_an_action_that_collects_nothing_takes_no_step(judge: Judge) -> None:
    judge.follow(CollectStep(), MARKING, 1)
    assert judge.mismatch(Free(0), SWEEPING) == ("state", [MARKING], SWEEPING)


def test_no_state_is_left_out(judge: Judge) -> None:
    assert judge.mismatch(CollectStep(), SWEEPING, 1) == ("state", [SCANNING, MARKING], SWEEPING)


def test_no_step_goes_back(judge: Judge) -> None:
    judge.follow(CollectStep(), SWEEPING, 2)
    assert judge.mismatch(CollectStep(), MARKING, 1) == ("state", [SWEEPING, FINALIZING], MARKING)


@pytest.mark.parametrize("action", [CollectMinor(), DisableSampling(report=True)])
def test_a_minor_collection_asked_for_takes_no_step(judge: Judge, action: Action) -> None:
    assert judge.mismatch(action, MARKING, 1) == ("state", [SCANNING], MARKING)


def test_a_full_collection_ends_where_the_next_one_begins(judge: Judge) -> None:
    judge.follow(CollectStep(), MARKING, 1)
    assert judge.mismatch(CollectFull(), MARKING, 9) == ("state", [SCANNING], MARKING)


# Reports.


def test_a_report_says_how_the_collection_stood_before_the_step(judge: Judge) -> None:
    judge.follow(CollectStep(), MARKING, 1, SCANNING)
    seen = judge.mismatch(CollectStep(), SWEEPING, 1, SWEEPING)
    assert seen == ("major_state", [MARKING], SWEEPING)


def test_a_later_report_of_one_action_may_be_some_steps_further(judge: Judge) -> None:
    judge.follow(CollectFull(), SCANNING, 5, SCANNING, MARKING)


def test_if_the_order_is_observed_a_report_is_at_most_as_far_as_its_minor_collection(
    judge: Judge,
) -> None:
    judge.follow(AllocateNode(0), SWEEPING, 2, SCANNING, order="MRM")
    seen = judge.mismatch(AllocateNode(0), SCANNING, 3, FINALIZING, order="MRMM")
    assert seen == ("major_state", [SWEEPING], FINALIZING)


def test_where_it_is_not_a_report_leaves_minor_collections_for_those_after_it(judge: Judge) -> None:
    seen = judge.mismatch(AllocateNode(0), MARKING, 2, MARKING, MARKING)
    assert seen == ("major_state", [SCANNING], MARKING)


def test_a_later_report_of_one_action_is_not_a_step_back(judge: Judge) -> None:
    seen = judge.mismatch(AllocateNode(0), SWEEPING, 4, SWEEPING, MARKING, order="MMMRMR")
    assert seen == ("major_state", [SWEEPING, FINALIZING], MARKING)


def test_an_action_does_not_end_before_where_its_report_stood(judge: Judge) -> None:
    seen = judge.mismatch(AllocateNode(0), SCANNING, 3, SWEEPING, order="MMMR")
    assert seen == ("state", [SWEEPING, FINALIZING], SCANNING)


@pytest.mark.parametrize("state", [-1, 4, 99])
def test_a_report_names_a_state_also_where_the_target_does_not_show_its_own(
    contract: Contract, state: int
) -> None:
    judge = Judge(contract, "reports")
    judge.follow(CollectMinor(), None, 1, FINALIZING)
    seen = judge.mismatch(CollectMinor(), None, 1, state)
    assert seen == ("major_state", [0, 1, 2, 3], state)
