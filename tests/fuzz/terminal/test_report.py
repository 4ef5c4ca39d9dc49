"""What a session and a replay print: failures, probes, and the live line."""

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
from command_line import Gcfuzz
from waiting import PATIENCE_SECONDS, completed, wait_until

import fuzz
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.reached.probes import probes_for
from fuzz.targets import make_target
from fuzz.terminal import session_report
from fuzz.terminal.commands.cli import run_command_line
from fuzz.terminal.report import describe_action

CLEAN, MISMATCH = 0, 1
BUG = "one-sample-per-object"
PLANTED = ("--target", f"reference+{BUG}")
REPLAY = ("replay", "failing.jsonl", *PLANTED)
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
def _in_a_folder_with_a_trace(empty_folder: Path) -> None:
    (empty_folder / "failing.jsonl").write_text(TRACE)


def environment() -> dict[str, str]:
    """For a process that finds the package under test."""
    plain = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    return {**plain, "PYTHONPATH": str(Path(fuzz.__file__).parents[1]), "TERM": "xterm-256color"}


def replays_in(printed: str) -> list[list[str]]:
    """The arguments of the commands that replay the failures of a report."""
    lines = re.findall(r"^  replay +(.*)$", printed, re.MULTILINE)
    commands = [shlex.split(line) for line in lines]
    assert commands
    assert {command[0] for command in commands} == {"gcfuzz"}
    return [command[1:] for command in commands]


# A failure.


def test_a_failure_has_values_actions_and_a_command(gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(MISMATCH, *REPLAY).out
    assert printed == REPORT
    (command,) = replays_in(printed)
    assert gcfuzz(MISMATCH, *command).out == REPORT


def test_a_long_trace_s_end_is_printed(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    header, *actions = TRACE.splitlines(keepends=True)
    path = tmp_path / "long.jsonl"
    path.write_text(header + '{"do": "collect_minor"}\n' * 99 + "".join(actions))
    printed = gcfuzz(MISMATCH, "replay", path, *PLANTED).out
    assert "40 actions, which only the file has\n" in printed
    assert printed.count("collect_minor") == 59


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["corpus", "my corpus"])
def test_a_session_s_commands_reproduce_its_failures(corpus: str, gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(MISMATCH, *SESSION, *PLANTED, "--corpus", corpus).out
    assert "FAILURE 1: sampling / samples / " in printed
    assert re.search(r"found +by the random engine, reduced from \d+", printed)
    commands = replays_in(printed)
    assert commands
    for command in commands:
        gcfuzz(MISMATCH, *command)
    found = printed.count("FAILURE ")
    assert f"\n{found} failure{'s' if found > 1 else ''} in " in printed


@pytest.mark.slow
def test_a_long_message_stays_on_its_line(gcfuzz: Gcfuzz) -> None:
    target = "reference+forgotten-remembered-entry"
    printed = gcfuzz(MISMATCH, *SESSION, "--target", target).out
    assert "DanglingReferenceError" in printed
    report = printed[printed.index("FAILURE 1") : printed.index("  replay")]
    assert [line for line in report.splitlines()[1:] if not line.startswith("  ")] == []


# The end of a session.


def printed_by(target: str, corpus: Path, *options: str) -> str:
    """The output of a session of 20 actions."""
    session = ("run", "--target", target, "--actions", "20", "--seed", "1", *options)
    with redirect_stdout(io.StringIO()) as printed:
        run_command_line([*session, "--corpus", str(corpus)])
    return printed.getvalue()


@pytest.mark.slow
def test_a_short_session_prints_no_probes(tmp_path: Path) -> None:
    printed = printed_by("reference", tmp_path)
    assert "20 actions" in printed
    assert "\n0 failures in " in printed
    assert "probes" not in printed


@pytest.mark.slow
def test_a_failed_session_prints_no_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_report, "PROBES_ACTIONS_MIN", 1)
    printed = printed_by(f"reference+{BUG}", tmp_path, "-x", "--actions", "2000")
    assert "the wanted number of failures is reached" in printed
    assert "probes" not in printed


def test_missing_probes_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_report, "PROBES_ACTIONS_MIN", 20)
    printed = printed_by("reference", tmp_path)
    (line,) = re.findall(r"^probes not reached: (.*)$", printed, re.MULTILINE)
    names, _, more = line.partition(" and ")
    assert set(names.split(", ")) < set(OF_REFERENCE)
    missing = len(names.split(", ")) + int(more.split()[0])
    assert len(OF_REFERENCE) / 2 < missing <= len(OF_REFERENCE)
    (line,) = re.findall(r"^rarest probes: (.*)$", printed, re.MULTILINE)
    rarest, counts = zip(*(each.rsplit(" ", 1) for each in line.split(", ")), strict=True)
    assert set(rarest) < set(OF_REFERENCE)
    assert [*counts] == sorted(counts, key=int)


@pytest.mark.slow
def test_a_session_that_reaches_all_probes_prints_that(gcfuzz: Gcfuzz) -> None:
    target = "reference-jemalloc"
    plan = ["--actions", "20000", "--seed", "1", "--target", target]
    probes = probes_for(make_target(target).start({}))
    assert f"all {len(probes)} probes reached" in gcfuzz(CLEAN, "run", *plan).out


# Files and terminals.


@pytest.mark.slow
def test_a_file_gets_no_escape_codes() -> None:
    command = [sys.executable, "-m", "fuzz", *SESSION, *PLANTED]
    ran = completed(command, env=environment(), check=False)
    assert ran.returncode == MISMATCH
    assert ESCAPE not in ran.stdout + ran.stderr
    assert "\r" not in ran.stdout


@pytest.mark.slow
def test_an_output_without_unicode_gets_the_report_too() -> None:
    ascii_only = {**environment(), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "fuzz", *REPLAY]
    ran = subprocess.run(
        command, env=ascii_only, check=False, capture_output=True, timeout=PATIENCE_SECONDS
    )
    assert ran.returncode == MISMATCH
    assert b"0 passed, 1 failed" in ran.stdout


@pytest.mark.slow
def test_a_terminal_shows_a_live_line_of_eighty_columns(tmp_path: Path) -> None:
    child = pexpect.spawn(
        sys.executable,
        ["-m", "fuzz", "run", "--actions", "20000", "--seed", "1"],
        cwd=str(tmp_path),
        env=environment(),
        dimensions=(LINES, COLUMNS),
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
    )
    child.expect(pexpect.EOF)
    wait_until(lambda: not child.isalive(), "the end of the program")
    child.close()
    assert child.exitstatus == CLEAN
    screen = str(child.before)
    plain = re.sub(ESCAPE + r"\[[\d;?]*[A-Za-z]", "", screen)
    lines = [line.strip() for line in plain.split("\r") if " · " in line]
    assert len({*lines}) > 1
    assert [line for line in lines if not line.endswith(" ago")] == []
    assert re.fullmatch(
        rf"\d+s · 0 failures · \d+[kMG]? actions/s · probes \d+/{len(OF_REFERENCE)} · new \d+s ago",
        lines[-1],
    )
    # It is erased at the end.
    assert " · " not in screen.rpartition(ESCAPE + "[2K")[2]


# Actions in words.


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (do.Malloc(9), "malloc size_bytes=9"),
        (do.Calloc(2, 9), "calloc count=2 size_bytes=9"),
        (do.Realloc(0, 9), "realloc root=0 size_bytes=9"),
        (do.SetPeriod(64), "set_period period_bytes=64"),
        (do.ReadProfile(), "read_profile"),
        (do.Malloc(9, thread=2), "malloc by thread 2 size_bytes=9"),
        (do.CollectMinor(thread=1), "collect_minor by thread 1"),
        (
            do.AllocateNode(0, nonmovable=True, thread=1),
            "allocate_node by thread 1 number=0 nonmovable",
        ),
        (
            do.AllocateGroup((do.Member("node"), do.Member("array", length=4)), thread=1),
            "allocate_group by thread 1 members=[node, array length=4]",
        ),
    ],
    ids=str,
)
def test_an_action_names_its_thread_unless_it_is_the_first(action: Action, words: str) -> None:
    assert describe_action(action) == words
