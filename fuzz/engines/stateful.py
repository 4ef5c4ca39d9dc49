"""The stateful engine: a Hypothesis RuleBasedStateMachine over the same rules and scenarios.

In a user's test suite, a `SuiteStateMachine` runs with that suite's settings and database. In a
session, `StatefulEngine` runs a `RuleStateMachine` in slices. Each slice has its own seed, and the
engine sets every Hypothesis setting explicitly: Hypothesis loads a derandomised profile in CI,
which would make all slices equal. With a database, the first slice starts with the saved examples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import ClassVar
from unittest import SkipTest
from weakref import WeakKeyDictionary

from hypothesis import HealthCheck, Phase, Verbosity, reject, seed, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase
from hypothesis.errors import Flaky
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from fuzz.cancellation import Cancelled
from fuzz.drawing.draw import (
    NothingLegalError,
    check_beginning,
    draw_action,
    draw_configuration,
    menu_of,
    start_long,
)
from fuzz.drawing.rules import RULES, Rule, rules_for
from fuzz.drawing.situation import Choices
from fuzz.engines.engine import Engine, Slice, rerun_some
from fuzz.engines.random import draw_settled
from fuzz.failure import Failure
from fuzz.oracles import Mismatch
from fuzz.protocol.actions import Action
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, Target, full
from fuzz.reached.probes import ProbeCounter
from fuzz.run import Run

EXAMPLES_PER_SLICE = 8
STEPS = (10, 20, 50, 100, 200, 500, 1000)
"""The lengths of the examples of a slice, in turn."""
LONG_START_SHARE = 4
"""One example in 4 may start as a long trace of the random engine does."""


class HypothesisChoices(Choices):
    """Choices that Hypothesis makes and shrinks, but does not print one by one."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def __repr__(self) -> str:
        return "choices"

    @override
    def below(self, bound: int) -> int:
        return self._draw(st.integers(0, bound - 1))


@st.composite
def _choices(draw: st.DrawFn) -> HypothesisChoices:
    return HypothesisChoices(draw)


class TraceStateMachine(RuleBasedStateMachine):
    """A machine that steps a `Run`. A subclass defines its target and its rules."""

    make_target: Callable[[], Target]
    probes: ProbeCounter | None = None
    trace: Run | None = None
    settled: Mapping[str, int] = MappingProxyType({})
    """The settings that are not drawn for each trace."""
    choices: HypothesisChoices

    def __init__(self) -> None:
        super().__init__()
        self.target = full(self.make_target())

    @initialize(choices=_choices())
    def begin(self, choices: HypothesisChoices) -> None:
        """Start a trace under a configuration of its own."""
        self.choices = choices
        self.trace = self.start(choices)

    def start(self, choices: HypothesisChoices) -> Run:
        """The trace, in which no action was carried out yet."""
        drawn = draw_configuration(self.target.default_contract().settings, choices)
        trace = Run(self.target, {**drawn, **self.settled}, self.probes)
        check_beginning(trace.situation, trace.configuration)
        return trace

    def perform(self, trace: Run, action: Action) -> Observation:
        """One step of the trace. Raises a Mismatch."""
        with self._kept(trace):
            return trace.step(action)

    @override
    def teardown(self) -> None:
        """End the trace, unless it has failed or was cancelled. Raises a Mismatch."""
        trace = self.trace
        if trace is not None and trace.actions and trace.answered == len(trace.actions):
            with self._kept(trace):
                self.end(trace)

    def end(self, trace: Run) -> None:
        """Do what comes after the last action. Raises a Mismatch."""
        trace.finish()

    @contextmanager
    def _kept(self, trace: Run) -> Iterator[None]:
        try:
            yield
        except Mismatch as mismatch:
            self.keep(mismatch, trace.failure(mismatch))
            self.trace = None
            raise

    def keep(self, mismatch: Mismatch, failure: Failure) -> None:
        """Keep a failure for the report."""


class SuiteStateMachine(TraceStateMachine):
    """A machine for a test suite. Its only rule draws as the random engine does.

    With a rule for each action, the statistics of Hypothesis would list every rule that had no
    subjects.
    """

    failures: ClassVar = WeakKeyDictionary[BaseException, Failure]()
    """The raised mismatches, as data."""

    @rule()
    def step(self) -> None:
        """Draw an action and perform it. Raises a Mismatch."""
        trace = self.trace
        assert trace is not None
        with suppress(NothingLegalError):  # The roots may be full and never freed.
            menu = menu_of(rules_for(trace.contract))
            # Shrinking an action must not change how later ones are drawn.
            action = draw_action(trace.situation, menu, self.choices, prefers_new=False)
            self.perform(trace, action)

    @override
    def keep(self, mismatch: Mismatch, failure: Failure) -> None:
        self.failures[mismatch] = failure


SUITE_STEPS = 200
"""With Hypothesis's own default, 50, one seed in eight misses a bug like the README's."""


def suite_settings() -> settings:
    """The user's settings with longer traces, and without shrinking: the reducer is faster."""
    return settings(
        deadline=None,
        suppress_health_check=list(HealthCheck),
        stateful_step_count=SUITE_STEPS,
        phases=[phase for phase in settings().phases if phase not in {Phase.shrink, Phase.explain}],
    )


def found_by(machine: type[SuiteStateMachine], own: settings) -> list[Failure]:
    """Run a machine as a test; returns one failure of each kind that Hypothesis distinguishes."""
    try:
        run_state_machine_as_test(machine, settings=own)
    except Exception as problem:
        raised = filter(machine.failures.__contains__, _leaves(problem))
        if failures := [machine.failures[mismatch] for mismatch in raised]:
            return failures
        raise
    return []


def _leaves(problem: BaseException) -> Iterator[BaseException]:
    """An exception, or all exceptions in a group."""
    if isinstance(problem, BaseExceptionGroup):
        for member in problem.exceptions:
            yield from _leaves(member)
    else:
        yield problem


class RuleStateMachine(TraceStateMachine):
    """A machine with a Hypothesis rule for each of our rules, which are added below."""

    allowed: frozenset[str] = frozenset()
    """The names of the rules that may be drawn after `allowed_after` actions. Hypothesis asks for
    each of them, some more than once a step."""
    allowed_after = -1

    def allows(self, own_rule: Rule) -> bool:
        """Whether that rule may be drawn now."""
        trace = self.trace
        if trace is None:
            return False
        if self.allowed_after != len(trace.actions):
            self.allowed_after = len(trace.actions)
            self.allowed = frozenset(
                each.name for each in rules_for(trace.contract) if each.subjects(trace.situation)
            )
        return own_rule.name in self.allowed

    def take_step(self, own_rule: Rule) -> None:
        """Draw an action from a scenario, or else by that rule. Raises a Mismatch."""
        assert self.trace is not None
        situation = self.trace.situation
        self.perform(self.trace, draw_action(situation, (own_rule,), self.choices))


def _step_of(own_rule: Rule) -> Callable[..., None]:
    def step(self: RuleStateMachine) -> None:
        self.take_step(own_rule)

    step.__name__ = own_rule.name
    allowed = precondition(lambda machine: machine.allows(own_rule))
    return rule()(allowed(step))


for _rule in RULES:
    setattr(RuleStateMachine, _rule.name, _step_of(_rule))


class SessionStateMachine(RuleStateMachine):
    """A machine that counts into `done`, and cancels the slice once its actions are used up.

    After a failure Hypothesis runs the example once more; that run must be the same, and is not
    counted. Each slice has a subclass of its own, since Hypothesis creates the machines itself.
    """

    done: Slice
    actions_max: int
    traces_before: int
    """The number of the trace before the first one. It decides which traces run once more."""
    is_generated: bool
    """Whether the examples are new. Then the first one is the simplest that Hypothesis knows."""

    @override
    def start(self, choices: HypothesisChoices) -> Run:
        trace = super().start(choices)
        # Whatever its length, since a saved example is run again with the most steps.
        if choices.one_in(LONG_START_SHARE):
            start_long(trace.situation, choices)
        return trace

    @override
    def take_step(self, own_rule: Rule) -> None:
        if self.done.actions >= self.actions_max and not self.done.failures:
            raise Cancelled  # Hypothesis would go on with the steps and examples that it has left.
        if self.is_generated and self.done.traces == 1 and self.trace and self.trace.actions:
            reject()  # The simplest example repeats one action, in each slice the same one.
        super().take_step(own_rule)

    @override
    def perform(self, trace: Run, action: Action) -> Observation:
        done = self.done
        if done.failures:
            return super().perform(trace, action)
        done.traces += not trace.actions
        try:
            observation = super().perform(trace, action)
        finally:
            done.actions += trace.answered == len(trace.actions)
        done.samples += observation.samples
        done.minor_collections += observation.minors
        return observation

    @override
    def end(self, trace: Run) -> None:
        if not self.done.failures:
            trace.finish()
            rerun_some(self.target, trace, self.traces_before + self.done.traces)

    @override
    def keep(self, mismatch: Mismatch, failure: Failure) -> None:
        if not self.done.failures:
            self.done.failures.append(failure)


class StatefulEngine(Engine):
    """A slice is a few examples of one length, from a seed of its own."""

    name = "stateful"

    def __init__(
        self,
        target: Target,
        seed_text: str,
        database: str | None = None,
        process_seed: str | None = None,
    ) -> None:
        """Raises OSError or ValueError if there is no such database."""
        self._target = full(target)
        self._seed = seed_text
        self._process_seed = process_seed or seed_text
        self._database = None if database is None else _database_at(database, self._target.name)
        self._has_reused = database is None

    @override
    def run_slice(self, number: int, actions_max: int, probes: ProbeCounter) -> Slice:
        done = Slice()
        machine = _machine_for(self._target)
        machine.probes, machine.done, machine.actions_max = probes, done, actions_max
        machine.traces_before = number * EXAMPLES_PER_SLICE
        settings_of_target = self._target.default_contract().settings
        machine.settled = draw_settled(settings_of_target, self._process_seed, number)
        digest = hashlib.sha256(f"{self._seed}/{number}".encode()).digest()
        seeded = seed(int.from_bytes(digest[:8], "big"))(machine)
        if not self._has_reused:
            self._has_reused = True
            # The examples that were saved with fewer steps are the same with more.
            with suppress(SkipTest):  # There are no saved examples.
                self._run(machine, max(STEPS), Phase.reuse)
        if not done.failures:
            self._run(seeded, STEPS[number % len(STEPS)], Phase.generate)
        return done

    def _run(self, machine: type[SessionStateMachine], steps: int, phase: Phase) -> None:
        own = settings(session_settings(steps), database=self._database, phases=(phase,))
        machine.is_generated = phase is Phase.generate
        try:
            run_state_machine_as_test(machine, settings=own)
        except (Mismatch, Flaky) as problem:
            # Flaky: the target answered differently when Hypothesis ran the example once more, or
            # the work was cancelled where Hypothesis knows that more choices follow.
            is_cancelled = isinstance(problem.__context__, Cancelled)
            assert machine.done.failures or is_cancelled
        except Cancelled:
            pass  # All that was done until then was right.


def session_settings(steps: int) -> settings:
    """All settings that affect what is run. The session reduces failures, so nothing shrinks."""
    return settings(
        max_examples=EXAMPLES_PER_SLICE,
        stateful_step_count=steps,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        backend="hypothesis",
    )


def _database_at(folder: str, target: str) -> ExampleDatabase:
    """The examples of a target, in a folder. Raises OSError or ValueError.

    Hypothesis says nothing if a folder keeps no example, so this function tries to write there.
    """
    if not folder or "://" in folder:
        raise ValueError("it is not a folder")
    path = Path(folder) / target
    path.mkdir(parents=True, exist_ok=True)
    TemporaryFile(dir=path).close()
    return DirectoryBasedExampleDatabase(path)


def _machine_for(target: FullTarget) -> type[SessionStateMachine]:
    """A class of its own for one slice of a session."""

    class SliceStateMachine(SessionStateMachine):
        make_target = staticmethod(lambda: target)

    if "free" not in target.default_contract().actions:
        # The roots of a trace may be full for good, and Hypothesis needs a rule that is allowed.
        # No other machine has this rule: one that is simpler than all others gets in the way.
        is_stuck = precondition(lambda machine: not any(map(machine.allows, RULES)))
        SliceStateMachine.do_nothing = rule()(is_stuck(lambda _: None))
    return SliceStateMachine
