"""The major oracle: a major collection goes on in steps, each after a minor collection."""

from __future__ import annotations

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.oracles.major import MajorOracle
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Report

SCANNING, MARKING, SWEEPING, FINALIZING = range(4)


def judge_of(contract: Contract, *observes: str) -> Judge:
    return Judge(attrs.evolve(contract, observes=("minors", *observes)), MajorOracle)


@pytest.fixture
def judge(contract: Contract) -> Judge:
    return judge_of(contract, "state", "reports")


def step(
    action: Action, state: int | None, minors: int = 0, *reported: int, order: str = ""
) -> Step:
    """An action, the state after it, and the states in its reports."""
    reports = [Report([], 0, 0, major_state) for major_state in reported]
    return answer(action, minors=minors, order=order, state=state, reports=reports)


def mismatch_of(judge: Judge, wrong: Step) -> tuple[str, object, object]:
    mismatch = judge.mismatch(wrong)
    return mismatch.field, mismatch.expected, mismatch.got


def test_a_collection_goes_through_all_its_states_step_by_step(judge: Judge) -> None:
    for state in (MARKING, MARKING, SWEEPING, SWEEPING, FINALIZING, SCANNING, MARKING):
        judge(step(do.CollectStep(), state, 1))


def test_an_allocation_may_take_as_many_steps_as_minor_collections(judge: Judge) -> None:
    judge(step(do.AllocateNode(0), SWEEPING, 2))


@pytest.mark.parametrize("state", [-1, 4, 99, None])
def test_an_unknown_state_is_a_mismatch(judge: Judge, state: int | None) -> None:
    assert mismatch_of(judge, step(do.CollectStep(), state, 9)) == ("state", [0, 1, 2, 3], state)


def test_a_collection_begins_at_scanning(judge: Judge) -> None:
    assert mismatch_of(judge, step(do.AllocateNode(0), MARKING)) == ("state", [SCANNING], MARKING)


def test_an_action_that_collects_nothing_takes_no_step(judge: Judge) -> None:
    judge(step(do.AllocateNode(0), SCANNING), step(do.CollectStep(), MARKING, 1))
    assert mismatch_of(judge, step(do.Free(0), SWEEPING)) == ("state", [MARKING], SWEEPING)


def test_no_state_is_left_out(judge: Judge) -> None:
    assert mismatch_of(judge, step(do.CollectStep(), SWEEPING, 1)) == (
        "state",
        [SCANNING, MARKING],
        SWEEPING,
    )


def test_no_step_goes_back(judge: Judge) -> None:
    judge(step(do.CollectStep(), SWEEPING, 2))
    assert mismatch_of(judge, step(do.CollectStep(), MARKING, 1)) == (
        "state",
        [SWEEPING, FINALIZING],
        MARKING,
    )


@pytest.mark.parametrize("action", [do.CollectMinor(), do.DisableSampling(report=True)])
def test_a_minor_collection_asked_for_takes_no_step(judge: Judge, action: Action) -> None:
    assert mismatch_of(judge, step(action, MARKING, 1)) == ("state", [SCANNING], MARKING)


def test_a_full_collection_ends_where_the_next_one_begins(judge: Judge) -> None:
    judge(step(do.CollectStep(), MARKING, 1))
    assert mismatch_of(judge, step(do.CollectFull(), MARKING, 9)) == ("state", [SCANNING], MARKING)


# Reports.


def test_a_report_says_how_the_collection_stood_before_the_step(judge: Judge) -> None:
    judge(step(do.CollectStep(), MARKING, 1, SCANNING))
    seen = mismatch_of(judge, step(do.CollectStep(), SWEEPING, 1, SWEEPING))
    assert seen == ("major_state", [MARKING], SWEEPING)


def test_a_later_report_of_one_action_may_be_some_steps_further(judge: Judge) -> None:
    judge(step(do.CollectFull(), SCANNING, 5, SCANNING, MARKING))


def test_in_an_observed_order_a_report_is_no_further_than_its_collection(judge: Judge) -> None:
    judge(step(do.AllocateNode(0), SWEEPING, 2, SCANNING, order="MRM"))
    seen = mismatch_of(judge, step(do.AllocateNode(0), SCANNING, 3, FINALIZING, order="MRMM"))
    assert seen == ("major_state", [SWEEPING], FINALIZING)


def test_where_it_is_not_a_report_leaves_minor_collections_for_those_after_it(judge: Judge) -> None:
    seen = mismatch_of(judge, step(do.AllocateNode(0), MARKING, 2, MARKING, MARKING))
    assert seen == ("major_state", [SCANNING], MARKING)


def test_a_later_report_of_one_action_is_not_a_step_back(judge: Judge) -> None:
    seen = mismatch_of(
        judge, step(do.AllocateNode(0), SWEEPING, 4, SWEEPING, MARKING, order="MMMRMR")
    )
    assert seen == ("major_state", [SWEEPING, FINALIZING], MARKING)


def test_an_action_does_not_end_before_where_its_report_stood(judge: Judge) -> None:
    seen = mismatch_of(judge, step(do.AllocateNode(0), SCANNING, 3, SWEEPING, order="MMMR"))
    assert seen == ("state", [SWEEPING, FINALIZING], SCANNING)


@pytest.mark.parametrize("state", [-1, 4, 99])
def test_a_report_names_a_state_that_no_answer_shows(contract: Contract, state: int) -> None:
    judge = judge_of(contract, "reports")
    judge(step(do.CollectMinor(), None, 1, FINALIZING))
    seen = mismatch_of(judge, step(do.CollectMinor(), None, 1, state))
    assert seen == ("major_state", [0, 1, 2, 3], state)
