"""Before a session, the saved traces of its corpus: do they still fail?

They are replayed outside of the session: they cost none of its budget, and are in none of its
totals and chunks. Muted traces are listed and not replayed, and so are those that use an action of
`--without`. Known failures are listed, and change no exit code. Traces of other targets are left
out, and so are those that are not reduced yet.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from fuzz.failure import Failure
from fuzz.failures.corpus import RAW, UNPUBLISHED, SavedFailure
from fuzz.failures.trace_files import traces_in
from fuzz.former_names import target_named
from fuzz.nights.failure_history import muted_traces
from fuzz.nights.known_failures import KnownFailures
from fuzz.plain import counted
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import name_of
from fuzz.protocol.trace import Trace
from fuzz.replay import replay
from fuzz.sessions.plan import Plan
from fuzz.targets import make_target
from fuzz.terminal.report import replay_command
from fuzz.terminal.screen import Screen
from fuzz.terminal.target_options import TargetChoice


def replay_corpus_first(
    screen: Screen, choice: TargetChoice, plan: Plan, known: KnownFailures
) -> bool:
    """Replay the traces and print what came of them; returns whether an unknown failure remains."""
    left = [*_chosen(screen, plan)]
    if not left:
        return False
    screen.print(f"corpus: replaying {counted(len(left), 'saved trace')} of {plan.corpus} first")
    failing: list[Path] = []
    refused = 0
    make = functools.cache(make_target)  # One process serves many traces.
    for path, trace in left:
        try:
            target = make(plan.target, choice.options_for(trace.header))
            failure = replay(target, trace, str(path))
        except BadInputError as problem:
            # The contract has changed, and the trace is not legal any more.
            screen.print(f"not replayed: {problem}", "yellow")
            refused += 1
            continue
        if failure is None:
            continue
        identity = " / ".join(failure.identity)
        if why := known.why(_saved(path, failure)):
            screen.print(f"{why}: {identity}: {path}")
        else:
            failing.append(path)
            screen.print(f"still fails: {identity}: {path}", "bold red")
    for path in failing[:1]:
        target_name = None if choice.options.command else plan.target
        screen.print_command("  replay   ", replay_command(path, choice.options, target_name))
    others = f", {refused} could not be replayed" if refused else ""
    screen.print(f"corpus: {len(failing)} of {len(left) - refused} still fail{others}")
    return bool(failing)


def _chosen(screen: Screen, plan: Plan) -> Iterator[tuple[Path, Trace]]:
    """The traces to replay. The others of the target are listed."""
    muted = muted_traces(plan.corpus)
    for path, trace in _traces_of(screen, plan):
        used = {name_of(type(action)) for action in trace.actions} & {*plan.options.without}
        if path.name in muted:
            screen.print(f"{muted[path.name]}: {path}")
        elif used:
            screen.print(f"not replayed: {path} uses {', '.join(sorted(used))}")
        else:
            yield path, trace


def _traces_of(screen: Screen, plan: Plan) -> Iterator[tuple[Path, Trace]]:
    """The reduced traces of the plan's target. A file that is none is reported."""
    try:
        paths = traces_in(plan.corpus)
    except BadInputError:
        return
    for path in paths:
        if UNPUBLISHED.fullmatch(path.name) or path.stem.endswith(RAW):
            continue
        try:
            trace = traces.read(path)
        except BadInputError as problem:
            screen.print(f"not replayed: {problem}", "yellow")
            continue
        if target_named(trace.header.target) == plan.target:
            yield path, trace


def _saved(path: Path, failure: Failure) -> SavedFailure:
    """The failure as its history knows it."""
    length = len(failure.actions)
    return SavedFailure(failure, path, length=length, reduced_from=length, chunk=0, reproduced=True)
