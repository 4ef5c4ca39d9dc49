"""Weighted samples: sums over all, by type, site and size; their variance."""

import statistics
from collections.abc import Callable, Sequence

import pytest

from gcmodel.estimation.samples import Sample
from gcmodel.estimation.unbiased import (
    Totals,
    by_chance,
    chance_per_byte,
    estimated_variance_bytes2,
    per_byte,
    total,
    totals_by,
    variance_bytes2,
)

MakeSample = Callable[..., Sample]
Off = Callable[[Sequence[float], float], float]
WEIGHTED = by_chance(per_byte)

# Samples and their sums.


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        *[("requested_bytes", -1), ("allocated_bytes", 0), ("counted_bytes", 0)],
        *[("offset_bytes", -1), ("offset_bytes", 16)],
        *[("period_bytes", 0.5), ("period_bytes", float("nan"))],
    ],
)
def test_an_impossible_sample_is_refused(make_sample: MakeSample, name: str, figure: float) -> None:
    with pytest.raises(ValueError, match=name):
        make_sample(**{name: figure})


def test_a_sample_stands_for_the_inverse_of_its_chance(make_sample: MakeSample) -> None:
    assert by_chance(lambda sample: 1 / 4)(make_sample(16)) == Totals(4, 64)


@pytest.mark.parametrize("chance", [0, -0.1, 1.1, float("nan")])
def test_an_impossible_chance_is_refused(make_sample: MakeSample, chance: float) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        by_chance(lambda sample: chance)(make_sample())


def test_no_samples_stand_for_nothing() -> None:
    assert total([], WEIGHTED) == Totals(0, 0)


@pytest.mark.parametrize(
    ("key", "sums"),
    [
        (lambda sample: sample.type, {"a": Totals(4, 48), "b": Totals(2, 64)}),
        (lambda sample: sample.site, {("f",): Totals(4, 80), ("g",): Totals(2, 32)}),
        (
            lambda sample: sample.allocated_bytes,
            {8: Totals(2, 16), 16: Totals(2, 32), 32: Totals(2, 64)},
        ),
    ],
    ids=["type", "site", "size"],
)
def test_sums_are_grouped(
    make_sample: MakeSample, key: Callable[[Sample], object], sums: dict[object, Totals]
) -> None:
    samples = [
        make_sample(8, type="a", site=("f",)),
        make_sample(16, type="a", site=("g",)),
        make_sample(32, type="b", site=("f",)),
    ]
    assert totals_by(samples, key, by_chance(lambda sample: 1 / 2)) == sums


def test_samples_of_different_periods_are_unbiased_each_by_its_own(make_sample: MakeSample) -> None:
    often, seldom = make_sample(1, period_bytes=10), make_sample(1, period_bytes=1000)
    assert total([often, seldom], WEIGHTED).objects == pytest.approx(1010)


def test_a_million_machines_are_unbiased_before_they_are_summed(make_sample: MakeSample) -> None:
    small = make_sample(8, period_bytes=2**20)
    large = make_sample(8 * 2**20, period_bytes=2**20)
    sums = totals_by([small] * 8 + [large], lambda sample: sample.allocated_bytes, WEIGHTED)
    assert sums[8].objects == pytest.approx(2**20, rel=1e-5)
    assert sums[8 * 2**20].objects == pytest.approx(1, rel=1e-3)


# A chance per byte.


@pytest.mark.parametrize(
    ("counted_bytes", "period_bytes", "chance"),
    [(1, 102_400, 1 / 102_400), (2, 4, 1 - 0.75**2), (0, 1, 0), (1, 1, 1)],
)
def test_a_chance_per_byte_is_that_of_one_hit_or_more(
    counted_bytes: int, period_bytes: int, chance: float
) -> None:
    assert chance_per_byte(counted_bytes, period_bytes) == pytest.approx(chance, rel=1e-12)


# The variance.


@pytest.mark.parametrize(("chance", "variance"), [(1 / 100, 99 * 64**2), (1, 0)])
def test_a_coin_per_allocation_has_the_document_s_variance(chance: float, variance: float) -> None:
    assert variance_bytes2(64, chance) == pytest.approx(variance)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        *[(chance_per_byte, each) for each in ((-1, 100), (1, 0.9))],
        *[(variance_bytes2, each) for each in ((-1, 0.5), (8, 0), (8, 1.5))],
    ],
)
def test_bad_figures_are_refused(call: Callable[..., float], arguments: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        call(*arguments)


def test_the_variance_per_byte_is_largest_for_objects_of_one_byte() -> None:
    def of_1200_bytes(size_bytes: int) -> float:
        chance = chance_per_byte(size_bytes, 100)
        return 1200 // size_bytes * variance_bytes2(size_bytes, chance)

    variances = [of_1200_bytes(size_bytes) for size_bytes in (1, 2, 8, 100, 1200)]
    assert variances == sorted(variances, reverse=True)
    assert variances[0] == pytest.approx(1200 * 99)


# Ten thousand runs. Each comparison fails by chance with 0.000063, see conftest.py.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "objects", "size"), [("small", 40, 1280), ("text", 4, 2048), ("large", 2, 6144)]
)
def test_objects_and_bytes_of_a_type_are_unbiased(
    runs: list[list[Sample]], standard_errors_off: Off, kind: str, objects: int, size: int
) -> None:
    sums = [
        totals_by(run, lambda sample: sample.type, WEIGHTED).get(kind, Totals()) for run in runs
    ]
    assert standard_errors_off([each.objects for each in sums], objects) < 4
    assert standard_errors_off([each.bytes for each in sums], size) < 4


@pytest.mark.slow
def test_both_variances_are_right(runs: list[list[Sample]], standard_errors_off: Off) -> None:
    """The variance of 10,000 runs is off by 1.5 % on average here; 6 % is four times that."""
    expected = sum(
        count * variance_bytes2(size, chance_per_byte(size, 1000))
        for size, count in ((32, 40), (512, 4), (3072, 2))
    )
    estimates = [total(run, WEIGHTED).bytes for run in runs]
    assert statistics.variance(estimates) == pytest.approx(expected, rel=0.06)
    variances = [estimated_variance_bytes2(run, per_byte) for run in runs]
    assert standard_errors_off(variances, expected) < 4
