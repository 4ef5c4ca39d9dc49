"""A thread's clock: every rule that a contract can state, byte by byte."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from clocks import ONE, PERIOD, allocate, clock_of, clocks_by, offsets, rule_of
from hypothesis import given
from hypothesis import strategies as st

from fuzz.oracles.counting.clock import Clock
from fuzz.oracles.counting.distances import generator_of
from fuzz.oracles.counting.expected import ALIKE, ExpectedSample, Request
from fuzz.protocol.contract import SamplingRule
from fuzz.protocol.counting import Buffers, LazySeeds, PlacedBlocks, ProfileRate, Streams
from fuzz.protocol.observation import Observation

# When a sample is due.


@pytest.mark.parametrize(("crosses", "size_bytes"), [("at", 10), ("beyond", 11)])
def test_a_distance_reached_or_exceeded_is_a_sample(crosses: str, size_bytes: int) -> None:
    rule: dict[str, Any] = {
        "crosses": crosses,
        "distances": "geometric",
        "first_bytes": (10,),
        **ONE,
    }
    assert not clock_of(**rule).count(size_bytes - 1, PERIOD)
    assert len(clock_of(**rule).count(size_bytes, PERIOD)) == 1


@pytest.mark.parametrize(("crosses", "offset"), [("at", 9), ("beyond", 10)])
def test_the_byte_that_was_drawn_is_counted_from_0(crosses: str, offset: int) -> None:
    clock = clock_of(crosses=crosses, distances="geometric", first_bytes=(10,), **ONE)
    assert offsets(clock.count(50, PERIOD)) == [offset]


def test_an_offset_counts_from_the_start_of_the_allocation() -> None:
    clock = clock_of(crosses="at", distances="geometric", first_bytes=(10,), **ONE)
    clock.count(8, PERIOD)
    assert offsets(clock.count(50, PERIOD)) == [1]


def test_what_is_dropped_is_not_counted_for_the_next_sample() -> None:
    clock = clock_of(distances="geometric", seeds=(3,), first_bytes=(10,), **ONE)
    clock.count(50, PERIOD)
    assert clock.until_bytes == generator_of("geometric", 3).draw(PERIOD)


def test_what_is_carried_is_counted_for_the_next_sample() -> None:
    rule: dict[str, Any] = {"surplus": "carried", "samples_per_allocation": "one"}
    clock = clock_of(distances="geometric", seeds=(3,), first_bytes=(10,), **rule)
    clock.count(50, 10**6)
    assert clock.until_bytes == generator_of("geometric", 3).draw(10**6) - 40


def test_enabling_keeps_the_rest_of_the_period() -> None:
    clock = clock_of(enabling="keeps", crosses="at")
    clock.count(60, PERIOD)
    clock.start(PERIOD)
    assert clock.until_bytes == PERIOD - 60


def test_of_a_distance_that_is_kept_the_first_is_the_first_period() -> None:
    first, second = 100, 30
    clock = clock_of(first, enabling="keeps", crosses="at")
    clock.start(second)
    assert clock.until_bytes == first


def test_a_block_without_bytes_weighs_nothing() -> None:
    rule: dict[str, Any] = {"weights": "whole_objects", "crosses": "at", "distances": "v8", **ONE}
    clock = clock_of(**rule)
    clock.until_bytes = 0
    assert [hit.weight for hit in clock.count(0, PERIOD)] == [0]


DUE: dict[str, Any] = {"surplus": "due", "samples_per_allocation": "one"}


@pytest.mark.parametrize("distances", ["period", "geometric"])
def test_distances_that_end_in_one_allocation_are_due_at_the_next_ones(distances: str) -> None:
    drawn = generator_of(distances, 3)
    spanned = [drawn.draw(PERIOD) for _ in range(3)]
    clock = clock_of(crosses="at", distances=distances, seeds=(3,), **DUE)
    sizes = sum(spanned), 1, 0, 0
    assert [len(clock.count(size_bytes, PERIOD)) for size_bytes in sizes] == [1, 1, 1, 0]
    assert clock.until_bytes == drawn.draw(PERIOD) - 1


def test_a_sample_that_was_due_before_names_the_first_byte() -> None:
    clock = clock_of(distances="geometric", seeds=(3,), **DUE)
    clock.count(5 * PERIOD, PERIOD)
    assert offsets(clock.count(8, PERIOD)) == [0]


def test_an_allocation_is_sampled_at_each_distance_that_ends_in_it() -> None:
    drawn = generator_of("geometric", 3)
    first, second = drawn.draw(PERIOD), drawn.draw(PERIOD)
    clock = clock_of(crosses="at", distances="geometric", seeds=(3,))
    assert offsets(clock.count(first + second, PERIOD)) == [first - 1, first + second - 1]


def test_an_allocation_that_takes_one_sample_takes_the_first() -> None:
    drawn = generator_of("geometric", 3)
    first, second, third = (drawn.draw(PERIOD) for _ in range(3))
    rule: dict[str, Any] = {"crosses": "at", "distances": "geometric", "seeds": (3,)}
    clock = clock_of(samples_per_allocation="one", **rule)
    assert offsets(clock.count(first + second, PERIOD)) == [first - 1]
    assert clock.until_bytes == third


def test_distances_that_are_all_alike_are_passed_without_counting_them() -> None:
    clock = clock_of(1)
    hits = clock.count(2**60, 1)
    assert (len(hits), hits[0], len(hits[:1])) == (2**60 - 1, ALIKE, 1)


def test_what_is_taken_back_is_counted_again() -> None:
    clock = clock_of()
    clock.count(60, PERIOD)
    clock.uncount(60)
    assert clock.until_bytes == PERIOD


# What is drawn, and when.


@pytest.mark.parametrize("thread", [0, 1])
def test_each_thread_draws_from_its_own_seed(thread: int) -> None:
    clock = clocks_by(rule_of(distances="jemalloc", seeds=(5, 6)))[thread]
    clock.start(PERIOD)
    assert clock.until_bytes == generator_of("jemalloc", 5 + thread).draw(PERIOD)


def test_the_first_distance_may_be_none_that_is_drawn() -> None:
    clock = clock_of(distances="jemalloc", seeds=(5,), first_bytes=(16 << 20,), **ONE)
    assert clock.until_bytes == 16 << 20
    clock.count(17 << 20, PERIOD)
    assert clock.until_bytes == generator_of("jemalloc", 5).draw(PERIOD)


@pytest.mark.parametrize("thread", [0, 1])
def test_some_threads_may_draw_their_first_distance(thread: int) -> None:
    clock = clocks_by(rule_of(distances="jemalloc", seeds=(5, 5), first_bytes=(7, None)))[thread]
    clock.start(PERIOD)
    assert clock.until_bytes == (7, generator_of("jemalloc", 5).draw(PERIOD))[thread]


def test_the_first_distance_is_the_first_only_once() -> None:
    clock = clock_of(distances="jemalloc", seeds=(5,), first_bytes=(7,))
    clock.start(PERIOD)
    assert clock.until_bytes == generator_of("jemalloc", 5).draw(PERIOD)


def test_starting_again_goes_on_with_the_same_numbers() -> None:
    clock, drawn = clock_of(distances="jemalloc", seeds=(5,)), generator_of("jemalloc", 5)
    drawn.draw(PERIOD)
    clock.start(PERIOD)
    assert clock.until_bytes == drawn.draw(PERIOD)


def test_the_present_distance_stays_when_the_period_changes() -> None:
    clock = clock_of(distances="geometric", first_bytes=(10,), seeds=(3,), **ONE)
    assert not clock.count(10, 10**6)
    assert clock.count(1, 10**6)
    assert clock.until_bytes == generator_of("geometric", 3).draw(10**6)


def test_another_period_may_have_the_next_allocation_sampled() -> None:
    counting = ProfileRate(new_period="samples")
    rule = {"counting": counting, "enabling": "keeps", "initial_period_bytes": PERIOD}
    clock = clock_of(PERIOD, distances="go", seeds=(1,), **rule, **ONE)
    taken = [len(allocate(clock, 1, True, period)) for period in (PERIOD, 7, None, None, 7)]
    assert taken == [0, 1, 1, 0, 1]


def test_while_a_period_is_certain_each_allocation_is_sampled() -> None:
    counting = ProfileRate(certain_period_bytes=1)
    rule = {"counting": counting, "enabling": "keeps", "initial_period_bytes": 10**6}
    clock = clock_of(10**6, distances="go", seeds=(1,), **rule, **ONE)
    taken = [len(allocate(clock, 1, True, period)) for period in (10**6, 1, 1)]
    assert taken == [0, 1, 1]


def test_numbers_that_are_spent_are_not_drawn_from() -> None:
    clock = clock_of(
        PERIOD, distances="go", seeds=(1,), counting=ProfileRate(spent_numbers=2), **ONE
    )
    clock.count(10**6, PERIOD)
    distances = generator_of("go", 1)
    assert clock.until_bytes == [distances.draw(PERIOD) for _ in range(4)][3]


RESEEDED: dict[str, Any] = {
    "distances": "gperftools",
    "seeds": (1,),
    "first_bytes": (10,),
    "counting": LazySeeds((9,)),
    **ONE,
}


def test_when_a_sample_is_due_first_another_generator_decides() -> None:
    drawn = generator_of("gperftools", 9)
    distance = drawn.draw(PERIOD)
    clock = clock_of(**RESEEDED)
    assert offsets(clock.count(distance + 11, PERIOD)) == [distance]
    assert clock.until_bytes == drawn.draw(PERIOD)


def test_the_other_generator_may_decide_against_the_first_sample() -> None:
    distance = generator_of("gperftools", 9).draw(PERIOD)
    assert distance > 11
    clock = clock_of(**RESEEDED)
    assert not clock.count(11, PERIOD)
    assert clock.until_bytes == distance - 11


def test_where_an_allocation_takes_all_samples_all_are_of_the_other_generator() -> None:
    drawn = generator_of("gperftools", 9)
    assert [drawn.draw(PERIOD) for _ in range(4)] == [25, 210, 4, 93]
    clock = clock_of(**{**RESEEDED, "surplus": "carried", "samples_per_allocation": "all"})
    assert offsets(clock.count(300, PERIOD)) == [25, 25 + 210, 25 + 210 + 4]
    assert clock.until_bytes == 25 + 210 + 4 + 93 - 300


def test_a_new_distance_decides_only_about_the_first_due_sample() -> None:
    drawn = generator_of("gperftools", 9)
    clock = clock_of(**RESEEDED)
    for distance in (drawn.draw(PERIOD), drawn.draw(PERIOD)):
        assert offsets(clock.count(10**6, PERIOD)) == [distance]


# What a sample stands for.


def test_tcmallocs_weights_are_those_of_its_source() -> None:
    rule = {"distances": "tcmalloc", "weights": "passed", "seeds": (1,), **ONE}
    clock = clock_of(4096, **rule)
    found = []
    for number in range(110):
        found += [(number, hit.weight) for hit in clock.count(number % 300 + 1, 4096)]
    assert found == [(47, 4115), (53, 4111), (76, 4163), (92, 4142), (109, 4147)]


def test_a_weight_is_of_the_period_for_which_the_distance_was_drawn() -> None:
    rule = {"distances": "tcmalloc", "weights": "passed", "first_bytes": (10,), **ONE}
    clock = clock_of(4096, **rule)
    assert clock.count(31, 64) == [ExpectedSample(10, 4096 + 31 - 10 - 1)]
    until_bytes = clock.until_bytes
    assert clock.count(until_bytes + 1, 8) == [ExpectedSample(until_bytes, 64)]


# Byte by byte.


def byte_by_byte(rule: SamplingRule, sizes: list[int]) -> list[list[int]]:
    """The offsets at which objects of these sizes are sampled, looking at one byte after another.

    The distance between two sample points is the number that was drawn. The byte that is sampled is
    the one that reaches the point, or the next.
    """
    drawn = generator_of(rule.distances, 0)
    distance, counted, answers = drawn.draw(PERIOD), 0, []
    for size in sizes:
        hits = []
        for offset in range(size):
            counted += 1
            while counted == distance + (rule.crosses == "beyond"):
                hits.append(offset)
                counted -= distance
                distance = drawn.draw(PERIOD)
                if rule.surplus == "dropped" and rule.samples_per_allocation == "one":
                    break
            if hits and rule.surplus == "dropped" and rule.samples_per_allocation == "one":
                break
        if hits and rule.surplus == "dropped":
            counted = 0
        answers.append(hits[:1] if rule.samples_per_allocation == "one" else hits)
    return answers


sizes = st.lists(st.integers(0, 400), max_size=20)
rules = st.builds(
    rule_of,
    crosses=st.sampled_from(["beyond", "at"]),
    surplus=st.sampled_from(["carried", "dropped"]),
    samples_per_allocation=st.sampled_from(["all", "one"]),
    distances=st.sampled_from(["geometric", "jemalloc"]),
)
rules_before_one_byte = st.builds(
    rule_of,
    surplus=st.just("dropped"),
    samples_per_allocation=st.just("one"),
    distances=st.sampled_from(["dotnet_document", "tcmalloc", "gperftools"]),
)


@pytest.mark.slow
@given(rules | rules_before_one_byte, sizes)
def test_a_clock_agrees_with_looking_at_each_byte(rule: SamplingRule, sizes: list[int]) -> None:
    clock = clocks_by(rule)[0]
    clock.start(PERIOD)
    assert [offsets(clock.count(size, PERIOD)) for size in sizes] == byte_by_byte(rule, sizes)


# Threads that begin.


@pytest.mark.parametrize(("births", "seed"), [("reseeds", 77), ("draws", 5)])
def test_a_new_thread_draws_and_may_reseed(births: Literal["reseeds", "draws"], seed: int) -> None:
    counting = Buffers(64, 64, 16, 8, 8, "allocated", generators="shared", births=births)
    of_two = {"seeds": (5, 5), "first_bytes": (10, 10), "counting": counting}
    old, new = clocks_by(rule_of(distances="hotspot", enabling="keeps", **of_two, **ONE))
    new.begin_thread(77, PERIOD)
    drawn = generator_of("hotspot", seed)
    assert new.until_bytes == drawn.draw(PERIOD)
    old.count(11, 2 * PERIOD)
    assert old.until_bytes == drawn.draw(2 * PERIOD)


# Another distance outside the nursery.

OF_RUNTIME = "string"
STREAMED = {
    "crosses": "at",
    "counting": Streams((OF_RUNTIME,), renewed_by=("collections", "callbacks")),
    "distances": "ocaml",
}
WORDS = (106, 87, 459, 264, 41, 5)
"""What OCaml draws first for a period of 100 words."""


def streamed(**fields: Any) -> Clock[Any]:
    return clock_of(8 * PERIOD, **{**STREAMED, **fields})


def samples(
    clock: Clock[Any], words: int, kind: str = "node", minors: int = 0, outside: bool = False
) -> tuple[int, float]:
    """How many an object takes, and the words until the next in the nursery."""
    request = Request(8 * words, outside, kind, 8 * PERIOD)
    hits = clock.allocated(request, Observation(minors=minors))
    return len(hits), clock.until_bytes / 8


def test_the_distance_outside_is_drawn_before_the_nurserys() -> None:
    clock = streamed()
    assert samples(clock, WORDS[0] - 1, outside=True) == (0, WORDS[1])
    assert samples(clock, WORDS[1] - 1) == (0, 1)


def test_what_lies_outside_counts_apart_and_its_surplus_is_carried() -> None:
    clock = streamed()
    words = WORDS[0] + WORDS[2] + 4
    # The second distance is the nursery's, the fourth the next outside, the fifth renews.
    assert samples(clock, words, OF_RUNTIME, outside=True) == (2, WORDS[4])
    assert samples(clock, WORDS[3] - 5, OF_RUNTIME, outside=True) == (0, WORDS[4])
    assert samples(clock, 1, OF_RUNTIME, outside=True)[0] == 1


def test_compiled_code_counts_all_distances_that_end_in_an_object() -> None:
    clock = streamed()
    assert samples(clock, WORDS[1] + WORDS[2]) == (2, WORDS[4])


def test_behind_the_first_sample_the_other_distance_counts_where_the_runtime_allocates() -> None:
    clock = streamed()
    assert samples(clock, WORDS[1] + WORDS[0], OF_RUNTIME) == (2, WORDS[4])


def test_a_collection_restarts_the_distance_before_an_object_in_the_nursery() -> None:
    clock = streamed()
    assert samples(clock, WORDS[1], minors=1) == (0, WORDS[2] - WORDS[1])
    clock.collected(2, 8 * PERIOD)
    assert clock.until_bytes == 8 * WORDS[4]


def test_a_collection_comes_after_an_object_outside() -> None:
    assert samples(streamed(), WORDS[0], OF_RUNTIME, 1, outside=True) == (1, WORDS[4])


@pytest.mark.parametrize(
    ("renewed_by", "until"),
    [((), WORDS[2]), (("collections",), WORDS[3]), (("callbacks",), WORDS[3])],
)
def test_only_what_is_named_restarts_the_distance(
    renewed_by: tuple[Literal["collections", "callbacks"], ...], until: int
) -> None:
    clock = streamed(counting=Streams((OF_RUNTIME,), renewed_by))
    clock.collected(1, 8 * PERIOD)
    left = clock.until_bytes // 8
    assert samples(clock, left) == (1, until)


def test_enabling_restarts_both_distances() -> None:
    clock = streamed()
    clock.start(8 * PERIOD)
    again = streamed(seeds=(1,))
    assert clock.until_bytes == again.until_bytes
    assert samples(clock, 68, outside=True)[0] == samples(again, 68, outside=True)[0] == 1


# Large blocks, which take a number for their place.

PLACED: dict[str, Any] = {
    "counting": PlacedBlocks(1000),
    "distances": "jemalloc",
    "enabling": "keeps",
    "initial_period_bytes": 2**20,
    "seeds": (5,),
    **ONE,
}


def placed(
    clock: Clock[Any], size_bytes: int, at: int | None = None, **request: bool
) -> int | None:
    """Where a block must be placed, if the target reports `at`."""
    clock.allocated(Request(size_bytes, False, "block", 256, **request), Observation(at=at))
    assert clock.place is not None
    return clock.place.at


def numbers_after_the_first_distance() -> Iterator[int]:
    generator = generator_of("jemalloc", 5)
    generator.draw(2**20)
    while True:
        yield 64 * (generator.number() >> 47)


def test_only_a_large_block_takes_a_number_for_its_place() -> None:
    clock, places = clock_of(256, **PLACED), numbers_after_the_first_distance()
    expected = [None, next(places), None, next(places)]
    assert [placed(clock, size) for size in (999, 1000, 1, 2000)] == expected


def test_a_block_that_stays_where_it_grows_takes_none() -> None:
    clock, places = clock_of(256, **PLACED), numbers_after_the_first_distance()
    assert placed(clock, 1000, is_resized=True) is None
    assert placed(clock, 1000, at=0, is_resized=True) == next(places)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_sampled_block_begins_a_page(is_recorded: bool) -> None:
    clock, places = clock_of(256, **PLACED), numbers_after_the_first_distance()
    at = placed(clock, 2**30, is_recorded=is_recorded)
    assert at == (0 if is_recorded else next(places))
    generator = generator_of("jemalloc", 5)
    generator.draw(2**20)
    generator.skip(int(not is_recorded))
    assert clock.until_bytes == generator.draw(256)
