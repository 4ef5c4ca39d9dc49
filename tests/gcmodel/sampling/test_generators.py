"""The generators give the numbers of the systems that they are named for."""

import pytest

from gcmodel.memory.errors import ConfigurationError
from gcmodel.sampling.generators import (
    JemallocGenerator,
    Rand48Generator,
    SplitMix64,
    SubtractiveGenerator,
)


def test_the_subtractive_generator_is_that_of_system_random_with_seed_0() -> None:
    generator = SubtractiveGenerator(0)
    assert [generator.fraction() for _ in range(5)] == [
        0.7262432699679598,
        0.8173253595909687,
        0.7680226893946634,
        0.5581611914365372,
        0.2060331540210327,
    ]


@pytest.mark.parametrize("seed", [0, SubtractiveGenerator.SEED_MAX])
def test_the_subtractive_generator_stays_a_fraction_after_going_round(seed: int) -> None:
    generator = SubtractiveGenerator(seed)
    fractions = [generator.fraction() for _ in range(200)]
    assert len(set(fractions)) == 200
    assert all(0 <= fraction < 1 for fraction in fractions)


@pytest.mark.parametrize("seed", [-1, SubtractiveGenerator.SEED_MAX + 1])
def test_a_seed_with_which_the_clrs_integers_would_overflow_is_refused(seed: int) -> None:
    with pytest.raises(ConfigurationError, match=f"the seed is {seed};"):
        SubtractiveGenerator(seed)


def test_splitmix64_gives_the_numbers_of_its_published_test() -> None:
    generator = SplitMix64(1234567)
    assert [generator.bits_64() for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_a_fraction_of_splitmix64_has_the_top_53_bits() -> None:
    assert SplitMix64(1234567).fraction() == (6457827717110365317 >> 11) / 2**53


def test_jemallocs_generator_gives_the_top_bits_of_its_new_state() -> None:
    # The first state after 0 is the increment.
    assert JemallocGenerator(0).bits(64) == 1442695040888963407
    assert JemallocGenerator(0).bits(6) == 1442695040888963407 >> 58


def test_the_second_number_of_jemallocs_generator_follows_from_the_first() -> None:
    generator = JemallocGenerator(0)
    first = generator.bits(64)
    expected = (first * 6364136223846793005 + 1442695040888963407) % 2**64
    assert generator.bits(64) == expected


def test_rand48_throws_20_numbers_away_before_the_first() -> None:
    state = 1
    for _ in range(21):
        state = (0x5DEECE66D * state + 0xB) % 2**48
    assert Rand48Generator(1).bits_26() == state // 2**22


def test_the_generators_go_on_where_they_are_and_not_from_the_seed() -> None:
    rand48, splitmix = Rand48Generator(1), SplitMix64(1)
    assert rand48.bits_26() != rand48.bits_26()
    assert splitmix.fraction() != splitmix.fraction()
