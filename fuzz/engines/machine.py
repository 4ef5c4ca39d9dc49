"""The machine engine: a Hypothesis RuleBasedStateMachine over the same rules and scenarios.

`machine_for` makes the machine for a target. In a user's own test suite its TestCase runs with
that suite's settings, database and Hypothesis's own shrinking. In a session `MachineEngine` runs
it in slices with derived seeds and every setting written out, since a profile that Hypothesis
loads by itself (in CI it is derandomised) would make every slice the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, Verbosity, note, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fuzz.actions import Action
from fuzz.drawing import check_beginning, draw_configuration, draw_from_scenario
from fuzz.engines.engine import Slice, rerun_some
from fuzz.observation import Observation
from fuzz.oracles import Mismatch
from fuzz.probes import ProbeCounter
from fuzz.rules import RULES, Rule, Source
from fuzz.run import Run
from fuzz.targets.target import Target
from fuzz.trace import VERSION, Header, Trace, dumps

EXAMPLES_PER_SLICE = 8
STEPS = (10, 20, 50, 100, 200, 500, 1000)
"""How many steps a slice's examples have, in turn."""


class DataSource(Source):
    """Choices that Hypothesis makes, and shrinks. `data` is the present step's."""

    data: st.DataObject

    def below(self, bound: int) -> int:
        return self.data.draw(st.integers(0, bound - 1))


class TraceMachine(RuleBasedStateMachine):
    """A machine whose rules step a `Run`. A subclass says on which target.

    Its rule methods are made from RULES below.
    """

    make_target: Callable[[], Target]
    probes: ProbeCounter | None = None

    def __init__(self) -> None:
        super().__init__()
        self.target = self.make_target()
        self.trace: Run | None = None
        # One for all steps, since a scenario draws in many of them.
        self.source = DataSource()

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Start a trace under a configuration of its own."""
        self.source.data = data
        drawn = draw_configuration(self.target.start({}).settings, self.source)
        self.trace = Run(self.target, drawn, self.probes)
        check_beginning(self.trace.situation)

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
        action = draw_from_scenario(situation, self.source)
        if action is None:
            action = each.draw_for(situation, self.source, each.subjects(situation))
        try:
            self.perform(self.trace, action)
        except Mismatch as mismatch:
            failure = self.trace.failure(mismatch)
            header = Header(VERSION, self.target.name, failure.configuration)
            note(
                "The trace that fails; save it as a file and run `gcfuzz replay FILE`:\n"
                + dumps(Trace(header, failure.actions))
            )
            raise

    def perform(self, trace: Run, action: Action) -> Observation:
        """One step of the trace. Raises a Mismatch."""
        return trace.step(action)


def _step_of(each: Rule) -> Callable[..., None]:
    """The machine's method for one rule."""

    def step(self: TraceMachine, data: st.DataObject) -> None:
        self.source.data = data
        self.take_step(each)

    step.__name__ = each.name
    allowed = precondition(lambda machine: machine.allows(each))
    return rule(data=st.data())(allowed(step))


for _each in RULES:
    setattr(TraceMachine, _each.name, _step_of(_each))


def machine_for(target_factory: Callable[[], Target]) -> type[TraceMachine]:
    """A machine for the targets that `target_factory` makes, one an example.

    `TestMine = machine_for(MyTarget).TestCase` runs under pytest.
    """

    class GCMachine(TraceMachine):
        make_target = staticmethod(target_factory)

    return GCMachine


class MachineEngine:
    """A slice is a few examples of one length, from a seed of its own."""

    name = "machine"

    def __init__(self, target: Target, seed_text: str) -> None:
        self._target = target
        self._seed = seed_text

    def run_slice(self, number: int, actions_max: int, probes: ProbeCounter) -> Slice:
        """See Engine."""
        done = Slice()
        machine = _session_machine(
            self._target, number * EXAMPLES_PER_SLICE, actions_max, probes, done
        )
        digest = hashlib.sha256(f"{self._seed}/{number}".encode()).digest()
        steps = STEPS[number % len(STEPS)]
        try:
            run_state_machine_as_test(
                seed(int.from_bytes(digest[:8], "big"))(machine), settings=session_settings(steps)
            )
        except (Mismatch, Flaky):
            # Flaky means that the target answered differently when Hypothesis ran it once more.
            assert done.failures
        return done


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


def _session_machine(
    session_target: Target,
    traces_before: int,
    actions_max: int,
    session_probes: ProbeCounter,
    done: Slice,
) -> type[TraceMachine]:
    """A machine that counts into `done`, and does nothing once its actions are used up.

    Its traces have the numbers that follow `traces_before`. Which are run once more depends on
    that: the first example of a slice is always Hypothesis's simplest, and hardly worth it; the
    last one's number is a multiple of eight.
    """

    class SessionMachine(TraceMachine):
        make_target = staticmethod(lambda: session_target)
        probes = session_probes

        def take_step(self, each: Rule) -> None:
            # After a failure Hypothesis runs the example once more; that run must be the same,
            # and it is not counted.
            if done.actions < actions_max or done.failures:
                super().take_step(each)

        def perform(self, trace: Run, action: Action) -> Observation:
            if done.failures:
                return super().perform(trace, action)
            done.traces += not trace.actions
            done.actions += 1
            try:
                observation = super().perform(trace, action)
            except Mismatch as mismatch:
                done.failures.append(trace.failure(mismatch))
                raise
            done.samples += observation.samples
            done.minor_collections += observation.minors
            return observation

        def teardown(self) -> None:
            trace = self.trace
            if trace is None or not trace.actions or done.failures:
                return
            try:
                trace.finish()
                rerun_some(session_target, trace, traces_before + done.traces)
            except Mismatch as mismatch:
                done.failures.append(trace.failure(mismatch))
                raise

    if "free" not in session_target.start({}).actions:
        # Such a trace may fill its roots for ever. No other machine has that rule: one that is
        # never allowed, and simpler than all others, would be in the way of drawing.
        SessionMachine.do_nothing = _do_nothing()
    return SessionMachine


def _do_nothing() -> Callable[..., None]:
    """A step where no action is legal: Hypothesis wants one all the same."""
    is_stuck = precondition(lambda machine: not any(map(machine.allows, RULES)))
    return rule()(is_stuck(lambda _: None))
