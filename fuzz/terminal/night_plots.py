"""The plots of a night's page, drawn by matplotlib. Needs the extra `report`.

Each is an SVG inside the page: its text stays text, and its colours are those of the page, light or
dark. Invariant: the same points make the same SVG, with one version of matplotlib.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from fuzz.sessions.record import Timing

PLOTTED = ("actions", "probes reached", "failures")
TEXT, LINE, *LINES = (f"#00000{number}" for number in range(1, 8))
COLOURS = {TEXT: "--text", LINE: "--line", **{LINES[n]: f"--line-{n}" for n in range(5)}}
"""The page's colours, by the colours that matplotlib draws with."""
DASHES = ("solid", "dashed", "dotted")
WIDTH_INCHES, HEIGHT_INCHES = 4.6, 2.6
"""About as wide as a phone, so that letters have the same size there."""
PANEL = (0.12, 0.2, 0.85, 0.77)
"""The place of the axes in a figure: left, bottom, width and height as shares of it."""
LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": TEXT,
    "text.parse_math": False,
    "axes.edgecolor": LINE,
    "axes.labelcolor": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": LINE,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
}
UNITS = (("h", 3600, 3 * 3600), ("min", 60, 3 * 60), ("s", 1, 0))
"""A unit of time, its seconds, and the shortest time it is used for."""


def draw_plots(timing: Iterable[Timing]) -> Iterator[tuple[str, str]]:
    """Name and SVG of each plot."""
    for name, figure in figures_of(timing):
        yield name, svg_of(figure, name)


def figures_of(timing: Iterable[Timing]) -> Iterator[tuple[str, Figure]]:
    """Actions, probes and failures by time, with a line for each session."""
    histories = [[(0.0, 0, 0, 0), *map(attrs.astuple, each.history)] for each in timing]
    seconds = max((history[-1][0] for history in histories), default=0)
    unit, size = unit_of(seconds)
    with mpl.rc_context(LOOK):
        for column, name in enumerate(PLOTTED, 1):
            figure, axes = _panel()
            for number, history in enumerate(histories):
                times = [point[0] / size for point in history]
                values = [point[column] for point in history]
                colour, dash = look_of(number)
                axes.plot(times, values, color=colour, ls=dash, lw=1.8)
            axes.set_xlabel(f"{unit} since a session's start")
            axes.set_xlim(0, seconds / size or 1)
            axes.set_ylim(0, max(1, axes.dataLim.y1) * 1.08)
            yield name, figure


def unit_of(seconds: float) -> tuple[str, int]:
    """A readable unit for a time, and its seconds."""
    return next((unit, size) for unit, size, least in UNITS if seconds >= least)


def look_of(number: int) -> tuple[str, str]:
    """Colour and dashes of a session's lines."""
    return LINES[number % len(LINES)], DASHES[number // len(LINES) % len(DASHES)]


def _panel() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES))
    axes = figure.add_axes(PANEL)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.grid(axis="y")
    return figure, axes


def svg_of(figure: Figure, name: str) -> str:
    """A figure as an element of a page, with a label for screen readers."""
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context(LOOK), mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(file, format="svg", metadata=nothing)
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{name}"', 1)
    for colour, variable in COLOURS.items():
        svg = svg.replace(colour, f"var({variable})")
    # Several figures are in one page, so identifiers without references are removed.
    used = set(re.findall(r"#([\w.-]+)", svg))
    return re.sub(r' id="([\w.-]+)"', lambda found: found[0] * (found[1] in used), svg)
