"""How far samples are apart: by each system's own numbers, and by formulas written another way."""

import math
import statistics
import struct
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest

from fuzz.oracles.counting.distances import GENERATORS, generator_of
from fuzz.oracles.counting.distances.ddtrace import Ddtrace
from fuzz.oracles.counting.distances.dotnet import Dotnet
from fuzz.oracles.counting.distances.dotnet_document import DotnetDocument
from fuzz.oracles.counting.distances.generator import Generator
from fuzz.oracles.counting.distances.geometric import Geometric
from fuzz.oracles.counting.distances.gperftools import Gperftools
from fuzz.oracles.counting.distances.hotspot import Hotspot
from fuzz.oracles.counting.distances.jemalloc import Jemalloc
from fuzz.oracles.counting.distances.ocaml import Ocaml
from fuzz.oracles.counting.distances.ocaml_5_3 import OcamlDomain
from fuzz.oracles.counting.distances.tcmalloc import Tcmalloc
from fuzz.oracles.counting.distances.v8 import PLACE_BITS, V8
from fuzz.oracles.counting.distances.v8_14_6 import V8Sum
from fuzz.protocol.contract import DRAWN

MIB = 2**20
DOUBLES_OF_SYSTEM_RANDOM = [
    (
        *(0.7262432699679598, 0.8173253595909687, 0.7680226893946634),
        *(0.5581611914365372, 0.2060331540210327),
    ),
    (
        *(0.24866858415709278, 0.11074397718102856, 0.46701067987224587),
        *(0.7716041220219825, 0.657518893786482),
    ),
]
"""By seed."""
SPLITMIX_0 = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)
STRINGS_OF_NODE_26 = [3, 13, 3, 3, 5, 15, 5, 15, 13, 5, 11, 4]
STRINGS_OF_NODE = [17, 4, 3, 20, 17, 24, 15, 4, 15, 3, 31, 1]
JEMALLOC_FACTOR, JEMALLOC_TERM = 6364136223846793005, 1442695040888963407
DRAWS = 20_000
PERIOD = 512
SIGMAS = 5


def drawn(distances: Generator, period_bytes: int, count: int) -> list[int]:
    return [distances.draw(period_bytes) for _ in range(count)]


def jemalloc_uniforms(state: int, count: int) -> list[Fraction]:
    """The numbers between 0 and 1 that follow a state, by 128-bit products and a division."""
    uniforms = []
    for _ in range(count):
        state = divmod(state * JEMALLOC_FACTOR + JEMALLOC_TERM, 2**64)[1]
        uniforms.append(Fraction(state // 2**11, 2**53))
    return uniforms


def is_trial(distance: int, chance: Fraction, period_bytes: int) -> bool:
    """Whether the trial of that number, from 1, is the first to succeed: q^n < chance <= q^(n-1).

    Each byte is sampled with a probability of one in a period, and q is that of the others. The
    powers are exact, where the sequence takes logarithms.
    """
    q = 1 - Fraction(1, period_bytes)
    return bool(q**distance < chance <= q ** (distance - 1))


# Each system's own numbers.

STATE_1234 = 4 << 96 | 3 << 64 | 2 << 32 | 1
XOSHIRO_1234 = [641, 1573767, 3222811527, 3517856514, 836907274, 4247214768, 3867114732, 1355841295]
"""What xoshiro128++ makes of the state 1, 2, 3, 4 (rand_xoshiro's tests)."""


def test_tcmalloc_draws_what_its_source_draws() -> None:
    assert drawn(Tcmalloc(1), 2 * MIB, 7) == [
        *(592823, 150996, 743092, 677108, 861969, 1352942, 1905571)
    ]


def test_ddtrace_draws_what_cpps_own_library_draws() -> None:
    assert drawn(Ddtrace(512), 512, 6) == [394, 360, 66, 777, 581, 1293]
    assert drawn(Ddtrace(MIB), MIB, 4) == [4_431_559, 216_398, 160_813, 46_800]


@pytest.mark.parametrize("seed", [0, 1])
def test_dotnets_document_draws_by_the_numbers_of_system_random(seed: int) -> None:
    # A period so long that one in a thousand million is seen in the distance.
    period_bytes = 2**40
    ln_q = math.log(1 - 1 / period_bytes)
    expected = [math.floor(math.log(1 - u) / ln_q) for u in DOUBLES_OF_SYSTEM_RANDOM[seed]]
    assert drawn(DotnetDocument(seed), period_bytes, 5) == expected


def test_dotnet_draws_by_the_numbers_of_xoshiro128() -> None:
    distances = Dotnet(STATE_1234)
    # The period is so long that all bits of a number show in the distance.
    found = [round((1 - math.exp(-distances.draw(2**52) / 2**52)) * 2**32) for _ in XOSHIRO_1234]
    assert found == XOSHIRO_1234


def test_v8_passes_by_as_many_numbers_as_the_seed_s_lowest_bits_say() -> None:
    seed = 7 << PLACE_BITS
    assert drawn(V8(seed + 5), 4096, 9) == drawn(V8(seed), 4096, 14)[5:]


def test_v8_s_distances_are_those_by_which_node_20_has_sampled() -> None:
    """Of strings of 24 bytes, with the seed 1, after 314 numbers."""
    distances = drawn(V8((1 << PLACE_BITS) + 314), 256, len(STRINGS_OF_NODE))
    assert [math.ceil(distance / 24) for distance in distances] == STRINGS_OF_NODE


def test_v8_s_distances_are_those_by_which_node_26_has_sampled() -> None:
    """Of strings of 24 bytes, with the seed 1."""
    distances = drawn(V8Sum(1 << PLACE_BITS), 256, len(STRINGS_OF_NODE_26))
    assert [math.ceil(distance / 24) for distance in distances] == STRINGS_OF_NODE_26


def test_v8_s_least_distance_is_a_word() -> None:
    assert min(drawn(V8(0), 16, 1000)) == 8


def test_geometric_distances_are_by_the_numbers_of_splitmix64() -> None:
    distances = drawn(Geometric(0), 64, 3)
    for distance, number in zip(distances, SPLITMIX_0, strict=True):
        assert is_trial(distance, 1 - Fraction(number >> 11, 2**53), 64)


def test_geometric_distances_are_by_every_bit_of_those_numbers() -> None:
    period_bytes = 2**40
    ln_q = math.log(1 - 1 / period_bytes)
    uniforms = [(number >> 11) / 2**53 for number in SPLITMIX_0]
    expected = [math.floor(math.log(1 - u) / ln_q) + 1 for u in uniforms]
    assert drawn(Geometric(0), period_bytes, 3) == expected


# Each formula, written another way.


@pytest.mark.parametrize("seed", [0, 1, 0x7F3A_9C00_2740, 2**64 - 1])
@pytest.mark.parametrize("period_bytes", [2, 16, 256])
def test_jemalloc_draws_the_trial_that_succeeds(seed: int, period_bytes: int) -> None:
    distances = drawn(Jemalloc(seed), period_bytes, 20)
    for distance, uniform in zip(distances, jemalloc_uniforms(seed, 20), strict=True):
        assert is_trial(distance, uniform, period_bytes)


def test_jemalloc_takes_1_for_the_number_0() -> None:
    before_0 = -JEMALLOC_TERM * pow(JEMALLOC_FACTOR, -1, 2**64) % 2**64
    assert jemalloc_uniforms(before_0, 1) == [0]
    assert Jemalloc(before_0).draw(2**19) == 1


def test_dotnets_document_draws_the_trials_that_fail() -> None:
    distances = drawn(DotnetDocument(0), 100, 5)
    for distance, uniform in zip(distances, DOUBLES_OF_SYSTEM_RANDOM[0], strict=True):
        assert is_trial(distance + 1, 1 - Fraction(uniform), 100)


@pytest.mark.parametrize("seed", [0, 1, 0x7F3A_9C00_2740])
def test_gperftools_draws_the_bytes_before_an_exponential_one(seed: int) -> None:
    state = seed
    distances = Gperftools(seed)
    for step in range(1, 41):
        state = (state * 0x5DEECE66D + 0xB) % 2**48
        if step > 20:
            distance = distances.draw(4096)
            chance = Decimal(state // 2**22 + 1) / 2**26
            least, most = (Decimal(-each) / 4096 for each in (distance + 1, distance))
            assert least.exp() < chance <= most.exp()


def test_gperftools_draws_the_longest_distance_for_the_number_0() -> None:
    state, inverse = 0, pow(0x5DEECE66D, -1, 2**48)
    for _ in range(21):
        state = (state - 0xB) * inverse % 2**48
    assert Gperftools(state).draw(4096) == int(26 * math.log(2) * 4096)


@pytest.mark.parametrize("seed", [1, 0x7F3A_9C00, 2**48 - 1])
@pytest.mark.parametrize("period_bytes", [1, 4096, 2**19, 2**31 - 1])
def test_hotspot_draws_by_the_middle_of_a_part_of_an_octave(seed: int, period_bytes: int) -> None:
    """By the bits of a floating-point number, as the machine does it."""
    distances = Hotspot(seed)
    for _ in range(200):
        seed = (seed * 0x5DEECE66D + 0xB) % 2**48
        [bits] = struct.unpack("<Q", struct.pack("<d", seed // 2**22 + 1))
        octave, part = (bits >> 52) - 1023, bits >> 42 & 1023
        log2 = octave + round(math.log(1 + (part + 0.5) / 1024) / math.log(2), 15)
        expected = min(0, log2 - 26) * (-math.log(2) * period_bytes) + 1
        assert distances.draw(period_bytes) == int(expected)


@pytest.mark.parametrize("seed", range(3))
def test_tcmalloc_draws_one_byte_less_than_gperftools_but_not_below_0(seed: int) -> None:
    gperftools, tcmalloc = (drawn(each(seed), 4, 100) for each in (Gperftools, Tcmalloc))
    assert tcmalloc == [max(distance - 1, 0) for distance in gperftools]
    assert {0, 1} <= {*gperftools}


OCAML_FIRST = (106, 87, 459, 264, 41, 5, 406, 154, 81, 3, 77, 48, 82, 21, 70, 231)
OCAML_SECOND = (68, 69, 34, 33, 119, 131, 296, 148, 85, 58, 61, 237, 271, 55, 122, 147)
"""What memprof.c, compiled, draws for a rate of 1/100, and from its second batch of 64."""


def drawn_in_words(distances: Ocaml, count: int) -> list[int]:
    """The next distances in words of 8 bytes, with a mean of 100."""
    return [distance // 8 for distance in drawn(distances, 800, count)]


def test_ocaml_draws_64_at_once() -> None:
    distances = drawn_in_words(Ocaml(0), 64 + 16)
    assert (*distances[:16], *distances[64:]) == OCAML_FIRST + OCAML_SECOND


def test_ocaml_forgets_what_is_left_when_sampling_begins() -> None:
    distances = Ocaml(0)
    assert distances.draw(800) == 8 * OCAML_FIRST[0]
    distances.restart()
    assert drawn_in_words(distances, 16) == [*OCAML_SECOND]


OCAML_5_3_FIRST = (10, 75, 44, 12, 156, 1, 84, 65, 150, 103, 33, 96, 63, 20, 46, 41)
OCAML_5_3_SECOND = (33, 2, 41, 179, 78, 329, 14, 16, 651, 112, 75, 52, 21, 272, 297, 107)
"""The same of OCaml 5.3's memprof.c, for its first domain."""


def test_ocaml_5_3_seeds_by_the_domain() -> None:
    distances = drawn_in_words(OcamlDomain(0), 64 + 16)
    assert (*distances[:16], *distances[64:]) == OCAML_5_3_FIRST + OCAML_5_3_SECOND


def test_ocaml_5_3_adds_the_constant_first() -> None:
    """The 1,382nd number is the first for which the order matters, for a rate of 1/16."""
    drawn_bytes = drawn(OcamlDomain(0), 128, 1382)
    assert drawn_bytes[-1] == 6 * 8


@pytest.mark.parametrize(("count", "dropped"), [(62, 0), (64, 64)])
def test_the_end_of_sampling_draws_in_ocaml_5_3(count: int, dropped: int) -> None:
    """It begins a batch if the last one is used up, and the next start drops that one."""
    distances = OcamlDomain(0)
    distances.restart()
    drawn(distances, 800, count)
    distances.restart()
    assert distances.draw(800) == drawn(OcamlDomain(0), 800, 64 + dropped + 1)[-1]


@pytest.mark.parametrize("name", ["geometric", "ocaml"])
def test_a_number_that_is_used_for_something_else_draws_no_distance(name: str) -> None:
    every, second = (generator_of(name, 7) for _ in range(2))
    second.skip(1)
    assert drawn(every, PERIOD, 3)[1:] == drawn(second, PERIOD, 2)


def test_of_ddtraces_numbers_two_draw_a_distance() -> None:
    every, second = Ddtrace(7), Ddtrace(7)
    second.skip(2)
    assert drawn(every, PERIOD, 3)[1:] == drawn(second, PERIOD, 2)


def test_a_seed_of_ocaml_is_how_many_batches_were_drawn_before() -> None:
    assert drawn_in_words(Ocaml(1), 16) == [*OCAML_SECOND]


def test_ocaml_may_be_reseeded() -> None:
    distances = Ocaml(1)
    distances.draw(800)
    distances.reseed(0)
    assert distances.draw(800) == 8 * OCAML_FIRST[0]


# A period of one byte.


@pytest.mark.parametrize(
    ("name", "distance"),
    [("jemalloc", 1), ("geometric", 1), ("tcmalloc", 0), ("dotnet_document", 0)],
)
def test_a_period_of_one_byte_samples_each(name: str, distance: int) -> None:
    assert drawn(generator_of(name, 1), 1, 3) == [distance] * 3


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc"])
def test_a_period_of_one_byte_draws_nothing(name: str) -> None:
    distances = generator_of(name, 1)
    distances.draw(1)
    assert distances.draw(4096) == generator_of(name, 1).draw(4096)


def test_a_period_of_one_word_samples_each_of_ocamls() -> None:
    assert drawn(Ocaml(1), 8, 3) == [8, 8, 8]


@pytest.mark.parametrize(
    ("name", "period_bytes"),
    [("geometric", 1), ("dotnet", 1), ("dotnet_document", 1), ("gperftools", 1), ("ocaml", 8)],
)
def test_the_shortest_period_draws_a_number_all_the_same(name: str, period_bytes: int) -> None:
    distances = generator_of(name, 1)
    distances.draw(period_bytes)
    assert distances.draw(4096) == drawn(generator_of(name, 1), 4096, 2)[1]


# What all of them have in common.


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("jemalloc", PERIOD),
        ("geometric", PERIOD),
        ("ocaml", PERIOD),
        ("ocaml_5_3", PERIOD),
        ("dotnet", PERIOD - 0.5),
        ("dotnet_document", PERIOD - 1),
        ("gperftools", PERIOD - 0.5),
        ("hotspot", PERIOD + 0.5),
        ("tcmalloc", PERIOD - 1.5),
        ("ddtrace", PERIOD + 0.5),
        ("v8", PERIOD - 0.5),
        ("v8_14_6", PERIOD - 0.5),
    ],
)
def test_the_mean_of_the_distances_is_the_period(name: str, mean: float) -> None:
    found = statistics.fmean(drawn(generator_of(name, 7), PERIOD, DRAWS))
    # A geometric distance deviates by its own mean.
    assert abs(found - mean) < SIGMAS * PERIOD / math.sqrt(DRAWS)


@pytest.mark.parametrize("name", DRAWN)
def test_as_many_distances_are_short_as_chance_lets_expect(name: str) -> None:
    period_bytes = 8 * PERIOD if name in ("ocaml", "ocaml_5_3") else PERIOD
    drawn_bytes = drawn(generator_of(name, 7), period_bytes, DRAWS)
    short = sum(distance < period_bytes // 8 for distance in drawn_bytes)
    chance = 1 - math.exp(-1 / 8)
    assert abs(short - DRAWS * chance) < SIGMAS * math.sqrt(DRAWS * chance * (1 - chance))


@pytest.mark.parametrize("name", DRAWN)
def test_the_next_distance_does_not_depend_on_the_last_periods(name: str) -> None:
    """A period changes what is made of a number, and not which number comes next."""
    distances = generator_of(name, 3)
    distances.draw(64)
    assert distances.draw(4096) == drawn(generator_of(name, 3), 4096, 2)[1]


@pytest.mark.parametrize("name", DRAWN)
def test_another_seed_gives_other_distances(name: str) -> None:
    runs = [drawn(generator_of(name, seed), 2**30, 3) for seed in range(8)]
    assert all(first != second for first, second in pairwise(sorted(runs)))


@pytest.mark.parametrize("name", DRAWN)
def test_the_longest_period_that_may_be_drawn_for_has_distances(name: str) -> None:
    assert min(drawn(generator_of(name, 5), 2**53, 10)) > 0


def test_all_that_is_drawn_has_a_sequence() -> None:
    assert {*GENERATORS} == {*DRAWN}


@pytest.mark.parametrize("name", ["period", "unstated", "random"])
def test_what_is_not_drawn_is_the_period(name: str) -> None:
    assert drawn(generator_of(name, 5), 64, 3) == [64, 64, 64]


def test_with_an_interval_of_0_hotspot_draws_nothing() -> None:
    distances = Hotspot(3)
    assert distances.draw(0) == 0
    assert distances.draw(PERIOD) == Hotspot(3).draw(PERIOD)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("go", [15, 1206, 260, 11758, 498]), ("go_1_19", [512, 8977, 6950, 19, 12301])],
)
def test_gos_distances_are_those_that_predicted_it(name: str, expected: list[int]) -> None:
    distances = generator_of(name, 1)
    assert drawn(distances, 4096, 5) == expected
    assert (distances.draw(1), distances.draw(0)) == (0, 2**63 - 1)
    assert distances.draw(2**40) < 26 * 0x7000000
