"""What is not a mismatch: what nobody can use, what proves nothing, and what is not done."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class BadInputError(Exception):
    """Something the user gave cannot be used. The message says what, where and how to mend it."""


class HarnessError(Exception):
    """The harness itself is broken: what it says of a target proves nothing."""


class InterruptedWorkError(Exception):
    """Somebody ended it before its end. The message says what is left of it."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What cannot be read from `path` is bad input."""
    try:
        yield
    except OSError as problem:
        raise BadInputError(f"{path}: cannot be read: {problem.strerror}") from problem


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What cannot be written to `path` is bad input."""
    try:
        yield
    except OSError as problem:
        raise BadInputError(f"{path}: cannot be written: {problem.strerror}") from problem
