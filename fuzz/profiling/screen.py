"""What people read while something is profiled, and when it is done. It listens only."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.filesize import decimal
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fuzz.plain import PLAIN_SECONDS, counted, short
from fuzz.profiling.outputs import format_of
from fuzz.profiling.profiled import Profiled
from gcmodel.profiling.cost import Cost
from gcmodel.profiling.profile import Fate, Profile
from gcmodel.profiling.recorder import Recorder

LIVE_SECONDS = 0.25
TYPES_SHOWN = 8
OUTSIDE = "outside"
"""Of the nursery."""
SHARES = *Fate, OUTSIDE
SHARES_IF_NARROW = 1
WIDE = 72
MICROSECONDS_PER_SECOND = 1e6


def first_run(console: Console, profiled: Profiled) -> AbstractContextManager[object]:
    """The program runs without a recorder, and a terminal says so."""
    line = f"{profiled.name}: once without a recorder"
    if profiled.is_quiet:
        # A refresh takes the program's time: one a second is enough to see that it works.
        return console.status(console.render_str(line), refresh_per_second=1)
    if console.is_terminal:
        console.print(line, soft_wrap=True)
    return nullcontext()


class ProfilingProgress:
    """A line while it works, live in a terminal that is free for it, or else now and then.

    It is a context, and a listener, which is called on the profiled program's own time: it looks at
    the clock and mostly returns. The terminal of a program that prints is the program's: a live
    line would tear its lines, and what it takes to move it would stand in the profile.
    """

    def __init__(self, console: Console, profiled: Profiled, cost: Cost) -> None:
        self._console = console
        self._allocated_bytes = max(cost.allocated_bytes, 1)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._is_live = console.is_terminal and profiled.is_quiet
        self._next_seconds = 0.0
        self._began_seconds = time.perf_counter()

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        self._began_seconds = time.perf_counter()
        self._next_seconds = self._began_seconds + (0 if self._is_live else PLAIN_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, recorder: Recorder) -> None:
        """A minor collection is over."""
        now = time.perf_counter()
        if now < self._next_seconds:
            return
        self._next_seconds = now + (LIVE_SECONDS if self._is_live else PLAIN_SECONDS)
        done = min(recorder.weight_bytes / self._allocated_bytes, 1)
        line = (
            f"{done:.0%} · {now - self._began_seconds:.0f} s · {short(recorder.hits)} samples of "
            f"{decimal(recorder.weight_bytes)} · {decimal(recorder.writer.written_bytes)} recorded"
        )
        if recorder.time_samples:
            line += f" · {short(recorder.time_samples)} samples by time"
        if self._is_live:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            self._console.print(line, soft_wrap=True)


def print_costs(
    console: Console, profile: Profile, cost: Cost, recorded_bytes: int, *, is_whole: bool
) -> None:
    """What the program allocated, and what the recording took; or that it was interrupted."""
    if not is_whole:
        seconds_recorded = profile.ended_us / MICROSECONDS_PER_SECOND
        console.print(f"interrupted after {seconds_recorded:.1f} s", style="yellow")
        return
    allocated, recorded = decimal(cost.allocated_bytes), decimal(recorded_bytes)
    console.print(f"allocated {allocated}; {recorded} recorded", soft_wrap=True)


def print_profile(console: Console, profile: Profile) -> None:
    """The totals of a profile, and its types."""
    header = profile.header
    console.print(header.program, style="bold", end="", soft_wrap=True)
    samples, weight = counted(profile.hits, "sample"), decimal(profile.weight_bytes)
    collections = counted(len(profile.minor_collections), "minor collection")
    console.print(
        f": {samples}, {_distances(profile)} bytes apart, stand for {weight}; {collections}",
        soft_wrap=True,
    )
    if header.time_period_us is not None:
        console.print(f"{counted(len(profile.time_samples), 'sample')} by time")
    if profile.samples:
        console.print(_types(profile, console.width))
    else:
        console.print("no object was sampled; a shorter --period may hit one", style="yellow")
    if not profile.is_complete:
        console.print(
            "the recording ends early: it was interrupted, killed or full", style="yellow"
        )


def _distances(profile: Profile) -> str:
    """How far the samples are apart; a program may have changed that."""
    header = profile.header
    how = "at random, on average" if header.is_random else "exactly"
    periods = {sample.period_bytes for sample in profile.samples} or {header.period_bytes}
    first, last = min(periods), max(periods)
    return f"{how} {first:,}" if first == last else f"{how} {first:,} to {last:,}"


def _types(profile: Profile, width: int) -> Table:
    """A row a type, the largest first. In a narrow terminal only the first columns are there."""
    table = Table(box=None, pad_edge=False)
    table.add_column("type", no_wrap=True)
    for column in ("bytes", "share"):
        table.add_column(column, justify="right", no_wrap=True)
    columns = SHARES if width >= WIDE else SHARES[:SHARES_IF_NARROW]
    for column in columns:
        # The heading may be broken between its words.
        table.add_column(column, justify="right", min_width=max(map(len, column.split())))
    by_type: Counter[str] = Counter()
    by_column: Counter[tuple[str, str]] = Counter()
    for sample in profile.samples:
        by_type[sample.type] += sample.weight_bytes
        by_column[sample.type, sample.fate] += sample.weight_bytes
        by_column[sample.type, OUTSIDE] += sample.weight_bytes if sample.is_outside else 0
    total = by_type.total()
    for name, weight in by_type.most_common(TYPES_SHOWN):
        shares = (f"{by_column[name, column] / weight:.0%}" for column in columns)
        table.add_row(name, decimal(weight), f"{weight / total:.1%}", *shares)
    return table


def print_written(console: Console, paths: Sequence[Path]) -> None:
    """Which files there are now, and what opens them."""
    for path in paths:
        console.print(f"{path}: {format_of(path).opened_by}", soft_wrap=True)
