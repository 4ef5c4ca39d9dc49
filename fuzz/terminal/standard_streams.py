"""The standard streams of a command, whoever reads them, and what is printed on them."""

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
    """Bytes to a place that may stop taking them: then the rest of them goes nowhere.

    A reader that leaves, as `head` does, is no problem. Anything else is: a full disk, for example.
    """

    problem: OSError | None = None

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - whatever has bytes
        try:
            return super().write(data)
        except OSError as problem:
            if not isinstance(problem, BrokenPipeError):
                self.problem = problem
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            return super().write(data)


def prepare_streams() -> None:
    """Let no failed write and no letter end a command: it goes on without that stream."""
    _occupy_standard_descriptors()
    sys.stdout = _prepared(sys.stdout, 1)
    sys.stderr = _prepared(sys.stderr, 2)


def _occupy_standard_descriptors() -> None:
    """Open those that are closed, or a file of the session would get the descriptor.

    They are open for reading only, so that a write fails as it does on a closed one.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # The system takes the lowest free one.


def _prepared(stream: TextIO | None, descriptor: int) -> TextIO:
    """A stream of that descriptor; Python has none for one that was closed at the start."""
    if stream is not None:
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(descriptor, "w", closefd=False)),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="replace",  # Not every terminal has an arrow.
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )


def lost_output() -> str | None:
    """Why a part of standard output could not be written, if any could not."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    problem = raw.problem if isinstance(raw, _Descriptor) else None
    if problem is None:
        return None
    return "closed" if problem.errno == errno.EBADF else problem.strerror


def in_columns(line: str, columns: int, indent: int = 2) -> str:
    """The same in several lines, broken between words: a name or a path can be copied."""
    return textwrap.fill(
        line,
        columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


class Screen:
    """Standard output, a line at a time. Every string is shown as it is, in one line.

    Rich, which takes longer to import than a trace to replay, is there for what is drawn only: on a
    terminal, and where somebody asks for `console`.
    """

    def print(self, line: str, style: str = "", indent: int = 2) -> None:
        """A line; what cannot be seen in it is written out, and what is too long is cut.

        In a terminal it goes on below, so many columns further in, and breaks between words.
        """
        shown = plain(with_addresses(line), LINE_MAX)
        if self.columns is not None:
            shown = in_columns(shown, self.columns, indent)
        self.print_parts((shown, style))

    def print_command(self, name: str, words: Sequence[str], style: str = "") -> None:
        """A command to copy, of words as a shell reads them, which are never broken."""
        lines = [name]
        for word in map(with_addresses, words):
            if self.columns is not None and len(lines[-1]) + len(word) + 3 > self.columns:
                lines[-1] += " \\"
                lines.append("   ")
            lines[-1] += f" {word}"
        text = "\n".join(lines)
        self.print_parts((text[: len(name)], ""), (text[len(name) :], style))

    @cached_property
    def columns(self) -> int | None:
        """How wide the terminal is, if it is one."""
        return self.console.width if sys.stdout.isatty() else None

    def print_parts(self, *parts: tuple[str, str]) -> None:
        """A line of words of this program's own, whole, each part with its style."""
        if self.is_drawn_on:
            from rich.text import Text

            self.console.print(Text.assemble(*parts), soft_wrap=True)
        else:
            sys.stdout.write("".join(text for text, _ in parts) + "\n")
            sys.stdout.flush()

    @cached_property
    def is_drawn_on(self) -> bool:
        """Whether it may be a terminal, by what rich goes by."""
        return sys.stdout.isatty() or not os.environ.keys().isdisjoint(FORCING)

    @cached_property
    def console(self) -> Console:
        """The same as rich sees it."""
        from fuzz.terminal.tables import PlainConsole

        return PlainConsole()


FORCING = {"FORCE_COLOR", "TTY_COMPATIBLE"}
"""With one of these in the environment, what is no terminal may be taken for one."""
