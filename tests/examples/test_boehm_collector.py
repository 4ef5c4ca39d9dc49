"""The Boehm collector, whose heap outlives a trace: it is clean, and a mistake is found."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from night import fresh, part_of
from waiting import PATIENCE_SECONDS

from fuzz.protocol import trace as traces
from fuzz.terminal.commands.cli import run_command_line

pytestmark = pytest.mark.slow  # It has to be compiled first.

BOEHM = Path(__file__).parents[2] / "examples" / "boehm"
CLEAN, MISMATCH = 0, 1
ACTIONS_MAX = 12
"""Of a reduced trace. The collector is conservative: for one commit, one machine reduces a trace to
10 actions, and another one to 11."""

Session = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture(scope="session")
def build(native: Path, need_header: Callable[[str, str], None]) -> Callable[..., Path]:
    """Build the adapter in a copy, beside that of the kit; returns the program."""
    need_header("gc/gc.h", "libgc-dev")
    folder = native.with_name("boehm")
    shutil.copytree(BOEHM, folder, ignore=shutil.ignore_patterns("build"))

    def make(bug: str = "") -> Path:
        planted = [f"BUG={bug}"] if bug else []
        subprocess.run(["make", *planted], cwd=folder, check=True, timeout=PATIENCE_SECONDS)
        return folder / "build" / "-".join(["adapter", *[bug] * bool(bug)])

    return make


@pytest.fixture(scope="session")
def at_one_place() -> Callable[[Path], str]:
    """Make the command that gives a program the same addresses each time."""
    probe = ["setarch", "-R", "true"]
    if (
        shutil.which(probe[0]) is None
        or subprocess.run(probe, check=False, timeout=PATIENCE_SECONDS).returncode
    ):
        pytest.skip("setarch -R: apt-get install util-linux, and allow the call of personality(2)")
    return lambda program: f"setarch -R {program}"


@pytest.mark.parametrize("seed", ["2", "3"])
def test_a_session_is_clean(build: Callable[..., Path], session: Session, seed: str) -> None:
    plan = ["--actions", str(part_of(20_000)), "--seed", fresh(seed)]
    assert session(build(), *plan) == (CLEAN, [])


def test_the_schema_takes_each_line_of_the_collector(
    build: Callable[..., Path], refused: Callable[[str], list[str]]
) -> None:
    assert refused(str(build())) == []


@pytest.mark.parametrize("bug", ["pointer-free-array", "finalizers-without-order"])
def test_a_mistake_is_found_and_reproduced_and_reduced(
    bug: str,
    build: Callable[..., Path],
    at_one_place: Callable[[Path], str],
    session: Session,
    tmp_path: Path,
) -> None:
    program = at_one_place(build(bug))
    code, failures = session(program, "-x")
    assert code == MISMATCH
    (found,) = [each for each in failures if each["reproduced"]]
    path = tmp_path / "corpus" / str(found["path"])
    assert len(traces.read(path).actions) <= ACTIONS_MAX
    for adapter, code in ((program, MISMATCH), (at_one_place(build()), CLEAN)):
        assert run_command_line(["replay", str(path), "--command", adapter]) == code
