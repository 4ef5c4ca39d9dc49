"""Estimates of bytes from a profile's samples, with confidence bounds.

With random distances every byte is hit with the same chance. So the size of a sample determines
what it adds to the variance of a sum: nothing for an object that was certain to be sampled. The
bounds are those of Fay and Feuer for weighted sums of rare events (*Confidence intervals for
directly standardized rates*, Statistics in Medicine 16, 1997). They are quantiles of the gamma
distribution with the sum's mean and variance. The upper one includes one more event of the largest
variance.

Invariant: for small objects, which all weigh a period, the bounds are Garwood's, which hold at
least as often as promised. Quantiles are Wilson and Hilferty's, so this does not need scipy.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from statistics import NormalDist
from typing import Self, TypeVar

import attrs

from gcmodel.estimation.checks import check_open_unit
from gcmodel.estimation.unbiased import chance_per_byte
from gcmodel.profiling.profile import Profile, ProfileSample

CONFIDENCE = 0.95

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class Bounds:
    """From `low_bytes` to `high_bytes`, with the requested confidence."""

    low_bytes: int
    high_bytes: int


@attrs.frozen
class Estimate:
    """Estimated bytes. There are no bounds for fixed distances, where hits are not random."""

    bytes: int
    bounds: Bounds | None

    @property
    def is_not_zero(self) -> bool:
        """Whether zero is outside the bounds, or there are none and it is not the estimate."""
        bounds = self.bounds or Bounds(self.bytes, self.bytes)
        return not bounds.low_bytes <= 0 <= bounds.high_bytes

    def minus(self, before: Self) -> Self:
        """The difference; the squares of both deviations add up.

        (Zou and Donner, Construction of confidence limits about effect measures, Statistics in
        Medicine 27, 2008.)
        """
        difference = self.bytes - before.bytes
        if self.bounds is None or before.bounds is None:
            return type(self)(difference, None)
        own, other = self.bounds, before.bounds
        low = difference - math.hypot(self.bytes - own.low_bytes, other.high_bytes - before.bytes)
        high = difference + math.hypot(own.high_bytes - self.bytes, before.bytes - other.low_bytes)
        return type(self)(difference, Bounds(math.floor(low), math.ceil(high)))


def estimates(
    profile: Profile,
    keyed: Iterable[tuple[K, ProfileSample]],
    confidence: float = CONFIDENCE,
    keys: Iterable[K] = (),
) -> dict[K, Estimate]:
    """The estimate for the samples of each key, the largest first, and for `keys` without samples.

    Raises ValueError for a confidence outside 0 to 1.
    """
    check_open_unit("confidence", confidence)
    periods = (each.period_bytes for each in profile.samples)
    period_bytes = max(periods, default=profile.header.period_bytes)
    sums = Counter(dict.fromkeys(keys, 0))
    variances: defaultdict[K, float] = defaultdict(float)
    for of, sample in keyed:
        sums[of] += sample.weight_bytes
        missed = 1 - chance_per_byte(sample.counted_bytes, sample.period_bytes)
        variances[of] += sample.weight_bytes**2 * missed
    deviations = NormalDist().inv_cdf((1 + confidence) / 2)
    found = {}
    for of, total in sums.most_common():
        bounds = _bounds(total, variances[of], period_bytes, deviations)
        found[of] = Estimate(total, bounds if profile.header.is_random else None)
    return found


def peak_estimate(profile: Profile) -> Estimate:
    """The most bytes that were live, at the moment with the largest estimate.

    That moment is chosen by the samples, so the lower bound must hold for every moment at which the
    peak may be, which is before a collection. The samples do not choose the true peak, so the upper
    bound is the usual one.
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
    """The quantile of the gamma distribution, whose cube root is nearly normal."""
    if variance == 0:
        return mean
    ninth = variance / mean**2 / 9
    return float(mean * max(0, 1 - ninth + deviations * math.sqrt(ninth)) ** 3)
