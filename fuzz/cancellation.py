"""Cancellation: ends long work in the middle of a trace or of a wait.

Work that is done in small steps calls `checkpoint` between them: a run between two actions, a
conversation while it waits for an answer. The caller bounds the work with `cancelled_when`.
Invariant: work is cancelled at checkpoints only, so its results so far are consistent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(BaseException):
    """The work has to stop. Neither Hypothesis nor a target catches it: it is not an Exception."""


_checks: ContextVar[tuple[Callable[[], None], ...]] = ContextVar("checks", default=())


def checkpoint() -> None:
    """A place where the work may stop. Raises Cancelled if it must."""
    for check in _checks.get():
        check()


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` at each checkpoint, too. It may raise Cancelled."""
    token = _checks.set((*_checks.get(), check))
    try:
        yield
    finally:
        _checks.reset(token)


@contextmanager
def cancelled_when(is_over: Callable[[], bool]) -> Iterator[None]:
    """Cancel the work at the first checkpoint at which `is_over` returns true."""

    def check() -> None:
        if is_over():
            raise Cancelled

    with checked_by(check):
        yield


def after(seconds: float) -> Callable[[], bool]:
    """A function that returns whether that many seconds have passed since this call."""
    moment = time.monotonic() + seconds
    return lambda: time.monotonic() > moment
