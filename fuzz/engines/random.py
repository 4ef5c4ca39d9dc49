"""The random engine: a plain pseudo-random generator over the rules, for long sessions."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import tee
from math import floor

from typing_extensions import override

from fuzz.cancellation import Cancelled
from fuzz.drawing.draw import (
    STARTED_ACTIONS,
    NothingLegalError,
    check_beginning,
    draw_action,
    draw_configuration,
    draw_length,
    menu_of,
    start_long,
)
from fuzz.drawing.forecast import Forecast
from fuzz.drawing.rules import rules_for
from fuzz.drawing.situation import Choices, Situation
from fuzz.engines.engine import Engine, Slice, rerun_some, reruns
from fuzz.failure import Failure
from fuzz.oracles import Mismatch
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Setting
from fuzz.protocol.target import Target, full
from fuzz.reached.probes import ProbeCounter
from fuzz.run import Run

Judge = Callable[[Collection[str]], tuple[Run, Failure | None]]
"""Runs one trace from its start, and judges all but these fields."""


class RandomChoices(Choices):
    """Choices of a pseudo-random generator with a seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random  # noqa: S311 - reproducible, not secret

    @override
    def below(self, bound: int) -> int:
        return floor(self._random() * bound)  # Faster than int.

    @override
    def one_in(self, count: int) -> bool:
        return floor(self._random() * count) == count - 1  # Faster than a call of `below`.


SCENARIO_ACTIONS_MAX = 128
"""A trace whose scenario is not over goes on for at most this many actions.

Nearly all scenarios end within them. With 48, a third of those of relations and a quarter of the
plans did not (docs/evidence/effectiveness.md)."""
PROCESSES = 8
"""How many draws of a process's settings are made from one seed, so that processes can be kept."""


def draw_settled(settings: Sequence[Setting], seed: str, number: int) -> dict[str, int]:
    """The settings of the process that runs the slice `number`."""
    settled = [setting for setting in settings if setting.of_process]
    if not settled:
        return {}
    return draw_configuration(settled, RandomChoices(f"{seed}/process {number % PROCESSES}"))


class RandomEngine(Engine):
    """A slice is one trace."""

    name = "random"
    compares = False
    """Whether the answers of each trace are compared with others."""

    def __init__(self, target: Target, seed: str, process_seed: str | None = None) -> None:
        self._target = full(target)
        self._seed = seed
        self._process_seed = process_seed or seed
        self._settings = self._target.default_contract().settings

    @override
    def run_slice(self, number: int, actions_max: int, probes: ProbeCounter) -> Slice:
        done = Slice(traces=1)
        judge = partial(self._run_trace, number, actions_max, done)
        with suppress(Cancelled):  # All that was done until then was right.
            run, failure = judge((), probes)
            done.failures.extend(self.failures_of(run, failure, number, judge))
        return done

    def _run_trace(
        self,
        number: int,
        actions_max: int,
        done: Slice,
        excluded: Collection[str],
        probes: ProbeCounter | None = None,
    ) -> tuple[Run, Failure | None]:
        """Draw the trace `number` and run it; no oracle judges the excluded fields."""
        choices = RandomChoices(f"{self._seed}/{number}")
        configuration = self.draw_configuration(choices, number)
        keeps_answers = self.compares or any(reruns(number))
        run = Run(self._target, configuration, probes, keeps_answers, excluded)
        length = draw_length(choices, run.contract)
        lengths = min(length, actions_max), min(length + SCENARIO_ACTIONS_MAX, actions_max)
        done.samples = done.minor_collections = 0
        failure = None
        try:
            for action in draw_actions(run, lengths, choices):
                observation = run.step(action)
                done.samples += observation.samples
                done.minor_collections += observation.minors
            run.finish()
            rerun_some(self._target, run, number)
        except Mismatch as mismatch:
            failure = run.failure(mismatch)
        finally:
            done.actions = run.answered
        return run, failure

    def draw_configuration(self, choices: Choices, number: int) -> dict[str, int]:
        """The configuration of the trace `number`."""
        drawn = draw_configuration(self._settings, choices)
        return drawn | draw_settled(self._settings, self._process_seed, number)

    def failures_of(
        self, run: Run, failure: Failure | None, number: int, judge: Judge
    ) -> Iterable[Failure]:
        """The failures to report of the trace `number`, which ended in that one, or in none.

        `judge` runs the trace again from its start, without judging the fields that it is given.
        """
        return [] if failure is None else [failure]


def draw_actions(run: Run, lengths: tuple[int, int], choices: Choices) -> Iterable[Action]:
    """The actions of a trace, each drawn from the situation that the last one left.

    It has `lengths[0]` actions, and up to `lengths[1]` if a scenario is not over. A target that
    takes actions ahead gets actions that are drawn from a forecast.
    """
    check_beginning(run.situation, run.configuration)
    if not run.goes_ahead:
        return _draw_from(run.situation, lengths, choices)
    announced, drawn = tee(_draw_ahead(Forecast(run.contract), lengths, choices))
    run.announce(announced)
    return drawn


def _draw_ahead(forecast: Forecast, lengths: tuple[int, int], choices: Choices) -> Iterator[Action]:
    for action in _draw_from(forecast.situation, lengths, choices):
        yield action
        forecast.follow(action)


def _draw_from(
    situation: Situation, lengths: tuple[int, int], choices: Choices
) -> Iterator[Action]:
    menu = menu_of(rules_for(situation.contract))
    if lengths[0] >= STARTED_ACTIONS:
        start_long(situation, choices)
    with suppress(NothingLegalError):
        for number in range(lengths[1]):
            if number >= lengths[0] and situation.scenario is None:
                break
            yield draw_action(situation, menu, choices)
    situation.scenario = None  # It refers to the situation; a cycle would keep both in memory.
