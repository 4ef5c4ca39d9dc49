"""Tonight's build: what replays the failures of a night, and explains them.

Invariant: no program and no module runs because a file names it. A failure of another target than
that on the command line is replayed on its own target, or not at all.
"""

from __future__ import annotations

import functools
from pathlib import Path

import attrs

from fuzz.nights.failure_history import KnownFailure
from fuzz.nights.night import RUNS, Replayed
from fuzz.problems import BadInputError
from fuzz.protocol.target import Target, contract_of, name_of
from fuzz.protocol.trace import Trace
from fuzz.replay import replay, replay_steps
from fuzz.targets import TargetOptions, make_target
from fuzz.terminal.explain_page import Page, make_page
from fuzz.terminal.target_options import TargetChoice


class NightBuild:
    """The target on the command line, and those that need no program."""

    def __init__(self, choice: TargetChoice, name: str) -> None:
        """`name` is the `--name` of the sessions that the target on the command line had."""
        self._choice, self._name = choice, name
        self._start = functools.cache(_started)  # One process serves many traces.
        self.unable = ""
        """Why a target could not be started, if one could not."""

    def _target_for(self, known: KnownFailure, trace: Trace) -> Target:
        """The target for a trace. Raises BadInputError if there is none."""
        if known.name != self._name:
            raise BadInputError(f"it is of --name {known.name!r}; report it with that name")
        choice = self._choice
        base = known.target.partition("+")[0]
        if choice.name is not None and choice.name.partition("+")[0] != base:
            choice = TargetChoice(None, attrs.evolve(choice.options, command=()))
        try:
            started = self._start(choice.name_for(known.target), choice.options_for(trace.header))
        except BadInputError as problem:
            started = problem
        if isinstance(started, BadInputError):
            self.unable = self.unable or str(started)
            raise started
        return started

    def arguments_for(self, known: KnownFailure) -> list[str]:
        """The arguments that replay a failure: tonight's, or else those of its session."""
        return self._choice.arguments or [*known.options]

    def replayed(self, known: KnownFailure, trace: Trace, path: Path) -> Replayed:
        """Run a trace RUNS times."""
        try:
            target = self._target_for(known, trace)
            version = contract_of(target).version or ""
            failed = sum(replay(target, trace, str(path)) is not None for _ in range(RUNS))
        except BadInputError as problem:
            return Replayed(problem=str(problem))
        return Replayed(failed, RUNS, version)

    def explained(self, known: KnownFailure, trace: Trace, path: Path) -> Page:
        """The page that explains a trace. Raises BadInputError."""
        target = self._target_for(known, trace)
        title = f"{path.name} on {name_of(target)}"
        return make_page(title, trace.header.config, replay_steps(target, trace, str(path)))


def _started(name: str, options: TargetOptions) -> Target | BadInputError:
    """A target that states its contract, or why it does not."""
    try:
        target = make_target(name, options)
        contract_of(target)
    except BadInputError as problem:
        return problem
    return target
