"""Errors that are not mismatches."""


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
