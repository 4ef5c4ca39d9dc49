"""The sampling oracle's arithmetic, under every sampling rule that a contract can state."""

from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judging import Judge, Step, answer

from fuzz.oracles.sampling import SamplingOracle
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import Contexts
from fuzz.protocol.target import Target
from fuzz.run import Run

NODE_BYTES = 32
LIKE_A_NODE = do.SetCallback(7)
"""A callback whose string takes as many bytes as a node."""


def judge_of(contract: Contract, **rule: Any) -> Judge:
    """The sampling oracle alone, under another rule. A node takes 32 bytes of the nursery."""
    rules = attrs.evolve(contract.sampling, **rule)
    observes = ("samples", "size", "outside")
    return Judge(attrs.evolve(contract, sampling=rules, observes=observes), SamplingOracle, usual)


def usual(action: Action) -> dict[str, Any]:
    return {"size": NODE_BYTES, "outside": False} if isinstance(action, do.AllocateNode) else {}


def node(samples: int) -> Step:
    return answer(do.AllocateNode(0), samples=samples)


def string(size: int, samples: int) -> Step:
    """A string outside, of `size` bytes."""
    return answer(do.AllocateString(size - 25), samples=samples, size=size, outside=True)


def collecting(order: str) -> Step:
    """A node whose allocation collects."""
    samples, minors = order.count("s"), order.count("M")
    return answer(do.AllocateNode(0), samples=samples, minors=minors, order=order)


@pytest.fixture
def judge(contract: Contract) -> Judge:
    return judge_of(contract)


# When a sample is due.


def test_nothing_is_sampled_while_sampling_is_off(judge: Judge) -> None:
    mismatch = judge.mismatch(node(0), node(1))
    assert (mismatch.field, mismatch.direction, mismatch.why) == (
        "samples",
        "more",
        "sampling was off",
    )


ONE = {"samples_per_allocation": "one"}
DROPPED = {"surplus": "dropped"}


@pytest.mark.parametrize(
    ("rule", "period_bytes", "samples", "left_bytes"),
    [
        ({}, 64, [0, 0, 1], 32),
        ({"crosses": "at"}, 64, [0, 1, 0], 32),
        ({}, 40, [0, 1], 40 - 24),
        (DROPPED, 40, [0, 1], 40),
        (DROPPED, 40, [0], 8),
    ],
)
def test_nodes_are_sampled_by_the_period(
    contract: Contract, rule: dict[str, Any], period_bytes: int, samples: list[int], left_bytes: int
) -> None:
    judge = judge_of(contract, **rule)
    judge(do.EnableSampling(period_bytes))
    for each in samples:
        judge(node(each))
    assert judge.state.bytes_until_sample() == left_bytes


@pytest.mark.parametrize(
    ("rule", "period_bytes", "size_bytes", "samples", "left_bytes"),
    [({}, 64, 193, 3, 63), (ONE, 64, 193, 1, 63), ({}, 72, 65, 0, 7)],
    ids=["one for each period", "one at most", "outside nothing is rounded"],
)
def test_a_large_string_is_sampled_by_the_period(  # noqa: PLR0913 - a row of the table
    contract: Contract,
    rule: dict[str, Any],
    period_bytes: int,
    size_bytes: int,
    samples: int,
    left_bytes: int,
) -> None:
    judge = judge_of(contract, **rule)
    judge(do.EnableSampling(period_bytes), string(size_bytes, samples))
    assert judge.state.bytes_until_sample() == left_bytes


def test_a_minor_collection_does_not_change_the_count(judge: Judge) -> None:
    judge(do.EnableSampling(40), node(0), answer(do.CollectMinor(), minors=1), node(1))


def test_enabling_again_restarts_the_count(judge: Judge) -> None:
    judge(do.EnableSampling(40), node(0), do.EnableSampling(40), node(0))


@pytest.mark.parametrize("report", [False, True])
def test_nothing_is_sampled_after_disabling(judge: Judge, report: bool) -> None:
    judge(do.EnableSampling(8), answer(do.DisableSampling(report), minors=int(report)), node(0))


def test_an_action_that_allocates_nothing_is_not_sampled(judge: Judge) -> None:
    assert judge.mismatch(do.EnableSampling(8), node(3), do.Free(0), samples=1).field == "samples"


@pytest.mark.parametrize("action", [do.PauseSampling(), do.Fork()], ids=str)
def test_nothing_is_sampled_after_pausing_or_forking(judge: Judge, action: Action) -> None:
    judge(do.EnableSampling(8), action, node(0))


def test_resuming_restarts_the_count_with_the_paused_period(judge: Judge) -> None:
    judge(do.EnableSampling(40), node(0), do.PauseSampling(), do.ResumeSampling(), node(0), node(1))


def test_resuming_what_was_not_paused_leaves_the_count_as_it_was(judge: Judge) -> None:
    judge(do.EnableSampling(40), node(0), do.ResumeSampling(), node(1))


@pytest.mark.parametrize("action", [do.DisableSampling(), do.Fork()], ids=str)
def test_what_was_disabled_is_not_resumed(judge: Judge, action: Action) -> None:
    judge(do.EnableSampling(8), do.PauseSampling(), action, do.ResumeSampling(), node(0))


def test_a_string_that_is_old_from_the_start_counts_unrounded(judge: Judge) -> None:
    judge(do.EnableSampling(34), answer(do.AllocateOldString(1), size=26, outside=True))
    assert judge.state.bytes_until_sample() == 8
    judge(node(1))


# Callbacks.


def test_a_callback_that_does_not_run_is_not_counted(judge: Judge) -> None:
    judge(do.EnableSampling(64), LIKE_A_NODE, node(0), node(0), node(1))


@pytest.mark.parametrize(
    ("nodes", "order", "callback_samples", "left_bytes"),
    [(1, "Ms", 0, 32), (2, "Ms", 1, 0), (2, "sM", 0, 0)],
    ids=["the object", "the callback's string", "the object, before it is found not to fit"],
)
def test_a_callback_s_string_counts_before_the_object(
    judge: Judge, nodes: int, order: str, callback_samples: int, left_bytes: int
) -> None:
    judge(do.EnableSampling(64), LIKE_A_NODE)
    for _ in range(nodes):
        judge(node(0))
    judge(collecting(order))
    state = judge.state
    assert (state.callback_samples, state.bytes_until_sample()) == (callback_samples, left_bytes)


@pytest.mark.parametrize("order", ["M", "Mss", "sMs"])
def test_other_samples_of_callback_and_object_are_wrong(judge: Judge, order: str) -> None:
    judge(do.EnableSampling(64), LIKE_A_NODE, node(0))
    assert judge.mismatch(collecting(order)).field == "samples"


def test_a_callback_takes_no_sample_while_sampling_is_off(judge: Judge) -> None:
    assert judge.mismatch(LIKE_A_NODE, collecting("M"), collecting("Ms")).why == "sampling was off"


def test_a_callback_that_was_taken_away_is_not_counted(judge: Judge) -> None:
    judge(do.EnableSampling(64), LIKE_A_NODE, do.SetCallback(None), node(0), collecting("M"))
    assert judge.state.bytes_until_sample() == 0


def test_a_collection_that_was_asked_for_has_no_callback(judge: Judge) -> None:
    judge(do.EnableSampling(64), LIKE_A_NODE, answer(do.CollectMinor(), minors=1, order="M"))
    state = judge.state
    assert (state.nursery_used_bytes, state.bytes_until_sample()) == (0, 64)


def test_a_callback_lies_in_the_nursery_before_the_object(judge: Judge) -> None:
    judge(LIKE_A_NODE, node(0), collecting("M"))
    assert judge.state.nursery_used_bytes == 2 * NODE_BYTES


def test_a_callback_lies_in_the_nursery_also_if_the_object_lies_outside(judge: Judge) -> None:
    judge(LIKE_A_NODE, answer(do.AllocateString(275), minors=1, order="M", size=300, outside=True))
    assert judge.state.nursery_used_bytes == NODE_BYTES
    assert not judge.state.callback_was_reported


@pytest.mark.parametrize(("nursery_bytes", "used", "collects"), [(64, 64, False), (56, 32, True)])
def test_a_callback_that_leaves_too_little_room_is_collected(
    contract: Contract, nursery_bytes: int, used: int, collects: bool
) -> None:
    judge = judge_of(attrs.evolve(contract, nursery_bytes=nursery_bytes))
    judge(LIKE_A_NODE, collecting("MM" if collects else "M"))
    assert judge.state.nursery_used_bytes == used
    assert judge.state.callback_was_reported is collects


TIGHT = {"nursery_bytes": 64, "large_object_bytes": 64}


def test_the_reference_samples_a_callback_and_the_object(reference: Target) -> None:
    run = Run(reference, TIGHT)
    for action in (LIKE_A_NODE, do.EnableSampling(72), do.AllocateString(31)):
        run.step(action)
    observation = run.step(do.AllocateString(38))
    # 56 + 32 bytes pass 72 in the callback's string, and 64 more pass 144 in the object.
    assert observation.order == "MsMRs"
    assert run.bench.sampling.bytes_until_sample() == 3 * 72 - (56 + 32 + 64)


def test_the_reference_samples_an_object_before_it_is_found_not_to_fit(reference: Target) -> None:
    run = Run(reference, TIGHT)
    for action in (LIKE_A_NODE, do.EnableSampling(56), do.AllocateString(31)):
        run.step(action)
    observation = run.step(do.AllocateString(38))
    # The object passes 56 and 112 where it does not fit, so that nothing is due in the callback.
    assert observation.order == "ssMM"
    assert run.bench.sampling.bytes_until_sample() == 3 * 56 - (56 + 32 + 64)


# Where the contract does not state how far samples are apart.


@pytest.fixture
def unstated(contract: Contract) -> Judge:
    return judge_of(contract, distances="unstated")


@pytest.mark.parametrize("samples", [0, 1, 7])
def test_unstated_distances_allow_any_samples(unstated: Judge, samples: int) -> None:
    unstated(do.EnableSampling(64), node(samples))
    assert unstated.state.callback_samples == 0


def test_unstated_distances_allow_no_sample_while_sampling_is_off(unstated: Judge) -> None:
    assert str(unstated.mismatch(node(1))).startswith("sampling: samples: expected 0, got 1")


def test_where_the_distances_are_unstated_only_allocations_are_sampled(unstated: Judge) -> None:
    assert unstated.mismatch(do.EnableSampling(64), node(0), do.Free(0), samples=1).expected == 0


def test_where_the_distances_are_unstated_sizes_are_not(unstated: Judge) -> None:
    unstated(do.EnableSampling(64))
    assert unstated.mismatch(do.AllocateNode(0), size=40, outside=False).field == "size"


def test_unstated_distances_leave_a_callbacks_samples_unknown(unstated: Judge) -> None:
    unstated(do.EnableSampling(64), LIKE_A_NODE, collecting("M"))
    assert unstated.state.callback_samples == 0
    unstated(collecting("Ms"))
    assert unstated.state.callback_samples is None


# Threads, and the contexts in which they allocate.

IN_CONTEXTS = {
    "surplus": "dropped",
    "samples_per_allocation": "one",
    "distances": "dotnet_document",
    "counting": Contexts(64),
    "seeds": (0, 0),
}


@pytest.fixture
def threads(contract: Contract) -> Judge:
    """Two threads with contexts of 64 bytes, each of which has allocated a node there."""
    judge = judge_of(contract, **IN_CONTEXTS)
    judge(do.EnableSampling(2**30))
    for thread in (0, 1):
        judge(do.AllocateNode(0, thread=thread))
    return judge


def rooms(judge: Judge) -> list[int]:
    return list(judge.state.free_bytes)


def test_each_thread_allocates_in_a_context_of_its_own(threads: Judge) -> None:
    assert rooms(threads) == [32, 32]
    threads(do.AllocateNode(0, thread=1))
    assert rooms(threads) == [32, 0]


def test_an_object_outside_lies_in_no_context(threads: Judge) -> None:
    threads(do.AllocateString(75), size=100, outside=True)
    assert rooms(threads) == [32, 32]


def test_a_collection_ends_every_threads_context(threads: Judge) -> None:
    threads(do.CollectMinor(), minors=1)
    assert rooms(threads) == [0, 0]


def test_a_collection_comes_before_the_context_of_its_object(threads: Judge) -> None:
    threads(do.AllocateNode(0, thread=1), answer(do.AllocateNode(0, thread=1), minors=1))
    assert rooms(threads) == [0, 32]


def test_a_collection_for_an_object_outside_ends_also_its_threads_context(threads: Judge) -> None:
    threads(do.AllocateString(75), minors=1, size=100, outside=True)
    assert rooms(threads) == [0, 0]


def test_an_object_that_collects_is_judged_by_its_old_context(contract: Contract) -> None:
    """The byte that was drawn is the last that the context had left."""
    judge = judge_of(contract, **IN_CONTEXTS, first_bytes=(15, 2**30))
    judge(answer(do.AllocateArray(4), size=48, outside=False), do.EnableSampling(2**30))
    judge(do.AllocateNode(0), minors=1, samples=1)
    assert [hit.offset for hit in judge.state.hits] == [15]


def test_a_context_of_which_nothing_was_left_cannot_end(threads: Judge) -> None:
    threads(do.CollectMinor(), minors=1)
    assert "ended" in str(threads.mismatch(do.AllocateNode(0), ended=True))


def test_while_sampling_is_off_contexts_go_on(contract: Contract) -> None:
    judge = judge_of(contract, **IN_CONTEXTS)
    judge(node(0))
    assert rooms(judge) == [32, 0]


def test_enabling_leaves_the_contexts_as_they_are(threads: Judge) -> None:
    threads(do.EnableSampling(64))
    assert rooms(threads) == [32, 32]
    # What System.Random(0) draws for a period of 64 bytes after three other distances.
    assert [threads.state.bytes_until_sample(thread) for thread in (0, 1)] == [51, 51]


# An object of more samples than a list has room for.


def test_however_many_samples_an_object_takes_they_are_counted(contract: Contract) -> None:
    layout = attrs.evolve(contract.layout, object_bytes_max=2**61)
    judge = judge_of(attrs.evolve(contract, layout=layout))
    judge(do.EnableSampling(8), string(2**60, samples=2**57 - 1))


def test_however_many_samples_a_callback_takes_they_are_counted(contract: Contract) -> None:
    layout = attrs.evolve(contract.layout, large_object_bytes=2**60, object_bytes_max=2**60)
    judge = judge_of(attrs.evolve(contract, layout=layout, nursery_bytes=2**61))
    judge(do.EnableSampling(8), do.SetCallback(2**59 - 25))
    assert judge.bench.predict(do.AllocateNode(0), minors=1) == (2**59 + NODE_BYTES) // 8 - 1


# What is wrong.


def test_too_few_samples_are_less(judge: Judge) -> None:
    mismatch = judge.mismatch(do.EnableSampling(8), node(2))
    assert (mismatch.expected, mismatch.got, mismatch.direction) == (3, 2, "less")


def test_the_message_says_how_many_bytes_were_left_before(judge: Judge) -> None:
    mismatch = judge.mismatch(do.EnableSampling(40), node(0), node(0))
    assert str(mismatch) == (
        "sampling: samples: expected 1, got 0 (8 bytes were left until the next sample, "
        "the node takes 32, the period is 40: 1 sample expected, at byte 8)"
    )


@pytest.mark.parametrize(
    ("action", "seen", "problem"),
    [
        (do.AllocateString(1), {"size": 31, "outside": False}, "size: expected 32, got 31"),
        (do.AllocateString(1), {"size": 40, "outside": False}, "size: expected 32, got 40"),
        (do.AllocateString(1), {"outside": False}, "size: expected 32, got None"),
        (do.AllocateNode(0), {"size": 32, "outside": True}, "outside: expected False, got True"),
        (do.AllocateNode(0), {"size": 32, "outside": None}, "outside: expected False, got None"),
        (
            do.AllocateNode(0, nonmovable=True),
            {"size": 32, "outside": False},
            "outside: expected True, got False",
        ),
    ],
)
def test_other_costs_than_the_layout_states_are_wrong(
    judge: Judge, action: Action, seen: dict[str, Any], problem: str
) -> None:
    assert str(judge.mismatch(action, **seen)).startswith(f"sampling: {problem}")


# What the rules aim with.


def test_the_nursery_used_is_what_was_allocated_in_it(judge: Judge) -> None:
    judge(node(0), string(100, samples=0), node(0))
    assert judge.state.nursery_used_bytes == 2 * NODE_BYTES


def test_a_collection_inside_an_allocation_leaves_that_object_in_the_nursery(judge: Judge) -> None:
    judge(node(0), answer(do.AllocateArray(1), minors=1, size=24, outside=False))
    assert judge.state.nursery_used_bytes == 24


# By arithmetic, and byte by byte.


def byte_by_byte(rule: SamplingRule, period_bytes: int, sizes: list[int]) -> list[int]:
    """How many samples objects of these sizes take, counting one byte after another."""
    counted, answers = 0, []
    for size in sizes:
        samples = 0
        for _ in range(size):
            counted += 1
            if counted == period_bytes + (rule.crosses == "beyond"):
                samples += 1
                counted -= period_bytes
        if samples and rule.surplus == "dropped":
            counted = 0
        answers.append(min(samples, 1) if rule.samples_per_allocation == "one" else samples)
    return answers


rules = st.fixed_dictionaries(
    {
        "crosses": st.sampled_from(["beyond", "at"]),
        "surplus": st.sampled_from(["carried", "dropped"]),
        "samples_per_allocation": st.sampled_from(["all", "one"]),
    }
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # It never changes.
@given(
    rule=rules, period_bytes=st.integers(1, 200), lengths=st.lists(st.integers(0, 100), max_size=12)
)
def test_the_arithmetic_agrees_with_counting_each_byte(
    contract: Contract, rule: dict[str, Any], period_bytes: int, lengths: list[int]
) -> None:
    judge = judge_of(contract, **rule)
    sizes = [25 + length for length in lengths]
    judge(do.EnableSampling(period_bytes))
    answers = byte_by_byte(attrs.evolve(contract.sampling, **rule), period_bytes, sizes)
    for length, size, samples in zip(lengths, sizes, answers, strict=True):
        nonmovable = do.AllocateString(length, nonmovable=True)  # Outside nothing is rounded.
        judge(nonmovable, samples=samples, size=size, outside=True)


# What a target does not show is not judged.


@pytest.mark.parametrize("seen", [{"samples": 1}, {"size": 7}, {"outside": True}], ids=str)
def test_unobserved_fields_are_not_judged(contract: Contract, seen: dict[str, Any]) -> None:
    Judge(attrs.evolve(contract, observes=()), SamplingOracle)(do.AllocateNode(0), **seen)
