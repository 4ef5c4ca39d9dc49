"""Prints a session while it runs and when it is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fuzz.failure import BROKE, CHANGES, Failure
from fuzz.failures.causes import Cause, by_cause, cause_of
from fuzz.failures.compare import contract_changes
from fuzz.failures.corpus import SavedFailure
from fuzz.nights.known_failures import KnownFailures
from fuzz.oracles.sampling import SamplingOracle
from fuzz.plain import PLAIN_SECONDS, counted, short, short_seconds
from fuzz.sessions import record, session_events
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.reach import reached_of
from fuzz.targets import is_user_class
from fuzz.terminal.report import print_suggest_command
from fuzz.terminal.saved_report import print_found, print_like, print_saved
from fuzz.terminal.screen import Screen

if TYPE_CHECKING:
    from rich.live import Live

MISSING_MAX = 10
RAREST = 5
"""How many probes are named: of those that were not reached, and of the rarest."""
PROBES_ACTIONS_MIN = 20_000
"""A shorter session prints no probes, because it misses many by chance."""
STOPPED = {
    record.TIME: "the time is up",
    record.ACTIONS: "all actions are done",
    record.FAILURES: "the wanted number of failures is reached",
    record.INTERRUPTED: "interrupted",
    record.WORKERS_DIED: "workers died, and their chunks are not done",
}


class SessionReporter:
    """Prints a session: a live line in a terminal, elsewhere a line every ten seconds."""

    def __init__(self, screen: Screen, known: KnownFailures | None = None) -> None:
        """The failures that are known take one line each."""
        self._screen, self._known = screen, known
        self._live: Live | None = None
        self._printed_seconds = 0.0
        self._numbers: dict[tuple[str, ...], int] = {}
        # The number of the failure that was shown in full, by likely cause.
        self._shown: dict[Cause, int] = {}
        self._has_suggested = False

    def __call__(self, event: session_events.Event) -> None:
        """Show one event."""
        match event:
            case session_events.Started():
                self._start(event.plan, event.bugs_checked)
            case session_events.Progress():
                self._progress(event)
            case session_events.WorkerDied():
                self._screen.print(
                    f"worker {event.worker} died ({event.how}); another does its work again",
                    "yellow",
                )
            case session_events.ChunkLost():
                self._screen.print(
                    f"chunk {event.chunk.index} is lost: each worker that tried it died", "red"
                )
            case session_events.FailureFound():
                number = self._number_of(event.failure)
                if self._known is None or event.failure.identity not in self._known.identities:
                    print_found(self._screen, number, event.failure, event.length)
            case session_events.FailureReported():
                self._report(event.saved, event.plan)
            case session_events.Finished():
                self._finish(event)

    def _start(self, plan: Plan, bugs_checked: int) -> None:
        budget = "chunks" if plan.actions is None else counted(plan.actions, "action")
        budget = budget if plan.seconds is None else f"{plan.seconds:g} s"
        self._screen.print(
            f"gcfuzz: target {' '.join([plan.target, *plan.options.arguments])}, "
            f"engine {plan.engine}, seed {plan.seed}, "
            f"workers {plan.workers}, budget {budget}, corpus {plan.corpus}"
        )
        if plan.before is not None:
            before = plan.before.options
            arguments = " ".join([plan.before.target, *before.arguments])
            self._screen.print(f"before: {arguments}; a failure is what this target does not have")
            assert before.contract is not None
            assert plan.options.contract is not None
            for line in contract_changes(before.contract, plan.options.contract):
                self._screen.print(f"contract: {line}")
        self._screen.print(
            f"self-check: gcfuzz found all {bugs_checked} bugs planted in its own reference"
        )
        if self._screen.is_drawn_on and self._screen.console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._screen.console, refresh_per_second=4, transient=True)
            self._live.start()

    def _number_of(self, failure: Failure) -> int:
        return self._numbers.setdefault(failure.identity, len(self._numbers) + 1)

    def _report(self, saved: SavedFailure, plan: Plan) -> None:
        """A failure in full if it is the first of its likely cause or has no file; else a line."""
        number, origin = self._number_of(saved.failure), plan.origin(saved.chunk)
        if saved.is_saved and (why := self._why_known(saved)):
            identity = " / ".join(saved.failure.identity)
            self._screen.print(f"failure {number}, {why}: {identity}: {saved.path}")
            return
        shown = self._shown.setdefault(cause_of(saved.failure), number)
        if shown == number or not saved.is_saved:
            print_saved(self._screen, number, saved, origin)
            self._suggest(saved.failure, plan)
        else:
            print_like(self._screen, number, saved, shown, origin)

    def _suggest(self, failure: Failure, plan: Plan) -> None:
        """At the first wrong sample of a user's own target: its contract may have a wrong key."""
        is_own = bool(plan.options.command) or is_user_class(plan.target)
        if (
            self._has_suggested
            or failure.oracle != SamplingOracle.name
            or plan.before
            or not is_own
        ):
            return
        self._has_suggested = True
        target = [] if plan.options.command else ["--target", plan.target]
        print_suggest_command(self._screen, f"  {'suggest':<9}", [*target, *plan.options.arguments])

    def _why_known(self, saved: SavedFailure) -> str:
        return "" if self._known is None else self._known.why(saved)

    def _progress(self, progress: session_events.Progress) -> None:
        line = _progress_line(progress)
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"))
        elif progress.seconds - self._printed_seconds >= PLAIN_SECONDS:
            self._printed_seconds = progress.seconds
            self._screen.print(line)

    def _finish(self, finished: session_events.Finished) -> None:
        if self._live is not None:
            self._live.stop()
        plan, totals = finished.plan, finished.totals
        all_broken = [each for each in finished.failures if each.failure.change == BROKE]
        broken = [each for each in all_broken if not self._why_known(each)]
        broken.sort(key=lambda saved: self._number_of(saved.failure))
        groups = by_cause(broken, lambda saved: saved)
        for saved, *_ in groups:
            number = self._number_of(saved.failure)
            shown = self._shown.get(cause_of(saved.failure))
            if shown != number:
                if shown is not None:
                    self._screen.print(
                        f"of failure {shown} and those like it, the one to read first:"
                    )
                print_saved(self._screen, number, saved, plan.origin(saved.chunk))
        changes = _change_lines(totals.changes, plan.why_weaker)
        for line in (*_cause_lines(groups, self._numbers), *changes):
            self._screen.print(line)
        if not totals.actions and finished.problem is not None:
            return  # The command reports the problem, and nothing else happened.
        self._screen.print(
            f"{counted(totals.traces, 'trace')}, {counted(totals.actions, 'action')} "
            f"({totals.actions / finished.seconds:,.0f}/s), {counted(totals.samples, 'sample')}, "
            f"{counted(totals.minor_collections, 'minor collection')}"
        )
        if totals.actions >= PROBES_ACTIONS_MIN and finished.stop_reason != record.FAILURES:
            for line in (*_probe_lines(plan.probes, totals.probes), *_held_lines(totals)):
                self._screen.print(line)
        if finished.stop_reason in {record.TIME, record.INTERRUPTED}:
            print_record(self._screen, finished.record)
        failures = counted(len(broken), "failure" if plan.before is None else "new failure")
        known = len(all_broken) - len(broken)
        failures += f", and {known} known" * (known > 0)
        how = f" in {finished.seconds:.1f} s; {STOPPED[finished.stop_reason]}"
        how += "" if totals.actions else " before anything was done"
        self._screen.print_parts((failures, "bold"), (how, ""))


def print_record(screen: Screen, session: record.SessionRecord) -> None:
    """The whole chunks of a session, or of several. The same command can run them again."""
    for piece in session.pieces:
        start, stop, step = piece.chunks
        every = f", every {step}" if step > 1 else ""
        lost = f", but for {', '.join(map(str, piece.lost))}" if piece.lost else ""
        plan = f"{session.plan.target} with seed {session.plan.seed}"
        screen.print(f"whole: chunks {start}:{stop}{every}{lost} of {plan}")
    actions = counted(session.totals.actions, "action")
    beyond = f"; beyond: {counted(len(session.beyond), 'failure')}" if session.beyond else ""
    screen.print(f"in these: {actions}, {counted(len(session.failures), 'failure')}{beyond}")


def _cause_lines(
    groups: Sequence[Sequence[SavedFailure]], numbers: Mapping[tuple[str, ...], int]
) -> Iterator[str]:
    """A line for each likely cause, if there are several failures."""
    if sum(map(len, groups)) <= 1:
        return
    yield "by their likely causes, the shortest traces first:"
    for group in groups:
        number, *others = (numbers[saved.failure.identity] for saved in group)
        like = f", like {', '.join(map(str, others))}" if others else ""
        length = counted(group[0].length, "action")
        yield f"  failure {number}{like}: {length}, {' / '.join(group[0].failure.identity)}"


def _change_lines(counts: Mapping[str, int], why_weaker: str) -> Iterator[str]:
    """A line for each effect of a change, with the number of traces by action; for its contract."""
    actions: dict[str, list[str]] = {}
    for name, count in sorted(counts.items()):
        what, _, action = name.rpartition(" / ")
        actions.setdefault(what, []).append(f"{action} {count:,}")
    for what in sorted(actions, key=lambda each: CHANGES.index(each.partition(" / ")[0])):
        yield f"{what}: {', '.join(actions[what])}"
    if why_weaker:
        yield f"weaker contract: {why_weaker}"


def _probe_lines(probes: Sequence[str], counts: Mapping[str, int]) -> Iterator[str]:
    """The probes that were not reached, and the rarest."""
    reached = sorted((name for name in probes if counts[name]), key=lambda name: counts[name])
    missing = [name for name in probes if not counts[name]]
    if missing:
        more = f" and {len(missing) - MISSING_MAX:,} more" if len(missing) > MISSING_MAX else ""
        yield f"probes not reached: {', '.join(missing[:MISSING_MAX])}{more}"
    elif probes:
        yield f"all {len(probes)} probes reached"
    if reached:
        rarest = (f"{name} {counts[name]:,}" for name in reached[:RAREST])
        yield f"rarest probes: {', '.join(rarest)}"


def _held_lines(totals: SessionTotals) -> Iterator[str]:
    """How many pairs and triples of facts held at once, if the session looked."""
    if totals.held:
        _, *several = reached_of(totals.held)
        yield f"held at once: {', '.join(map(str, several))}"


def _progress_line(progress: session_events.Progress) -> str:
    """At most 80 columns. While failures are reduced, their candidates replace the speed."""
    speed = progress.totals.actions / max(progress.seconds, 0.001)
    several = f" {progress.reducing}" if progress.reducing > 1 else ""
    tries = f"reducing{several}: {short(progress.tries)} tries"
    return " · ".join(
        [
            short_seconds(progress.seconds),
            counted(progress.failures, "failure"),
            tries if progress.reducing else f"{short(speed)} actions/s",
            f"probes {progress.reached}/{progress.probes}",
            f"new {short_seconds(progress.seconds_since_new)} ago",
        ]
    )
