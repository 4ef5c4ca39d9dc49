"""Text that is fit to be shown: foreign text, which this program did not write, and numbers.

Names, paths, and whatever a target, a trace or a script says may hold anything: sequences that a
terminal obeys, characters that turn the direction of those after them, halves of a character, a
million letters. Invariant: what is returned is one line, and each character of it can be seen.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable

MESSAGE_MAX = 1000
PLAIN_SECONDS = 10.0
"""How often progress is printed where there is no terminal to redraw a line in."""
LINE_MAX = 4096
"""No message is longer, and no line that holds a path, which may itself be as long."""


def plain(text: str, characters_max: int = MESSAGE_MAX) -> str:
    r"""The same in one line, where what cannot be seen is written out, as in `\x1b`.

    The middle of what is longer than `characters_max` is left out: how to mend something is said at
    the end.
    """
    shown = cut(text, characters_max)
    if shown.isprintable():
        return shown
    return cut("".join(map(_seen, shown)), characters_max)


def cut(text: str, characters_max: int = MESSAGE_MAX) -> str:
    """The beginning and the end of what is longer than `characters_max`."""
    if len(text) <= characters_max:
        return text
    half = (characters_max - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def _seen(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def shell_words(words: Iterable[str]) -> str:
    r"""Words of a command line, whole, as a shell reads them; what cannot be seen as `$'\033'`."""
    return " ".join(map(shell_word, words))


def shell_word(word: str) -> str:
    """One of them."""
    return shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_quoted, word))}'"


def _quoted(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def counted(number: int, noun: str) -> str:
    """So many of something, in words."""
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
