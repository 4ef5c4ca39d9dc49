"""The workers of a session: starts them, gives them tasks, and replaces those that die.

Invariant: a worker that dies loses no task. The pool gives the session its task back, even if more
was sent to the worker meanwhile.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait

import attrs

from fuzz.problems import BadInputError
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.session_events import Listener, WorkerDied
from fuzz.sessions.worker import (
    CUT,
    CanaryResult,
    Candidates,
    Message,
    Reduced,
    Reduction,
    Search,
    Searched,
    Task,
    TaskProgress,
)

POLL_SECONDS = 0.1
SILENCE_SECONDS = 300.0
"""A worker that sends nothing for this long hangs: no wait for a program is as long."""
DEATHS_MAX = 12
"""After this many deaths without a finished task no worker is started any more."""


class Worker(ABC):
    """A worker at the other end of a connection, on this machine or on another."""

    def __init__(self, number: int, connection: Connection) -> None:
        self.number = number
        self.connection = connection
        self.task: Task | None = None
        self.progress: TaskProgress = Candidates(0)
        self.is_new = True
        self.active_at = 0.0
        """When it last sent something, or got a task, by the monotonic clock."""

    @property
    def done(self) -> SessionTotals:
        """What it has done of its search, as it reported last."""
        return self.progress if isinstance(self.progress, SessionTotals) else SessionTotals()

    def give(self, task: Task) -> None:
        """Give it a task. If it is dead, that is noticed later."""
        self.task, self.active_at, self.is_new = task, time.monotonic(), False
        self._send(task)

    def cut(self) -> None:
        self._send(CUT)

    def dismiss(self) -> None:
        """Let it end, because there are no more tasks."""
        self._send(None)

    def _send(self, message: object) -> None:
        with suppress(OSError):
            self.connection.send(message)

    @abstractmethod
    def kill(self) -> None:
        """End it, without its task."""

    @abstractmethod
    def join(self, seconds: float | None = None) -> None:
        """Wait for its end."""

    @abstractmethod
    def clean_up(self) -> None:
        """End what it leaves behind."""

    @property
    @abstractmethod
    def how_it_ended(self) -> str:
        """How it ended, in a few words."""


StartWorker = Callable[[Plan, int], Worker]
"""Starts the worker of that number."""


@attrs.frozen
class Lost:
    """The worker with this task died."""

    done: SessionTotals
    """What it had done of a search."""


class WorkerPool:
    """The workers of a session."""

    def __init__(self, plan: Plan, start_worker: StartWorker, report: Listener) -> None:
        self._plan, self._start_worker, self._report = plan, start_worker, report
        self.workers: dict[Connection, Worker] = {}
        self._started = self._deaths_in_a_row = 0
        self.problem: Exception | None = None
        """Why the session cannot continue, as a worker reported it."""

    def __enter__(self) -> None:
        """No worker is left at the end of the block, also if that raises an exception.

        The exit handler of multiprocessing is no help: it sends SIGTERM, which a new fork handles
        as this process does, and waits for the fork's end forever.
        """

    def __exit__(self, *raised: object) -> None:
        for worker in self.workers.values():
            worker.kill()
        for worker in list(self.workers.values()):
            self._end(worker)

    def start(self, count: int) -> None:
        """Start workers. If the system has too few files or processes, that is the problem."""
        try:
            for _ in range(count):
                worker = self._start_worker(self._plan, self._started)
                self.workers[worker.connection] = worker
                self._started += 1
        except OSError as problem:
            why = f"worker {self._started}: cannot start: {problem.strerror}"
            self.problem = BadInputError(f"{why}; see `ulimit -a`, or give fewer --workers")

    @property
    def is_broken(self) -> bool:
        """Whether workers cannot do what is left to do."""
        return self.problem is not None or self._deaths_in_a_row >= DEATHS_MAX

    @property
    def tasks(self) -> list[Task]:
        return [each.task for each in self.workers.values() if each.task is not None]

    def give(self, next_task: Callable[[Worker], Task | None]) -> None:
        """Give each free worker its next task, if there is one."""
        for worker in self.workers.values():
            if worker.task is None and (task := next_task(worker)) is not None:
                worker.give(task)

    def receive(self) -> Iterator[tuple[Worker, Task | None, Message | Lost]]:
        """The messages that arrive within a moment, each with its worker and task."""
        for ready in wait(list(self.workers), timeout=POLL_SECONDS):
            assert isinstance(ready, Connection)
            worker = self.workers[ready]
            task = worker.task
            try:
                message: Message = ready.recv()
            except (EOFError, OSError):  # It died, perhaps in the middle of a message.
                self._end(worker)
                self._replace(worker, worker.how_it_ended)
                yield worker, task, Lost(worker.done)
                continue
            worker.active_at = time.monotonic()
            self._take(worker, message)
            yield worker, task, message
        for worker in list(self.workers.values()):
            if worker.task and time.monotonic() - worker.active_at > SILENCE_SECONDS:
                worker.kill()
                self._end(worker)
                self._replace(worker, f"silent for {SILENCE_SECONDS:.0f} s, and ended")
                yield worker, worker.task, Lost(worker.done)

    def _take(self, worker: Worker, message: Message) -> None:
        if isinstance(message, SessionTotals | Candidates):
            worker.progress = message
            return
        problem = message.problem if isinstance(message, Searched) else message
        if isinstance(problem, Exception):
            self.problem = problem
        # A worker of a cluster goes on after a problem in a search.
        is_over = isinstance(message, Exception) and isinstance(worker.task, Search)
        if is_over or isinstance(message, Searched | Reduced | CanaryResult):
            worker.task, worker.progress = None, Candidates(0)
            self._deaths_in_a_row = 0

    def _end(self, worker: Worker) -> None:
        worker.join()
        del self.workers[worker.connection]
        worker.connection.close()
        worker.clean_up()

    def _replace(self, worker: Worker, how: str) -> None:
        if self.problem is None:  # Otherwise the worker may have died of it.
            self._report(WorkerDied(worker.number, how))
        self._deaths_in_a_row += 1
        if not self.is_broken:
            self.start(1)

    def cut_searches(self, first_chunk: int = 0) -> None:
        """Cut off the chunks from that one on."""
        for worker in self.workers.values():
            if isinstance(worker.task, Search) and worker.task.chunk.index >= first_chunk:
                worker.cut()

    def cut_all(self) -> None:
        for worker in self.workers.values():
            if worker.task is not None:
                worker.cut()

    def kill(self, only_searches: bool) -> list[Worker]:
        """Kill workers, and replace none; returns them, with the tasks that they had."""
        killed = []
        for worker in list(self.workers.values()):
            if isinstance(worker.task, Search) or not only_searches:
                worker.kill()
                self._end(worker)
                killed.append(worker)
        return killed

    def dismiss(self, seconds: float) -> None:
        """Let the workers end, and kill those that do not end in time."""
        for worker in self.workers.values():
            worker.dismiss()
        until = time.monotonic() + seconds
        for worker in list(self.workers.values()):
            worker.join(max(until - time.monotonic(), 0))
            worker.kill()
            self._end(worker)

    def progress(self) -> tuple[SessionTotals, int, int]:
        """Totals of the chunks that run; how many failures are reduced; by how many candidates."""
        totals, candidates = SessionTotals(), 0
        for worker in self.workers.values():
            if isinstance(worker.progress, Candidates):
                candidates += worker.progress.number
            else:
                totals.add_all(worker.progress)
        return totals, sum(isinstance(task, Reduction) for task in self.tasks), candidates
