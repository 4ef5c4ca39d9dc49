"""How soon the known bugs are found: the figures, and that every seed finds each bug."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from command_line import Gcfuzz
from night import IS_NIGHT, marks_of
from waiting import is_gone, killed_at_end, wait_until

import fuzz
from fuzz.failure import Failure
from fuzz.failures.reduce import reduce_failure
from fuzz.sessions.hunt import Hunt, HuntedBug, hunt, hunt_all, summed_up
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.commands.catalogue import SEEDS_HUNTED

CLEAN, BAD_INPUT, INCONCLUSIVE = 0, 2, 3
BUG = "word-lost-by-large"
FAILURE = Failure("pointers", "free", "malloc", "more", "0", "8", "made up")
OTHER = Failure("heap", "graph", "malloc", "more", "0", "8", "made up")


def record(*hunts: Hunt) -> HuntedBug:
    return summed_up(KNOWN_BUGS[BUG], hunts, None)


def no_progress() -> None:
    pass


@pytest.mark.parametrize(
    ("actions", "found", "median", "worst"),
    [((3, 10, 5), True, 5, 10), ((3, 10, 5, None), False, 5, None), ((None,), False, None, None)],
)
def test_a_record_has_the_median_and_the_worst_seed(
    actions: tuple[int | None, ...], found: bool, median: float | None, worst: int | None
) -> None:
    made = record(*(Hunt(BUG, 1, each, FAILURE if each else None) for each in actions))
    assert (made.found, made.actions_median, made.actions_worst) == (found, median, worst)


def test_the_oracle_that_caught_a_bug_most_often_is_the_first() -> None:
    hunts = (Hunt(BUG, 1, 1, each) for each in (OTHER, FAILURE, FAILURE))
    assert record(*hunts).oracles == ("pointers", "heap")


def test_a_hunt_with_the_same_seed_takes_the_same_actions() -> None:
    assert hunt(BUG, "random", 1) == hunt(BUG, "random", 1)


@pytest.mark.slow
def test_each_hunt_is_counted() -> None:
    counted: list[None] = []
    [(bug, _)] = hunt_all([BUG], "random", 2, 1, lambda: counted.append(None))
    assert len(counted) == 2
    actions = [hunt(BUG, "random", seed).actions or 0 for seed in (1, 2)]
    assert bug.actions_median == statistics.median(actions)


@pytest.mark.slow
def test_the_figures_are_printed_as_json(gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(CLEAN, "bugs", BUG, "--seeds", "2", "--workers", "1", "--json").out
    [row] = json.loads(printed)["bugs"]
    assert (row["id"], row["seen_in"]) == (BUG, KNOWN_BUGS[BUG].seen_in)
    assert (row["found"], row["oracle"]) == (True, "pointers")
    assert 0 < row["actions_median"] <= row["actions_worst"]
    assert row["reduced"] >= row["shortest"] == 1


@pytest.mark.slow
def test_a_file_gets_plain_text_and_traces_on_request(gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(CLEAN, "bugs", BUG, "--seeds", "1", "--workers", "1", "--trace")
    assert BUG in printed.out
    assert "\x1b" not in printed.out + printed.err
    assert "← first wrong answer" in printed.out


@pytest.mark.parametrize("name", ["no-such-bug", f"{BUG}+sample-on-equality", ""])
def test_an_unknown_bug_is_bad_input(name: str, gcfuzz: Gcfuzz) -> None:
    assert repr(name) in gcfuzz(BAD_INPUT, "bugs", name).err


def test_two_output_formats_are_bad_input(gcfuzz: Gcfuzz) -> None:
    assert "--trace and --json" in gcfuzz(BAD_INPUT, "bugs", BUG, "--trace", "--json").err


@pytest.mark.slow
def test_no_worker_outlives_a_killed_hunt() -> None:
    command = [sys.executable, "-m", "fuzz", "bugs", "--engine", "stateful", "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    parent = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    workers: list[psutil.Process] = []

    def are_there() -> bool:
        workers[:] = psutil.Process(parent.pid).children()
        return len(workers) >= 3  # Two, and the resource tracker.

    with killed_at_end(parent):
        wait_until(are_there, "the workers", parent)
    wait_until(lambda: all(map(is_gone, workers)), "the end of the workers")


SEEDS = SEEDS_HUNTED if IS_NIGHT else 5


@pytest.fixture(scope="module", params=KNOWN_BUGS)
def hunts(request: pytest.FixtureRequest) -> list[Hunt]:
    """Hunts of a bug by the random engine, each with its own seed.

    pytest sorts tests by this parameter, so that those of one bug share its hunts.
    """
    return [hunt(request.param, "random", seed) for seed in range(1, SEEDS + 1)]


MORE_THAN_SHORTEST = {"reference": 4, "reference-random": 14}
MORE_WHERE_DRAWN = 6
"""How many more actions a reduced trace may have, by its host; see test_reduce."""
TRIED, SHORT = (5, 3) if IS_NIGHT else (2, 1)
"""Three of five traces must be short at night, one of two in CI. One in a hundred is not."""


@pytest.mark.slow
def test_the_random_engine_finds_it_with_every_seed(hunts: list[Hunt]) -> None:
    assert [each.seed for each in hunts if each.actions is None] == []


LONG = ("exhausted-by-garbage", "fixed-stride-bias")
"""To reduce one of these, or to find it with Hypothesis, takes half a minute of the processor. CI
finds both with the random engine, and reduces the second in test_known_bugs.py."""


def marks_but_for_long(bug: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.night] if bug in LONG else marks_of(bug)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hunts",
    [pytest.param(name, marks=marks_but_for_long(name)) for name in KNOWN_BUGS],
    indirect=True,
)
def test_it_is_reduced_to_nearly_the_shortest_trace(hunts: list[Hunt]) -> None:
    known, short = KNOWN_BUGS[hunts[0].bug], 0
    most = known.shortest + MORE_THAN_SHORTEST.get(known.host, MORE_WHERE_DRAWN)
    for each in hunts[:TRIED]:
        assert each.failure is not None
        reduced = reduce_failure(make_target(known.target), each.failure)
        assert reduced.identity == each.failure.identity
        assert known.shortest <= len(reduced.actions) <= len(each.failure.actions)
        short += len(reduced.actions) <= most
        if short == SHORT:
            return
    pytest.fail(f"of {TRIED} reduced traces, {short} have at most {most} actions")


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=marks_but_for_long(bug)) for bug in KNOWN_BUGS]
)
def test_the_stateful_engine_finds_it(bug: str) -> None:
    assert hunt(bug, "stateful", 1).actions is not None
