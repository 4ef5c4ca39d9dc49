"""The progress line of a long profile."""

from __future__ import annotations

import math
import os
import re
import sys
from io import StringIO
from pathlib import Path

import pexpect
import pytest
from rich.console import Console
from waiting import PATIENCE_SECONDS, wait_until

import fuzz
from fuzz.profiling import profile_report
from fuzz.profiling.programs import ProgramSource
from gcmodel import Heap
from gcmodel.profiling.recorder import Listener
from gcmodel.profiling.recording import RecordingWriter

COLUMNS, LINES = 100, 30
LINE = re.compile(
    r"^(\d+)% · \d+ s · \d+k? samples of [\d.]+ \w+ · [\d.]+ \w+ recorded$", re.MULTILINE
)
LONG = """
def main(heap):
    for number in range(30_000):
        heap.allocate_node(number)
        heap.free(0)
"""


def allocate(heap: Heap) -> None:
    for number in range(20_000):
        heap.allocate_node(number)
        heap.free(0)


@pytest.fixture
def source() -> ProgramSource:
    return ProgramSource(
        name="nodes",
        program=allocate,
        script=None,
        repeat=1,
        is_random=False,
        seed=1,
        period_bytes=64,
        time_period_us=None,
    )


def record(source: ProgramSource, path: Path, listener: Listener) -> None:
    with RecordingWriter(path, source.header(), 10**8) as writer:
        source.record(writer, listener)


def shown(source: ProgramSource, path: Path, *, terminal: bool) -> str:
    """The output of a console while the source is recorded."""
    output = StringIO()
    console = Console(file=output, force_terminal=terminal, width=COLUMNS)
    with profile_report.ProfilingProgress(console, source, source.cost()) as progress:
        record(source, path, progress)
    return output.getvalue()


def test_without_a_terminal_lines_show_the_progress(
    source: ProgramSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_report, "PLAIN_SECONDS", 0)
    shares = list(map(int, LINE.findall(shown(source, tmp_path / "out.jsonl", terminal=False))))
    # There is a collection, and so a line, for each 2,048 nodes.
    assert len(shares) >= 9
    assert shares == sorted(shares)
    assert shares[-1] >= 90


@pytest.mark.slow
def test_no_line_is_printed_before_its_time(
    source: ProgramSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_report, "PLAIN_SECONDS", math.inf)
    assert shown(source, tmp_path / "out.jsonl", terminal=False) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("live_seconds", "lines"), [(math.inf, 1), (0, 10)])
def test_a_live_line_is_drawn_at_once_and_then_redrawn(
    source: ProgramSource,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    live_seconds: float,
    lines: int,
) -> None:
    monkeypatch.setattr(profile_report, "LIVE_SECONDS", live_seconds)
    printed = shown(source, tmp_path / "out.jsonl", terminal=True)
    assert len({*re.findall(r"(\d+)% · ", printed)}) == lines


def in_a_terminal(folder: Path, what: str) -> pexpect.spawn[str]:
    """Profile something in a terminal."""
    return pexpect.spawn(
        sys.executable,
        ["-m", "fuzz", "profile", what, "--period", "64", "-o", "out.collapsed"],
        cwd=str(folder),
        env={
            **os.environ,
            "PYTHONPATH": str(Path(fuzz.__file__).parents[1]),
            "TERM": "xterm-256color",
        },
        dimensions=(LINES, COLUMNS),
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
    )


SHOW_CURSOR, ERASE_LINE = "\x1b[?25h", "\x1b[2K"


@pytest.mark.slow
def test_a_terminal_shows_one_line_that_is_erased_at_the_end(tmp_path: Path) -> None:
    child = in_a_terminal(tmp_path, "allocate")
    child.expect("allocate: once without a recorder")
    child.expect(r"\d+% · \d+ s · \d+k? samples of [^\r\n]* recorded")
    child.expect(r"all samples +[\d.]+ MB")
    assert child.before is not None
    _, _, after_the_last_line = child.before.rpartition(" recorded")
    assert SHOW_CURSOR in after_the_last_line
    assert ERASE_LINE in after_the_last_line
    child.expect(pexpect.EOF)
    wait_until(lambda: not child.isalive(), "the end of the program")
    child.close()
    assert child.exitstatus == 0


@pytest.mark.slow
def test_a_program_that_prints_has_the_terminal_for_itself(tmp_path: Path) -> None:
    (tmp_path / "nodes.py").write_text(LONG + "    print('nodes:', end=' '); print('done')\n")
    child = in_a_terminal(tmp_path, "nodes.py")
    child.expect_exact("nodes.py: once without a recorder\r\nnodes: done\r\nnodes: done\r\n")
    child.expect(r"all samples +[\d.]+ kB")
    child.expect(pexpect.EOF)
    wait_until(lambda: not child.isalive(), "the end of the program")
    child.close()
