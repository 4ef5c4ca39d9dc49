"""The plots of a night's page, as SVG: what sessions did by time, and what nights reached.

`night_plot.svg` is the template of each, with the places of its axes. A plot is an element of the
page: its text stays text, and its colours are those of the page, light or dark. They are so simple
that a library for plots would take more time to import than the rest of `gcfuzz report`. Invariant:
the same points make the same SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import attrs
import jinja2
from markupsafe import Markup

from fuzz.nights.failure_history import NightDone
from fuzz.sessions.record import Timing

PLOTTED = ("actions", "probes reached", "failures")
SHARES = (
    ("pairs of facts, in %", "pairs", "pairs_possible"),
    ("triples of facts, in %", "triples", "triples_possible"),
)
"""The plots over nights: a name, and the fields of the number reached and of all that can hold."""
COLOURS = 5
"""The page's colours for lines are `--line-0` to `--line-4`."""
DASHES = {"solid": "", "dashed": "6 3", "dotted": "2 2"}
"""SVG's dashes, by the name of CSS for a border."""
UNITS = (("h", 3600, 3 * 3600), ("min", 60, 3 * 60), ("s", 1, 0))
"""A unit of time, its seconds, and the shortest time it is used for."""
TICKS_MAX = 6
MARGIN = 1.08
"""The vertical axis ends a little above the largest value."""


@attrs.frozen
class Plot:
    """A plot with a line for each session, or for each target. Its axes start at 0."""

    name: str
    axis: str
    """What the horizontal axis shows."""
    end: float
    """Where it ends, in its unit."""
    top: float
    lines: tuple[tuple[tuple[float, float], ...], ...]
    step_min: float = 0.0
    """The least distance of two ticks of the horizontal axis."""


def draw_plots(plots: Iterable[Plot]) -> Iterator[tuple[str, Markup]]:
    """Name and SVG of each plot."""
    loader = jinja2.PackageLoader("fuzz", "terminal")
    environment = jinja2.Environment(loader=loader, autoescape=True)
    environment.filters["short"] = _short
    template = environment.get_template("night_plot.svg")
    for plot in plots:
        svg = template.render(plot=plot, ticks=ticks, look_of=look_of, dashes=DASHES)
        yield plot.name, Markup(svg)  # noqa: S704 - the template escapes all values


def plots_of(timing: Iterable[Timing]) -> Iterator[Plot]:
    """Actions, probes and failures by time, with a line for each session."""
    histories = [[(0.0, 0, 0, 0), *map(attrs.astuple, each.history)] for each in timing]
    seconds = max((history[-1][0] for history in histories), default=0.0)
    unit, size = unit_of(seconds)
    for column, name in enumerate(PLOTTED, 1):
        lines = tuple(tuple((it[0] / size, it[column]) for it in history) for history in histories)
        top = max((value for line in lines for _, value in line), default=0)
        axis = f"{unit} since the start of a session"
        yield Plot(name, axis, seconds / size or 1.0, MARGIN * max(1, top), lines)


def reach_plots_of(nights: Sequence[NightDone], targets: Sequence[str]) -> Iterator[Plot]:
    """Which share of pairs and triples nights reached, with a line for each target.

    None if only one night counted them: its figures are beside the plots.
    """
    counted = [each for each in nights if each.combinations]
    if len(counted) <= 1:
        return
    first = nights.index(counted[0])
    axis, end = f"nights since {counted[0].at[:10]}", len(nights) - 1 - first
    for name, reached, possible in SHARES:
        points: dict[str, list[tuple[float, float]]] = {target: [] for target in targets}
        for number, night in enumerate(nights[first:]):
            for each in night.combinations:
                count, most = getattr(each, reached), getattr(each, possible)
                points[each.target].append((number, 100 * count / most if most else 100.0))
        lines = tuple(map(tuple, points.values()))
        yield Plot(name, axis, end, MARGIN * 100, lines, step_min=1.0)


def unit_of(seconds: float) -> tuple[str, int]:
    """A readable unit for a time, and its seconds."""
    return next((unit, size) for unit, size, least in UNITS if seconds >= least)


def look_of(number: int) -> tuple[str, str]:
    """Colour and dashes of a session's lines."""
    return f"--line-{number % COLOURS}", [*DASHES][number // COLOURS % len(DASHES)]


def ticks(end: float, step_min: float = 0.0) -> list[float]:
    """At most TICKS_MAX round numbers from 0 to that end, with an equal distance."""
    least = max(end / (TICKS_MAX - 1), step_min)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
    return [number * step for number in range(int(end / step) + 1)]


def _short(value: float) -> str:
    """A number with a prefix: 80k, 1.5M."""
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{prefix}"
    return f"{value:g}"
