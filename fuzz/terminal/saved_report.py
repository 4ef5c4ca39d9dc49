"""The text of a failure that was saved: how it was found, and how to replay it.

It is apart from `report`, because a replay needs nothing that reduces and saves failures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from fuzz.failure import BROKE, OBSERVABLE, Failure
from fuzz.failures.causes import by_cause
from fuzz.failures.corpus import COMPLAINT_SUFFIX, Origin, SavedFailure, findings_like, trace_of
from fuzz.plain import counted, shell_word
from fuzz.protocol import trace as traces
from fuzz.targets import is_user_class
from fuzz.terminal.report import describe_failure, earlier_traces, print_failure, replay_command
from fuzz.terminal.screen import Screen


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
