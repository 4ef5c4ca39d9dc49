"""What samples stand for, and between which bounds: for whatever a person reads as a figure.

With random distances every byte is hit with the same chance, so what a sample adds to the variance
of a sum follows from its size, and is nothing for an object that was sampled for certain. The
bounds are those of Fay and Feuer (Confidence intervals for directly standardized rates, Statistics
in Medicine 16, 1997) for weighted sums of rare events: quantiles of a gamma distribution with the
sum's mean and variance, above it with one event more, of the largest variance there is.

Invariant: for small objects, which all weigh a period, they are Garwood's, which hold at least as
often as they promise. Quantiles are Wilson and Hilferty's, so nothing needs scipy.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from statistics import NormalDist
from typing import TypeVar

import attrs

from gcmodel.estimation.checks import check_open_unit
from gcmodel.estimation.unbiased import chance_per_byte
from gcmodel.profiling.profile import Profile, ProfileSample

CONFIDENCE = 0.95

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class Bounds:
    """From `low_bytes` to `high_bytes`, with the confidence asked for."""

    low_bytes: int
    high_bytes: int


@attrs.frozen
class Estimate:
    """Bytes, with no bounds if distances are fixed: what these hit is no matter of chance."""

    bytes: int
    bounds: Bounds | None

    @property
    def is_not_zero(self) -> bool:
        """Whether zero lies outside of the bounds; without any, whether it is not these bytes."""
        bounds = self.bounds or Bounds(self.bytes, self.bytes)
        return not bounds.low_bytes <= 0 <= bounds.high_bytes

    def minus(self, before: Estimate) -> Estimate:
        """The difference, with bounds at as many deviations as those of both, in squares.

        (Zou and Donner, Construction of confidence limits about effect measures, Statistics in
        Medicine 27, 2008.)
        """
        difference = self.bytes - before.bytes
        if self.bounds is None or before.bounds is None:
            return Estimate(difference, None)
        own, other = self.bounds, before.bounds
        low = difference - math.hypot(self.bytes - own.low_bytes, other.high_bytes - before.bytes)
        high = difference + math.hypot(own.high_bytes - self.bytes, before.bytes - other.low_bytes)
        return Estimate(difference, Bounds(math.floor(low), math.ceil(high)))


def estimates(
    profile: Profile,
    keyed: Iterable[tuple[K, ProfileSample]],
    confidence: float = CONFIDENCE,
    keys: Iterable[K] = (),
) -> dict[K, Estimate]:
    """What the profile's samples of each key stand for, the largest first.

    Those of `keys` are among them, sampled or not. Raises ValueError for a confidence outside 0
    to 1.
    """
    check_open_unit("confidence", confidence)
    period_bytes = max(
        (each.period_bytes for each in profile.samples), default=profile.header.period_bytes
    )
    sums = Counter(dict.fromkeys(keys, 0))
    variances: defaultdict[K, float] = defaultdict(float)
    for of, sample in keyed:
        sums[of] += sample.weight_bytes
        missed = 1 - chance_per_byte(sample.counted_bytes, sample.period_bytes)
        variances[of] += sample.weight_bytes**2 * missed
    deviations = NormalDist().inv_cdf((1 + confidence) / 2)
    return {
        of: Estimate(
            total,
            _bounds(total, variances[of], period_bytes, deviations)
            if profile.header.is_random
            else None,
        )
        for of, total in sums.most_common()
    }


def peak_estimate(profile: Profile) -> Estimate:
    """What was live at most, at the moment for which the samples tell most.

    The moment is chosen, so the lower bound holds for all of which one could have been: what is
    live becomes less in collections alone. Where the true peak is no sample chooses, so the upper
    bound is as ever.
    """
    of_peak = [((), sample) for sample in profile.live(profile.peak_us())]
    moments = len(profile.minor_collections) + 1
    low, high = (
        estimates(profile, of_peak, each, [()])[()]
        for each in (1 - (1 - CONFIDENCE) / moments, CONFIDENCE)
    )
    if low.bounds is None or high.bounds is None:
        return high
    return Estimate(high.bytes, Bounds(low.bounds.low_bytes, high.bounds.high_bytes))


def _bounds(total: int, variance: float, period_bytes: int, deviations: float) -> Bounds:
    low = _gamma_quantile(total, variance, -deviations)
    high = _gamma_quantile(total + period_bytes, variance + period_bytes**2, deviations)
    return Bounds(math.floor(low), math.ceil(high))


def _gamma_quantile(mean: float, variance: float, deviations: float) -> float:
    """Of the gamma distribution with that mean and variance, whose cube root is nearly normal."""
    if variance == 0:
        return mean
    ninth = variance / mean**2 / 9
    return float(mean * max(0, 1 - ninth + deviations * math.sqrt(ninth)) ** 3)
