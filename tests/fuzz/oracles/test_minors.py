"""The minors oracle: how many minor collections a collection has that an allocation causes."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from fuzz.oracles import Bench, Mismatch
from fuzz.protocol.actions import (
    Action,
    AllocateNode,
    AllocateString,
    CollectProgress,
    CollectStep,
    SetCallback,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

SCANNING, MARKING, SWEEPING, FINALIZING = range(4)
NODE = AllocateNode(0)
OUTSIDE = AllocateNode(0, nonmovable=True)
HALF = SetCallback(111)
"""Its string takes 136 bytes of a nursery of 256."""
OTHER_HALF = AllocateString(103)
"""128 bytes, which do not fit beside it."""
STEPS_TO_FINALIZING = tuple(
    (CollectStep(), {"minors": 1, "state": state}) for state in (MARKING, SWEEPING, FINALIZING)
)
Step = tuple[Action, dict[str, Any]]


def bench_of(contract: Contract, *observes: str) -> Bench:
    """Pointers are not observed, as where each thread has its own."""
    return Bench(
        attrs.evolve(
            contract,
            observes=("minors", *observes),
            promises=("collections",),
            layout=attrs.evolve(contract.layout, large_object_bytes=256),
        )
    )


@pytest.fixture
def bench(contract: Contract) -> Bench:
    return bench_of(contract, "state")


def judge(bench: Bench, *steps: Step) -> None:
    for action, observed in steps:
        bench.judge(action, Observation(**{"state": SCANNING, **observed}))


@pytest.mark.parametrize("collecting", [NODE, OUTSIDE, CollectProgress()])
def test_a_collection_without_steps_is_one_minor_collection(
    bench: Bench, collecting: Action
) -> None:
    judge(bench, (collecting, {"minors": 1}))
    with pytest.raises(Mismatch, match=r"minors: minors: expected 1, got 2 \(the major collection"):
        judge(bench, (collecting, {"minors": 2}))


def test_each_step_follows_a_minor_collection(bench: Bench) -> None:
    judge(bench, (NODE, {"minors": 3, "state": FINALIZING}))


def test_marking_may_take_any_number_of_steps(bench: Bench) -> None:
    judge(bench, (NODE, {"minors": 3, "state": MARKING}))


def test_the_last_step_is_one(bench: Bench) -> None:
    judge(bench, *STEPS_TO_FINALIZING, (NODE, {"minors": 1}))
    judge(bench, *STEPS_TO_FINALIZING)
    with pytest.raises(Mismatch, match=r"minors: minors: expected 1, got 3 .* was finalizing"):
        judge(bench, (NODE, {"minors": 3}))


def test_a_whole_major_collection_may_be_part_of_an_allocation(bench: Bench) -> None:
    judge(bench, (NODE, {"minors": 4}))


def test_a_callback_that_runs_twice_collects_once_more(bench: Bench) -> None:
    judge(bench, (HALF, {}), (OTHER_HALF, {"minors": 2}))
    with pytest.raises(Mismatch, match=r"minors: minors: expected 2, got 3 .*callback's string"):
        judge(bench, (OTHER_HALF, {"minors": 3}))


def test_a_callback_that_leaves_room_does_not_collect(bench: Bench) -> None:
    judge(bench, (HALF, {}), (NODE, {"minors": 1}))
    with pytest.raises(Mismatch, match=r"minors: minors: expected 1, got 2"):
        judge(bench, (NODE, {"minors": 2}))


def test_an_object_outside_needs_no_room_beside_the_string(bench: Bench) -> None:
    judge(bench, (HALF, {}), (AllocateString(103, nonmovable=True), {"minors": 1}))


def test_a_callback_that_does_not_run_collects_too_seldom(contract: Contract) -> None:
    """No state is needed to see that."""
    bench = bench_of(contract)
    judge(bench, (HALF, {}))
    with pytest.raises(Mismatch, match=r"minors: minors: expected at least 2, got 1"):
        judge(bench, (OTHER_HALF, {"minors": 1}))


def test_steps_that_are_not_shown_may_be_any_number(contract: Contract) -> None:
    judge(bench_of(contract), (NODE, {"minors": 3}))
