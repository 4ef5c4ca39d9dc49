"""Comparisons of flaky targets: chance is not a difference."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from comparing import Changed, flaky, write_changed

from fuzz.failure import BROKE, FIXED, STILL_FAILS, UNCLEAR, Failure
from fuzz.failures.compare import Pair
from fuzz.failures.flaky import judged
from fuzz.protocol.actions import AllocateArray
from fuzz.run import run_actions
from fuzz.terminal.commands.cli import run_command_line

CLEAN, MISMATCH = 0, 1
ALWAYS = 1.0
ACTIONS = (AllocateArray(2),)


# One difference.


def one(_: random.Random) -> int:
    return 1


def sixteen(_: random.Random) -> int:
    return 16


def any_number(choices: random.Random) -> int:
    return choices.randrange(1, 2**20)


def found_in(target: Changed) -> Failure:
    for _ in range(1000):
        failure = run_actions(target, {}, ACTIONS)
        if failure is not None:
            return failure
    raise AssertionError("it never fails")


def never() -> bool:
    return False


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ((0, one), (ALWAYS, one), BROKE),
        ((0, one), (0.2, one), BROKE),
        ((0, one), (0.02, one), UNCLEAR),
        ((0.1, one), (0.1, one), STILL_FAILS),
        # A rare defect that is old is not another one of the same kind that is new.
        ((0.2, one), (ALWAYS, sixteen), BROKE),
        ((0.2, one), (0.2, sixteen), BROKE),
        # But an answer that is another one in each run is not compared.
        ((0.5, any_number), (0.5, any_number), STILL_FAILS),
    ],
)
def test_what_enough_runs_on_both_targets_show(
    before: tuple[float, Callable[[random.Random], int]],
    after: tuple[float, Callable[[random.Random], int]],
    change: str,
) -> None:
    older, newer = flaky(before[0], 1, before[1]), flaky(after[0], 2, after[1])
    verdict = judged(lambda: Pair(older, newer), found_in(newer), never)
    assert (verdict.failure.change, verdict.failed_again) == (change, True)


@pytest.mark.parametrize(("chance", "change"), [(0.2, FIXED), (0.02, UNCLEAR)])
def test_a_failure_that_was_flaky_before_is_fixed_or_unclear(chance: float, change: str) -> None:
    older = flaky(chance, 1, one)
    found = attrs.evolve(found_in(older), change=FIXED)
    verdict = judged(lambda: Pair(older, Changed()), found, never)
    assert verdict.failure.change == change


@pytest.mark.parametrize(("passed", "change"), [(0, BROKE), (1, UNCLEAR)])
def test_without_time_a_failure_that_also_passed_is_unclear(passed: int, change: str) -> None:
    newer = flaky(ALWAYS, 1, one)
    found = found_in(newer)
    verdict = judged(lambda: Pair(Changed(), newer), found, lambda: True, passed)
    assert verdict.failure.change == change
    assert "the time was up" in verdict.failure.why


def test_if_the_time_ends_while_a_flaky_failure_is_run_it_is_unclear() -> None:
    newer, pairs = flaky(0.2, 2, one), []

    def make_pair() -> Pair:
        pairs.append(Pair(Changed(), newer))
        return pairs[-1]

    verdict = judged(make_pair, found_in(newer), lambda: len(pairs) > 20)
    assert verdict.failure.change == UNCLEAR
    assert "of 20 runs, and the time was up" in verdict.failure.why


# A session.


@pytest.fixture(autouse=True)
def _in_a_folder_of_modules(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(empty_folder))


def compare(before: float, after: float, seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    names = []
    for name, chance in (("flaky_before", before), ("flaky_after", after)):
        condition = f'type(action).__name__ == "AllocateArray" and random.random() < {chance}'
        names.append(write_changed(name, condition, "size", 1))
        monkeypatch.delitem(sys.modules, name, raising=False)
    plan = ["--actions", "1000", "--seed", str(seed), "--corpus", f"traces-{seed}"]
    versions = ["--before", names[0], "--after", names[1]]
    return run_command_line(["run", *versions, *plan, "--workers", "1"])


def saved(seed: int) -> set[str]:
    """The folders of the corpus in which there are traces."""
    traces = Path(f"traces-{seed}")
    return {str(path.parent.relative_to(traces)) for path in traces.rglob("*.jsonl")}


COMPARED = [(chance, seed) for chance in (0.05, 0.1, 0.2, 0.35, 0.5) for seed in range(8)]
IN_CI = [COMPARED[0], COMPARED[16], COMPARED[-1]]


@pytest.mark.parametrize(
    ("chance", "seed"),
    [
        pytest.param(*each, marks=pytest.mark.slow if each in IN_CI else pytest.mark.night)
        for each in COMPARED
    ],
)
def test_two_equal_flaky_targets_do_not_differ(
    chance: float, seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(chance, chance, seed, monkeypatch) == CLEAN
    assert saved(seed) <= {"still-fails"}
    # The last lines count what is reported, and not what one run of each target showed.
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.startswith(("broke / ", "fixed / "))]


@pytest.mark.slow
def test_a_new_flaky_defect_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(0, 0.2, 1, monkeypatch) == MISMATCH
    assert saved(1) == {"."}
