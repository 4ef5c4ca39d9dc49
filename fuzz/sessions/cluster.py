"""The workers of a session on a Dask cluster.

The session is the same: a `DaskWorker` is a thread of this process that submits each task to the
cluster, and saves the failures that come back. Invariant: if the scheduler or the process of a task
is lost, the worker dies, and the session repeats the task. If a machine is lost, Dask itself
repeats the task on another one that could run the plan at the start.
"""

from __future__ import annotations

import io
import logging
import multiprocessing
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from multiprocessing import resource_tracker
from pathlib import PurePath
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import attrs
from typing_extensions import override

from fuzz.failures import corpus
from fuzz.failures.corpus import SavedFailure
from fuzz.problems import BadInputError
from fuzz.sessions.dask_tasks import cut_tasks, end_processes, run_and_report, why_unable
from fuzz.sessions.local_worker import interrupts_blocked
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.pool import Worker
from fuzz.sessions.worker import Candidates, Message, Reduced, Reduction, Task, TaskProgress
from fuzz.version import versions_for

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 30.0
POLL_SECONDS = 0.25
BEAT_SECONDS = 5.0
ABSENCE_SECONDS = 300.0
"""How long a session waits for a scheduler that restarts, and for its workers."""
CLOSE_SECONDS = 2.0
"""How long a session waits for all machines. Its processes end without a task, too."""
PLAIN = {("builtins", "set"), ("builtins", "frozenset"), ("collections", "Counter")}
"""What messages have beside numbers, texts, lists and our classes."""

Inbox = SimpleQueue[tuple[int, bytes]]
"""The messages before the end of one task: each with its place among the answers, and pickled."""


class PlainUnpickler(pickle.Unpickler):
    """Reads a message of a worker, which has only plain data and this package's classes of data."""

    @override
    def find_class(self, module: str, name: str) -> Any:
        found = getattr(sys.modules.get(module), name, None)
        is_ours = module.startswith("fuzz.") and isinstance(found, type) and attrs.has(found)
        is_error = isinstance(found, type) and issubclass(found, Exception)
        is_path = isinstance(found, type) and issubclass(found, PurePath)
        if not (is_ours or is_error or is_path or (module, name) in PLAIN):
            raise pickle.UnpicklingError(f"a worker sent {module}.{name}, which is not data")
        return found


def plain_message(data: bytes) -> Message:
    """A message of a worker. Raises UnpicklingError if it has more than plain data."""
    message: Message = PlainUnpickler(io.BytesIO(data)).load()
    return message


class Cluster:
    """The machines that can run a plan's target."""

    def __init__(self, address: Any, plan: Plan) -> None:  # noqa: ANN401 - or a LocalCluster
        """Raises BadInputError if no worker is able, and OSError if the scheduler is not there."""
        self._address, self._plan = address, plan
        self._lock = threading.Lock()
        self._client: Client | None = None
        self.unable: dict[str, str | None] = {}
        """Why a worker cannot run the plan, by its address; None if it can."""
        self._listed_at, self._listed = 0.0, list[str]()
        self._cut = frozenset[type[Task]]()
        # A scheduler keeps the last events of each topic forever, so all tasks share one topic.
        self._topic = f"gcfuzz-{plan.token}"
        self._numbers = count()
        self._inboxes: WeakValueDictionary[int, Inbox] = WeakValueDictionary()
        until, able = time.monotonic() + ABSENCE_SECONDS, self.able()
        while not self._listed and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
            able = self.able()
        threads = self._connect().nthreads()  # type: ignore[no-untyped-call]
        self.threads = sum(threads[address] for address in able)
        if not able:
            self.close()
            why = next(iter(self.unable.values()), "it has no workers")
            raise BadInputError(f"the cluster cannot run {plan.target}: {why}")

    def _connect(self) -> Client:
        """The client, or a new one if it lost the scheduler for so long that it gave up."""
        from distributed import Client

        with self._lock:
            if self._client is None or self._client.status == "closed":
                self._client = Client(self._address, timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
            return self._client

    def able(self) -> list[str]:
        """The workers that can run the plan, as of a moment ago. Each is asked once."""
        client = self._connect()
        with self._lock:
            if time.monotonic() - self._listed_at > BEAT_SECONDS or not self._listed:
                self._listed = list(client.nthreads())  # type: ignore[no-untyped-call]
                self._listed_at = time.monotonic()
            if new := [address for address in self._listed if address not in self.unable]:
                question = why_unable, self._plan, versions_for(self._plan.engine)
                for address, why in client.run(*question, workers=new, on_error="return").items():
                    if not isinstance(why, OSError):  # That is Dask's, for a lost worker.
                        self.unable[address] = why if why is None else str(why)
            return [each for each in self._listed if self.unable.get(each, "not asked") is None]

    def submit(self, plan: Plan, task: Task, able: list[str]) -> tuple[Any, Inbox]:
        """The future of a task, and the inbox for its messages before the end."""
        number, inbox = next(self._numbers), Inbox()
        self._inboxes[number] = inbox
        client: Any = self._connect()
        client.subscribe_topic(self._topic, self._receive)  # A new scheduler does not know it yet.
        arguments = plan, task, self._topic, number
        return client.submit(run_and_report, *arguments, workers=able, pure=False), inbox

    def _receive(self, event: tuple[float, tuple[int, int, bytes]]) -> None:
        _, (number, place, data) = event
        inbox = self._inboxes.get(number)
        if inbox is not None:
            inbox.put((place, data))

    def list_again(self) -> None:
        """List the workers again, because something was lost."""
        self._listed_at = 0.0

    def cut(self, kind: type[Task]) -> None:
        """Cut off all tasks of a kind, once."""
        with self._lock:
            is_first, self._cut = kind not in self._cut, self._cut | {kind}
        if is_first:
            # A stopped machine never answers; the others know before they get another task.
            _in_thread(self._run_everywhere, cut_tasks, kind).join(CLOSE_SECONDS)

    def start_worker(self, plan: Plan, number: int) -> DaskWorker:
        return DaskWorker(self, plan, number)

    def close(self) -> None:
        """End the session's processes, without waiting for a machine that does not answer."""
        _in_thread(self._close).join(CLOSE_SECONDS)

    def _close(self) -> None:
        self._run_everywhere(end_processes)
        if self._client is not None:
            self._client.close()  # type: ignore[no-untyped-call]

    def _run_everywhere(self, function: Callable[..., None], *kind: type[Task]) -> None:
        if self._client is not None and self._client.status == "running":
            with suppress(OSError):
                self._client.run(function, self._plan.token, *kind, on_error="ignore")


def _in_thread(call: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=call, args=arguments, daemon=True)
    thread.start()
    return thread


class DaskWorker(Worker):
    """A worker whose tasks run in a cluster. A thread submits them one after another."""

    def __init__(self, cluster: Cluster, plan: Plan, number: int) -> None:
        ours, self._theirs = multiprocessing.Pipe()
        super().__init__(number, ours)
        self._cluster, self._plan = cluster, plan
        self._is_killed = False
        self._how_it_ended = "it ended"
        self._last_progress: TaskProgress = Candidates(0)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @override
    def kill(self) -> None:
        self._is_killed = True

    @override
    def join(self, seconds: float | None = None) -> None:
        # Once killed, the thread may still wait for a scheduler that is gone.
        self.thread.join(POLL_SECONDS if self._is_killed else seconds)

    @override
    def clean_up(self) -> None:
        """The cluster ends its processes when it is closed."""

    @property
    @override
    def how_it_ended(self) -> str:
        return self._how_it_ended

    def _run(self) -> None:
        with self._theirs:
            try:
                while (task := self._next_task()) is not None:
                    if isinstance(task, Task):
                        self._run_task(task)
            except BaseException as problem:  # noqa: BLE001 - CancelledError is no Exception
                self._how_it_ended = str(problem).partition("\n")[0] or "its process ended"
                self._cluster.list_again()

    def _next_task(self) -> object:
        while not self._theirs.poll(POLL_SECONDS):
            if self._is_killed:
                raise EOFError
        return self._theirs.recv()

    def _run_task(self, task: Task) -> None:
        remote = task
        if isinstance(task, Reduction):  # Its file stays until there is another one.
            remote = attrs.evolve(task, found=attrs.evolve(task.found, path=None))
        able = self._wait_for_workers()
        self._last_progress = Candidates(0)
        future, inbox = self._cluster.submit(self._plan, remote, able)
        is_done, beat_at, received = threading.Event(), 0.0, 0
        future.add_done_callback(lambda _: is_done.set())
        while not is_done.wait(POLL_SECONDS):
            if self._is_killed:
                raise EOFError
            if self._theirs.poll():
                self._theirs.recv()  # The task is cut off, and so are all of its kind.
                self._cluster.cut(type(task))
            if time.monotonic() - beat_at > BEAT_SECONDS:
                beat_at = time.monotonic()
                if not {*able} & {*self._cluster.able()}:
                    raise EOFError("its worker of Dask's is gone")
                self._theirs.send(self._last_progress)
            received = self._pass_on(inbox, received, task)
        # If Dask repeated the task, there may be fewer answers than were received.
        [*answers, end] = map(plain_message, future.result())
        for message in (*answers[received:], end):
            self._theirs.send(self._saved(message, task))

    def _pass_on(self, inbox: Inbox, received: int, task: Task) -> int:
        """Pass on the messages of an inbox; returns how many answers were received so far."""
        while not inbox.empty():
            place, data = inbox.get()
            message = plain_message(data)
            if isinstance(message, SessionTotals | Candidates):
                self._last_progress = message
                self._theirs.send(message)
            elif place == received:
                self._theirs.send(self._saved(message, task))
                received += 1
        return received

    def _wait_for_workers(self) -> list[str]:
        """The workers that are able, as soon as there are any. Raises EOFError."""
        until = time.monotonic() + ABSENCE_SECONDS
        while time.monotonic() < until and not self._is_killed:
            with suppress(OSError):
                if able := self._cluster.able():
                    return able
            self._theirs.send(Candidates(0))
            time.sleep(BEAT_SECONDS)
        raise EOFError("the cluster has no able worker")

    def _saved(self, message: Message, task: Task) -> Message:
        """The message, with a failure saved on this machine."""
        if isinstance(message, SavedFailure):
            origin = self._plan.origin(message.chunk)
            return corpus.save_found(origin, message.failure, message.chunk)
        if isinstance(message, Reduced) and isinstance(task, Reduction):
            found = task.found
            saved = attrs.evolve(message.saved, path=found.path, unsaved=found.unsaved)
            if saved.reproduced:
                saved = corpus.save(self._plan.origin(saved.chunk), saved)
            return attrs.evolve(message, saved=saved)
        return message


@contextmanager
def connected(address: str, plan: Plan) -> Iterator[Cluster]:
    """A cluster, by its scheduler's address or `local:2`. Raises BadInputError."""
    try:
        from distributed import LocalCluster
    except ImportError as problem:
        raise BadInputError("--cluster needs Dask: pip install 'gcfuzz[cluster]'") from problem
    for logger in ("distributed", "distributed.client"):  # The session reports what is lost.
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        place: Any = address
        if address.startswith("local:"):
            match = re.fullmatch(r"local:([1-9]\d{0,2})", address)
            if match is None:
                raise BadInputError(f"--cluster {address}: write local:2 for two workers")
            resource_tracker.ensure_running()
            with interrupts_blocked():
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
        except TypeError as problem:  # Dask's, if it has no certificate for tls://.
            raise BadInputError(
                f"--cluster {address}: {problem}; see `gcfuzz help scale` for certificates"
            ) from problem
        stack.callback(cluster.close)
        yield cluster
