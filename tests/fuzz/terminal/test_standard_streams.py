"""Output: how a terminal shows it, and how a command ends if it cannot be written."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Gcfuzz
from waiting import PATIENCE_SECONDS

import fuzz
from fuzz.plain import shell_word
from fuzz.terminal.screen import Screen

CLEAN, MISMATCH, BAD_INPUT = 0, 1, 2
PASSING = '{"gcfuzz": 2, "target": "reference"}\n{"do": "allocate_node", "number": 0}\n'
BUG = "one-sample-per-object"
FAILING = (
    f'{{"gcfuzz": 2, "target": "reference+{BUG}"}}\n'
    '{"do": "enable_sampling", "period_bytes": 8}\n'
    '{"do": "allocate_node", "number": 0}\n'
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
FULL = "No space left on device"
NEEDS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
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


# Terminals.


@pytest.fixture
def narrow() -> Screen:
    """A terminal of forty columns."""
    screen = Screen()
    screen.columns = 40
    return screen


def test_a_terminal_wraps_between_words(narrow: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    narrow.print("  because   the allocator-free list has two of it", indent=12)
    assert capsys.readouterr().out.splitlines() == [
        "  because   the allocator-free list has",
        "            two of it",
    ]


def test_a_long_word_stays_whole(narrow: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    path = "traces/a-name-of-more-than-forty-columns-in-all.jsonl"
    narrow.print(f"passed {path}")
    assert path in capsys.readouterr().out


def test_a_terminal_wraps_an_error_between_words(
    gcfuzz: Gcfuzz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    *lines, last = gcfuzz(BAD_INPUT, "run", "--target", "referense").err.splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert "unknown target 'referense'; did you mean `reference`?" in " ".join(
        line.strip() for line in [*lines, last]
    )


def test_a_wrapped_command_is_whole(narrow: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    path = "traces/a-name-of-more-than-forty-columns-in-all.jsonl"
    arguments = ["gcfuzz", "replay", path, "it's", "-x"]
    narrow.print_command("  replay   ", [*map(shell_word, arguments)])
    printed = capsys.readouterr().out
    assert printed.startswith("  replay    gcfuzz replay \\\n    traces/")
    assert shlex.split(printed.replace("\\\n", "")) == ["replay", *arguments]


def test_a_file_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().print("a long line " * 20)
    Screen().print_command("replay", ["a-long-word"] * 20)
    assert capsys.readouterr().out.count("\n") == 2


# Pipes.


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code"), COMMANDS)
def test_a_reader_that_leaves_changes_no_exit_code(tmp_path: Path, command: str, code: int) -> None:
    (tmp_path / "passing.jsonl").write_text(PASSING)
    (tmp_path / "failing.jsonl").write_text(FAILING)
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "fuzz", *command.split()],
            cwd=tmp_path,
            env=ENVIRONMENT,
            check=False,
            stdout=theirs,
            stderr=theirs,
            timeout=PATIENCE_SECONDS,
        )
    finally:
        os.close(theirs)
    assert ran.returncode == code


# Full disks and closed descriptors.


def ran_by_a_shell(folder: Path, command: str, before: str = "") -> tuple[int, str]:
    """Exit code and standard error of a command with redirections."""
    (folder / "passing.jsonl").write_text(PASSING)
    (folder / "failing.jsonl").write_text(FAILING)
    script = f"{before} exec {sys.executable} -m fuzz {command}"
    ran = subprocess.run(
        ["sh", "-c", script],
        cwd=folder,
        env=ENVIRONMENT,
        check=False,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    return ran.returncode, ran.stderr


def complaint_of(why: str) -> str:
    return f"gcfuzz: standard output: {why}; the command went on without it\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("replay passing.jsonl >&-", "closed"),
        pytest.param("replay passing.jsonl >/dev/full", FULL, marks=NEEDS_FULL),
        *(
            pytest.param(f"{each} >/dev/full", FULL, marks=[NEEDS_FULL, pytest.mark.slow])
            for each in ("--version", "explain failing.jsonl", "explain passing.jsonl --html -")
        ),
    ],
)
def test_an_output_that_fails_is_bad_input(command: str, why: str, tmp_path: Path) -> None:
    assert ran_by_a_shell(tmp_path, command) == (BAD_INPUT, complaint_of(why))


def test_a_closed_error_output_changes_nothing(tmp_path: Path) -> None:
    assert ran_by_a_shell(tmp_path, "replay passing.jsonl 2>&-")[0] == CLEAN
    assert ran_by_a_shell(tmp_path, "replay missing.jsonl 2>&-")[0] == BAD_INPUT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "output", "why"),
    [
        ("", ">&-", "closed"),
        pytest.param("", ">/dev/full", FULL, marks=NEEDS_FULL),
        ("ulimit -f 64;", ">>log", "File too large"),
    ],
)
def test_a_session_needs_no_output(tmp_path: Path, before: str, output: str, why: str) -> None:
    (tmp_path / "log").write_bytes(b"." * (64 * 512 - 100))  # Nearly full.
    command = f"run --actions 500 --seed 1 --target reference+{BUG}"
    ran = ran_by_a_shell(tmp_path, f"{command} --corpus lost {output}", before)
    assert ran == (BAD_INPUT, complaint_of(why))
    assert ran_by_a_shell(tmp_path, f"{command} --corpus printed >/dev/null")[0] == MISMATCH
    lost, printed = (
        {path.name: path.read_text() for path in (tmp_path / folder).glob("*.jsonl")}
        for folder in ("lost", "printed")
    )
    assert lost == printed
    assert len([*(tmp_path / "lost" / "sessions").glob("*.json")]) == 1
