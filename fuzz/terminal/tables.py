"""What is drawn: a bar while something is counted, and tables of bugs, probes and targets."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
from rich.console import Console, Group
from rich.padding import Padding
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from fuzz.plain import LINE_MAX, counted, plain
from fuzz.problems import BadInputError
from fuzz.protocol.contract import Contract, Setting
from fuzz.protocol.target import contract_of
from fuzz.run import Reaching
from fuzz.sessions.hunt import Record
from fuzz.sessions.reach import Reached
from fuzz.targets import INCMINIMARK, PROCESS, REFERENCE, TargetOptions, make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.targets.references.kin import REFERENCES
from fuzz.terminal.report import describe_action, describe_configuration, print_failure
from fuzz.terminal.standard_streams import Screen

BUG_COLUMNS = max(map(len, KNOWN_BUGS))
ORACLE_COLUMNS = len("transparency")
"""What a row of `gcfuzz bugs` needs to be legible in 80 columns."""


class PlainConsole(Console):
    """Standard output. Every string is shown as it is: none has markup or controls.

    What is to look otherwise is printed with a style, or is a Text of this program's own words.
    """

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    @override
    def render_str(self, text: str, **looks: Any) -> Text:
        """All strings come here, those in tables and groups as well."""
        return super().render_str(plain(text, LINE_MAX), **looks)


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
                "seen_in": record.bug.seen_in,
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


def print_bugs(
    screen: Screen, records: Sequence[Record], engine: str, seeds: int, *, with_traces: bool
) -> None:
    """A row a bug: who caught it, after how many actions, how short its trace became."""
    table = Table(box=None, pad_edge=False)
    table.add_column("bug, and where it happened", overflow="fold", min_width=BUG_COLUMNS)
    table.add_column("caught by", overflow="fold", max_width=ORACLE_COLUMNS)
    for name in ("median", "worst", "length"):
        table.add_column(name, justify="right", no_wrap=True)
    for record in records:
        length = len(record.reduced.actions) if record.reduced else "-"
        table.add_row(
            Group(record.bug.id, Padding(Text(record.bug.seen_in, "dim"), (0, 0, 0, 2))),
            ", ".join(record.oracles) or "nobody",
            *(_figure(each) for each in (record.actions_median, record.actions_worst)),
            f"{length} ({record.bug.shortest})",
            style="" if record.found else "red",
        )
    screen.console.print(table)
    screen.print("median, worst: actions until found · length: after reduction (the shortest)")
    found = sum(record.found for record in records)
    medians = [record.actions_median for record in records if record.actions_median is not None]
    screen.print(
        f"{found} of {counted(len(records), 'bug')} found by the {engine} engine with every one of "
        f"{counted(seeds, 'seed')}"
        + (f"; the median bug after {statistics.median(medians):,.0f} actions" if medians else "")
    )
    for record in records if with_traces else ():
        if record.reduced is not None:
            print_failure(screen, record.bug.id, record.reduced, replay=None)


def _figure(number: float | None) -> Text:
    return Text("-", "red") if number is None else Text(f"{number:,.0f}")


def print_probes(console: Console, reached: Sequence[Reached], actions: int) -> None:
    """A row a probe: how often it was reached; below it the smallest trace that reaches it."""
    table = Table(box=None, pad_edge=False)
    table.add_column("probe, and the smallest trace that reaches it", overflow="fold")
    table.add_column("times", justify="right", no_wrap=True)
    for each in reached:
        table.add_row(each.probe, f"{each.times:,}" if each.times else Text("never", "red"))
        if each.smallest:
            table.add_row(Padding(Text(_smallest(each.smallest), "dim"), (0, 0, 0, 2)))
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
    "process": "any program that speaks the protocol (`gcfuzz help protocol`); --command names it.",
    "incminimark": "PyPy's collector, untranslated, under Python 2.7; "
    "--source names the RPython tree, --python the interpreter.",
    "hotspot, hotspot-as-documented": "a stock Java virtual machine of version 17 to 25, "
    "as it is and as it is said to be; --java names it.",
    "hotspot-at-once": "the same, with threads that run at the same time.",
    "dotnet, dotnet-as-documented": "the stock runtime of .NET 10, as it is and as it is said to "
    "be; --dotnet names a program that carries it, or an SDK.",
    "ocaml": "Memprof of a stock OCaml 4.13; --ocaml names its compiler.",
    "go, go-as-documented": "the runtime of a stock Go, as it is and as it is said to be; "
    "--go names the program go.",
    "v8": "V8's sampling heap profiler, in a stock Node 20; --node names one.",
    "jemalloc": "the stock libjemalloc.so.2 of jemalloc 5.3.0.",
    "gperftools, gperftools-as-documented": "the stock libtcmalloc.so.4 of gperftools 2.10, "
    "as it is and as it is said to be.",
    "tcmalloc": "Google's TCMalloc, in a program that has it; --library names that.",
    "ddtrace, ddtrace-as-documented": "Python's profiler, as it is and as it is said to be; "
    "--python names an interpreter that has it.",
    "scalene, scalene-as-documented": "another, likewise.",
}
"""What the references are not, in the order in which people read of them."""


def print_targets(console: Console) -> None:
    """The targets, what may be configured, and the known bugs that can be planted."""
    contracts = {name: make_target(name).start({}) for name in REFERENCES}
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
        "These need their libraries. `gcfuzz help hotspot` has the settings, and so have the pages "
        "dotnet, ocaml, go, v8, jemalloc, gperftools, tcmalloc and python-profilers."
    )
    console.print()
    _print_entry(
        console, f"{REFERENCE}+BUG", "with a known bug planted; several may be joined by +."
    )
    for bug in KNOWN_BUGS.values():
        console.print(f"{bug.host}+{bug.id}")
        for line in (bug.what, f"{bug.seen_in}; caught by {' or '.join(bug.oracles)}"):
            console.print(Padding(line, (0, 0, 0, 4)))


def print_available(console: Console, paths: TargetOptions) -> None:
    """Which of the targets that are somebody else's can be run here, and what the rest need.

    `paths` says where they lie, as for `run`.
    """
    table = Table(box=None, pad_edge=False)
    for name in ("target", "version", "what to install"):
        table.add_column(name, overflow="fold")
    for names in OTHER_TARGETS:
        name, *_ = names.split(", ")
        if name == PROCESS:
            continue
        try:
            table.add_row(name, _version_of(name, paths))
        except BadInputError as problem:
            table.add_row(name, Text("none", "red"), str(problem))
    console.print(table)


def _version_of(name: str, paths: TargetOptions) -> str:
    """Raises BadInputError if the target cannot be run."""
    try:
        return contract_of(make_target(name, paths)).version
    except BadInputError:
        if name != INCMINIMARK or paths.python is None:
            raise
    # --python may be the one that has a profiler, and no Python 2.7.
    return _version_of(name, attrs.evolve(paths, python=None))


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
