"""The plots of `python benchmarks/profiling.py`. Needs matplotlib.

Invariant: the same figures make the same files, to the byte, with one version of matplotlib. A
scale is set by what most figures are, and one beyond it is a triangle at its edge. The colours are
those of Okabe and Ito, which colour-blind people can tell apart, beside the markers.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib as mpl
import profiling_runs as runs
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLES = (("#0072B2", "o"), ("#E69F00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))
WIDTH_INCHES, HEIGHT_INCHES = 8.0, 4.5
HEADLINE_OVERHEAD = 0.25
MOST = 0.9
"""The share of figures that sets a scale."""
MARGIN = 0.15
ASIDE = 0.16
"""How far the dots of one kind stand from the middle of their group."""


def draw_all(evaluation: runs.Evaluation, folder: Path) -> None:
    """Write all plots into a folder."""
    with mpl.rc_context({"svg.hashsalt": "gcfuzz", "svg.fonttype": "path"}):
        _save(_overheads(evaluation), folder / "overhead-by-period.svg")
        _save(_samples(evaluation), folder / "cost-of-a-sample.svg")
        _save(_estimates(evaluation), folder / "estimates.svg")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})


def _one_panel() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
    return figure, figure.subplots()


def _overheads(evaluation: runs.Evaluation) -> Figure:
    """A line a workload; a count has no spread."""
    figure, axes = _one_panel()
    variants = (*runs.BY_PERIOD, runs.NO_SAMPLES)
    for name, (colour, marker) in zip(evaluation.timed, STYLES, strict=False):
        more = [100 * (evaluation.instructions(name, each) - 1) for each in variants]
        axes.plot(range(len(variants)), more, marker + "-", color=colour, label=name)
    axes.axhline(100 * HEADLINE_OVERHEAD, color="black", lw=0.8, ls="--", label="25 %")
    axes.axvline(
        variants.index(runs.HEADLINE), color="black", lw=0.8, ls=":", label="for 4 MB in PyPy"
    )
    axes.set_xticks(range(len(variants)), [each.name for each in variants])
    axes.set_xlabel("sampling period, distances at random")
    axes.set_ylabel("% more instructions than without a recorder")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(axis="y", alpha=0.3)
    axes.legend()
    return figure


def _samples(evaluation: runs.Evaluation) -> Figure:
    """What one sample costs in processor time: a dot a turn, and a bar for its median's bounds."""
    figure, axes = _one_panel()
    kinds = ((runs.OFTEN, -ASIDE, "of an allocation"), (runs.BY_TIME, ASIDE, "by time"))
    everything: list[tuple[float, list[float], str]] = []
    for (variant, aside, label), (colour, marker) in zip(kinds, STYLES, strict=False):
        for place, name in enumerate(evaluation.timed):
            turns = evaluation.us_a_sample(name, variant)
            middle = runs.measured(turns)
            at = place + aside
            axes.plot([at] * len(turns), turns, marker, color=colour, alpha=0.3, ms=4)
            axes.errorbar(
                at + ASIDE / 2,
                middle.median,
                [[middle.median - middle.low], [middle.high - middle.median]],
                fmt=marker,
                color=colour,
                mec="black",
                capsize=4,
                label=None if place else f"{label}: median, and its bounds",
            )
            everything.append((at, turns, colour))
    _scale(axes, [each for _, turns, _ in everything for each in _inner(turns)], everything)
    axes.set_xticks(range(len(evaluation.timed)), list(evaluation.timed))
    axes.set_ylabel("microseconds of the processor for one sample")
    axes.grid(axis="y", alpha=0.3)
    axes.legend()
    return figure


def _scale(
    axes: Axes, inner: Sequence[float], groups: Iterable[tuple[float, Sequence[float], str]]
) -> None:
    """Let some figures set the scale, and mark at its edge what of all groups lies beyond it."""
    margin = MARGIN * (max(inner) - min(inner))
    low, high = min(inner) - margin, max(inner) + margin
    axes.set_ylim(low, high)
    for at, group, colour in groups:
        for edge, marker, are_beyond in (
            (low, "v", any(each < low for each in group)),
            (high, "^", any(each > high for each in group)),
        ):
            if are_beyond:
                axes.plot(at, edge, marker, color=colour, mec="black", ms=9, clip_on=False)


def _inner(figures: Sequence[float]) -> tuple[float, float]:
    """Between which most of the figures lie."""
    ordered = sorted(figures)
    left_out = int(len(ordered) * (1 - MOST) / 2)
    return ordered[left_out], ordered[-1 - left_out]


def _estimates(evaluation: runs.Evaluation) -> Figure:
    """Estimate against truth by period, a panel a workload."""
    columns = min(2, len(evaluation.timed))
    rows = -(-len(evaluation.timed) // columns)
    figure = Figure(figsize=(WIDTH_INCHES, 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axes, workload in zip(panels, evaluation.timed, strict=False):  # A panel may be left over.
        _estimates_panel(axes, evaluation.common_estimates(workload))
        axes.set_title(workload)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _estimates_panel(axes: Axes, estimates: Sequence[runs.Estimated]) -> None:
    """A bar for most of the seeds of each type, and a cross for its fixed distances."""
    (blue, dot), (orange, _), *_ = STYLES
    types = sorted({each.type for each in estimates})
    groups: list[tuple[float, Sequence[float], str]] = []
    for index, kind in enumerate(types):
        for place, period_bytes in enumerate(runs.ESTIMATED_PERIODS_BYTES):
            of = [
                each for each in estimates if (each.type, each.period_bytes) == (kind, period_bytes)
            ]
            by_chance = [each.ratio for each in of if each.is_random]
            fixed = [each.ratio for each in of if not each.is_random]
            at = place + 0.6 * ((index + 0.5) / len(types) - 0.5)
            is_first = index == place == 0
            axes.plot([at, at], _inner(by_chance), color=blue, lw=3, alpha=0.5)
            label = f"random distances: median, and {MOST:.0%} of the seeds" if is_first else None
            axes.plot(at, statistics.median(by_chance), dot, color=blue, ms=4, label=label)
            label = "fixed distances" if is_first else None
            axes.plot([at] * len(fixed), fixed, "X", color=orange, mec="black", ms=6, label=label)
            groups += [(at, _inner(by_chance), blue), (at, fixed, orange)]
    _scale(axes, [each for _, bar, colour in groups if colour == blue for each in bar], groups)
    axes.axhline(1, color="black", lw=0.8)
    names = [
        "loop" if period_bytes == runs.LOOP_BYTES else runs.named_bytes(period_bytes)
        for period_bytes in runs.ESTIMATED_PERIODS_BYTES
    ]
    axes.set_xticks(range(len(names)), names, rotation=30)
    axes.set_ylabel("estimate / truth")
    axes.grid(axis="y", alpha=0.3)
