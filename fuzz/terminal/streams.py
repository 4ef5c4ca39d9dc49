"""The standard streams of a command, whoever reads them, and what is printed on them."""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fuzz.plain import LINE_MAX, plain
from fuzz.terminal.addresses import told

if TYPE_CHECKING:
    from rich.console import Console


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
        shown = plain(told(line), LINE_MAX)
        if self.columns is not None:
            shown = in_columns(shown, self.columns, indent)
        self.print_parts((shown, style))

    def print_command(self, name: str, words: Sequence[str], style: str = "") -> None:
        """A command to copy, of words as a shell reads them, which are never broken."""
        lines = [name]
        for word in map(told, words):
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
