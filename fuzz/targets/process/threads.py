"""Threads of a target's own process, which take turns as the mutator's do, or run at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class Threads:
    """Some threads; the first is the one that makes the others.

    To hand a call over costs as much as all the rest.
    """

    def __init__(self) -> None:
        self._others: list[ThreadPoolExecutor] = []

    def run(self, thread: int, work: Callable[[], Result]) -> Result:
        """What comes of some work in a thread, which is begun if it is new."""
        if thread == 0:
            return work()
        while len(self._others) < thread:
            self._others.append(ThreadPoolExecutor(max_workers=1))
        return self._others[thread - 1].submit(work).result()

    def end(self, thread: int) -> None:
        """End a thread that is not the first; what it is to do next, a new one does."""
        self._others[thread - 1].shutdown()
        self._others[thread - 1] = ThreadPoolExecutor(max_workers=1)

    def run_at_once(self, works: Sequence[Callable[[], Result]]) -> list[Result]:
        """What comes of some work in each of the threads, which are begun, all at the same time.

        They do what Python's lock is not held for.
        """
        others = [
            thread.submit(work) for thread, work in zip(self._others, works[1:], strict=False)
        ]
        return [works[0](), *(other.result() for other in others)]
