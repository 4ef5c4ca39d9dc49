"""A session's workers as it sees them: a process at the other end of a connection, and its task.

Invariant: one that has died is noticed by its connection's end, whatever is sent to it meanwhile.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import register_after_fork
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from fuzz.sessions import worker
from fuzz.sessions.plan import Plan, SessionTotals
from fuzz.sessions.worker import Task, Tries

if TYPE_CHECKING:
    from fuzz.sessions.cluster import Envoy


@attrs.define
class Hand:
    """A worker."""

    number: int
    connection: Connection
    process: BaseProcess | Envoy
    task: Task | None = None
    heard: float = 0.0
    """When it last told something, by the monotonic clock, or was given something."""
    is_new: bool = True
    progress: SessionTotals | Tries = attrs.Factory(lambda: Tries(0))

    def give(self, task: Task) -> None:
        """Hand it a task. One that has died meanwhile is noticed later, with the task in hand."""
        self.task, self.heard = task, time.monotonic()
        self._send(task)

    def cut(self) -> None:
        """Cut off what it is doing."""
        self._send("cut")

    def dismiss(self) -> None:
        """There is nothing more to do."""
        self._send(None)

    @property
    def how_it_ended(self) -> str:
        """In words, when it has ended."""
        code = self.process.exitcode
        return code if isinstance(code, str) else f"exit code {code}"

    def _send(self, what: object) -> None:
        with suppress(OSError):
            self.connection.send(what)


def hire_here(plan: Plan) -> tuple[Connection, BaseProcess]:
    """A worker on this machine: a fork of this process, if this is its only thread.

    Beside others a fork would wait for ever for a lock that one of them held; and to start anew
    costs more than all else of a short session, since a worker imports what is imported here.
    """
    ours, theirs = multiprocessing.Pipe()
    register_after_fork(ours, Connection.close)  # Else no fork would notice that we are gone.
    process: BaseProcess
    if _is_only_thread():
        process = get_context("fork").Process(target=worker.work, args=(plan, theirs), daemon=True)
    else:
        process = get_context("spawn").Process(target=worker.work, args=(plan, theirs), daemon=True)
        resource_tracker.ensure_running()
    with signals_held():
        process.start()
    theirs.close()
    return ours, process


def _is_only_thread() -> bool:
    """Whether this is, also of those that Python knows nothing of. Only Linux tells."""
    threads = Path("/proc/self/task")
    return threads.is_dir() and len(list(threads.iterdir())) == 1


@contextmanager
def signals_held() -> Iterator[None]:
    """Hold back Ctrl-C while this lasts, and in all processes that are started meanwhile.

    Started meanwhile, multiprocessing's helper, its resource tracker, would let go of it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
