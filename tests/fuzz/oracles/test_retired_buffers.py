"""The clock that counts retired buffers, and the oracle that adds weights up."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.oracles.counting import clocks_of
from fuzz.oracles.counting.clock import Clock
from fuzz.oracles.counting.expected import Request
from fuzz.oracles.oracle import Mismatch
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range, SamplingRule
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.counting import RetiredBuffers
from fuzz.protocol.layout import KindLayout, Layout
from fuzz.protocol.observation import Observation

PERIOD, BIRTH = 100, 8
WAY = RetiredBuffers(
    desired_bytes=108,
    least_bytes=16,
    reserve_bytes=8,
    waste_bytes=16,
    waste_increment_bytes=8,
    birth_bytes=BIRTH,
)
LAYOUT = Layout(
    kinds={"node": KindLayout(1, 32), "string": KindLayout(2, 16, 1)},
    large_object_bytes=2**20,
    word_bytes=8,
    object_bytes_max=2**15,
    nonmovable="ignored",
)
CONTRACT = Contract(
    nursery_bytes=2**20,
    layout=LAYOUT,
    actions=("allocate_node", "allocate_string", "enable_sampling", "disable_sampling"),
    observes=("samples", "weights", "minors"),
    sampling=SamplingRule(
        period_bytes=Range(PERIOD, PERIOD),
        crosses="at",
        surplus="dropped",
        samples_per_allocation="one",
        weights="since",
        disabling=("drop",),
        counting=WAY,
    ),
)


def clock_of(**changes: Any) -> Clock[Any]:
    rule = attrs.evolve(CONTRACT.sampling, counting=attrs.evolve(WAY, **changes))
    [clock] = clocks_of(attrs.evolve(CONTRACT, sampling=rule))
    return clock


def weights(clock: Clock[Any], *sizes: int, is_on: bool = True) -> list[int]:
    """The weights of allocations of these sizes; 0 for one that is not sampled."""
    period_bytes = PERIOD if is_on else None
    each = (
        clock.allocated(Request(size, False, "node", period_bytes), Observation()) for size in sizes
    )
    return [hits[0].weight if hits else 0 for hits in each]


def test_the_contract_has_no_problem() -> None:
    assert [*problems_of(CONTRACT)] == []


def test_the_object_that_begins_a_buffer_has_the_bytes_before_it() -> None:
    assert weights(clock_of(), 40, 60, 40, 40) == [BIRTH, 0, 0, 140]


def test_without_bytes_before_it_is_no_sample() -> None:
    assert weights(clock_of(birth_bytes=0), 40) == [0]


def test_an_object_outside_is_a_sample_if_the_bytes_reach_the_period() -> None:
    assert weights(clock_of(), 16, 120, 90, 10) == [BIRTH, 120, 0, 0]


def test_the_limit_grows_with_each_object_outside() -> None:
    assert weights(clock_of(), 16, 76, 90, 90)[2:] == [0, 182]


def test_bytes_count_while_sampling_is_off() -> None:
    clock = clock_of()
    assert weights(clock, 40, 60, 40, is_on=False) == [0, 0, 0]
    assert weights(clock, 100) == [BIRTH + 140]


@pytest.mark.parametrize(("counts", "weight"), [("rest", 140), ("all", BIRTH + 140)])
def test_enabling_may_count_all_bytes_again(counts: str, weight: int) -> None:
    clock = clock_of(enabling_counts=counts)
    weights(clock, 40, 60, 40)
    clock.start(PERIOD)
    assert weights(clock, 100) == [weight]


def test_a_collection_retires_the_buffer_and_is_no_sample() -> None:
    clock = clock_of()
    weights(clock, 40)
    clock.collected(1, PERIOD)
    assert weights(clock, 16) == [40]


def test_a_new_thread_counts_its_birth_alone() -> None:
    clock = clock_of()
    weights(clock, 40, 60)
    clock.begin_thread(None, PERIOD)
    assert weights(clock, 16) == [BIRTH]


def test_the_size_of_a_buffer_may_be_reported() -> None:
    clock = clock_of(sizes="reported")
    request = Request(40, False, "node", PERIOD)
    clock.allocated(request, Observation(buffer=64))
    assert clock.free_bytes == 24


# Weights that add up.


def sums(own_bytes: int = 0) -> Judge:
    rule = SamplingRule(
        period_bytes=Range(PERIOD, PERIOD),
        samples_per_allocation="one",
        weights="sums",
        own_bytes=own_bytes,
        disabling=("drop",),
        distances="unstated",
        seeds=(0, 0),
    )
    names = (*CONTRACT.actions, "end_thread", "begin_thread")
    contract = attrs.evolve(CONTRACT, sampling=rule, actions=names)
    assert [*problems_of(contract)] == []
    return Judge(contract)


NODE, STRING = do.AllocateNode(1), do.AllocateString(16)
"""Both have 32 bytes."""


def weighing(action: Action, *weights: int) -> Step:
    return answer(action, samples=len(weights), weights=[*weights])


@pytest.mark.parametrize(("weight", "own_bytes"), [(32, 0), (33, 0), (33, 1), (34, 1)])
def test_a_thread_stands_for_what_it_allocated_while_on(weight: int, own_bytes: int) -> None:
    judge = sums(own_bytes)
    judge(NODE, do.EnableSampling(PERIOD))
    is_wrong = weight > 32 + own_bytes
    with pytest.raises(Mismatch, match="thread_weights") if is_wrong else nullcontext():
        judge(weighing(NODE, weight))


def test_bytes_while_off_are_not_the_threads() -> None:
    judge = sums()
    judge(do.EnableSampling(PERIOD), NODE, do.DisableSampling(), NODE, do.EnableSampling(PERIOD))
    assert "at most 64, got 96" in str(judge.mismatch(weighing(NODE, 96)))


def test_a_new_thread_does_not_stand_for_the_one_before() -> None:
    judge = sums()
    judge(do.EnableSampling(PERIOD), NODE.by(1), do.EndThread(thread=1))
    judge(do.BeginThread(thread=1), minors=1)
    assert "at most 32, got 64" in str(judge.mismatch(weighing(NODE.by(1), 64)))


@pytest.mark.parametrize("rounds", [75, 90])
def test_the_weights_of_a_kind_add_up_to_its_bytes_as_far_as_chance_allows(rounds: int) -> None:
    """Strings have half of the bytes, and nodes all weights: 32 n against sqrt(20.35 n) 64."""
    judge = sums()
    judge(do.EnableSampling(PERIOD))
    with pytest.raises(Mismatch, match="kind_weights") if rounds > 82 else nullcontext():
        for _ in range(rounds):
            judge(STRING, weighing(NODE, 64))


def test_each_sample_has_a_weight() -> None:
    judge = sums()
    judge(do.EnableSampling(PERIOD))
    assert "each sample has a weight" in str(judge.mismatch(NODE, samples=1))
