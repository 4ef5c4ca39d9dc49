"""Allocations whose samples are known only later, as runtimes report these with their times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from fuzz.protocol.observation import Observation


class TimedAllocation(NamedTuple):
    """An allocation whose samples are not known yet."""

    before: int
    after: int
    """The runtime's time before it, and after it."""
    made: tuple[object, ...]
    """What its samples report beside their times: at least the thread."""
    observation: Observation


def allocation_of(
    allocations: Sequence[TimedAllocation], time: int, made: tuple[object, ...]
) -> TimedAllocation | None:
    """The allocation that a sample is of, or None.

    The time decides: addresses are used again, and objects of one class look alike.
    """
    after = bisect_right(allocations, time, key=lambda each: each.before)
    found = allocations[after - 1] if after else None
    return found if found and time <= found.after and made == found.made else None
