"""`gcfuzz run --before --after`: exit codes, what stays on disk, and what is printed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.sessions.compare import Before
from fuzz.sessions.plan import Plan
from fuzz.sessions.session_events import Started
from fuzz.targets import NO_OPTIONS
from fuzz.terminal.cli import run_command_line
from fuzz.terminal.session_report import SessionReporter
from fuzz.terminal.standard_streams import Screen

CLEAN, MISMATCH, BAD_INPUT = 0, 1, 2
RIGHT, WRONG = "reference", "reference+one-sample-per-object"
PLAN = ("--actions", "400", "--seed", "5", "--corpus", "finds")
FAULTY_COUNTER = Path(__file__).parent / "faulty_counter.py"
IN_PYTHON = """
from fuzz.targets import make_target

class Numbering:
    name = "numbering"
    first = {first}
    def __init__(self):
        self.target = make_target("reference")
    def start(self, configuration):
        return self.target.start(configuration)
    def perform(self, action):
        answer = self.target.perform(action)
        if answer.identity is not None:
            answer.identity += {first}
        return answer
"""

Complaint = Callable[..., str]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Complaint:
    """Run a session that is bad input; returns its one line."""

    def run(*arguments: str) -> str:
        assert run_command_line(["run", *arguments]) == BAD_INPUT
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1
        return printed

    return run


def compare(before: str, after: str, *options: str) -> int:
    return run_command_line(["run", "--before", before, "--after", after, *PLAN, *options])


def saved() -> list[str]:
    """The folders in which there are traces."""
    return sorted({str(path.parent) for path in Path("finds").rglob("*.jsonl")})


def replay(target: str) -> int:
    files = map(str, Path("finds").rglob("*.jsonl"))
    return run_command_line(["replay", *files, "--target", target])


def test_what_broke_is_a_failure_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(RIGHT, WRONG, "-x") == MISMATCH
    printed = capsys.readouterr().out
    assert f"before: {RIGHT}; " in printed
    assert "BROKE 1: sampling / samples / " in printed
    assert re.search(r"\n  before    gcfuzz replay finds/\S+ --target reference\n", printed)
    assert "\n1 new failure in " in printed
    assert saved() == ["finds"]
    assert (replay(RIGHT), replay(WRONG)) == (CLEAN, MISMATCH)


@pytest.mark.slow
def test_what_is_fixed_is_no_failure_and_stays_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(WRONG, RIGHT, "--summary", "summary.json") == CLEAN
    printed = capsys.readouterr().out
    assert "FIXED 1: sampling / samples / " in printed
    assert "\nfixed / sampling / samples / less: allocate_" in printed
    assert "\n0 new failures in " in printed
    assert saved() == ["finds/fixed"]
    assert (replay(RIGHT), replay(WRONG)) == (CLEAN, MISMATCH)
    summary = json.loads(Path("summary.json").read_text())
    assert {each["change"] for each in summary["failures"]} == {"fixed"}
    assert all(name.startswith("fixed / ") for name in summary["changes"])


@pytest.mark.slow
def test_what_fails_in_both_is_told_and_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(WRONG, WRONG) == CLEAN
    assert "STILL-FAILS 1: sampling / samples / " in capsys.readouterr().out
    assert saved() == ["finds/still-fails"]


@pytest.mark.slow
def test_two_equal_targets_have_nothing_to_tell(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(RIGHT, RIGHT) == CLEAN
    assert not re.search("BROKE|FIXED|FAILS|OBSERVABLE|contract", capsys.readouterr().out)
    assert saved() == []


def test_contracts_are_compared_first(capsys: pytest.CaptureFixture[str]) -> None:
    before = Before("reference", NO_OPTIONS)
    plan = Plan("reference-geometric", "random", 1, 1, Path("finds"), actions=1, before=before)
    SessionReporter(Screen())(Started(plan.under_contract(), bugs_checked=63))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "before: reference; a failure is what this target does not have",
        'contract: sampling.distances "period" → "geometric"',
        "contract: settings.sampler_seed new",
        "self-check: gcfuzz found all 63 bugs planted in its own reference",
    ]


@pytest.mark.slow  # Two programs are talked to.
def test_what_two_programs_answer_otherwise_is_observable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = []
    for name, first in (("old", 0), ("new", 1000)):
        Path(f"{name}.py").write_text(IN_PYTHON.format(first=first))
        programs.append(f"{sys.executable} -m fuzz.targets {name}:Numbering .")
    assert compare(*programs, "--target", "process", "--actions", "200") == CLEAN
    printed = capsys.readouterr().out
    assert "OBSERVABLE 1: identity\n  before    identity 1\n  after     identity 1001\n" in printed
    assert "← differs\n" in printed
    assert "\nobservable / identity: take_identity " in printed
    assert saved() == ["finds/observable"]


@pytest.mark.slow  # Two sessions.
def test_any_number_of_workers_leaves_the_same_differences() -> None:
    corpora = []
    for folder, workers in (("one", "1"), ("two", "2")):
        options = "--corpus", folder, "--summary", f"{folder}.json", "--workers", workers
        assert compare(WRONG, f"{WRONG}+sample-on-equality", *options) == MISMATCH
        summary = json.loads(Path(f"{folder}.json").read_text())
        del summary["timing"]
        files = {path.name: path.read_text() for path in Path(folder).rglob("*.jsonl")}
        corpora.append((summary, files))
    assert corpora[0] == corpora[1]


@pytest.mark.slow  # Two programs are run.
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("size", "late"),
        ("size", "size late"),
        ("size", "early"),
        ("size", "counts-while-off"),
        ("size", "large-error"),
        ("size", "free-error"),
        ("early", "late"),
        ("drops-rest", "late"),
        ("large-error", "free-error"),
        ("late", "early"),
    ],
)
def test_a_defect_before_hides_no_other_defect_after(old: str, new: str) -> None:
    before, after = (f"{sys.executable} {FAULTY_COUNTER} {each}" for each in (old, new))
    assert compare(before, after, "--target", "process", "-x") == MISMATCH
    [broken] = map(str, Path("finds").glob("*.jsonl"))
    assert run_command_line(["replay", broken, "--command", after]) == MISMATCH


@pytest.mark.slow  # Two programs are run.
def test_one_defect_less_is_no_failure() -> None:
    before, after = (f"{sys.executable} {FAULTY_COUNTER} {each}" for each in ("size late", "late"))
    assert compare(before, after, "--target", "process") == CLEAN
    assert saved() == ["finds/fixed", "finds/still-fails"]


# What cannot be asked for.


@pytest.mark.parametrize("alone", ["--before", "--after"])
def test_one_of_the_two_is_not_enough(alone: str, complaint: Complaint) -> None:
    assert "give both of them" in complaint(alone, "reference")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--engine stateful", "--engine stateful"),
        ("--target reference", "without --target they name two targets"),
        ("--command a", "stand for --command"),
        ("--target incminimark --source a", "stand for --source"),
        ("--target process", "new: cannot be started"),
        ("", "unknown target 'new'"),
    ],
)
def test_what_does_not_go_with_them_is_said(options: str, said: str, complaint: Complaint) -> None:
    assert said in complaint("--before", "old", "--after", "new", *options.split())
