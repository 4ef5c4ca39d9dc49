"""The text of a failure, whether a session, a replay, a check or a hunt reports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs

from fuzz.failure import BROKE, OBSERVABLE, Failure
from fuzz.failures.causes import by_cause
from fuzz.failures.corpus import COMPLAINT_SUFFIX, Origin, SavedFailure, findings_like, trace_of
from fuzz.oracles.sampling import SamplingOracle
from fuzz.plain import counted, path_argument, shell_word
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import ACTIONS, NAMES, Action
from fuzz.protocol.contract_problems import KINDS, OF_PROMISES
from fuzz.protocol.observation import FIELDS, HANG
from fuzz.targets import TargetOptions, is_user_class
from fuzz.terminal.screen import Screen

if TYPE_CHECKING:
    from fuzz.sessions.handshake import Handshake


ACTIONS_SHOWN = 60
"""How many actions before the last one a report has. Longer traces could not be reduced."""


def describe_action(action: Action) -> str:
    """An action as one readable line, without fields that have their defaults."""
    words = [NAMES[type(action)]]
    for field in attrs.fields(type(action)):
        value = getattr(action, field.name)
        if field.name == "thread":
            words += [f"by thread {value}"] if value else []
        elif value is True:
            words.append(field.name)
        elif value != field.default:
            words.append(f"{field.name}={_described(value)}")
    return " ".join(words)


def _described(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return "null" if value is None else str(value)


def describe_configuration(configuration: dict[str, int]) -> str:
    """A configuration as one line."""
    if not configuration:
        return "all defaults"
    return ", ".join(f"{name} {value}" for name, value in configuration.items())


def describe_failure(failure: Failure) -> tuple[tuple[str, str], ...]:
    """Label and text of each line about what was wrong."""
    if failure.what_happened and failure.change != OBSERVABLE:
        return ("oracle", failure.oracle), ("got", failure.what_happened)
    field = "" if failure.where else f"{failure.field} "
    before_or_expected, after_or_got = field + failure.expected, field + failure.got
    because = "because", failure.why
    if failure.change == OBSERVABLE:
        return ("before", before_or_expected), ("after", after_or_got), because
    where = (("where", failure.where),) if failure.where else ()
    values = ("expected", before_or_expected), ("got", after_or_got)
    return ("oracle", failure.oracle), *where, *values, because


def print_failure(
    screen: Screen, title: str, failure: Failure, replay: Sequence[str] | None
) -> None:
    """A failure: what was wrong, the actions, and the command that replays it, if there is one."""
    screen.print(title, "bold red")
    config = "config", describe_configuration(failure.configuration)
    for label, text in (*describe_failure(failure), config):
        screen.print(f"  {label:<9} {text}", indent=12)
    numbered = enumerate(failure.actions, 1)
    *others, last = [f"{number:>5}  {describe_action(action)}" for number, action in numbered]
    hidden = 0 if replay is None else len(others[:-ACTIONS_SHOWN])
    if hidden:
        screen.print(f"      {counted(hidden, 'action')}, which only the file has")
    for line in others[hidden:]:
        screen.print(f"  {line}")
    mark = "differs" if failure.change == OBSERVABLE else "first wrong answer"
    screen.print(f"  →{last[1:]}   ← {mark}", "bold")
    for number, line in enumerate(failure.traceback):
        screen.print(f"  {'raised' if number == 0 else '':<9} {line}", indent=12)
    if replay is not None:
        screen.print_command(f"  {replay[1]:<9}", replay, "bold")


def replay_command(
    path: Path, options: TargetOptions, target: str | None = None, how: str = "replay"
) -> tuple[str, ...]:
    """The arguments, quoted for a shell, that replay a trace on its own target or on another."""
    target_arguments = [] if target is None else ["--target", target]
    arguments = ["gcfuzz", how, path_argument(path), *target_arguments, *options.arguments]
    return tuple(map(shell_word, arguments))


def print_found(screen: Screen, number: int, failure: Failure, length: int) -> None:
    """A failure as it was found, before it is reduced. That may take minutes."""
    identity, actions = " / ".join(failure.identity), counted(length, "action")
    screen.print(f"found {number}: {identity} ({actions}; reducing ...)", "red")
    screen.print(f"  {failure.message}")


PERHAPS_EARLIER = "it needs earlier traces that the file lacks; with --fresh-process there are none"
PERHAPS_BY_CHANCE = (
    "the target draws numbers without a seed, or a trace inherits state from the last one; see "
    "`gcfuzz help nondeterminism`"
)
"""Why a failure may not come back."""


def how_seen_once(tries: int) -> str:
    """Why it is not known whether a failure is reproducible."""
    if not tries:
        return "seen once; not tried again, because the session ended"
    return f"seen once; did NOT reproduce in {counted(tries, 'run')}"


def _title(number: int, saved: SavedFailure, origin: Origin) -> str:
    what = "FAILURE" if origin.before is None else saved.failure.change.upper()
    title = f"{what} {number}: {' / '.join(saved.failure.kind)}"
    return title if saved.reproduced else f"{title} ({how_seen_once(saved.tries)})"


def print_like(screen: Screen, number: int, saved: SavedFailure, like: int, origin: Origin) -> None:
    """A failure in one line: it has the likely cause of one that is shown in full."""
    screen.print(f"{_title(number, saved, origin)}, like {like}: {saved.path}", "bold red")


def print_groups(screen: Screen, failures: Iterable[SavedFailure], origin: Origin) -> None:
    """One failure of each likely cause in full, and a line for the others like it."""
    number = 0
    for group in by_cause(failures, lambda saved: saved):
        shown = None
        for saved in group:
            number += 1
            if shown is None or not saved.is_saved:
                print_saved(screen, number, saved, origin)
                shown = shown or number
            else:
                print_like(screen, number, saved, shown, origin)


def earlier_traces(number: int) -> str:
    """How many traces the process of a trace carries out before it."""
    return f"{counted(number, 'earlier trace')} of the same process"


def print_saved(screen: Screen, number: int, saved: SavedFailure, origin: Origin) -> None:
    """A failure in full: how it was found, and how to replay it on each target."""
    failure, title = saved.failure, _title(number, saved, origin)
    if saved.lost is not None:
        _print_lost(screen, title, saved, saved.lost, origin)
        return
    if saved.path is None:
        print_failure(screen, title, failure, replay=None)
        screen.print(f"  unsaved   {saved.unsaved}; save these lines to replay it:")
        for line in traces.dumps(trace_of(origin, saved)).splitlines():
            screen.print_parts((line, ""))
        return
    # A replay of right answers shows nothing; an explanation shows all answers.
    how = "explain" if failure.change == OBSERVABLE else "replay"
    target = origin.target if is_user_class(origin.target) else None  # The file names the others.
    print_failure(screen, title, failure, replay_command(saved.path, origin.options, target, how))
    for label, text in _details(saved, saved.path, origin):
        screen.print(f"  {label:<9} {text}", indent=12)
    if origin.before is not None:
        command = replay_command(saved.path, origin.before.options, origin.before.target, how)
        screen.print_command("  before   ", command)
    if origin.options.command and failure.change == BROKE and not saved.needs_earlier:
        arguments = *map(shell_word, origin.options.command), "<", shell_word(str(saved.path))
        screen.print_command("  alone    ", arguments)


def _print_lost(screen: Screen, title: str, saved: SavedFailure, why: str, origin: Origin) -> None:
    """A failure of an earlier session whose trace cannot be read, and what finds it again."""
    screen.print(title, "bold red")
    again = f"--seed {origin.seed} --chunks {saved.chunk}:{saved.chunk + 1}"
    for label, text in (
        *describe_failure(saved.failure),
        ("lost", f"its trace: {why}"),
        ("found", f"in chunk {saved.chunk}; {again} in place of a budget and a part runs it again"),
    ):
        screen.print(f"  {label:<9} {text}", indent=12)


def _details(saved: SavedFailure, path: Path, origin: Origin) -> Iterator[tuple[str, str]]:
    """Label and text of each line about the file of a failure."""
    complaint = path.with_suffix(COMPLAINT_SUFFIX)
    if complaint.exists():
        yield "stderr", str(complaint)
    if saved.unsaved is not None:
        yield "unsaved", f"{saved.unsaved}; this file has the trace as it was found"
    found = f"by the {origin.engine} engine"
    if saved.reproduced:
        found += f", reduced from {counted(saved.reduced_from, 'action')}"
    if saved.reduction_ended:
        found += f" (the reduction ended early: {saved.reduction_ended}; `gcfuzz reduce` goes on)"
    if saved.fresh_process:
        found += ", in a process of its own"
    if saved.needs_earlier:
        found += f", after {earlier_traces(len(saved.read().failure.earlier))}"
    yield "found", found
    if not saved.reproduced and saved.tries:
        yield "perhaps", PERHAPS_EARLIER if origin.shares_processes else PERHAPS_BY_CHANCE
    findings = findings_like(origin.target, saved.failure)
    if pages := [f"`gcfuzz help findings/{page}`" for page in findings]:
        yield "known", f"perhaps: see {' or '.join(pages)}"


ReplayResult: TypeAlias = tuple[Path, Failure | BadInputError | None, Sequence[str]]
"""A trace, its failure or why it cannot be replayed, and the command that repeats the replay."""


def print_replays(screen: Screen, results: Iterable[ReplayResult]) -> tuple[int, int]:
    """A line for each replayed trace, the failures in full, and totals.

    Returns how many failed, and how many could not be replayed. The caller reports these.
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
    screen: Screen, handshake: Handshake, target: Sequence[str], *, is_verbose: bool
) -> None:
    """The result of `gcfuzz check`, and what to do next.

    The first line of a check that failed is the first failure, the last line of one that did not is
    the command of a session; `target` has its arguments that name the target.
    """
    failures = [*handshake.failures.values()]
    if failures:
        screen.print(_what_to_fix(failures), "bold red")
    for number, failure in enumerate(failures, 1):
        title = f"FAILURE {number}: {' / '.join(failure.identity)}"
        print_failure(screen, title, failure, replay=None)
    tried = counted(len(handshake.tried), "action")
    settings = counted(len(handshake.contract.settings), "setting")
    values = f"{settings} with {counted(handshake.values, 'value')}"
    cut = ", and the rest not tried" if handshake.is_cut else ""
    screen.print(f"tried {tried}, {values}: {counted(len(failures), 'failure')}{cut}")
    others = handshake.unpromised_actions
    if others and not is_verbose:
        others = [f"{counted(len(others), 'action')} (--verbose lists them)"]
    for what, names in (
        ("judged by the oracles", handshake.judges),
        ("promised, but not tried, or never legal", handshake.untried),
        ("promised, but never reported", handshake.silent_fields),
        ("reported, but not promised, so no oracle judges it", handshake.unpromised_fields),
        ("not promised, so never tried", others),
    ):
        if names:
            screen.print(f"{what}: {', '.join(names)}")
    if not (failures or handshake.untried):
        arguments = map(shell_word, ["gcfuzz", "run", "-x", *target, "--time", "10m"])
        screen.print_command("next:", [*arguments], "bold")
    elif any(failure.oracle == SamplingOracle.name for failure in failures):
        print_suggest_command(screen, "the keys that fit:", target)


def print_suggest_command(screen: Screen, label: str, target: Sequence[str]) -> None:
    """What finds out whether a key of the contract is wrong. Its arguments name the target."""
    arguments = map(shell_word, ["gcfuzz", "check", "--suggest", *target])
    screen.print_command(label, [*arguments], "bold")


def _what_to_fix(failures: Sequence[Failure]) -> str:
    """The first failure in a line, and what to do."""
    failure = failures[0]
    more = f"{len(failures)} failures; the first: " if len(failures) > 1 else ""
    what = failure.got
    if failure.field != "error":
        field = failure.where or failure.field
        what = f"{field}: expected {failure.expected}, got {failure.got} ({failure.why})"
    advice = "fix the program or its contract"
    if failure.got.startswith(HANG):
        advice = "make it answer, or allow more time with --timeout"
    return f"{more}{failure.action}: {what}; {advice}, then check again"


def print_known_names(screen: Screen) -> None:
    """The names that a contract may list."""
    for what, names in (
        ("actions", ACTIONS),
        ("observes", FIELDS),
        ("promises", OF_PROMISES),
        ("kinds of the layout", KINDS),
    ):
        screen.print(f"known {what}: {', '.join(names)}")
