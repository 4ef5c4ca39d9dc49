"""The minors oracle: how many minor collections a collection has that an allocation causes."""

from __future__ import annotations

import attrs
import pytest
from judging import Judge, answer

from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract

SCANNING, MARKING, SWEEPING, FINALIZING = range(4)
NODE = do.AllocateNode(0)
OUTSIDE = do.AllocateNode(0, nonmovable=True)
HALF = do.SetCallback(111)
"""Its string takes 136 bytes of a nursery of 256."""
OTHER_HALF = do.AllocateString(103)
"""128 bytes, which do not fit beside it."""
STEPS_TO_FINALIZING = tuple(
    answer(do.CollectStep(), minors=1, state=state) for state in (MARKING, SWEEPING, FINALIZING)
)


def judge_of(contract: Contract, *observes: str) -> Judge:
    """Pointers are not observed, as where each thread has its own."""
    layout = attrs.evolve(contract.layout, large_object_bytes=256)
    observed = attrs.evolve(contract, observes=("minors", *observes), layout=layout)
    collecting = attrs.evolve(observed, promises=("collections",))
    return Judge(collecting, usual=lambda _: {"state": SCANNING})


@pytest.fixture
def judge(contract: Contract) -> Judge:
    return judge_of(contract, "state")


@pytest.mark.parametrize("collecting", [NODE, OUTSIDE, do.CollectProgress()])
def test_without_steps_there_is_one_minor_collection(judge: Judge, collecting: Action) -> None:
    problem = str(judge.mismatch(answer(collecting, minors=1), answer(collecting, minors=2)))
    assert problem.startswith("minors: minors: expected 1, got 2 (the major collection")


def test_each_step_follows_a_minor_collection(judge: Judge) -> None:
    judge(answer(NODE, minors=3, state=FINALIZING))


def test_marking_may_take_any_number_of_steps(judge: Judge) -> None:
    judge(answer(NODE, minors=3, state=MARKING))


def test_the_last_step_is_one(judge: Judge) -> None:
    judge(*STEPS_TO_FINALIZING, answer(NODE, minors=1))
    mismatch = judge.mismatch(*STEPS_TO_FINALIZING, answer(NODE, minors=3))
    assert str(mismatch).startswith("minors: minors: expected 1, got 3")
    assert " was finalizing" in mismatch.why


def test_a_whole_major_collection_may_be_part_of_an_allocation(judge: Judge) -> None:
    judge(answer(NODE, minors=4))


def test_a_callback_that_runs_twice_collects_once_more(judge: Judge) -> None:
    mismatch = judge.mismatch(HALF, answer(OTHER_HALF, minors=2), answer(OTHER_HALF, minors=3))
    assert str(mismatch).startswith("minors: minors: expected 2, got 3")
    assert "callback's string" in mismatch.why


def test_a_callback_that_leaves_room_does_not_collect(judge: Judge) -> None:
    problem = str(judge.mismatch(HALF, answer(NODE, minors=1), answer(NODE, minors=2)))
    assert problem.startswith("minors: minors: expected 1, got 2")


def test_an_object_outside_needs_no_room_beside_the_string(judge: Judge) -> None:
    judge(HALF, answer(do.AllocateString(103, nonmovable=True), minors=1))


def test_a_callback_that_does_not_run_collects_too_seldom(contract: Contract) -> None:
    """No state is needed to see that."""
    judge = judge_of(contract)
    problem = str(judge.mismatch(HALF, answer(OTHER_HALF, minors=1)))
    assert problem.startswith("minors: minors: expected at least 2, got 1")


def test_steps_that_are_not_shown_may_be_any_number(contract: Contract) -> None:
    judge_of(contract)(answer(NODE, minors=3))
