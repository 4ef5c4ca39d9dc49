"""The type of the fixture that runs a command of gcfuzz in this process."""

from collections.abc import Callable
from typing import NamedTuple


class Printed(NamedTuple):
    """What a command printed."""

    out: str
    err: str


Complaint = Callable[..., str]
"""Runs a command that is bad input; returns its one line on stderr."""
Gcfuzz = Callable[..., Printed]
"""Runs a command that must exit with the code of the first argument."""
