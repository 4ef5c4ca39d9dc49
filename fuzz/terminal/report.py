"""What people read of sessions, replays and targets. It listens, and changes nothing."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from fuzz.files import write_text
from fuzz.plain import LINE_MAX, PLAIN_SECONDS, counted, plain, shell_words, short
from fuzz.problems import BadInputError
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import NAMES, Action
from fuzz.protocol.contract import Contract, Setting
from fuzz.run import Failure, Reaching
from fuzz.sessions.corpus import Find
from fuzz.sessions.hunt import Record
from fuzz.sessions.reach import Reached
from fuzz.sessions.session import (
    ACTIONS,
    INTERRUPTED,
    TIME,
    WORKERS_DIED,
    Event,
    Finished,
    Plan,
    Progress,
    Started,
    WorkerDied,
)
from fuzz.targets import KNOWN_BUGS, REFERENCE, TargetOptions

STOPPED = {
    TIME: "the time is up",
    ACTIONS: "all actions are done",
    INTERRUPTED: "interrupted",
    WORKERS_DIED: "workers died, and what they were to do is not done",
}
BUG_COLUMNS = max(map(len, KNOWN_BUGS))
ORACLE_COLUMNS = len("transparency")
"""What a row of `gcfuzz bugs` needs to be legible in 80 columns."""


class Screen(Console):
    """Standard output. Every string is one line, shown as it is: none has markup or controls.

    What is to look otherwise is printed with a style, or is a Text of this program's own words.
    """

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    @override
    def render_str(self, text: str, **looks: Any) -> Text:
        """All strings come here, those in tables and groups as well."""
        return super().render_str(plain(text, LINE_MAX), **looks)


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
    return (
        ("oracle", failure.oracle),
        ("expected", f"{failure.field} {failure.expected}"),
        ("got", f"{failure.field} {failure.got}"),
        ("because", failure.why),
    )


def print_failure(console: Console, title: str, failure: Failure, replay: str | None) -> None:
    """A failure: what was expected, what came instead, the actions, and how to replay it, if so."""
    console.print(title, style="bold red", soft_wrap=True)
    config = "config", describe_configuration(failure.configuration)
    for name, text in (*describe_failure(failure), config):
        console.print(f"  {name:<9} {text}", soft_wrap=True)
    last = len(failure.actions)
    for number, action in enumerate(failure.actions, 1):
        line = f"{number:>5}  {describe_action(action)}"
        if number == last:
            line = f"  →{line[1:]}   ← the culprit"
            console.print(line, style="bold", soft_wrap=True)
        else:
            console.print(f"  {line}", soft_wrap=True)
    if replay is not None:
        _print_command(console, "replay", replay, style="bold")


def _print_command(console: Console, name: str, words: str, style: str = "") -> None:
    """A command to copy, whole however long it is, of shell words."""
    console.print(Text.assemble(f"  {name:<9} ", (words, style)), soft_wrap=True)


def replay_command(path: Path, options: TargetOptions, target: str | None = None) -> str:
    """What to type to replay a trace, on its own target or on another."""
    target_words = [] if target is None else ["--target", target]
    return shell_words(["gcfuzz", "replay", str(path), *target_words, *options.words])


def print_find(console: Console, number: int, find: Find, options: TargetOptions) -> None:
    """A find of a session."""
    title = f"FAILURE {number}: {' / '.join(find.failure.identity)}"
    if not find.reproduced:
        title += " (seen once, NOT reproduced)"
    if find.path is None:
        print_failure(console, title, find.failure, replay=None)
        _print_unsaved(console, find)
        return
    print_failure(console, title, find.failure, replay_command(find.path, options))
    if find.unsaved is not None:
        console.print(f"  unsaved   {find.unsaved}; this file is as it was found", soft_wrap=True)
    if options.command:
        alone = f"{shell_words(options.command)} < {shell_words([str(find.path)])}"
        _print_command(console, "alone", alone)
    found = find.trace.header.found
    if found is not None:
        length = found.reduced_from
        was = f", reduced from {counted(length, 'action')}" if length is not None else ""
        console.print(f"  found     by the {found.engine} engine{was}", soft_wrap=True)


def _print_unsaved(console: Console, find: Find) -> None:
    """A find of which there is no file, in the lines that would stand in it."""
    console.print(f"  unsaved   {find.unsaved}; save these lines to replay it:", soft_wrap=True)
    for line in traces.dumps(find.trace).splitlines():
        console.print(Text(line), soft_wrap=True)


def summary_of(finished: Finished) -> dict[str, Any]:
    """The summary as data. Only `timing` may differ between two runs of one plan with actions."""
    plan, totals = finished.plan, finished.totals
    return {
        "target": plan.target,
        "engine": plan.engine,
        "seed": plan.seed,
        "workers": plan.workers,
        "traces": totals.traces,
        "actions": totals.actions,
        "samples": totals.samples,
        "minor_collections": totals.minor_collections,
        "probes": dict(totals.probes),
        "failures": [_failure_data(find) for find in finished.finds],
        "stop_reason": finished.stop_reason,
        "timing": {
            "seconds": round(finished.seconds, 3),
            "actions_per_second": round(totals.actions / finished.seconds),
        },
    }


def _failure_data(find: Find) -> dict[str, Any]:
    oracle, field, action, direction = find.failure.identity
    return {
        "oracle": oracle,
        "field": field,
        "action": action,
        "direction": direction,
        "message": find.failure.message,
        "actions": len(find.failure.actions),
        "reduced_from": find.actions_found,
        "reproduced": find.reproduced,
        "trace": find.path.name if find.path is not None else None,
    }


def write_summary(path: Path, finished: Finished) -> None:
    """Write the summary as JSON. Raises BadInputError."""
    write_text(path, json.dumps(summary_of(finished), indent=2) + "\n")


class SessionReporter:
    """Prints a session while it runs: a live line in a terminal, now and then a line elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._printed_seconds = 0.0

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Started():
                self._start(event.plan, event.bugs_checked)
            case Progress():
                self._progress(event)
            case WorkerDied():
                self._console.print(
                    f"worker {event.worker} died ({event.how}); the session goes on without it",
                    style="yellow",
                    soft_wrap=True,
                )
            case Finished():
                self._finish(event)

    def _start(self, plan: Plan, bugs_checked: int) -> None:
        budget = f"{plan.seconds:g} s" if plan.actions is None else f"{plan.actions} actions"
        self._console.print(
            f"gcfuzz: target {' '.join([plan.target, *plan.options.words])}, "
            f"engine {plan.engine}, seed {plan.seed}, "
            f"workers {plan.workers}, budget {budget}, corpus {plan.corpus}",
            soft_wrap=True,
        )
        self._console.print(f"self-check: {bugs_checked} planted bugs caught")
        if self._console.is_terminal:
            self._live.start()

    def _progress(self, progress: Progress) -> None:
        line = _progress_line(progress)
        if self._live.is_started:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"))
        elif progress.seconds - self._printed_seconds >= PLAIN_SECONDS:
            self._printed_seconds = progress.seconds
            self._console.print(line, soft_wrap=True)

    def _finish(self, finished: Finished) -> None:
        self._live.stop()
        for number, find in enumerate(finished.finds, 1):
            print_find(self._console, number, find, finished.plan.options)
        totals = finished.totals
        self._console.print(
            f"{counted(totals.traces, 'trace')}, {counted(totals.actions, 'action')} "
            f"({totals.actions / finished.seconds:,.0f}/s), {counted(totals.samples, 'sample')}, "
            f"{counted(totals.minor_collections, 'minor collection')}",
            soft_wrap=True,
        )
        probes = finished.plan.probes
        missing = [name for name in probes if not totals.probes[name]]
        if missing:
            self._console.print(f"probes not reached: {', '.join(missing)}", soft_wrap=True)
        else:
            self._console.print(f"all {len(probes)} probes reached")
        failures = counted(len(finished.finds), "failure")
        how = f" in {finished.seconds:.1f} s; {STOPPED[finished.stop_reason]}"
        how += "" if totals.actions else " before anything was done"
        self._console.print(Text.assemble((failures, "bold"), how))


def _progress_line(progress: Progress) -> str:
    totals = progress.totals
    speed = totals.actions / max(progress.seconds, 0.001)
    return (
        f"{progress.seconds:.0f} s · {short(totals.traces)} traces · {short(speed)} actions/s · "
        f"{short(totals.samples)} samples · probes {len(totals.probes)}/{progress.probes} · "
        f"{counted(progress.failures, 'failure')} · "
        + (f"reducing {progress.reducing} · " if progress.reducing else "")
        + f"last new {progress.seconds_since_new:.0f} s ago"
    )


@contextmanager
def counting(what: str, steps: int) -> Iterator[Callable[[], None]]:
    """A bar of progress on standard error, in a terminal only; yields what to call for a step."""
    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=steps)
        yield lambda: bar.advance(task)


def bugs_data(records: Sequence[Record], engine: str, seeds: int) -> dict[str, Any]:
    """How the known bugs were found, as data."""
    return {
        "engine": engine,
        "seeds": seeds,
        "bugs": [
            {
                "id": record.bug.id,
                "source": record.bug.source,
                "found": record.found,
                "oracle": record.oracles[0] if record.oracles else None,
                "oracles": list(record.oracles),
                "actions_median": record.actions_median,
                "actions_worst": record.actions_worst,
                "reduced": len(record.reduced.actions) if record.reduced else None,
                "shortest": record.bug.shortest,
            }
            for record in records
        ],
    }


def print_bugs(console: Console, records: Sequence[Record], engine: str, seeds: int) -> None:
    """A row a bug: who caught it, after how many actions, how short its trace became."""
    table = Table(box=None, pad_edge=False)
    table.add_column("bug, and where it happened", overflow="fold", min_width=BUG_COLUMNS)
    table.add_column("caught by", overflow="fold", max_width=ORACLE_COLUMNS)
    for name in ("median", "worst", "length"):
        table.add_column(name, justify="right", no_wrap=True)
    for record in records:
        length = len(record.reduced.actions) if record.reduced else "-"
        table.add_row(
            Group(record.bug.id, Padding(Text(record.bug.source, "dim"), (0, 0, 0, 2))),
            ", ".join(record.oracles) or "nobody",
            *(_figure(each) for each in (record.actions_median, record.actions_worst)),
            f"{length} ({record.bug.shortest})",
            style="" if record.found else "red",
        )
    console.print(table)
    console.print("median, worst: actions until found · length: after reduction (the shortest)")
    found = sum(record.found for record in records)
    medians = [record.actions_median for record in records if record.actions_median is not None]
    console.print(
        f"{found} of {counted(len(records), 'bug')} found by the {engine} engine with every one of "
        f"{counted(seeds, 'seed')}"
        + (f"; the median bug after {statistics.median(medians):,.0f} actions" if medians else ""),
        soft_wrap=True,
    )


def _figure(number: float | None) -> Text:
    return Text("-", "red") if number is None else Text(f"{number:,.0f}")


def print_bug_traces(console: Console, records: Sequence[Record]) -> None:
    """The reduced trace of each bug that was found."""
    for record in records:
        if record.reduced is not None:
            print_failure(console, record.bug.id, record.reduced, replay=None)


def print_probes(console: Console, reached: Sequence[Reached], actions: int) -> None:
    """A row a probe: how often it was reached, and the smallest trace that reaches it."""
    table = Table(box=None, pad_edge=False)
    table.add_column("probe", no_wrap=True)
    table.add_column("times", justify="right")
    table.add_column("the smallest trace that reaches it", overflow="fold")
    for each in reached:
        table.add_row(
            each.probe,
            f"{each.times:,}" if each.times else Text("never", "red"),
            _smallest(each.smallest) if each.smallest else "",
        )
    console.print(table)
    times = sum(each.times > 0 for each in reached)
    console.print(f"{times} of {len(reached)} probes reached in {counted(actions, 'action')}")


def _smallest(failure: Reaching) -> str:
    """A trace in a few words."""
    steps = "; ".join(map(describe_action, failure.actions))
    if failure.configuration:
        return f"{steps} ({describe_configuration(failure.configuration)})"
    return steps


OTHER_TARGETS = {
    "process": "any program that speaks the protocol (docs/protocol.md); --command names it.",
    "incminimark": "PyPy's collector, untranslated, under Python 2.7; "
    "--source names the RPython tree, --python the interpreter.",
    "jemalloc": "the stock libjemalloc.so.2 of jemalloc 5.3.0.",
    "gperftools, gperftools-as-documented": "the stock libtcmalloc.so.4 of gperftools 2.10, "
    "as it is and as it is said to be.",
}
"""What the references are not, in the order in which people read of them."""


def print_targets(console: Console, contracts: Mapping[str, Contract]) -> None:
    """The targets, what may be configured, and the known bugs that can be planted.

    `contracts` are those of the references, by name.
    """
    first = contracts[REFERENCE]
    _print_entry(console, REFERENCE, "gcmodel, in this process. Settings of a trace's header:")
    _print_settings(console, first.settings)
    console.print(f"sampling period in bytes: {first.sampling.period_bytes}")
    console.print()
    console.print("The same under the rules of other samplers:")
    for name, contract in contracts.items():
        if name != REFERENCE:
            console.print()
            _print_kin(console, name, contract, first)
    for name, what in OTHER_TARGETS.items():
        console.print()
        _print_entry(console, name, what)
    console.print()
    console.print(
        "These need their libraries; docs/jemalloc.md and docs/gperftools.md have the settings."
    )
    console.print()
    _print_entry(
        console, f"{REFERENCE}+BUG", "with a known bug planted; several may be joined by +."
    )
    for bug in KNOWN_BUGS.values():
        console.print(f"{bug.host}+{bug.id}")
        for line in (bug.what, f"{bug.source}; caught by {_either(bug.oracles)}"):
            console.print(Padding(line, (0, 0, 0, 4)))


def _print_entry(console: Console, name: str, what: str) -> None:
    console.print(Text.assemble((name, "bold"), f": {what}"))


def _print_kin(console: Console, name: str, contract: Contract, first: Contract) -> None:
    """A reference under the rules of another sampler, told by what it does not share."""
    own = [each for each in contract.settings if each not in first.settings]
    missing = [each.name for each in first.settings if each not in contract.settings]
    if len(missing) == len(first.settings):
        whose = "settings"
    else:
        without = f" but {', '.join(missing)}" if missing else ""
        whose = f"the settings of {REFERENCE}{without}, and"
    _print_entry(console, name, whose)
    _print_settings(console, own)


def _print_settings(console: Console, settings: Iterable[Setting]) -> None:
    table = Table("setting", "legal values", "default", box=None, pad_edge=False)
    for each in settings:
        legal = each.legal_values
        if each.at_most:
            legal += f", at most {each.at_most}"
        table.add_row(each.name, legal, str(each.default))
    console.print(table)


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)


def print_replays(
    console: Console, results: Iterable[tuple[Path, Failure | BadInputError | None, str]]
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
            console.print(f"passed {path}", soft_wrap=True)
        else:
            failed += 1
            print_failure(console, f"FAILED {path}", failure, replay)
    rest = f", {unusable} could not be replayed" if unusable else ""
    console.print(f"{passed} passed, {failed} failed{rest}")
    return failed, unusable
