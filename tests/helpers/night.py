"""How long a session without a failure is in a test, and its seed: in CI, and in the night.

With a fixed seed such a session repeats the same actions until draws change, so CI plays only a
part of them. The night (`.ci/night`) plays all of them, and with a fresh seed: it sets
GCFUZZ_NIGHT_SEED and prints it. Sessions that find a planted mistake are the same in both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

NIGHT_SEED = os.environ.get("GCFUZZ_NIGHT_SEED")
IS_NIGHT = NIGHT_SEED is not None
PART_IN_CI = 5
"""CI plays one fifth."""


def part_of(count: int) -> int:
    """The number of actions, or of what they must reach: all at night, a fifth in CI."""
    return count if IS_NIGHT else count // PART_IN_CI


def fresh(seed: str) -> str:
    """The seed in CI; at night one that no earlier night had."""
    return seed if NIGHT_SEED is None else str(int(NIGHT_SEED) + int(seed))


ONE_OF_EACH_HOST = {bug.host: name for name, bug in reversed(KNOWN_BUGS.items())}.values()


def marks_of(bug: str) -> list[pytest.MarkDecorator]:
    """Leaves a known bug to the night, unless it is the one of its host that CI takes."""
    return [] if bug in ONE_OF_EACH_HOST else [pytest.mark.night]


def rest_at_night(values: Iterable[Any]) -> list[Any]:
    """Parameters of which CI takes the first one, and the night all."""
    first, *rest = values
    at_night = [pytest.param(*_as_tuple(value), marks=pytest.mark.night) for value in rest]
    return [first, *at_night]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    """The values of one test."""
    return value if isinstance(value, tuple) else (value,)
