"""What survives a minor collection, where it goes, and what becomes of everything else."""

import pytest

from gcmodel import Configuration, DanglingReferenceError, Heap
from gcmodel.memory.objects import FREED, OUTSIDE


def test_an_object_in_a_root_survives_with_its_contents(heap: Heap) -> None:
    heap.allocate_node(41)
    heap.collect_minor()
    assert heap.read_number(0) == 41


def test_a_survivor_moves_out_of_the_nursery(heap: Heap) -> None:
    heap.allocate_node(1)
    young = heap.roots[0]
    heap.collect_minor()
    assert heap.roots[0] is not young
    assert heap.roots[0].place == OUTSIDE


def test_an_old_object_stays_where_it_is(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    old = heap.roots[0]
    heap.collect_minor()
    assert heap.roots[0] is old


def test_what_no_root_and_no_old_object_reaches_is_gone(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_node(2)
    heap.write(0, 0, 1)
    heap.write(1, 0, 0)
    heap.free(1)
    heap.free(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 0


def test_a_cycle_survives_as_a_cycle(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_node(2)
    heap.write(0, 0, 1)
    heap.write(1, 0, 0)
    heap.free(1)
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


def test_an_object_that_only_an_old_one_refers_to_survives(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.allocate_node(2)
    heap.write(0, 1, 1)
    heap.free(1)
    heap.collect_minor()
    heap.read(0, 1)
    assert heap.read_number(1) == 2


def test_an_unreachable_old_object_keeps_young_ones_alive(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.allocate_node(2)
    heap.write(0, 0, 1)
    heap.free(1)
    heap.free(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 64


def test_a_long_chain_survives_whole(heap: Heap) -> None:
    heap.allocate_node(0)
    for number in range(1, 8):
        heap.allocate_node(number)
        heap.write(1, 0, 0)
        heap.free(0)
    heap.collect_minor()
    assert [row[1] for row in heap.walk()] == [7, 6, 5, 4, 3, 2, 1, 0]


def test_a_young_object_outside_survives_in_place(heap: Heap) -> None:
    heap.allocate_string(100)
    large = heap.roots[0]
    heap.collect_minor()
    assert heap.roots == [large]
    assert heap.read_number(0) == 100


def test_an_unreachable_young_object_outside_is_freed(heap: Heap) -> None:
    heap.allocate_string(100)
    large = heap.roots[0]
    heap.free(0)
    heap.collect_minor()
    assert (large.place, heap.memory_used_bytes()) == (FREED, 0)


@pytest.mark.parametrize("card_items", [0, 4])
def test_what_a_young_array_outside_refers_to_survives(card_items: int) -> None:
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


def test_the_surviving_bytes_are_those_moved_out_of_the_nursery(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_string(0)
    heap.allocate_string(100)
    heap.allocate_node(2)
    heap.free(3)
    heap.collect_minor()
    assert heap.minor.surviving_bytes == 32 + 32


def test_the_surviving_bytes_are_those_of_the_last_collection_only(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.collect_minor()
    assert heap.minor.surviving_bytes == 0


def test_the_bytes_made_old_add_up_and_include_those_outside(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.allocate_string(100)
    heap.collect_minor()
    assert heap.major.made_old_bytes == 32 + 128


def test_afterwards_the_nursery_is_free(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    assert heap.allocate_node(2) == (32, 0)


def test_a_full_nursery_is_collected_before_the_next_object(heap: Heap) -> None:
    for number in range(9):
        placed = heap.allocate_node(number)
    assert (placed, heap.events.take()[0]) == ((32, 0), "M")


def test_a_root_that_was_not_updated_is_found(heap: Heap) -> None:
    heap.allocate_node(1)
    moved_away = heap.roots[0]
    heap.collect_minor()
    heap.roots.append(moved_away)
    heap.allocate_node(2)  # Where nothing is young, a collection looks for nothing young.
    with pytest.raises(DanglingReferenceError, match="the minor collection found"):
        heap.collect_minor()
