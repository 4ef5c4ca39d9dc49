"""Distances: each system's formula, and the period as their mean."""

import math
import statistics

import pytest

from gcmodel.sampling.distances import (
    Distances,
    Dotnet,
    DotnetDocument,
    FixedPeriod,
    Geometric,
    Gperftools,
    Hotspot,
    Jemalloc,
    Tcmalloc,
    failed_trials,
)
from gcmodel.sampling.generators import Xoshiro128

TWO_MIB = 2 * 2**20


def draws(distances: Distances, period_bytes: int, count: int) -> list[int]:
    return [distances.draw(period_bytes) for _ in range(count)]


def test_tcmallocs_first_picks_with_seed_1_and_the_default_period() -> None:
    expected = [592823, 150996, 743092, 677108, 861969, 1352942, 1905571]
    assert draws(Tcmalloc(1), TWO_MIB, 7) == expected


def test_gperftools_picks_one_more_than_tcmalloc_which_is_never_below_0() -> None:
    assert draws(Gperftools(1), TWO_MIB, 3) == [592824, 150997, 743093]
    assert min(draws(Tcmalloc(1), 2, 50)) == min(draws(Gperftools(1), 2, 50)) == 0


def test_hotspot_throws_no_number_away() -> None:
    # Its first number is (0x5DEECE66D + 0xB) >> 22 and one more: 6012, which is 2**12 * 1503/1024.
    logarithm = 12 + round(math.log2(1 + 479.5 / 1024), 15)
    assert Hotspot(1).draw(TWO_MIB) == int((logarithm - 26) * (-math.log(2) * TWO_MIB) + 1)


@pytest.mark.parametrize(("distances", "distance"), [(Tcmalloc(1), 0), (Jemalloc(1), 1)])
def test_a_period_of_1_draws_no_number(distances: Tcmalloc | Jemalloc, distance: int) -> None:
    assert draws(distances, 1, 3) == [distance] * 3
    assert distances.draw(4096) == type(distances)(1).draw(4096)


def test_jemallocs_wait_is_its_formula_of_53_bits() -> None:
    number = 1442695040888963407 >> 11
    wait = int(math.log(number / 2**53) / math.log(1 - 1 / 4096)) + 1
    assert Jemalloc(0).draw(4096) == wait


def test_jemallocs_wait_of_the_number_0_is_1() -> None:
    # The multiplier's inverse leads back to the seed of which the next state is 0.
    inverse = pow(6364136223846793005, -1, 2**64)
    seed = -1442695040888963407 * inverse % 2**64
    assert Jemalloc(seed).draw(4096) == 1


def test_dotnets_documents_failed_trials_are_its_formula_of_system_random() -> None:
    expected = [
        math.floor(math.log(1 - fraction) / math.log(1 - 1 / 102400))
        for fraction in (0.7262432699679598, 0.8173253595909687)
    ]
    assert draws(DotnetDocument(0), 102400, 2) == expected


def test_dotnets_distance_is_its_formula_of_xoshiro128() -> None:
    generator = Xoshiro128(4 << 96 | 3 << 64 | 2 << 32 | 1)
    # The first that rand_xoshiro's tests have for the state 1, 2, 3, 4.
    assert [generator.bits_32() for _ in range(4)] == [641, 1573767, 3222811527, 3517856514]
    number = Xoshiro128(2**63).bits_32()
    assert Dotnet(2**63).draw(102400) == int(-math.log(1 - number / 2**32) * 102400)


@pytest.mark.parametrize(("fraction", "failed"), [(0.0, 0), (0.49, 0), (0.5, 1), (0.76, 2)])
def test_with_a_period_of_2_half_the_bytes_succeed(fraction: float, failed: int) -> None:
    assert failed_trials(fraction, 2) == failed


def test_with_a_period_of_1_every_byte_succeeds() -> None:
    assert failed_trials(0.99, 1) == 0
    assert Geometric(0).draw(1) == 1


def test_the_fixed_period_is_the_period() -> None:
    assert draws(FixedPeriod(), 48, 2) == [48, 48]


@pytest.mark.parametrize(
    "kind", [Geometric, Dotnet, DotnetDocument, Jemalloc, Gperftools, Tcmalloc]
)
def test_the_mean_is_the_period_and_the_seed_determines_the_sequence(kind: type[Geometric]) -> None:
    drawn = draws(kind(1), 4096, 10_000)
    # The standard deviation is about the period too, so six sigma of the mean are 6 %.
    assert statistics.mean(drawn) == pytest.approx(4096, rel=0.06)
    assert draws(kind(1), 4096, 20) == drawn[:20] != draws(kind(2), 4096, 20)


def test_a_new_period_scales_the_next_distance() -> None:
    before, after = Gperftools(1), Gperftools(1)
    before.draw(2**20)
    after.draw(2**20)
    assert after.draw(2**21) == pytest.approx(2 * before.draw(2**20), abs=2)
