"""A nursery that changes its place with each collection."""

from collections.abc import Callable

import pytest
from heap_steps import (
    SURVIVED,
    allocate_dead_nodes,
    allocate_pinned,
    letters,
    reported,
    sample_point_of,
    samples,
)

from gcmodel import Configuration, Heap, Kind


@pytest.fixture
def moving() -> Heap:
    """256 bytes of nursery, at 0 and at 256 in turn; one object may be pinned."""
    return Heap(
        Configuration(
            moving_nursery=True, pin_while_sampling=True, prebuilt_nodes=0, prebuilt_arrays=0
        )
    )


def starts(heap: Heap, collections: int) -> list[int]:
    """Where the nursery starts after each of the next collections."""
    found = []
    for _ in range(collections):
        heap.collect_minor()
        found.append(heap.nursery.nursery_start)
    return found


def test_only_a_moving_nursery_has_two_places_in_turn(moving: Heap, heap: Heap) -> None:
    assert (starts(moving, 4), starts(heap, 2)) == ([256, 0, 256, 0], [0, 0])


def test_the_pointers_move_with_the_nursery(moving: Heap) -> None:
    moving.collect_minor()
    nursery = moving.nursery
    assert (nursery.nursery_free, nursery.nursery_limit, nursery.nursery_top) == (256, 512, 512)


def test_an_address_is_the_distance_from_the_nursery_s_start(moving: Heap) -> None:
    moving.collect_minor()
    assert [moving.allocate_node(1), moving.allocate_array(0)] == [(32, 0), (16, 32)]
    assert list(moving.nursery.memory) == [256, 288]
    allocate_dead_nodes(moving, 6)
    assert letters(moving) == "M"
    # The ninth object collects, so it lies at the new start.
    assert moving.allocate_node(1) == (32, 0)
    assert (letters(moving), list(moving.nursery.memory)) == ("M", [0])


def test_the_survivors_are_the_same_as_without_moving(moving: Heap, heap: Heap) -> None:
    for each in (moving, heap):
        for number in range(30):
            each.allocate_node(number)
            if number % 3:
                each.write(len(each.roots) - 1, 0, 0)
                each.free(0)
    assert moving.walk() == heap.walk()


@pytest.mark.parametrize("release", [Heap.unpin, Heap.free])
def test_a_pinned_nursery_does_not_move(moving: Heap, release: Callable[[Heap, int], None]) -> None:
    moving.collect_minor()
    allocate_pinned(moving)
    pinned = moving.roots[0]
    assert starts(moving, 3) == [256] * 3
    assert moving.nursery.memory == {256: pinned}
    assert moving.allocate_node(1) == (32, 32)
    moving.free(1)
    release(moving, 0)
    assert starts(moving, 2) == [0, 256]


# Sampling.


def test_the_sample_point_moves_with_the_nursery(moving: Heap) -> None:
    moving.enable_sampling(512)
    allocate_dead_nodes(moving, 3)
    moving.collect_minor()
    assert sample_point_of(moving) == 256 + 512 - 96
    moving.allocate_string(301 - 25)
    assert moving.nursery.nursery_limit == sample_point_of(moving) == 256 + 512 - 96 - 301
    moving.collect_minor()
    assert moving.nursery.nursery_limit == sample_point_of(moving) == 512 - 96 - 301


@pytest.mark.parametrize("period_bytes", [8, 40, 104, 256, 264, 1000])
def test_samples_are_exact_over_many_moves(moving: Heap, period_bytes: int) -> None:
    moving.enable_sampling(period_bytes)
    allocate_dead_nodes(moving, 200)
    assert samples(moving) == (200 * 32 - 1) // period_bytes


@pytest.mark.parametrize("kept", [False, True])
def test_the_collection_that_moves_the_nursery_reports_samples(moving: Heap, kept: bool) -> None:
    moving.enable_sampling(24)
    moving.allocate_node(1)
    if not kept:
        moving.free(0)
    moving.collect_minor()
    assert reported(moving) == [Kind.NODE << 2 | (SURVIVED if kept else 0)]
