"""The text of a failure, whether a session, a replay, a check or a hunt reports it.

`saved_report` has what a session reports of the file of a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs

from fuzz.failure import OBSERVABLE, Failure
from fuzz.oracles.sampling import SamplingOracle
from fuzz.plain import counted, path_argument, shell_word
from fuzz.problems import BadInputError
from fuzz.protocol.actions import ACTIONS, NAMES, Action
from fuzz.protocol.contract_problems import KINDS, OF_PROMISES
from fuzz.protocol.observation import FIELDS, HANG
from fuzz.targets import TargetOptions
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


def earlier_traces(number: int) -> str:
    """How many traces the process of a trace carries out before it."""
    return f"{counted(number, 'earlier trace')} of the same process"


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
