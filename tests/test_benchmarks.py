"""Every benchmark runs in a form of seconds, and prints what it measures."""

import os
import sys
from pathlib import Path

import pytest
from effectiveness import STRATEGIES
from target_helpers import installed
from waiting import LONG_SECONDS, completed

import fuzz

HERE = Path(__file__).parent
BENCHMARKS = HERE.parent / "benchmarks"
RUN_HERE = {
    *("throughput", "targets", "target_shares", "effectiveness", "mutants", "conjunctions"),
    *("second_runs", "terminal_picture", "faults"),
}
RUN_ELSEWHERE = {
    "fuzzing_coverage": "test_fuzzing_coverage.py",
    "hostile_inputs": "test_hostile_inputs.py",
}
SHORT_THROUGHPUT = """
import throughput

throughput.TURNS = throughput.LONG_TRACES = 1
throughput.ACTIONS = throughput.SESSION_ACTIONS = 500
throughput.LONG_TRACE, throughput.PART = 200, 100
throughput.STEPS, throughput.LIVE_OBJECTS, throughput.ROUNDS = (10,), (4, 8), 2
throughput.main()
"""


def test_every_benchmark_is_run() -> None:
    programs = {path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}
    assert programs == {*RUN_HERE, *RUN_ELSEWHERE}


@pytest.mark.parametrize(("name", "by"), RUN_ELSEWHERE.items())
def test_a_benchmark_that_runs_elsewhere_is_named_there(name: str, by: str) -> None:
    assert name in (HERE / by).read_text()


def printed_by(*arguments: str) -> str:
    """What Python prints with these arguments. It must exit with 0."""
    folders = [BENCHMARKS, Path(fuzz.__file__).parents[1]]
    ran = completed(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "COLUMNS": "200"},
        timeout=LONG_SECONDS,
    )
    return ran.stdout


@pytest.mark.night
def test_throughput_prints_each_ratio() -> None:
    printed = printed_by("-c", SHORT_THROUGHPUT)
    for compared in (
        *("random engine", "harness alone", "stateful engine", "two workers"),
        *("minor collections an action", "times the first", "live objects", "all"),
    ):
        assert compared in printed


@pytest.mark.night
def test_targets_has_a_row_for_each_target() -> None:
    gcfuzz = str(Path(sys.executable).with_name("gcfuzz"))
    short = ("--target", "reference", "--pairs", "1", "--actions", "500")
    printed = printed_by(str(BENCHMARKS / "targets.py"), gcfuzz, gcfuzz, *short)
    assert "│ reference " in printed


@pytest.mark.night
def test_target_shares_has_a_row_for_each_target() -> None:
    installed("jemalloc")
    short = ("--target", "jemalloc", "--actions", "300")
    printed = printed_by(str(BENCHMARKS / "target_shares.py"), *short)
    assert "│ jemalloc " in printed


def test_effectiveness_switches_off_what_exists() -> None:
    """A name that moved would end the benchmark, which only the night runs."""
    off = [switch for strategy in STRATEGIES.values() for switch in strategy.switched_off]
    assert off
    assert [name for place, name, _ in off if not hasattr(place, name)] == []


@pytest.mark.night
def test_effectiveness_compares_the_strategies() -> None:
    program = str(BENCHMARKS / "effectiveness.py")
    printed = printed_by(program, "--seeds", "1", "--bug", "large-objects-uncounted")
    assert "1 bugs, 1 seeds, at most 20,000 actions" in printed
    for strategy in ("plain, tiny", "scenarios", "reruns"):
        assert strategy in printed


@pytest.mark.night
def test_each_mutant_is_counted_once() -> None:
    printed = printed_by(str(BENCHMARKS / "mutants.py"), "--count", "3", "--actions", "5000")
    total = next(line.split() for line in printed.splitlines() if line.startswith("all"))
    assert int(total[1]) == 3 == sum(map(int, total[2:5]))


@pytest.mark.night
@pytest.mark.parametrize(
    ("half", "hunts"),
    [("tuning", 15), ("unseen", 15), ("generated", 24), ("late-seen", 10), ("late-unseen", 10)],
)
def test_each_conjunctive_bug_is_hunted(half: str, hunts: int) -> None:
    program = str(BENCHMARKS / "conjunctions.py")
    printed = printed_by(program, "--half", half, "--seeds", "1", "--actions", "100")
    assert f"of {hunts} hunts won" in printed


@pytest.mark.night
@pytest.mark.parametrize("bugs", ["known", "conjunctive"])
def test_each_share_of_second_runs_has_a_row(bugs: str) -> None:
    program = str(BENCHMARKS / "second_runs.py")
    printed = printed_by(program, "--bugs", bugs, "--seeds", "1", "--actions", "100")
    assert [f"│ {name} " in printed for name in ("none", "today", "all")] == [True] * 3


@pytest.mark.night
def test_the_picture_of_a_session_shows_its_failure(tmp_path: Path) -> None:
    picture = tmp_path / "terminal.svg"
    printed_by(str(BENCHMARKS / "terminal_picture.py"), str(picture))
    assert "first&#160;wrong&#160;answer" in picture.read_text()


@pytest.mark.night
def test_sessions_under_faults_miss_nothing() -> None:
    few = "--seconds", "20", "--faults", "3", "--actions", "2000"
    printed = printed_by(str(BENCHMARKS / "faults.py"), *few)
    assert "\n3 faults in " in printed
    assert "missing or different: nothing" in printed
