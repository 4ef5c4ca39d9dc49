"""Prints the progress of a profile, and its figures. It changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Self

import attrs
from rich.console import Console
from rich.filesize import decimal
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fuzz.plain import PLAIN_SECONDS, counted, cut, short
from fuzz.profiling.choice import Profiled
from fuzz.profiling.outputs import format_of
from gcmodel.estimation.samples import Site
from gcmodel.profiling.cost import Cost
from gcmodel.profiling.estimates import CONFIDENCE, Estimate, estimates, peak_estimate
from gcmodel.profiling.profile import LIFETIMES, Profile
from gcmodel.profiling.recorder import Recorder
from gcmodel.profiling.text_formats import with_sites

LIVE_SECONDS = 0.25
SITES_SHOWN = 8
BOUNDS = f"low ({CONFIDENCE:.0%})", f"high ({CONFIDENCE:.0%})"
FIGURES_COLUMNS = 34
"""The width of the figures in a line."""
NAME_COLUMNS_MIN = 6
MICROSECONDS_PER_SECOND = 1e6


def first_run(console: Console, profiled: Profiled) -> AbstractContextManager[object]:
    """A context for the run without a recorder, which a terminal shows."""
    line = f"{profiled.name}: once without a recorder"
    if profiled.is_quiet:
        # Refreshes take time of the program: one per second is enough.
        return console.status(console.render_str(line), refresh_per_second=1)
    if console.is_terminal:
        console.print(line, soft_wrap=True)
    return nullcontext()


class ProfilingProgress:
    """A line of progress: live in a terminal, elsewhere every ten seconds.

    It is a context and a listener, which runs in the time of the profiled program. A program that
    prints has the terminal for itself, because a live line would break its lines.
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
    """Print what the program allocated, and the size of the recording; or the interruption."""
    if not is_whole:
        seconds_recorded = profile.ended_us / MICROSECONDS_PER_SECOND
        console.print(f"interrupted after {seconds_recorded:.1f} s", style="yellow")
        return
    allocated, recorded = decimal(cost.allocated_bytes), decimal(recorded_bytes)
    console.print(f"allocated {allocated}; {recorded} recorded", soft_wrap=True)


def print_profile(console: Console, profile: Profile, before: Profile | None) -> None:
    """Print how a profile was sampled, and its estimates, or their differences from `before`."""
    _print_heading(console, profile)
    if before is not None:
        console.print("against ", end="")
        _print_heading(console, before)
        _print_differences(console, profile, before)
    elif profile.samples:
        _print_figures(console, profile)
    else:
        console.print("no object was sampled; a shorter --period may hit one", style="yellow")


def _print_heading(console: Console, profile: Profile) -> None:
    header = profile.header
    console.print(header.program, style="bold", end="", soft_wrap=True)
    samples = counted(profile.hits, "sample")
    collections = counted(len(profile.minor_collections), "minor collection")
    how = "at random, on average" if header.is_random else "exactly"
    # A program may change the period.
    periods = {sample.period_bytes for sample in profile.samples} or {header.period_bytes}
    first, last = min(periods), max(periods)
    apart = f"{first:,}" if first == last else f"{first:,} to {last:,}"
    console.print(f": {samples}, {how} {apart} bytes apart; {collections}", soft_wrap=True)
    if header.time_period_us is not None:
        console.print(f"{counted(len(profile.time_samples), 'sample')} by time")
    if not profile.is_complete:
        console.print(
            "the recording ends early: it was interrupted, killed or full", style="yellow"
        )


def _print_figures(console: Console, profile: Profile) -> None:
    """Estimates: all samples, the live heap, types and fates, lifetimes, the largest sites."""
    peak_us = profile.peak_us()
    collections = sum(each.ended_us <= peak_us for each in profile.minor_collections)
    at_the_end = (((), sample) for sample in profile.live(profile.ended_us))
    sites = [*with_sites(profile)]
    total, by_type, by_site = (
        estimates(profile, ((site[:frames], sample) for site, sample in sites))
        for frames in (0, 1, 2)
    )
    lifetimes = estimates(profile, (((sample.lifetime,), sample) for _, sample in sites))
    largest = dict(islice(by_site.items(), SITES_SHOWN))
    sections: dict[str, dict[Site, Estimate]] = {
        "type and fate": {
            ("all samples",): total[()],
            (f"live at most, after {counted(collections, 'collection')}",): peak_estimate(profile),
            ("live at the end",): estimates(profile, at_the_end, keys=[()])[()],
            **by_type,
        },
        "lifetime": {(name,): lifetimes[name,] for name in LIFETIMES if (name,) in lifetimes},
        f"site, {len(largest)} of {len(by_site)}": largest,
    }
    _print_table(console, "stand for", sections, _bytes)


def _print_differences(console: Console, after: Profile, before: Profile) -> None:
    """The sites whose difference is more than chance, the largest first.

    Line numbers are left out, because they may have changed. All bounds together hold with the
    confidence, so each has a share of the remaining error.
    """
    pairs = [
        [(site[:2], sample) for site, sample in with_sites(profile, with_lines=False)]
        for profile in (after, before)
    ]
    sites = {site for each in pairs for site, _ in each}
    confidence = 1 - (1 - CONFIDENCE) / max(len(sites), 1)
    new, old = (
        estimates(profile, each, confidence, sites)
        for profile, each in zip((after, before), pairs, strict=True)
    )
    changes = {site: new[site].minus(old[site]) for site in sites}
    changed = sorted(
        (site for site in sites if changes[site].is_not_zero),
        key=lambda site: (-abs(changes[site].bytes), site),
    )
    heading = f"site, {min(SITES_SHOWN, len(changed))} of {len(changed)} that differ"
    shown = {site: changes[site] for site in changed[:SITES_SHOWN]}
    if shown:
        _print_table(console, "differ by", {heading: shown}, _signed_bytes)
    has_bounds = after.header.is_random and before.header.is_random
    how = "the same" + (", or as far apart as chance may have them" if has_bounds else "")
    console.print(f"{counted(len(sites) - len(changed), 'site')}: {how}")


def _print_table(
    console: Console,
    heading: str,
    sections: dict[str, dict[Site, Estimate]],
    show: Callable[[int], str],
) -> None:
    """A row for each site, with its figure and bounds."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    for _ in (heading, *BOUNDS):
        table.add_column(justify="right", no_wrap=True)
    columns = max(console.width - FIGURES_COLUMNS, NAME_COLUMNS_MIN)
    for name, rows in sections.items():
        has_bounds = any(each.bounds for each in rows.values())
        table.add_row(name, heading, *(BOUNDS if has_bounds else ()), style="bold")
        for site, estimate in rows.items():
            bounds = () if estimate.bounds is None else attrs.astuple(estimate.bounds)
            figures = map(show, (estimate.bytes, *bounds))
            table.add_row(cut(" in ".join(map(str, site)), columns), *figures)
    console.print(table)


_bytes = partial(decimal, precision=2)


def _signed_bytes(figure: int) -> str:
    return ("-" if figure < 0 else "+") + _bytes(abs(figure))


def print_written(console: Console, paths: Sequence[Path]) -> None:
    """Print the files that were written, and how to open them."""
    for path in paths:
        console.print(f"{path}: {format_of(path).opened_by}", soft_wrap=True)
