"""A progress bar, and tables of bugs and probes."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.padding import Padding
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from fuzz.failure import Failure
from fuzz.plain import counted
from fuzz.sessions.hunt import HuntedBugs
from fuzz.sessions.reach import Reached, ReachedCombinations
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.report import describe_action, describe_configuration, print_failure
from fuzz.terminal.screen import Screen

BUG_COLUMNS = max(map(len, KNOWN_BUGS))
ORACLE_COLUMNS = len("finalization,")
"""The widths that make `gcfuzz bugs` legible in 80 columns."""
MISSED_MAX, FACTS_MAX = 10, 5
"""How many missed combinations of a size are printed, and how many facts of the others."""


@contextmanager
def counting(what: str, steps: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar if this is a terminal; yields the function to call for a step."""
    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=steps)
        yield lambda: bar.advance(task)


def print_bugs(screen: Screen, hunted: HuntedBugs, traces: Sequence[Failure | None]) -> None:
    """Print a row for each bug: its oracles, the actions until it was found, its shortest trace.

    Print `traces` below the rows.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("bug, and where it happened", overflow="fold", min_width=BUG_COLUMNS)
    table.add_column("caught by", overflow="fold", max_width=ORACLE_COLUMNS)
    for name in ("median", "worst", "length"):
        table.add_column(name, justify="right", no_wrap=True)
    for bug in hunted.bugs:
        table.add_row(
            Group(bug.id, Padding(Text(bug.seen_in, "dim"), (0, 0, 0, 2))),
            ", ".join(bug.oracles) or "no oracle",
            *(
                Text("-", "red") if each is None else Text(f"{each:,.0f}")
                for each in (bug.actions_median, bug.actions_worst)
            ),
            f"{bug.reduced or '-'} ({bug.shortest})",
            style="" if bug.found else "red",
        )
    screen.console.print(table)
    screen.print("median, worst: actions until found · length: after reduction (the shortest)")
    found = sum(bug.found for bug in hunted.bugs)
    medians = [bug.actions_median for bug in hunted.bugs if bug.actions_median is not None]
    screen.print(
        f"{found} of {counted(len(hunted.bugs), 'bug')} found by the {hunted.engine} engine with "
        f"every one of {counted(hunted.seeds, 'seed')}"
        + (f"; the median bug after {statistics.median(medians):,.0f} actions" if medians else "")
    )
    for bug, failure in zip(hunted.bugs, traces, strict=False):
        if failure is not None:
            print_failure(screen, bug.id, failure, replay=None)


def print_probes(console: Console, reached: Sequence[Reached], actions: int) -> None:
    """Print a row for each probe: how often it was reached, and the smallest trace."""
    table = Table(box=None, pad_edge=False)
    table.add_column("probe, and the smallest trace that reaches it", overflow="fold")
    table.add_column("times", justify="right", no_wrap=True)
    for each in reached:
        table.add_row(each.probe, f"{each.times:,}" if each.times else Text("never", "red"))
        if each.smallest:
            trace = "; ".join(map(describe_action, each.smallest.actions))
            if each.smallest.configuration:
                trace += f" ({describe_configuration(each.smallest.configuration)})"
            table.add_row(Padding(Text(trace, "dim"), (0, 0, 0, 2)))
    console.print(table)
    times = sum(each.times > 0 for each in reached)
    console.print(f"{times} of {len(reached)} probes reached in {counted(actions, 'action')}")


def print_combinations(
    console: Console, reached: Sequence[ReachedCombinations], unplanned: Sequence[str], actions: int
) -> None:
    """Print which share of facts, pairs and triples held, which did not, and what no plan does."""
    console.print(f"In {counted(actions, 'action')} these held at once:")
    for each in reached:
        console.print(str(each))
    for each in reached:
        for combination in each.missed[:MISSED_MAX]:
            console.print(Text(f"missed: {', '.join(combination)}", "red"))
        if len(each.missed) > MISSED_MAX:
            console.print(_other_missed(each))
    names = ", ".join(unplanned) or "none of these facts"
    console.print(f"the planner cannot bring about, under this contract: {names}")


def _other_missed(reached: ReachedCombinations) -> str:
    """How many are not printed, and which facts most of the missed ones have."""
    facts = Counter(fact for combination in reached.missed for fact in combination)
    most = ", ".join(f"{fact} ({count})" for fact, count in facts.most_common(FACTS_MAX))
    more = f"and {len(reached.missed) - MISSED_MAX:,} more {reached.name}"
    return f"{more}; most of all missed have: {most}"
