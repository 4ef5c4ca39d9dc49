"""Confidence intervals of allocated bytes. Needs scipy.

The number of trials that fail before s succeed follows the negative binomial distribution, for
objects of any sizes. So an interval needs only the number of samples and the bytes behind their
hits. (Nasarre and Falk, Randomized Allocation Sampling, estimation approach 2 and the two sections
after it.)

Invariant: an interval holds the truth with the given confidence for a span that starts and ends
with a sample, and at least as often for any other span.
"""

from collections.abc import Iterable, Sequence

import attrs
from attrs.validators import ge, gt
from scipy.stats import nbinom

from gcmodel.estimation.checks import check_above, check_at_least, check_open_unit
from gcmodel.estimation.failed_trials import remaining_bytes
from gcmodel.estimation.samples import Sample


@attrs.frozen
class Interval:
    """From `low_bytes` to `high_bytes`, both included."""

    low_bytes: int
    high_bytes: int


@attrs.frozen(kw_only=True)
class Span:
    """What is known of the bytes allocated between two moments, on one thread or on several."""

    samples: int = attrs.field(validator=ge(0))
    remaining_bytes: int = attrs.field(validator=ge(0))
    """The bytes from each hit to the end of its object, `u` in the document."""
    period_bytes: float = attrs.field(validator=gt(1))
    unaligned_starts: int = attrs.field(default=0, validator=ge(0))
    """Threads on which the span does not start right after a sample."""
    unaligned_ends: int = attrs.field(default=0, validator=ge(0))
    """Threads on which the span does not end with a sample."""


def span_of(
    samples: Sequence[Sample],
    period_bytes: float,
    *,
    unaligned_start: bool = True,
    unaligned_end: bool = True,
) -> Span:
    """One thread's span, from its samples or from those of one type, site or size."""
    if any(sample.period_bytes != period_bytes for sample in samples):
        raise ValueError(f"not all samples have a period of {period_bytes} bytes")
    return Span(
        samples=len(samples),
        remaining_bytes=sum(map(remaining_bytes, samples)),
        period_bytes=period_bytes,
        unaligned_starts=int(unaligned_start),
        unaligned_ends=int(unaligned_end),
    )


def failed_trials_below(quantile: float, samples: int, period_bytes: float) -> int:
    """The largest number of failed trials, before that many samples, with a CDF below `quantile`.

    It is 0 if there is none, or no sample. The document's table has these for 0.025 and 0.975.
    """
    check_open_unit("quantile", quantile)
    check_at_least("samples", samples, 0)
    check_above("period_bytes", period_bytes, 1)
    if samples == 0:
        return 0
    return max(0, int(nbinom.ppf(quantile, samples, 1 / period_bytes)) - 1)


def interval(span: Span, confidence: float) -> Interval:
    """The interval of the span's counted bytes with that confidence, such as 0.95.

    A thread whose span does not start after a sample lowers the lower bound as if it had one sample
    fewer. One whose span does not end with a sample raises the upper bound as if it had one more.
    The document does not define `u` for these. The bytes behind the hits were allocated within the
    span, so both bounds keep them.
    """
    check_open_unit("confidence", confidence)
    tail = (1 - confidence) / 2
    fewest, most = max(0, span.samples - span.unaligned_starts), span.samples + span.unaligned_ends
    low = failed_trials_below(tail, fewest, span.period_bytes)
    high = failed_trials_below(1 - tail, most, span.period_bytes)
    return Interval(low + span.remaining_bytes, high + span.remaining_bytes)


def summed(intervals: Iterable[Interval]) -> Interval:
    """The document's interval for all threads: the sum of theirs. It is wider than necessary."""
    bounds = list(intervals)
    return Interval(sum(each.low_bytes for each in bounds), sum(each.high_bytes for each in bounds))


def pooled(spans: Sequence[Span]) -> Span:
    """All threads' spans as one, whose interval is narrower than the sum of theirs.

    Trials are independent, so the failed trials of several threads add up to those of one thread
    with all their samples.
    """
    periods = {span.period_bytes for span in spans}
    if len(periods) != 1:
        raise ValueError(f"spans of one period can be pooled, not of {len(periods)}")
    return Span(
        samples=sum(span.samples for span in spans),
        remaining_bytes=sum(span.remaining_bytes for span in spans),
        period_bytes=periods.pop(),
        unaligned_starts=sum(span.unaligned_starts for span in spans),
        unaligned_ends=sum(span.unaligned_ends for span in spans),
    )
