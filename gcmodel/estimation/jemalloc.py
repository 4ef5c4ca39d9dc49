"""jemalloc's estimator: whole numbers for each sample, and dumps that jeprof turns into sums.

Each sampled allocation adds its unbiased bytes and, in eighths, its unbiased count to its stack's
sums, and takes them away when it is freed. jeprof, which multiplies what it reads, must stay as
it is; so the numbers dumped are those that come out right when multiplied. (jemalloc,
PROFILING_INTERNALS.md, "Implementation realities"; `prof_data.c`.)

The bytes of a sample are unbiased to within half a byte. Its count is rounded to eighths, so it is
off by up to a sixteenth of an object: an object as large as the period counts 1.027 times.

Invariant: what jeprof shows for a stack differs from the stack's sums by rounding alone, by about
one part in twice the number of objects dumped. So a stack dumped with few objects of very different
sizes can be far off, and one whose sampled objects are all alike hardly is.
"""

from __future__ import annotations

import math

import attrs

from gcmodel.estimation.checks import check_at_least
from gcmodel.estimation.samples import Sample
from gcmodel.estimation.unbiased import Totals

EIGHTHS = 8


@attrs.frozen
class Dumped:
    """The two numbers of a dump for what is live, or for what was allocated: whole, 0 or more."""

    objects: int
    bytes: int


def round_half_up(value: float) -> int:
    """The whole number nearest to `value`, 0 or more; the larger one for a half, as in C."""
    whole = int(value)
    return whole + (value - whole >= 1 / 2)


def unbiased_bytes(usable_bytes: int, period_bytes: float) -> int:
    """The bytes that one sampled allocation of a size class stands for."""
    return round_half_up(usable_bytes / _chance(usable_bytes, period_bytes))


def unbiased_eighths(usable_bytes: int, period_bytes: float) -> int:
    """The eighths of objects that one sampled allocation of a size class stands for."""
    return round_half_up(EIGHTHS / _chance(usable_bytes, period_bytes))


def estimate(sample: Sample) -> Totals:
    """What the sample stands for, by its size class, `allocated_bytes`."""
    usable, period = sample.allocated_bytes, sample.period_bytes
    return Totals(unbiased_eighths(usable, period) / EIGHTHS, unbiased_bytes(usable, period))


def dumped(sums: Totals, period_bytes: float) -> Dumped:
    """What the dump must say, so that jeprof shows `sums`; zeros where there is nothing."""
    if sums.objects == 0 or sums.bytes == 0:
        return Dumped(0, 0)
    mean_bytes = sums.bytes / sums.objects
    sampled_bytes = sums.bytes * (1 - math.exp(-mean_bytes / period_bytes))
    return Dumped(round_half_up(sampled_bytes / mean_bytes), round_half_up(sampled_bytes))


def shown_by_jeprof(numbers: Dumped, period_bytes: float) -> Totals:
    """What jeprof makes of the two numbers; it cuts off the fraction when it prints."""
    if numbers.objects == 0:
        return Totals(0, numbers.bytes)
    ratio = numbers.bytes / numbers.objects / period_bytes
    factor = 1 / (1 - math.exp(-ratio))
    return Totals(numbers.objects * factor, numbers.bytes * factor)


def _chance(usable_bytes: int, period_bytes: float) -> float:
    check_at_least("usable_bytes", usable_bytes, 1)
    check_at_least("period_bytes", period_bytes, 1)
    return 1 - math.exp(-usable_bytes / period_bytes)
