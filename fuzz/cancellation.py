"""Cancellation: how work that takes long is told to stop, in the middle of a trace or of a wait.

Whoever works in small steps calls `checkpoint` between two of them: a run between two actions, a
conversation while it waits for an answer. Whoever bounds that work says with `cancelled_when` when
it is over. Invariant: nothing is cancelled but at a checkpoint, so that what was done so far is
whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(BaseException):
    """The work at hand is to stop.

    It is no Exception: neither Hypothesis nor a target takes it for something that went wrong.
    """


_checks: ContextVar[tuple[Callable[[], None], ...]] = ContextVar("checks", default=())


def checkpoint() -> None:
    """A place where the work may stop. Raises Cancelled if it must."""
    for check in _checks.get():
        check()


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """While this lasts, `check` is called at each checkpoint too, and may raise Cancelled."""
    token = _checks.set((*_checks.get(), check))
    try:
        yield
    finally:
        _checks.reset(token)


@contextmanager
def cancelled_when(is_over: Callable[[], bool]) -> Iterator[None]:
    """What is done in here is cancelled as soon as `is_over` says so at a checkpoint."""

    def check() -> None:
        if is_over():
            raise Cancelled

    with checked_by(check):
        yield


def after(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds have passed since this was called."""
    moment = time.monotonic() + seconds
    return lambda: time.monotonic() > moment
