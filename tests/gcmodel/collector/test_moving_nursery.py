"""A nursery that changes its place with each collection, and what does not change with it."""

import pytest

from gcmodel import Configuration, Heap, Kind
from gcmodel.memory.objects import OUTSIDE

SURVIVED = 1
SHORT = 7
"""Characters of a string of 32 bytes."""


@pytest.fixture
def moving() -> Heap:
    """256 bytes of nursery, at 0 and at 256 in turn; one object may be pinned."""
    return Heap(
        Configuration(
            moving_nursery=True, pin_while_sampling=True, prebuilt_nodes=0, prebuilt_arrays=0
        )
    )


def allocate_dead_nodes(heap: Heap, count: int) -> None:
    for number in range(count):
        heap.allocate_node(number)
        heap.free(len(heap.roots) - 1)


def starts(heap: Heap, collections: int) -> list[int]:
    """Where the nursery begins after each of so many collections."""
    found = []
    for _ in range(collections):
        heap.collect_minor()
        found.append(heap.nursery.nursery_start)
    return found


def test_a_moving_nursery_has_two_places_in_turn(moving: Heap) -> None:
    assert starts(moving, 4) == [256, 0, 256, 0]


def test_a_nursery_stays_unless_it_is_configured_to_move(heap: Heap) -> None:
    assert starts(heap, 2) == [0, 0]


def test_the_pointers_move_with_the_nursery(moving: Heap) -> None:
    moving.collect_minor()
    nursery = moving.nursery
    assert (nursery.nursery_free, nursery.nursery_limit, nursery.nursery_top) == (256, 512, 512)


def test_a_moved_nursery_is_full_after_as_many_bytes(moving: Heap) -> None:
    moving.collect_minor()
    moving.events.take()
    allocate_dead_nodes(moving, 8)
    assert moving.events.take()[0] == ""
    allocate_dead_nodes(moving, 1)
    assert moving.events.take()[0] == "M"


def test_an_address_is_told_as_the_distance_from_the_nurserys_start(moving: Heap) -> None:
    moving.collect_minor()
    assert [moving.allocate_node(1), moving.allocate_array(0)] == [(32, 0), (16, 32)]
    assert list(moving.nursery.memory) == [256, 288]


def test_the_address_of_an_object_that_collects_is_told_from_the_new_start(moving: Heap) -> None:
    allocate_dead_nodes(moving, 8)
    assert moving.allocate_node(1) == (32, 0)
    assert list(moving.nursery.memory) == [256]


def test_what_survives_is_the_same_as_without_moving(moving: Heap, heap: Heap) -> None:
    for each in (moving, heap):
        for number in range(30):
            each.allocate_node(number)
            if number % 3:
                each.write(len(each.roots) - 1, 0, 0)
                each.free(0)
    assert moving.walk() == heap.walk()


# Pinned objects.


def test_the_nursery_does_not_move_while_an_object_is_pinned_in_it(moving: Heap) -> None:
    moving.collect_minor()
    moving.allocate_string(SHORT)
    moving.pin(0)
    pinned = moving.roots[0]
    assert starts(moving, 3) == [256] * 3
    assert moving.nursery.memory == {256: pinned}


def test_beside_a_pinned_object_addresses_are_told_from_the_nurserys_start_too(
    moving: Heap,
) -> None:
    moving.collect_minor()
    moving.allocate_string(SHORT)
    moving.pin(0)
    moving.collect_minor()
    assert moving.allocate_node(1) == (32, 32)


def test_the_nursery_moves_again_when_the_pinned_object_is_dead(moving: Heap) -> None:
    moving.allocate_string(SHORT)
    moving.pin(0)
    moving.collect_minor()
    moving.free(0)
    assert starts(moving, 2) == [256, 0]


def test_the_nursery_moves_again_when_the_object_is_unpinned(moving: Heap) -> None:
    moving.allocate_string(SHORT)
    moving.pin(0)
    moving.collect_minor()
    moving.unpin(0)
    assert starts(moving, 2) == [256, 0]
    assert (moving.roots[0].place, moving.read_number(0)) == (OUTSIDE, SHORT)


# Sampling.


def test_the_sample_point_moves_with_the_nursery(moving: Heap) -> None:
    moving.enable_sampling(512)
    allocate_dead_nodes(moving, 3)
    moving.collect_minor()
    assert moving.sampling.sample_point == 256 + 512 - 96
    moving.collect_minor()
    assert moving.sampling.sample_point == 512 - 96


def test_the_limit_is_the_sample_point_also_in_the_other_place(moving: Heap) -> None:
    moving.collect_minor()
    moving.enable_sampling(40)
    assert (moving.nursery.nursery_limit, moving.sampling.sample_point) == (296, 296)


@pytest.mark.parametrize("period_bytes", [8, 40, 104, 256, 264, 1000])
def test_samples_are_exact_over_many_moves(moving: Heap, period_bytes: int) -> None:
    moving.enable_sampling(period_bytes)
    allocate_dead_nodes(moving, 200)
    assert moving.events.take()[0].count("s") == (200 * 32 - 1) // period_bytes


def test_an_object_outside_is_counted_in_the_other_place_too(moving: Heap) -> None:
    moving.collect_minor()
    moving.enable_sampling(1024)
    moving.allocate_string(101 - 25)
    assert moving.sampling.sample_point == 256 + 1024 - 101


@pytest.mark.parametrize("kept", [False, True])
def test_a_sampled_object_is_reported_by_the_collection_that_moves_the_nursery(
    moving: Heap, kept: bool
) -> None:
    moving.enable_sampling(24)
    moving.allocate_node(1)
    if not kept:
        moving.free(0)
    moving.collect_minor()
    [report] = moving.events.take()[1]
    assert report.entries == [Kind.NODE << 2 | (SURVIVED if kept else 0)]
