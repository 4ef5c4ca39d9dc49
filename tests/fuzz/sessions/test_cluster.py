"""Sessions on a Dask cluster leave what a session on one machine leaves, whatever is lost."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import pytest
from dask_machines import TARGET, Machines
from scripts import shell_script
from waiting import LONG_SECONDS, PATIENCE_SECONDS, completed, wait_for_line, wait_until, waited_for

from fuzz.failures.corpus import SavedFailure
from fuzz.problems import BadInputError
from fuzz.sessions.cluster import Cluster, DaskWorker, Inbox, connected
from fuzz.sessions.dask_tasks import run_task
from fuzz.sessions.plan import Chunk, Plan, SessionTotals
from fuzz.sessions.worker import Candidates, Message, Search, Searched, Task
from fuzz.terminal.commands.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT, UNFINISHED_MISMATCH = 0, 1, 2, 5
ENDED = pickle.dumps(Searched(SessionTotals(), is_whole=True))
SESSION = ("run", "--target", TARGET, "--seed", "3", "--actions", "3000", "--corpus")
Left = dict[str, object]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What one worker on this machine leaves."""
    corpus = tmp_path_factory.mktemp("alone")
    assert run_command_line([*SESSION, str(corpus)]) == MISMATCH
    return left_in(corpus)


def left_in(corpus: Path) -> Left:
    failures: Left = {path.name: path.read_bytes() for path in corpus.glob("*.jsonl")}
    [path] = corpus.glob("sessions/*.json")
    record = json.loads(path.read_bytes())
    return {**failures, path.name: {key: record[key] for key in record if key != "timing"}}


@pytest.fixture
def machines(tmp_path: Path, unmeasured: dict[str, str]) -> Iterator[Machines]:
    with ExitStack() as stack:
        yield Machines(tmp_path, unmeasured, stack)


def end_of(session: subprocess.Popen[str]) -> str:
    """Wait for the end of a session; what it printed since."""
    return session.communicate(timeout=LONG_SECONDS)[0]


@pytest.mark.slow
def test_two_dask_workers_leave_the_same(alone: Left, machines: Machines, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    session = machines.start("fuzz", *SESSION, str(corpus), "--cluster", "local:2")
    printed = end_of(session)
    assert session.returncode == MISMATCH, printed
    assert left_in(corpus) == alone


@pytest.mark.slow
def test_an_interrupt_in_a_terminal_ends_only_the_session(
    machines: Machines, tmp_path: Path
) -> None:
    session = ("run", "--target", TARGET, "--time", "1h", "--corpus", str(tmp_path))
    process = machines.start("fuzz", *session, "--cluster", "local:1")
    wait_for_line(process.stdout, "FAILURE")
    os.killpg(process.pid, signal.SIGINT)
    printed = end_of(process)
    assert process.returncode == UNFINISHED_MISMATCH, printed
    assert "; interrupted\n" in printed
    assert "Traceback" not in printed
    assert " died " not in printed


@pytest.mark.slow
def test_a_session_ends_while_a_machine_does_not_answer(machines: Machines, tmp_path: Path) -> None:
    # Dask itself would wait for the machine until it gives it up.
    patient = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1 hour"}
    _, address = machines.start_scheduler(**patient)
    worker, _ = [machines.start_worker(address) for _ in range(2)]
    session = ("run", "--target", TARGET, "--time", "1h", "--corpus", str(tmp_path))
    process = machines.start("fuzz", *session, "--cluster", address)
    wait_for_line(process.stdout, "FAILURE")
    worker.send_signal(signal.SIGSTOP)
    process.terminate()
    printed, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == UNFINISHED_MISMATCH, printed


@pytest.mark.slow
def test_a_session_survives_a_lost_machine(alone: Left, machines: Machines, tmp_path: Path) -> None:
    _, address = machines.start_scheduler()
    workers = [machines.start_worker(address) for _ in range(2)]
    corpus = tmp_path / "corpus"
    session = machines.start("fuzz", *SESSION, str(corpus), "--cluster", address)
    wait_for_line(session.stdout, "found 1: ")
    workers[0].kill()
    end_of(session)
    assert session.returncode == MISMATCH
    assert left_in(corpus) == alone


@pytest.mark.slow
def test_a_session_survives_a_restarted_scheduler(
    alone: Left, machines: Machines, tmp_path: Path
) -> None:
    scheduler, address = machines.start_scheduler()
    workers = [machines.start_worker(address) for _ in range(2)]
    corpus = tmp_path / "corpus"
    session = machines.start("fuzz", *SESSION, str(corpus), "--cluster", address)
    wait_for_line(session.stdout, "found 1: ")
    scheduler.kill()
    for worker in workers:  # They end without a scheduler.
        worker.wait(PATIENCE_SECONDS)
    assert machines.start_scheduler(port=address.rpartition(":")[2])[1] == address
    machines.start_worker(address)
    printed = end_of(session)
    assert (session.returncode, "is lost" in printed) == (MISMATCH, False)
    assert left_in(corpus) == alone


@pytest.mark.slow
def test_a_worker_without_the_program_or_gcfuzz_gets_no_chunk(
    machines: Machines, tmp_path: Path
) -> None:
    serve = f"exec {sys.executable} -m fuzz.targets reference"
    program = shell_script(tmp_path / "a-program-of-one-machine", serve)
    able = {"PATH": f"{tmp_path}:{machines.environment['PATH']}"}
    other = tmp_path / "another" / "fuzz" / "__init__.py"
    other.parent.mkdir(parents=True)
    other.touch()
    without = {**able, "PYTHONPATH": str(other.parent.parent), "PYTHONSAFEPATH": "1"}
    _, address = machines.start_scheduler()
    for environment in (able, {}, without):
        machines.start_worker(address, **environment)
    plan = ("--command", program.name, "--seed", "1", "--actions", "300")
    corpus = ("--corpus", str(tmp_path))
    session = machines.start("fuzz", "run", *plan, *corpus, "--cluster", address, **able)
    printed = end_of(session)
    assert session.returncode == CLEAN, printed
    assert printed.startswith(f"gcfuzz: target process --command {program.name}, engine random, ")
    assert "workers 1, budget 300 actions" in printed
    assert printed.count("gets no chunk: ") == 2
    assert "No module named 'fuzz.sessions'" in printed
    assert "another does its work again" not in printed


@pytest.mark.slow
def test_a_session_waits_for_its_first_worker(machines: Machines, tmp_path: Path) -> None:
    scheduler, address = machines.start_scheduler()
    plan = ("--target", "reference", "--seed", "1", "--actions", "300", "--corpus", str(tmp_path))
    session = machines.start("fuzz", "run", *plan, "--cluster", address)
    wait_for_line(scheduler.stdout, "Receive client connection")
    machines.start_worker(address)
    printed = end_of(session)
    assert session.returncode == CLEAN, printed


@pytest.mark.slow
def test_a_cluster_with_tls_needs_a_certificate(machines: Machines, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), *names)
    completed(["openssl", *made, "-out", certificate])
    tls = {"CA_FILE": certificate}
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        tls |= {f"{who}__CERT": certificate, f"{who}__KEY": key}
    with_tls = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path) for name, path in tls.items()}
    _, address = machines.start_scheduler("0", "--protocol", "tls", **with_tls)
    assert address.startswith("tls://")
    machines.start_worker(address, **with_tls)
    plan = ("--target", "reference", "--seed", "1", "--actions", "300", "--corpus", str(tmp_path))
    ended = []
    for environment in (with_tls, {}):
        session = machines.start("fuzz", "run", *plan, "--cluster", address, **environment)
        printed = end_of(session)
        ended.append((session.returncode, "see `gcfuzz help scale`" in printed))
    assert ended == [(CLEAN, False), (BAD_INPUT, True)]


# The cluster, to a session.


class Client:
    """A client of three workers, one of which is lost before it answers."""

    status = "running"
    closed = 0
    answers: dict[str, object]

    def __init__(self) -> None:
        self.answers = {"able": None, "lost": OSError(), "without": ImportError("no gcfuzz")}
        self.handlers: dict[str, Callable[[object], None]] = {}
        self.submitted: list[tuple[str, int]] = []

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.answers, 2)

    def run(
        self, *_: object, workers: Sequence[str] = (), on_error: str = "return"
    ) -> dict[str, object]:
        return {each: self.answers[each] for each in workers}

    def subscribe_topic(self, topic: str, handler: Callable[[object], None]) -> None:
        self.handlers[topic] = handler

    def submit(
        self, _: object, plan: Plan, task: Task, topic: str, number: int, **__: object
    ) -> None:
        self.submitted.append((topic, number))

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    client = Client()
    monkeypatch.setattr("distributed.Client", lambda *_, **__: client)
    return client


def test_all_tasks_share_a_topic_and_each_gets_its_messages(client: Client, plan: Plan) -> None:
    cluster = Cluster("an address", plan)
    (_, first), (_, second) = (
        cluster.submit(plan, Search(plan.chunk(index)), ["able"]) for index in range(2)
    )
    [handler] = client.handlers.values()
    for _, number in client.submitted:
        handler((0.0, (number, 0, b"of task %d" % number)))
    assert [first.get_nowait(), second.get_nowait()] == [(0, b"of task 0"), (0, b"of task 1")]
    assert {topic for topic, _ in client.submitted} == {*client.handlers}
    assert first.empty()
    assert second.empty()


def test_a_worker_that_cannot_be_asked_is_unable(client: Client, plan: Plan) -> None:
    cluster = Cluster("an address", plan)
    assert cluster.threads == 2
    assert cluster.unable == {"able": None, "without": "no gcfuzz"}


def test_a_cluster_that_cannot_run_the_target_is_closed(
    client: Client, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    del client.answers["able"], client.answers["lost"]
    machines = Client()
    monkeypatch.setattr("distributed.LocalCluster", lambda *_, **__: machines)
    with pytest.raises(BadInputError, match="no gcfuzz"), connected("local:1", plan):
        pass
    assert (client.closed, machines.closed) == (1, 1)


def test_an_illegal_number_of_workers_is_bad_input(plan: Plan) -> None:
    with pytest.raises(BadInputError, match="write local:2"), connected("local:0", plan):
        pass


# A worker, to a session.


def message_of(worker: DaskWorker) -> Message:
    """Its next message."""
    message: Message = waited_for(worker.connection.recv, "a message of the worker")
    return message


def wait_for_end(worker: DaskWorker) -> None:
    wait_until(lambda: not worker.thread.is_alive(), "the end of the worker")


@pytest.mark.slow
def test_progress_and_failures_come_before_a_task_ends(plan: Plan, machines: Machines) -> None:
    _, address = machines.start_scheduler()
    machines.start_worker(address)
    with connected(address, plan.under_contract()) as cluster:
        worker = cluster.start_worker(plan, 0)
        worker.give(Search(Chunk(0, 10**9)))
        messages: list[Message] = []
        while not {SavedFailure, SessionTotals} <= {*map(type, messages)}:
            messages.append(message_of(worker))
        worker.cut()
        while not isinstance(messages[-1], Searched):
            messages.append(message_of(worker))
        worker.dismiss()
        wait_for_end(worker)
    paths = [each.path for each in messages if isinstance(each, SavedFailure)]
    assert all(path is not None and path.exists() for path in paths)
    assert len({*paths}) == len(paths)
    assert isinstance(messages[-1], Searched)
    assert not messages[-1].is_whole


class Late:
    """A cluster that has no worker at first."""

    def __init__(self) -> None:
        self.asked = 0
        self.inbox, self.done = Inbox(), Future[list[bytes]]()

    def able(self) -> list[str]:
        self.asked += 1
        if self.asked == 1:
            raise OSError
        return ["a worker"] if self.asked > 2 else []

    def list_again(self) -> None:
        pass

    def submit(self, *task: object) -> tuple[Future[list[bytes]], Inbox]:
        return self.done, self.inbox


class Stuck(Late):
    """A cluster whose scheduler does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.answers = Event(), Event()

    def able(self) -> list[str]:
        self.is_asked.set()
        self.answers.wait(PATIENCE_SECONDS)
        raise OSError


class Failing(Late):
    """A cluster that loses its tasks."""

    def submit(self, *task: object) -> NoReturn:
        raise OSError(f"it is lost{os.linesep}and more lines")


@pytest.fixture
def start(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Late], DaskWorker]]:
    """Start a worker of a cluster that is not real."""
    monkeypatch.setattr("fuzz.sessions.cluster.BEAT_SECONDS", 0.01)
    started: list[DaskWorker] = []

    def start(cluster: Any) -> DaskWorker:
        started.append(DaskWorker(cluster, plan, 0))
        return started[-1]

    yield start
    for worker in started:
        worker.connection.close()


Start = Callable[[Late], DaskWorker]


def test_a_task_waits_until_there_is_a_worker(plan: Plan, start: Start) -> None:
    late = Late()
    late.done.set_result([ENDED])
    worker = start(late)
    worker.give(Search(plan.chunk(0)))
    messages = [message_of(worker) for _ in range(3)]
    worker.dismiss()
    wait_for_end(worker)
    assert [*map(type, messages)] == [Candidates, Candidates, Searched]
    assert worker.how_it_ended == "it ended"


def test_a_worker_without_a_task_can_be_killed(start: Start) -> None:
    worker = start(Late())
    worker.kill()
    wait_for_end(worker)


def test_a_lost_worker_without_a_scheduler_is_not_awaited(plan: Plan, start: Start) -> None:
    stuck = Stuck()
    worker = start(stuck)
    worker.give(Search(plan.chunk(0)))
    assert stuck.is_asked.wait(PATIENCE_SECONDS)
    worker.kill()
    waited_for(worker.join, "the session to leave the worker alone")
    assert worker.thread.is_alive()
    stuck.answers.set()


def _finds_one(plan: Plan, chunk: Chunk) -> bool:
    return [type(each) for each in run_task(plan, Search(chunk))].count(SavedFailure) == 1


def test_a_task_that_was_repeated_with_fewer_answers_ends(plan: Plan, start: Start) -> None:
    found = next(chunk for chunk in map(plan.chunk, plan.share) if _finds_one(plan, chunk))
    failure, *_ = run_task(plan, Search(found))
    late = Late()
    late.asked = 2
    late.inbox.put((0, pickle.dumps(failure)))
    worker = start(late)
    worker.give(Search(found))
    messages = [message_of(worker), message_of(worker)]
    late.done.set_result([ENDED])
    while not isinstance(messages[-1], Searched):
        messages.append(message_of(worker))
    assert [type(each) for each in messages if not isinstance(each, Candidates)] == [
        SavedFailure,
        Searched,
    ]


def test_a_lost_task_has_a_reason_of_one_line(plan: Plan, start: Start) -> None:
    worker = start(Failing())
    worker.give(Search(plan.chunk(0)))
    wait_for_end(worker)
    assert worker.how_it_ended == "it is lost"
