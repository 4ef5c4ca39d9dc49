"""Sessions on Dask's workers: they leave what a session on one machine leaves, whatever is lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path

import pytest

from fuzz.sessions import cluster
from fuzz.sessions.cluster import Envoy, Errand, run_task
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.worker import Message, Raw, Search, Searched, Tries
from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH = range(2)
TARGET = "reference+one-sample-per-object"
SESSION = ("run", "--target", TARGET, "--seed", "3", "--actions", "3000", "--corpus")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What one worker on this machine leaves."""
    corpus = tmp_path_factory.mktemp("alone")
    assert run_command_line([*SESSION, str(corpus)]) == MISMATCH
    return left_in(corpus)


def left_in(corpus: Path) -> dict[str, object]:
    finds: dict[str, object] = {path.name: path.read_bytes() for path in corpus.glob("*.jsonl")}
    [path] = corpus.glob("sessions/*.json")
    record = json.loads(path.read_bytes())
    return {**finds, path.name: {key: record[key] for key in record if key != "timing"}}


@pytest.fixture
def started(unmeasured: dict[str, str]) -> Iterator[ExitStack]:
    """What is started is ended."""
    with ExitStack() as stack:
        yield stack


def start(stack: ExitStack, environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", *words]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = stack.enter_context(subprocess.Popen(command, env=environment, **output, text=True))
    stack.callback(process.kill)
    return process


def start_scheduler(
    stack: ExitStack, environment: dict[str, str], folder: Path, port: str = "0"
) -> str:
    """A scheduler's address, when it answers."""
    place = folder / "scheduler.json"
    place.unlink(missing_ok=True)
    words = ("--scheduler-file", str(place), "--port", port, "--no-dashboard")
    start(stack, environment, "distributed.cli.dask_scheduler", *words)
    while not place.exists():
        time.sleep(0.05)
    address: str = json.loads(place.read_text())["address"]
    return address


def start_worker(
    stack: ExitStack, environment: dict[str, str], address: str
) -> subprocess.Popen[str]:
    """A worker, when the scheduler knows it."""
    words = (address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
    worker = start(stack, environment, "distributed.cli.dask_worker", *words)
    assert worker.stdout is not None
    assert any("Registered to" in line for line in worker.stdout)
    return worker


def wait_for_a_find(session: subprocess.Popen[str]) -> None:
    assert session.stdout is not None
    assert any(line.startswith("FAILURE") for line in session.stdout)


@pytest.mark.slow
def test_two_workers_of_dask_s_leave_the_same(
    alone: dict[str, object], started: ExitStack, unmeasured: dict[str, str], tmp_path: Path
) -> None:
    words = (*SESSION, str(tmp_path), "--cluster", "local:2")
    session = start(started, unmeasured, "fuzz", *words)
    printed, _ = session.communicate()
    assert session.returncode == MISMATCH, printed
    assert left_in(tmp_path) == alone


@pytest.mark.slow
def test_a_machine_that_is_lost_is_survived(
    alone: dict[str, object], started: ExitStack, unmeasured: dict[str, str], tmp_path: Path
) -> None:
    address = start_scheduler(started, unmeasured, tmp_path)
    workers = [start_worker(started, unmeasured, address) for _ in range(2)]
    corpus = tmp_path / "corpus"
    session = start(started, unmeasured, "fuzz", *SESSION, str(corpus), "--cluster", address)
    wait_for_a_find(session)
    workers[0].kill()
    session.communicate()
    assert session.returncode == MISMATCH
    assert left_in(corpus) == alone


@pytest.mark.slow
def test_a_scheduler_that_restarts_is_survived(
    alone: dict[str, object], started: ExitStack, unmeasured: dict[str, str], tmp_path: Path
) -> None:
    with ExitStack() as first:
        address = start_scheduler(first, unmeasured, tmp_path)
        workers = [start_worker(started, unmeasured, address) for _ in range(2)]
        corpus = tmp_path / "corpus"
        session = start(started, unmeasured, "fuzz", *SESSION, str(corpus), "--cluster", address)
        wait_for_a_find(session)
    for worker in workers:  # Without a scheduler they end.
        worker.wait()
    _, port = address.rsplit(":", 1)
    assert start_scheduler(started, unmeasured, tmp_path, port) == address
    start_worker(started, unmeasured, address)
    printed, _ = session.communicate()
    assert (session.returncode, "is lost" in printed) == (MISMATCH, False)
    assert left_in(corpus) == alone


@pytest.mark.slow
def test_a_worker_without_the_target_s_program_gets_no_chunk(
    started: ExitStack, unmeasured: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "a-program-of-one-machine"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -m fuzz.targets reference\n")
    program.chmod(0o755)
    able = {**unmeasured, "PATH": f"{tmp_path}:{unmeasured['PATH']}"}
    address = start_scheduler(started, unmeasured, tmp_path)
    for environment in (able, unmeasured):
        start_worker(started, environment, address)
    words = (
        "run",
        "--command",
        program.name,
        "--seed",
        "1",
        "--actions",
        "300",
        "--corpus",
        str(tmp_path),
    )
    session = start(started, able, "fuzz", *words, "--cluster", address)
    printed, _ = session.communicate()
    assert session.returncode == CLEAN, printed
    assert printed.count("gets no chunk: ") == 1
    assert "another does its work again" not in printed


# What a worker of Dask's does.


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    yield Plan(TARGET, "random", 3, 1, tmp_path, actions=3000)
    cluster.end_errands()


def test_a_task_is_done_in_a_process_of_its_own(plan: Plan) -> None:
    *raws, end = run_task(plan, Search(plan.chunk(9)))
    assert isinstance(end, Searched)
    assert end.is_whole
    assert end.totals.actions == plan.chunk(9).actions
    assert raws
    assert all(isinstance(raw, Raw) for raw in raws)
    assert list(plan.corpus.iterdir()) == []


def test_a_process_that_dies_is_told_and_the_next_task_has_another(plan: Plan) -> None:
    run_task(plan, Search(plan.chunk(0)))
    [errand] = cluster._errands.values()  # noqa: SLF001 - as a target would end it
    assert isinstance(errand, Errand)
    os.kill(errand.pid, 9)
    with pytest.raises((EOFError, OSError)):
        run_task(plan, Search(plan.chunk(1)))
    assert isinstance(run_task(plan, Search(plan.chunk(1)))[-1], Searched)


# What a session takes for a worker.


class Late:
    """A cluster that is not there at first."""

    def __init__(self) -> None:
        self.asked = 0

    def able(self) -> list[str]:
        self.asked += 1
        if self.asked == 1:
            raise OSError
        return ["a worker"] if self.asked > 2 else []

    def connect(self) -> Late:
        return self

    def look_again(self) -> None:
        """What was asked so far is all there is."""

    def submit(self, *task: object, workers: list[str], pure: bool) -> Future[list[Message]]:
        done = Future[list[Message]]()
        done.set_result([Searched(SessionTotals(), is_whole=True)])
        return done


def test_a_task_waits_until_there_is_a_worker(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.sessions.cluster.BEAT_SECONDS", 0.01)
    ours, theirs = multiprocessing.Pipe()
    envoy = Envoy(Late(), plan, theirs)
    envoy.start()
    with ours:
        ours.send(Search(plan.chunk(0)))
        told = [ours.recv() for _ in range(3)]
        ours.send(None)
        envoy.join()
    assert [*map(type, told)] == [Tries, Tries, Searched]
    assert envoy.exitcode == 0


def test_one_that_is_killed_ends_also_if_it_has_nothing_to_do(plan: Plan) -> None:
    ours, theirs = multiprocessing.Pipe()
    envoy = Envoy(Late(), plan, theirs)
    envoy.start()
    with ours:
        envoy.kill()
        envoy.join(10)
        assert not envoy.is_alive()
