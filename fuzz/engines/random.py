"""The random engine: a plain pseudo-random generator over the rules, for long sessions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

from fuzz.actions import Action
from fuzz.drawing import (
    NothingLegalError,
    check_beginning,
    draw_action,
    draw_configuration,
    draw_length,
    menu_of,
)
from fuzz.engines.engine import Slice, rerun_some
from fuzz.forecast import Forecast
from fuzz.oracles import Mismatch
from fuzz.probes import ProbeCounter
from fuzz.rules import Situation, Source, rules_for
from fuzz.run import Run
from fuzz.targets.target import Target


class RandomSource(Source):
    """Choices from a generator with a seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random  # noqa: S311 - reproducible, not secret

    def below(self, bound: int) -> int:
        return int(self._random() * bound)


class RandomEngine:
    """A slice is one trace."""

    name = "random"

    def __init__(self, target: Target, seed: str) -> None:
        self._target = target
        self._seed = seed
        self._settings = target.start({}).settings

    def run_slice(self, number: int, actions_max: int, probes: ProbeCounter) -> Slice:
        """See Engine."""
        source = RandomSource(f"{self._seed}/{number}")
        run = Run(self._target, draw_configuration(self._settings, source), probes)
        length = min(draw_length(source), actions_max)
        done = Slice(traces=1)
        try:
            for action in _draw(run, length, source):
                done.actions += 1
                observation = run.step(action)
                done.samples += observation.samples
                done.minor_collections += observation.minors
            run.finish()
            rerun_some(self._target, run, number)
        except Mismatch as mismatch:
            done.failures.append(run.failure(mismatch))
        return done


def _draw(run: Run, length: int, source: Source) -> Iterator[Action]:
    """The actions of a trace, each from the situation that the last one left.

    For a target that goes ahead they are drawn before, from a forecast of these situations.
    """
    check_beginning(run.situation)
    if not run.goes_ahead:
        yield from _draw_from(run.situation, length, source)
        return
    forecast = Forecast(run.contract)
    actions = []
    for action in _draw_from(forecast.situation, length, source):
        actions.append(action)
        forecast.follow(action)
    run.announce(actions)
    yield from actions


def _draw_from(situation: Situation, length: int, source: Source) -> Iterator[Action]:
    """So many actions, or fewer if none is legal any more; each is followed before the next."""
    menu = menu_of(rules_for(situation.contract))
    with suppress(NothingLegalError):
        for _ in range(length):
            yield draw_action(situation, menu, source)
