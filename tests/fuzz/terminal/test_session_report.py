"""What a session prints while it runs, and how its end puts the finds together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from fuzz.problems import BadInputError
from fuzz.protocol.actions import (
    Action,
    AllocateNode,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectStep,
    EnableSampling,
)
from fuzz.protocol.trace import VERSION, Found, Header, Trace
from fuzz.run import Failure
from fuzz.sessions.corpus import Find
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.record import ACTIONS, WORKERS_DIED, Piece, SessionRecord, plan_data
from fuzz.sessions.session_events import FailureFound, Finished, Progress, Told
from fuzz.terminal.session_report import SessionReporter
from fuzz.terminal.streams import Screen

PLAN = Plan("reference", "random", 1, 1, Path("corpus"), actions=1)
COLUMNS = 80
RECORD = SessionRecord(plan_data(PLAN), (), (Piece(range(1), SessionTotals()),), (), ACTIONS)


def find(*actions: Action, oracle: str = "heap", field: str = "error") -> Find:
    failure = Failure({}, actions, oracle, field, "different", "1", "2", "made up")
    trace = Trace(Header(VERSION, "reference", {}), actions)
    return Find(failure, trace, Path("find.jsonl"), len(actions), reproduced=True)


def printed(finds: Sequence[Find], capsys: pytest.CaptureFixture[str]) -> str:
    reporter = SessionReporter(Screen())
    for each in finds:
        reporter(Told(PLAN, each))
    reporter(Finished(PLAN, 1.0, SessionTotals(), tuple(finds), ACTIONS, None, RECORD))
    return capsys.readouterr().out


def progress(seconds: float, failures: int = 0, reducing: int = 0) -> Progress:
    totals = SessionTotals(10**6, 10**8, 10**7)
    return Progress(seconds, totals, failures, reducing, 1234, 999.0, 99, 142)


def live_line(event: Progress, capsys: pytest.CaptureFixture[str]) -> str:
    SessionReporter(Screen())(event)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("tries", "said"),
    [
        (0, "(seen once; not tried again, because the session ended)"),
        (2, "(seen once; did NOT reproduce in 2 runs)"),
    ],
)
def test_a_failure_that_was_not_tried_again_is_not_said_to_be_irreproducible(
    tries: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    once = attrs.evolve(find(CollectFull()), reproduced=False, tries=tries)
    assert said in printed([once], capsys)


def test_only_a_program_s_failure_that_did_not_reproduce_may_need_more_earlier_traces(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = Trace(Header(VERSION, "process", found=Found("heap", "", "random")), (CollectFull(),))
    once = attrs.evolve(find(CollectFull()), trace=trace, reproduced=False)
    assert "needs more earlier traces" not in printed([once], capsys)
    assert "needs more earlier traces" in printed([attrs.evolve(once, tries=3)], capsys)


def test_finds_of_one_oracle_whose_actions_differ_in_the_last_may_have_one_cause(
    capsys: pytest.CaptureFixture[str],
) -> None:
    node, minor, full = AllocateNode(0), CollectMinor(), CollectFull()
    finds = [
        find(node, EnableSampling(8), CollectStep()),
        find(node, full),
        find(node, minor),
        find(node, minor, oracle="survival"),
        find(node, CheckHeap(), full, oracle="survival"),
    ]
    report = printed(finds, capsys)
    assert report[report.index("by their") :].splitlines()[:5] == [
        "by their likely causes, the shortest traces first:",
        "  failure 2, like 3: 2 actions, heap / error / collect_full / different",
        "  failure 4: 2 actions, survival / error / collect_minor / different",
        "  failure 1: 3 actions, heap / error / collect_step / different",
        "  failure 5: 3 actions, survival / error / collect_full / different",
    ]


def test_where_nothing_was_done_the_reason_which_is_told_is_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = BadInputError("there is no such program")
    finished = Finished(PLAN, 1.0, SessionTotals(), (), WORKERS_DIED, problem, RECORD)
    SessionReporter(Screen())(finished)
    assert capsys.readouterr().out == ""


def test_a_single_find_needs_no_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert "causes" not in printed([find(CollectMinor())], capsys)


def test_a_find_that_is_told_again_keeps_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = SessionReporter(Screen())
    longer, other = find(AllocateNode(0), CollectMinor()), find(CollectFull())
    for each in (longer, other, find(CollectMinor())):
        reporter(Told(PLAN, each))
    titles = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILURE")]
    assert [title.split(":")[0] for title in titles] == ["FAILURE 1", "FAILURE 2", "FAILURE 1"]


def test_a_failure_is_told_in_words_when_it_is_found_and_keeps_its_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = SessionReporter(Screen())
    first, second = find(CollectMinor()), find(AllocateNode(0), CollectFull())
    for each in (first, second):
        reporter(FailureFound(each.failure))
    reporter(Told(PLAN, second))
    assert capsys.readouterr().out.splitlines()[:5] == [
        "found 1: heap / error / collect_minor / different (1 action; reducing ...)",
        "  heap: error: expected 1, got 2 (made up)",
        "found 2: heap / error / collect_full / different (2 actions; reducing ...)",
        "  heap: error: expected 1, got 2 (made up)",
        "FAILURE 2: heap / error / collect_full / different",
    ]


@pytest.mark.parametrize(
    ("reducing", "words"),
    [
        (0, "3 failures · 1000k traces"),
        (1, "3 failures · reducing ... 1234 tries · "),
        (2, "· reducing 2 ... 1234 tries · "),
    ],
)
def test_the_live_line_says_what_is_being_reduced(
    reducing: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in live_line(progress(12, 3, reducing), capsys)


def test_failures_stand_in_the_live_line_of_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = live_line(progress(99_999, 10_000, 10), capsys)
    assert "10,000 failures · reducing 10 ... 1234 tries · " in line[:COLUMNS]
