"""The minor collection: what survives, where it goes, and what happens to everything else."""

import pytest
from heap_steps import letters

from gcmodel import Configuration, DanglingReferenceError, Heap
from gcmodel.memory.objects import FREED, OUTSIDE


def test_a_survivor_moves_out_of_the_nursery_once_with_its_contents(heap: Heap) -> None:
    heap.allocate_node(41)
    young = heap.roots[0]
    heap.collect_minor()
    old = heap.roots[0]
    assert old is not young
    assert (old.place, heap.read_number(0)) == (OUTSIDE, 41)
    assert heap.allocate_node(2) == (32, 0)  # The nursery is free.
    heap.collect_minor()
    assert heap.roots[0] is old


def make_cycle(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_node(2)
    heap.write(0, 0, 1)
    heap.write(1, 0, 0)
    heap.free(1)


def test_an_unreachable_cycle_is_gone(heap: Heap) -> None:
    make_cycle(heap)
    heap.free(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 0


def test_a_cycle_survives_as_a_cycle(heap: Heap) -> None:
    make_cycle(heap)
    heap.collect_minor()
    assert heap.walk() == [[1, 1, 0, 1], [1, 2, 0, 0]]


def test_an_object_with_two_references_to_it_moves_once(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_array(2)
    heap.write(1, 0, 0)
    heap.write(1, 1, 0)
    heap.collect_minor()
    assert heap.read(1, 0) is heap.read(1, 1) is heap.roots[0]
    assert heap.memory_used_bytes() == 32 + 32


@pytest.mark.parametrize("is_reachable", [False, True])
def test_an_unreachable_old_object_keeps_young_ones_too(heap: Heap, is_reachable: bool) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.allocate_node(2)
    heap.write(0, 1, 1)
    heap.free(1)
    if not is_reachable:
        heap.free(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 64
    assert heap.walk() == [[1, 1, 1, 1], [1, 2]] * is_reachable


def test_a_long_chain_survives_whole(heap: Heap) -> None:
    heap.allocate_node(0)
    for number in range(1, 8):
        heap.allocate_node(number)
        heap.write(1, 0, 0)
        heap.free(0)
    heap.collect_minor()
    assert [row[1] for row in heap.walk()] == [7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_young_object_outside_survives_or_dies_in_place(heap: Heap, is_kept: bool) -> None:
    heap.allocate_string(100)
    large = heap.roots[0]
    if not is_kept:
        heap.free(0)
    heap.collect_minor()
    assert heap.roots == [large] * is_kept
    assert large.place == (OUTSIDE if is_kept else FREED)
    assert heap.memory_used_bytes() == 128 * is_kept


@pytest.mark.parametrize("card_items", [0, 4])
def test_the_items_of_a_young_array_outside_survive(card_items: int) -> None:
    heap = Heap(Configuration(card_items=card_items))
    heap.allocate_array(10)
    heap.allocate_node(5)
    heap.write(0, 9, 1)
    heap.free(1)
    heap.collect_minor()
    heap.read(0, 9)
    assert heap.read_number(1) == 5


def test_a_young_array_outside_in_two_roots_survives_once(heap: Heap) -> None:
    heap.allocate_array(10)
    heap.allocate_node(1)
    heap.write(1, 0, 0)
    heap.collect_minor()
    assert heap.large_objects.old == [heap.roots[0]]
    assert heap.major.made_old_bytes == 96 + 32


@pytest.mark.parametrize(("length", "arena_bytes"), [(3, 40), (4, 0)])
def test_a_survivor_of_at_most_40_bytes_goes_to_an_arena(
    heap: Heap, length: int, arena_bytes: int
) -> None:
    heap.allocate_array(length)
    heap.collect_minor()
    assert heap.arenas.used_bytes == arena_bytes
    assert heap.memory_used_bytes() == 16 + 8 * length


def test_surviving_bytes_are_the_last_collection_s_and_bytes_made_old_add_up(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_string(0)
    heap.allocate_string(100)
    heap.allocate_node(2)
    heap.free(3)
    for surviving_bytes in (32 + 32, 0):
        heap.collect_minor()
        assert heap.minor.surviving_bytes == surviving_bytes
        # These include what survives outside.
        assert heap.major.made_old_bytes == 32 + 32 + 128


def test_a_full_nursery_is_collected_before_the_next_object(heap: Heap) -> None:
    for number in range(9):
        placed = heap.allocate_node(number)
    assert (placed, letters(heap)) == ((32, 0), "M")


def test_a_root_that_was_not_updated_is_found(heap: Heap) -> None:
    heap.allocate_node(1)
    moved_away = heap.roots[0]
    heap.collect_minor()
    heap.roots.append(moved_away)
    heap.allocate_node(2)  # A collection without anything young looks for nothing young.
    with pytest.raises(DanglingReferenceError, match="the minor collection found"):
        heap.collect_minor()
