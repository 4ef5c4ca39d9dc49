"""Errors that are not mismatches, and what their messages suggest."""

from collections.abc import Iterable

NAME_MAX = 100
"""No name of this project has more characters; a wrong one may have a million."""


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
