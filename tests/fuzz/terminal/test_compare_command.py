"""`gcfuzz run --before --after`: exit codes, files, and output."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from command_line import Complaint
from comparing import write_changed

from fuzz.failures.compare import Before
from fuzz.sessions.plan import Plan
from fuzz.sessions.session_events import Started
from fuzz.targets import NO_OPTIONS
from fuzz.terminal.commands.cli import run_command_line
from fuzz.terminal.screen import Screen
from fuzz.terminal.session_report import SessionReporter

CLEAN, MISMATCH = 0, 1
RIGHT, WRONG = "reference", "reference+one-sample-per-object"
PLAN = ("--actions", "400", "--seed", "5", "--corpus", "traces")
FAULTY_COUNTER = Path(__file__).parent / "faulty_counter.py"


pytestmark = pytest.mark.usefixtures("empty_folder")


def compare(before: str, after: str, *options: str) -> int:
    return run_command_line(["run", "--before", before, "--after", after, *PLAN, *options])


def saved() -> list[str]:
    """The folders in which there are traces."""
    return sorted({str(path.parent) for path in Path("traces").rglob("*.jsonl")})


def replay(target: str) -> int:
    files = map(str, Path("traces").rglob("*.jsonl"))
    return run_command_line(["replay", *files, "--target", target])


def test_what_broke_is_a_failure_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(RIGHT, WRONG, "-x") == MISMATCH
    printed = capsys.readouterr().out
    assert f"before: {RIGHT}; " in printed
    assert "BROKE 1: sampling / samples / " in printed
    assert re.search(r"\n  before    gcfuzz replay traces/\S+ --target reference\n", printed)
    assert "\n1 new failure in " in printed
    assert saved() == ["traces"]
    assert (replay(RIGHT), replay(WRONG)) == (CLEAN, MISMATCH)


@pytest.mark.slow
def test_a_fix_is_not_a_failure_and_has_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(WRONG, RIGHT, "--summary", "summary.json") == CLEAN
    printed = capsys.readouterr().out
    assert "FIXED 1: sampling / samples / " in printed
    assert "\nfixed / sampling / samples / less: allocate_" in printed
    assert "\n0 new failures in " in printed
    assert saved() == ["traces/fixed"]
    assert (replay(RIGHT), replay(WRONG)) == (CLEAN, MISMATCH)
    summary = json.loads(Path("summary.json").read_text())
    assert {each["failure"]["change"] for each in summary["failures"]} == {"fixed"}
    assert all(name.startswith("fixed / ") for name in summary["totals"]["changes"])


@pytest.mark.slow
def test_what_fails_in_both_is_not_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(WRONG, WRONG) == CLEAN
    assert "STILL-FAILS 1: sampling / samples / " in capsys.readouterr().out
    assert saved() == ["traces/still-fails"]


@pytest.mark.slow
def test_two_equal_targets_have_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(RIGHT, RIGHT) == CLEAN
    assert not re.search("BROKE|FIXED|FAILS|OBSERVABLE|contract", capsys.readouterr().out)
    assert saved() == []


@pytest.mark.slow
@pytest.mark.parametrize(("options", "code"), [([], CLEAN), (["--fail-on", "weaker"], MISMATCH)])
def test_a_weaker_contract_is_reported_and_fails_if_asked_for(
    options: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare("reference-finalizers", RIGHT, *options, "--actions", "20") == code
    printed = capsys.readouterr().out
    [weaker] = re.findall("weaker contract: (.*)", printed)
    assert weaker.startswith("no longer carries out register_finalizer, ")
    assert weaker.endswith("; no longer observes finalized; finalizers gone")


def test_contracts_are_compared_first(capsys: pytest.CaptureFixture[str]) -> None:
    before = Before("reference", NO_OPTIONS)
    plan = Plan("reference-geometric", "random", 1, 1, Path("traces"), actions=1, before=before)
    SessionReporter(Screen())(Started(plan.under_contract(), bugs_checked=63))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "before: reference; a failure is what this target does not have",
        'contract: sampling.distances "period" → "geometric"',
        "contract: settings.sampler_seed new",
        "self-check: gcfuzz found all 63 bugs planted in its own reference",
    ]


@pytest.mark.slow  # Two programs are run.
def test_different_answers_are_observable(capsys: pytest.CaptureFixture[str]) -> None:
    programs = []
    for name, first in (("old", 0), ("new", 1000)):
        changed = write_changed(name, "answer.identity is not None", "identity", first)
        programs.append(f"{sys.executable} -m fuzz.targets {changed} .")
    assert compare(*programs, "--target", "process", "--actions", "1000") == CLEAN
    printed = capsys.readouterr().out
    assert "OBSERVABLE 1: identity\n  before    identity 1\n  after     identity 1001\n" in printed
    assert "← differs\n" in printed
    assert "\nobservable / identity: take_identity " in printed
    assert saved() == ["traces/observable"]


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
    assert compare(before, after, "--target", "process", "-x", "--actions", "6000") == MISMATCH
    [broken] = map(str, Path("traces").glob("*.jsonl"))
    assert run_command_line(["replay", broken, "--command", after]) == MISMATCH


@pytest.mark.slow  # Two programs are run.
def test_one_defect_less_is_not_a_failure() -> None:
    before, after = (f"{sys.executable} {FAULTY_COUNTER} {each}" for each in ("size late", "late"))
    assert compare(before, after, "--target", "process") == CLEAN
    assert saved() == ["traces/fixed", "traces/still-fails"]


# Mistakes.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--before old", "give both of them"),
        ("--after new", "give both of them"),
        ("--before old --after new", "unknown target 'new'"),
        ("--fail-on weaker", "give --before and --after"),
        ("--before old --after new --engine stateful", "--engine stateful"),
        ("--before old --after new --target reference", "without --target they name two targets"),
        ("--before old --after new --command a", "stand for --command"),
        ("--before old --after new --target incminimark --source a", "stand for --source"),
        ("--before old --after new --target process", "new: cannot be started"),
    ],
)
def test_a_mistake_gets_one_line(options: str, message: str, complaint: Complaint) -> None:
    assert message in complaint("run", *options.split())
