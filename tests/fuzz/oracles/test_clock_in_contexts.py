"""A thread's clock in allocation contexts, byte by byte, and as .NET 10 ships them."""

from typing import Any

import pytest
from clocks import CONTEXT, DRAWS, PERIOD, allocate, clock_of, clocks_by, offsets, rule_of
from hypothesis import given
from hypothesis import strategies as st

from fuzz.oracles.counting.clock import Clock
from fuzz.oracles.counting.distances import generator_of
from fuzz.oracles.counting.expected import Place
from fuzz.protocol.counting import Contexts
from fuzz.protocol.observation import Observation


def with_room(clock: Clock[Any], free_bytes: int, until_bytes: int) -> Clock[Any]:
    """The clock when an object has left that much of a context, this far from a sample."""
    size_bytes = max(64 - free_bytes, 1)
    allocate(clock, size_bytes, False, None, Observation(buffer=size_bytes + free_bytes))
    clock.until_bytes = until_bytes
    return clock


def context_of(free_bytes: int, until_bytes: int) -> Clock[Any]:
    """With that much room, so far from a sample; what is drawn next are DRAWS."""
    return with_room(clock_of(first_bytes=(0,), **CONTEXT), free_bytes, until_bytes)


def judged(clock: Clock[Any], size_bytes: int) -> tuple[list[int], int, int]:
    """The offsets of an object's samples, the room, and the bytes until the next sample."""
    hits = allocate(clock, size_bytes, False, PERIOD)
    return offsets(hits), clock.free_bytes, clock.until_bytes


def test_an_object_in_front_of_the_byte_that_was_drawn_is_not_sampled() -> None:
    assert judged(context_of(40, 24), 24) == ([], 16, 0)


def test_an_object_on_the_byte_that_was_drawn_is_sampled_and_another_is_drawn() -> None:
    assert judged(context_of(40, 23), 24) == ([23], 16, DRAWS[0])


def test_an_object_that_just_fills_the_context_overflows_nothing() -> None:
    assert judged(context_of(24, 30), 24) == ([], 0, 6)


def test_an_overflowing_object_is_sampled_on_a_byte_that_the_context_had_left() -> None:
    assert judged(context_of(16, 15), 24) == ([15], 64 - 24, DRAWS[0])


def test_the_rest_of_an_overflowing_object_is_judged_by_a_distance_of_its_own() -> None:
    assert judged(context_of(16, 16), 16 + DRAWS[0]) == ([], 0, DRAWS[1])
    assert judged(context_of(16, 16), 17 + DRAWS[0]) == ([16 + DRAWS[0]], 0, DRAWS[1])


def test_what_was_drawn_beyond_a_context_means_nothing_to_the_next() -> None:
    assert judged(context_of(16, 18), 24) == ([], 40, DRAWS[1])


def test_without_a_context_a_new_distance_decides_about_the_whole_object() -> None:
    assert judged(context_of(0, 5), DRAWS[0] + 1) == ([DRAWS[0]], 0, DRAWS[1])


def test_a_new_context_is_as_large_as_an_object_that_is_larger() -> None:
    assert judged(context_of(0, 0), 65)[1] == 0


def test_an_object_outside_is_judged_by_a_distance_of_its_own() -> None:
    clock = context_of(40, 24)
    assert offsets(allocate(clock, DRAWS[0] + 1, True, PERIOD)) == [DRAWS[0]]
    assert offsets(allocate(clock, DRAWS[1], True, PERIOD)) == []
    assert (clock.free_bytes, clock.until_bytes) == (40, 24)


def test_while_sampling_is_off_contexts_go_on_and_nothing_is_drawn() -> None:
    clock = context_of(40, 24)
    assert not allocate(clock, 24, False, None)
    assert not allocate(clock, 24, False, None)
    assert clock.free_bytes == 64 - 24
    clock.start(PERIOD)
    assert clock.until_bytes == DRAWS[0]


# Contexts as .NET 10 ships them; the distances are the same here.

SHIPPED = {**CONTEXT, "counting": Contexts(64, outside="in_turn"), "enabling": "keeps"}
REPORTED = Contexts(64, sizes="reported", outside="in_turn")


def shipped_of(free_bytes: int, until_bytes: int, **fields: Any) -> Clock[Any]:
    clock = clocks_by(rule_of(**{**SHIPPED, **fields}))[0]
    return with_room(clock, free_bytes, until_bytes)


def test_enabling_draws_nothing_and_what_is_left_of_the_context_goes_unsampled() -> None:
    clock = shipped_of(0, 0)
    assert not allocate(clock, 24, False, None)
    clock.start(PERIOD)
    assert judged(clock, 40) == ([], 0, 0)
    assert judged(clock, DRAWS[0] + 1) == ([DRAWS[0]], 0, DRAWS[1])


def test_what_was_drawn_outlives_sampling_unless_it_is_passed() -> None:
    clock = shipped_of(40, 20)
    allocate(clock, 16, False, None)
    assert judged(clock, 8) == ([4], 16, DRAWS[0])
    clock = shipped_of(40, 20)
    allocate(clock, 24, False, None)
    assert judged(clock, 16)[0] == []


@pytest.mark.parametrize(
    ("until_bytes", "hits", "drawn"),
    [(39, [39], 1), (40, [], 2), (99, [], 2)],
    ids=["what its context had left", "a new distance", "a new distance, too"],
)
def test_an_object_outside_uses_its_context(until_bytes: int, hits: list[int], drawn: int) -> None:
    clock = shipped_of(40, until_bytes)
    assert offsets(allocate(clock, 40 + DRAWS[0], True, PERIOD)) == hits
    assert (clock.free_bytes, clock.until_bytes) == (40, DRAWS[drawn - 1])


def test_an_object_outside_that_would_have_fit_draws_for_the_context_alone() -> None:
    clock = shipped_of(40, 40)
    assert not allocate(clock, 40, True, PERIOD)
    assert (clock.free_bytes, clock.until_bytes) == (40, DRAWS[0])


SLOW = Contexts(64, outside="in_turn", slow_kinds=("node",))


def test_a_slow_kind_draws_a_distance_even_if_it_fits() -> None:
    clock = shipped_of(40, 32, counting=SLOW)
    assert not allocate(clock, 24, False, PERIOD)
    assert (clock.free_bytes, clock.until_bytes) == (16, DRAWS[0])


def test_a_slow_kind_is_sampled_by_the_distance_before() -> None:
    clock = shipped_of(40, 16, counting=SLOW)
    assert offsets(allocate(clock, 24, False, PERIOD)) == [16]
    assert (clock.free_bytes, clock.until_bytes) == (16, DRAWS[0])


def test_a_slow_kind_draws_nothing_while_sampling_is_off() -> None:
    clock = shipped_of(40, 16, counting=SLOW)
    assert not allocate(clock, 24, False, None)
    assert (clock.free_bytes, clock.until_bytes) == (16, 16)


def test_how_large_a_context_is_may_be_reported() -> None:
    clock = shipped_of(16, 16, counting=REPORTED)
    allocate(clock, 24, False, PERIOD, Observation(buffer=4096))
    assert (clock.free_bytes, clock.place) == (4072, Place("new buffer", 0, 0, None))
    allocate(clock, 16, False, PERIOD, Observation())
    assert (clock.free_bytes, clock.place) == (4056, Place("buffer", 24, 0, None))
    allocate(clock, 10_000, True, PERIOD, Observation())
    assert (clock.free_bytes, clock.place) == (4056, Place("outside", None, 0, None))


def test_of_a_context_that_had_ended_before_an_allocation_nothing_was_left() -> None:
    clock = shipped_of(4096, 8, counting=REPORTED)
    answer = Observation(ended=True, buffer=8192)
    assert offsets(allocate(clock, DRAWS[0] + 1, False, PERIOD, answer)) == [DRAWS[0]]
    assert clock.place == Place("new buffer", 0, 0, None)


def context_byte_by_byte(sizes: list[int], context_bytes: int) -> list[list[int]]:
    """The offsets of the samples, looking at each byte of each context.

    A distance is the trials that fail. A new one begins behind a sampled object, and at the first
    byte of each context. That byte may lie in the middle of an object for which the context was too
    small. Then none begins at the object's end, but one begins in the rest of the context.
    """
    drawn = generator_of("dotnet_document", 0)
    left, room, answers = drawn.draw(PERIOD), 0, []
    for size in sizes:
        hit: list[int] = []
        overflows = size > room
        for offset in range(size):
            if overflows and offset == room and not hit:
                left = drawn.draw(PERIOD)
            if not hit:
                if left == 0:
                    hit = [offset]
                left -= 1
        room = max(context_bytes, size) - size if overflows else room - size
        if overflows or hit:
            left = drawn.draw(PERIOD)
        answers.append(hit)
    return answers


@pytest.mark.slow
@given(st.lists(st.integers(1, 200), max_size=20), st.integers(1, 300))
def test_a_clock_in_contexts_agrees_byte_by_byte(sizes: list[int], context_bytes: int) -> None:
    clock = clock_of(**{**CONTEXT, "counting": Contexts(context_bytes)})
    found = [offsets(allocate(clock, size, False, PERIOD)) for size in sizes]
    assert found == context_byte_by_byte(sizes, context_bytes)


@pytest.mark.parametrize("context_bytes", [32, 64, 1000])
def test_however_long_contexts_are_an_object_is_sampled_as_often(context_bytes: int) -> None:
    clock = clock_of(**{**CONTEXT, "counting": Contexts(context_bytes), "seeds": (1,)})
    sampled = sum(len(allocate(clock, 24, False, PERIOD)) for _ in range(20_000))
    chance = 1 - (1 - 1 / PERIOD) ** 24
    # Five standard deviations.
    assert abs(sampled - 20_000 * chance) < 5 * (20_000 * chance * (1 - chance)) ** 0.5
