"""The standard streams of a command: they survive closed pipes and full disks."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO


class _Descriptor(io.FileIO):
    """A file that discards all output after an error, so that the command continues.

    A reader that leaves, such as `head`, is not a problem. A full disk is.
    """

    problem: OSError | None = None

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer
        try:
            return super().write(data)
        except OSError as problem:
            if not isinstance(problem, BrokenPipeError):
                self.problem = problem
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            return super().write(data)


def prepare_streams() -> None:
    """Let commands continue if a write fails, or a character cannot be encoded."""
    _occupy_standard_descriptors()
    sys.stdout = _prepared(sys.stdout, 1)
    sys.stderr = _prepared(sys.stderr, 2)


def _occupy_standard_descriptors() -> None:
    """Open closed descriptors, so that no other file gets one of them.

    They are read-only, so that a write fails as on a closed descriptor.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # This is the lowest free descriptor.


def _prepared(stream: TextIO | None, descriptor: int) -> TextIO:
    if stream is not None:
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(descriptor, "w", closefd=False)),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="replace",  # Some terminals have no arrow.
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )


def lost_output() -> str | None:
    """Why standard output could not be written completely, if it could not."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    problem = raw.problem if isinstance(raw, _Descriptor) else None
    if problem is None:
        return None
    return "closed" if problem.errno == errno.EBADF else problem.strerror
