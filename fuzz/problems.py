"""What is not a mismatch: input that nobody can use, and results that prove nothing."""


class BadInputError(Exception):
    """Something the user gave cannot be used. The message says what, where and how to mend it."""


class HarnessError(Exception):
    """The harness itself is broken: what it says of a target proves nothing."""
