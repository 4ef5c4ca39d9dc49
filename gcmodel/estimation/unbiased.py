"""Weighted samples: an allocation that is sampled with a chance of one tenth stands for ten.

Invariant: each sample is unbiased before it is added. The expectation of the sum over the samples
is then the sum over all allocations, for any chances above 0. (jemalloc, PROFILING_INTERNALS.md,
"An unbiased estimator of space consumption from (almost) arbitrary sampling strategies" and
"Aggregation must be done after unbiasing samples". With a chance per byte it is estimation approach
1 of Nasarre and Falk, Randomized Allocation Sampling.)
"""

import math
from collections.abc import Callable, Hashable, Iterable
from typing import Self, TypeVar

import attrs

from gcmodel.estimation.checks import check_at_least
from gcmodel.estimation.samples import Sample

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class Totals:
    """Estimated numbers of objects and of allocated bytes."""

    objects: float = 0
    bytes: float = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(self.objects + other.objects, self.bytes + other.bytes)


Chance = Callable[[Sample], float]
"""The probability that this allocation is sampled: above 0, up to 1."""
Estimator = Callable[[Sample], Totals]
"""What one sample stands for."""


def total(samples: Iterable[Sample], estimator: Estimator) -> Totals:
    """The sum of what the samples stand for."""
    return sum(map(estimator, samples), Totals())


def totals_by(
    samples: Iterable[Sample], key: Callable[[Sample], K], estimator: Estimator
) -> dict[K, Totals]:
    """The sums for each value of `key`, such as a sample's type, site or size."""
    sums: dict[K, Totals] = {}
    for sample in samples:
        of = key(sample)
        sums[of] = sums.get(of, Totals()) + estimator(sample)
    return sums


def by_chance(chance: Chance) -> Estimator:
    """The estimator that divides by each allocation's chance of being sampled."""

    def estimate(sample: Sample) -> Totals:
        divisor = _checked(chance(sample))
        return Totals(1 / divisor, sample.allocated_bytes / divisor)

    return estimate


def chance_per_byte(counted_bytes: int, period_bytes: float) -> float:
    """The probability that one or more of the bytes are hit: `1 - (1 - 1/period)^bytes`."""
    check_at_least("counted_bytes", counted_bytes, 0)
    check_at_least("period_bytes", period_bytes, 1)
    if period_bytes == 1:
        return float(counted_bytes > 0)
    return -math.expm1(counted_bytes * math.log1p(-1 / period_bytes))


def per_byte(sample: Sample) -> float:
    """The chance of a sample whose counted bytes are all hit with the same probability."""
    return chance_per_byte(sample.counted_bytes, sample.period_bytes)


def variance_bytes2(size_bytes: int, chance: float) -> float:
    """What one allocation adds to the variance of the estimated bytes: `size^2 (1 - c)/c`.

    Allocations must be sampled independently. With a chance c per byte these add up to `bytes
    (period - 1)` at most. (Nasarre and Falk.)
    """
    check_at_least("size_bytes", size_bytes, 0)
    return size_bytes**2 * (1 - _checked(chance)) / chance


def estimated_variance_bytes2(samples: Iterable[Sample], chance: Chance) -> float:
    """An unbiased estimate, from the samples alone, of the variance of the estimated bytes.

    Each sampled allocation adds its own variance, divided by its chance of being sampled.
    """
    return math.fsum(
        variance_bytes2(sample.allocated_bytes, chance(sample)) / chance(sample)
        for sample in samples
    )


def _checked(chance: float) -> float:
    if not 0 < chance <= 1:
        raise ValueError(f"the chance is {chance}; it must be above 0 and at most 1")
    return chance
