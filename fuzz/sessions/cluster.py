"""A session's workers on the machines of a Dask cluster.

The session is the same: what it takes for a worker is a thread here, which has each task carried
out somewhere in the cluster and saves what comes back. There a task runs in a process of its own,
kept for the next one, so that a target that crashes or hangs takes no worker of Dask's along.
Invariant: a task whose process or scheduler is lost is a dead worker to the session, which has it
done again; so nothing here tries anything twice. A task whose machine is lost Dask itself has done
again, on another that was able when it began.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import attrs
from typing_extensions import override

from fuzz.problems import BadInputError
from fuzz.protocol.target import contract_of
from fuzz.sessions import corpus, worker
from fuzz.sessions.compare import contract_changes
from fuzz.sessions.corpus import SavedFailure
from fuzz.sessions.hands import signals_held
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
from fuzz.version import __version__

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 300.0
POLL_SECONDS = 0.25
BEAT_SECONDS = 5.0
IDLE_SECONDS = 300.0
PROGRESS_SECONDS = 1.0
"""So often a task tells how far it is."""
ABSENCE_SECONDS = 300.0
"""A scheduler that restarts, and workers that come back to it, may take so long."""
SERVE = """
import sys
descriptor, *sys.path = sys.argv[1:]
from fuzz.sessions.cluster import serve
serve(int(descriptor))
"""
"""It finds what this process finds. What it starts does not: a target may be another Python."""


Tell = Callable[[int, Message], None]
"""Hears what a task tells before its end, and how many answers came before."""
Inbox = SimpleQueue[tuple[int, bytes]]
"""Where what one task tells so arrives: each message with its place, and pickled."""

# On a worker of Dask's.


class Errand:
    """A worker process of a session's, for one thread of a worker of Dask's."""

    def __init__(self, plan: Plan) -> None:
        self.token = plan.token
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self._temporary.name)
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", SERVE, str(theirs.fileno()), *sys.path]
            self._process = subprocess.Popen(  # noqa: S603 - this program itself
                command, pass_fds=[theirs.fileno()]
            )
        self.pid = self._process.pid
        self._connection = Connection(ours.detach())
        # What cuts a task off is told in another thread than what gives the next.
        self._lock = threading.Lock()
        self._task: Task | None = None
        self._connection.send(attrs.evolve(plan, corpus=self.folder))

    def do(self, task: Task, tell: Tell = lambda _, __: None) -> list[Message]:
        """Have a task done. Raises EOFError or OSError if the process does not survive it.

        Progress is told as it comes, and so is what is among the answers, with its place there.
        """
        with self._lock:
            self._task = task
            self._connection.send(task)
        answers: list[Message] = []
        told_at = 0.0
        while True:
            if not self._connection.poll(SILENCE_SECONDS):
                raise EOFError(f"silent for {SILENCE_SECONDS:.0f} s")
            message = self._connection.recv()
            is_progress = isinstance(message, SessionTotals | Tries)
            if isinstance(message, Searched | Reduced | Sang | Exception):
                return [*answers, message]
            if not is_progress or time.monotonic() > told_at + PROGRESS_SECONDS:
                tell(len(answers), message)
                told_at = time.monotonic()
            if not is_progress:
                answers.append(message)

    def cut(self, kind: type[Task]) -> None:
        """Cut off a task of that kind."""
        with self._lock, suppress(OSError):
            if isinstance(self._task, kind):
                self._connection.send("cut")

    @property
    def has_ended(self) -> bool:
        """Whether the process is there no more; it may have had nothing to do for long."""
        return self._process.poll() is not None

    def end(self) -> None:
        """End the process, and what it started."""
        self._process.kill()
        worker.end_session(self._process.pid)
        self._process.wait()
        self._connection.close()
        self._temporary.cleanup()


_errands: dict[int, Errand] = {}
"""By thread."""
_cut: set[str] = set()
_over: set[str] = set()
"""The tokens of the sessions that search no more, and of those that are over."""


def run_and_tell(plan: Plan, task: Task, topic: str, number: int) -> list[Message]:
    """The same as `run_task`; what can be told before its end is an event of Dask's, too."""
    from distributed import get_worker

    def tell(place: int, message: Message) -> None:
        get_worker().log_event(topic, (number, place, pickle.dumps(message)))

    return run_task(plan, task, tell)


def run_task(plan: Plan, task: Task, tell: Tell = lambda _, __: None) -> list[Message]:
    """Carry out a task; what a worker tells of it. Raises EOFError or OSError if it is lost."""
    if plan.token in _over:
        raise EOFError("its session is over")
    if isinstance(task, Search) and plan.token in _cut:
        return [Searched(SessionTotals(), is_whole=False)]
    here = threading.get_ident()
    errand = _errands.get(here)
    if errand is None or errand.token != plan.token or errand.has_ended:
        _end_errand(here)
        errand = _errands[here] = Errand(plan)
    try:
        return errand.do(task, tell)
    except (EOFError, OSError):
        _end_errand(here)
        raise


def _end_errand(thread: int) -> None:
    errand = _errands.pop(thread, None)
    if errand is not None:
        errand.end()


def cut_tasks(token: str, kind: type[Task]) -> None:
    """Cut off a session's tasks of a kind; after its searches it has no more of them."""
    if kind is Search:
        _cut.add(token)
    for errand in tuple(_errands.values()):
        if errand.token == token:
            errand.cut(kind)


def end_errands(token: str) -> None:
    """End the processes of a session, which is over; others may have theirs here."""
    _over.add(token)
    for thread, errand in tuple(_errands.items()):
        if errand.token == token:
            _end_errand(thread)


class PatientConnection(Connection):
    """It has an end if nobody says anything for long: whose session was killed is told nothing."""

    @override
    def recv(self) -> Any:
        if not self.poll(IDLE_SECONDS):
            raise EOFError
        return super().recv()


def serve(descriptor: int) -> None:
    """The main function of an errand's process."""
    connection = PatientConnection(descriptor)
    worker.work(connection.recv(), connection)


def why_unable(plan: Plan, gcfuzz: str) -> str | None:
    """What a worker of Dask's lacks for this plan, if it lacks something."""
    if __version__ != gcfuzz:
        return f"it has gcfuzz {__version__}, and the session {gcfuzz}"
    try:
        for each in (plan, plan.before):
            if each is not None:
                promised, asked = each.options.contract, attrs.evolve(each.options, contract=None)
                assert promised is not None
                there = contract_of(make_target(each.target, asked))
                if others := [*contract_changes(promised, there)]:
                    return f"its {each.target} is another: {', '.join(others)}"
    except (BadInputError, OSError) as problem:  # An OSError of Dask's is what did not hear it.
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
        self._cut = frozenset[type[Task]]()
        # A scheduler keeps the last events of each topic for ever: one topic serves all tasks.
        self._topic = f"gcfuzz-{plan.token}"
        self._numbers = count()
        self._inboxes: WeakValueDictionary[int, Inbox] = WeakValueDictionary()
        threads, able = self.connect().nthreads(), self.able()  # type: ignore[no-untyped-call]
        self.threads = sum(threads[address] for address in able)
        if not able:
            self.close()
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
                asked = why_unable, self._plan, __version__
                for address, why in client.run(*asked, workers=new, on_error="return").items():
                    if not isinstance(why, OSError):  # That one did not hear it.
                        self.unable[address] = why if why is None else str(why)
            return [each for each in self._there if self.unable.get(each, "unrecorded") is None]

    def submit(self, plan: Plan, task: Task, able: list[str]) -> tuple[Any, Inbox]:
        """Have a task done: its future, and what is told of it before its end."""
        number, inbox = next(self._numbers), Inbox()
        self._inboxes[number] = inbox
        client: Any = self.connect()
        client.subscribe_topic(self._topic, self._hear)  # Another scheduler knows nothing of it.
        words = plan, task, self._topic, number
        return client.submit(run_and_tell, *words, workers=able, pure=False), inbox

    def _hear(self, event: tuple[float, tuple[int, int, bytes]]) -> None:
        _, (number, place, data) = event
        inbox = self._inboxes.get(number)
        if inbox is not None:  # Else nobody waits for that task any more.
            inbox.put((place, data))

    def look_again(self) -> None:
        """Something was lost: who is there is not what it was."""
        self._looked_at = 0.0

    def cut(self, kind: type[Task]) -> None:
        """Cut off all tasks of a kind, if it is the first time."""
        with self._lock:
            is_first, self._cut = kind not in self._cut, self._cut | {kind}
        if is_first:
            self._run_everywhere(cut_tasks, kind)

    def hire(self, plan: Plan) -> tuple[Connection, Envoy]:
        """A worker for a session."""
        ours, theirs = multiprocessing.Pipe()
        envoy = Envoy(self, plan, theirs)
        envoy.start()
        return ours, envoy

    def close(self) -> None:
        """End what the session started in the cluster."""
        self._run_everywhere(end_errands)
        if self._client is not None:
            self._client.close()  # type: ignore[no-untyped-call]

    def _run_everywhere(self, what: Callable[..., None], *kind: type[Task]) -> None:
        """Have it done for this session on each worker that can be reached at once."""
        if self._client is not None and self._client.status == "running":
            with suppress(OSError):
                self._client.run(what, self._plan.token, *kind, on_error="ignore")


class Envoy(threading.Thread):
    """What the session takes for a worker."""

    pid = None

    def __init__(self, cluster: Cluster, plan: Plan, connection: Connection) -> None:
        super().__init__(daemon=True)
        self._cluster, self._plan, self._connection = cluster, plan, connection
        self._is_killed = False
        self.exitcode: int | str = 0
        self._progress: SessionTotals | Tries = Tries(0)

    def kill(self) -> None:
        """Wait for nothing any more."""
        self._is_killed = True

    @override
    def join(self, timeout: float | None = None) -> None:
        """Wait for its end; but one that is killed may yet wait for a scheduler that is gone."""
        super().join(POLL_SECONDS if self._is_killed else timeout)

    @override
    def run(self) -> None:
        with self._connection:
            try:
                while (task := self._next_task()) is not None:
                    if isinstance(task, Search | Reduction | Canary):
                        self._have_done(task)
            except BaseException as problem:  # noqa: BLE001 - what is cancelled is no Exception
                self.exitcode = str(problem).partition("\n")[0] or "its process ended"
                self._cluster.look_again()

    def _next_task(self) -> object:
        while not self._connection.poll(POLL_SECONDS):
            if self._is_killed:
                raise EOFError
        return self._connection.recv()

    def _have_done(self, task: Task) -> None:
        there = task
        if isinstance(task, Reduction):  # Its file stays until there is another.
            there = attrs.evolve(task, found=attrs.evolve(task.found, path=None))
        able = self._able_in_the_end()
        self._progress = Tries(0)
        future, inbox = self._cluster.submit(self._plan, there, able)
        is_done, beat, heard = threading.Event(), 0.0, 0
        future.add_done_callback(lambda _: is_done.set())
        while not is_done.wait(POLL_SECONDS):
            if self._is_killed:
                raise EOFError
            if self._connection.poll():
                self._connection.recv()  # It is to be cut off, and so are all of its kind.
                self._cluster.cut(type(task))
            if time.monotonic() - beat > BEAT_SECONDS:
                beat = time.monotonic()
                if not {*able} & {*self._cluster.able()}:
                    raise EOFError("no worker is there any more")
                self._connection.send(self._progress)
            heard = self._hear(inbox, heard, task)
        # Dask has a task done again whose worker is lost, and then it may have fewer answers.
        [*answers, end] = future.result()
        for message in (*answers[heard:], end):
            self._connection.send(self._saved(message, task))

    def _hear(self, inbox: Inbox, heard: int, task: Task) -> int:
        """Pass on what was told meanwhile; so many of the answers are known then."""
        while not inbox.empty():
            place, data = inbox.get()
            message = pickle.loads(data)  # noqa: S301 - from a worker, as its answers are
            if isinstance(message, SessionTotals | Tries):
                self._progress = message
                self._connection.send(message)
            elif place == heard:
                self._connection.send(self._saved(message, task))
                heard += 1
        return heard

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
        if isinstance(message, SavedFailure):
            origin = self._plan.origin(message.chunk)
            return corpus.save_found(origin, message.failure, message.chunk)
        if isinstance(message, Reduced) and isinstance(task, Reduction):
            found = task.found
            saved = attrs.evolve(message.saved, path=found.path, unsaved=found.unsaved)
            if saved.reproduced:
                saved = corpus.save(self._plan.origin(saved.chunk), saved)
                if saved.path != found.path:
                    corpus.remove(found.path)
            return attrs.evolve(message, saved=saved)
        return message


@contextmanager
def connected(address: str, plan: Plan) -> Iterator[Cluster]:
    """A cluster, by its scheduler's address or `local:2`. Raises BadInputError."""
    try:
        from distributed import LocalCluster
    except ImportError as problem:
        raise BadInputError("--cluster needs Dask: pip install 'gcfuzz[cluster]'") from problem
    for logger in ("distributed", "distributed.client"):  # What is lost is a session's to tell.
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        place: Any = address
        if address.startswith("local:"):
            match = re.fullmatch(r"local:([1-9]\d{0,2})", address)
            if match is None:
                raise BadInputError(f"--cluster {address}: how many workers? local:2 are two")
            resource_tracker.ensure_running()
            with signals_held():
                place = LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=int(match[1]),
                    threads_per_worker=1,
                    dashboard_address=":0",  # Another cluster here may have the usual port.
                    silence_logs=logging.CRITICAL,
                )
            stack.callback(place.close)
        try:
            cluster = Cluster(place, plan)
        except (OSError, ValueError) as problem:
            raise BadInputError(f"--cluster {address}: {problem}") from problem
        stack.callback(cluster.close)
        yield cluster
