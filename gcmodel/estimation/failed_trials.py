"""Counting failed trials: every byte is a trial, until one succeeds.

In a sample, the counted bytes up to `offset_bytes` failed and the next one succeeded. The bytes
behind it had no trial. So s samples stand for the `s (period - 1)` failed trials that are expected
before s successes, and for the bytes from each hit to the end of its object. (Nasarre and Falk,
Randomized Allocation Sampling, estimation approach 2.) TCMalloc's sampling weight is the same
figure: T for the hit byte, and the bytes behind it (TCMalloc, How sampling in TCMalloc works,
appendix).

Invariant: for any fixed allocations the expectation is exactly their bytes.
"""

from gcmodel.estimation.checks import check_at_least
from gcmodel.estimation.samples import Sample
from gcmodel.estimation.unbiased import Totals, chance_per_byte


def remaining_bytes(sample: Sample) -> int:
    """The hit byte and the counted bytes behind it, `u` in the document."""
    if sample.offset_bytes is None:
        raise ValueError("the sample has no offset_bytes; use an estimator by chance")
    return sample.counted_bytes - sample.offset_bytes


def represented_bytes(sample: Sample) -> float:
    """The counted bytes that the sample stands for: `period - 1 + u`."""
    return sample.period_bytes - 1 + remaining_bytes(sample)


def estimate(sample: Sample) -> Totals:
    """What the sample stands for, as objects and as allocated bytes."""
    objects = represented_bytes(sample) / sample.counted_bytes
    return Totals(objects, objects * sample.allocated_bytes)


def variance_bytes2(counted_bytes: int, period_bytes: float) -> float:
    """What one allocation adds to the variance of the estimated counted bytes.

    Each trial has the variance q/p and there are `(1 - q^bytes)/p` trials, so it is `q (1 -
    q^bytes)/p^2`, with p = 1/period and q = 1 - p: `q/p` for a single byte and at most `q/p^2`.
    """
    check_at_least("period_bytes", period_bytes, 1)
    return (period_bytes - 1) * period_bytes * chance_per_byte(counted_bytes, period_bytes)
