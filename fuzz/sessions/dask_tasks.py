"""Runs the tasks of a session on a worker of Dask's.

A task runs in a process of its own, which is kept for the next one, so that a target that crashes
or hangs does not end Dask's worker. Invariant: a lost process is an exception here, and a dead
worker to the session, which repeats the task; so nothing here tries anything twice.
"""

from __future__ import annotations

import io
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import attrs
from typing_extensions import override

from fuzz.failures.compare import contract_changes
from fuzz.problems import BadInputError
from fuzz.protocol.target import contract_of
from fuzz.sessions import worker
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.worker import Message, Task
from fuzz.targets import make_target
from fuzz.version import versions_for

SILENCE_SECONDS = 300.0
IDLE_SECONDS = 300.0
"""A process without a task for this long ends: its session may have been killed."""
PROGRESS_SECONDS = 1.0
SERVE = """
import sys
descriptor, *sys.path = sys.argv[1:]
from fuzz.sessions.dask_tasks import serve
serve(int(descriptor))
"""
"""The process imports from the same path. Programs do not: a target may be another Python."""

Report = Callable[[int, Message], None]
"""Gets the messages before the end of a task, each with the number of answers before it."""


class TaskProcess:
    """A process with the worker of one session, for one thread of a worker of Dask's."""

    def __init__(self, plan: Plan) -> None:
        self.token = plan.token
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self._temporary.name)
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", SERVE, str(theirs.fileno()), *sys.path]
            self.process = subprocess.Popen(  # noqa: S603 - this program itself
                command, pass_fds=[theirs.fileno()]
            )
        self._connection = Connection(ours.detach())
        # Another thread cuts a task off than the one that gives the next.
        self._lock = threading.Lock()
        self._task: Task | None = None
        self._connection.send(attrs.evolve(plan, corpus=self.folder))

    def run(self, task: Task, report: Report = lambda _, __: None) -> list[Message]:
        """Run a task; returns its answers. Raises EOFError or OSError if the process dies."""
        with self._lock:
            self._task = task
            self._connection.send(task)
        answers: list[Message] = []
        reported_at = 0.0
        while True:
            if not self._connection.poll(SILENCE_SECONDS):
                raise EOFError(f"silent for {SILENCE_SECONDS:.0f} s")
            message = self._connection.recv()
            is_progress = isinstance(message, SessionTotals | worker.Candidates)
            last = worker.Searched | worker.Reduced | worker.CanaryResult | Exception
            if isinstance(message, last):
                return [*answers, message]
            if not is_progress or time.monotonic() > reported_at + PROGRESS_SECONDS:
                report(len(answers), message)
                reported_at = time.monotonic()
            if not is_progress:
                answers.append(message)

    def cut(self, kind: type[Task]) -> None:
        with self._lock, suppress(OSError):
            if isinstance(self._task, kind):
                self._connection.send(worker.CUT)

    def end(self) -> None:
        """End the process, and the programs that it started."""
        self.process.kill()
        worker.end_session(self.process.pid)
        self.process.wait()
        self._connection.close()
        self._temporary.cleanup()


_processes: dict[int, TaskProcess] = {}
"""By thread."""
_cut: set[str] = set()
_over: set[str] = set()
"""The tokens of sessions that search no more, and of those that are over."""


class PlainPickler(pickle.Pickler):
    """Writes an exception as Python does: Dask has its traceback written, which is not data."""

    @override
    def reducer_override(self, obj: Any) -> Any:
        return obj.__reduce__() if isinstance(obj, Exception) else NotImplemented


def packed(message: Message) -> bytes:
    """The message as plain data, which `plain_message` of `cluster` reads."""
    data = io.BytesIO()
    PlainPickler(data).dump(message)
    return data.getvalue()


def run_and_report(plan: Plan, task: Task, topic: str, number: int) -> list[bytes]:
    """Run a task; returns its pickled answers. Those before its end are also events of Dask's."""
    from distributed import get_worker

    def report(place: int, message: Message) -> None:
        get_worker().log_event(topic, (number, place, packed(message)))

    return [*map(packed, run_task(plan, task, report))]


def run_task(plan: Plan, task: Task, report: Report = lambda _, __: None) -> list[Message]:
    """Run a task; returns its answers. Raises EOFError or OSError if it is lost."""
    if plan.token in _over:
        raise EOFError("its session is over")
    if isinstance(task, worker.Search) and plan.token in _cut:
        return [worker.Searched(SessionTotals(), is_whole=False)]
    here = threading.get_ident()
    process = _processes.get(here)
    if process is None or process.token != plan.token or process.process.poll() is not None:
        _end_process(here)
        process = _processes[here] = TaskProcess(plan)
    try:
        return process.run(task, report)
    except (EOFError, OSError):
        _end_process(here)
        raise


def _end_process(thread: int) -> None:
    process = _processes.pop(thread, None)
    if process is not None:
        process.end()


def cut_tasks(token: str, kind: type[Task]) -> None:
    """Cut off a session's tasks of a kind. It starts no more searches after that."""
    if kind is worker.Search:
        _cut.add(token)
    for process in tuple(_processes.values()):
        if process.token == token:
            process.cut(kind)


def end_processes(token: str) -> None:
    """End the processes of a session that is over."""
    _over.add(token)
    for thread, process in tuple(_processes.items()):
        if process.token == token:
            _end_process(thread)


class PatientConnection(Connection):
    """A connection that ends if no message comes for long."""

    @override
    def recv(self) -> Any:
        if not self.poll(IDLE_SECONDS):
            raise EOFError
        return super().recv()


def serve(descriptor: int) -> None:
    """The main function of the process. It removes its folder: Dask's worker may be killed."""
    connection = PatientConnection(descriptor)
    plan = connection.recv()
    try:
        worker.work(plan, connection)
    finally:
        shutil.rmtree(plan.corpus, ignore_errors=True)


def why_unable(plan: Plan, versions: Mapping[str, str]) -> str | None:
    """Why this worker of Dask's cannot run the plan of a session with these versions, if so."""
    for name, installed in versions_for(plan.engine).items():
        if versions.get(name) != installed:
            return f"it has {name} {installed}, and the session {versions.get(name)}"
    try:
        for each in (plan, plan.before):
            if each is not None:
                promised, options = each.options.contract, attrs.evolve(each.options, contract=None)
                assert promised is not None
                here = contract_of(make_target(each.target, options))
                if changes := [*contract_changes(promised, here)]:
                    return f"its {each.target} is different: {', '.join(changes)}"
    except (BadInputError, OSError) as problem:  # Dask raises OSError for a lost worker.
        return str(problem)
    return None
