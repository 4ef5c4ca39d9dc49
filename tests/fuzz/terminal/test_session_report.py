"""What a session prints while it runs and at its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from fuzz.failure import Failure
from fuzz.failures.corpus import SavedFailure
from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol.actions import NAMES, Action
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.record import ACTIONS, WORKERS_DIED, SessionRecord, piece_of
from fuzz.sessions.session_events import FailureFound, FailureReported, Finished, Progress
from fuzz.terminal.screen import Screen
from fuzz.terminal.session_report import SessionReporter

PLAN = Plan("reference", "random", 1, 1, Path("corpus"), actions=1)
COLUMNS = 80
RECORD = SessionRecord(PLAN.key, (piece_of(range(1), (), SessionTotals()),), (), ACTIONS, (), ())


def saved(*actions: Action, oracle: str = "heap", field: str = "value") -> SavedFailure:
    kind = oracle, field, NAMES[type(actions[-1])], "different"
    failure = Failure(*kind, "1", "2", "made up", actions=actions)
    length = len(actions)
    return SavedFailure(failure, Path("a.jsonl"), length, length, chunk=0, reproduced=True)


def printed(
    failures: Sequence[SavedFailure], capsys: pytest.CaptureFixture[str], plan: Plan = PLAN
) -> str:
    reporter = SessionReporter(Screen())
    for each in failures:
        reporter(FailureReported(plan, each))
    reporter(Finished(plan, 1.0, SessionTotals(), tuple(failures), ACTIONS, None, RECORD))
    return capsys.readouterr().out


def progress(seconds: float, failures: int = 0, reducing: int = 0) -> Progress:
    totals = SessionTotals(10**6, 10**8, 10**7)
    return Progress(seconds, totals, failures, reducing, 1234, 999.0, 99, 142)


@pytest.mark.parametrize(
    ("tries", "reason"),
    [
        (0, "(seen once; not tried again, because the session ended)"),
        (2, "(seen once; did NOT reproduce in 2 runs)"),
    ],
)
def test_a_failure_that_did_not_reproduce_has_the_reason(
    tries: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    once = attrs.evolve(saved(do.CollectFull()), reproduced=False, tries=tries)
    assert reason in printed([once], capsys)


def test_a_program_s_failure_may_need_earlier_traces(capsys: pytest.CaptureFixture[str]) -> None:
    once = attrs.evolve(saved(do.CollectFull()), reproduced=False, tries=3)
    program = attrs.evolve(PLAN, target="process")
    assert "needs earlier traces" not in printed([once], capsys)
    assert "needs earlier traces" not in printed([attrs.evolve(once, tries=0)], capsys, program)
    assert "needs earlier traces" in printed([once], capsys, program)


def test_a_failure_in_this_process_may_be_chance(capsys: pytest.CaptureFixture[str]) -> None:
    once = attrs.evolve(saved(do.CollectFull()), reproduced=False, tries=3)
    assert "`gcfuzz help nondeterminism`" in printed([once], capsys).replace("\n", " ")


def allocations() -> list[SavedFailure]:
    """One mistake: each kind of allocation fails, with other periods and lengths."""
    traces = [
        (do.EnableSampling(8), do.AllocateNode(0)),
        (do.EnableSampling(16), do.AllocateString(7), do.AllocateString(9)),
        (do.EnableSampling(24), do.AllocateArray(2)),
    ]
    return [saved(*actions, oracle="sampling", field="samples") for actions in traces]


def test_a_cause_s_first_failure_is_shown_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    report = printed(allocations(), capsys)
    assert report.count("first wrong answer") == 1
    assert [line for line in report.splitlines() if line.startswith(("FAIL", "  fail"))] == [
        "FAILURE 1: sampling / samples / allocate_node / different",
        "FAILURE 2: sampling / samples / allocate_string / different, like 1: a.jsonl",
        "FAILURE 3: sampling / samples / allocate_array / different, like 1: a.jsonl",
        "  failure 1, like 3, 2: 2 actions, sampling / samples / allocate_node / different",
    ]


def test_a_cause_s_best_failure_is_shown_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    _, first, second = allocations()
    report = printed([attrs.evolve(first, reproduced=False), second], capsys)
    at_once, _, at_the_end = report.partition("FAILURE 2: sampling / samples / allocate_array")
    assert "not tried again" in at_once
    assert "allocate_array length=2   ← first wrong answer" in at_the_end
    assert "\nof failure 1 and those like it, the one to read first:\nFAILURE 2: " in at_the_end
    assert "  failure 2, like 1: 2 actions" in at_the_end


def test_a_failure_without_a_file_is_shown_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, _ = allocations()
    report = printed([first, attrs.evolve(second, path=None, unsaved="no room")], capsys)
    assert report.count("first wrong answer") == 2
    assert '{"do": "allocate_string", "length": 9}' in report


@pytest.mark.parametrize(
    "other",
    [
        saved(do.EnableSampling(8), do.AllocateNode(0), oracle="pointers"),
        saved(do.EnableSampling(8), do.AllocateNode(0), field="order"),
        saved(do.EnableSampling(8), do.CollectMinor(), do.AllocateNode(0)),
        saved(do.EnableSampling(8), do.AllocateNode(0), do.CollectMinor()),
    ],
    ids=["oracle", "field", "an action before", "what is done last"],
)
def test_failures_that_differ_in_more_than_arguments_have_different_causes(
    other: SavedFailure, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = [saved(do.EnableSampling(8), do.AllocateString(0)), other]
    assert printed(failures, capsys).count("first wrong answer") == 2


def test_an_empty_session_prints_its_problem(capsys: pytest.CaptureFixture[str]) -> None:
    problem = BadInputError("there is no such program")
    finished = Finished(PLAN, 1.0, SessionTotals(), (), WORKERS_DIED, problem, RECORD)
    SessionReporter(Screen())(finished)
    assert capsys.readouterr().out == ""


def test_a_single_failure_has_no_list_of_causes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "causes" not in printed([saved(do.CollectMinor())], capsys)


def test_a_failure_keeps_the_number_of_its_identity(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = SessionReporter(Screen())
    first, second = saved(do.CollectMinor()), saved(do.AllocateNode(0), do.CollectFull())
    for each in (first, second):
        reporter(FailureFound(each.failure, each.length))
    for each in (second, saved(do.AllocateNode(0), do.CollectMinor()), second):
        reporter(FailureReported(PLAN, each))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "found 1: heap / value / collect_minor / different (1 action; reducing ...)",
        "  heap: value: expected 1, got 2 (made up)",
        "found 2: heap / value / collect_full / different (2 actions; reducing ...)",
        "  heap: value: expected 1, got 2 (made up)",
        "FAILURE 2: heap / value / collect_full / different",
    ]
    titles = [line.partition(":")[0] for line in lines if line.startswith("FAILURE")]
    assert titles == ["FAILURE 2", "FAILURE 1", "FAILURE 2"]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (progress(12, 3, 0), "12s · 3 failures · 8333k actions/s · probes 99/142 · new 999s ago"),
        (progress(12, 3, 1), "12s · 3 failures · reducing: 1234 tries · probes 99/142 · new 999s"),
        (progress(12, 3, 2), "12s · 3 failures · reducing 2: 1234 tries · probes 99/142 · new"),
        (progress(7e5, 999, 10), "194h · 999 failures · reducing 10: 1234 tries · probes"),
    ],
)
def test_the_live_line_has_the_speed_or_the_reductions(
    event: Progress, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    SessionReporter(Screen())(event)
    printed = capsys.readouterr().out
    assert printed.startswith(line)
    assert len(printed.rstrip()) <= COLUMNS


@pytest.mark.parametrize("reducing", [0, 10])
def test_live_lines_fit_in_80_columns(reducing: int, capsys: pytest.CaptureFixture[str]) -> None:
    totals = SessionTotals(10**9, 10**12, 10**11)
    SessionReporter(Screen())(Progress(7e5, totals, 999, reducing, 9_000_000, 59_999, 1142, 1142))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(" · probes 1142/1142 · new 999m ago")
    assert len(line) <= COLUMNS
