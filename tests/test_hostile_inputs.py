"""Hostile inputs: every command answers any file, and the fuzzer of inputs finds bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from night import fresh, part_of
from waiting import LONG_SECONDS, completed

import fuzz

FUZZER = Path(__file__).parents[1] / "benchmarks" / "hostile_inputs.py"
CLEAN, MISMATCH = 0, 1
BROKEN = """
import fuzz.replay
def break_(*_): raise RuntimeError("broken")
fuzz.replay.replay = break_
"""
"""Breaks replaying in a Python process that imports this first."""


def fuzz_inputs(*options: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer, by a Python that finds modules in `folder` too."""
    folders = [Path(fuzz.__file__).parents[1], *([folder] if folder else [])]
    path = os.pathsep.join(map(str, folders))
    return completed(
        [sys.executable, str(FUZZER), *options],
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        timeout=LONG_SECONDS,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "inputs", "kinds"),
    [
        ("traces", 2000, {"answers", "contracts", "profiles", "recordings", "traces"}),
        ("records", 3000, {"histories", "merged", "parts", "runs", "sessions"}),
    ],
)
def test_each_hostile_input_has_an_answer(of: str, inputs: int, kinds: set[str]) -> None:
    inputs = part_of(inputs)
    ran = fuzz_inputs("--of", of, "--first", fresh("0"), "--inputs", str(inputs))
    assert ran.returncode == CLEAN, ran.stdout + ran.stderr
    assert f"{inputs:,} inputs" in ran.stdout
    assert {row.split()[0] for row in ran.stdout.splitlines()} >= kinds


@pytest.mark.slow
def test_a_number_makes_the_same_input_again(tmp_path: Path) -> None:
    contents = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        fuzz_inputs("--first", "7", "--inputs", "1", "--keep", str(folder))
        contents.append({path.name: path.read_bytes() for path in folder.glob("input*")})
    assert contents[0] == contents[1]
    assert contents[0]


@pytest.mark.slow
def test_a_bug_of_the_project_s_own_is_a_problem_with_its_number(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BROKEN)
    ran = fuzz_inputs("--inputs", "100", "--workers", "1", folder=tmp_path)
    assert ran.returncode == MISMATCH
    assert "RuntimeError: broken" in ran.stdout
    assert "first input " in ran.stdout
