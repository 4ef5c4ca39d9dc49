"""jemalloc's estimator: whole numbers for each sample, and dumps that jeprof multiplies.

Each sampled allocation adds its unbiased bytes, and its unbiased count in eighths, to its stack's
sums. Freeing it subtracts them. jeprof multiplies the numbers of a dump and must stay as it is, so
a dump has those numbers that are right after that. (jemalloc, PROFILING_INTERNALS.md,
"Implementation realities"; `prof_data.c`.)

The bytes of a sample are unbiased to within half a byte. Its count is rounded to eighths, so it is
wrong by up to a sixteenth of an object: an object as large as the period counts 1.027 times.

Invariant: what jeprof shows for a stack differs from the stack's sums only by rounding, by about
one part in twice the number of dumped objects. That is much for a stack of few objects of very
different sizes, and little if all are alike.
"""

import math

import attrs

from gcmodel.estimation.checks import check_at_least
from gcmodel.estimation.samples import Sample
from gcmodel.estimation.unbiased import Totals

EIGHTHS = 8


@attrs.frozen
class Dumped:
    """The two whole numbers of a dump, for living objects or for all allocated ones."""

    objects: int
    bytes: int


def round_half_up(value: float) -> int:
    """Round `value`, 0 or more, to the nearest whole number, and halves up, as in C."""
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
    """The numbers in the dump for which jeprof shows `sums`."""
    if sums.objects == 0 or sums.bytes == 0:
        return Dumped(0, 0)
    mean_bytes = sums.bytes / sums.objects
    sampled_bytes = sums.bytes * (1 - math.exp(-mean_bytes / period_bytes))
    return Dumped(round_half_up(sampled_bytes / mean_bytes), round_half_up(sampled_bytes))


def shown_by_jeprof(numbers: Dumped, period_bytes: float) -> Totals:
    """What jeprof computes from the two numbers. It prints them without their fraction."""
    if numbers.objects == 0:
        return Totals(0, numbers.bytes)
    ratio = numbers.bytes / numbers.objects / period_bytes
    factor = 1 / (1 - math.exp(-ratio))
    return Totals(numbers.objects * factor, numbers.bytes * factor)


def _chance(usable_bytes: int, period_bytes: float) -> float:
    check_at_least("usable_bytes", usable_bytes, 1)
    check_at_least("period_bytes", period_bytes, 1)
    return 1 - math.exp(-usable_bytes / period_bytes)
