"""Confidence intervals: the document's table, spans between samples, threads, and coverage."""

import math
import random
from collections.abc import Callable
from functools import partial

import pytest
from scipy.stats import binom

from gcmodel.estimation.failed_trials import remaining_bytes
from gcmodel.estimation.intervals import (
    Interval,
    Span,
    failed_trials_below,
    interval,
    pooled,
    span_of,
    summed,
)
from gcmodel.estimation.samples import Sample

PERIOD = 102_400
TABLE = {
    1: (2591, 377738),
    2: (24800, 570531),
    3: (63349, 739802),
    4: (111599, 897761),
    5: (166241, 1048730),
    6: (225469, 1194827),
    7: (288185, 1337279),
    8: (353666, 1476870),
    9: (421407, 1614137),
    10: (491039, 1749469),
    20: (1250954, 3038270),
    30: (2072639, 4264804),
    40: (2926207, 5459335),
    50: (3800118, 6633475),
    100: (8331581, 12342053),
    200: (17739679, 23413825),
    300: (27341465, 34291862),
    400: (37043463, 45069676),
    500: (46809487, 55783459),
    1000: (96149867, 108842093),
    2000: (195919830, 213870137),
    3000: (296301551, 318286418),
    4000: (396999923, 422386047),
    5000: (497900649, 526283322),
    10000: (1004017229, 1044156743),
}
"""Nasarre and Falk, Randomized Allocation Sampling: samples, failed trials at 0.025 and 0.975."""


def aligned(samples: int, remaining_bytes: int = 0, period_bytes: float = PERIOD) -> Span:
    return Span(samples=samples, remaining_bytes=remaining_bytes, period_bytes=period_bytes)


@pytest.mark.parametrize("samples", TABLE)
def test_the_document_s_table_is_met_exactly(samples: int) -> None:
    assert interval(aligned(samples), 0.95) == Interval(*TABLE[samples])


def test_more_confidence_needs_a_wider_interval() -> None:
    wide, narrow = interval(aligned(10), 0.99), interval(aligned(10), 0.9)
    assert wide.low_bytes < narrow.low_bytes < narrow.high_bytes < wide.high_bytes


def test_the_bound_is_zero_if_the_first_trial_may_well_succeed() -> None:
    assert failed_trials_below(0.4, 1, 2) == 0


# Spans that start or end between samples.


@pytest.mark.parametrize(
    ("figures", "bounds"),
    [
        ({"samples": 8}, TABLE[8]),
        ({"samples": 8, "unaligned_starts": 1}, (TABLE[7][0], TABLE[8][1])),
        ({"samples": 8, "unaligned_ends": 1}, (TABLE[8][0], TABLE[9][1])),
        ({"samples": 0, "unaligned_starts": 1, "unaligned_ends": 1}, (0, TABLE[1][1])),
        ({"samples": 1, "unaligned_starts": 1}, (0, TABLE[1][1])),
    ],
)
def test_an_unaligned_start_takes_a_sample_from_the_lower_bound_and_an_end_adds_one_to_the_upper(
    figures: dict[str, int], bounds: tuple[int, int]
) -> None:
    """The bytes behind the hits move both bounds."""
    span = Span(remaining_bytes=100, period_bytes=PERIOD, **figures)
    assert interval(span, 0.95) == Interval(bounds[0] + 100, bounds[1] + 100)


def test_a_span_is_made_of_samples(make_sample: Callable[..., Sample]) -> None:
    samples = [make_sample(24, offset_bytes=hit, period_bytes=PERIOD) for hit in (0, 20)]
    assert span_of(samples, PERIOD, unaligned_start=False) == Span(
        samples=2, remaining_bytes=24 + 4, period_bytes=PERIOD, unaligned_ends=1
    )


def test_a_span_has_one_period(make_sample: Callable[..., Sample]) -> None:
    with pytest.raises(ValueError, match="102400"):
        span_of([make_sample(period_bytes=1000)], PERIOD)


# Threads.


@pytest.mark.parametrize(
    ("bounds", "whole"), [([(10, 20), (1, 2), (0, 5)], (11, 27)), ([], (0, 0))]
)
def test_the_bounds_of_threads_add(bounds: list[tuple[int, int]], whole: tuple[int, int]) -> None:
    assert summed(Interval(*each) for each in bounds) == Interval(*whole)


def test_threads_pooled_are_one_thread_with_all_samples() -> None:
    spans = [Span(samples=3, remaining_bytes=5, period_bytes=PERIOD, unaligned_ends=1)] * 2
    assert pooled([aligned(2, 7), *spans]) == Span(
        samples=8, remaining_bytes=17, period_bytes=PERIOD, unaligned_ends=2
    )


def test_pooling_gives_the_narrower_interval() -> None:
    spans = [aligned(5), aligned(9), aligned(20)]
    together, sums = interval(pooled(spans), 0.95), summed(interval(each, 0.95) for each in spans)
    assert sums.low_bytes < together.low_bytes < together.high_bytes < sums.high_bytes


@pytest.mark.parametrize("periods", [[], [1000, 2000]])
def test_only_spans_of_one_period_can_be_pooled(periods: list[float]) -> None:
    with pytest.raises(ValueError, match="one period"):
        pooled([aligned(1, period_bytes=period) for period in periods])


# How often the truth is inside.


def failed_until(samples: int, source: random.Random, period_bytes: int) -> int:
    """How many trials fail in objects of 48 and 700 bytes until that many are sampled.

    That is all that is allocated but for the bytes behind the hits, where no trial is made.
    """
    failed = hits = 0
    while hits < samples:
        size = 48 if source.random() < 0.9 else 700
        offset = int(math.log(1 - source.random()) / math.log1p(-1 / period_bytes))
        failed += min(offset, size)
        hits += offset < size
    return failed


@pytest.mark.parametrize(
    ("threads", "samples"), [(1, 4), pytest.param(3, 2, marks=pytest.mark.slow)]
)
def test_an_interval_holds_the_truth_in_95_percent_of_runs(threads: int, samples: int) -> None:
    """Of 10,000 runs 9,413 to 9,587 must; a right one fails with a probability of 0.000063.

    The sum of the threads' intervals is wider, and holds it more often.
    """
    source, thread = random.Random("coverage"), aligned(samples, period_bytes=500)
    bounds = interval(pooled([thread] * threads), 0.95)
    whole = summed([interval(thread, 0.95)] * threads)
    runs = [sum(failed_until(samples, source, 500) for _ in range(threads)) for _ in range(10_000)]
    held = sum(bounds.low_bytes <= failed <= bounds.high_bytes for failed in runs)
    assert 9413 <= held <= 9587
    held_by_sum = sum(whole.low_bytes <= failed <= whole.high_bytes for failed in runs)
    assert held_by_sum == held if threads == 1 else held_by_sum > 9587


def between_samples(samples: int, remaining_bytes: int) -> Interval:
    """The interval of a span that starts and ends between samples."""
    span = Span(
        samples=samples,
        remaining_bytes=remaining_bytes,
        period_bytes=1000,
        unaligned_starts=1,
        unaligned_ends=1,
    )
    return interval(span, 0.95)


@pytest.mark.parametrize("allocated_bytes", [1, 200, 1000, 5000, 20_000])
def test_a_span_between_samples_is_covered_at_least_as_often_as_asked(allocated_bytes: int) -> None:
    """Computed over every number of samples, so nothing is left to chance. Objects of one byte."""
    covered = 0.0
    for samples in range(100):
        bounds = between_samples(samples, samples)
        if bounds.low_bytes <= allocated_bytes <= bounds.high_bytes:
            covered += float(binom.pmf(samples, allocated_bytes, 1 / 1000))
    assert covered >= 0.95


@pytest.mark.slow
def test_a_span_of_objects_is_covered_as_often_as_asked(runs: list[list[Sample]]) -> None:
    bounds = {count: between_samples(count, 0) for count in {len(run) for run in runs}}
    held = 0
    for run in runs:
        failed = 40 * 32 + 4 * 512 + 2 * 3072 - sum(map(remaining_bytes, run))
        held += bounds[len(run)].low_bytes <= failed <= bounds[len(run)].high_bytes
    assert held >= 9413


# Figures outside their ranges.


@pytest.mark.parametrize(
    "call",
    [
        *[partial(interval, aligned(1), confidence) for confidence in (0, 1, -0.1, 95)],
        *[partial(failed_trials_below, *each) for each in ((0, 1, 10), (1, 1, 10), (0.5, -1, 10))],
        partial(failed_trials_below, 0.5, 1, 1),
        *[
            partial(Span, **{"samples": 1, "remaining_bytes": 1, "period_bytes": 10, name: -1})
            for name in ("samples", "remaining_bytes", "unaligned_starts", "unaligned_ends")
        ],
        partial(aligned, 1, 1, 1),
    ],
)
def test_a_figure_outside_its_range_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        call()
