"""The Boehm collector, which keeps its heap from trace to trace: clean, and a mistake is found."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.protocol import trace as traces
from fuzz.terminal.cli import run_command_line

pytestmark = pytest.mark.slow  # It has to be compiled first.

BOEHM = Path(__file__).parents[2] / "examples" / "boehm"
CLEAN, MISMATCH = 0, 1
ACTIONS_MAX = 10
"""Of the reduced trace."""

Session = Callable[..., tuple[int, list[dict[str, object]]]]


@pytest.fixture(scope="session")
def build(native: Path) -> Callable[..., str]:
    """Build the adapter in a copy, beside that of the kit; returns the program."""
    header = ["gcc", "-fsyntax-only", "-include", "gc/gc.h", "-x", "c", "/dev/null"]
    if subprocess.run(header, stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("apt-get install libgc-dev")
    folder = native.with_name("boehm")
    shutil.copytree(BOEHM, folder, ignore=shutil.ignore_patterns("build"))

    def make(bug: str = "") -> str:
        planted = [f"BUG={bug}"] if bug else []
        subprocess.run(["make", *planted], cwd=folder, check=True)
        return str(folder / "build" / "-".join(["adapter", *[bug] * bool(bug)]))

    return make


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Run a session against a program; returns its exit code and what it found."""

    def run(program: str, *options: str) -> tuple[int, list[dict[str, object]]]:
        summary = tmp_path / "summary.json"
        places = ["--corpus", str(tmp_path / "corpus"), "--summary", str(summary)]
        plan = ["--actions", "20000", "--seed", "1", *options]
        code = run_command_line(["run", "--command", program, *plan, *places])
        return code, json.loads(summary.read_text())["failures"]

    return run


@pytest.mark.parametrize("seed", ["2", "3"])
def test_a_session_is_clean(build: Callable[..., str], session: Session, seed: str) -> None:
    assert session(build(), "--seed", seed) == (CLEAN, [])


def test_an_array_that_is_not_scanned_is_found_and_reproduced_and_reduced(
    build: Callable[..., str], session: Session, tmp_path: Path
) -> None:
    program = build("pointer-free-array")
    code, failures = session(program, "-x")
    assert code == MISMATCH
    (found,) = [each for each in failures if each["reproduced"]]
    path = tmp_path / "corpus" / str(found["path"])
    assert len(traces.read(path).actions) < ACTIONS_MAX
    assert run_command_line(["replay", str(path), "--command", program]) == MISMATCH
    assert run_command_line(["replay", str(path), "--command", build()]) == CLEAN
