"""The time of an action on each target, for two versions of gcfuzz.

    python benchmarks/targets.py OLD NEW [--target NAME]...

OLD and NEW are two installed commands, `gcfuzz` of two virtual environments. They run the same
session in turns. The processor time is that of all processes together: harness, driver and
runtime. The wall time depends on what else runs. A session of one action, which also takes the
self-check, is subtracted. Invariant: a session runs in a new folder without PYTHONPATH, so each
command imports its own code.
"""

from __future__ import annotations

import ctypes
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

TARGETS = ("jemalloc", "gperftools", "go", "ocaml", "v8", "reference")
Times = tuple[float, float]
"""Of a processor, and of the wall."""
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of what a session's programs leave behind when they end.

    The time of a process only counts in the parent that waits for it. A driver that is ended does
    not wait for its mutator.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_seconds() -> float:
    """The processor seconds of all children that have ended, and of their children."""
    with suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def session_seconds(command: Path, target: str, actions: int, seed: int) -> Times:
    """The seconds of a session. Raises CalledProcessError if it has a failure."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    before, started_at = children_seconds(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(  # noqa: S603 - the user's two commands
            [command, "run", "--target", target, "--actions", f"{actions}", "--seed", f"{seed}"],
            check=True,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        wall = time.monotonic() - started_at
    return children_seconds() - before, wall


def microseconds(command: Path, target: str, actions: int, seed: int) -> Times:
    """The microseconds of an action."""
    least = session_seconds(command, target, 1, seed)
    whole = session_seconds(command, target, actions + 1, seed)
    processor, wall = ((all_ - one) / actions * 1e6 for all_, one in zip(whole, least, strict=True))
    return processor, wall


def table_of(pairs: dict[str, list[tuple[Times, Times]]]) -> Table:
    """The medians of each target. The ratio is the median of the pairs' ratios."""
    table = Table("target", "time", "old, µs", "new, µs", "times as fast", "from", "to")
    for target, both in pairs.items():
        for index, kind in enumerate(("processor", "wall")):
            times = [(old[index], new[index]) for old, new in both]
            ratios = [old / new for old, new in times]
            medians = map(statistics.median, zip(*times, strict=True))
            table.add_row(
                *(target, kind),
                *(f"{each:.1f}" for each in medians),
                *(f"{each:.2f}" for each in (statistics.median(ratios), min(ratios), max(ratios))),
            )
    return table


EXECUTABLE = click.Path(exists=True, dir_okay=False, executable=True, path_type=Path)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("old", type=EXECUTABLE)
@click.argument("new", type=EXECUTABLE)
@click.option("--target", "targets", multiple=True, default=TARGETS, show_default=True)
@click.option("--pairs", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--actions", type=click.IntRange(min=1), default=20_000, show_default=True)
def main(old: Path, new: Path, targets: Sequence[str], pairs: int, actions: int) -> None:
    """Print how many times as fast NEW is as OLD, on each target."""
    adopt_orphans()
    old, new = old.absolute(), new.absolute()
    found: dict[str, list[tuple[Times, Times]]] = {target: [] for target in targets}
    for seed in track(range(1, pairs + 1), console=Console(stderr=True)):
        for target, times in found.items():
            one, two = (microseconds(each, target, actions, seed) for each in (old, new))
            times.append((one, two))
    Console().print(table_of(found))


if __name__ == "__main__":
    main()
