"""The engine of a comparison: it draws traces for one target, and runs them on two."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from fuzz.drawing.situation import Choices
from fuzz.engines.engine import reruns
from fuzz.engines.random import Judge, RandomEngine
from fuzz.failure import Failure
from fuzz.failures.compare import Pair, differences
from fuzz.run import Run


class ComparingEngine(RandomEngine):
    """The random engine, whose failures are differences."""

    compares = True

    def __init__(self, pair: Pair, seed: str, process_seed: str | None = None) -> None:
        super().__init__(pair.after, seed, process_seed)
        self._pair = pair

    @override
    def draw_configuration(self, choices: Choices, number: int) -> dict[str, int]:
        """Leave out each setting whose value one of the targets does not allow."""
        drawn: dict[str, int] = {}
        for name, value in super().draw_configuration(choices, number).items():
            if self._pair.allows({**drawn, name: value}):
                drawn[name] = value
        return drawn

    @override
    def failures_of(
        self, run: Run, failure: Failure | None, number: int, judge: Judge
    ) -> Iterable[Failure]:
        return differences(self._pair.before, run, failure, [*reruns(number)], judge)
