"""The one loop: rule -> action -> target -> oracles -> trace.

A `Run` is one trace on one target. Whoever has actions (an engine that draws them, a replay, a
reduction) steps it; every step that returns was found right by all oracles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import attrs

from fuzz.actions import NAMES, Action
from fuzz.contract import Contract
from fuzz.legality import why_illegal
from fuzz.observation import Observation
from fuzz.oracles import Bench, Mismatch
from fuzz.probes import Before, ProbeCounter
from fuzz.problems import BadInputError
from fuzz.rules import Situation
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
        self._perform = target.perform
        self._probes = probes
        self.configuration = dict(configuration)
        self.contract = target.start(configuration)
        self.bench = Bench(self.contract)
        self.situation = Situation(self.contract, self.bench)
        self.actions: list[Action] = []
        self.observation: Observation | None = None

    def step(self, action: Action) -> Observation:
        """Perform one legal action and judge the observation. Raises a Mismatch."""
        bench = self.bench
        probes = self._probes
        if probes is not None:
            before = Before(bench.sampling.period_bytes, bench.survival.pending)
        self.actions.append(action)
        observation = self.observation = self._perform(action)
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


class DeterminismMismatch(Mismatch):
    """A target answered the same actions differently the second time."""

    oracle = "determinism"


def check_repetition(target: Target, run: Run, observations: Sequence[Observation]) -> None:
    """Perform the actions of `run` once more. Raises DeterminismMismatch if an answer differs."""
    target.start(run.configuration)
    for number, (action, before) in enumerate(zip(run.actions, observations, strict=True)):
        after = target.perform(action)
        if after != before:
            del run.actions[number + 1 :]
            field = next(
                each.name
                for each in attrs.fields(Observation)
                if getattr(before, each.name) != getattr(after, each.name)
            )
            expected, got = getattr(before, field), getattr(after, field)
            raise DeterminismMismatch(field, expected, got, "the same actions, a second time")


def run_actions(
    target: Target, configuration: Mapping[str, int], actions: Sequence[Action]
) -> Failure | None:
    """Run concrete actions; returns the first failure. An illegal action ends the run."""
    run = Run(target, configuration)
    for action in actions:
        if why_illegal(action, run.contract, run.bench.shadow):
            return None
        try:
            run.step(action)
        except Mismatch as mismatch:
            return run.failure(mismatch)
    return None


@attrs.frozen
class Step:
    """One action of a trace that was replayed, what came of it, and the failure if it was wrong."""

    number: int
    action: Action
    observation: Observation
    contract: Contract
    failure: Failure | None


def replay_steps(target: Target, trace: Trace, source: str) -> Iterator[Step]:
    """Run a trace that somebody gave, up to the first failure. Raises BadInputError."""
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
        except Mismatch as mismatch:
            failure = run.failure(mismatch)
        assert run.observation is not None
        yield Step(number, action, run.observation, run.contract, failure)
        if failure:
            return


def replay(target: Target, trace: Trace, source: str) -> Failure | None:
    """Run a trace that somebody gave; returns its failure. Raises BadInputError."""
    for step in replay_steps(target, trace, source):
        if step.failure:
            return step.failure
    return None
