"""Why an action takes the expected samples, as a sum that a reader can check."""

from __future__ import annotations

from fuzz.oracles.counting.expected import Alike, Sum, is_open
from fuzz.protocol.contract import SamplingRule

OFFSETS_MAX = 4
"""At most this many expected samples are listed by their byte."""
WEIGHTS = {
    "passed": "the period of the distance, and the bytes beyond the one that was drawn",
    "since": "all bytes that count since the last sample",
    "whole_objects": "the bytes of as many whole objects as make one sample",
}
"""What a sample stands for."""


def describe_sum(rule: SamplingRule, its: Sum) -> str:
    """The bytes before, the bytes of the allocation, the period, and the resulting samples."""
    is_drawn = rule.distances != "period"
    period = f"the period is {its.period_bytes}" + (" on average" if is_drawn else "")
    left = "a distance was drawn meanwhile"
    if its.until_bytes is not None:
        left = _left(its.until_bytes)
    if its.free_bytes is not None:
        left += f" and {its.free_bytes} of its buffer"
    return f"{left}, {its.counted}, {period}: {_expected(rule, its)}"


def _left(until_bytes: int) -> str:
    if until_bytes < 0:
        return f"the next sample was {-until_bytes} bytes overdue"
    were = "byte was" if until_bytes == 1 else "bytes were"
    return f"{until_bytes} {were} left until the next sample"


def _expected(rule: SamplingRule, its: Sum) -> str:
    count = {0: "no sample", 1: "1 sample"}.get(len(its.hits), f"{len(its.hits)} samples")
    text = f"{count} expected"
    if its.reason:
        return f"{text}, since {its.reason}"
    if its.hits:
        return text + ("" if its.has_more else _where(rule, its))
    if its.counted_bytes == its.until_bytes and rule.crosses == "beyond":
        return f"{text}, since the bytes must exceed those that were left"
    return text


def _where(rule: SamplingRule, its: Sum) -> str:
    """The sampled bytes of the allocation, from 0, if they are known."""
    if isinstance(its.hits, Alike) and its.until_bytes is not None:
        first = its.until_bytes - (rule.crosses == "at")
        if first < 0:
            return ""  # It was due before.
        step = "byte" if its.period_bytes == 1 else f"{its.period_bytes} bytes"
        return f", at byte {first}" + (f" and every {step} after it" if len(its.hits) > 1 else "")
    if is_open(its.hits) or len(its.hits) > OFFSETS_MAX:
        return ""
    *most, last = (hit.offset for hit in its.hits)
    if last < 0:
        return ""  # It was due before.
    if its.has_own_distance:
        drawn_bytes = last - (its.free_bytes or 0)
        return f", at byte {last}, where a new distance of {drawn_bytes} ends"
    return f", at {'bytes ' + ', '.join(map(str, most)) + ' and' if most else 'byte'} {last}"
