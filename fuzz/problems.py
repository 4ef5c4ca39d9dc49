"""What is not a mismatch: what nobody can use, what proves nothing, and what is not done."""


class BadInputError(Exception):
    """Something the user gave cannot be used. The message says what, where and how to mend it."""


class HarnessError(Exception):
    """The harness itself is broken: what it says of a target proves nothing."""


class InterruptedWorkError(Exception):
    """Somebody ended it before its end. The message says what is left of it."""
