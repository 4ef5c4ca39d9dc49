"""Sessions without the command line: their sums, their end, and their events."""

from __future__ import annotations

import functools
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from pathlib import Path

import attrs
import psutil
import pytest
from scripts import shell_script
from waiting import PATIENCE_SECONDS

from fuzz.failures.corpus import SavedFailure
from fuzz.problems import HarnessError
from fuzz.protocol.lines import to_line, unstructured
from fuzz.protocol.target import contract_of
from fuzz.protocol.trace import digest_of, read
from fuzz.sessions.local_worker import LocalWorker
from fuzz.sessions.plan import UNLIMITED, Plan
from fuzz.sessions.record import ACTIONS, FAILURES, INTERRUPTED, TIME
from fuzz.sessions.session import Session
from fuzz.sessions.session_events import (
    Event,
    FailureFound,
    FailureReported,
    Finished,
    Progress,
    WorkerDied,
)
from fuzz.sessions.worker import Canary
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.process.program import SILENT_TRACES_MAX

UNLIMITED_ACTIONS = 10**9
ADAPTER = """
import sys, time
from fuzz.targets.process.serve import serve
from fuzz.targets import make_target

class Slow:
    name = "slow"
    def __init__(self):
        self.target = make_target("reference")
    def start(self, configuration):
        return self.target.start(configuration)
    def perform(self, action):
        time.sleep({seconds})
        return self.target.perform(action)

serve(Slow(), sys.stdin, sys.stdout)
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan("reference", "random", 5, 1, tmp_path, actions=400)


@pytest.fixture
def slow(tmp_path: Path) -> Callable[[float], TargetOptions]:
    """A correct program that takes this number of seconds for each answer."""

    def make(seconds: float) -> TargetOptions:
        program = tmp_path / "slow.py"
        program.write_text(ADAPTER.format(seconds=seconds))
        return TargetOptions((sys.executable, str(program)), timeout_seconds=120)

    return make


def run(plan: Plan, listener: Callable[[Event], None] = lambda _: None) -> Finished:
    plan.corpus.mkdir(exist_ok=True)
    return Session(plan, [listener]).run()


def test_an_interrupted_session_reports_it_and_its_workers_end_by_themselves(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a worker may need longer than users wait after an interrupt.
    monkeypatch.setattr("fuzz.sessions.session.STOP_SECONDS", PATIENCE_SECONDS)
    workers: list[BaseProcess] = []

    def interrupt(event: Event) -> None:
        if isinstance(event, Progress) and event.totals.actions:
            workers[:] = multiprocessing.active_children()
            os.kill(os.getpid(), signal.SIGINT)

    finished = run(attrs.evolve(plan, actions=UNLIMITED_ACTIONS), interrupt)
    assert finished.stop_reason == INTERRUPTED
    assert finished.totals.actions > 0
    assert [worker.exitcode for worker in workers] == [0]


@pytest.mark.slow
def test_a_signal_that_was_ignored_before_stays_ignored(plan: Plan) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Progress):
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run(plan, interrupt).stop_reason == ACTIONS
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_if_a_worker_cannot_start_the_session_says_why_and_ends_the_others(plan: Plan) -> None:
    def start_one(plan: Plan, number: int) -> LocalWorker:
        most, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most if number == 0 else 1, limit))
        try:
            return LocalWorker(plan, number)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, limit))

    plan = attrs.evolve(plan, workers=2, actions=UNLIMITED_ACTIONS)
    finished = Session(plan, [], start_worker=start_one).run()
    assert str(finished.problem).startswith("worker 1: cannot start: Too many open files; see")
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_a_session_that_an_exception_ends_leaves_no_worker(plan: Plan) -> None:
    def fail(event: Event) -> None:
        if isinstance(event, Progress):
            raise ConnectionError

    with pytest.raises(ConnectionError):
        run(attrs.evolve(plan, workers=2, actions=UNLIMITED_ACTIONS), fail)
    assert multiprocessing.active_children() == []


def test_with_another_thread_a_worker_is_not_a_fork(plan: Plan) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, args=(PATIENCE_SECONDS,))
    thread.start()
    worker = LocalWorker(plan, 0)
    over.set()
    thread.join(PATIENCE_SECONDS)
    worker.dismiss()
    worker.join(PATIENCE_SECONDS)
    worker.connection.close()
    assert isinstance(worker.process, SpawnProcess)
    assert worker.process.exitcode == 0


@pytest.mark.slow
def test_a_worker_that_does_not_stop_is_ended(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.sessions.session.STOP_SECONDS", 0.2)
    workers: list[psutil.Process] = []

    def hang_and_interrupt(event: Event) -> None:
        if isinstance(event, Progress) and event.totals.actions and not workers:
            workers.extend(psutil.Process(each.pid) for each in multiprocessing.active_children())
            for worker in workers:
                worker.send_signal(signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGINT)

    run(attrs.evolve(plan, actions=UNLIMITED_ACTIONS), hang_and_interrupt)
    # The session waited for them: no zombie is left.
    assert workers
    assert [worker for worker in workers if worker.is_running()] == []


@pytest.mark.slow
def test_a_reduced_trace_that_was_not_reported_is_removed(plan: Plan) -> None:
    unreported = Path(f"heap-error-free-00000000.{plan.token}-0.jsonl")
    others = Path("heap-error-free-00000000.0123456789ab-0.jsonl")
    raw = Path(f"heap-error-free-raw-00000000.{plan.token}-0.jsonl")
    for name in (unreported, others, raw):
        (plan.corpus / name).touch()
    run(plan)
    assert {path.name for path in plan.corpus.glob("*.jsonl")} == {others.name, raw.name}


@pytest.mark.slow
def test_a_wait_ends_when_time_is_up(plan: Plan, slow: Callable[[float], TargetOptions]) -> None:
    hanging = attrs.evolve(
        plan, target="process", options=slow(1000), seconds=0.5, actions=None, probes=()
    )
    finished = run(hanging)
    assert (finished.stop_reason, finished.failures) == (TIME, ())
    assert finished.totals.actions == 0


@pytest.mark.slow
def test_a_slow_program_is_not_a_dead_worker(
    plan: Plan, slow: Callable[[float], TargetOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.sessions.pool.SILENCE_SECONDS", 8.0)
    events: list[Event] = []
    finished = run(
        attrs.evolve(plan, target="process", options=slow(9), actions=1, probes=()), events.append
    )
    assert finished.totals.actions == 1
    assert [event for event in events if isinstance(event, WorkerDied)] == []


@pytest.mark.slow
def test_a_failure_whose_file_is_removed_before_reduction_is_lost(plan: Plan) -> None:
    def remove(event: Event) -> None:
        if isinstance(event, FailureFound):
            for path in plan.corpus.glob("*.jsonl"):
                path.unlink()

    wrong = attrs.evolve(plan, target="reference+one-sample-per-object")
    finished = run(wrong, remove)
    assert finished.failures
    assert [each.reproduced for each in finished.failures if each.lost is None] == []
    assert len(finished.record.failures) == len(finished.failures)


@pytest.mark.slow
def test_the_progress_has_the_reductions(plan: Plan) -> None:
    events: list[Progress] = []

    def note(event: Event) -> None:
        if isinstance(event, Progress):
            events.append(event)

    # Its reduction takes ten thousand candidates, long enough to be seen.
    target = "reference-random+fixed-stride-bias"
    finished = run(attrs.evolve(plan, target=target, actions=20_000), note)
    assert finished.failures
    assert max(event.reducing for event in events) == 1
    assert max(event.tries for event in events) > 1


# When a failure is reported.

PLANTED = "reference+nonyoung-reported-dead"


def events_of(plan: Plan) -> list[Event]:
    events: list[Event] = []
    run(plan, events.append)
    return events


def reported_in(events: list[Event]) -> list[SavedFailure]:
    return [event.saved for event in events if isinstance(event, FailureReported)]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """The events of a session of one worker with several failures."""
    plan = Plan(PLANTED, "random", 5, 1, tmp_path_factory.mktemp("events"), actions=6000)
    return events_of(plan)


@pytest.mark.slow
def test_a_failure_is_reported_and_saved_when_it_is_found(events: list[Event]) -> None:
    first = next(n for n, event in enumerate(events) if isinstance(event, FailureReported))
    assert any(isinstance(event, Progress) for event in events[first:])
    found = {
        event.failure.identity: n
        for n, event in enumerate(events)
        if isinstance(event, FailureFound)
    }
    reported = {
        event.saved.failure.identity: n
        for n, event in enumerate(events)
        if isinstance(event, FailureReported)
    }
    assert len(found) == len(reported_in(events)) > 1
    assert all(found[identity] < reported[identity] for identity in found)
    assert min(reported.values()) < max(found.values())
    for saved in reported_in(events):
        assert saved.path is not None
        assert saved.path.name.endswith(f"-{digest_of(read(saved.path))}.jsonl")


@pytest.mark.slow
def test_the_end_has_all_reported_failures_by_identity(events: list[Event]) -> None:
    end = events[-1]
    assert isinstance(end, Finished)
    by_identity = sorted(reported_in(events), key=lambda saved: saved.failure.identity)
    assert end.failures == tuple(by_identity)


@pytest.mark.slow
def test_several_workers_report_the_same_in_the_same_order(events: list[Event], plan: Plan) -> None:
    others = events_of(attrs.evolve(plan, target=PLANTED, seed=5, workers=3, actions=6000))
    found = [[e.failure for e in each if isinstance(e, FailureFound)] for each in (events, others)]
    assert found[0] == found[1]
    reported = [[each.failure for each in reported_in(of)] for of in (events, others)]
    assert reported[0] == reported[1]


MANY_BUGS = "reference+large-objects-uncounted+stale-limit-after-large+sample-on-equality"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_with_x_a_session_of_time_reduces_only_the_first_failure(plan: Plan, workers: int) -> None:
    events: list[Event] = []
    of_time = attrs.evolve(plan, target=MANY_BUGS, actions=None, seconds=3600.0, workers=workers)
    finished = run(attrs.evolve(of_time, failures_max=1), events.append)
    assert sum(isinstance(event, FailureFound) for event in events) == 1
    assert [saved.reproduced for saved in finished.failures] == [True]
    assert finished.stop_reason == FAILURES


@pytest.mark.slow
def test_with_x_the_first_failure_is_in_the_order_of_chunks(plan: Plan) -> None:
    """For any number of workers: the chunks before it are finished, and no others count."""
    stops = attrs.evolve(plan, target=MANY_BUGS, seed=4, actions=50_000, failures_max=1)
    ended = [run(attrs.evolve(stops, workers=workers)) for workers in (1, 2, 4)]
    assert [[saved.failure for saved in each.failures] for each in ended[1:]] == [
        [saved.failure for saved in ended[0].failures]
    ] * 2
    assert len(ended[0].failures) == 1
    assert [each.record.pieces for each in ended[1:]] == [ended[0].record.pieces] * 2


@pytest.mark.slow
def test_a_session_that_stops_after_two_failures_is_reproducible(plan: Plan) -> None:
    stops = attrs.evolve(plan, target=PLANTED, actions=UNLIMITED_ACTIONS, failures_max=2)
    first, second = run(stops), run(stops)
    assert (first.stop_reason, len(first.failures)) == (FAILURES, 2)
    assert [each.failure for each in first.failures] == [each.failure for each in second.failures]


def test_overtime_is_as_long_as_the_session_within_bounds(plan: Plan) -> None:
    seconds = [0.5, 30.0, 600.0]
    plans = [attrs.evolve(plan, seconds=each, actions=None) for each in seconds]
    assert [each.overtime_seconds for each in plans] == [10.0, 30.0, 120.0]


def test_reductions_take_half_of_the_session_or_what_is_given(plan: Plan) -> None:
    timed = attrs.evolve(plan, seconds=60.0, actions=None)
    given = attrs.evolve(timed, reduce_seconds=7.0)
    assert [each.reduction_seconds for each in (timed, given)] == [30.0, 7.0]
    assert plan.reduction_seconds == UNLIMITED


def test_each_chunk_of_each_session_has_a_token_of_its_own(plan: Plan) -> None:
    other = Plan("reference", "random", 5, 1, plan.corpus, actions=400)
    tokens = {each.origin(chunk).token for each in (plan, other) for chunk in (0, 1)}
    assert len(tokens) == 4


@pytest.mark.slow
def test_the_traces_before_a_program_was_hopeless_count(plan: Plan, tmp_path: Path) -> None:
    contract = to_line({"contract": unstructured(contract_of(make_target("reference")))})
    (tmp_path / "contract").write_text(f"{contract}\n")
    program = shell_script(tmp_path / "breaking", f"read -r header\ncat {tmp_path}/contract")
    options = TargetOptions((str(program),))
    finished = run(attrs.evolve(plan, target="process", options=options, actions=400))
    assert "has answered no action in 32 traces" in str(finished.problem)
    assert finished.totals.actions == finished.record.timing[-1].actions == SILENT_TRACES_MAX


# Canaries.


@pytest.mark.slow
def test_each_worker_first_finds_its_canary(plan: Plan) -> None:
    finished = run(attrs.evolve(plan, workers=2, actions=100, has_canary=True))
    [timing] = finished.record.timing
    assert (timing.canaries, finished.totals.actions) == (2, 100)
    assert finished.failures == ()


def test_an_unfound_canary_is_a_harness_bug(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = functools.partial(Canary, target="reference")
    monkeypatch.setattr("fuzz.sessions.session.Canary", healthy)
    finished = run(attrs.evolve(plan, has_canary=True))
    assert isinstance(finished.problem, HarnessError)
    assert not finished.is_done
