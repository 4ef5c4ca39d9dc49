"""The one loop: steps, failures and their identity, replays, and what a second time answers."""

from collections.abc import Mapping

import attrs
import pytest

from fuzz.actions import (
    Action,
    AllocateNode,
    AllocateString,
    CheckHeap,
    CollectMinor,
    EnableSampling,
    Free,
    TakeIdentity,
)
from fuzz.contract import Contract
from fuzz.observation import Observation
from fuzz.oracles import Bench, Mismatch
from fuzz.probes import ProbeCounter
from fuzz.problems import BadInputError
from fuzz.run import DeterminismMismatch, Failure, Run, check_repetition, replay, run_actions
from fuzz.targets import Target, make_target
from fuzz.trace import VERSION, Header, Trace

BUGGY = "reference+one-sample-per-object"
CULPRITS = (EnableSampling(8), AllocateNode(0))


class Counting:
    """A target that gives every identity but once, whatever is started anew."""

    name = "counting"

    def __init__(self) -> None:
        self._target = make_target("reference")
        self._given = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        observation = self._target.perform(action)
        if isinstance(action, TakeIdentity):
            self._given += 1
            observation.identity = self._given
        return observation


def failure_of(*actions: Action) -> Failure:
    failure = run_actions(make_target(BUGGY), {}, actions)
    assert failure is not None
    return failure


def trace_of(*actions: Action, **config: int) -> Trace:
    return Trace(Header(VERSION, "reference", config), actions)


# Steps.


def test_a_step_returns_what_the_target_said(reference: Target) -> None:
    observation = Run(reference, {}).step(AllocateNode(0))
    assert (observation.size, observation.at) == (32, 0)


def test_a_run_starts_the_target_anew(reference: Target) -> None:
    Run(reference, {}).step(AllocateNode(0))
    assert Run(reference, {}).step(AllocateNode(0)).at == 0


def test_a_run_keeps_its_actions_with_the_culprit_last() -> None:
    run = Run(make_target(BUGGY), {})
    run.step(CULPRITS[0])
    with pytest.raises(Mismatch):
        run.step(CULPRITS[1])
    assert run.actions == [*CULPRITS]


def test_a_walk_tells_the_rules_how_many_objects_there_are(reference: Target) -> None:
    run = Run(reference, {"prebuilt_nodes": 3, "prebuilt_arrays": 2})
    run.step(AllocateNode(0))
    run.step(CheckHeap())
    assert run.situation.objects == 6


def test_a_run_counts_what_it_reaches(reference: Target) -> None:
    probes = ProbeCounter()
    Run(reference, {}, probes).step(EnableSampling(8))
    assert probes.counts["toggled_while_scanning"] == 1


def test_a_step_that_failed_reached_nothing() -> None:
    probes = ProbeCounter()
    run = Run(make_target(BUGGY), {}, probes)
    run.step(CULPRITS[0])
    with pytest.raises(Mismatch):
        run.step(CULPRITS[1])
    assert "sample_in_nursery" not in probes.counts


@pytest.mark.parametrize(
    ("observes", "count"),
    [((), 1), (("samples",), 2), (("samples", "reports"), 3), (("samples", "limit"), 3)],
)
def test_only_the_oracles_judge_that_the_contract_can_serve(
    contract: Contract, observes: tuple[str, ...], count: int
) -> None:
    bench = Bench(attrs.evolve(contract, observes=observes))
    assert len({type(oracle) for oracle in bench.oracles}) == count


# Failures.


def test_a_failure_is_identified_by_oracle_field_culprit_and_direction() -> None:
    assert failure_of(*CULPRITS).identity == ("sampling", "samples", "allocate_node", "less")


def test_failures_after_other_actions_are_the_same() -> None:
    other = failure_of(AllocateString(3), CollectMinor(), EnableSampling(8), AllocateNode(7))
    assert other.identity == failure_of(*CULPRITS).identity


def test_failures_of_another_kind_of_action_are_others() -> None:
    other = failure_of(EnableSampling(8), AllocateString(0))
    assert other.identity != failure_of(*CULPRITS).identity


def test_a_failure_has_the_actions_up_to_the_culprit() -> None:
    assert failure_of(*CULPRITS, CollectMinor()).actions == CULPRITS


def test_a_failure_says_what_its_oracle_said() -> None:
    assert failure_of(*CULPRITS).message == (
        "sampling: samples: expected 3, got 2 (period 8, 8 bytes were left until the next sample)"
    )


@pytest.mark.parametrize(
    ("value", "text"), [(None, "null"), (True, "true"), ("a: b", "a: b"), ([1, 2], "[1, 2]")]
)
def test_a_failure_writes_values_as_a_trace_would(
    reference: Target, value: object, text: str
) -> None:
    run = Run(reference, {})
    run.step(CollectMinor())
    failure = run.failure(Mismatch("field", value, value, "why"))
    assert (failure.expected, failure.got) == (text, text)


def test_a_failure_keeps_its_configuration() -> None:
    failure = run_actions(make_target(BUGGY), {"nursery_bytes": 64}, CULPRITS)
    assert failure is not None
    assert failure.configuration == {"nursery_bytes": 64}


@pytest.mark.parametrize(
    ("expected", "got", "direction"),
    [
        *((1, 2, "more"), (2, 1, "less"), (True, False, "less"), (1, None, "different")),
        *(([1], [2], "different"), (None, "Error: it failed", "Error"), (1, True, "different")),
    ],
)
def test_the_direction_of_a_mismatch(expected: object, got: object, direction: str) -> None:
    assert Mismatch("field", expected, got, "why").direction == direction


# Running actions that a reduction tries.


def test_actions_without_a_failure_have_none(reference: Target) -> None:
    assert run_actions(reference, {}, CULPRITS) is None


def test_an_illegal_action_ends_a_run_without_a_failure() -> None:
    assert run_actions(make_target(BUGGY), {}, (Free(0), *CULPRITS)) is None


# Replays.


def test_a_replay_of_a_correct_target_finds_nothing(reference: Target) -> None:
    assert replay(reference, trace_of(*CULPRITS), "some.jsonl") is None


def test_a_replay_finds_what_a_run_found() -> None:
    failure = replay(make_target(BUGGY), trace_of(*CULPRITS, CollectMinor()), "some.jsonl")
    assert failure == failure_of(*CULPRITS)


def test_a_replay_names_the_line_of_an_illegal_action(reference: Target) -> None:
    with pytest.raises(BadInputError, match=r"^some\.jsonl:3: free: root is 1; there are 1 roots"):
        replay(reference, trace_of(AllocateNode(0), Free(1)), "some.jsonl")


def test_a_replay_names_the_header_if_its_configuration_is_illegal(reference: Target) -> None:
    with pytest.raises(BadInputError, match=r"^some\.jsonl:1: nursery_bytes is 65; it must be"):
        replay(reference, trace_of(nursery_bytes=65), "some.jsonl")


def test_a_replay_starts_under_the_configuration_of_the_header(reference: Target) -> None:
    with pytest.raises(BadInputError, match="there are 0 roots"):
        replay(reference, trace_of(CheckHeap(), Free(0), prebuilt_nodes=8), "some.jsonl")


# A second time.


def repeated(target: Target, *actions: Action) -> tuple[Run, list[Observation]]:
    run = Run(target, {})
    return run, [run.step(action) for action in actions]


def test_a_target_that_answers_the_same_twice_is_deterministic(reference: Target) -> None:
    run, observations = repeated(reference, *CULPRITS, CollectMinor(), TakeIdentity(0))
    check_repetition(reference, run, observations)
    assert len(run.actions) == 4


def test_a_target_that_answers_differently_the_second_time_is_found() -> None:
    target = Counting()
    run, observations = repeated(target, AllocateNode(0), TakeIdentity(0), CollectMinor())
    with pytest.raises(DeterminismMismatch) as raised:
        check_repetition(target, run, observations)
    failure = run.failure(raised.value)
    assert failure.identity == ("determinism", "identity", "take_identity", "more")
    assert failure.actions == (AllocateNode(0), TakeIdentity(0))


def test_the_field_that_differs_is_named_with_both_answers() -> None:
    target = Counting()
    run, observations = repeated(target, AllocateNode(0), TakeIdentity(0))
    with pytest.raises(DeterminismMismatch, match="determinism: identity: expected 1, got 2"):
        check_repetition(target, run, observations)
