"""The sampling oracle's arithmetic, under every sampling rule that a contract can state."""

from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.oracle import Mismatch
from fuzz.oracles.sampling import SamplingOracle
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    CollectMinor,
    DisableSampling,
    EnableSampling,
    Fork,
    Free,
    PauseSampling,
    ResumeSampling,
    SetCallback,
)
from fuzz.protocol.contract import Contract, SamplingRule
from fuzz.protocol.counting import Contexts
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.run import Run

NODE_BYTES = 32
LIKE_A_NODE = SetCallback(7)
"""A callback whose string takes as many bytes as a node."""


class Judge:
    """A sampling oracle over a shadow heap that follows what it is observation."""

    def __init__(self, contract: Contract, **rule: Any) -> None:
        rules = attrs.evolve(contract.sampling, **rule)
        observes = ("samples", "size", "outside")
        contract = attrs.evolve(contract, sampling=rules, observes=observes)
        self.shadow = Shadow(contract)
        self.oracle = SamplingOracle(contract, self.shadow)

    def follow(self, action: Action, observation: Observation) -> None:
        self.shadow.follow(action, observation.minors)
        self.oracle.check(action, observation, self.oracle.facts)

    def enable(self, period_bytes: int) -> None:
        self.follow(EnableSampling(period_bytes), Observation())

    def node(self, samples: int) -> None:
        self.follow(AllocateNode(0), Observation(samples, size=NODE_BYTES, outside=False))

    def string(self, size: int, samples: int) -> None:
        """A string outside, of `size` bytes."""
        self.follow(AllocateString(size - 25), Observation(samples, size=size, outside=True))

    def collecting(self, order: str) -> None:
        """A node whose allocation collects."""
        observation = Observation(
            order.count("s"), order.count("M"), order, NODE_BYTES, outside=False
        )
        self.follow(AllocateNode(0), observation)


@pytest.fixture
def judge(contract: Contract) -> Judge:
    return Judge(contract)


def mismatch_of(judge: Judge, action: Action, **fields: Any) -> Mismatch:
    with pytest.raises(Mismatch, match=r"^sampling: ") as raised:
        judge.follow(action, Observation(**fields))
    return raised.value


# When a sample is due.


def test_nothing_is_sampled_while_sampling_is_off(judge: Judge) -> None:
    judge.node(samples=0)
    mismatch = mismatch_of(judge, AllocateNode(0), samples=1, size=32, outside=False)
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
    judge = Judge(contract, **rule)
    judge.enable(period_bytes)
    for each in samples:
        judge.node(each)
    assert judge.oracle.facts.bytes_until_sample() == left_bytes


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
    judge = Judge(contract, **rule)
    judge.enable(period_bytes)
    judge.string(size_bytes, samples)
    assert judge.oracle.facts.bytes_until_sample() == left_bytes


def test_a_minor_collection_does_not_change_the_count(judge: Judge) -> None:
    judge.enable(40)
    judge.node(samples=0)
    judge.follow(CollectMinor(), Observation(minors=1))
    judge.node(samples=1)


def test_enabling_again_restarts_the_count(judge: Judge) -> None:
    judge.enable(40)
    judge.node(samples=0)
    judge.enable(40)
    judge.node(samples=0)


@pytest.mark.parametrize("report", [False, True])
def test_nothing_is_sampled_after_disabling(judge: Judge, report: bool) -> None:
    judge.enable(8)
    judge.follow(DisableSampling(report), Observation(minors=int(report)))
    judge.node(samples=0)


def test_an_action_that_allocates_nothing_is_not_sampled(judge: Judge) -> None:
    judge.enable(8)
    judge.node(samples=3)
    assert mismatch_of(judge, Free(0), samples=1).field == "samples"


@pytest.mark.parametrize("action", [PauseSampling(), Fork()], ids=str)
def test_nothing_is_sampled_after_pausing_or_forking(judge: Judge, action: Action) -> None:
    judge.enable(8)
    judge.follow(action, Observation())
    judge.node(samples=0)


def test_resuming_restarts_the_count_with_the_paused_period(judge: Judge) -> None:
    judge.enable(40)
    judge.node(samples=0)
    judge.follow(PauseSampling(), Observation())
    judge.follow(ResumeSampling(), Observation())
    judge.node(samples=0)
    judge.node(samples=1)


def test_resuming_what_was_not_paused_leaves_the_count_as_it_was(judge: Judge) -> None:
    judge.enable(40)
    judge.node(samples=0)
    judge.follow(ResumeSampling(), Observation())
    judge.node(samples=1)


@pytest.mark.parametrize("action", [DisableSampling(), Fork()], ids=str)
def test_what_was_disabled_is_not_resumed(judge: Judge, action: Action) -> None:
    judge.enable(8)
    judge.follow(PauseSampling(), Observation())
    judge.follow(action, Observation())
    judge.follow(ResumeSampling(), Observation())
    judge.node(samples=0)


def test_a_string_that_is_old_from_the_start_counts_unrounded(judge: Judge) -> None:
    judge.enable(34)
    judge.follow(AllocateOldString(1), Observation(size=26, outside=True))
    assert judge.oracle.facts.bytes_until_sample() == 8
    judge.node(samples=1)


# Callbacks.


def test_a_callback_that_does_not_run_is_not_counted(judge: Judge) -> None:
    judge.enable(64)
    judge.follow(LIKE_A_NODE, Observation())
    judge.node(samples=0)
    judge.node(samples=0)
    judge.node(samples=1)


@pytest.mark.parametrize(
    ("nodes", "order", "callback_samples", "left_bytes"),
    [(1, "Ms", 0, 32), (2, "Ms", 1, 0), (2, "sM", 0, 0)],
    ids=["the object", "the callback's string", "the object, before it is found not to fit"],
)
def test_a_callback_s_string_counts_before_the_object(
    judge: Judge, nodes: int, order: str, callback_samples: int, left_bytes: int
) -> None:
    judge.enable(64)
    judge.follow(LIKE_A_NODE, Observation())
    for _ in range(nodes):
        judge.node(samples=0)
    judge.collecting(order)
    facts = judge.oracle.facts
    assert (facts.callback_samples, facts.bytes_until_sample()) == (callback_samples, left_bytes)


@pytest.mark.parametrize("order", ["M", "Mss", "sMs"])
def test_other_samples_than_those_of_callback_and_object_are_wrong(
    judge: Judge, order: str
) -> None:
    judge.enable(64)
    judge.follow(LIKE_A_NODE, Observation())
    judge.node(samples=0)
    with pytest.raises(Mismatch, match=r"^sampling: samples: expected"):
        judge.collecting(order)


def test_a_callback_takes_no_sample_while_sampling_is_off(judge: Judge) -> None:
    judge.follow(LIKE_A_NODE, Observation())
    judge.collecting("M")
    with pytest.raises(Mismatch, match=r"^sampling: .*sampling was off"):
        judge.collecting("Ms")


def test_a_callback_that_was_taken_away_is_not_counted(judge: Judge) -> None:
    judge.enable(64)
    judge.follow(LIKE_A_NODE, Observation())
    judge.follow(SetCallback(None), Observation())
    judge.node(samples=0)
    judge.collecting("M")
    assert judge.oracle.facts.bytes_until_sample() == 0


def test_a_collection_that_was_asked_for_has_no_callback(judge: Judge) -> None:
    judge.enable(64)
    judge.follow(LIKE_A_NODE, Observation())
    judge.follow(CollectMinor(), Observation(minors=1, order="M"))
    facts = judge.oracle.facts
    assert (facts.nursery_used_bytes, facts.bytes_until_sample()) == (0, 64)


def test_a_callback_lies_in_the_nursery_before_the_object(judge: Judge) -> None:
    judge.follow(LIKE_A_NODE, Observation())
    judge.node(samples=0)
    judge.collecting("M")
    assert judge.oracle.facts.nursery_used_bytes == 2 * NODE_BYTES


def test_a_callback_lies_in_the_nursery_also_if_the_object_lies_outside(judge: Judge) -> None:
    judge.follow(LIKE_A_NODE, Observation())
    judge.follow(AllocateString(275), Observation(minors=1, order="M", size=300, outside=True))
    assert judge.oracle.facts.nursery_used_bytes == NODE_BYTES
    assert not judge.oracle.facts.callback_was_reported


@pytest.mark.parametrize(("nursery_bytes", "used", "collects"), [(64, 64, False), (56, 32, True)])
def test_a_callback_that_leaves_too_little_room_is_collected(
    contract: Contract, nursery_bytes: int, used: int, collects: bool
) -> None:
    judge = Judge(attrs.evolve(contract, nursery_bytes=nursery_bytes))
    judge.follow(LIKE_A_NODE, Observation())
    judge.collecting("MM" if collects else "M")
    assert judge.oracle.facts.nursery_used_bytes == used
    assert judge.oracle.facts.callback_was_reported is collects


TIGHT = {"nursery_bytes": 64, "large_object_bytes": 64}


def test_the_reference_samples_a_callback_and_the_object_between_two_collections(
    reference: Target,
) -> None:
    run = Run(reference, TIGHT)
    for action in (LIKE_A_NODE, EnableSampling(72), AllocateString(31)):
        run.step(action)
    observation = run.step(AllocateString(38))
    # 56 + 32 bytes pass 72 in the callback's string, and 64 more pass 144 in the object.
    assert observation.order == "MsMRs"
    assert run.bench.sampling.bytes_until_sample() == 3 * 72 - (56 + 32 + 64)


def test_the_reference_samples_an_object_before_it_is_found_not_to_fit(reference: Target) -> None:
    run = Run(reference, TIGHT)
    for action in (LIKE_A_NODE, EnableSampling(56), AllocateString(31)):
        run.step(action)
    observation = run.step(AllocateString(38))
    # The object passes 56 and 112 where it does not fit, so that nothing is due in the callback.
    assert observation.order == "ssMM"
    assert run.bench.sampling.bytes_until_sample() == 3 * 56 - (56 + 32 + 64)


# Where the contract does not state how far samples are apart.


@pytest.fixture
def unstated(contract: Contract) -> Judge:
    return Judge(contract, distances="unstated")


@pytest.mark.parametrize("samples", [0, 1, 7])
def test_where_the_distances_are_unstated_an_allocation_takes_any_samples(
    unstated: Judge, samples: int
) -> None:
    unstated.enable(64)
    unstated.node(samples)
    assert unstated.oracle.facts.callback_samples == 0


def test_where_the_distances_are_unstated_nothing_is_sampled_while_sampling_is_off(
    unstated: Judge,
) -> None:
    with pytest.raises(Mismatch, match=r"^sampling: samples: expected 0, got 1"):
        unstated.node(samples=1)


def test_where_the_distances_are_unstated_only_allocations_are_sampled(unstated: Judge) -> None:
    unstated.enable(64)
    unstated.node(samples=0)
    assert mismatch_of(unstated, Free(0), samples=1).expected == 0


def test_where_the_distances_are_unstated_sizes_are_not(unstated: Judge) -> None:
    unstated.enable(64)
    assert mismatch_of(unstated, AllocateNode(0), size=40, outside=False).field == "size"


def test_where_the_distances_are_unstated_the_samples_of_a_callback_are_unknown(
    unstated: Judge,
) -> None:
    unstated.enable(64)
    unstated.follow(LIKE_A_NODE, Observation())
    unstated.collecting("M")
    assert unstated.oracle.facts.callback_samples == 0
    unstated.collecting("Ms")
    assert unstated.oracle.facts.callback_samples is None


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
    judge = Judge(contract, **IN_CONTEXTS)
    judge.follow(EnableSampling(2**30), Observation())
    for thread in (0, 1):
        judge.follow(AllocateNode(0, thread=thread), A_NODE)
    return judge


A_NODE = Observation(size=NODE_BYTES, outside=False)
COLLECTING = attrs.evolve(A_NODE, minors=1)


def rooms(judge: Judge) -> list[int]:
    return list(judge.oracle.facts.room_bytes)


def test_each_thread_allocates_in_a_context_of_its_own(threads: Judge) -> None:
    assert rooms(threads) == [32, 32]
    threads.follow(AllocateNode(0, thread=1), A_NODE)
    assert rooms(threads) == [32, 0]


def test_an_object_outside_lies_in_no_context(threads: Judge) -> None:
    threads.follow(AllocateString(75), Observation(size=100, outside=True))
    assert rooms(threads) == [32, 32]


def test_a_collection_ends_every_threads_context(threads: Judge) -> None:
    threads.follow(CollectMinor(), Observation(minors=1))
    assert rooms(threads) == [0, 0]


def test_a_collection_in_an_allocation_comes_before_the_context_of_its_object(
    threads: Judge,
) -> None:
    threads.follow(AllocateNode(0, thread=1), A_NODE)
    threads.follow(AllocateNode(0, thread=1), COLLECTING)
    assert rooms(threads) == [0, 32]


def test_a_collection_for_an_object_outside_ends_also_its_threads_context(threads: Judge) -> None:
    threads.follow(AllocateString(75), Observation(minors=1, size=100, outside=True))
    assert rooms(threads) == [0, 0]


def test_an_object_that_collects_is_judged_by_what_its_old_context_had_left(
    contract: Contract,
) -> None:
    """The byte that was drawn is the last that the context had left."""
    judge = Judge(contract, **IN_CONTEXTS, first_bytes=(15, 2**30))
    judge.follow(AllocateArray(4), Observation(size=48, outside=False))
    judge.enable(2**30)
    judge.follow(AllocateNode(0), attrs.evolve(COLLECTING, samples=1))
    assert [hit.offset for hit in judge.oracle.facts.hits] == [15]


def test_a_context_of_which_nothing_was_left_cannot_end(threads: Judge) -> None:
    threads.follow(CollectMinor(), Observation(minors=1))
    with pytest.raises(Mismatch, match=r"^sampling: .*ended"):
        threads.follow(AllocateNode(0), attrs.evolve(A_NODE, ended=True))


def test_while_sampling_is_off_contexts_go_on(contract: Contract) -> None:
    judge = Judge(contract, **IN_CONTEXTS)
    judge.node(samples=0)
    assert rooms(judge) == [32, 0]


def test_enabling_leaves_the_contexts_as_they_are(threads: Judge) -> None:
    threads.enable(64)
    assert rooms(threads) == [32, 32]
    # What System.Random(0) draws for a period of 64 bytes after three other distances.
    assert [threads.oracle.facts.bytes_until_sample(thread) for thread in (0, 1)] == [51, 51]


# An object of more samples than a list has room for.


def test_however_many_samples_an_object_takes_they_are_counted(contract: Contract) -> None:
    layout = attrs.evolve(contract.layout, object_bytes_max=2**61)
    judge = Judge(attrs.evolve(contract, layout=layout))
    judge.enable(8)
    judge.string(2**60, samples=2**57 - 1)


def test_however_many_samples_a_callback_takes_they_are_counted(contract: Contract) -> None:
    layout = attrs.evolve(contract.layout, large_object_bytes=2**60, object_bytes_max=2**60)
    judge = Judge(attrs.evolve(contract, layout=layout, nursery_bytes=2**61))
    judge.enable(8)
    judge.follow(SetCallback(2**59 - 25), Observation())
    judge.shadow.follow(AllocateNode(0), minors=1)
    samples = judge.oracle.follow(AllocateNode(0), Observation(minors=1))
    assert samples == (2**59 + NODE_BYTES) // 8 - 1


# What is wrong.


def test_too_few_samples_are_less(judge: Judge) -> None:
    judge.enable(8)
    mismatch = mismatch_of(judge, AllocateNode(0), samples=2, size=32, outside=False)
    assert (mismatch.expected, mismatch.got, mismatch.direction) == (3, 2, "less")


def test_the_message_says_how_many_bytes_were_left_before(judge: Judge) -> None:
    judge.enable(40)
    judge.node(samples=0)
    mismatch = mismatch_of(judge, AllocateNode(0), samples=0, size=32, outside=False)
    assert str(mismatch) == (
        "sampling: samples: expected 1, got 0 (8 bytes were left until the next sample, "
        "the node takes 32, the period is 40: 1 sample expected, at byte 8)"
    )


@pytest.mark.parametrize(
    ("action", "seen", "problem"),
    [
        (AllocateString(1), {"size": 31, "outside": False}, "size: expected 32, got 31"),
        (AllocateString(1), {"size": 40, "outside": False}, "size: expected 32, got 40"),
        (AllocateString(1), {"outside": False}, "size: expected 32, got None"),
        (AllocateNode(0), {"size": 32, "outside": True}, "outside: expected False, got True"),
        (AllocateNode(0), {"size": 32}, "outside: expected False, got None"),
        (
            AllocateNode(0, nonmovable=True),
            {"size": 32, "outside": False},
            "outside: expected True, got False",
        ),
    ],
)
def test_other_costs_than_the_layout_states_are_wrong(
    judge: Judge, action: Action, seen: dict[str, Any], problem: str
) -> None:
    assert str(mismatch_of(judge, action, **seen)).startswith(f"sampling: {problem}")


# What the rules aim with.


def test_the_nursery_used_is_what_was_allocated_in_it(judge: Judge) -> None:
    judge.node(samples=0)
    judge.string(100, samples=0)
    judge.node(samples=0)
    assert judge.oracle.facts.nursery_used_bytes == 2 * NODE_BYTES


def test_a_collection_inside_an_allocation_leaves_that_object_in_the_nursery(judge: Judge) -> None:
    judge.node(samples=0)
    judge.follow(AllocateArray(1), Observation(minors=1, size=24, outside=False))
    assert judge.oracle.facts.nursery_used_bytes == 24


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
    judge = Judge(contract, **rule)
    sizes = [25 + length for length in lengths]
    judge.enable(period_bytes)
    answers = byte_by_byte(attrs.evolve(contract.sampling, **rule), period_bytes, sizes)
    for length, size, samples in zip(lengths, sizes, answers, strict=True):
        nonmovable = AllocateString(length, nonmovable=True)  # Outside nothing is rounded.
        judge.follow(nonmovable, Observation(samples, size=size, outside=True))


# What a target does not show is not judged.


@pytest.mark.parametrize("seen", [Observation(1), Observation(size=7), Observation(outside=True)])
def test_what_the_contract_does_not_observe_is_not_judged(
    contract: Contract, seen: Observation
) -> None:
    contract = attrs.evolve(contract, observes=())
    shadow = Shadow(contract)
    shadow.follow(AllocateNode(0), 0)
    oracle = SamplingOracle(contract, shadow)
    oracle.check(AllocateNode(0), seen, oracle.facts)
