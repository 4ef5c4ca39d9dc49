"""The plots on a night's page: what is drawn of the sessions over time."""

from __future__ import annotations

import re

import attrs
import pytest
from made_night import HISTORY, TWO_HOURS

from fuzz.nights.failure_history import FactsReached, NightDone
from fuzz.sessions.record import Point, Timing
from fuzz.terminal.night_plots import PLOTTED, draw_plots, look_of, plots_of, reach_plots_of, ticks


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
    assert (plot.axis, plot.end) == ("min since the start of a session", 120)
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
    svg = dict(draw_plots(plots_of([timing_of(*HISTORY)])))["failures"]
    assert '<polyline points="40,148 75,148 320,18.4"' in svg


def test_a_night_without_a_history_has_plots_too() -> None:
    assert [name for name, _ in draw_plots(plots_of([timing_of()]))] == [*PLOTTED]


def test_fifteen_sessions_look_different() -> None:
    looks = [look_of(number) for number in range(16)]
    assert len({*looks[:15]}) == 15
    assert looks[15] == looks[0]


def test_a_plot_has_the_colours_of_the_page_and_its_text_is_text() -> None:
    svg = dict(draw_plots(plots_of([timing_of(*HISTORY)] * 5)))["actions"]
    assert {*re.findall(r"(?:fill|stroke): (#\w+)", svg)} == set()
    lines = {f"--line-{number}" for number in range(5)}
    assert {*re.findall(r"var\((--[\w-]+)\)", svg)} == {"--text", "--line", *lines}
    assert ">80k<" in svg
    assert ">min since the start of a session<" in svg


# Over nights.


def nights_of(*figures: dict[str, tuple[int, int]]) -> list[NightDone]:
    """Nights that reached that many of ten pairs and of a hundred triples, by target."""
    nights = []
    for day, of_targets in enumerate(figures, 1):
        reached = (FactsReached(each, n, 10, m, 100) for each, (n, m) in of_targets.items())
        at = f"2026-11-0{day}T02:00:00+00:00"
        nights.append(NightDone(at, (), 0, 0, 0, 0, 0, combinations=tuple(reached)))
    return nights


def test_nights_are_plotted_from_the_first_that_counted_combinations() -> None:
    nights = nights_of({}, {"a": (5, 20)}, {}, {"a": (9, 40), "b": (10, 100)})
    assert {plot.name: plot.lines for plot in reach_plots_of(nights, ["a", "b"])} == {
        "pairs of facts, in %": (((0, 50), (2, 90)), ((2, 100),)),
        "triples of facts, in %": (((0, 20), (2, 40)), ((2, 100),)),
    }


def test_the_axis_counts_nights() -> None:
    svg = dict(draw_plots(reach_plots_of(nights_of({"a": (5, 20)}, {"a": (6, 30)}), ["a"])))
    assert ">nights since 2026-11-01<" in svg["pairs of facts, in %"]
    assert ">0.5<" not in svg["pairs of facts, in %"]


@pytest.mark.parametrize("nights", [nights_of({}, {}), nights_of({}, {"a": (5, 20)})])
def test_a_single_night_that_counted_combinations_has_no_plot(nights: list[NightDone]) -> None:
    assert [*reach_plots_of(nights, ["a"])] == []


def test_a_target_whose_facts_make_no_triple_has_reached_all() -> None:
    nights = [
        attrs.evolve(each, combinations=(FactsReached("a", 2, 2, 0, 0),))
        for each in nights_of({}, {})
    ]
    assert {plot.lines for plot in reach_plots_of(nights, ["a"])} == {(((0, 100), (1, 100)),)}
