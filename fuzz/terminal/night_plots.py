"""The plots of a night's page: actions, probes and failures by time, as SVG.

Each is an element of the page: its text stays text, and its colours are those of the page, light or
dark. They are so simple that a library for plots would take more time to import than the rest of
`gcfuzz report`. Invariant: the same points make the same SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import attrs

from fuzz.sessions.record import Timing

PLOTTED = ("actions", "probes reached", "failures")
COLOURS = 5
"""The page's colours for lines are `--line-0` to `--line-4`."""
DASHES = {"solid": "", "dashed": "6 3", "dotted": "2 2"}
"""SVG's dashes, by the name of CSS for a border."""
UNITS = (("h", 3600, 3 * 3600), ("min", 60, 3 * 60), ("s", 1, 0))
"""A unit of time, its seconds, and the shortest time it is used for."""
WIDTH, HEIGHT = 330, 186
"""About as wide as a phone, so that letters have the same size there."""
LEFT, RIGHT, TOP, BOTTOM = 40, 320, 8, 148
"""The place of the axes."""
TICKS_MAX = 6
MARGIN = 1.08
"""The vertical axis ends a little above the largest value."""


@attrs.frozen
class Plot:
    """A plot with a line for each session. Its axes start at 0."""

    name: str
    unit: str
    end: float
    """Where the horizontal axis ends, in that unit."""
    top: float
    lines: tuple[tuple[tuple[float, float], ...], ...]


def draw_plots(timing: Iterable[Timing]) -> Iterator[tuple[str, str]]:
    """Name and SVG of each plot."""
    for plot in plots_of(timing):
        yield plot.name, svg_of(plot)


def plots_of(timing: Iterable[Timing]) -> Iterator[Plot]:
    """Actions, probes and failures by time, with a line for each session."""
    histories = [[(0.0, 0, 0, 0), *map(attrs.astuple, each.history)] for each in timing]
    seconds = max((history[-1][0] for history in histories), default=0.0)
    unit, size = unit_of(seconds)
    for column, name in enumerate(PLOTTED, 1):
        lines = tuple(
            tuple((point[0] / size, point[column]) for point in history) for history in histories
        )
        top = max((value for line in lines for _, value in line), default=0)
        yield Plot(name, unit, seconds / size or 1.0, MARGIN * max(1, top), lines)


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


def svg_of(plot: Plot) -> str:
    """The plot as an element of a page, with a label for screen readers."""

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            round(LEFT + x / plot.end * (RIGHT - LEFT), 1),
            round(BOTTOM - y / plot.top * (BOTTOM - TOP), 1),
        )

    return "".join(
        [
            f'<svg role="img" aria-label="{plot.name}" viewBox="0 0 {WIDTH} {HEIGHT}">',
            *(_across(place(0, y)[1], _short(y)) for y in ticks(plot.top, step_min=1.0)),
            *(_below(place(x, 0)[0], f"{x:g}") for x in ticks(plot.end)),
            _text((LEFT + RIGHT) / 2, HEIGHT - 6, f"{plot.unit} since a session's start", "middle"),
            *(
                _line([place(*point) for point in line], *look_of(number))
                for number, line in enumerate(plot.lines)
            ),
            "</svg>",
        ]
    )


def _across(y: float, label: str) -> str:
    line = f'<path d="M{LEFT} {y}H{RIGHT}" style="stroke: var(--line)"/>'
    return line + _text(LEFT - 6, y + 4, label, "end")


def _below(x: float, label: str) -> str:
    line = f'<path d="M{x} {BOTTOM}v4" style="stroke: var(--line)"/>'
    return line + _text(x, BOTTOM + 16, label, "middle")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    style = f"fill: var(--text); font-size: 11px; text-anchor: {anchor}"
    return f'<text x="{x:g}" y="{y:g}" style="{style}">{text}</text>'


def _line(points: Sequence[tuple[float, float]], colour: str, dashes: str) -> str:
    style = f"fill: none; stroke: var({colour}); stroke-width: 1.8"
    if dashes != "solid":
        style += f"; stroke-dasharray: {DASHES[dashes]}"
    return f'<polyline points="{" ".join(f"{x:g},{y:g}" for x, y in points)}" style="{style}"/>'


def _short(value: float) -> str:
    """A number with a prefix: 80k, 1.5M."""
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{prefix}"
    return f"{value:g}"
