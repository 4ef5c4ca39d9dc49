"""Collects traces with their answers, which no oracle judges.

The actions are drawn as in a session. Invariant: the same target, seed, number and contract give
the same actions. A trace ends before an answer that is an error, since what follows is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import attrs
from typing_extensions import override

from fuzz.drawing.draw import draw_length
from fuzz.drawing.situation import Situation
from fuzz.engines.random import SCENARIO_ACTIONS_MAX, RandomChoices, RandomEngine, draw_actions
from fuzz.oracles import Bench, Mismatch
from fuzz.oracles.heap import WHILE_PERFORMING, HeapOracle
from fuzz.problems import BadInputError
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import HANG, Observation
from fuzz.protocol.target import Target
from fuzz.run import Run

SEED = "suggest"
ERRORS_MAX = 5
"""If as many traces have no answer at first, neither have the others. Each may be a timeout."""
HANGS_MAX = 3
"""After as many hangs the others are not waited for: each takes a whole timeout."""
Drawn = Callable[[int, Contract], Contract]
"""What the trace with a number is drawn from, made of the stated contract."""


@attrs.frozen
class Collected:
    """A trace and its answers."""

    configuration: dict[str, int]
    contract: Contract
    """What the target states under the configuration."""
    actions: tuple[Action, ...]
    answers: tuple[Observation, ...]
    error: str | None
    """The error that ended the trace, if one did."""


class FollowingBench(Bench):
    """Follows actions and their answers. Only an error is a mismatch."""

    @override
    def judge(self, action: Action, observation: Observation) -> None:
        for each, answer in self._followed(action, observation):
            if answer.error is not None:
                raise Mismatch(HeapOracle.name, "error", None, answer.error, WHILE_PERFORMING)
            self._sampling.follow(each, answer)


class CollectingRun(Run):
    """A run that judges no answer. Its actions are drawn from a changed contract."""

    def __init__(
        self,
        target: Target,
        configuration: Mapping[str, int],
        change: Callable[[Contract], Contract],
    ) -> None:
        super().__init__(target, configuration, keeps_answers=False)
        self.stated = self.contract
        self.contract = change(self.stated)
        self.bench = FollowingBench(self.contract)
        self.situation = Situation(self.contract, self.bench)


def as_stated(number: int, contract: Contract) -> Contract:
    """Draw from the stated contract."""
    return contract


def collect(
    target: Target, numbers: Iterable[int], change: Drawn = as_stated, has_defaults: bool = False
) -> list[Collected]:
    """The traces with these numbers, drawn from what `change` makes of the stated contract.

    With `has_defaults`, each setting has its default. Raises BadInputError if the target answers
    nothing in the first traces, or hangs in several.
    """
    engine = RandomEngine(target, SEED)
    found: list[Collected] = []
    hangs: list[str] = []
    for number in numbers:
        choices = RandomChoices(f"{SEED}/{number}")
        configuration = engine.draw_configuration(choices, number)
        run = CollectingRun(target, {} if has_defaults else configuration, partial(change, number))
        found.append(_answered(run, choices))
        if len(found) == ERRORS_MAX and not any(trace.answers for trace in found):
            raise BadInputError(
                f"the first {ERRORS_MAX} traces had no right answer, but errors, the last one: "
                f"{found[-1].error}; `gcfuzz check` without --suggest shows what is wrong"
            )
        if (error := found[-1].error) is not None and error.startswith(HANG):
            hangs.append(error)
        if len(hangs) == HANGS_MAX:
            raise BadInputError(
                f"{HANGS_MAX} of the first {len(found)} traces ended with a hang, the last one: "
                f"{hangs[-1]}; `gcfuzz run -x` finds the actions that lead to it"
            )
    return found


def _answered(run: CollectingRun, choices: RandomChoices) -> Collected:
    length = draw_length(choices, run.contract)
    answers: list[Observation] = []
    error = None
    try:
        for action in draw_actions(run, (length, length + SCENARIO_ACTIONS_MAX), choices):
            answers.append(run.step(action))  # noqa: PERF401 - an error keeps those before it
        run.finish()
    except Mismatch as mismatch:
        error = str(mismatch.got)
    actions = tuple(run.actions[: len(answers)])
    return Collected(run.configuration, run.stated, actions, tuple(answers), error)
