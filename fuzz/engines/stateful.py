"""The stateful engine: a Hypothesis RuleBasedStateMachine over the same rules and scenarios.

In a user's test suite, a `SuiteStateMachine` runs with that suite's settings and database. In a
session, `StatefulEngine` runs a `RuleStateMachine` in slices. Each slice has its own seed, and the
engine sets every Hypothesis setting explicitly: Hypothesis loads a derandomised profile in CI,
which would make all slices equal. With a database, the first slice starts with the saved examples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar
from unittest import SkipTest
from weakref import WeakKeyDictionary

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
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
    draw_from_scenario,
    menu_of,
)
from fuzz.drawing.probes import ProbeCounter
from fuzz.drawing.rules import RULES, Choices, Rule, rules_for
from fuzz.engines.engine import Engine, Slice, rerun_some
from fuzz.engines.random import draw_settled
from fuzz.oracles import Mismatch
from fuzz.protocol.actions import Action
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, Target, full
from fuzz.run import Failure, Run

EXAMPLES_PER_SLICE = 8
STEPS = (10, 20, 50, 100, 200, 500, 1000)
"""How many steps a slice's examples have, in turn."""


class HypothesisChoices(Choices):
    """Choices that Hypothesis makes, and shrinks, and does not print one by one."""

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
    """A machine that steps a `Run`. A subclass says on which target, and what its rules are."""

    make_target: Callable[[], Target]
    probes: ProbeCounter | None = None
    trace: Run | None = None
    settled: Mapping[str, int] = MappingProxyType({})
    """What is not drawn for each trace."""
    choices: HypothesisChoices

    def __init__(self) -> None:
        super().__init__()
        self.target = full(self.make_target())

    @initialize(choices=_choices())
    def begin(self, choices: HypothesisChoices) -> None:
        """Start a trace under a configuration of its own."""
        self.choices = choices
        drawn = draw_configuration(self.target.default_contract().settings, choices)
        self.trace = Run(self.target, {**drawn, **self.settled}, self.probes)
        check_beginning(self.trace.situation)

    def perform(self, trace: Run, action: Action) -> Observation:
        """One step of the trace. Raises a Mismatch."""
        return trace.step(action)


class SuiteStateMachine(TraceStateMachine):
    """A machine for a test suite. It has one rule, which draws as the random engine does.

    Hypothesis would tell in its statistics of each rule that it had tried in vain.
    """

    failures: ClassVar = WeakKeyDictionary[BaseException, Failure]()
    """What was raised, as data."""

    @rule()
    def step(self) -> None:
        """Draw an action and perform it. Raises a Mismatch."""
        trace = self.trace
        assert trace is not None
        try:
            menu = menu_of(rules_for(trace.contract))
            self.perform(trace, draw_action(trace.situation, menu, self.choices))
        except NothingLegalError:
            return  # A trace may fill its roots for ever.
        except Mismatch as mismatch:
            self._keep(mismatch)
            raise

    @override
    def teardown(self) -> None:
        """End a trace that has not failed. Raises a Mismatch."""
        trace = self.trace
        if trace is None or trace.answered < len(trace.actions):
            return
        try:
            trace.finish()
        except Mismatch as mismatch:
            self._keep(mismatch)
            raise

    def _keep(self, mismatch: Mismatch) -> None:
        assert self.trace is not None
        self.failures[mismatch] = self.trace.failure(mismatch)
        self.trace = None


SUITE_STEPS = 200
"""With Hypothesis's own fifty, one seed in eight misses a bug like the README's."""


def suite_settings() -> settings:
    """The user's own, but with longer traces, and no shrinking, which a reducer does in seconds."""
    return settings(
        deadline=None,
        suppress_health_check=list(HealthCheck),
        stateful_step_count=SUITE_STEPS,
        phases=[each for each in settings().phases if each not in {Phase.shrink, Phase.explain}],
    )


def found_by(machine: type[SuiteStateMachine], own: settings) -> list[Failure]:
    """Run a machine as a test; what fails, one of each kind that Hypothesis tells apart."""
    try:
        run_state_machine_as_test(machine, settings=own)
    except Exception as problem:
        raised = filter(machine.failures.__contains__, _leaves(problem))
        if failures := [machine.failures[each] for each in raised]:
            return failures
        raise
    return []


def _leaves(problem: BaseException) -> Iterator[BaseException]:
    """An exception, or all that are in a group."""
    if isinstance(problem, BaseExceptionGroup):
        for each in problem.exceptions:
            yield from _leaves(each)
    else:
        yield problem


class RuleStateMachine(TraceStateMachine):
    """A machine with a rule for each rule, made below: what a session runs."""

    def allows(self, each: Rule) -> bool:
        """Whether that rule may be drawn now."""
        trace = self.trace
        return (
            trace is not None
            and each.name in trace.contract.actions
            and bool(each.subjects(trace.situation))
        )

    def take_step(self, each: Rule) -> None:
        """Draw an action by that rule, or of a scenario, and perform it. Raises a Mismatch."""
        assert self.trace is not None
        situation = self.trace.situation
        action = draw_from_scenario(situation, self.choices)
        if action is None:
            action = each.draw_for(situation, self.choices, each.subjects(situation))
        self.perform(self.trace, action)


def _step_of(each: Rule) -> Callable[..., None]:
    """The machine's method for one rule."""

    def step(self: RuleStateMachine) -> None:
        self.take_step(each)

    step.__name__ = each.name
    allowed = precondition(lambda machine: machine.allows(each))
    return rule()(allowed(step))


for _each in RULES:
    setattr(RuleStateMachine, _each.name, _step_of(_each))


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
        """Raises ImportError, OSError or ValueError if there is no such database."""
        self._target = full(target)
        self._seed = seed_text
        self._process_seed = process_seed or seed_text
        self._database = None if database is None else _database_at(database, target.name)
        self._has_reused = database is None

    @override
    def run_slice(self, number: int, actions_max: int, probes: ProbeCounter) -> Slice:
        done = Slice()
        machine = _session_machine(self._target)
        machine.probes, machine.done, machine.actions_max = probes, done, actions_max
        machine.traces_before = number * EXAMPLES_PER_SLICE
        settings_of_target = self._target.default_contract().settings
        machine.settled = draw_settled(settings_of_target, self._process_seed, number)
        digest = hashlib.sha256(f"{self._seed}/{number}".encode()).digest()
        steps = STEPS[number % len(STEPS)]
        seeded = seed(int.from_bytes(digest[:8], "big"))(machine)
        if not self._has_reused:
            self._has_reused = True
            with suppress(SkipTest):  # Nothing was saved.
                # What was saved with fewer steps is the same with more.
                _run(machine, settings(self._settings(max(STEPS)), phases=(Phase.reuse,)))
        if not done.failures:
            _run(seeded, self._settings(steps))
        return done

    def _settings(self, steps: int) -> settings:
        return settings(session_settings(steps), database=self._database)


def _database_at(address: str, target: str) -> ExampleDatabase:
    """The examples of a target, at `redis://host` or in a folder."""
    if not address.startswith(("redis://", "rediss://")):
        return DirectoryBasedExampleDatabase(Path(address) / target)
    from hypothesis.extra.redis import RedisExampleDatabase  # noqa: PLC0415 - an extra
    from redis import Redis, RedisError  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    server = Redis.from_url(address)
    try:
        server.ping()
    except RedisError as problem:
        raise ConnectionError(str(problem)) from problem
    return RedisExampleDatabase(server, key_prefix=f"gcfuzz:{target}:".encode())


def _run(machine: type[SessionStateMachine], own: settings) -> None:
    """Run a slice's machine, which keeps what it finds."""
    try:
        run_state_machine_as_test(machine, settings=own)
    except (Mismatch, Flaky):
        # Flaky means that the target answered differently when Hypothesis ran it once more.
        assert machine.done.failures
    except Cancelled:
        pass  # What was done until then was right.


def session_settings(steps: int) -> settings:
    """Every setting that bears on what is run. The session reduces by itself: no shrinking."""
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


class SessionStateMachine(RuleStateMachine):
    """A machine that counts into `done`, and does nothing once its actions are used up.

    After a failure Hypothesis runs the example once more: that run must be the same, and is not
    counted. Each slice has a subclass of its own, since Hypothesis makes the machines itself.
    """

    done: Slice
    actions_max: int
    traces_before: int
    """The traces have the numbers that follow. Which are run once more depends on that: the first
    example of a slice is always Hypothesis's simplest, and hardly worth it; the last one's number
    is a multiple of eight."""

    @override
    def take_step(self, each: Rule) -> None:
        if self.done.actions < self.actions_max or self.done.failures:
            super().take_step(each)

    @override
    def perform(self, trace: Run, action: Action) -> Observation:
        done = self.done
        if done.failures:
            return super().perform(trace, action)
        done.traces += not trace.actions
        try:
            observation = super().perform(trace, action)
        except Mismatch as mismatch:
            done.failures.append(trace.failure(mismatch))
            raise
        finally:
            done.actions += trace.answered == len(trace.actions)
        done.samples += observation.samples
        done.minor_collections += observation.minors
        return observation

    @override
    def teardown(self) -> None:
        trace, done = self.trace, self.done
        if trace is None or not trace.actions or done.failures:
            return
        if trace.answered < len(trace.actions):
            return  # It was cancelled.
        try:
            trace.finish()
            rerun_some(self.target, trace, self.traces_before + done.traces)
        except Mismatch as mismatch:
            done.failures.append(trace.failure(mismatch))
            raise


def _session_machine(target: FullTarget) -> type[SessionStateMachine]:
    """A class of its own for one slice of a session."""

    class SliceStateMachine(SessionStateMachine):
        make_target = staticmethod(lambda: target)

    if "free" not in target.default_contract().actions:
        # Such a trace may fill its roots for ever. No other machine has that rule: one that is
        # never allowed, and simpler than all others, would be in the way of drawing.
        SliceStateMachine.do_nothing = _do_nothing()
    return SliceStateMachine


def _do_nothing() -> Callable[..., None]:
    """A step where no action is legal: Hypothesis wants one all the same."""
    is_stuck = precondition(lambda machine: not any(map(machine.allows, RULES)))
    return rule()(is_stuck(lambda _: None))
