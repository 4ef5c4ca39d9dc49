"""Threads of a target's own process: they take turns, as the mutator's do, or run at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def stay_on_one_processor() -> None:
    """For threads that take turns: waking one that sleeps on another processor takes long.

    The processes of one worker of a session share a processor, since it asks one at a time.
    """
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[os.getppid() % len(processors)]})


def wake_without_preemption() -> None:
    """For threads that take turns: a thread that is woken runs when the one that woke it sleeps.

    At once, it would only wait for Python's lock, which the other one still has.
    """
    with suppress(OSError):  # The system may forbid that; then turns take twice as long.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class Threads:
    """Numbered threads, started when they are needed. Thread 0 is the one that calls."""

    def __init__(self) -> None:
        self._others: list[_Other] = []

    def run(self, thread: int, work: Callable[[], Result]) -> Result:
        if thread == 0:
            return work()
        while len(self._others) < thread:
            self._others.append(_Other())
        other = self._others[thread - 1]
        other.ask(work)
        result: Result = other.answer()
        return result

    def end(self, thread: int) -> None:
        """End a thread. The next work for its number starts another."""
        self._others[thread - 1].end()
        self._others[thread - 1] = _Other()

    def run_at_once(self, works: Sequence[Callable[[], Result]]) -> list[Result]:
        """The results of work in the first threads, at the same time where Python's lock is free.

        The threads must have been started.
        """
        others = self._others[: len(works) - 1]
        for other, work in zip(others, works[1:], strict=True):
            other.ask(work)
        return [works[0](), *(other.answer() for other in others)]


class _Other:
    """A thread that waits for work. (concurrent.futures takes several times as long.)"""

    def __init__(self) -> None:
        self._asked, self._done = Lock(), Lock()
        for lock in (self._asked, self._done):
            lock.acquire()
        self._work: Callable[[], Any] | None = None
        self._problem: Exception | None = None
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def ask(self, work: Callable[[], Any] | None) -> None:
        """Start some work; None ends the thread."""
        self._work, self._problem = work, None
        self._asked.release()

    def answer(self) -> Any:  # noqa: ANN401 - the result of the work
        self._done.acquire()
        if self._problem is not None:
            raise self._problem
        return self._result

    def end(self) -> None:
        self.ask(None)
        self._thread.join()

    def _serve(self) -> None:
        while self._asked.acquire() and self._work is not None:
            try:
                self._result = self._work()
            except Exception as problem:  # noqa: BLE001 - `answer` raises it
                self._problem = problem
            self._done.release()
