"""Both engines: a slice depends on its seed and number alone, stays small, and finds a bug."""

from collections.abc import Callable, Container, Mapping

import pytest

from fuzz.actions import Action, TakeIdentity
from fuzz.contract import Contract
from fuzz.engines.engine import Engine, Slice
from fuzz.engines.machine import MachineEngine
from fuzz.engines.random import REPEATED_SHARE, RandomEngine, RandomSource
from fuzz.observation import Observation
from fuzz.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.targets import Target, make_target

BUGGY = "reference+one-sample-per-object"
FEW = 8
NUMBERS = range(1, 4)  # The random engine runs the slice 0 twice.
MakeEngine = Callable[[Target, str], Engine]
both_engines = pytest.mark.parametrize(
    "make_engine", [RandomEngine, MachineEngine], ids=["random", "machine"]
)


class Recorder:
    """The reference, and what it was asked."""

    name = "recorder"

    def __init__(self) -> None:
        self._target = make_target("reference")
        self.configurations: list[Mapping[str, int]] = []
        self.actions: list[Action] = []
        self.samples = 0
        self.minors = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        if configuration:
            self.configurations.append(configuration)
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        self.actions.append(action)
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


def slice_with_failure(engine: Engine) -> Slice:
    slices = (engine.run_slice(number, 300, ProbeCounter()) for number in range(FEW))
    return next(each for each in slices if each.failures)


@both_engines
def test_the_same_seed_gives_the_same_slices(make_engine: MakeEngine) -> None:
    for number in NUMBERS:
        assert recorded(make_engine, "7", number) == recorded(make_engine, "7", number)


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
    target.actions, target.configurations = [], []
    engine.run_slice(2, 60, ProbeCounter())
    assert (target.configurations, target.actions) == recorded(make_engine, "7", 2)


@both_engines
@pytest.mark.parametrize("actions_max", [1, 5, 23])
def test_a_slice_has_no_more_actions_than_allowed(
    make_engine: MakeEngine, actions_max: int
) -> None:
    target = Recorder()
    done = make_engine(target, "7").run_slice(1, actions_max, ProbeCounter())
    assert done.actions == len(target.actions) <= actions_max


@both_engines
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


# The random engine.


def test_a_slice_of_the_random_engine_is_one_trace(reference: Target) -> None:
    assert RandomEngine(reference, "7").run_slice(1, 60, ProbeCounter()).traces == 1


def test_every_so_many_slices_the_random_engine_runs_one_twice() -> None:
    target = Recorder()
    done = RandomEngine(target, "7").run_slice(REPEATED_SHARE, 60, ProbeCounter())
    assert target.actions == target.actions[: done.actions] * 2


def test_the_random_engine_finds_a_target_that_answers_differently_the_second_time() -> None:
    engine = RandomEngine(Forgetful(), "7")
    slices = (engine.run_slice(REPEATED_SHARE * n, 300, ProbeCounter()) for n in range(FEW))
    failure = next(each.failures[0] for each in slices if each.failures)
    assert failure.identity == ("determinism", "identity", "take_identity", "more")


@pytest.mark.parametrize("bound", [1, 2, 7, 2**40])
def test_random_choices_lie_below_their_bound(bound: int) -> None:
    source = RandomSource("7")
    assert all(0 <= source.below(bound) < bound for _ in range(200))


def test_every_choice_is_made_sometimes() -> None:
    source = RandomSource("7")
    assert {source.below(7) for _ in range(200)} == set(range(7))


# The machine engine.


def test_a_slice_of_the_machine_counts_its_traces() -> None:
    target = Recorder()
    done = MachineEngine(target, "7").run_slice(1, 60, ProbeCounter())
    assert 1 < done.traces <= len(target.configurations)


def test_the_machines_traces_grow_with_the_number_of_the_slice() -> None:
    target = make_target("reference")
    engine = MachineEngine(target, "7")
    short, long = (engine.run_slice(number, 200, ProbeCounter()) for number in (7, 3))
    assert long.actions / long.traces > 2 * short.actions / short.traces
