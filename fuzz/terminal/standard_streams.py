"""The standard streams of a command: they survive closed pipes and full disks."""

from __future__ import annotations

import errno
import io
import os
import sys
import textwrap
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fuzz.plain import LINE_MAX, plain
from fuzz.terminal.addresses import with_addresses

if TYPE_CHECKING:
    from rich.console import Console


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


def in_columns(line: str, columns: int, indent: int = 2) -> str:
    """The line, wrapped between words, so that names and paths stay whole."""
    return textwrap.fill(
        line,
        columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


class Screen:
    """Standard output, a line at a time. Strings have no markup, and are shown in one line.

    Rich is imported for a terminal only, because its import takes longer than a replay.
    """

    def print(self, line: str, style: str = "", indent: int = 2) -> None:
        """Print a line of visible characters. A terminal wraps it, indented by `indent` columns."""
        shown = plain(with_addresses(line), LINE_MAX)
        if self.columns is not None:
            shown = in_columns(shown, self.columns, indent)
        self.print_parts((shown, style))

    def print_command(self, label: str, arguments: Sequence[str], style: str = "") -> None:
        """Print a command to copy. Its arguments, quoted for a shell, are never broken."""
        lines = [label]
        for each in map(with_addresses, arguments):
            if self.columns is not None and len(lines[-1]) + len(each) + 3 > self.columns:
                lines[-1] += " \\"
                lines.append("   ")
            lines[-1] += f" {each}"
        text = "\n".join(lines)
        self.print_parts((text[: len(label)], ""), (text[len(label) :], style))

    @cached_property
    def columns(self) -> int | None:
        """The width of the terminal, if it is one."""
        return self.console.width if sys.stdout.isatty() else None

    def print_parts(self, *parts: tuple[str, str]) -> None:
        """Print a line of gcfuzz's own text, each part with its style."""
        if self.is_drawn_on:
            from rich.text import Text

            self.console.print(Text.assemble(*parts), soft_wrap=True)
        else:
            sys.stdout.write("".join(text for text, _ in parts) + "\n")
            sys.stdout.flush()

    @cached_property
    def is_drawn_on(self) -> bool:
        """Whether rich may take standard output for a terminal."""
        return sys.stdout.isatty() or not os.environ.keys().isdisjoint(FORCING)

    @cached_property
    def console(self) -> Console:
        """Standard output for rich."""
        from fuzz.terminal.tables import PlainConsole

        return PlainConsole()


FORCING = {"FORCE_COLOR", "TTY_COMPATIBLE"}
"""With one of these in the environment, rich may take a file for a terminal."""
