"""The one loop: rule -> action -> target -> oracles -> trace.

A `Run` is one trace on one target. Whoever has actions (an engine that draws them, a replay, a
reduction) steps it; every step that returns was found right by all oracles.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from fuzz.actions import NAMES, Action
from fuzz.contract import Contract
from fuzz.legality import why_illegal
from fuzz.observation import Observation
from fuzz.oracles import RERUN_ORACLES, Bench, Mismatch, RerunOracle
from fuzz.probes import Before, ProbeCounter, ProbeReached, WantedProbe
from fuzz.problems import BadInputError
from fuzz.rules import Situation
from fuzz.shadow import Shadow
from fuzz.targets.target import Target
from fuzz.trace import Trace


@attrs.frozen
class Failure:
    """A mismatch, and the actions up to the culprit, which is the last."""

    configuration: dict[str, int]
    actions: tuple[Action, ...]
    oracle: str
    field: str
    direction: str
    expected: str
    got: str
    why: str

    @property
    def message(self) -> str:
        """What the oracle said, in one line."""
        return f"{self.oracle}: {self.field}: expected {self.expected}, got {self.got} ({self.why})"

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What makes two failures the same: oracle, field, culprit's kind, more or less."""
        return self.oracle, self.field, NAMES[type(self.actions[-1])], self.direction


class Run:
    """One trace on a target, from its header on."""

    def __init__(
        self,
        target: Target,
        configuration: Mapping[str, int],
        probes: ProbeCounter | None = None,
    ) -> None:
        self._target = target
        self._probes = probes
        self.configuration = dict(configuration)
        self.contract = target.start(configuration)
        self.bench = Bench(self.contract)
        self.situation = Situation(self.contract, self.bench)
        self.actions: list[Action] = []
        self.observations: list[Observation] = []

    def step(self, action: Action) -> Observation:
        """Perform one legal action and judge the observation. Raises a Mismatch."""
        bench = self.bench
        probes = self._probes
        if probes is not None:
            before = Before(bench.sampling.period_bytes, bench.survival.pending)
        self.actions.append(action)
        observation = self._target.perform(action)
        self.observations.append(observation)
        bench.judge(action, observation)
        if probes is not None:
            probes.watch(action, observation, bench, before)
        if observation.graph is not None:
            self.situation.objects = len(observation.graph)
        return observation

    def failure(self, mismatch: Mismatch) -> Failure:
        """What the last step raised, as data."""
        return Failure(
            configuration=self.configuration,
            actions=tuple(self.actions),
            oracle=mismatch.oracle,
            field=mismatch.field,
            direction=mismatch.direction,
            expected=_text(mismatch.expected),
            got=_text(mismatch.got),
            why=mismatch.why,
        )


def _text(value: object) -> str:
    """A value as a trace would write it."""
    return value if isinstance(value, str) else json.dumps(value)


def rerun(target: Target, run: Run, oracle: RerunOracle) -> None:
    """Perform the actions of `run` once more, as `oracle` wants them. Raises its Mismatch.

    Then the last of the actions of `run` is the culprit.
    """
    configuration = oracle.configuration(run.contract, run.configuration, run.actions)
    if configuration is None:
        return
    target.start(configuration)
    for number, (action, first) in enumerate(zip(run.actions, run.observations, strict=True), 1):
        instead = oracle.instead(action)
        if instead is None:
            continue
        try:
            oracle.check(first, target.perform(instead))
        except Mismatch:
            del run.actions[number:]
            raise


def run_actions(
    target: Target,
    configuration: Mapping[str, int],
    actions: Sequence[Action],
    rerun_oracles: Iterable[RerunOracle] = (),
    probes: ProbeCounter | None = None,
) -> Failure | None:
    """Run concrete actions; returns the first failure. An illegal action ends the run."""
    run = Run(target, configuration, probes)
    try:
        for action in actions:
            if why_illegal(action, run.contract, run.bench.shadow):
                return None
            run.step(action)
        for oracle in rerun_oracles:
            rerun(target, run, oracle)
    except Mismatch as mismatch:
        return run.failure(mismatch)
    return None


def run_again(
    target: Target, configuration: Mapping[str, int], actions: Sequence[Action], failure: Failure
) -> Failure | None:
    """Run concrete actions with all that it takes to see `failure` again; returns what fails."""
    oracles = [oracle for name, oracle in RERUN_ORACLES.items() if name == failure.oracle]
    probes = WantedProbe(failure.field) if failure.oracle == ProbeReached.oracle else None
    return run_actions(target, configuration, actions, oracles, probes)


@attrs.frozen
class Step:
    """One action of a trace that was replayed, what came of it, and the failure if it was wrong."""

    number: int
    action: Action
    observation: Observation
    contract: Contract
    failure: Failure | None
    shadow: Shadow
    """The mutator's view after this action; it goes on with the next step."""


def replay_steps(target: Target, trace: Trace, source: str) -> Iterator[Step]:
    """Run a trace that somebody gave, up to the first failure. Raises BadInputError.

    What only running it once more shows is the failure of the last step.
    """
    try:
        run = Run(target, trace.header.config)
    except BadInputError as error:
        raise BadInputError(f"{source}:1: {error}") from error
    for number, action in enumerate(trace.actions, 1):
        problem = why_illegal(action, run.contract, run.bench.shadow)
        if problem:
            # The header is line 1, so that the first action is line 2.
            raise BadInputError(f"{source}:{number + 1}: {NAMES[type(action)]}: {problem}")
        failure = None
        try:
            run.step(action)
            if number == len(trace.actions):
                for oracle in RERUN_ORACLES.values():
                    rerun(target, run, oracle)
        except Mismatch as mismatch:
            failure = run.failure(mismatch)
        yield Step(number, action, run.observations[-1], run.contract, failure, run.bench.shadow)
        if failure:
            return


def replay(target: Target, trace: Trace, source: str) -> Failure | None:
    """Run a trace that somebody gave; returns its failure. Raises BadInputError."""
    for step in replay_steps(target, trace, source):
        if step.failure:
            return step.failure
    return None
