"""Identities: one for each object, the same for ever, and what taking one costs."""

import pytest

from gcmodel import Heap
from gcmodel.collector.major import State
from gcmodel.memory.objects import OUTSIDE


def test_an_object_keeps_its_identity_when_it_moves(heap: Heap) -> None:
    heap.allocate_node(1)
    before = heap.identity(0)
    heap.collect_minor()
    heap.collect_full()
    assert heap.identity(0) == before


def test_an_identity_taken_twice_in_the_nursery_is_the_same(heap: Heap) -> None:
    heap.allocate_node(1)
    assert heap.identity(0) == heap.identity(0)


def test_different_objects_have_different_identities(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.allocate_node(1)
    heap.allocate_string(100)
    heap.allocate_array(1)
    assert len({heap.identity(root) for root in range(4)}) == 4


def test_the_identity_of_a_dead_object_is_not_given_again(heap: Heap) -> None:
    heap.allocate_node(1)
    first = heap.identity(0)
    heap.free(0)
    heap.collect_full()
    heap.allocate_node(2)
    assert heap.identity(0) != first


def test_no_identity_is_zero(heap: Heap) -> None:
    heap.allocate_node(1)
    assert heap.identity(0) > 0


@pytest.mark.parametrize(("length", "size_bytes"), [(2, 32), (5, 56)])
def test_the_identity_of_a_young_object_reserves_its_future_place(
    heap: Heap, length: int, size_bytes: int
) -> None:
    heap.allocate_array(length)
    heap.identity(0)
    heap.identity(0)
    assert heap.memory_used_bytes() == size_bytes


def test_an_object_that_moves_to_its_reserved_place_takes_no_further_memory(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.identity(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 32


def test_the_identity_of_an_old_object_takes_no_memory(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.identity(0)
    assert heap.memory_used_bytes() == 32


def test_the_identity_of_a_young_object_outside_takes_no_memory(heap: Heap) -> None:
    heap.allocate_string(75)
    heap.identity(0)
    assert heap.memory_used_bytes() == 104


def test_an_object_arrives_at_its_reserved_place_with_its_contents(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_node(2)
    heap.write(0, 1, 1)
    heap.identity(0)
    heap.write_number(1, 3)
    heap.free(1)
    heap.collect_minor()
    assert heap.walk() == [[1, 1, 1, 1], [1, 3]]


def test_a_place_reserved_for_an_object_that_dies_is_freed_by_a_major_collection(
    heap: Heap,
) -> None:
    heap.allocate_node(1)
    heap.identity(0)
    heap.free(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 32
    heap.collect_full()
    assert heap.memory_used_bytes() == 0


@pytest.mark.parametrize("state", [State.MARKING, State.SWEEPING])
def test_an_identity_taken_in_the_middle_of_a_cycle_lasts(heap: Heap, state: State) -> None:
    heap.allocate_string(100)
    while heap.major.state is not state:
        heap.collect_step()
    heap.allocate_node(7)
    before = heap.identity(1)
    heap.collect_full()
    assert (heap.read_number(1), heap.identity(1)) == (7, before)


def test_a_number_written_after_the_identity_was_taken_is_kept(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.identity(0)
    heap.write_number(0, 9)
    heap.collect_minor()
    assert heap.read_number(0) == 9


# Pinned objects, whose future place waits for longer.


def allocate_pinned(heap: Heap) -> None:
    """Root 0 is a pinned string of 32 bytes."""
    heap.allocate_string(7)
    heap.pin(0)


@pytest.mark.parametrize("collections", [0, 1])
def test_a_pinned_object_keeps_its_identity_when_it_finally_moves(
    heap: Heap, collections: int
) -> None:
    allocate_pinned(heap)
    for _ in range(collections):
        heap.collect_minor()
    before = heap.identity(0)
    heap.collect_minor()
    assert heap.identity(0) == before
    heap.unpin(0)
    heap.collect_minor()
    assert (heap.roots[0].place, heap.identity(0)) == (OUTSIDE, before)


def test_an_identity_taken_before_pinning_stays(heap: Heap) -> None:
    heap.allocate_string(7)
    before = heap.identity(0)
    heap.pin(0)
    heap.collect_minor()
    assert heap.identity(0) == before


def test_an_identity_taken_between_unpinning_and_moving_stays(heap: Heap) -> None:
    allocate_pinned(heap)
    heap.collect_minor()
    heap.unpin(0)
    before = heap.identity(0)
    heap.collect_minor()
    assert (heap.roots[0].place, heap.identity(0)) == (OUTSIDE, before)


def test_a_pinned_object_reserves_one_place_however_long_it_stays(heap: Heap) -> None:
    allocate_pinned(heap)
    for _ in range(3):
        heap.identity(0)
        heap.collect_minor()
    heap.unpin(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 32


@pytest.mark.parametrize("length", [7, 30])
def test_no_major_collection_frees_the_place_of_a_pinned_object(heap: Heap, length: int) -> None:
    heap.allocate_string(length)
    heap.pin(0)
    before = heap.identity(0)
    size_bytes = heap.memory_used_bytes()
    heap.collect_full()
    heap.collect_full()
    heap.unpin(0)
    heap.collect_minor()
    assert heap.roots[0].place == OUTSIDE
    assert (heap.identity(0), heap.memory_used_bytes()) == (before, size_bytes)


@pytest.mark.parametrize("state", list(State))
def test_an_identity_of_a_pinned_object_taken_in_the_middle_of_a_cycle_lasts(
    heap: Heap, state: State
) -> None:
    allocate_pinned(heap)
    while heap.major.state is not state:
        heap.collect_step()
    before = heap.identity(0)
    heap.collect_full()
    heap.unpin(0)
    heap.collect_full()
    assert heap.roots[0].place == OUTSIDE
    assert (heap.identity(0), heap.memory_used_bytes()) == (before, 32)


@pytest.mark.parametrize("state", list(State))
def test_a_pinned_object_may_move_to_its_place_in_the_middle_of_a_cycle(
    heap: Heap, state: State
) -> None:
    allocate_pinned(heap)
    before = heap.identity(0)
    while heap.major.state is not state:
        heap.collect_step()
    heap.unpin(0)
    heap.collect_full()
    assert (heap.identity(0), heap.memory_used_bytes()) == (before, 32)


def test_the_place_of_a_pinned_object_that_died_is_freed_by_the_next_cycle(heap: Heap) -> None:
    allocate_pinned(heap)
    heap.identity(0)
    heap.collect_full()
    heap.collect_minor()
    heap.free(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 32
    heap.collect_full()
    assert heap.memory_used_bytes() == 0
