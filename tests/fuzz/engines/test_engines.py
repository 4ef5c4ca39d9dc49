"""Both engines: a slice depends on its seed and number alone, stays small, and finds a bug."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from fuzz.drawing.probes import ProbeCounter
from fuzz.drawing.rules import ROOTS_MAX
from fuzz.engines.engine import Engine, Slice, rerun_some
from fuzz.engines.random import RandomChoices, RandomEngine
from fuzz.engines.stateful import StatefulEngine, SuiteStateMachine, TraceStateMachine
from fuzz.oracles import RERUN_ORACLES
from fuzz.oracles.oracle import Mismatch
from fuzz.problems import BadInputError
from fuzz.protocol.actions import (
    Action,
    AllocateNode,
    CollectMinor,
    DisableSampling,
    EnableSampling,
    PauseSampling,
    ResumeSampling,
    TakeIdentity,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, Target
from fuzz.run import Run, run_actions
from fuzz.sessions.plan import make_engine
from fuzz.targets import make_target

BUGGY = "reference+one-sample-per-object"
FEW = 8
ACTIONS_TOLD_APART = 5
NUMBERS = range(1, 4)
NEVER = 2**62
STEPS = 20
SAMPLING = (EnableSampling, DisableSampling, PauseSampling, ResumeSampling)
MakeEngine = Callable[[Target, str], Engine]
both_engines = pytest.mark.parametrize(
    "make_engine",
    [
        pytest.param(RandomEngine, id="random"),
        pytest.param(StatefulEngine, id="stateful", marks=pytest.mark.slow),
    ],
)


class Recorder(FullTarget):
    """The reference, and what it was asked."""

    name = "recorder"

    def __init__(self) -> None:
        self._target = make_target("reference")
        self.configurations: list[Mapping[str, int]] = []
        self.traces: list[list[Action]] = []
        self.samples = 0
        self.minors = 0

    @property
    def actions(self) -> list[Action]:
        """Those of all traces."""
        return list(chain.from_iterable(self.traces))

    def start(self, configuration: Mapping[str, int]) -> Contract:
        if configuration:
            self.configurations.append(configuration)
            self.traces.append([])
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        self.traces[-1].append(action)
        observation = self._target.perform(action)
        self.samples += observation.samples
        self.minors += observation.minors
        return observation


class Forgetful:
    """The reference, but no identity is ever given again, not even in another trace."""

    name = "forgetful"

    def __init__(self) -> None:
        self._target = make_target("reference")
        self._traces = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self._traces += 1
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        observation = self._target.perform(action)
        if isinstance(action, TakeIdentity) and observation.identity:
            observation.identity += 1000 * self._traces
        return observation


class Wavering:
    """The reference, but what nobody asked for depends on how often it was started."""

    name = "wavering"

    def __init__(self) -> None:
        self._target = make_target("reference")
        self.starts = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.starts += bool(configuration)
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        observation = self._target.perform(action)
        observation.profile = [self.starts % 2]
        return observation


class Passing:
    """The reference, but some of its answers, of all that it ever gives, are errors."""

    name = "passing"

    def __init__(self, wrong: Container[int]) -> None:
        self._target = make_target("reference")
        self._wrong = wrong
        self._answers = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        observation = self._target.perform(action)
        self._answers += 1
        if self._answers in self._wrong:
            observation.error = "Passing: it will not happen here again"
        return observation


def recorded(make_engine: MakeEngine, seed: str, number: int) -> tuple[object, ...]:
    """What a slice of at most 60 actions asked of its target."""
    target = Recorder()
    make_engine(target, seed).run_slice(number, 60, ProbeCounter())
    return target.configurations, target.actions


def slice_with_failure(
    engine: Engine, numbers: Sequence[int] = range(FEW), actions_max: int = 300
) -> Slice:
    slices = (engine.run_slice(number, actions_max, ProbeCounter()) for number in numbers)
    return next(each for each in slices if each.failures)


@pytest.fixture
def without_reruns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trace but the first is run once more."""
    for oracle in RERUN_ORACLES.values():
        monkeypatch.setattr(type(oracle), "share", NEVER)


@both_engines
def test_the_same_seed_gives_the_same_slices(make_engine: MakeEngine) -> None:
    for number in NUMBERS:
        assert recorded(make_engine, "7", number) == recorded(make_engine, "7", number)


@pytest.mark.slow
@both_engines
def test_another_seed_gives_other_slices(make_engine: MakeEngine) -> None:
    for number in NUMBERS:
        assert recorded(make_engine, "7", number) != recorded(make_engine, "8", number)


@both_engines
def test_another_number_gives_another_slice(make_engine: MakeEngine) -> None:
    assert recorded(make_engine, "7", 1) != recorded(make_engine, "7", 2)


@both_engines
def test_a_slice_does_not_depend_on_those_before_it(make_engine: MakeEngine) -> None:
    target = Recorder()
    engine = make_engine(target, "7")
    engine.run_slice(1, 60, ProbeCounter())
    target.traces, target.configurations = [], []
    engine.run_slice(2, 60, ProbeCounter())
    assert (target.configurations, target.actions) == recorded(make_engine, "7", 2)


@both_engines
@pytest.mark.usefixtures("without_reruns")
@pytest.mark.parametrize("actions_max", [1, 5, 23])
def test_a_slice_has_no_more_actions_than_allowed(
    make_engine: MakeEngine, actions_max: int
) -> None:
    target = Recorder()
    done = make_engine(target, "7").run_slice(1, actions_max, ProbeCounter())
    assert done.actions == len(target.actions) <= actions_max


@both_engines
@pytest.mark.usefixtures("without_reruns")
def test_a_slice_counts_its_samples_and_minor_collections(make_engine: MakeEngine) -> None:
    target = Recorder()
    engine = make_engine(target, "7")
    slices = [engine.run_slice(number, 100, ProbeCounter()) for number in NUMBERS]
    assert sum(each.samples for each in slices) == target.samples > 0
    assert sum(each.minor_collections for each in slices) == target.minors > 0


@both_engines
def test_a_slice_counts_what_it_reaches(make_engine: MakeEngine, reference: Target) -> None:
    probes = ProbeCounter()
    engine = make_engine(reference, "7")
    for number in NUMBERS:
        engine.run_slice(number, 100, probes)
    assert probes.counts["toggled_while_scanning"] > 0


@both_engines
def test_the_reference_does_not_fail(make_engine: MakeEngine, reference: Target) -> None:
    engine = make_engine(reference, "7")
    slices = [engine.run_slice(number, 100, ProbeCounter()) for number in NUMBERS]
    assert [each.failures for each in slices] == [[]] * len(slices)


@both_engines
def test_a_bug_is_found_within_a_few_slices(make_engine: MakeEngine) -> None:
    failure = slice_with_failure(make_engine(make_target(BUGGY), "7")).failures[0]
    assert (failure.oracle, failure.field) == ("sampling", "samples")


@both_engines
def test_a_failure_that_was_found_fails_again(make_engine: MakeEngine) -> None:
    target = make_target(BUGGY)
    failure = slice_with_failure(make_engine(target, "7")).failures[0]
    assert run_actions(target, failure.configuration, failure.actions) == failure


@both_engines
def test_a_failure_ends_its_slice(make_engine: MakeEngine) -> None:
    done = slice_with_failure(make_engine(make_target(BUGGY), "7"))
    assert len(done.failures) == 1


@both_engines
@pytest.mark.parametrize(
    "wrong", [[30], range(30, 10**6, 5), [30, 31]], ids=["once", "sooner again", "at once again"]
)
def test_a_failure_that_does_not_happen_again_is_found_all_the_same(
    make_engine: MakeEngine, wrong: Container[int]
) -> None:
    done = slice_with_failure(make_engine(Passing(wrong), "7"))
    assert done.failures[0].got == "Passing: it will not happen here again"


# Running a trace once more.


def rerun_traces(number: int) -> list[tuple[Mapping[str, int], list[Action]]]:
    """With what and how a trace of three actions is run once more if it has that number."""
    target = Recorder()
    run = Run(target, {"nursery_bytes": 256})
    for action in (EnableSampling(64), AllocateNode(0), DisableSampling(report=True)):
        run.step(action)
    rerun_some(target, run, number)
    return list(zip(target.configurations, target.traces, strict=True))[1:]


WITHOUT_SAMPLING = ({"nursery_bytes": 256}, [AllocateNode(0), CollectMinor()])
UNCHANGED = (
    {"nursery_bytes": 256},
    [EnableSampling(64), AllocateNode(0), DisableSampling(report=True)],
)
LARGER_NURSERY = ({"nursery_bytes": 512}, UNCHANGED[1])


def test_every_eighth_trace_is_run_once_more_without_sampling() -> None:
    numbers = [number for number in range(1, 65) if WITHOUT_SAMPLING in rerun_traces(number)]
    assert numbers == list(range(8, 65, 8))


def test_every_sixteenth_trace_is_run_once_more_with_a_larger_nursery() -> None:
    numbers = [number for number in range(1, 65) if LARGER_NURSERY in rerun_traces(number)]
    assert numbers == [16, 32, 48, 64]


def test_every_thirty_second_trace_is_run_once_more_unchanged() -> None:
    numbers = [number for number in range(1, 65) if UNCHANGED in rerun_traces(number)]
    assert numbers == [32, 64]


def test_no_other_trace_is_run_once_more() -> None:
    assert [number for number in range(1, 65) if number % 8 and rerun_traces(number)] == []


def test_a_slice_of_the_random_engine_is_run_once_more_by_its_number() -> None:
    target = Recorder()
    RandomEngine(target, "7").run_slice(8, 60, ProbeCounter())
    first, second = target.traces
    assert any(isinstance(action, SAMPLING) for action in first)
    assert comparable(first) == comparable(second)


def comparable(trace: list[Action]) -> list[Action]:
    """What stays without sampling, but for the collections that may stand for its end."""
    return [action for action in trace if not isinstance(action, (*SAMPLING, CollectMinor))]


@pytest.mark.slow
def test_the_machine_runs_some_traces_once_more_without_sampling() -> None:
    target = Recorder()
    for number in range(4):
        StatefulEngine(target, "7").run_slice(number, NEVER, ProbeCounter())
    assert any(
        comparable(first) == comparable(second)
        for first, second in pairwise(target.traces)
        if len(comparable(first)) > ACTIONS_TOLD_APART
        and any(isinstance(each, SAMPLING) for each in first)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_engine", "numbers"),
    [(RandomEngine, range(0, 32 * FEW, 32)), (StatefulEngine, range(3, 4 * FEW, 4))],
    ids=["random", "stateful"],
)
def test_a_target_that_answers_differently_the_second_time_is_found(
    make_engine: MakeEngine, numbers: Sequence[int]
) -> None:
    failure = slice_with_failure(make_engine(Forgetful(), "7"), numbers, NEVER).failures[0]
    assert failure.identity == ("determinism", "identity", "take_identity", "more")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_engine", "numbers"),
    [(RandomEngine, range(0, 1600, 8)), (StatefulEngine, range(100))],
    ids=["random", "stateful"],
)
def test_a_bug_that_only_a_second_run_shows_is_found(
    make_engine: MakeEngine, numbers: Sequence[int]
) -> None:
    engine = make_engine(make_target("reference+sampled-bytes-count-twice"), "7")
    done = slice_with_failure(engine, numbers, NEVER)
    assert [failure.oracle for failure in done.failures] == ["transparency"]


@pytest.mark.parametrize(
    ("make_engine", "number"), [(RandomEngine, 32), (StatefulEngine, 3)], ids=["random", "stateful"]
)
def test_a_failure_that_a_second_run_shows_is_the_slice_s_only_one(
    make_engine: MakeEngine, number: int
) -> None:
    done = make_engine(Wavering(), "7").run_slice(number, 1000, ProbeCounter())
    assert [failure.oracle for failure in done.failures] == ["determinism"]


def test_a_failure_that_a_second_run_shows_ends_the_random_engine_s_slice() -> None:
    target = Wavering()
    RandomEngine(target, "7").run_slice(32, 1000, ProbeCounter())
    assert target.starts == 2


# A contract that leaves little, or nothing, to draw.


class Poor(Recorder):
    """A recorder that carries out few actions."""

    def __init__(self, *actions: str) -> None:
        super().__init__()
        self._actions = actions

    def start(self, configuration: Mapping[str, int]) -> Contract:
        return attrs.evolve(super().start(configuration), actions=self._actions)


@both_engines
def test_a_trace_ends_where_nothing_is_legal_any_more(make_engine: MakeEngine) -> None:
    target = Poor("allocate_node")
    done = make_engine(target, "7").run_slice(3, NEVER, ProbeCounter())
    assert done.failures == []
    assert max(map(len, target.traces)) == ROOTS_MAX


@both_engines
@pytest.mark.parametrize("actions", [(), ("free",)], ids=["nothing", "free"])
def test_a_contract_under_which_no_trace_can_begin_is_bad_input(
    make_engine: MakeEngine, actions: tuple[str, ...]
) -> None:
    with pytest.raises(BadInputError, match="no action that is legal here"):
        make_engine(Poor(*actions), "7").run_slice(1, NEVER, ProbeCounter())


# The random engine.


def test_a_slice_of_the_random_engine_is_one_trace(reference: Target) -> None:
    assert RandomEngine(reference, "7").run_slice(1, 60, ProbeCounter()).traces == 1


@pytest.mark.parametrize("bound", [1, 2, 7, 2**40])
def test_random_choices_lie_below_their_bound(bound: int) -> None:
    source = RandomChoices("7")
    assert all(0 <= source.below(bound) < bound for _ in range(200))


def test_every_choice_is_made_sometimes() -> None:
    source = RandomChoices("7")
    assert {source.below(7) for _ in range(200)} == set(range(7))


# The stateful engine.


def test_a_slice_of_the_machine_counts_its_traces() -> None:
    target = Recorder()
    done = StatefulEngine(target, "7").run_slice(1, 60, ProbeCounter())
    assert 1 < done.traces <= len(target.configurations)


@pytest.mark.slow
def test_the_machines_traces_grow_with_the_number_of_the_slice() -> None:
    target = make_target("reference")
    engine = StatefulEngine(target, "7")
    short, long = (engine.run_slice(number, 200, ProbeCounter()) for number in (7, 3))
    assert long.actions / long.traces > 2 * short.actions / short.traces


# The machine and scenarios.


def run_machine(machine: type[TraceStateMachine], *phases: Phase) -> None:
    """In this process, without a database, and the same each time."""
    run_state_machine_as_test(
        seed(1)(machine),
        settings=settings(
            max_examples=30,
            stateful_step_count=STEPS,
            phases=phases,
            database=None,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        ),
    )


Watched = tuple[Run, list[bool]]


def watched(is_wrong: Callable[[Action], bool]) -> tuple[type[TraceStateMachine], list[Watched]]:
    """A machine that fails at such an action, and its traces: for each action, if in a story."""
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


def test_the_machine_draws_from_scenarios_and_by_rules() -> None:
    machine, traces = watched(lambda action: False)
    run_machine(machine, Phase.generate)
    assert {each for _, in_story in traces for each in in_story} == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "shrunk"),
    [
        pytest.param(AllocateNode, [AllocateNode(0)], marks=pytest.mark.slow, id="node"),
        pytest.param(EnableSampling, [EnableSampling(8)], id="sampling"),
    ],
)
def test_hypothesis_shrinks_a_scenario_to_the_action_that_fails(
    kind: type[Action], shrunk: list[Action]
) -> None:
    machine, traces = watched(lambda action: isinstance(action, kind))
    with pytest.raises(Mismatch, match=r"^heap: "):
        run_machine(machine, Phase.generate, Phase.shrink)
    assert any(len(in_story) > 1 and in_story[-1] for _, in_story in traces)
    last, _ = traces[-1]
    assert last.actions == shrunk


# A database of examples.


def test_what_one_engine_found_another_runs_first(tmp_path: Path) -> None:
    def slices(seed: str) -> Iterator[Slice]:
        engine = make_engine("stateful", make_target(BUGGY), seed, str(tmp_path))
        return (engine.run_slice(number, NEVER, ProbeCounter()) for number in range(100))

    [found] = next(done.failures for done in slices("7") if done.failures)
    first = next(slices("8"))
    [again] = first.failures
    assert (again.identity, again.actions, first.traces) == (found.identity, found.actions, 1)


@pytest.mark.slow
def test_an_engine_that_shares_examples_and_has_none_draws_as_without(tmp_path: Path) -> None:
    recorders = Recorder(), Recorder()
    for recorder, database in zip(recorders, (None, str(tmp_path)), strict=True):
        make_engine("stateful", recorder, "7", database).run_slice(0, 60, ProbeCounter())
    alone, sharing = recorders
    assert alone.traces == sharing.traces
