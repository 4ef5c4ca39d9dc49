"""Workers that hang or are killed: others run their chunks again, and nothing is lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import attrs
import psutil
import pytest
from waiting import PATIENCE_SECONDS, waited_for

from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.record import ACTIONS as ACTIONS_DONE
from fuzz.sessions.session import Session
from fuzz.sessions.session_events import ChunkLost, Event, Finished, WorkerDied
from fuzz.sessions.worker import Searched

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
ACTIONS = 60_000
SILENCE_SECONDS = 5.0
DONE_BEFORE_DEATH = 40


def signal_workers(number: signal.Signals, times: int, over: threading.Event) -> None:
    """Send a number of workers a signal while they search, until the session is over."""
    signalled: set[int] = set()
    while len(signalled) < times and not over.wait(0.05):
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):
                is_worker = "spawn_main" in " ".join(child.cmdline())
                if is_worker and child.pid not in signalled and child.cpu_times().user > 0.5:
                    child.send_signal(number)
                    signalled.add(child.pid)
                    break


def session_that_loses_workers(plan: Plan, number: signal.Signals, times: int) -> list[Event]:
    """The events of a session whose workers get that signal, one after another."""
    events: list[Event] = []
    over = threading.Event()
    signaller = threading.Thread(target=signal_workers, args=(number, times, over))
    signaller.start()
    try:
        Session(plan, [events.append]).run()
    finally:
        over.set()
        signaller.join(PATIENCE_SECONDS)
    return events


def how_they_died(events: list[Event]) -> list[str]:
    return [event.how for event in events if isinstance(event, WorkerDied)]


def last(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    target = "reference+one-sample-per-object"
    return Plan(target, "random", 1, 2, tmp_path, actions=ACTIONS)


def test_a_hanging_worker_s_chunk_runs_again(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.sessions.pool.SILENCE_SECONDS", SILENCE_SECONDS)
    events = session_that_loses_workers(plan, signal.SIGSTOP, 1)
    assert {*how_they_died(events)} == {"silent for 5 s, and ended"}
    assert last(events).stop_reason == ACTIONS_DONE
    assert last(events).record.totals.actions == ACTIONS


def test_three_killed_workers_lose_nothing(plan: Plan, tmp_path: Path) -> None:
    events = session_that_loses_workers(plan, signal.SIGKILL, 3)
    assert how_they_died(events) == ["exit code -9"] * 3
    alone = attrs.evolve(plan, workers=1, corpus=tmp_path / "alone")
    alone.corpus.mkdir()
    undisturbed = Session(alone, []).run()
    assert last(events).record.pieces == undisturbed.record.pieces
    assert last(events).record.failures == undisturbed.record.failures


def test_a_chunk_that_kills_workers_is_named(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    # A worker imports this file by its name, and the harness from where it is installed.
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])
    monkeypatch.setattr("fuzz.sessions.local_worker.worker.work", die_in_the_second_chunk)
    events: list[Event] = []
    finished = Session(attrs.evolve(plan, workers=1, actions=500), [events.append]).run()
    assert [event.chunk.index for event in events if isinstance(event, ChunkLost)] == [1]
    assert (finished.lost, finished.is_done) == ((1,), False)
    assert finished.record.totals.actions == 500 - 64


def test_work_before_a_crash_counts_once(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])
    monkeypatch.setattr("fuzz.sessions.local_worker.worker.work", die_in_the_second_chunk)
    finished = Session(attrs.evolve(plan, workers=1, actions=500), []).run()
    done = 500 - 64 + DONE_BEFORE_DEATH
    assert (finished.totals.actions, finished.record.timing[-1].actions) == (done, done)


def die_in_the_second_chunk(plan: Plan, connection: Connection) -> None:
    """A worker's main function."""
    while (task := waited_for(connection.recv, "a task")) is not None:
        if task.chunk.index == 1:
            connection.send(SessionTotals(actions=DONE_BEFORE_DEATH))
            os._exit(3)
        connection.send(Searched(SessionTotals(actions=task.chunk.actions), is_whole=True))
