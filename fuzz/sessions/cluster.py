"""A session's workers on the machines of a Dask cluster.

The session is the same: what it takes for a worker is a thread here, which has each task carried
out somewhere in the cluster and saves what comes back. There a task runs in a process of its own,
kept for the next one, so that a target that crashes or hangs takes no worker of Dask's along.
Invariant: a task whose process, machine or scheduler is lost is a dead worker to the session, which
has it done again; so nothing here tries anything twice.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from typing_extensions import override

from fuzz.problems import BadInputError
from fuzz.protocol.target import contract_of
from fuzz.sessions import corpus, worker
from fuzz.sessions.corpus import Raw
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.worker import (
    Canary,
    Message,
    Reduced,
    Reduction,
    Sang,
    Search,
    Searched,
    Task,
    Tries,
)
from fuzz.targets import make_target

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 300.0
POLL_SECONDS = 0.25
BEAT_SECONDS = 5.0
ABSENCE_SECONDS = 300.0
"""A scheduler that restarts, and workers that come back to it, may take so long."""
SERVE = "from fuzz.sessions.cluster import serve; serve()"


# On a worker of Dask's.


class Errand:
    """A worker process of a session's, for one thread of a worker of Dask's."""

    def __init__(self, plan: Plan) -> None:
        self.token = plan.token
        self._folder = tempfile.TemporaryDirectory()
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", SERVE, str(theirs.fileno())]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            self._process = subprocess.Popen(  # noqa: S603 - this program itself
                command, pass_fds=[theirs.fileno()], env=environment
            )
        self.pid = self._process.pid
        self._connection = Connection(ours.detach())
        self._connection.send(attrs.evolve(plan, corpus=Path(self._folder.name)))

    def do(self, task: Task) -> list[Message]:
        """Have a task done. Raises EOFError or OSError if the process does not survive it."""
        self._connection.send(task)
        told: list[Message] = []
        while not told or not isinstance(told[-1], Searched | Reduced | Sang | Exception):
            if not self._connection.poll(SILENCE_SECONDS):
                raise EOFError(f"silent for {SILENCE_SECONDS:.0f} s")
            message = self._connection.recv()
            if not isinstance(message, SessionTotals | Tries):
                told.append(message)
        return told

    def end(self) -> None:
        """End the process, and what it started."""
        self._process.kill()
        worker.end_session(self._process.pid)
        self._process.wait()
        self._connection.close()
        self._folder.cleanup()


_errands: dict[int, Errand] = {}
"""By thread."""


def run_task(plan: Plan, task: Task) -> list[Message]:
    """Carry out a task; what a worker tells of it. Raises EOFError or OSError if it is lost."""
    here = threading.get_ident()
    errand = _errands.get(here)
    if errand is None or errand.token != plan.token:
        end_errands(here)
        errand = _errands[here] = Errand(plan)
    try:
        return errand.do(task)
    except (EOFError, OSError):
        end_errands(here)
        raise


def end_errands(*threads: int) -> None:
    """End the processes of these threads, or of all."""
    for each in threads or tuple(_errands):
        errand = _errands.pop(each, None)
        if errand is not None:
            errand.end()


def serve() -> None:
    """The main function of an errand's process."""
    connection = Connection(int(sys.argv[1]))
    worker.work(connection.recv(), connection)


def why_unable(plan: Plan) -> str | None:
    """What a worker of Dask's lacks for this target, if it lacks something."""
    try:
        contract_of(make_target(plan.target, plan.options))
    except BadInputError as problem:
        return str(problem)
    return None


# In the session's own process.


class Cluster:
    """The machines that can run a plan's target."""

    def __init__(self, address: Any, plan: Plan) -> None:  # noqa: ANN401 - or a cluster of Dask's
        """Raises BadInputError if there is none, and OSError if nobody answers."""
        self._address, self._plan = address, plan
        self._lock = threading.Lock()
        self._client: Client | None = None
        self.unable: dict[str, str | None] = {}
        """By address why a worker cannot run the target; None if it can."""
        self._looked_at, self._there = 0.0, list[str]()
        threads, able = self.connect().nthreads(), self.able()  # type: ignore[no-untyped-call]
        self.threads = sum(threads[address] for address in able)
        if not able:
            why = next(iter(self.unable.values()), "it has no workers")
            raise BadInputError(f"the cluster cannot run {plan.target}: {why}")

    def connect(self) -> Client:
        """The client, or another if the scheduler was lost for so long that it gave up."""
        from distributed import Client

        with self._lock:
            if self._client is None or self._client.status == "closed":
                self._client = Client(self._address, timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
            return self._client

    def able(self) -> list[str]:
        """The workers of a moment ago that can run the target. Each is asked once."""
        client = self.connect()
        with self._lock:
            if time.monotonic() - self._looked_at > BEAT_SECONDS or not self._there:
                self._there = list(client.nthreads())  # type: ignore[no-untyped-call]
                self._looked_at = time.monotonic()
            if new := [address for address in self._there if address not in self.unable]:
                # What the target promises here is not taken for granted there.
                options = attrs.evolve(self._plan.options, contract=None)
                asked = attrs.evolve(self._plan, options=options)
                self.unable.update(client.run(why_unable, asked, workers=new))
            return [address for address in self._there if self.unable[address] is None]

    def look_again(self) -> None:
        """Something was lost: who is there is not what it was."""
        self._looked_at = 0.0

    def hire(self, plan: Plan) -> tuple[Connection, Envoy]:
        """A worker for a session."""
        ours, theirs = multiprocessing.Pipe()
        envoy = Envoy(self, plan, theirs)
        envoy.start()
        return ours, envoy

    def close(self) -> None:
        """End what the session started in the cluster."""
        with suppress(OSError):
            self.connect().run(end_errands)
            self.connect().close()  # type: ignore[no-untyped-call]


class Envoy(threading.Thread):
    """What the session takes for a worker."""

    pid = None

    def __init__(self, cluster: Cluster, plan: Plan, connection: Connection) -> None:
        super().__init__(daemon=True)
        self._cluster, self._plan, self._connection = cluster, plan, connection
        self._is_killed = False
        self.exitcode: int | str = 0

    def kill(self) -> None:
        """Wait for nothing any more."""
        self._is_killed = True

    @override
    def run(self) -> None:
        with self._connection, suppress(BrokenPipeError, EOFError):
            try:
                while (task := self._next_task()) is not None:
                    if isinstance(task, Search | Reduction | Canary):
                        self._have_done(task)
            except BaseException as problem:  # noqa: BLE001 - what is cancelled is no Exception
                self.exitcode = f"{type(problem).__name__}: {problem}"
                self._cluster.look_again()

    def _next_task(self) -> object:
        while not self._connection.poll(POLL_SECONDS):
            if self._is_killed:
                raise EOFError
        return self._connection.recv()

    def _have_done(self, task: Task) -> None:
        there = task
        if isinstance(task, Reduction):  # Its file stays until there is another.
            there = attrs.evolve(task, raw=attrs.evolve(task.raw, path=None))
        able = self._able_in_the_end()
        future: Any = self._cluster.connect().submit(
            run_task, self._plan, there, workers=able, pure=False
        )
        is_done, beat = threading.Event(), 0.0
        future.add_done_callback(lambda _: is_done.set())
        while not is_done.wait(POLL_SECONDS):
            if self._is_killed:
                raise EOFError
            if isinstance(task, Search) and self._connection.poll():
                future.cancel()  # It was cut off. What runs already ends by itself.
                self._connection.send(Searched(SessionTotals(), is_whole=False))
                return
            if time.monotonic() - beat > BEAT_SECONDS:
                beat = time.monotonic()
                if not {*able} & {*self._cluster.able()}:
                    raise EOFError("no worker is there any more")
                self._connection.send(Tries(0))
        for message in future.result():
            self._connection.send(self._saved(message, task))

    def _able_in_the_end(self) -> list[str]:
        """The workers that can do a task, as soon as there are any. Raises EOFError."""
        until = time.monotonic() + ABSENCE_SECONDS
        while time.monotonic() < until and not self._is_killed:
            with suppress(OSError):
                if able := self._cluster.able():
                    return able
            self._connection.send(Tries(0))
            time.sleep(BEAT_SECONDS)
        raise EOFError("no worker is there")

    def _saved(self, message: Message, task: Task) -> Message:
        """The same with a file here, of what has one there."""
        if isinstance(message, Raw):
            saved = corpus.save_raw(self._plan.finder(message.chunk), message.failure)
            return attrs.evolve(saved, chunk=message.chunk)
        if isinstance(message, Reduced) and isinstance(task, Reduction):
            finder, find = self._plan.finder(message.find.chunk), message.find
            find = attrs.evolve(find, path=task.raw.path, unsaved=task.raw.unsaved)
            if find.reproduced:
                find = corpus.saved(finder, find)
                if task.raw.path not in {None, find.path}:
                    corpus.take_back(task.raw.path)
            return attrs.evolve(message, find=find)
        return message


@contextmanager
def connected(address: str, plan: Plan) -> Iterator[Cluster]:
    """A cluster, by its scheduler's address or `local:2`. Raises BadInputError."""
    try:
        from distributed import LocalCluster
    except ImportError as problem:
        raise BadInputError("--cluster needs Dask: pip install 'gcfuzz[cluster]'") from problem
    place: Any = address
    if match := re.fullmatch(r"local:([1-9]\d{0,2})", address):
        place = LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=int(match[1]),
            threads_per_worker=1,
            dashboard_address=":0",  # Another cluster here may have the usual port.
            silence_logs=logging.CRITICAL,  # What becomes of its processes is a session's to tell.
        )
    try:
        cluster = Cluster(place, plan)
    except (OSError, ValueError) as problem:
        raise BadInputError(f"--cluster {address}: {problem}") from problem
    try:
        yield cluster
    finally:
        cluster.close()
        if place is not address:
            place.close()
