"""The one loop: steps, failures and their identity, replays, and second runs of a trace."""

import gc
import tracemalloc
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest

from fuzz import run as run_module
from fuzz.failure import Failure
from fuzz.oracles import RERUN_ORACLES, Bench, Mismatch
from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, Target
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.reached.probes import ProbeCounter
from fuzz.replay import replay, replay_steps
from fuzz.run import RIGHT_GRAPH, Run, rerun, run_actions, run_again
from fuzz.targets import make_target

BUGGY = "reference+one-sample-per-object"
FAILING = (do.EnableSampling(8), do.AllocateNode(0))
TWICE_COUNTED = (do.EnableSampling(8), do.AllocateString(280), do.AllocateNode(0, nonmovable=True))
"""A second run without sampling shows the bug sampled-bytes-count-twice."""
DETERMINISM = RERUN_ORACLES["determinism"]
TRANSPARENCY = RERUN_ORACLES["transparency"]
Changed = Callable[..., Any]
"""Makes the reference with changed answers, which keeps its traces."""


@pytest.fixture
def counting(changed_reference: Changed) -> FullTarget:
    """A target that never gives an identity twice, also in another trace."""
    given = iter(range(1, 1000))

    def count(action: Action, observation: Observation) -> None:
        if isinstance(action, do.TakeIdentity):
            observation.identity = next(given)

    target: FullTarget = changed_reference(count)
    return target


class StartingOnce(FullTarget):
    """A program that starts only once. Later it has its default contract, which is another."""

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


def test_a_second_run_that_cannot_start_is_a_failure(contract: Contract) -> None:
    """Also if the first run was under another contract than the default one."""
    with_errors = attrs.evolve(contract, observes=("error",))
    failure = run_actions(StartingOnce(with_errors), {}, [do.DisableSampling()], [DETERMINISM])
    assert failure is not None
    assert failure.got == "crash at start"


def test_a_step_returns_the_observation_of_a_heap_that_starts_empty(reference: Target) -> None:
    for _ in range(2):
        observation = Run(reference, {}).step(do.AllocateNode(0))
        assert (observation.size, observation.at) == (32, 0)


def test_a_failed_step_is_the_last_one_of_its_run_and_reaches_no_probe() -> None:
    run = Run(make_target(BUGGY), {}, probes := ProbeCounter())
    run.step(FAILING[0])
    with pytest.raises(Mismatch):
        run.step(FAILING[1])
    assert run.actions == [*FAILING]
    assert (run.last.samples, run.answered) == (1, 2)
    assert (probes.counts["toggled_while_scanning"], probes.counts["sample_in_nursery"]) == (1, 0)


def test_a_walk_counts_the_objects_for_the_rules(reference: Target) -> None:
    run = Run(reference, {"prebuilt_nodes": 3, "prebuilt_arrays": 2})
    run.step(do.AllocateNode(0))
    run.step(do.CheckHeap())
    assert run.situation.objects == 6


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


def test_a_failure_ends_with_the_first_wrong_answer_and_describes_it() -> None:
    configuration = {"nursery_bytes": 64}
    failure = run_actions(make_target(BUGGY), configuration, [*FAILING, do.CollectMinor()])
    assert failure is not None
    assert (failure.configuration, failure.actions) == (configuration, FAILING)
    assert failure.identity == ("sampling", "samples", "allocate_node", "less")
    assert failure.message == (
        "sampling: samples: expected 3, got 1 (8 bytes were left until the next sample, "
        "the node takes 32, the period is 8: 3 samples expected, at byte 8 and every 8 bytes "
        "after it)"
    )


@pytest.mark.parametrize(
    ("actions", "is_same"),
    [
        ((do.AllocateString(3), do.CollectMinor(), do.EnableSampling(8), do.AllocateNode(7)), True),
        ((do.EnableSampling(8), do.AllocateString(0)), False),
    ],
)
def test_one_kind_of_action_fails_the_same_way(actions: tuple[Action, ...], is_same: bool) -> None:
    assert (failure_of(*actions).identity == failure_of(*FAILING).identity) is is_same


@pytest.mark.parametrize(
    ("value", "text"), [(None, "null"), (True, "true"), ("a: b", "a: b"), ([1, 2], "[1, 2]")]
)
def test_a_failure_writes_values_like_a_trace(reference: Target, value: object, text: str) -> None:
    run = Run(reference, {})
    run.step(do.CollectMinor())
    failure = run.failure(Mismatch("heap", "field", value, value, "why"))
    assert (failure.expected, failure.got) == (text, text)


@pytest.mark.parametrize(
    ("field", "expected", "got", "direction"),
    [
        *(("field", 1, 2, "more"), ("field", 2, 1, "less"), ("field", True, False, "less")),
        *(("field", 1, None, "different"), ("field", [1], [2], "different")),
        *(("field", "sM", "Ms: no", "different"), ("field", 1, True, "different")),
        ("error", None, "Error: it failed", "Error"),
    ],
)
def test_the_direction_of_a_mismatch(
    field: str, expected: object, got: object, direction: str
) -> None:
    assert Mismatch("heap", field, expected, got, "why").direction == direction


# Replays.


def test_a_replay_finds_what_a_run_found(reference: Target) -> None:
    trace = trace_of(*FAILING, do.CollectMinor())
    assert replay(reference, trace, "some.jsonl") is None
    assert replay(make_target(BUGGY), trace, "some.jsonl") == failure_of(*FAILING)


@pytest.mark.parametrize(
    ("actions", "config", "problem"),
    [
        ((do.AllocateNode(0), do.Free(1)), {}, "3: free: root is 1; there are 1 roots"),
        ((), {"nursery_bytes": 65}, "1: nursery_bytes is 65; it must be"),
        (
            (do.CheckHeap(), do.Free(0)),
            {"prebuilt_nodes": 8},
            "3: free: root is 0; there are 0 roots",
        ),
    ],
)
def test_a_replay_names_the_line_of_what_is_illegal(
    reference: Target, actions: tuple[Action, ...], config: dict[str, int], problem: str
) -> None:
    with pytest.raises(BadInputError, match=rf"^some\.jsonl:{problem}"):
        replay(reference, trace_of(*actions, **config), "some.jsonl")


def test_a_replay_finds_in_its_last_step_what_only_a_second_run_shows(counting: FullTarget) -> None:
    trace = trace_of(do.AllocateNode(0), do.TakeIdentity(0), do.CollectMinor())
    steps = [*replay_steps(counting, trace, "some.jsonl")]
    failures = [step.failure for step in steps]
    assert [failure and failure.oracle for failure in failures] == [None, None, "determinism"]
    assert failures[2]
    assert failures[2].actions == (do.AllocateNode(0), do.TakeIdentity(0))


def test_a_replay_shows_the_heap_after_each_step(reference: Target) -> None:
    steps = replay_steps(reference, trace_of(do.AllocateNode(0), do.AllocateNode(1)), "some.jsonl")
    assert [len(step.shadow.roots) for step in steps] == [1, 2]


# Second runs.


def run_of(target: Target, *actions: Action, **configuration: int) -> Run:
    run = Run(target, configuration)
    for action in actions:
        run.step(action)
    return run


def test_a_run_keeps_the_answers_but_not_right_graphs(reference: Target) -> None:
    run = Run(reference, {})
    seen = [run.step(action) for action in (do.AllocateNode(0), do.CollectMinor())]
    assert [*run.answers] == [seen[0], attrs.evolve(seen[1], graph=RIGHT_GRAPH)]


def bytes_held(actions: Sequence[Action], keeps_answers: bool) -> int:
    """What a run allocates in its own module, alive at its end. Other threads allocate, too."""
    tracemalloc.start()
    try:
        run = Run(make_target("reference"), {}, keeps_answers=keeps_answers)
        for action in actions:
            run.step(action)
        own = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, run_module.__file__)]
        )
        return sum(trace.size for trace in own.traces)
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_run_keeps_little_of_each_answer_however_large_the_heap() -> None:
    actions = [*[do.AllocateNode(0)] * 200, *[do.CollectMinor(), do.WriteNumber(0, 7)] * 100]
    without, with_answers = (bytes_held(actions, keeps_answers=each) for each in (False, True))
    assert 50 < (with_answers - without) / len(actions) < 150


def test_actions_without_rerun_oracles_keep_nothing_for_a_second_run(
    reference: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Run, "_keep")
    assert run_actions(reference, {}, FAILING) is None
    with pytest.raises(AttributeError):
        run_actions(reference, {}, FAILING, [DETERMINISM])


def test_a_graph_that_differs_in_the_second_run_is_seen(changed_reference: Changed) -> None:
    def change(action: Action, observation: Observation) -> None:
        if len(target.traces) == 2 and observation.graph:
            observation.graph = [[1, 5]]

    target = changed_reference(change)
    run = run_of(target, do.AllocateNode(0), do.CollectMinor())
    with pytest.raises(Mismatch, match=r"graph: expected .*, got \[\[1, 5\]\]"):
        rerun(target, run, DETERMINISM)


def test_a_second_run_has_the_configuration_of_its_oracle(changed_reference: Changed) -> None:
    target = changed_reference()
    rerun(target, run_of(target, *FAILING, nursery_bytes=64), RERUN_ORACLES["invariance"])
    assert target.configurations == [{"nursery_bytes": 64}, {"nursery_bytes": 128}]


def test_a_second_run_has_the_actions_of_its_oracle(changed_reference: Changed) -> None:
    target = changed_reference()
    rerun(target, run_of(target, *FAILING, do.DisableSampling(report=True)), TRANSPARENCY)
    assert target.traces[1:] == [[FAILING[1], do.CollectMinor()]]


def test_a_trace_that_an_oracle_cannot_judge_has_no_second_run(changed_reference: Changed) -> None:
    target = changed_reference()
    rerun(target, run_of(target, do.AllocateNode(0)), TRANSPARENCY)
    assert len(target.traces) == 1


def test_a_second_run_s_first_difference_ends_the_failure(counting: FullTarget) -> None:
    run = run_of(counting, do.AllocateNode(0), do.TakeIdentity(0), do.CollectMinor())
    with pytest.raises(Mismatch) as raised:
        rerun(counting, run, DETERMINISM)
    failure = run.failure(raised.value)
    assert failure.identity == ("determinism", "identity", "take_identity", "more")
    assert failure.actions == (do.AllocateNode(0), do.TakeIdentity(0))


# Runs of actions that a reduction tries.


def test_an_illegal_action_ends_a_run_without_a_failure(counting: FullTarget) -> None:
    assert run_actions(make_target(BUGGY), {}, (do.Free(0), *FAILING)) is None
    actions = (do.AllocateNode(0), do.TakeIdentity(0), do.Free(1))
    assert run_actions(counting, {}, actions, [DETERMINISM]) is None


OF_ANY_TIER = [oracle for name, oracle in RERUN_ORACLES.items() if name != "tiers"]


@pytest.mark.parametrize("oracles", [[], OF_ANY_TIER], ids=len)
def test_each_rerun_oracle_runs_them_again(changed_reference: Changed, oracles: list[Any]) -> None:
    target = changed_reference()
    assert (
        run_actions(target, {}, (*FAILING, do.CollectMinor(), do.TakeIdentity(0)), oracles) is None
    )
    assert len(target.traces) == 1 + len(oracles)


def test_actions_that_fail_do_not_run_once_more() -> None:
    failure = run_actions(make_target(BUGGY), {}, FAILING, RERUN_ORACLES.values())
    assert failure == failure_of(*FAILING)


def test_only_a_second_run_shows_that_a_target_answers_differently(counting: FullTarget) -> None:
    actions = (do.AllocateNode(0), do.TakeIdentity(0))
    assert run_actions(counting, {}, actions) is None
    failure = run_actions(counting, {}, actions, [DETERMINISM])
    assert failure is not None
    assert failure.message == (
        "determinism: node #1: expected identity 2, got identity 3 "
        "(the same actions, a second time)"
    )


def test_a_failure_is_seen_again_with_its_own_oracle() -> None:
    first, twice = failure_of(*FAILING), make_target("reference+sampled-bytes-count-twice")
    assert run_again(make_target(BUGGY), first, first.configuration, first.actions) == first
    second = run_actions(twice, {}, TWICE_COUNTED, [TRANSPARENCY])
    assert second is not None
    assert run_again(twice, second, {}, TWICE_COUNTED) == second
    assert run_again(twice, first, {}, TWICE_COUNTED) is None


def test_the_state_of_a_trace_is_freed_without_a_search_for_cycles() -> None:
    """A session searches rarely, and would keep the state of hundreds of traces."""
    run = Run(make_target("reference"), {})
    run.step(do.AllocateNode(0))
    shadow = weakref.ref(run.bench.shadow)
    gc.disable()
    try:
        del run
        assert shadow() is None
    finally:
        gc.enable()
