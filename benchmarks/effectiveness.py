"""How many actions gcfuzz needs to find the known bugs, with and without each of its ideas.

    python benchmarks/effectiveness.py [--seeds N]

Each known bug of the target `reference` is planted alone. Three strategies look for it: gcfuzz's
random engine, the same engine with one idea switched off, and plain state machines without any of
these ideas. The result is the number of actions until the first failure, 20,000 at most. It is the
same on every machine. The processor seconds are printed too, since an idea may make each action
slower. An idea is worth something if the bugs are found later without it.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from types import ModuleType
from unittest.mock import patch

import attrs
import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fuzz.engines.random as random_engine
from fuzz.drawing import draw as drawing
from fuzz.drawing import members_drawn, rules, scenario_mutator, sizes
from fuzz.drawing.rules import RULES
from fuzz.drawing.scenario_mutator import ObjectGoneError, ScenarioMutator
from fuzz.drawing.situation import Choices, Situation
from fuzz.drawing.sizes import LENGTHS_MAX, NURSERIES_MAX
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol.actions import Action, CopyArray
from fuzz.protocol.contract import Setting
from fuzz.sessions.hunt import ACTIONS_MAX as HUNT_ACTIONS_MAX
from fuzz.sessions.hunt import hunt
from fuzz.sessions.worker import prepare_worker
from fuzz.targets import REFERENCE
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

BUGS = [bug.id for bug in KNOWN_BUGS.values() if bug.host == REFERENCE]
ACTIONS_MAX = HUNT_ACTIONS_MAX["random"]
SEEDS = 15
"""With fewer seeds chance makes more difference than most ideas do."""
WIDTH = 110

# What replaces an idea that is switched off: a uniform choice.


def uniform_bytes(situation: Situation, source: Choices) -> int:
    """Any size."""
    return source.between(0, NURSERIES_MAX * situation.contract.nursery_bytes)


def uniform_length(situation: Situation, source: Choices, kind: str) -> int:
    """Any length."""
    layout = situation.contract.layout.kinds[kind]
    bytes_max = NURSERIES_MAX * situation.contract.nursery_bytes
    most = (bytes_max - layout.fixed_bytes) // layout.item_bytes
    return source.between(0, min(most, LENGTHS_MAX[kind]))


def uniform_period(situation: Situation, source: Choices) -> int:
    """Any period."""
    legal = situation.contract.sampling.period_bytes
    bytes_max = NURSERIES_MAX * situation.contract.nursery_bytes
    return legal.nearest(source.between(legal.minimum, bytes_max))


def uniform_configuration(settings: Sequence[Setting], source: Choices) -> dict[str, int]:
    """Any configuration."""
    drawn: dict[str, int] = {}
    for setting in sorted(settings, key=lambda setting: setting.at_most is not None):
        legal = setting.range
        most = drawn[setting.at_most] if setting.at_most else legal.maximum
        drawn[setting.name] = (
            source.pick(setting.choices)
            if setting.choices
            else legal.nearest(source.between(legal.minimum, most))
        )
    return drawn


def any_slot(slots: Sequence[int], source: Choices) -> int:
    """Any of the slots."""
    return source.pick(slots)


def any_value(situation: Situation, source: Choices) -> int | None:
    """Any slot, or null."""
    value = source.between(-1, len(situation.roots) - 1)
    return None if value < 0 else value


def any_field(mutator: ScenarioMutator, obj: ShadowObject) -> int:
    """Any field or item."""
    if not obj.refs:
        raise ObjectGoneError
    return mutator.choices.below(len(obj.refs))


def any_copy(situation: Situation, source: Choices, arrays: Sequence[int]) -> Action:
    """A copy of any items of any array to any place in any array."""
    origin, heir = source.pick(arrays), source.pick(arrays)
    origin_length, heir_length = (len(situation.roots[slot].refs) for slot in (origin, heir))
    length = source.between(1, min(origin_length, heir_length))
    origin_start = source.between(0, origin_length - length)
    return CopyArray(origin, heir, origin_start, source.between(0, heir_length - length), length)


RULES_WITH_ANY_COPY = tuple(
    attrs.evolve(rule, draw=any_copy) if rule.action is CopyArray else rule for rule in RULES
)

# The product has no switches. A benchmark replaces a module's function or constant instead. A name
# that does not exist is an error.

Switch = tuple[ModuleType | type, str, object]

IDEAS: dict[str, tuple[Switch, ...]] = {
    # Short sequences of actions that only matter together.
    "scenarios": ((drawing, "draw_from_scenario", lambda situation, source: None),),
    # Sizes that just fit into the nursery or just reach the sample point, and one more.
    "sizes at edges": (
        (sizes, "edge_bytes", uniform_bytes),
        (members_drawn, "edge_bytes", uniform_bytes),
    ),
    # The bytes left in the nursery, a few nurseries, and short periods.
    "periods at edges": (
        (rules, "period", uniform_period),
        (scenario_mutator, "period", uniform_period),
        (scenario_mutator, "short_period", uniform_period),
    ),
    # It is young, so it is chosen more often than others.
    "the newest root": ((rules, "_recent", any_slot),),
    # The last item of an array, items that are not null, references to pinned objects.
    "items worth it": (
        (rules, "_field", lambda length, source: source.below(length)),
        (rules, "_value", any_value),
        (rules, "RULES", RULES_WITH_ANY_COPY),
        (ScenarioMutator, "field", any_field),
    ),
    # Some rules are drawn more often than others.
    "weights": ((random_engine, "menu_of", list),),
    # Each trace draws its own configuration. Without it, all have the defaults.
    "configurations": ((random_engine, "draw_configuration", lambda settings, source: {}),),
    # Some traces run a second time, changed: transparency, invariance, determinism.
    "reruns": ((random_engine, "rerun_some", lambda target, run, number: None),),
}
"""Each idea, and what switches it off."""

PLAIN = (
    *IDEAS["scenarios"],
    (rules, "any_length", uniform_length),
    *IDEAS["periods at edges"],
    *IDEAS["the newest root"],
    *IDEAS["items worth it"],
    *IDEAS["weights"],
)
"""Makes gcfuzz a plain state machine, with all of its rules and oracles."""


@attrs.frozen
class Strategy:
    """A way to look for bugs."""

    hunt: Callable[[str, int], int | None]
    """Returns the number of actions for a bug and a seed; None if the bug is not found."""
    switched_off: tuple[Switch, ...] = ()


def hunt_with_gcfuzz(bug: str, seed: int) -> int | None:
    """What `gcfuzz bugs` does."""
    return hunt(bug, "random", seed).actions


def hunt_with_other_seeds(bug: str, seed: int) -> int | None:
    """The same with other seeds. The difference shows what is chance."""
    return hunt_with_gcfuzz(bug, -seed)


GCFUZZ = "gcfuzz"
COMPARED = {
    GCFUZZ: Strategy(hunt_with_gcfuzz),
    "plain": Strategy(
        hunt_with_gcfuzz, (*PLAIN, (random_engine, "draw_configuration", uniform_configuration))
    ),
    "plain, tiny": Strategy(hunt_with_gcfuzz, (*PLAIN, *IDEAS["configurations"])),
}
"""`plain` draws any configuration; `plain, tiny` has the reference's nursery of 256 bytes."""
WITHOUT = {"(nothing, other seeds)": Strategy(hunt_with_other_seeds)} | {
    idea: Strategy(hunt_with_gcfuzz, off) for idea, off in IDEAS.items()
}
STRATEGIES = COMPARED | WITHOUT


@attrs.frozen
class Search:
    """One search: the actions until the bug was found, and the processor seconds."""

    actions: int | None
    """None if the bug was not found."""
    seconds: float


def search(strategy_name: str, bug: str, seed: int) -> Search:
    """Look for the bug with that strategy, in a worker."""
    strategy = STRATEGIES[strategy_name]
    with ExitStack() as switches:
        for module, name, instead in strategy.switched_off:
            switches.enter_context(patch.object(module, name, instead))
        began = time.process_time()
        actions = strategy.hunt(bug, seed)
        return Search(actions, time.process_time() - began)


Found = dict[str, list[Search]]
"""The searches of one strategy for each bug, one per seed."""


def search_all(bugs: Sequence[str], seeds: int) -> dict[str, Found]:
    """Run all searches, on all cores."""
    found: dict[str, Found] = {name: {bug: [] for bug in bugs} for name in STRATEGIES}
    with ProcessPoolExecutor(
        mp_context=multiprocessing.get_context("spawn"),
        max_workers=os.cpu_count(),
        initializer=prepare_worker,
    ) as pool:
        pending = {
            pool.submit(search, strategy, bug, seed): found[strategy][bug]
            for strategy in STRATEGIES
            for bug in bugs
            for seed in range(1, seeds + 1)
        }
        console = Console(stderr=True)
        for future in track(as_completed(pending), "searching", len(pending), console=console):
            pending[future].append(future.result())
    return found


# The tables.


def counted(searches: Iterable[Search]) -> list[int]:
    """The actions of each search. A bug that is not found counts with all of them."""
    return [ACTIONS_MAX if each.actions is None else each.actions for each in searches]


def missed(searches: Iterable[Search]) -> int:
    """The number of searches that did not find the bug."""
    return sum(each.actions is None for each in searches)


def is_mostly_found(searches: Sequence[Search]) -> bool:
    """Whether more than half of the searches found the bug."""
    return 2 * missed(searches) < len(searches)


def cell(searches: Sequence[Search]) -> str:
    """The median, and the number of seeds that found the bug unless all did."""
    median = f"{statistics.median(counted(searches)):,.0f}" if is_mostly_found(searches) else "-"
    found = len(searches) - missed(searches)
    partly = f"({found} of {len(searches)}) " if 0 < found < len(searches) else ""
    return partly + median


def figures(found: Found) -> list[str]:
    """The values of FIGURES: bugs found, median and mean of the actions, processor seconds."""
    actions = [counted(searches) for searches in found.values()]
    medians = [statistics.median(each) for each in actions]
    return [
        f"{sum(map(is_mostly_found, found.values()))}",
        f"{statistics.median(medians):,.0f}",
        f"{statistics.mean(statistics.mean(each) for each in actions):,.0f}",
        f"{sum(statistics.mean(each.seconds for each in found[bug]) for bug in found):.2f}",
    ]


def times_slower(found: Found, reference: Found) -> dict[str, float]:
    """For each bug, the mean number of actions, divided by that of `reference`."""
    return {
        bug: statistics.mean(counted(searches)) / statistics.mean(counted(reference[bug]))
        for bug, searches in found.items()
    }


FIGURES = ("found", "median", "mean", "processor s")


def table_of(*columns: str) -> Table:
    """A table with a column of text, and columns of numbers after it."""
    table = Table(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def print_bugs(console: Console, found: dict[str, Found]) -> None:
    """Print the actions until each strategy finds each bug."""
    table = table_of("median of actions until found", *COMPARED)
    for bug in found[GCFUZZ]:
        table.add_row(bug, *[cell(found[name][bug]) for name in COMPARED])
    table.add_section()
    columns = [figures(found[name]) for name in COMPARED]
    for name, *row in zip(FIGURES, *columns, strict=True):
        table.add_row(name, *row)
    console.print(table)


def print_ideas(console: Console, found: dict[str, Found]) -> None:
    """Print how much later the bugs are found without each idea."""
    table = table_of("gcfuzz without", *FIGURES, "slower")
    table.add_column("slowest of all")
    table.add_row("(nothing)", *figures(found[GCFUZZ]), "1.0")
    for name in WITHOUT:
        times = times_slower(found[name], found[GCFUZZ])
        mean = statistics.geometric_mean(times.values())
        worst = max(times, key=times.__getitem__)
        table.add_row(name, *figures(found[name]), f"{mean:.1f}", f"{times[worst]:,.0f} {worst}")
    console.print(table)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", type=click.IntRange(min=1), default=SEEDS, show_default=True)
@click.option("--bug", "bugs", type=click.Choice(BUGS), multiple=True, help="Only this one.")
def main(seeds: int, bugs: Sequence[str]) -> None:
    """Print how many actions each strategy needs to find the known bugs."""
    found = search_all(bugs or BUGS, seeds)
    console = Console(width=WIDTH, highlight=False)
    console.print(
        f"{len(found[GCFUZZ])} bugs, {seeds} seeds, at most {ACTIONS_MAX:,} actions; "
        f"a bug that is not found counts {ACTIONS_MAX:,}"
    )
    print_bugs(console, found)
    print_ideas(console, found)


if __name__ == "__main__":
    main()
