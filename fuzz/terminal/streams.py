"""The standard streams of a command, whoever reads them."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO


class _Descriptor(io.FileIO):
    """Bytes to a reader who may leave, as `head` does: then the rest of them goes nowhere."""

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - whatever has bytes
        try:
            return super().write(data)
        except BrokenPipeError:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            return super().write(data)


def prepare_streams() -> None:
    """Let nothing that is printed change how a command ends: no reader, and no letter."""
    sys.stdout = _prepared(sys.stdout)
    sys.stderr = _prepared(sys.stderr)


def _prepared(stream: TextIO) -> TextIO:
    """A stream of the same descriptor, or the same where there is none."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="replace",  # Not every terminal has an arrow.
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
