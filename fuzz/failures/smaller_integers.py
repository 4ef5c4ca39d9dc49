"""Simpler values of a setting or of an action's field, for a reduction."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fuzz.protocol.actions import BOUNDS, Action, SlotOf

LONG_STEP = 64
"""The longest step by which an integer is lowered, if half of it is too little."""


def lower_than(value: int) -> list[int]:
    """Simpler integers, the simplest first, with multiples of a word, since periods are."""
    if value < 0:
        return [0]
    halves = value // 2, value // 2 & -8
    lower = (0, 1, 2, 8, 16, 64, *halves, value - LONG_STEP, value - 8, value - 1)
    return sorted({each for each in lower if 0 <= each < value})


def simpler_values(action: Action, field: str) -> Sequence[int | None]:
    """Simpler values of the action's field, the simplest first."""
    value = getattr(action, field)
    if value is None or value is False or isinstance(value, tuple):
        return []
    if value is True:
        return [False]
    bound = BOUNDS[type(action)].get(field)
    may_be_null = isinstance(bound, SlotOf) and bound.or_null
    may_be_null |= attrs.fields_dict(type(action))[field].default is None
    return [None, *lower_than(value)] if may_be_null else lower_than(value)
