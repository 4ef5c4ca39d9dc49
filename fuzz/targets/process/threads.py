"""Threads of a target's own process, which take turns as the mutator's do, or run at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def stay_on_one_processor() -> None:
    """For threads that take turns: to wake one on another processor, which sleeps, takes long.

    What one worker of a session has started shares one, since it asks one at a time.
    """
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[os.getppid() % len(processors)]})


class Threads:
    """Some threads; the first is the one that makes the others."""

    def __init__(self) -> None:
        self._others: list[_Other] = []

    def run(self, thread: int, work: Callable[[], Result]) -> Result:
        """What comes of some work in a thread, which is begun if it is new."""
        if thread == 0:
            return work()
        while len(self._others) < thread:
            self._others.append(_Other())
        other = self._others[thread - 1]
        other.ask(work)
        result: Result = other.answer()
        return result

    def end(self, thread: int) -> None:
        """End a thread that is not the first; what it is to do next, a new one does."""
        self._others[thread - 1].end()
        self._others[thread - 1] = _Other()

    def run_at_once(self, works: Sequence[Callable[[], Result]]) -> list[Result]:
        """What comes of some work in each of the threads, which are begun, all at the same time.

        They do what Python's lock is not held for.
        """
        others = self._others[: len(works) - 1]
        for other, work in zip(others, works[1:], strict=True):
            other.ask(work)
        return [works[0](), *(other.answer() for other in others)]


class _Other:
    """A thread that waits for work. (What concurrent.futures has takes several times as long.)"""

    def __init__(self) -> None:
        self._asked, self._done = Lock(), Lock()
        for lock in (self._asked, self._done):
            lock.acquire()
        self._work: Callable[[], Any] | None = None
        self._problem: Exception | None = None
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def ask(self, work: Callable[[], Any] | None) -> None:
        """Begin some work, or end."""
        self._work, self._problem = work, None
        self._asked.release()

    def answer(self) -> Any:  # noqa: ANN401 - whatever comes of the work
        """Wait for what comes of it."""
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
            except Exception as problem:  # noqa: BLE001 - it is raised where it was asked for
                self._problem = problem
            self._done.release()
