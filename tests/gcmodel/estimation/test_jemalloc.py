"""jemalloc's whole numbers, its dump, and what jeprof makes of it."""

import math
from collections.abc import Callable, Sequence

import pytest

from gcmodel.estimation.jemalloc import (
    Dumped,
    dumped,
    estimate,
    round_half_up,
    shown_by_jeprof,
    unbiased_bytes,
    unbiased_eighths,
)
from gcmodel.estimation.samples import Sample
from gcmodel.estimation.unbiased import Totals, total, totals_by

MakeSample = Callable[..., Sample]


@pytest.mark.parametrize(
    ("usable", "lg_period", "size", "eighths"),
    [
        *[(8, 0, 8, 8), (8, 12, 4100, 4100), (8, 19, 524292, 524292)],
        *[(16, 0, 16, 8), (16, 12, 4104, 2052), (16, 19, 524296, 262148)],
        *[(1024, 0, 1024, 8), (1024, 12, 4629, 36), (1024, 19, 524800, 4100)],
        *[(4096, 0, 4096, 8), (4096, 12, 6480, 13), (4096, 19, 526339, 1028)],
        *[(16384, 0, 16384, 8), (16384, 12, 16690, 8), (16384, 19, 532523, 260)],
        *[(524288, 12, 524288, 8), (524288, 19, 829411, 13), (1048576, 19, 1212697, 9)],
    ],
)
def test_a_size_class_is_unbiased_as_in_jemalloc_5_3_0(
    usable: int, lg_period: int, size: int, eighths: int
) -> None:
    period = 2**lg_period
    assert (unbiased_bytes(usable, period), unbiased_eighths(usable, period)) == (size, eighths)


def test_a_sample_stands_for_what_its_size_class_does(make_sample: MakeSample) -> None:
    sample = make_sample(5, allocated_bytes=8, period_bytes=4096)
    assert estimate(sample) == Totals(4100 / 8, 4100)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size"), [("small", 1280), ("text", 2048), ("large", 6144)])
def test_ten_thousand_runs_have_the_right_mean_of_bytes(
    runs: list[list[Sample]],
    standard_errors_off: Callable[[Sequence[float], float], float],
    kind: str,
    size: int,
) -> None:
    sums = [totals_by(run, lambda sample: sample.type, estimate) for run in runs]
    assert standard_errors_off([each.get(kind, Totals()).bytes for each in sums], size) < 4


def test_eighths_of_objects_are_too_coarse_to_be_unbiased() -> None:
    """An object as large as the period counts 13 eighths where it should count 12.66."""
    chance = 1 - math.exp(-1)
    assert chance * unbiased_eighths(2**19, 2**19) / 8 == pytest.approx(1.027, abs=5e-4)


@pytest.mark.parametrize(
    ("classes", "lg_period", "printed"),
    [
        ([16, 33554432], 19, Dumped(65, 67530)),
        ([64] * 10 + [1048576] * 3, 19, Dumped(17, 1836)),
        ([8] * 100 + [4096] * 7 + [20480] * 2, 12, Dumped(121, 1173)),
        ([16] * 1024 + [33554432] * 16, 19, Dumped(2048, 65534)),
    ],
)
def test_a_dump_has_the_numbers_that_jemalloc_prints(
    make_sample: MakeSample, classes: list[int], lg_period: int, printed: Dumped
) -> None:
    samples = [make_sample(usable, period_bytes=2**lg_period) for usable in classes]
    assert dumped(total(samples, estimate), 2**lg_period) == printed


@pytest.mark.parametrize(
    ("numbers", "objects", "size_bytes"),
    [
        # The document's vector, and what its sum-then-unbias would show.
        (Dumped(65, 67530), 32834.5, 34112496),
        (Dumped(2, 16 + 33554432), 2.0, 33554448),
        (Dumped(0, 5), 0, 5),
    ],
)
def test_jeprof_multiplies_the_numbers(numbers: Dumped, objects: float, size_bytes: int) -> None:
    shown = shown_by_jeprof(numbers, 2**19)
    assert (round(shown.objects, 1), int(shown.bytes)) == (objects, size_bytes)


@pytest.mark.parametrize("count", [1, 3, 1000])
@pytest.mark.parametrize("usable", [8, 4096, 1048576])
def test_objects_of_one_size_class_are_dumped_as_they_were_sampled(
    make_sample: MakeSample, usable: int, count: int
) -> None:
    """But for what the whole eighths have rounded off, which is most where they are few."""
    sums = total([make_sample(usable, period_bytes=4096)] * count, estimate)
    assert dumped(sums, 4096).objects == pytest.approx(count, rel=0.05)


@pytest.mark.parametrize("sums", [Totals(0, 0), Totals(0, 8), Totals(8, 0)])
def test_nothing_is_dumped_as_zeros(sums: Totals) -> None:
    assert dumped(sums, 4096) == Dumped(0, 0)


@pytest.mark.parametrize(("usable", "period"), [(0, 4096), (8, 0.5)])
def test_sizes_and_periods_outside_their_ranges_are_refused(usable: int, period: float) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        unbiased_bytes(usable, period)


@pytest.mark.parametrize(
    ("value", "rounded"), [(0.49999999999999994, 0), (0.5, 1), (1.5, 2), (2.5, 3), (2.4, 2)]
)
def test_halves_are_rounded_up_as_in_c(value: float, rounded: int) -> None:
    assert round_half_up(value) == rounded
