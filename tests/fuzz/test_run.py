"""The one loop: steps, failures and their identity, replays, and running a trace once more."""

import gc
import tracemalloc
from collections.abc import Mapping, Sequence

import attrs
import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.oracles import RERUN_ORACLES, Bench, Mismatch
from fuzz.problems import BadInputError
from fuzz.protocol.actions import (
    Action,
    AllocateNode,
    AllocateString,
    CheckHeap,
    CollectMinor,
    DisableSampling,
    EnableSampling,
    Free,
    TakeIdentity,
    WriteNumber,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, Target
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.run import RIGHT_GRAPH, Failure, Run, replay, replay_steps, rerun, run_actions, run_again
from fuzz.targets import make_target

BUGGY = "reference+one-sample-per-object"
CULPRITS = (EnableSampling(8), AllocateNode(0))
DETERMINISM = RERUN_ORACLES["determinism"]
TRANSPARENCY = RERUN_ORACLES["transparency"]


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


class Recording(FullTarget):
    """A target that keeps what it was asked."""

    name = "recording"

    def __init__(self) -> None:
        self._target = make_target("reference")
        self.started: list[dict[str, int]] = []
        self.performed: list[Action] = []

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.started.append(dict(configuration))
        self.performed = []
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        self.performed.append(action)
        return self._target.perform(action)


class StartingOnce(FullTarget):
    """A program that answers one header. Later it has its default contract, which is another."""

    name = "starting-once"

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._starts = 0

    def default_contract(self) -> Contract:
        return self._contract

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self._starts += 1
        self.problem_at_start = None if self._starts == 1 else "crash at start"
        layout = attrs.evolve(self._contract.layout, large_object_bytes=32)
        return attrs.evolve(self._contract, layout=layout) if self._starts == 1 else self._contract

    def perform(self, action: Action) -> Observation:
        return Observation(error=self.problem_at_start)


def failure_of(*actions: Action) -> Failure:
    failure = run_actions(make_target(BUGGY), {}, actions)
    assert failure is not None
    return failure


def trace_of(*actions: Action, **config: int) -> Trace:
    return Trace(Header(VERSION, "reference", config), actions)


# Steps.


def test_a_second_run_that_cannot_begin_is_a_failure(contract: Contract) -> None:
    """Also where the first was under another contract than the default one."""
    with_errors = attrs.evolve(contract, observes=("error",))
    failure = run_actions(StartingOnce(with_errors), {}, [DisableSampling()], [DETERMINISM])
    assert failure is not None
    assert failure.got == "crash at start"


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
    [((), 2), (("samples", "reports"), 4), (("samples", "limit"), 3), (("state",), 3)],
)
def test_only_the_oracles_judge_that_the_contract_can_serve(
    contract: Contract, observes: tuple[str, ...], count: int
) -> None:
    bench = Bench(attrs.evolve(contract, observes=observes))
    assert len(bench.oracles) == count


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
        "sampling: samples: expected 3, got 1 (8 bytes were left until the next sample, "
        "the node takes 32, the period is 8: 3 samples expected, at byte 8 and every 8 bytes "
        "after it)"
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
        *(([1], [2], "different"), ("sM", "Ms: no", "different"), (1, True, "different")),
    ],
)
def test_the_direction_of_a_mismatch(expected: object, got: object, direction: str) -> None:
    assert Mismatch("field", expected, got, "why").direction == direction


def test_the_direction_of_an_error_is_its_name() -> None:
    assert Mismatch("error", None, "Error: it failed", "why").direction == "Error"


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


def test_a_replay_finds_in_its_last_step_what_only_a_second_run_shows() -> None:
    trace = trace_of(AllocateNode(0), TakeIdentity(0), CollectMinor())
    steps = [*replay_steps(Counting(), trace, "some.jsonl")]
    failures = [step.failure for step in steps]
    assert [failure and failure.oracle for failure in failures] == [None, None, "determinism"]
    assert failures[2]
    assert failures[2].actions == (AllocateNode(0), TakeIdentity(0))


def test_a_replay_shows_the_heap_after_each_step(reference: Target) -> None:
    steps = replay_steps(reference, trace_of(AllocateNode(0), AllocateNode(1)), "some.jsonl")
    assert [len(step.shadow.roots) for step in steps] == [1, 2]


# Once more.


def run_of(target: Target, *actions: Action, **configuration: int) -> Run:
    run = Run(target, configuration)
    for action in actions:
        run.step(action)
    return run


def test_a_run_keeps_what_the_target_said_of_each_action_but_for_graphs(reference: Target) -> None:
    run = Run(reference, {})
    told = [run.step(action) for action in (AllocateNode(0), CollectMinor())]
    assert [*run.answers] == [told[0], attrs.evolve(told[1], graph=RIGHT_GRAPH)]


def bytes_held(actions: Sequence[Action], keeps_answers: bool) -> int:
    """All that was made meanwhile and is still there when a run has come to its end."""
    tracemalloc.start()
    try:
        run = Run(make_target("reference"), {}, keeps_answers=keeps_answers)
        for action in actions:
            run.step(action)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_a_run_keeps_little_of_each_answer_however_large_the_heap() -> None:
    actions = [*[AllocateNode(0)] * 200, *[CollectMinor(), WriteNumber(0, 7)] * 100]
    bytes_held(actions, keeps_answers=True)  # What is made once is there from now on.
    without, with_answers = (bytes_held(actions, keeps_answers=each) for each in (False, True))
    assert 50 < (with_answers - without) / len(actions) < 150


def test_actions_without_rerun_oracles_keep_nothing_for_a_second_run(
    reference: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Run, "_keep")
    assert run_actions(reference, {}, CULPRITS) is None
    with pytest.raises(AttributeError):
        run_actions(reference, {}, CULPRITS, [DETERMINISM])


def test_a_graph_that_differs_in_the_second_run_is_seen(
    reference: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(reference, AllocateNode(0), CollectMinor())
    perform = reference.perform

    def perform_wrongly(action: Action) -> Observation:
        observation = perform(action)
        return attrs.evolve(observation, graph=observation.graph and [[1, 5]])

    monkeypatch.setattr(reference, "perform", perform_wrongly)
    with pytest.raises(Mismatch, match=r"graph: expected .*, got \[\[1, 5\]\]"):
        rerun(reference, run, DETERMINISM)


def test_a_run_knows_what_the_target_said_of_the_culprit() -> None:
    run = run_of(make_target(BUGGY), CULPRITS[0])
    with pytest.raises(Mismatch):
        run.step(CULPRITS[1])
    assert (run.last.samples, run.answered) == (1, 2)


def test_a_second_run_starts_anew_under_the_configuration_that_its_oracle_wants() -> None:
    target = Recording()
    rerun(target, run_of(target, *CULPRITS, nursery_bytes=64), RERUN_ORACLES["invariance"])
    assert target.started == [{"nursery_bytes": 64}, {"nursery_bytes": 128}]


def test_a_second_run_performs_what_its_oracle_wants_instead_and_leaves_out_the_rest() -> None:
    target = Recording()
    run = run_of(target, *CULPRITS, DisableSampling(report=True))
    rerun(target, run, TRANSPARENCY)
    assert target.performed == [CULPRITS[1], CollectMinor()]


def test_a_trace_of_which_an_oracle_can_say_nothing_is_not_run_once_more() -> None:
    target = Recording()
    rerun(target, run_of(target, AllocateNode(0)), TRANSPARENCY)
    assert len(target.started) == 1


def test_a_target_that_answers_the_same_twice_has_no_failure(reference: Target) -> None:
    run = run_of(reference, *CULPRITS, CollectMinor(), TakeIdentity(0))
    for oracle in RERUN_ORACLES.values():
        rerun(reference, run, oracle)
    assert len(run.actions) == 4


def test_the_action_that_a_second_run_answers_differently_is_the_culprit() -> None:
    target = Counting()
    run = run_of(target, AllocateNode(0), TakeIdentity(0), CollectMinor())
    with pytest.raises(Mismatch) as raised:
        rerun(target, run, DETERMINISM)
    failure = run.failure(raised.value)
    assert failure.identity == ("determinism", "identity", "take_identity", "more")
    assert failure.actions == (AllocateNode(0), TakeIdentity(0))


def test_actions_without_rerun_oracles_run_once() -> None:
    target = Recording()
    assert run_actions(target, {}, CULPRITS) is None
    assert len(target.started) == 1


def test_actions_are_run_once_more_for_each_rerun_oracle() -> None:
    target = Recording()
    assert run_actions(target, {}, CULPRITS, RERUN_ORACLES.values()) is None
    assert len(target.started) == 1 + len(RERUN_ORACLES)


def test_actions_that_fail_are_not_run_once_more() -> None:
    failure = run_actions(make_target(BUGGY), {}, CULPRITS, RERUN_ORACLES.values())
    assert failure == failure_of(*CULPRITS)


def test_an_illegal_action_ends_a_run_without_a_second_one() -> None:
    actions = (AllocateNode(0), TakeIdentity(0), Free(1))
    assert run_actions(Counting(), {}, actions, [DETERMINISM]) is None


def test_what_only_a_second_run_shows_is_a_failure_of_a_run_of_actions() -> None:
    actions = (AllocateNode(0), TakeIdentity(0))
    assert run_actions(Counting(), {}, actions) is None
    failure = run_actions(Counting(), {}, actions, [DETERMINISM])
    assert failure is not None
    assert failure.message == (
        "determinism: node #1: expected identity 1, got identity 2 "
        "(the same actions, a second time)"
    )


def test_a_failure_of_a_first_run_is_seen_again() -> None:
    failure = failure_of(*CULPRITS)
    assert run_again(make_target(BUGGY), failure, failure.configuration, failure.actions) == failure


def test_a_failure_of_a_second_run_is_seen_again_with_its_oracle() -> None:
    target = make_target("reference+sampled-bytes-count-twice")
    actions = (EnableSampling(8), AllocateString(280), AllocateNode(0, nonmovable=True))
    failure = run_actions(target, {}, actions, [RERUN_ORACLES["transparency"]])
    assert failure is not None
    assert run_again(target, failure, {}, actions) == failure


def test_a_failure_of_another_oracle_is_not_seen_in_a_second_run() -> None:
    target = make_target("reference+sampled-bytes-count-twice")
    actions = (EnableSampling(8), AllocateString(280), AllocateNode(0, nonmovable=True))
    assert run_again(target, failure_of(*CULPRITS), {}, actions) is None
