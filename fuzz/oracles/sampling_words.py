"""Why an action takes the expected samples, as a sum that a reader can check.

The sampling oracle builds this text only once a target has disagreed with it. Invariant: the words
follow from the rule, from the thread's bytes before the action and from the expected samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fuzz.oracles.clock import UNTOLD, ExpectedSample, Untold
from fuzz.protocol.contract import SamplingRule

OFFSETS_MAX = 4
"""At most this many expected samples are listed by their byte."""


@attrs.frozen
class Sum:
    """What decides about the samples of one allocation."""

    until_bytes: int | None
    """What was left until the next sample; None if the contract leaves that open."""
    counted: str
    """What counts, in words: "the string takes 64"."""
    counted_bytes: int
    hits: Sequence[ExpectedSample]
    room_bytes: int | None = None
    """What was left of the thread's buffer or allocation context, if it has such."""
    has_own_distance: bool = False
    """Whether a distance is drawn for it where that ends."""
    has_more: bool = False
    """Whether more than the object counts, so that the hits are not bytes of it."""


def sum_in_words(rule: SamplingRule, period_bytes: int, its: Sum) -> str:
    """The bytes before, the bytes of the allocation, the period, and the samples of that."""
    is_drawn = rule.distances != "period"
    period = f"the period is {period_bytes}" + (" on average" if is_drawn else "")
    left = "a distance was drawn meanwhile"
    if its.until_bytes is not None:
        left = _left(its.until_bytes)
    if its.room_bytes is not None:
        left += f" and {its.room_bytes} of its buffer"
    return f"{left}, {its.counted}, {period}: {_expected(rule, period_bytes, its)}"


def _left(until_bytes: int) -> str:
    if until_bytes < 0:
        return f"the next sample was {-until_bytes} bytes overdue"
    were = "byte was" if until_bytes == 1 else "bytes were"
    return f"{until_bytes} {were} left until the next sample"


def _expected(rule: SamplingRule, period_bytes: int, its: Sum) -> str:
    samples = len(its.hits)
    if not samples:
        return f"no sample expected{_why_none(rule, its)}"
    words = "1 sample expected" if samples == 1 else f"{samples} samples expected"
    if period_bytes == rule.certain_period_bytes:
        return f"{words}, since this period samples each allocation"
    if rule.new_period == "samples" and not _is_reached(rule, its):
        return f"{words}, since the period is a new one"
    return words + ("" if its.has_more else _where(rule, period_bytes, its))


def _is_reached(rule: SamplingRule, its: Sum) -> bool:
    left_bytes = its.until_bytes or 0
    return its.counted_bytes >= left_bytes + (rule.crosses == "beyond")


def _why_none(rule: SamplingRule, its: Sum) -> str:
    if 0 < its.counted_bytes == rule.unsampled_bytes:
        return ", since no block of this size is sampled"
    if its.counted_bytes == its.until_bytes and rule.crosses == "beyond":
        return ", since the bytes must exceed those that were left"
    return ""


def _where(rule: SamplingRule, period_bytes: int, its: Sum) -> str:
    """At which bytes of the allocation, from 0, if that is known."""
    if isinstance(its.hits, Untold) and its.until_bytes is not None:
        first = its.until_bytes - (rule.crosses == "at")
        step = "byte" if period_bytes == 1 else f"{period_bytes} bytes"
        return f", at byte {first}" + (f" and every {step} after it" if len(its.hits) > 1 else "")
    if UNTOLD in its.hits or len(its.hits) > OFFSETS_MAX:
        return ""
    *most, last = (hit.offset for hit in its.hits)
    if last < 0:
        return ""  # It was due before.
    if its.has_own_distance:
        drawn_bytes = last - (its.room_bytes or 0)
        return f", at byte {last}, where a new distance of {drawn_bytes} ends"
    return f", at {'bytes ' + ', '.join(map(str, most)) + ' and' if most else 'byte'} {last}"
