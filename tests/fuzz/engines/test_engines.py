"""Both engines: a slice depends on its seed and number alone, stays small, and finds a bug."""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from fuzz.drawing.situation import ROOTS_MAX
from fuzz.engines.engine import Engine, Slice, rerun_some
from fuzz.engines.random import RandomChoices, RandomEngine
from fuzz.engines.stateful import (
    StatefulEngine,
    SuiteStateMachine,
    TraceStateMachine,
    session_settings,
)
from fuzz.oracles import RERUN_ORACLES
from fuzz.oracles.oracle import Mismatch
from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.reached.probes import ProbeCounter
from fuzz.run import Run, run_actions
from fuzz.sessions.plan import make_engine as make_engine_of
from fuzz.targets import make_target

BUGGY = "reference+one-sample-per-object"
FEW = 8
COMPARABLE_MIN = 5
NUMBERS = range(1, 4)
NEVER = 2**62
STEPS = 20
SAMPLING = (do.EnableSampling, do.DisableSampling, do.PauseSampling, do.ResumeSampling)
MakeEngine = Callable[[Target, str], Engine]
Changed = Callable[..., Any]
"""Makes the reference with changed answers, which keeps its traces."""
both_engines = pytest.mark.parametrize(
    "make_engine",
    [
        pytest.param(RandomEngine, id="random"),
        pytest.param(StatefulEngine, id="stateful", marks=pytest.mark.slow),
    ],
)


def slices_from(
    engine: Engine, numbers: Sequence[int] = NUMBERS, actions_max: int = 100
) -> list[Slice]:
    return [engine.run_slice(number, actions_max, ProbeCounter()) for number in numbers]


def slice_with_failure(
    engine: Engine, numbers: Sequence[int] = range(FEW), actions_max: int = 300
) -> Slice:
    slices = (engine.run_slice(number, actions_max, ProbeCounter()) for number in numbers)
    return next(each for each in slices if each.failures)


@pytest.fixture
def drawn(changed_reference: Changed) -> Callable[..., list[object]]:
    """The configurations and actions of some slices, each of at most 60 actions."""

    def run(make_engine: MakeEngine, seed: str, *numbers: int) -> list[object]:
        target = changed_reference()
        engine, traces = make_engine(target, seed), list[object]()
        for number in numbers:
            target.configurations, target.traces = [], []
            engine.run_slice(number, 60, ProbeCounter())
            traces.append((target.configurations, target.traces))
        return traces

    return run


@pytest.fixture
def without_reruns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trace but the first runs once more."""
    for oracle in RERUN_ORACLES.values():
        monkeypatch.setattr(type(oracle), "share", NEVER)


@both_engines
def test_a_slice_follows_from_its_seed_and_number(
    make_engine: MakeEngine, drawn: Callable[..., list[object]]
) -> None:
    slices = drawn(make_engine, "7", *NUMBERS)
    assert slices == [drawn(make_engine, "7", number)[0] for number in NUMBERS]
    others = drawn(make_engine, "8", *NUMBERS)
    assert not [each for each in slices if slices.count(each) > 1 or each in others]


@both_engines
@pytest.mark.usefixtures("without_reruns")
@pytest.mark.parametrize("actions_max", [1, 5, 23])
def test_a_slice_has_no_more_actions_than_allowed(
    make_engine: MakeEngine, actions_max: int, changed_reference: Changed
) -> None:
    target = changed_reference()
    [done] = slices_from(make_engine(target, "7"), [1], actions_max)
    assert done.actions == len(target.observations) <= actions_max


@both_engines
@pytest.mark.usefixtures("without_reruns")
def test_a_slice_counts_its_samples(make_engine: MakeEngine, changed_reference: Changed) -> None:
    target = changed_reference()
    # Slices of so few actions seldom sample: with seed 7, none of the first three does.
    slices = slices_from(make_engine(target, "7"), range(1, FEW))
    samples = sum(each.samples for each in target.observations)
    minors = sum(each.minors for each in target.observations)
    assert sum(each.samples for each in slices) == samples > 0
    assert sum(each.minor_collections for each in slices) == minors > 0


@both_engines
def test_a_slice_counts_its_reached_probes(make_engine: MakeEngine, reference: Target) -> None:
    probes = ProbeCounter()
    engine = make_engine(reference, "7")
    for number in NUMBERS:
        engine.run_slice(number, 100, probes)
    assert probes.counts["toggled_while_scanning"] > 0


@both_engines
def test_the_reference_does_not_fail(make_engine: MakeEngine, reference: Target) -> None:
    slices = slices_from(make_engine(reference, "7"))
    assert [each.failures for each in slices] == [[]] * len(slices)


@both_engines
def test_a_bug_is_found_within_a_few_slices_and_ends_its_slice(make_engine: MakeEngine) -> None:
    target = make_target(BUGGY)
    [failure] = slice_with_failure(make_engine(target, "7")).failures
    assert (failure.oracle, failure.field) == ("sampling", "samples")
    assert run_actions(target, failure.configuration, failure.actions) == failure


@both_engines
@pytest.mark.parametrize(
    "wrong", [[30], range(30, 10**6, 5), [30, 31]], ids=["once", "sooner again", "at once again"]
)
def test_a_failure_that_does_not_happen_again_is_found(
    make_engine: MakeEngine, wrong: Container[int], changed_reference: Changed
) -> None:
    def fail(action: Action, observation: Observation) -> None:
        if len(target.observations) + 1 in wrong:
            observation.error = "Passing: it will not happen here again"

    target = changed_reference(fail)
    done = slice_with_failure(make_engine(target, "7"))
    assert done.failures[0].got == "Passing: it will not happen here again"


# A second run of a trace.


@pytest.fixture
def rerun_traces(
    changed_reference: Changed,
) -> Callable[[int], list[tuple[Mapping[str, int], list[Action]]]]:
    """The second runs of a trace of three actions, by its number."""

    def run(number: int) -> list[tuple[Mapping[str, int], list[Action]]]:
        target = changed_reference()
        trace = Run(target, {"nursery_bytes": 256})
        for action in UNCHANGED[1]:
            trace.step(action)
        rerun_some(target, trace, number)
        return list(zip(target.configurations, target.traces, strict=True))[1:]

    return run


WITHOUT_SAMPLING = ({"nursery_bytes": 256}, [do.AllocateNode(0), do.CollectMinor()])
UNCHANGED = (
    {"nursery_bytes": 256},
    [do.EnableSampling(64), do.AllocateNode(0), do.DisableSampling(report=True)],
)
LARGER_NURSERY = ({"nursery_bytes": 512}, UNCHANGED[1])


@pytest.mark.parametrize(
    ("second_run", "share"), [(WITHOUT_SAMPLING, 8), (LARGER_NURSERY, 16), (UNCHANGED, 32)]
)
def test_a_share_of_the_traces_runs_once_more(
    second_run: object, share: int, rerun_traces: Callable[[int], list[object]]
) -> None:
    numbers = [number for number in range(1, 65) if second_run in rerun_traces(number)]
    assert numbers == list(range(share, 65, share))


def test_no_other_trace_runs_once_more(rerun_traces: Callable[[int], list[object]]) -> None:
    assert [number for number in range(1, 65) if number % 8 and rerun_traces(number)] == []


def comparable(trace: list[Action]) -> list[Action]:
    """The actions without sampling, and without the collections that may stand for its end."""
    return [action for action in trace if not isinstance(action, (*SAMPLING, do.CollectMinor))]


def test_a_slice_of_the_random_engine_is_repeated_by_number(changed_reference: Changed) -> None:
    target = changed_reference()
    slices_from(RandomEngine(target, "7"), [8], 60)
    first, second = target.traces
    assert any(isinstance(action, SAMPLING) for action in first)
    assert comparable(first) == comparable(second)


@pytest.mark.slow
def test_the_stateful_engine_repeats_traces_without_sampling(changed_reference: Changed) -> None:
    target = changed_reference()
    for number in range(4):
        slices_from(StatefulEngine(target, "7"), [number], NEVER)
    assert any(
        comparable(first) == comparable(second)
        for first, second in pairwise(target.traces)
        if len(comparable(first)) > COMPARABLE_MIN
        and any(isinstance(each, SAMPLING) for each in first)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_engine", "numbers"),
    [(RandomEngine, range(0, 32 * FEW, 32)), (StatefulEngine, range(3, 4 * FEW, 4))],
    ids=["random", "stateful"],
)
def test_a_target_that_answers_differently_the_second_time_is_found(
    make_engine: MakeEngine, numbers: Sequence[int], changed_reference: Changed
) -> None:
    def never_again(action: Action, observation: Observation) -> None:
        if isinstance(action, do.TakeIdentity) and observation.identity:
            observation.identity += 1000 * len(target.traces)

    target = changed_reference(never_again)
    failure = slice_with_failure(make_engine(target, "7"), numbers, NEVER).failures[0]
    assert failure.identity == ("determinism", "identity", "take_identity", "more")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_engine", "numbers"),
    [(RandomEngine, range(0, 1600, 8)), (StatefulEngine, range(100))],
    ids=["random", "stateful"],
)
def test_a_second_run_alone_shows_a_bug(make_engine: MakeEngine, numbers: Sequence[int]) -> None:
    engine = make_engine(make_target("reference+sampled-bytes-count-twice"), "7")
    done = slice_with_failure(engine, numbers, NEVER)
    assert [failure.oracle for failure in done.failures] == ["transparency"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_engine", "number"), [(RandomEngine, 32), (StatefulEngine, 3)], ids=["random", "stateful"]
)
def test_a_failure_that_a_second_run_shows_ends_its_slice(
    make_engine: MakeEngine, number: int, changed_reference: Changed
) -> None:
    """The target reports a profile, which no trace asks for, by the number of its trace."""

    def waver(action: Action, observation: Observation) -> None:
        observation.profile = [len(target.traces) % 2]

    target = changed_reference(waver)
    [done] = slices_from(make_engine(target, "7"), [number], 1000)
    assert [failure.oracle for failure in done.failures] == ["determinism"]
    assert len(target.traces) == 2 or make_engine is StatefulEngine


# A contract that leaves little, or nothing, to draw.


@both_engines
def test_a_trace_ends_where_nothing_is_legal_any_more(
    make_engine: MakeEngine, changed_reference: Changed
) -> None:
    target = changed_reference(only=["allocate_node"])
    [done] = slices_from(make_engine(target, "7"), [3], NEVER)
    assert done.failures == []
    assert max(map(len, target.traces)) == ROOTS_MAX


@both_engines
@pytest.mark.parametrize("actions", [(), ("free",)], ids=["nothing", "free"])
def test_a_contract_under_which_no_trace_can_start_is_bad_input(
    make_engine: MakeEngine, actions: tuple[str, ...], changed_reference: Changed
) -> None:
    with pytest.raises(BadInputError, match="no action that is legal here"):
        slices_from(make_engine(changed_reference(only=actions), "7"), [1], NEVER)


# The number of traces.


def test_a_slice_of_the_random_engine_is_one_trace(reference: Target) -> None:
    assert slices_from(RandomEngine(reference, "7"), [1])[0].traces == 1


def test_a_slice_of_the_stateful_engine_counts_its_traces(changed_reference: Changed) -> None:
    target = changed_reference()
    [done] = slices_from(StatefulEngine(target, "7"), [1], 60)
    assert 1 < done.traces <= len(target.traces)


@pytest.mark.slow
def test_the_traces_of_the_stateful_engine_grow_with_the_number_of_the_slice() -> None:
    short, long = slices_from(StatefulEngine(make_target("reference"), "7"), (7, 3), 200)
    assert long.actions / long.traces > 2 * short.actions / short.traces


@pytest.mark.parametrize("bound", [1, 2, 7, 2**40])
def test_random_choices_lie_below_their_bound(bound: int) -> None:
    choices = {RandomChoices(str(seed)).below(bound) for seed in range(200)}
    assert min(choices) >= 0
    assert max(choices) < bound
    assert len(choices) == min(bound, 200)


def test_one_in_some_is_the_last_choice_below() -> None:
    sources = RandomChoices("7"), RandomChoices("7")
    assert all(sources[0].one_in(3) == (sources[1].below(3) == 2) for _ in range(200))


# The state machine and scenarios.


def run_machine(machine: type[TraceStateMachine], *phases: Phase, number: int = 3) -> None:
    """In this process, without a database. The number gives the same run each time.

    That is, while the same modules are loaded: Hypothesis draws their constants, too.
    """
    own = settings(session_settings(STEPS), max_examples=30, phases=phases)
    run_state_machine_as_test(seed(number)(machine), settings=own)


Watched = tuple[Run, list[bool]]


def watched(is_wrong: Callable[[Action], bool]) -> tuple[type[TraceStateMachine], list[Watched]]:
    """A machine that fails at such an action, and its traces with what came from a scenario."""
    traces: list[Watched] = []

    class WatchedMachine(SuiteStateMachine):
        make_target = staticmethod(lambda: make_target("reference"))

        def perform(self, trace: Run, action: Action) -> Observation:
            if not trace.actions:
                traces.append((trace, []))
            traces[-1][1].append(trace.situation.scenario is not None)
            observation = super().perform(trace, action)
            if is_wrong(action):
                raise Mismatch("heap", "error", None, "wrong", "the test says so")
            return observation

    return WatchedMachine, traces


@pytest.mark.slow
def test_the_state_machine_draws_from_scenarios_and_by_rules() -> None:
    machine, traces = watched(lambda action: False)
    run_machine(machine, Phase.generate)
    assert {*chain.from_iterable(in_scenario for _, in_scenario in traces)} == {True, False}


@pytest.mark.night
@pytest.mark.parametrize("shrunk", [do.AllocateNode(0), do.EnableSampling(8)], ids=str)
def test_hypothesis_mostly_shrinks_a_scenario_to_the_action_that_fails(shrunk: Action) -> None:
    last: list[list[Action]] = []
    for number in range(10):
        machine, traces = watched(lambda action: isinstance(action, type(shrunk)))
        with pytest.raises(Mismatch, match=r"^heap: "):
            run_machine(machine, Phase.generate, Phase.shrink, number=number)
        if any(len(in_scenario) > 1 and in_scenario[-1] for _, in_scenario in traces):
            last.append(traces[-1][0].actions)
    assert last.count([shrunk]) >= 5


# A database of examples.


def test_an_engine_runs_a_failure_first_that_another_engine_has_saved(tmp_path: Path) -> None:
    def slices(seed: str) -> Iterator[Slice]:
        engine = make_engine_of("stateful", make_target(BUGGY), seed, str(tmp_path))
        return (engine.run_slice(number, NEVER, ProbeCounter()) for number in range(100))

    [found] = next(done.failures for done in slices("7") if done.failures)
    first = next(slices("8"))
    [again] = first.failures
    assert (again.identity, again.actions, first.traces) == (found.identity, found.actions, 1)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("taken", "Not a directory"),
        ("taken/below", "Not a directory"),
        ("/dev/null", "Not a directory"),
        ("''", "it is not a folder"),
        ("s3://bucket", "it is not a folder"),
        ("redis://host", "it is not a folder"),
    ],
)
def test_a_database_that_keeps_no_example_is_bad_input(
    place: str, why: str, empty_folder: Path
) -> None:
    (empty_folder / "taken").touch()
    message = re.escape(f"--database {place}: cannot keep examples: {why}; name a folder ")
    with pytest.raises(BadInputError, match=f"^{message}"):
        make_engine_of("stateful", make_target("reference"), "7", place.strip("'"))


@pytest.mark.slow
def test_an_empty_database_changes_nothing(tmp_path: Path, changed_reference: Changed) -> None:
    alone, sharing = changed_reference(), changed_reference()
    for target, database in ((alone, None), (sharing, str(tmp_path))):
        make_engine_of("stateful", target, "7", database).run_slice(0, 60, ProbeCounter())
    assert alone.traces == sharing.traces
