"""The random engine: a plain pseudo-random generator over the rules, for long sessions."""

from __future__ import annotations

import random

from fuzz.drawing import draw_action, draw_configuration, draw_length, menu_of
from fuzz.engines.engine import Slice, rerun_some
from fuzz.oracles import Mismatch
from fuzz.probes import ProbeCounter
from fuzz.rules import Source, rules_for
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
        menu = menu_of(rules_for(run.contract))
        length = min(draw_length(source), actions_max)
        done = Slice(traces=1)
        try:
            for _ in range(length):
                done.actions += 1
                observation = run.step(draw_action(run.situation, menu, source))
                done.samples += observation.samples
                done.minor_collections += observation.minors
            rerun_some(self._target, run, number)
        except Mismatch as mismatch:
            done.failures.append(run.failure(mismatch))
        return done
