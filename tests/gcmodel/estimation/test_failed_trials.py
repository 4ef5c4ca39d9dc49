"""Counting failed trials: unbiased for any object, with a variance that is bounded for each."""

from collections.abc import Callable, Sequence

import pytest

from gcmodel.estimation.failed_trials import estimate, remaining_bytes, variance_bytes2
from gcmodel.estimation.samples import Sample
from gcmodel.estimation.tcmalloc import weight_bytes
from gcmodel.estimation.unbiased import Totals, total, totals_by

MakeSample = Callable[..., Sample]


def outcomes(make_sample: MakeSample, size_bytes: int, period: int) -> list[tuple[float, float]]:
    """Every way in which an object can be sampled: its probability, and the estimated bytes."""
    return [
        ((1 - 1 / period) ** offset / period, estimate(sample).bytes)
        for offset in range(size_bytes)
        for sample in [make_sample(size_bytes, offset_bytes=offset, period_bytes=period)]
    ]


def test_the_remaining_bytes_start_with_the_one_that_was_hit(make_sample: MakeSample) -> None:
    assert [remaining_bytes(make_sample(24, offset_bytes=hit)) for hit in (0, 23)] == [24, 1]


def test_a_sample_without_an_offset_is_refused(make_sample: MakeSample) -> None:
    with pytest.raises(ValueError, match="offset_bytes"):
        estimate(make_sample(offset_bytes=None))


def test_a_sample_stands_for_a_period_and_what_is_behind_its_hit(make_sample: MakeSample) -> None:
    sample = make_sample(200, offset_bytes=150, period_bytes=102_400)
    assert estimate(sample).bytes == pytest.approx(102_399 + 50)


def test_counted_bytes_are_turned_into_allocated_ones(make_sample: MakeSample) -> None:
    sample = make_sample(2, allocated_bytes=8, counted_bytes=2, period_bytes=999)
    assert estimate(sample) == Totals(500, 4000)


@pytest.mark.parametrize("size_bytes", [1, 2, 7, 100, 5000])
def test_expectation_and_variance_are_exact(make_sample: MakeSample, size_bytes: int) -> None:
    ways = outcomes(make_sample, size_bytes, 50)
    assert sum(chance * figure for chance, figure in ways) == pytest.approx(size_bytes, rel=1e-9)
    mean_square = sum(chance * figure**2 for chance, figure in ways)
    assert mean_square - size_bytes**2 == pytest.approx(variance_bytes2(size_bytes, 50), rel=1e-6)


def test_the_variance_of_one_huge_object_is_that_of_one_draw() -> None:
    assert variance_bytes2(10**9, 2**20) == pytest.approx(2**40 - 2**20)


def test_tcmalloc_s_weight_is_the_same_figure(make_sample: MakeSample) -> None:
    sample = make_sample(301, offset_bytes=17, period_bytes=4096)
    assert estimate(sample).bytes == pytest.approx(weight_bytes(17 - 301, 4096))


@pytest.mark.slow
def test_ten_thousand_runs_have_the_right_mean(
    runs: list[list[Sample]], standard_errors_off: Callable[[Sequence[float], float], float]
) -> None:
    estimates = [total(run, estimate).bytes for run in runs]
    assert standard_errors_off(estimates, 40 * 32 + 4 * 512 + 2 * 3072) < 4
    sums = [totals_by(run, lambda sample: sample.type, estimate) for run in runs]
    estimates = [each.get("text", Totals()).objects for each in sums]
    assert standard_errors_off(estimates, 4) < 4
