"""A worker in a process on this machine."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.util import register_after_fork
from pathlib import Path
from typing import Any

from typing_extensions import override

from fuzz.sessions import worker
from fuzz.sessions.plan import Plan
from fuzz.sessions.pool import Worker
from fuzz.targets import is_program


class LocalWorker(Worker):
    """A fork of this process, or a new process if this one has other threads."""

    def __init__(self, plan: Plan, number: int) -> None:
        ours, theirs = multiprocessing.Pipe()
        super().__init__(number, ours)
        register_after_fork(ours, Connection.close)  # Otherwise forks keep our end open.
        # A fork beside other threads could wait forever for a lock that one of them held. A new
        # process imports all modules again, which takes longer than the rest of a short session.
        threads = Path("/proc/self/task")  # Only Linux has it. It lists all, not only Python's own.
        is_alone = threads.is_dir() and len(list(threads.iterdir())) == 1
        method = "fork" if is_alone else "spawn"
        if method == "spawn":
            resource_tracker.ensure_running()
        context: Any = get_context(method)
        self._starts_programs = is_program(plan.target) or plan.before is not None
        self.process = context.Process(target=worker.work, args=(plan, theirs), daemon=True)
        with interrupts_blocked():
            self.process.start()
        theirs.close()

    @override
    def kill(self) -> None:
        self.process.kill()

    @override
    def join(self, seconds: float | None = None) -> None:
        self.process.join(seconds)

    @override
    def clean_up(self) -> None:
        if self._starts_programs and self.process.pid is not None:
            worker.end_session(self.process.pid)

    @property
    @override
    def how_it_ended(self) -> str:
        return f"exit code {self.process.exitcode}"


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block a terminal's signals in this process, and in all processes that are started meanwhile.

    The resource tracker of multiprocessing has to run already: started here, it would unblock it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
