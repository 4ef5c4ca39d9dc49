"""Makes text safe to print: foreign text, arguments of a shell, and numbers.

Names, paths, and the output of targets, traces and scripts may contain escape sequences of a
terminal, characters that reverse the text direction, surrogates, or a million characters.
Invariant: the result is one line, and each of its characters is visible.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

MESSAGE_MAX = 1000
PLAIN_SECONDS = 10.0
"""How often progress is printed if there is no terminal."""
LINE_MAX = 4096
"""The longest line; a path may be that long."""


def plain(text: str, characters_max: int = MESSAGE_MAX) -> str:
    r"""The text in one line, with invisible characters written as in `\x1b`.

    If it is too long, the middle is left out, because the advice is at the end of a message.
    """
    shown = cut(text, characters_max)
    if shown.isprintable():
        return shown
    visible = (each if each.isprintable() else ascii(each)[1:-1] for each in shown)
    return cut("".join(visible), characters_max)


def cut(text: str, characters_max: int = MESSAGE_MAX) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= characters_max:
        return text
    half = (characters_max - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def is_url(text: str) -> bool:
    """Whether a browser may open it: the address of a page, with no characters of markup."""
    return re.fullmatch(r"https?://[\w.~:/?#@!$&'()*+,;=%-]+", text, re.ASCII) is not None


def shell_words(arguments: Iterable[str]) -> str:
    r"""Arguments as a shell reads them, with invisible characters as in `$'\033'`."""
    return " ".join(map(shell_word, arguments))


def shell_word(argument: str) -> str:
    """One argument as a shell reads it."""
    if argument.isprintable():
        return shlex.quote(argument)
    return f"$'{''.join(map(_quoted, argument))}'"


def path_argument(path: Path) -> str:
    """A path as an argument of a command, which would take `-name` for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def _quoted(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def counted(number: int, noun: str) -> str:
    """A number of things: `1 action`, `1,000 actions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short_seconds(seconds: float) -> str:
    """A time in at most four characters, up to 41 days, in the units of `--time`."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= 1000 * size / 60:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"


def short(number: float) -> str:
    """A number in at most five characters."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 10 * size:
            return f"{number / size:.0f}{unit}"
    return f"{number:.0f}"
