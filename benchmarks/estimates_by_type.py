"""How many bytes of each type a program allocated, as its profile tells, and between which bounds.

With random distances every byte is hit with the same chance, whatever is beside it. So the bytes of
one type that were not hit before as many as were follow the negative binomial distribution, as in
`gcmodel.estimation.intervals`; and since counting goes on right after a hit, the bytes behind a hit
are trials too. Needs scipy.
"""

from __future__ import annotations

from collections import Counter

import attrs

from gcmodel.estimation.intervals import Interval, Span, interval
from gcmodel.profiling.profile import Profile


@attrs.frozen
class Estimate:
    """The bytes of a type: the most likely, and the interval for the confidence asked for."""

    bytes: int
    bounds: Interval


def bytes_by_type(profile: Profile, confidence: float) -> dict[str, Estimate]:
    """An estimate for each type that there is, sampled or not, the largest first.

    Raises ValueError for a profile of fixed distances, of which nothing is known by chance, for one
    whose program has changed the period, and for a confidence outside 0 to 1.
    """
    if not profile.header.is_random:
        raise ValueError("fixed distances have no bounds: what they hit is no matter of chance")
    period_bytes = profile.header.period_bytes
    for sample in profile.samples:
        if sample.period_bytes != period_bytes:
            raise ValueError(
                f"a sample has the period {sample.period_bytes}, and not the profile's "
                f"{period_bytes}: bytes of several periods have no bounds here"
            )
    hits = Counter(dict.fromkeys(filter(None, profile.header.types), 0))
    for sample in profile.samples:
        hits[sample.type] += sample.hits
    return {
        type_name: Estimate(count * period_bytes, interval(_span(count, period_bytes), confidence))
        for type_name, count in hits.most_common()
    }


def _span(hits: int, period_bytes: int) -> Span:
    """The bytes of a type. They neither begin nor end with a hit."""
    return Span(
        samples=hits,
        remaining_bytes=hits,  # The byte that is hit, and none behind it.
        period_bytes=period_bytes,
        unaligned_starts=1,
        unaligned_ends=1,
    )
