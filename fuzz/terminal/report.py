"""What people read of a failure, wherever it comes from: in a session, a replay, a hunt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from fuzz.plain import counted, shell_word
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import ACTIONS, NAMES, Action
from fuzz.protocol.contract_problems import KINDS, OF_PROMISES
from fuzz.protocol.observation import FIELDS, HANG
from fuzz.protocol.trace import Header
from fuzz.run import BROKE, OBSERVABLE, Failure
from fuzz.sessions.causes import by_cause
from fuzz.sessions.corpus import COMPLAINT_SUFFIX, Find, pages_like
from fuzz.targets import TargetOptions, is_program, is_user_class
from fuzz.terminal.standard_streams import Screen

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
    if failure.what_happened and failure.change != OBSERVABLE:
        return ("oracle", failure.oracle), ("got", failure.what_happened)
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
            mark = "differs" if failure.change == OBSERVABLE else "first wrong answer"
            line = f"  →{line[1:]}   ← {mark}"
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
    words = ["gcfuzz", how, str(path), *target_words, *options.arguments]
    return tuple(map(shell_word, words))


def print_found(screen: Screen, number: int, failure: Failure) -> None:
    """A failure as it was found, before it is reduced, which may take minutes."""
    identity, actions = " / ".join(failure.identity), counted(len(failure.actions), "action")
    screen.print(f"found {number}: {identity} ({actions}; reducing ...)", "red")
    screen.print(f"  {failure.message}")


def how_seen_once(tries: int) -> str:
    """Why a failure is not known to be reproducible."""
    if not tries:
        return "seen once; not tried again, because the session ended"
    return f"seen once; did NOT reproduce in {counted(tries, 'run')}"


def _title(number: int, find: Find, before: Before | None) -> str:
    what = "FAILURE" if before is None else find.failure.change.upper()
    title = f"{what} {number}: {' / '.join(find.failure.kind)}"
    return title if find.reproduced else f"{title} ({how_seen_once(find.tries)})"


def print_like(
    screen: Screen, number: int, find: Find, other: int, before: Before | None = None
) -> None:
    """A find with a file, in one line: it has the likely cause of one that is shown in full."""
    title = _title(number, find, before)
    screen.print(f"{title}, like {other}: {find.path}", "bold red")


def print_groups(screen: Screen, finds: Iterable[Find], options: TargetOptions) -> None:
    """Finds that are all there: one of each likely cause in full, then the others like it."""
    numbers = count(1)
    for group in by_cause(finds):
        shown = None
        for find in group:
            number = next(numbers)
            if shown is None or not find.is_saved:
                print_find(screen, number, find, options)
                shown = shown or number
            else:
                print_like(screen, number, find, shown)


def earlier_traces(header: Header) -> str:
    """How many traces the process of a trace carries out before it."""
    return f"{counted(len(header.earlier), 'earlier trace')} of the same process"


def print_find(
    screen: Screen, number: int, find: Find, options: TargetOptions, before: Before | None = None
) -> None:
    """A find of a session, and how to replay it also on what there was before, if that is asked."""
    title = _title(number, find, before)
    if find.path is None:
        print_failure(screen, title, find.failure, replay=None)
        _print_unsaved(screen, find)
        return
    # What is right replays without a word; what is answered stands in the explanation.
    how = "explain" if find.failure.change == OBSERVABLE else "replay"
    name = find.trace.header.target
    target = name if is_user_class(name) else None  # No other need be named again.
    print_failure(screen, title, find.failure, replay_command(find.path, options, target, how))
    if before is not None:
        command = replay_command(find.path, before.options, before.target, how)
        screen.print_command("  before   ", command)
    complaint = find.path.with_suffix(COMPLAINT_SUFFIX)
    if complaint.exists():
        screen.print(f"  said      {complaint}: what it wrote on standard error", indent=12)
    if find.unsaved is not None:
        screen.print(f"  unsaved   {find.unsaved}; this file is as it was found")
    if options.command and find.failure.change == BROKE and not find.needs_earlier:
        words = *map(shell_word, options.command), "<", shell_word(str(find.path))
        screen.print_command("  alone    ", words)
    found = find.trace.header.found
    if found is not None:
        length = found.reduced_from
        was = f", reduced from {counted(length, 'action')}" if length is not None else ""
        alone = ", in a process of its own" if find.trace.header.fresh_process else ""
        after = f", after {earlier_traces(find.trace.header)}" if find.needs_earlier else ""
        screen.print(f"  found     by the {found.engine} engine{was}{alone}{after}")
    is_kept = is_program(find.trace.header.target) and options.keeps_processes
    if not find.reproduced and find.tries and is_kept:
        what = "it needs more earlier traces than the file has; with --fresh-process there are none"
        screen.print(f"  perhaps   {what}", indent=12)
    pages = [f"`gcfuzz help findings/{page}`" for page in pages_like(find)]
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


def print_handshake(
    screen: Screen, hands: Handshake, target: Sequence[str], *, is_verbose: bool
) -> None:
    """What came of trying each action and setting once, and what to do next.

    The first line of a check that failed is the first failure, the last line of one that did not is
    a session's command; `target` are the words that name the target there.
    """
    for line in _what_to_fix([*hands.failures.values()]):
        screen.print(line, "bold red")
    for number, failure in enumerate(hands.failures.values(), 1):
        title = f"FAILURE {number}: {' / '.join(failure.identity)}"
        print_failure(screen, title, failure, replay=None)
    tried, settings = counted(len(hands.tried), "action"), len(hands.contract.settings)
    values = f"{counted(settings, 'setting')} with {counted(hands.values, 'value')}"
    cut = ", and the rest not tried" if hands.is_cut else ""
    screen.print(f"tried {tried}, {values}: {counted(len(hands.failures), 'failure')}{cut}")
    others = hands.unpromised_actions
    if others and not is_verbose:
        others = [f"{counted(len(others), 'action')} (--verbose lists them)"]
    for what, names in (
        ("judged by the oracles", hands.judges),
        ("promised, but not tried, or never legal", hands.untried),
        ("promised, but never reported", hands.silent_fields),
        ("reported, but not promised, so no oracle judges it", hands.unpromised_fields),
        ("not promised, so never tried", others),
    ):
        if names:
            screen.print(f"{what}: {', '.join(names)}")
    if not (hands.failures or hands.untried):
        words = map(shell_word, ["gcfuzz", "run", *target, "--time", "10m"])
        screen.print_command("next:", [*words], "bold")


def _what_to_fix(failures: Sequence[Failure]) -> Iterator[str]:
    """The first failure in a line: what is wrong, and what to do."""
    for failure in failures[:1]:
        more = f"{len(failures)} failures; the first: " if len(failures) > 1 else ""
        what = failure.got
        if failure.field != "error":
            field = failure.where or failure.field
            what = f"{field}: expected {failure.expected}, got {failure.got} ({failure.why})"
        action = "make it answer, or allow more with --timeout"
        if not failure.got.startswith(HANG):
            action = "fix the program or its contract"
        yield f"{more}{failure.action}: {what}; {action}, then check again"


def print_known_names(screen: Screen) -> None:
    """The names that a contract may list."""
    for what, names in (
        ("actions", ACTIONS),
        ("observes", FIELDS),
        ("promises", OF_PROMISES),
        ("kinds of the layout", KINDS),
    ):
        screen.print(f"known {what}: {', '.join(names)}")
