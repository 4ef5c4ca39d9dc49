"""Errors that are not mismatches, what their messages suggest, and exceptions of user code."""

import importlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

NAME_MAX = 100
"""No name of this project has more characters; a wrong one may have a million."""
ERROR_MAX = 200
"""Characters of an exception that are kept."""
FRAMES_MAX = 6
"""Frames of a traceback that are shown, the innermost ones."""
_OWN = str(Path(__file__).parent) + os.sep
_IMPORT_SYSTEM = "<frozen importlib", importlib.__file__
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")


def did_you_mean(wanted: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known one that is most like it, if any is."""
    import difflib  # Few names are wrong.

    close = difflib.get_close_matches(wanted[:NAME_MAX], names, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


class BadInputError(Exception):
    """Something the user gave cannot be used. The message says what, where and how to mend it."""


class HarnessError(Exception):
    """The harness itself is broken: what it says of a target proves nothing."""

    what = "the harness"


class BrokenReferenceError(HarnessError):
    """The reference collector is broken: what is planted in it proves nothing of the oracles."""

    what = "the reference collector"


class InterruptedWorkError(Exception):
    """Somebody ended it before its end. The message says what is left of it."""


def summary_of(problem: BaseException) -> str:
    """The type and the message of an exception, in one line and the same in every run.

    Addresses in it, as in the default repr of an object, are left out.
    """
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
        each for each in traceback.extract_tb(problem.__traceback__) if _is_user(each.filename)
    ]
    lines = []
    for frame in stack[-FRAMES_MAX:]:
        lines.append(f'File "{_short(frame.filename)}", line {frame.lineno}, in {frame.name}')
        lines += [f"  {frame.line}"] if frame.line else []
    last = "".join(traceback.format_exception_only(problem))
    return *lines, *_ADDRESS.sub("0x…", last).rstrip().splitlines()


def noted(error: BadInputError, lines: tuple[str, ...]) -> BadInputError:
    """The error with a traceback of user code, if it has a frame, for those who print it."""
    if len(lines) > 1:
        error.add_note("\n".join(lines))
    return error


def _is_user(file: str) -> bool:
    return not file.startswith((_OWN, *_IMPORT_SYSTEM))


def _short(file: str) -> str:
    """The same from the current folder on, if it lies in it."""
    return file.removeprefix(str(Path.cwd()) + os.sep)
