"""TCMalloc's weight, and what its profiles report of one sample."""

import math
from collections.abc import Callable

import pytest

from gcmodel.estimation.samples import Sample
from gcmodel.estimation.tcmalloc import (
    bytes_represented,
    objects_represented,
    reported,
    weight_bytes,
)
from gcmodel.estimation.unbiased import Totals

MakeSample = Callable[..., Sample]
PERIOD = 2**21


def test_the_byte_that_is_hit_weighs_a_period() -> None:
    assert weight_bytes(-1, PERIOD) == PERIOD


@pytest.mark.parametrize(("counter", "period"), [(0, PERIOD), (5, PERIOD), (-1, 0)])
def test_an_allocation_that_is_not_sampled_has_no_weight(counter: int, period: int) -> None:
    with pytest.raises(ValueError, match=r"(bytes_until_sample|period_bytes) is"):
        weight_bytes(counter, period)


def mean_weight_bytes(requested_bytes: int, period_bytes: float) -> float:
    """What the weights of such allocations must be on average: `(k + 1)/(1 - exp(-(k + 1)/T))`.

    The document's exponential takes bytes for a continuum; with whole bytes the mean is up to half
    a byte less, `(k + 1)/(1 - (1 - 1/T)^(k + 1))`.
    """
    counted = requested_bytes + 1
    return counted / -math.expm1(-counted / period_bytes)


@pytest.mark.parametrize("requested", [0, 1, 100, 2000, 20_000])
def test_the_mean_weight_is_the_mean_of_all_weights(requested: int) -> None:
    """Over every byte that can be hit first. The document's exponential is one part in 2T off."""
    period, size = 2000, requested + 1
    chances = [(1 - 1 / period) ** offset / period for offset in range(size)]
    of_all = sum(
        chance * weight_bytes(offset - size, period) for offset, chance in enumerate(chances)
    )
    assert mean_weight_bytes(requested, period) == pytest.approx(
        of_all / sum(chances), rel=1 / period
    )


@pytest.mark.parametrize(
    ("weight", "allocated", "requested", "represented"),
    [(PERIOD, 8, 1, 4 * PERIOD), (4115, 48, 47, 4115), (4115, 64, 47, 5487), (3, 1, 1, 2)],
)
def test_bytes_represented_are_in_proportion_to_what_was_requested_and_one_more(
    weight: int, allocated: int, requested: int, represented: int
) -> None:
    assert bytes_represented(weight, allocated, requested) == represented


@pytest.mark.parametrize(
    ("represented", "allocated", "objects"),
    [(0, 8, 0), (3, 8, 0), (4, 8, 1), (11, 8, 1), (12, 8, 2)],
)
def test_objects_are_the_nearest_integer(represented: int, allocated: int, objects: int) -> None:
    assert objects_represented(represented, allocated) == objects


def test_a_profile_reports_a_multiple_of_the_allocated_size(make_sample: MakeSample) -> None:
    sample = make_sample(
        47, allocated_bytes=64, counted_bytes=48, offset_bytes=28, period_bytes=4096
    )
    assert reported(sample) == Totals(86, 86 * 64)


def test_whole_objects_are_too_coarse_to_be_unbiased(make_sample: MakeSample) -> None:
    """An object as large as the period is reported 1.026 times on average."""
    hits = [
        make_sample(999, allocated_bytes=1024, counted_bytes=1000, offset_bytes=offset)
        for offset in range(1000)
    ]
    mean = sum(
        (1 - 1 / 1000) ** offset / 1000 * reported(sample).objects
        for offset, sample in enumerate(hits)
    )
    assert mean == pytest.approx(1.026, abs=5e-4)


def test_a_share_of_a_sample_is_charged_in_proportion(make_sample: MakeSample) -> None:
    sample = make_sample(7, allocated_bytes=8, counted_bytes=8, offset_bytes=0, period_bytes=793)
    assert [reported(sample, share).objects for share in (0, 0.5, 1, 3)] == [0, 50, 100, 300]


def test_a_sample_of_another_allocator_is_refused(make_sample: MakeSample) -> None:
    with pytest.raises(ValueError, match="counted_bytes is 16"):
        reported(make_sample(16))


@pytest.mark.parametrize(("weight", "allocated", "requested"), [(-1, 8, 8), (1, 0, 8), (1, 8, -1)])
def test_bad_figures_are_refused(weight: float, allocated: int, requested: int) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        bytes_represented(weight, allocated, requested)
