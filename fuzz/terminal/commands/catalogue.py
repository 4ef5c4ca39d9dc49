"""What there is: targets, known bugs, probes, the schema and the documentation."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from fuzz.plain import counted
from fuzz.problems import BadInputError
from fuzz.terminal.commands.group import WORKERS_MAX, cli, engine_option, workers_option
from fuzz.terminal.exit_codes import CLEAN, INCONCLUSIVE
from fuzz.terminal.screen import Screen
from fuzz.terminal.target_options import OneOf, TargetChoice, path_options, target_options

if TYPE_CHECKING:
    from fuzz.targets import TargetOptions

SEEDS_HUNTED, SEEDS_HUNTED_MAX = 20, 1000


@cli.command("targets")
@click.option(
    "--available",
    is_flag=True,
    help="List the real ones: the version of each that runs here, and what the others need.",
)
@path_options
def targets_command(available: bool, paths: TargetOptions) -> int:
    """List the targets, their settings, and the bugs that can be planted."""
    from fuzz.targets import NO_OPTIONS
    from fuzz.terminal import target_tables

    if available:
        target_tables.print_available(Screen().console, paths)
    elif paths != NO_OPTIONS:
        raise BadInputError(f"{paths.arguments[0]} needs --available")
    else:
        target_tables.print_targets(Screen())
    return CLEAN


@cli.command("schema")
def schema_command() -> int:
    """Print a JSON Schema of the lines of programs and trace files."""
    from fuzz.protocol.schema import schema

    click.echo(json.dumps(schema(), indent=1))
    return CLEAN


@cli.command("help")
@click.argument("page", required=False)
def help_command(page: str | None) -> int:
    """Show a page of the documentation, or list the pages."""
    from fuzz.terminal import pages

    if page is None:
        pages.print_pages(Screen())
    else:
        pages.print_page(Screen(), page)
    return CLEAN


@cli.command("bugs", hidden=True)
@click.argument(
    "bugs",
    metavar="[BUG]...",
    nargs=-1,
    type=OneOf("fuzz.targets.bugs.known_bugs", "KNOWN_BUGS", "`gcfuzz targets`"),
)
@engine_option
@click.option(
    "--seeds",
    type=click.IntRange(1, SEEDS_HUNTED_MAX),
    default=SEEDS_HUNTED,
    show_default=True,
    help="Hunt with the seeds from 1 to N.",
)
@workers_option(
    default=min(os.cpu_count() or 1, WORKERS_MAX),
    help="Number of processes.  [default: that of the processors]",
)
@click.option("--trace", "shows_trace", is_flag=True, help="Show each bug's reduced trace.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def bugs_command(  # noqa: PLR0913 - the options of the command
    bugs: tuple[str, ...], engine: str, seeds: int, workers: int, shows_trace: bool, as_json: bool
) -> int:
    """Hunt the known bugs: which oracle finds each, how soon, and how short its trace becomes."""
    from fuzz.protocol import lines as wire
    from fuzz.sessions.hunt import ACTIONS_MAX, HuntedBugs, hunt_all
    from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
    from fuzz.terminal import tables

    if shows_trace and as_json:
        raise BadInputError("--trace and --json are two output formats; give one of them")
    chosen = bugs or tuple(KNOWN_BUGS)
    if not as_json:
        what = f"{counted(len(chosen), 'bug')}, {counted(seeds, 'seed')} each"
        hunts = counted(len(chosen) * seeds, "hunt")
        Screen().print(f"{what}: {hunts}, each of {ACTIONS_MAX[engine]:,} actions at most")
    with tables.counting("hunts", len(chosen) * seeds) as progress:
        found = [*hunt_all(chosen, engine, seeds, workers, progress)]
    hunted = HuntedBugs(engine, seeds, tuple(bug for bug, _ in found))
    if as_json:
        click.echo(json.dumps(wire.unstructured(hunted), indent=2))
    else:
        traces = [failure for _, failure in found] if shows_trace else []
        tables.print_bugs(Screen(), hunted, traces)
    return CLEAN if all(bug.found for bug in hunted.bugs) else INCONCLUSIVE


@cli.command("probes", hidden=True)
@target_options
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--actions", type=click.IntRange(min=1), default=200_000, show_default=True)
@click.option(
    "--combinations",
    is_flag=True,
    help="Count which facts held at once, in pairs and triples, instead of probes.",
)
def probes_command(choice: TargetChoice, seed: int, actions: int, combinations: bool) -> int:
    """Count how often each probe is reached, and show its smallest trace."""
    from fuzz.protocol.target import contract_of
    from fuzz.reached.probes import probes_for
    from fuzz.sessions.reach import reach, reach_combinations, unplanned_facts
    from fuzz.terminal import tables

    fuzzed = choice.make()
    if combinations:
        held = reach_combinations(fuzzed, seed, actions)
        unplanned = unplanned_facts(contract_of(fuzzed))
        tables.print_combinations(Screen().console, held, unplanned, actions)
        return INCONCLUSIVE if any(each.missed for each in held) else CLEAN
    with tables.counting("probes", len(probes_for(contract_of(fuzzed)))) as progress:
        reached = []
        for each in reach(fuzzed, seed, actions):
            reached.append(each)
            progress()
    tables.print_probes(Screen().console, reached, actions)
    return CLEAN if all(each.times for each in reached) else INCONCLUSIVE
