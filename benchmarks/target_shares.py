"""Where the processor time of an action goes on a target: harness, pipe, driver and mutator.

    python benchmarks/target_shares.py [--target NAME]... [--actions N]

Each target has one session in this process, and a second one under cProfile, which gives the share
of the pipe in the harness. A driver in Python may have the runtime in its own process. Invariant:
only processes are counted that are alive at the end, with those that they have waited for.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Sequence
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.protocol.target import FullTarget, full
from fuzz.reached.probes import ProbeCounter
from fuzz.targets import TargetOptions, make_target

TARGETS = ("jemalloc", "gperftools", "go", "ocaml", "v8", "dotnet", "hotspot")
OF_PIPE = ("conversation.py", "lines.py", "program.py", "earlier.py")
"""The modules that write, send, receive and read lines."""
CALLS_OF_PIPE = ("poll", "posix.read", "posix.write")


def seconds_of(processes: Sequence[psutil.Process]) -> float:
    """The processor seconds of these processes, and of the children that they waited for."""
    return sum(sum(each.cpu_times()[:4]) for each in processes)


def programs() -> tuple[list[psutil.Process], list[psutil.Process]]:
    """The drivers in Python, and the other processes below this one."""
    drivers: list[psutil.Process] = []
    others: list[psutil.Process] = []
    for each in psutil.Process().children(recursive=True):
        is_driver = any(word.startswith("fuzz.targets") for word in each.cmdline())
        (drivers if is_driver else others).append(each)
    return drivers, others


def run(target: FullTarget, actions: int, seed: str) -> int:
    """How many traces there were."""
    return len([*slices_of(RandomEngine(target, seed), actions, ProbeCounter())])


def share_of_pipe(target: FullTarget, actions: int) -> float:
    """The share of the harness's time in which lines are written, sent, received and read."""
    profile = cProfile.Profile(time.process_time)
    profile.runcall(run, target, actions, "2")
    total = pipe = 0.0
    for (file, _, name), (_, _, seconds, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        total += seconds
        is_call = any(call in name for call in CALLS_OF_PIPE)
        pipe += seconds * (is_call or Path(file).name in OF_PIPE)
    return pipe / total


def row_of(name: str, actions: int) -> Sequence[str]:
    """The cells of a target's row."""
    target = full(make_target(name, TargetOptions(timeout_seconds=60)))
    target.start({})
    started = [seconds_of(each) for each in programs()]
    before = time.process_time()
    traces = run(target, actions, "1")
    harness = (time.process_time() - before) / actions * 1e6
    ends = [seconds_of(each) for each in programs()]
    driver, mutator = (
        (end - start) / actions * 1e6 for end, start in zip(ends, started, strict=True)
    )
    pipe = harness * share_of_pipe(target, actions)
    target.restart()
    parts = (harness - pipe, pipe, driver, mutator)
    return [
        name,
        f"{sum(started) * 1000:.0f}",
        f"{actions / traces:.0f}",
        f"{sum(parts):.0f}",
        *(f"{each:.0f} ({each / sum(parts):.0%})" for each in parts),
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--target", "targets", multiple=True, default=TARGETS, show_default=True)
@click.option("--actions", type=click.IntRange(min=1), default=10_000, show_default=True)
def main(targets: Sequence[str], actions: int) -> None:
    """Print a row for each target."""
    table = Table("target", "start, ms", "actions a trace", "µs an action")
    for part in ("harness", "pipe", "driver", "mutator"):
        table.add_column(part)
    for name in track(targets, console=Console(stderr=True)):
        table.add_row(*row_of(name, actions))
    Console().print(table)


if __name__ == "__main__":
    main()
