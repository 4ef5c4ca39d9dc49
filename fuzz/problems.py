"""Errors that are not mismatches, suggestions for their messages, and exceptions of user code."""

import importlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

NAME_MAX = 100
"""Names of this project are shorter. A wrong one may have a million characters."""
ERROR_MAX = 200
"""How many characters of an exception are kept."""
FRAMES_MAX = 6
"""How many frames of a traceback are shown, the innermost ones."""
_OWN = str(Path(__file__).parent) + os.sep
_IMPORT_SYSTEM = "<frozen importlib", importlib.__file__
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")


def did_you_mean(wanted: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar name, if there is one."""
    import difflib  # Few names are wrong.

    close = difflib.get_close_matches(wanted[:NAME_MAX], names, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


class BadInputError(Exception):
    """Input of the user is unusable. The message says what, where, and how to fix it."""


def portable(problem: BadInputError) -> BadInputError:
    """The same problem, which any process can unpickle: a subclass may take other arguments."""
    same = BadInputError(str(problem))
    for note in notes_of(problem):
        same.add_note(note)
    return same


def notes_of(problem: BaseException) -> tuple[str, ...]:
    """What belongs to the message of an error, but takes more than its line."""
    return tuple(getattr(problem, "__notes__", ()))


class HarnessError(Exception):
    """gcfuzz itself is broken, so its reports prove nothing."""

    what = "the harness"


class BrokenReferenceError(HarnessError):
    """The reference collector is broken, so its planted bugs prove nothing about the oracles."""

    what = "the reference collector"


class InterruptedWorkError(Exception):
    """The user interrupted the work. The message says what is left of it."""


def summary_of(problem: BaseException) -> str:
    """Type and message of an exception in one line, the same in every run: without addresses."""
    try:
        message = " ".join(str(problem).split())
    except Exception:  # noqa: BLE001 - user code
        message = "its message cannot be shown"
    text = f"{type(problem).__name__}: {message}" if message else type(problem).__name__
    return _ADDRESS.sub("0x…", text)[:ERROR_MAX]


def traceback_of(problem: BaseException) -> tuple[str, ...]:
    """The last lines of a traceback: the frames of user code, and the exception."""
    import traceback  # Few targets raise.

    stack = [
        each
        for each in traceback.extract_tb(problem.__traceback__)
        if not each.filename.startswith((_OWN, *_IMPORT_SYSTEM))
    ]
    lines = []
    for frame in stack[-FRAMES_MAX:]:
        file = frame.filename.removeprefix(str(Path.cwd()) + os.sep)
        lines.append(f'File "{file}", line {frame.lineno}, in {frame.name}')
        lines += [f"  {frame.line}"] if frame.line else []
    last = "".join(traceback.format_exception_only(problem))
    return *lines, *_ADDRESS.sub("0x…", last).rstrip().splitlines()


def noted(error: BadInputError, lines: tuple[str, ...]) -> BadInputError:
    """The error with lines as a note: a traceback of user code, or all mistakes in a contract.

    A single line is in the message already.
    """
    if len(lines) > 1:
        error.add_note("\n".join(lines))
    return error
