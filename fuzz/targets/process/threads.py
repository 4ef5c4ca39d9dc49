"""Threads of a target's own process: they take turns, as the mutator's do, or run at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def stay_on_one_processor() -> None:
    """For threads that take turns: waking one that sleeps on another processor takes long.

    The processes of one worker of a session share a processor, since it asks one at a time.
    """
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[os.getppid() % len(processors)]})


class Threads:
    """Numbered threads, started when they are needed. Thread 0 is the one that calls."""

    def __init__(self, first_started: int = 1) -> None:
        """With 0 for `first_started`, thread 0 is started too, and none is the one that calls."""
        self._first = first_started
        self._others: list[_Other] = []

    def run(self, thread: int, work: Callable[[], Result]) -> Result:
        if thread < self._first:
            return work()
        while len(self._others) <= thread - self._first:
            self._others.append(_Other())
        other = self._others[thread - self._first]
        other.ask(work)
        result: Result = other.answer()
        return result

    def end(self, thread: int) -> None:
        """End a thread. The next work for its number starts another."""
        self._others[thread - self._first].end()
        self._others[thread - self._first] = _Other()

    def run_at_once(self, works: Sequence[Callable[[], Result]]) -> list[Result]:
        """The results of work in the first threads, at the same time where Python's lock is free.

        The threads must have been started.
        """
        others = self._others[: len(works) - 1]
        for other, work in zip(others, works[1:], strict=True):
            other.ask(work)
        return [works[0](), *(other.answer() for other in others)]


class _Other:
    """A thread that waits for work. (concurrent.futures takes several times as long.)

    A write to a counter of the kernel frees Python's lock, so the thread that it wakes gets that at
    once. Releasing a lock of `threading` does not, and costs two more switches of threads.
    """

    def __init__(self) -> None:
        self._asked, self._done = os.eventfd(0), os.eventfd(0)
        self._work: Callable[[], Any] | None = None
        self._problem: Exception | None = None
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def ask(self, work: Callable[[], Any] | None) -> None:
        """Start some work; None ends the thread."""
        self._work, self._problem = work, None
        os.eventfd_write(self._asked, 1)

    def answer(self) -> Any:  # noqa: ANN401 - the result of the work
        os.eventfd_read(self._done)
        if self._problem is not None:
            raise self._problem
        return self._result

    def end(self) -> None:
        self.ask(None)
        self._thread.join()
        for counter in (self._asked, self._done):
            os.close(counter)

    def _serve(self) -> None:
        while os.eventfd_read(self._asked) and self._work is not None:
            try:
                self._result = self._work()
            except Exception as problem:  # noqa: BLE001 - `answer` raises it
                self._problem = problem
            os.eventfd_write(self._done, 1)
