"""The plots of `python benchmarks/profiling.py`. Needs matplotlib.

Invariant: the same figures make the same files, to the byte, with one version of matplotlib. The
colours are those of Okabe and Ito, which colour-blind people can tell apart, beside the markers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from profiling_runs import (
    BY_PERIOD,
    BY_RATE,
    COMPARED,
    ESTIMATED_PERIODS_BYTES,
    LOOP_BYTES,
    NO_SAMPLES,
    PLAIN,
    Estimated,
    Evaluation,
    Run,
    Variant,
    named_bytes,
)

STYLES = (("#0072B2", "o"), ("#E69F00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))
WIDTH_INCHES, HEIGHT_INCHES = 8.0, 4.5
GROUP_WIDTH = 0.6
"""What the dots of one variant take, of the distance to the next."""
RATIOS = (0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3, 4, 5, 7, 10)


def draw_all(evaluation: Evaluation, folder: Path) -> None:
    """Write all plots into a folder."""
    with mpl.rc_context({"svg.hashsalt": "gcfuzz", "svg.fonttype": "path"}):
        periods, rates = (*BY_PERIOD, NO_SAMPLES, PLAIN), (PLAIN, NO_SAMPLES, *BY_RATE)
        _save(_overheads(evaluation, periods, "sampling period"), folder / "overhead-by-period.svg")
        _save(_overheads(evaluation, rates, "samples by time"), folder / "overhead-by-time.svg")
        _save(_normalised(evaluation), folder / "normalised-overhead.svg")
        _save(_estimates(evaluation), folder / "estimates.svg")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})


def _overheads(evaluation: Evaluation, variants: Sequence[Variant], what: str) -> Figure:
    """A dot a run, and a line through the medians of each workload."""
    figure, axes = _one_panel()
    _dots(axes, evaluation, variants, lambda run: run.overhead, line="-")
    axes.set_xlabel(what)
    axes.set_ylabel("run time / run time without recorder")
    _ratio_axis(axes)
    return figure


def _normalised(evaluation: Evaluation) -> Figure:
    """What 1,000 samples per second cost, a dot a run."""
    figure, axes = _one_panel()
    _dots(axes, evaluation, COMPARED, lambda run: run.overhead_at_1000, line="none")
    axes.set_xlabel("sampling period, and samples by time")
    axes.set_ylabel("overhead of 1,000 samples per second")
    return figure


def _one_panel() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
    return figure, figure.subplots()


def _dots(
    axes: Axes,
    evaluation: Evaluation,
    variants: Sequence[Variant],
    figure_of: Callable[[Run], float],
    *,
    line: str,
) -> None:
    """The runs of each workload, its own way to the side, and their medians."""
    workloads = list(evaluation.costs)
    styles = STYLES[: len(workloads)]
    for index, (workload, (colour, marker)) in enumerate(zip(workloads, styles, strict=True)):
        aside = GROUP_WIDTH * ((index + 0.5) / len(workloads) - 0.5)
        places = [place + aside for place in range(len(variants))]
        groups = [
            list(map(figure_of, evaluation.runs_of(workload, variant))) for variant in variants
        ]
        for place, group in zip(places, groups, strict=True):
            axes.plot([place] * len(group), group, marker, color=colour, alpha=0.5, ms=4)
        medians = list(map(statistics.median, groups))
        axes.plot(places, medians, marker, color=colour, ls=line, ms=6, mec="black", label=workload)
    axes.axhline(1, color="black", lw=0.8)
    axes.set_xticks(range(len(variants)), [variant.name for variant in variants])
    axes.grid(axis="y", alpha=0.3)
    axes.legend(title="a dot a run; framed: medians")


def _ratio_axis(axes: Axes) -> None:
    """A ratio and its inverse are as far from 1."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator(RATIOS))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _position: f"{ratio:g}"))


def _estimates(evaluation: Evaluation) -> Figure:
    """Estimate against truth by period, a panel a workload."""
    columns = min(2, len(evaluation.costs))
    rows = -(-len(evaluation.costs) // columns)
    figure = Figure(figsize=(WIDTH_INCHES, 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True).flat
    for axes, workload in zip(panels, evaluation.costs, strict=False):  # A panel may be left over.
        common = evaluation.common_estimates(workload)
        _estimates_panel(axes, common)
        axes.set_title(workload)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _estimates_panel(axes: Axes, estimates: Sequence[Estimated]) -> None:
    (blue, dot), (orange, _), *_ = STYLES
    by_chance = [each for each in estimates if each.is_random]
    others = [each for each in estimates if not each.is_random]
    axes.plot(
        *_points(by_chance),
        dot,
        color=blue,
        alpha=0.4,
        ms=4,
        label="random distances, a dot a seed",
    )
    axes.plot(*_points(others), "X", color=orange, mec="black", ms=7, label="fixed distances")
    axes.axhline(1, color="black", lw=0.8)
    names = [
        "loop" if period_bytes == LOOP_BYTES else named_bytes(period_bytes)
        for period_bytes in ESTIMATED_PERIODS_BYTES
    ]
    axes.set_xticks(range(len(names)), names, rotation=30)
    axes.set_ylabel("estimate / truth")
    axes.grid(axis="y", alpha=0.3)


def _points(estimates: Sequence[Estimated]) -> tuple[list[int], list[float]]:
    places = [ESTIMATED_PERIODS_BYTES.index(each.period_bytes) for each in estimates]
    return places, [each.ratio for each in estimates]
