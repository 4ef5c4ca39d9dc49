"""What people read of sessions, replays and targets. It listens, and changes nothing."""

from __future__ import annotations

import json
import os
import shlex
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from fuzz.actions import NAMES, Action
from fuzz.contract import Contract, Setting
from fuzz.corpus import Find
from fuzz.hunt import Record
from fuzz.reach import Reached
from fuzz.run import Failure
from fuzz.session import (
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
PLAIN_SECONDS = 10.0
"""How often progress is printed where there is no terminal to redraw a line in."""


class Screen(Console):
    """Standard output. A reader that leaves (`| head`) does not change how the command ends."""

    def __init__(self) -> None:
        super().__init__(highlight=False)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    console.print(f"[bold red]{escape(title)}[/]", soft_wrap=True)
    config = "config", describe_configuration(failure.configuration)
    for name, text in (*describe_failure(failure), config):
        console.print(f"  {name:<9} {escape(text)}", soft_wrap=True)
    last = len(failure.actions)
    for number, action in enumerate(failure.actions, 1):
        line = f"{number:>5}  {describe_action(action)}"
        if number == last:
            line = f"  →{line[1:]}   ← the culprit"
            console.print(Text(line, style="bold"), soft_wrap=True)
        else:
            console.print(Text(f"  {line}"), soft_wrap=True)
    if replay is not None:
        console.print(f"  replay    [bold]{escape(replay)}[/]", soft_wrap=True)


def replay_command(path: Path, options: TargetOptions, target: str | None = None) -> str:
    """What to type to replay a trace, on its own target or on another."""
    target_words = [] if target is None else ["--target", target]
    return shlex.join(["gcfuzz", "replay", str(path), *target_words, *options.words])


def print_find(console: Console, number: int, find: Find, options: TargetOptions) -> None:
    """A find of a session."""
    title = f"FAILURE {number}: {' / '.join(find.failure.identity)}"
    if not find.reproduced:
        title += " (seen once, NOT reproduced)"
    print_failure(console, title, find.failure, replay_command(find.path, options))
    if options.command:
        alone = f"{shlex.join(options.command)} < {shlex.quote(str(find.path))}"
        console.print(f"  alone     {escape(alone)}", soft_wrap=True)
    found = find.trace.header.found
    if found is not None:
        length = found.reduced_from
        was = f", reduced from {counted(length, 'action')}" if length is not None else ""
        console.print(f"  found     by the {found.engine} engine{was}")


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
        "trace": find.path.name,
    }


def write_summary(path: Path, finished: Finished) -> None:
    """Write the summary as JSON."""
    path.write_text(json.dumps(summary_of(finished), indent=2) + "\n", encoding="utf-8")


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
                    f"[yellow]worker {event.worker} died ({event.how}); "
                    "the session goes on without it[/]",
                    soft_wrap=True,
                )
            case Finished():
                self._finish(event)

    def _start(self, plan: Plan, bugs_checked: int) -> None:
        budget = f"{plan.seconds:g} s" if plan.actions is None else f"{plan.actions} actions"
        self._console.print(
            f"gcfuzz: target {escape(' '.join([plan.target, *plan.options.words]))}, "
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
        self._console.print(
            f"[bold]{counted(len(finished.finds), 'failure')}[/] in {finished.seconds:.1f} s; "
            f"{STOPPED[finished.stop_reason]}"
        )


def counted(number: int, noun: str) -> str:
    """So many of something, in words."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _progress_line(progress: Progress) -> str:
    totals = progress.totals
    speed = totals.actions / max(progress.seconds, 0.001)
    return (
        f"{progress.seconds:.0f} s · {short(totals.traces)} traces · {short(speed)} actions/s · "
        f"{short(totals.samples)} samples · probes {len(totals.probes)}/{progress.probes} · "
        f"{counted(progress.failures, 'failure')} · last new {progress.seconds_since_new:.0f} s ago"
    )


def short(number: float) -> str:
    """A number in at most five characters."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 10 * size:
            return f"{number / size:.0f}{unit}"
    return f"{number:.0f}"


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
            Group(record.bug.id, Padding(f"[dim]{escape(record.bug.source)}[/]", (0, 0, 0, 2))),
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


def _figure(number: float | None) -> str:
    return "[red]-[/]" if number is None else f"{number:,.0f}"


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
            f"{each.times:,}" if each.times else "[red]never[/]",
            _smallest(each.smallest) if each.smallest else "",
        )
    console.print(table)
    times = sum(each.times > 0 for each in reached)
    console.print(f"{times} of {len(reached)} probes reached in {counted(actions, 'action')}")


def _smallest(failure: Failure) -> str:
    """A trace in a few words."""
    steps = "; ".join(map(describe_action, failure.actions))
    if failure.configuration:
        return f"{steps} ({describe_configuration(failure.configuration)})"
    return steps


def print_targets(console: Console, contracts: Mapping[str, Contract]) -> None:
    """The targets, what may be configured, and the known bugs that can be planted.

    `contracts` are those of the references, by name.
    """
    first = contracts[REFERENCE]
    console.print("[bold]reference[/]: gcmodel, in this process. Settings of a trace's header:")
    _print_settings(console, first.settings)
    console.print(f"sampling period in bytes: {first.sampling.period_bytes}")
    console.print("\nThe same under the rules of other samplers:")
    for name, contract in contracts.items():
        if name != REFERENCE:
            _print_kin(console, name, contract, first)
    console.print(
        "\n[bold]process[/]: any program that speaks the protocol (docs/protocol.md); "
        "--command names it."
    )
    console.print(
        "\n[bold]incminimark[/]: PyPy's collector, untranslated, under Python 2.7; "
        "--source names the RPython tree, --python the interpreter."
    )
    console.print("\n[bold]jemalloc[/]: the stock libjemalloc.so.2 of jemalloc 5.3.0.")
    console.print(
        "\n[bold]gperftools[/], [bold]gperftools-as-documented[/]: the stock libtcmalloc.so.4 of "
        "gperftools 2.10, as it is and as it is said to be."
    )
    console.print(
        "\nThese need their libraries; docs/jemalloc.md and docs/gperftools.md have the settings."
    )
    console.print("\n[bold]reference+BUG[/]: with a known bug planted; several may be joined by +.")
    for bug in KNOWN_BUGS.values():
        console.print(f"{bug.host}+{bug.id}")
        for line in (bug.what, f"{bug.source}; caught by {_either(bug.oracles)}"):
            console.print(Padding(line, (0, 0, 0, 4)))


def _print_kin(console: Console, name: str, contract: Contract, first: Contract) -> None:
    """A reference under the rules of another sampler, told by what it does not share."""
    own = [each for each in contract.settings if each not in first.settings]
    missing = [each.name for each in first.settings if each not in contract.settings]
    if len(missing) == len(first.settings):
        whose = "settings"
    else:
        without = f" but {', '.join(missing)}" if missing else ""
        whose = f"the settings of {REFERENCE}{without}, and"
    console.print(f"\n[bold]{name}[/]: {whose}")
    _print_settings(console, own)


def _print_settings(console: Console, settings: Iterable[Setting]) -> None:
    table = Table("setting", "legal values", "default", box=None, pad_edge=False)
    for each in settings:
        legal = ", ".join(map(str, each.choices)) if each.choices else str(each.range)
        if each.at_most:
            legal += f", at most {each.at_most}"
        table.add_row(each.name, legal, str(each.default))
    console.print(table)


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)


def print_replays(console: Console, results: Iterable[tuple[Path, Failure | None, str]]) -> int:
    """A line a replayed trace, the failures in full; returns how many failed."""
    passed = failed = 0
    for path, failure, replay in results:
        if failure is None:
            passed += 1
            console.print(f"passed {path}", soft_wrap=True, highlight=False)
        else:
            failed += 1
            print_failure(console, f"FAILED {path}", failure, replay)
    console.print(f"{passed} passed, {failed} failed")
    return failed
