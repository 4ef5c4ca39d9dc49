"""A reader that leaves (`gcfuzz … | head -1`) does not change how a command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz

CLEAN, MISMATCH, BAD_INPUT = 0, 1, 2
PASSING = '{"gcfuzz": 1, "target": "reference"}\n{"do": "allocate_node", "number": 0}\n'
BUG = "one-sample-per-object"
FAILING = (
    f'{{"gcfuzz": 1, "target": "reference+{BUG}"}}\n'
    '{"do": "enable_sampling", "period_bytes": 8}\n'
    '{"do": "allocate_node", "number": 0}\n'
)
COMMANDS = [
    ("--help", CLEAN),
    ("--version", CLEAN),
    ("", BAD_INPUT),
    ("targets", CLEAN),
    ("replay passing.jsonl", CLEAN),
    ("replay missing.jsonl", BAD_INPUT),
    ("reduce failing.jsonl", MISMATCH),
    ("record failing.jsonl -o out.jsonl", MISMATCH),
    ("explain passing.jsonl", CLEAN),
    ("explain failing.jsonl", MISMATCH),
    ("explain passing.jsonl --html out.html", CLEAN),
    ("profile passing.jsonl --period 64 -o out.json", CLEAN),
    pytest.param(f"bugs {BUG} --seeds 1", CLEAN, marks=pytest.mark.slow),
    pytest.param(f"bugs {BUG} --seeds 1 --json", CLEAN, marks=pytest.mark.slow),
    pytest.param("run --actions 100 --seed 1", CLEAN, marks=pytest.mark.slow),
    pytest.param("run --actions 9 --target nothing", BAD_INPUT, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("command", "code"), COMMANDS)
def test_a_reader_that_leaves_does_not_change_how_a_command_ends(
    tmp_path: Path, command: str, code: int
) -> None:
    (tmp_path / "passing.jsonl").write_text(PASSING)
    (tmp_path / "failing.jsonl").write_text(FAILING)
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "fuzz", *command.split()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])},
            check=False,
            stdout=theirs,
            stderr=theirs,
        )
    finally:
        os.close(theirs)
    assert ran.returncode == code
