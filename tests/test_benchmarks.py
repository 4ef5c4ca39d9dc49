"""Every benchmark runs, in a form of seconds, and prints what it is there for."""

import os
import re
import shlex
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

import fuzz
from fuzz.targets.allocators.jemalloc_library import HOW_TO_INSTALL

HERE = Path(__file__).parent
BENCHMARKS = HERE.parent / "benchmarks"
RUN_HERE = {
    "throughput",
    "pipe",
    "effectiveness",
    "shortest",
    "jemalloc_own_seed",
    "long_recording",
    "shared_corpus",
    "mutants",
}
RUN_ELSEWHERE = {
    "fuzzing_coverage": "test_fuzzing_coverage.py",
    "hostile_inputs": "test_hostile_inputs.py",
    "hotspot_allocations": "fuzz/targets/test_hotspot.py",
    "strategies": "test_estimators_page.py",
    "threads_at_once": "fuzz/targets/test_hotspot_at_once.py",
    "profiling": "test_profiling_evaluation.py",
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
        *("random engine", "harness alone", "PyPy's own", "machine engine", "two workers"),
        *("minor collections an action", "times the first", "live objects", "all"),
    ):
        assert compared in printed


@pytest.mark.slow
def test_a_program_is_compared_with_the_reference() -> None:
    printed = short("pipe", shlex.join([sys.executable, "-m", "fuzz.targets", "reference"]))
    assert "checked actions/s through the pipe" in printed
    assert "ratio: " in printed


@pytest.mark.slow
def test_strategies_are_compared() -> None:
    printed = short("effectiveness", "--seeds", "1")
    assert "1 bugs, 1 seeds, at most 20,000 actions" in printed
    for strategy in ("PyPy's", "plain, tiny", "scenarios", "reruns"):
        assert strategy in printed


@pytest.mark.slow
def test_the_shortest_traces_are_found() -> None:
    rows = [line.split() for line in short("shortest", "--length", "1").splitlines()]
    found = {row[1]: row[5] for row in rows if len(row) == 7}
    assert found["disable-before-enable"] == "1"


@pytest.mark.slow
@pytest.mark.skipif(find_library("jemalloc") is None, reason=HOW_TO_INSTALL)
def test_jemalloc_s_own_seed_is_foretold() -> None:
    printed = printed_by(BENCHMARKS / "jemalloc_own_seed.py", "1")
    assert "60048 decisions, 60048 samples, 0 wrong" in printed


@pytest.mark.slow
def test_no_session_takes_what_another_reported() -> None:
    printed = printed_by(BENCHMARKS / "shared_corpus.py", "--pairs", "1", "--seed", "2")
    assert re.fullmatch(r"2 sessions, 1 killed, [1-9]\d* finds reported, 0 lost\n", printed)


@pytest.mark.slow
def test_a_long_recording_is_whole_or_exported() -> None:
    printed = short("long_recording")
    assert "480,000 allocations" in printed
    assert "killed after " in printed
    assert "['.collapsed']: " in printed


@pytest.mark.slow
def test_mutants_are_found() -> None:
    printed = printed_by(BENCHMARKS / "mutants.py", "--count", "3", "--actions", "5000")
    total = next(line.split() for line in printed.splitlines() if line.startswith("all"))
    assert int(total[1]) == 3 == sum(map(int, total[2:5]))
