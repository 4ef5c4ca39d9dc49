"""Sessions on Dask's workers: they leave what a session on one machine leaves, whatever is lost."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import NoReturn

import attrs
import pytest

from fuzz.problems import BadInputError
from fuzz.protocol.target import contract_of
from fuzz.sessions import cluster
from fuzz.sessions.cluster import (
    Cluster,
    Envoy,
    Errand,
    Inbox,
    PatientConnection,
    connected,
    run_task,
    why_unable,
)
from fuzz.sessions.compare import Before
from fuzz.sessions.corpus import SavedFailure
from fuzz.sessions.plan import Chunk, Plan, SessionTotals
from fuzz.sessions.worker import Message, Search, Searched, Task, Tries
from fuzz.targets import TargetOptions, make_target
from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH = range(2)
ENDED = Searched(SessionTotals(), is_whole=True)
VERSION = version("gcfuzz")
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
    """A process that leads a group, as in a terminal."""
    command = [sys.executable, "-m", *words]
    process = stack.enter_context(
        subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
    )
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
def test_an_interrupt_which_reaches_all_of_a_terminal_s_processes_ends_the_session_only(
    started: ExitStack, unmeasured: dict[str, str], tmp_path: Path
) -> None:
    words = ("run", "--target", TARGET, "--time", "1h", "--corpus", str(tmp_path))
    session = start(started, unmeasured, "fuzz", *words, "--cluster", "local:1")
    wait_for_a_find(session)
    os.killpg(session.pid, signal.SIGINT)
    printed, _ = session.communicate()
    assert session.returncode == MISMATCH, printed
    assert "; interrupted\n" in printed
    assert "Traceback" not in printed
    assert " died " not in printed


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
def test_a_worker_without_the_target_s_program_or_gcfuzz_gets_no_chunk(
    started: ExitStack, unmeasured: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "a-program-of-one-machine"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -m fuzz.targets reference\n")
    program.chmod(0o755)
    able = {**unmeasured, "PATH": f"{tmp_path}:{unmeasured['PATH']}"}
    address = start_scheduler(started, unmeasured, tmp_path)
    other = tmp_path / "another" / "fuzz" / "__init__.py"
    other.parent.mkdir(parents=True)
    other.touch()
    without = {**able, "PYTHONPATH": str(other.parent.parent), "PYTHONSAFEPATH": "1"}
    for environment in (able, unmeasured, without):
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
    assert printed.startswith(f"gcfuzz: target process --command {program.name}, engine random, ")
    assert "workers 1, budget 300 actions" in printed
    assert printed.count("gets no chunk: ") == 2
    assert "No module named 'fuzz.sessions'" in printed
    assert "another does its work again" not in printed


# What a worker of Dask's does.


def started_errands() -> list[Errand]:
    return [*cluster._errands.values()]  # noqa: SLF001 - as a target would end one


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    made = Plan(TARGET, "random", 3, 1, tmp_path, actions=3000)
    yield made
    cluster.end_errands(made.token)


def test_a_task_is_done_in_a_process_of_its_own(plan: Plan) -> None:
    *raws, end = run_task(plan, Search(plan.chunk(9)))
    assert isinstance(end, Searched)
    assert end.is_whole
    assert end.totals.actions == plan.chunk(9).actions
    assert raws
    assert all(isinstance(raw, SavedFailure) for raw in raws)
    assert list(plan.corpus.iterdir()) == []


def test_what_is_told_before_the_end_of_a_task_has_its_place_among_the_answers(plan: Plan) -> None:
    told: list[tuple[int, Message]] = []
    *raws, _ = run_task(plan, Search(plan.chunk(9)), lambda *each: told.append(each))
    assert [each for each in told if isinstance(each[1], SavedFailure)] == [*enumerate(raws)]
    assert raws


def test_a_process_that_dies_is_told_and_the_next_task_has_another(plan: Plan) -> None:
    def kill(_: int, __: Message) -> None:
        [errand] = started_errands()
        os.kill(errand.pid, 9)

    with pytest.raises((EOFError, OSError)):
        run_task(plan, Search(Chunk(0, 10**9)), kill)
    assert isinstance(run_task(plan, Search(plan.chunk(1)))[-1], Searched)


def test_who_is_told_nothing_for_long_takes_it_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "IDLE_SECONDS", 0.01)
    ours, theirs = socket.socketpair()
    with ours, PatientConnection(theirs.detach()) as connection, pytest.raises(EOFError):
        connection.recv()


def test_a_process_that_ended_with_nothing_to_do_has_a_successor(plan: Plan) -> None:
    run_task(plan, Search(plan.chunk(0)))
    [errand] = started_errands()
    os.kill(errand.pid, 9)
    while not errand.has_ended:
        time.sleep(0.01)
    assert isinstance(run_task(plan, Search(plan.chunk(1)))[-1], Searched)


def test_a_program_gets_the_environment_that_the_worker_has(plan: Plan, tmp_path: Path) -> None:
    program, seen = tmp_path / "program", tmp_path / "seen"
    serve = f"exec {sys.executable} -m fuzz.targets reference"
    program.write_text(f"#!/bin/sh\necho $PYTHONPATH >> {seen}\n{serve}\n")
    program.chmod(0o755)
    plan = attrs.evolve(plan, target="process", options=TargetOptions((str(program),)), actions=1)
    run_task(plan.under_contract(), Search(plan.chunk(0)))
    assert set(seen.read_text().splitlines()) == {os.environ.get("PYTHONPATH", "")}


def test_a_search_that_is_cut_off_tells_what_it_found(plan: Plan) -> None:
    with ThreadPoolExecutor() as threads:
        told = threads.submit(run_task, plan, Search(Chunk(0, 10**6)))
        while not any(any(each.folder.iterdir()) for each in started_errands()):
            time.sleep(0.01)
        cluster.cut_tasks(plan.token, Search)
        *raws, end = told.result()
    assert raws
    assert isinstance(end, Searched)
    assert not end.is_whole
    assert run_task(plan, Search(plan.chunk(1))) == [Searched(SessionTotals(), is_whole=False)]


def test_what_ends_one_session_s_processes_leaves_another_s(plan: Plan) -> None:
    run_task(plan, Search(plan.chunk(0)))
    errands = started_errands()
    cluster.end_errands("another session's")
    assert started_errands() == errands != []


def test_a_worker_of_another_version_is_unable(plan: Plan) -> None:
    plan = plan.under_contract()
    assert why_unable(plan, VERSION) is None
    assert why_unable(plan, "0") == f"it has gcfuzz {VERSION}, and the session 0"


def test_a_worker_whose_target_promises_otherwise_is_unable(plan: Plan) -> None:
    contract = attrs.evolve(contract_of(make_target(TARGET)), version="1")
    plan = attrs.evolve(plan, options=TargetOptions(contract=contract))
    assert why_unable(plan, VERSION) == f'its {TARGET} is another: version "1" → ""'


def test_a_worker_without_what_there_was_before_is_unable(plan: Plan) -> None:
    plan = plan.under_contract()
    options = attrs.evolve(plan.options, command=("./of-one-machine",))
    why = why_unable(attrs.evolve(plan, before=Before("process", options)), VERSION)
    assert why == "./of-one-machine: cannot be started: No such file or directory"


def test_a_worker_on_which_a_target_cannot_be_made_is_unable(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_a_full_disk(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cluster, "make_target", on_a_full_disk)
    assert why_unable(plan.under_contract(), VERSION) == "[Errno 28] No space left on device"


# The machines, to a session.


class Answering:
    """What knows three workers, of which one is lost before it answers."""

    status = "running"

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[[object], None]] = {}
        self.submitted: list[tuple[str, int]] = []

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(("able", "lost", "without"), 2)

    def run(
        self, *_: object, workers: Sequence[str] = (), on_error: str = "return"
    ) -> dict[str, object]:
        answers = {"able": None, "lost": OSError(), "without": ImportError("no gcfuzz")}
        return {each: answers[each] for each in workers}

    def subscribe_topic(self, topic: str, handler: Callable[[object], None]) -> None:
        self.handlers[topic] = handler

    def submit(
        self, _: object, plan: Plan, task: Task, topic: str, number: int, **__: object
    ) -> None:
        self.submitted.append((topic, number))


def test_a_session_has_one_topic_and_each_task_hears_what_is_told_of_it(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Answering()
    monkeypatch.setattr("distributed.Client", lambda *_, **__: client)
    machines = Cluster("an address", plan)
    (_, first), (_, second) = (
        machines.submit(plan, Search(plan.chunk(index)), ["able"]) for index in range(2)
    )
    [handler] = client.handlers.values()
    for _, number in client.submitted:
        handler((0.0, (number, 0, b"of task %d" % number)))
    heard = [first.get_nowait(), second.get_nowait()]
    assert heard == [(0, b"of task 0"), (0, b"of task 1")]
    assert {topic for topic, _ in client.submitted} == {*client.handlers}
    assert first.empty()
    assert second.empty()


def test_a_worker_that_cannot_even_be_asked_is_unable(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distributed.Client", lambda *_, **__: Answering())
    machines = Cluster("an address", plan)
    assert machines.threads == 2
    assert machines.unable == {"able": None, "without": "no gcfuzz"}


class Unable(Answering):
    """What knows one worker, which lacks something, and says when it is closed."""

    closed = 0

    def nthreads(self) -> dict[str, int]:
        return {"without": 2}

    def close(self) -> None:
        self.closed += 1


def test_a_cluster_that_cannot_run_the_target_is_closed(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, machines = Unable(), Unable()
    monkeypatch.setattr("distributed.Client", lambda *_, **__: client)
    monkeypatch.setattr("distributed.LocalCluster", lambda *_, **__: machines)
    with pytest.raises(BadInputError, match="no gcfuzz"), connected("local:1", plan):
        pass
    assert (client.closed, machines.closed) == (1, 1)


def test_a_number_of_workers_that_is_none_is_told_at_once(plan: Plan) -> None:
    with pytest.raises(BadInputError, match="local:2 are two"), connected("local:0", plan):
        pass


# What a session takes for a worker.


@pytest.mark.slow
def test_progress_and_finds_come_before_the_end_of_a_task(
    plan: Plan, started: ExitStack, unmeasured: dict[str, str], tmp_path: Path
) -> None:
    address = start_scheduler(started, unmeasured, tmp_path)
    start_worker(started, unmeasured, address)
    with connected(address, plan.under_contract()) as there:
        ours, envoy = there.hire(plan)
        ours.send(Search(Chunk(0, 10**9)))
        told: list[Message] = []
        while not {SavedFailure, SessionTotals} <= {*map(type, told)}:
            told.append(ours.recv())
        ours.send("cut")
        while not isinstance(told[-1], Searched):
            told.append(ours.recv())
        ours.send(None)
        envoy.join()
    raws = [each for each in told if isinstance(each, SavedFailure)]
    assert all(raw.path is not None and raw.path.exists() for raw in raws)
    assert len({raw.path for raw in raws}) == len(raws)
    assert isinstance(told[-1], Searched)
    assert not told[-1].is_whole


class Late:
    """A cluster that is not there at first."""

    def __init__(self) -> None:
        self.asked = 0

    def able(self) -> list[str]:
        self.asked += 1
        if self.asked == 1:
            raise OSError
        return ["a worker"] if self.asked > 2 else []

    def look_again(self) -> None:
        """What was asked so far is all there is."""

    def submit(self, *task: object) -> tuple[Future[list[Message]], Inbox]:
        done = Future[list[Message]]()
        done.set_result([ENDED])
        return done, Inbox()


def hired(there: Late, plan: Plan) -> tuple[Connection, Envoy]:
    """An envoy to a cluster that is none."""
    ours, theirs = multiprocessing.Pipe()
    envoy = Envoy(there, plan, theirs)
    envoy.start()
    return ours, envoy


def test_a_task_waits_until_there_is_a_worker(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.sessions.cluster.BEAT_SECONDS", 0.01)
    ours, envoy = hired(Late(), plan)
    with ours:
        ours.send(Search(plan.chunk(0)))
        told = [ours.recv() for _ in range(3)]
        ours.send(None)
        envoy.join()
    assert [*map(type, told)] == [Tries, Tries, Searched]
    assert envoy.exitcode == 0


def test_one_that_is_killed_ends_also_if_it_has_nothing_to_do(plan: Plan) -> None:
    ours, envoy = hired(Late(), plan)
    with ours:
        envoy.kill()
        Thread.join(envoy)


class Stuck(Late):
    """A cluster whose scheduler does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.answers = Event(), Event()

    def able(self) -> list[str]:
        self.is_asked.set()
        self.answers.wait()
        raise OSError


def test_one_that_is_killed_is_not_waited_for(plan: Plan) -> None:
    stuck = Stuck()
    ours, envoy = hired(stuck, plan)
    with ours:
        ours.send(Search(plan.chunk(0)))
        stuck.is_asked.wait()
        envoy.kill()
        envoy.join()
        assert envoy.is_alive()
        stuck.answers.set()


class Again(Late):
    """A cluster that tells a find at once, and ends when it is told to."""

    def __init__(self, raw: Message) -> None:
        super().__init__()
        self.asked = 2
        self.inbox, self.done = Inbox(), Future[list[Message]]()
        self.inbox.put((0, pickle.dumps(raw)))

    def submit(self, *task: object) -> tuple[Future[list[Message]], Inbox]:
        return self.done, self.inbox


def test_a_task_that_was_done_again_and_found_less_has_its_end_told(plan: Plan) -> None:
    raw, *_ = run_task(plan, Search(plan.chunk(9)))
    again = Again(raw)
    ours, envoy = hired(again, plan)
    with ours:
        ours.send(Search(plan.chunk(9)))
        told = [ours.recv(), ours.recv()]
        again.done.set_result([ENDED])
        told.append(ours.recv())
        ours.send(None)
        envoy.join()
    assert [*map(type, told)] == [Tries, SavedFailure, Searched]


class Failing(Late):
    """A cluster that loses what it is given."""

    def submit(self, *task: object) -> tuple[Future[list[Message]], Inbox]:
        raise OSError(f"it is lost{os.linesep}and much else")


def test_what_was_lost_is_told_in_a_line(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.sessions.cluster.BEAT_SECONDS", 0.01)
    ours, envoy = hired(Failing(), plan)
    with ours:
        ours.send(Search(plan.chunk(0)))
        envoy.join()
    assert envoy.exitcode == "it is lost"
