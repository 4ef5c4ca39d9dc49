"""The plots on a night's page: what is drawn of the sessions over time."""

from __future__ import annotations

import re

import pytest
from made_night import HISTORY, TWO_HOURS

from fuzz.sessions.record import Point, Timing
from fuzz.terminal.night_plots import PLOTTED, draw_plots, look_of, plots_of, ticks


def timing_of(*history: tuple[float, int, int, int]) -> Timing:
    points = tuple(Point(*each) for each in history)
    return Timing("2026-11-22T02:00:00+00:00", TWO_HOURS, 1, 90_000, 12, 1, 0, points, {})


def test_a_plot_has_a_line_for_each_session() -> None:
    short = (600.0, 50, 3, 1)
    plots = plots_of([timing_of(*HISTORY), timing_of(short)])
    assert {plot.name: plot.lines for plot in plots} == {
        "actions": (((0, 0), (15, 4000), (120, 90_000)), ((0, 0), (10, 50))),
        "probes reached": (((0, 0), (15, 30), (120, 90)), ((0, 0), (10, 3))),
        "failures": (((0, 0), (15, 0), (120, 2)), ((0, 0), (10, 1))),
    }


def test_the_axes_are_labelled_and_large_enough() -> None:
    plot, *_ = plots_of([timing_of(*HISTORY)])
    assert (plot.unit, plot.end) == ("min", 120)
    assert plot.top > 90_000


@pytest.mark.parametrize(
    ("end", "least", "expected"),
    [
        (97_200, 1.0, [0, 20_000, 40_000, 60_000, 80_000]),
        (120, 0.0, [0, 50, 100]),
        (1.08, 1.0, [0, 1]),
        (0.1, 0.0, [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
    ],
)
def test_ticks_are_round_numbers(end: float, least: float, expected: list[float]) -> None:
    assert ticks(end, least) == pytest.approx(expected)


def test_a_line_is_drawn_from_the_corner_of_the_axes_into_them() -> None:
    svg = dict(draw_plots([timing_of(*HISTORY)]))["failures"]
    assert '<polyline points="40,148 75,148 320,18.4"' in svg


def test_a_night_without_a_history_has_plots_too() -> None:
    assert [name for name, _ in draw_plots([timing_of()])] == [*PLOTTED]


def test_fifteen_sessions_look_different() -> None:
    looks = [look_of(number) for number in range(16)]
    assert len({*looks[:15]}) == 15
    assert looks[15] == looks[0]


def test_a_plot_has_the_colours_of_the_page_and_its_text_is_text() -> None:
    svg = dict(draw_plots([timing_of(*HISTORY)] * 5))["actions"]
    assert {*re.findall(r"(?:fill|stroke): (#\w+)", svg)} == set()
    lines = {f"--line-{number}" for number in range(5)}
    assert {*re.findall(r"var\((--[\w-]+)\)", svg)} == {"--text", "--line", *lines}
    assert ">80k<" in svg
    assert ">min since a session's start<" in svg
