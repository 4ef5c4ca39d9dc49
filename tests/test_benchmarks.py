"""Every benchmark runs, in a form of seconds, and prints what it is there for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz

HERE = Path(__file__).parent
BENCHMARKS = HERE.parent / "benchmarks"
RUN_HERE = {"throughput", "effectiveness", "mutants", "terminal_picture"}
RUN_ELSEWHERE = {
    "fuzzing_coverage": "test_fuzzing_coverage.py",
    "hostile_inputs": "test_hostile_inputs.py",
    "strategies": "test_estimators_page.py",
}


def test_every_benchmark_is_run() -> None:
    programs = {path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}
    assert programs == {*RUN_HERE, *RUN_ELSEWHERE}


@pytest.mark.parametrize(("name", "by"), RUN_ELSEWHERE.items())
def test_what_is_run_elsewhere_is_named_there(name: str, by: str) -> None:
    assert name in (HERE / by).read_text()


def printed_by(program: Path, *words: str) -> str:
    """What that program prints; it must end well."""
    folders = [BENCHMARKS, Path(fuzz.__file__).parents[1]]
    ran = subprocess.run(
        [sys.executable, str(program), *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "COLUMNS": "200"},
    )
    return ran.stdout


def short(name: str, *words: str) -> str:
    return printed_by(HERE / "short_benchmark.py", name, *words)


@pytest.mark.slow
def test_speeds_are_compared() -> None:
    printed = short("throughput")
    for compared in (
        *("random engine", "harness alone", "PyPy's own", "stateful engine", "two workers"),
        *("minor collections an action", "times the first", "live objects", "all"),
    ):
        assert compared in printed


@pytest.mark.slow
def test_strategies_are_compared() -> None:
    printed = short("effectiveness", "--seeds", "1")
    assert "1 bugs, 1 seeds, at most 20,000 actions" in printed
    for strategy in ("PyPy's", "plain, tiny", "scenarios", "reruns"):
        assert strategy in printed


@pytest.mark.slow
def test_mutants_are_found() -> None:
    printed = printed_by(BENCHMARKS / "mutants.py", "--count", "3", "--actions", "5000")
    total = next(line.split() for line in printed.splitlines() if line.startswith("all"))
    assert int(total[1]) == 3 == sum(map(int, total[2:5]))


@pytest.mark.slow
def test_the_picture_of_a_session_shows_its_failure(tmp_path: Path) -> None:
    picture = tmp_path / "terminal.svg"
    printed_by(BENCHMARKS / "terminal_picture.py", str(picture))
    assert "first&#160;wrong&#160;answer" in picture.read_text()
