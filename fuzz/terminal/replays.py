"""Replays of traces, one after the other, and what is to be said of them at the end."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzz.failures.trace_files import traces_in
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.target import contract_of
from fuzz.replay import replay, tries_for
from fuzz.targets import make_target
from fuzz.terminal import report
from fuzz.terminal.exit_codes import BAD_INPUT, complain
from fuzz.terminal.screen import Screen
from fuzz.terminal.target_options import TargetChoice
from fuzz.version import other_hypothesis


class Replays:
    """Replays on the target that each trace names, or on another."""

    def __init__(self, choice: TargetChoice) -> None:
        self._choice = choice
        self._drawn_with: set[str | None] = set()
        self.unsure: list[Path] = []
        """The traces that passed, and may fail in another replay."""

    def of(self, places: Sequence[Path]) -> Iterator[report.ReplayResult]:
        """Replay all traces; yields each with its result and the command that repeats it.

        A trace that cannot be replayed costs a line on standard error.
        """
        choice, paths = self._choice, [path for each in places for path in _unmuted_traces_in(each)]
        make = functools.cache(make_target)  # One process serves many traces.
        if choice.name is not None:  # A problem of the target would be one for each trace.
            contract_of(make(choice.name, choice.options))
        for path in paths:
            command = report.replay_command(path, choice.options, choice.name)
            try:
                trace = traces.read(path)
                header = trace.header
                target = make(choice.name_for(header.target), choice.options_for(header))
                failure = replay(target, trace, str(path))
                if header.found is not None:
                    self._drawn_with.add(header.found.hypothesis)
                    if failure is None and tries_for(trace.actions) > 1:
                        self.unsure.append(path)
                yield path, failure, command
            except BadInputError as problem:
                place = "" if str(problem).startswith(str(path)) else f"{path}:1: "
                complain(f"{place}{problem}", BAD_INPUT)
                yield path, problem, command

    def notes(self) -> Iterator[str]:
        """A line about seeds that draw other traces here, and one for each unsure trace."""
        others = other_hypothesis(self._drawn_with)
        if others is not None:
            yield f"these traces were drawn with {others}: the same seeds draw others here"
        for path in self.unsure:
            yield f"{path}: passes, but threads race in it; it may fail in another replay"


def _unmuted_traces_in(place: Path) -> Iterator[Path]:
    muted = {}
    if place.is_dir():
        from fuzz.nights.failure_history import muted_traces  # A single file needs none of it.

        muted = muted_traces(place)
    for path in traces_in(place):
        if path.name in muted:
            Screen().print(f"{muted[path.name]}: {path}")
        else:
            yield path
