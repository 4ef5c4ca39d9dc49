"""Sessions whose workers hang or are killed: they end, and say what is not done."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import psutil
import pytest

from fuzz.sessions.session import WORKERS_DIED, Event, Finished, Session, WorkerDied
from fuzz.sessions.worker import Plan

pytestmark = pytest.mark.slow

UNLIMITED_ACTIONS = 10**9
PATIENCE_SECONDS = 3.0


def signal_a_worker(number: signal.Signals, over: threading.Event) -> None:
    """Wait until a worker has begun to search, and send it a signal, unless all is over."""
    while not over.wait(0.05):
        for child in psutil.Process().children():
            if "spawn_main" in " ".join(child.cmdline()) and child.cpu_times().user > 0.5:
                child.send_signal(number)
                return


def session_that_loses_its_worker(folder: Path, number: signal.Signals) -> list[Event]:
    """All events of a session whose only worker gets that signal."""
    events: list[Event] = []
    plan = Plan("reference", "random", 1, 1, folder, actions=UNLIMITED_ACTIONS)
    over = threading.Event()
    signaller = threading.Thread(target=signal_a_worker, args=(number, over))
    signaller.start()
    try:
        Session(plan, [events.append]).run()
    finally:
        over.set()
        signaller.join()
    return events


def how_it_died(events: list[Event]) -> list[str]:
    return [event.how for event in events if isinstance(event, WorkerDied)]


def last(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.sessions.session.SILENCE_SECONDS", PATIENCE_SECONDS)


@pytest.mark.usefixtures("impatient")
def test_a_worker_that_hangs_is_ended_and_named(tmp_path: Path) -> None:
    events = session_that_loses_its_worker(tmp_path, signal.SIGSTOP)
    assert how_it_died(events) == ["silent for 3 s, and ended"]
    assert last(events).stop_reason == WORKERS_DIED


def test_a_budget_of_actions_that_a_killed_worker_leaves_undone_is_not_done(tmp_path: Path) -> None:
    events = session_that_loses_its_worker(tmp_path, signal.SIGKILL)
    assert how_it_died(events) == ["exit code -9"]
    assert last(events).stop_reason == WORKERS_DIED
    assert last(events).totals.actions < UNLIMITED_ACTIONS
