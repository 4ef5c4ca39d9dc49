"""What commands print on standard output: lines of visible characters, and rich's tables."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from fuzz.plain import LINE_MAX, plain
from fuzz.terminal.addresses import with_addresses

if TYPE_CHECKING:
    from rich.console import Console


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
        from fuzz.terminal.plain_console import PlainConsole

        return PlainConsole()


FORCING = {"FORCE_COLOR", "TTY_COMPATIBLE"}
"""With one of these in the environment, rich may take a file for a terminal."""
