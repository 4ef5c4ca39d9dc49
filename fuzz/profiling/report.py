"""What people read while something is profiled, and when it is done. It listens only."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.filesize import decimal
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fuzz.profiling.session import format_of
from fuzz.report import PLAIN_SECONDS, counted, short
from gcmodel.profiling.cost import Cost
from gcmodel.profiling.profile import Fate, Profile
from gcmodel.profiling.recorder import Recorder

LIVE_SECONDS = 0.25
TYPES_SHOWN = 8
MICROSECONDS = 1e6


class Progress:
    """A line while it works: live in a terminal, now and then elsewhere. A context, and a listener.

    It is called on the profiled program's own time, so it looks at the clock and mostly returns.
    """

    def __init__(self, console: Console, cost: Cost) -> None:
        self._console = console
        self._allocated_bytes = max(cost.allocated_bytes, 1)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._is_live = console.is_terminal
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
    console: Console, profile: Profile, cost: Cost, seconds: float | None, recorded_bytes: int
) -> None:
    """What the profile took, in `seconds`, or None if it was interrupted."""
    if seconds is None:
        console.print(f"[yellow]interrupted after {profile.ended_us / MICROSECONDS:.1f} s[/]")
        return
    allocated, recorded = decimal(cost.allocated_bytes), decimal(recorded_bytes)
    overhead = (
        f" in {cost.seconds:.2f} s; sampled in {seconds:.2f} s: "
        f"overhead {seconds / cost.seconds:.2f}"
        if cost.seconds
        else ""
    )
    console.print(f"allocated {allocated}{overhead}; {recorded} recorded", soft_wrap=True)


def print_profile(console: Console, profile: Profile) -> None:
    """The totals of a profile, and its types."""
    header = profile.header
    distances = "at random, on average" if header.is_random else "exactly"
    hits = sum(sample.hits for sample in profile.samples)
    console.print(
        f"[bold]{escape(header.program)}[/]: {counted(hits, 'sample')}, {distances} "
        f"{header.period_bytes:,} bytes apart, stand for {decimal(profile.weight_bytes)}; "
        f"{counted(len(profile.minor_collections), 'minor collection')}",
        soft_wrap=True,
    )
    if profile.time_samples:
        console.print(f"{counted(len(profile.time_samples), 'sample')} by time")
    if profile.samples:
        console.print(_types(profile))
    if not profile.is_complete:
        console.print("[yellow]the recording ends early: it was interrupted or killed[/]")


def _types(profile: Profile) -> Table:
    """A row a type, the largest first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("type", no_wrap=True)
    for column in ("bytes", "share", *Fate):
        table.add_column(str(column), justify="right", no_wrap=True)
    by_type: Counter[str] = Counter()
    by_fate: Counter[tuple[str, Fate]] = Counter()
    for sample in profile.samples:
        by_type[sample.type] += sample.weight_bytes
        by_fate[sample.type, sample.fate] += sample.weight_bytes
    total = by_type.total()
    for name, weight in by_type.most_common(TYPES_SHOWN):
        fates = (f"{by_fate[name, fate] / weight:.0%}" for fate in Fate)
        table.add_row(name, decimal(weight), f"{weight / total:.1%}", *fates)
    return table


def print_written(console: Console, paths: Sequence[Path]) -> None:
    """Which files there are now, and what opens them."""
    for path in paths:
        its_format = format_of(path)
        assert its_format is not None, "the outputs were checked"
        console.print(f"{escape(str(path))}: {its_format.opened_by}", soft_wrap=True)
