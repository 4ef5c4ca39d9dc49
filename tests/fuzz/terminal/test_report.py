"""What people read: the failure report, the live line, and what was not reached."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pexpect
import pytest

import fuzz
from fuzz.drawing.probes import probes_for
from fuzz.protocol.actions import (
    Action,
    AllocateNode,
    Calloc,
    CollectMinor,
    Malloc,
    ReadProfile,
    Realloc,
    SetPeriod,
)
from fuzz.targets import make_target
from fuzz.terminal import session_report
from fuzz.terminal.cli import run_command_line
from fuzz.terminal.report import describe_action

CLEAN, MISMATCH = 0, 1
BUG = "one-sample-per-object"
TRACE = """\
{"gcfuzz": 2, "target": "reference", "config": {"card_items": 0}}
{"do": "enable_sampling", "period_bytes": 8}
{"do": "allocate_string", "length": 7, "nonmovable": true}
{"do": "collect_full"}
"""
REPORT = f"""\
FAILED failing.jsonl
  oracle    sampling
  expected  samples 3
  got       samples 1
  because   8 bytes were left until the next sample, the string takes 32, the period is 8: \
3 samples expected, at byte 8 and every 8 bytes after it
  config    card_items 0
      1  enable_sampling period_bytes=8
  →   2  allocate_string length=7 nonmovable   ← first wrong answer
  replay    gcfuzz replay failing.jsonl --target reference+{BUG}
0 passed, 1 failed
"""
SESSION = ("run", "--actions", "1000", "--seed", "1")
COLUMNS, LINES = 80, 30
ESCAPE = "\x1b"

OF_REFERENCE = probes_for(make_target("reference").start({}))


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def environment() -> dict[str, str]:
    """For a process that shall find the package under test."""
    plain = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    return {**plain, "PYTHONPATH": str(Path(fuzz.__file__).parents[1]), "TERM": "xterm-256color"}


def replays_in(printed: str) -> list[list[str]]:
    """The arguments of the commands that a report says to replay with."""
    lines = re.findall(r"^  replay +(.*)$", printed, re.MULTILINE)
    commands = [shlex.split(line) for line in lines]
    assert commands
    assert {command[0] for command in commands} == {"gcfuzz"}
    return [command[1:] for command in commands]


# A failure.


def test_a_failure_shows_what_was_expected_the_actions_and_the_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("failing.jsonl").write_text(TRACE)
    run_command_line(["replay", "failing.jsonl", "--target", f"reference+{BUG}"])
    assert capsys.readouterr().out == REPORT


def test_a_replay_s_command_reproduces_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("failing.jsonl").write_text(TRACE)
    run_command_line(["replay", "failing.jsonl", "--target", f"reference+{BUG}"])
    (command,) = replays_in(capsys.readouterr().out)
    assert run_command_line(command) == MISMATCH
    assert capsys.readouterr().out == REPORT


@pytest.mark.slow
def test_a_session_s_commands_reproduce_its_finds(capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line([*SESSION, "--target", f"reference+{BUG}"])
    printed = capsys.readouterr().out
    assert "FAILURE 1: sampling / samples / " in printed
    codes = [run_command_line(command) for command in replays_in(printed)]
    assert set(codes) == {MISMATCH}


@pytest.mark.slow
def test_the_command_reproduces_a_find_in_a_folder_with_a_space(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_command_line([*SESSION, "--target", f"reference+{BUG}", "--corpus", "my corpus"])
    codes = [run_command_line(command) for command in replays_in(capsys.readouterr().out)]
    assert set(codes) == {MISMATCH}


@pytest.mark.slow
def test_a_find_says_from_how_many_actions_it_was_reduced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_command_line([*SESSION, "--target", f"reference+{BUG}"])
    assert re.search(r"found +by the random engine, reduced from \d+", capsys.readouterr().out)


@pytest.mark.slow
def test_a_long_message_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line([*SESSION, "--target", "reference+forgotten-remembered-entry"])
    printed = capsys.readouterr().out
    assert "DanglingReferenceError" in printed
    report = printed[printed.index("FAILURE 1") : printed.index("  replay")]
    assert [line for line in report.splitlines()[1:] if not line.startswith("  ")] == []


# The end of a session.


def printed_by(target: str, corpus: Path, *words: str) -> str:
    """What a session of 20 actions prints."""
    words = ("run", "--target", target, "--actions", "20", "--seed", "1", *words)
    with redirect_stdout(io.StringIO()) as printed:
        run_command_line([*words, "--corpus", str(corpus)])
    return printed.getvalue()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a session prints that has just enough actions for its probes to be printed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session_report, "PROBES_ACTIONS_MIN", 20)
        return printed_by("reference", tmp_path_factory.mktemp("corpus"))


def test_a_short_session_prints_no_probes(tmp_path: Path) -> None:
    printed = printed_by("reference", tmp_path)
    assert "20 actions" in printed
    assert "probes" not in printed


def test_a_session_that_a_failure_stopped_prints_no_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_report, "PROBES_ACTIONS_MIN", 1)
    printed = printed_by(f"reference+{BUG}", tmp_path, "-x", "--actions", "2000")
    assert "the wanted number of failures is reached" in printed
    assert "probes" not in printed


def test_probes_that_were_not_reached_are_named(few: str) -> None:
    (line,) = re.findall(r"^probes not reached: (.*)$", few, re.MULTILINE)
    names, _, more = line.partition(" and ")
    assert set(names.split(", ")) < set(OF_REFERENCE)
    assert (
        len(OF_REFERENCE) / 2 < len(names.split(", ")) + int(more.split()[0]) <= len(OF_REFERENCE)
    )


def test_the_rarest_probes_are_named_with_their_counts(few: str) -> None:
    (line,) = re.findall(r"^rarest probes: (.*)$", few, re.MULTILINE)
    names, counts = zip(*(each.rsplit(" ", 1) for each in line.split(", ")), strict=True)
    assert set(names) < set(OF_REFERENCE)
    assert [*counts] == sorted(counts, key=int)


@pytest.mark.slow
def test_reaching_all_probes_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    target = "reference-jemalloc"
    run_command_line(["run", "--actions", "20000", "--seed", "1", "--target", target])
    probes = probes_for(make_target(target).start({}))
    assert f"all {len(probes)} probes reached" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "count"), [("reference", "0 failures"), (f"reference+{BUG}", "")]
)
def test_the_end_counts_the_failures(
    target: str, count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command_line([*SESSION, "--target", target])
    printed = capsys.readouterr().out
    found = printed.count("FAILURE ")
    assert (count or f"{found} failure{'s' if found > 1 else ''}") in printed


# Where it is shown.


@pytest.mark.slow
def test_without_a_terminal_there_are_no_escape_codes() -> None:
    command = [sys.executable, "-m", "fuzz", *SESSION, "--target", f"reference+{BUG}"]
    ran = subprocess.run(command, env=environment(), check=False, capture_output=True, text=True)
    assert ran.returncode == MISMATCH
    assert ESCAPE not in ran.stdout + ran.stderr
    assert "\r" not in ran.stdout


@pytest.mark.slow
def test_an_output_that_is_not_unicode_gets_the_report_too() -> None:
    Path("failing.jsonl").write_text(TRACE)
    command = [sys.executable, "-m", "fuzz", "replay", "failing.jsonl"]
    ascii_only = {**environment(), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ran = subprocess.run(
        [*command, "--target", f"reference+{BUG}"], env=ascii_only, check=False, capture_output=True
    )
    assert ran.returncode == MISMATCH
    assert b"0 passed, 1 failed" in ran.stdout


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> str:
    """All that a terminal of 80 columns got from a session."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "fuzz", "run", "--actions", "20000", "--seed", "1"],
        cwd=str(tmp_path_factory.mktemp("terminal")),
        env=environment(),
        dimensions=(LINES, COLUMNS),
        encoding="utf-8",
        timeout=None,
    )
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == CLEAN
    return str(child.before)


@pytest.fixture(scope="module")
def live_lines(screen: str) -> list[str]:
    """What the live line said, one after another."""
    plain = re.sub(ESCAPE + r"\[[\d;?]*[A-Za-z]", "", screen)
    return [line.strip() for line in plain.split("\r") if " · " in line]


@pytest.mark.slow
def test_a_terminal_shows_a_live_line_that_is_renewed(live_lines: list[str]) -> None:
    assert len({*live_lines}) > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        r"^\d+s · ",
        r" · \d+[kMG]? actions/s · ",
        rf" · probes \d+/{len(OF_REFERENCE)} · ",
        r" · 0 failures · ",
        r" · new \d+s ago$",
    ],
)
def test_the_live_line_shows(part: str, live_lines: list[str]) -> None:
    assert re.search(part, live_lines[-1])


@pytest.mark.slow
def test_the_live_line_fits_in_eighty_columns(live_lines: list[str]) -> None:
    assert [line for line in live_lines if not line.endswith(" ago")] == []


@pytest.mark.slow
def test_the_live_line_leaves_no_trace(screen: str) -> None:
    assert " · " not in screen.rpartition(ESCAPE + "[2K")[2]


# Actions in words.


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Malloc(9), "malloc size_bytes=9"),
        (Calloc(2, 9), "calloc count=2 size_bytes=9"),
        (Realloc(0, 9), "realloc root=0 size_bytes=9"),
        (SetPeriod(64), "set_period period_bytes=64"),
        (ReadProfile(), "read_profile"),
        (Malloc(9, thread=2), "malloc by thread 2 size_bytes=9"),
        (CollectMinor(thread=1), "collect_minor by thread 1"),
        (
            AllocateNode(0, nonmovable=True, thread=1),
            "allocate_node by thread 1 number=0 nonmovable",
        ),
    ],
    ids=str,
)
def test_an_action_is_said_by_whom_unless_it_is_the_first_thread(
    action: Action, words: str
) -> None:
    assert describe_action(action) == words
