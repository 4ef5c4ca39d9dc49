"""What people read of a failure, wherever it comes from: in a session, a replay, a hunt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from fuzz.plain import counted, shell_word
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import NAMES, Action
from fuzz.run import BROKE, OBSERVABLE, Failure
from fuzz.sessions.corpus import COMPLAINT_SUFFIX, Find, pages_like
from fuzz.targets import PROGRAMS, TargetOptions
from fuzz.terminal.streams import Screen

if TYPE_CHECKING:
    from fuzz.sessions.compare import Before
    from fuzz.sessions.handshake import Handshake


def describe_action(action: Action) -> str:
    """An action as one readable line; switches that are off are left out, and the first thread."""
    words = [NAMES[type(action)]]
    for field in attrs.fields(type(action)):
        value = getattr(action, field.name)
        if field.name == "thread":
            words += [f"by thread {value}"] if value else []
        elif value is True:
            words.append(field.name)
        elif value is not False:
            words.append(f"{field.name}={'null' if value is None else value}")
    return " ".join(words)


def describe_configuration(configuration: dict[str, int]) -> str:
    """A configuration as one line."""
    if not configuration:
        return "all defaults"
    return ", ".join(f"{name} {value}" for name, value in configuration.items())


def describe_failure(failure: Failure) -> tuple[tuple[str, str], ...]:
    """What was expected, what came instead and why, each in words, by name."""
    where = (("where", failure.where),) if failure.where else ()
    field = "" if failure.where else f"{failure.field} "
    values = (field + failure.expected, field + failure.got)
    if failure.change == OBSERVABLE:
        return *zip(("before", "after"), values, strict=True), ("because", failure.why)
    return (
        ("oracle", failure.oracle),
        *where,
        *zip(("expected", "got"), values, strict=True),
        ("because", failure.why),
    )


def print_failure(
    screen: Screen, title: str, failure: Failure, replay: Sequence[str] | None
) -> None:
    """A failure: what was expected, what came instead, the actions, and how to replay it, if so."""
    screen.print(title, "bold red")
    config = "config", describe_configuration(failure.configuration)
    for name, text in (*describe_failure(failure), config):
        screen.print(f"  {name:<9} {text}", indent=12)
    last = len(failure.actions)
    for number, action in enumerate(failure.actions, 1):
        line = f"{number:>5}  {describe_action(action)}"
        if number == last:
            culprit = "differs" if failure.change == OBSERVABLE else "the culprit"
            line = f"  →{line[1:]}   ← {culprit}"
            screen.print(line, "bold")
        else:
            screen.print(f"  {line}")
    for number, line in enumerate(failure.traceback):
        screen.print(f"  {'raised' if number == 0 else '':<9} {line}", indent=12)
    if replay is not None:
        screen.print_command(f"  {replay[1]:<9}", replay, "bold")


def replay_command(
    path: Path, options: TargetOptions, target: str | None = None, how: str = "replay"
) -> tuple[str, ...]:
    """What to type to replay a trace, on its own target or on another, in words of a shell."""
    target_words = [] if target is None else ["--target", target]
    words = ["gcfuzz", how, str(path), *target_words, *options.words]
    return tuple(map(shell_word, words))


def print_found(screen: Screen, number: int, failure: Failure) -> None:
    """A failure as it was found, before it is reduced, which may take minutes."""
    identity, actions = " / ".join(failure.identity), counted(len(failure.actions), "action")
    screen.print(f"found {number}: {identity} ({actions}; reducing ...)", "red")
    screen.print(f"  {failure.message}")


def print_find(
    screen: Screen, number: int, find: Find, options: TargetOptions, before: Before | None = None
) -> None:
    """A find of a session, and how to replay it also on what there was before, if that is asked."""
    what = "FAILURE" if before is None else find.failure.change.upper()
    title = f"{what} {number}: {' / '.join(find.failure.kind)}"
    if not find.reproduced:
        title += " (seen once, NOT reproduced)"
    if find.path is None:
        print_failure(screen, title, find.failure, replay=None)
        _print_unsaved(screen, find)
        return
    # What is right replays without a word; what is answered stands in the explanation.
    how = "explain" if find.failure.change == OBSERVABLE else "replay"
    print_failure(screen, title, find.failure, replay_command(find.path, options, how=how))
    if before is not None:
        command = replay_command(find.path, before.options, before.target, how)
        screen.print_command("  before   ", command)
    complaint = find.path.with_suffix(COMPLAINT_SUFFIX)
    if complaint.exists():
        screen.print(f"  said      {complaint}: what it wrote on standard error", indent=12)
    if find.unsaved is not None:
        screen.print(f"  unsaved   {find.unsaved}; this file is as it was found")
    if options.command and find.failure.change == BROKE:
        words = *map(shell_word, options.command), "<", shell_word(str(find.path))
        screen.print_command("  alone    ", words)
    found = find.trace.header.found
    if found is not None:
        length = found.reduced_from
        was = f", reduced from {counted(length, 'action')}" if length is not None else ""
        alone = ", in a process of its own" if find.trace.header.fresh_process else ""
        screen.print(f"  found     by the {found.engine} engine{was}{alone}")
    if not find.reproduced and find.trace.header.target in PROGRAMS and options.keeps_processes:
        screen.print("  perhaps   it needs earlier traces; with --fresh-process there are none")
    pages = [f"docs/findings/{page}.md" for page in pages_like(find)]
    if pages:
        screen.print(f"  known     perhaps: see {' or '.join(pages)}", indent=12)


def _print_unsaved(screen: Screen, find: Find) -> None:
    """A find of which there is no file, in the lines that would stand in it."""
    screen.print(f"  unsaved   {find.unsaved}; save these lines to replay it:")
    for line in traces.dumps(find.trace).splitlines():
        screen.print_parts((line, ""))


def print_replays(
    screen: Screen, results: Iterable[tuple[Path, Failure | BadInputError | None, Sequence[str]]]
) -> tuple[int, int]:
    """A line a replayed trace, the failures in full, and totals.

    Returns how many failed, and how many could not be replayed, which is said elsewhere.
    """
    passed = failed = unusable = 0
    for path, failure, replay in results:
        if isinstance(failure, BadInputError):
            unusable += 1
        elif failure is None:
            passed += 1
            screen.print(f"passed {path}")
        else:
            failed += 1
            print_failure(screen, f"FAILED {path}", failure, replay)
    rest = f", {unusable} could not be replayed" if unusable else ""
    screen.print(f"{passed} passed, {failed} failed{rest}")
    return failed, unusable


def print_handshake(screen: Screen, hands: Handshake) -> None:
    """What came of trying each action and setting once: the failures, and what is odd."""
    for number, failure in enumerate(hands.failures.values(), 1):
        title = f"FAILURE {number}: {' / '.join(failure.identity)}"
        print_failure(screen, title, failure, replay=None)
    tried, settings = counted(len(hands.tried), "action"), len(hands.contract.settings)
    values = f"{counted(settings, 'setting')} with {counted(hands.values, 'value')}"
    cut = ", and the rest not tried" if hands.is_cut else ""
    screen.print(f"tried {tried}, {values}: {counted(len(hands.failures), 'failure')}{cut}")
    for what, names in (
        ("judged by the oracles", hands.judges),
        ("promised, and not tried, or never legal", hands.untried),
        ("promised, and said nothing", hands.silent_fields),
        ("told and not promised, so judged by nobody", hands.unpromised_fields),
        ("actions not promised, so never asked for", hands.unpromised_actions),
    ):
        if names:
            screen.print(f"{what}: {', '.join(names)}")
