"""The write barrier: which objects the next minor collection will look at, and why that is enough.

The last part copies between arrays, in every case that the barrier distinguishes.
"""

import pytest

from gcmodel import Configuration, Heap
from gcmodel.collector.major import State

SMALL, LARGE = 4, 20
"""Items of an array that lies in the nursery first, and of one that lies outside, with cards."""


def allocate_old_arrays(heap: Heap, *lengths: int) -> None:
    for length in lengths:
        heap.allocate_array(length)
    heap.collect_minor()


def write_young_node(heap: Heap, root: int, index: int, number: int = 7) -> None:
    """A young node that only this item refers to."""
    heap.allocate_node(number)
    heap.write(root, index, len(heap.roots) - 1)
    heap.free(len(heap.roots) - 1)


def number_in(heap: Heap, root: int, index: int) -> int:
    """The number of the node in this item."""
    heap.read(root, index)
    number = heap.read_number(len(heap.roots) - 1)
    heap.free(len(heap.roots) - 1)
    return number


# Writes.


def test_an_old_object_that_is_written_is_remembered_once(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.write(0, 0, 0)
    heap.write(0, 1, 0)
    assert heap.barrier.remembered == [heap.roots[0]]


def test_a_young_object_that_is_written_is_not_remembered(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.write(0, 0, 0)
    assert heap.barrier.remembered == []


def test_a_minor_collection_forgets_what_was_remembered(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.write(0, 0, 0)
    heap.collect_minor()
    assert heap.barrier.remembered == []


def test_an_object_is_remembered_again_after_the_next_minor_collection(heap: Heap) -> None:
    allocate_old_arrays(heap, SMALL)
    for number in (1, 2):
        write_young_node(heap, 0, 0, number)
        heap.collect_minor()
        assert number_in(heap, 0, 0) == number


def test_a_write_into_a_large_array_makes_the_card_of_that_item_dirty(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE)
    for index in (3, 4, 7, 19):
        write_young_node(heap, 0, index)
    assert heap.roots[0].cards == {0, 1, 4}


def test_a_large_array_with_dirty_cards_is_listed_once_and_not_remembered(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE)
    for index in (0, 1, 8):
        heap.write(0, index, 0)
    assert heap.barrier.dirty_arrays == [heap.roots[0]]
    assert heap.barrier.remembered == []


@pytest.mark.parametrize("index", [0, 3, 4, LARGE - 1])
def test_a_young_object_on_a_dirty_card_survives(heap: Heap, index: int) -> None:
    allocate_old_arrays(heap, LARGE)
    write_young_node(heap, 0, index)
    heap.collect_minor()
    assert number_in(heap, 0, index) == 7


def test_a_short_last_card_ends_with_the_array(heap: Heap) -> None:
    allocate_old_arrays(heap, 10)
    write_young_node(heap, 0, 9)
    heap.collect_minor()
    assert number_in(heap, 0, 9) == 7


def test_a_minor_collection_cleans_the_cards(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE)
    write_young_node(heap, 0, 0)
    heap.collect_minor()
    assert (heap.roots[0].cards, heap.barrier.dirty_arrays) == (set(), [])


def test_a_cleaned_card_becomes_dirty_again(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE)
    for number in (1, 2):
        write_young_node(heap, 0, 0, number)
        heap.collect_minor()
        assert number_in(heap, 0, 0) == number


def test_the_configuration_says_how_many_items_a_card_has() -> None:
    heap = Heap(Configuration(card_items=32))
    allocate_old_arrays(heap, 100)
    for index in (31, 32, 99):
        write_young_node(heap, 0, index)
    assert heap.roots[0].cards == {0, 1, 3}


def test_without_card_marking_a_large_array_is_remembered_whole() -> None:
    heap = Heap(Configuration(card_items=0))
    allocate_old_arrays(heap, LARGE)
    write_young_node(heap, 0, 19)
    assert heap.barrier.remembered == [heap.roots[0]]
    heap.collect_minor()
    assert number_in(heap, 0, 19) == 7


def test_a_small_array_outside_has_no_cards(heap: Heap) -> None:
    heap.allocate_array(SMALL, nonmovable=True)
    heap.collect_minor()
    write_young_node(heap, 0, 3)
    assert heap.barrier.remembered == [heap.roots[0]]


def test_a_young_large_array_is_listed_when_it_becomes_old_only(heap: Heap) -> None:
    heap.allocate_array(LARGE)
    write_young_node(heap, 0, 8)
    assert (heap.roots[0].cards, heap.barrier.dirty_arrays) == ({2}, [])
    heap.collect_minor()
    assert number_in(heap, 0, 8) == 7


def test_a_dead_young_array_keeps_nothing_alive(heap: Heap) -> None:
    heap.allocate_array(LARGE)
    write_young_node(heap, 0, 8)
    heap.free(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 0


def test_a_prebuilt_object_becomes_a_root_with_its_first_write(heap_with_prebuilt: Heap) -> None:
    heap = heap_with_prebuilt
    heap.load_prebuilt(0)
    assert heap.barrier.prebuilt_roots == []
    for _ in range(2):
        write_young_node(heap, 0, 0)
        heap.collect_minor()
    assert heap.barrier.prebuilt_roots == [heap.prebuilt[0]]


def test_a_young_object_that_a_prebuilt_one_refers_to_survives(heap_with_prebuilt: Heap) -> None:
    heap = heap_with_prebuilt
    heap.load_prebuilt(0)
    write_young_node(heap, 0, 0)
    heap.collect_minor()
    assert number_in(heap, 0, 0) == 7


# Copies. Root 0 is the source, root 1 the destination.


def test_a_copy_into_a_young_array_needs_no_barrier(heap: Heap) -> None:
    allocate_old_arrays(heap, SMALL)
    write_young_node(heap, 0, 0)
    heap.allocate_array(SMALL)
    heap.copy_array(0, 1, 0, 0, SMALL)
    assert heap.barrier.remembered == [heap.roots[0]]


def test_a_copy_from_an_old_array_without_young_items_remembers_nothing(heap: Heap) -> None:
    allocate_old_arrays(heap, SMALL, SMALL)
    heap.copy_array(0, 1, 0, 0, SMALL)
    assert heap.barrier.remembered == []


def test_a_copy_from_a_remembered_array_remembers_the_destination(heap: Heap) -> None:
    allocate_old_arrays(heap, SMALL, SMALL)
    write_young_node(heap, 0, 0)
    heap.copy_array(0, 1, 0, 2, 1)
    heap.write(0, 0, None)
    heap.collect_minor()
    assert number_in(heap, 1, 2) == 7


@pytest.mark.parametrize("length", [SMALL, LARGE])
@pytest.mark.parametrize("card_items", [0, 4])
def test_a_copy_from_a_young_array_keeps_its_items_alive(length: int, card_items: int) -> None:
    heap = Heap(Configuration(card_items=card_items))
    allocate_old_arrays(heap, LARGE)
    heap.allocate_array(length)
    heap.roots.reverse()
    write_young_node(heap, 0, 3)
    heap.copy_array(0, 1, 0, 0, length)
    heap.free(0)
    heap.collect_minor()
    assert number_in(heap, 0, 3) == 7


def test_an_aligned_copy_between_large_arrays_makes_the_same_cards_dirty(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE, LARGE)
    write_young_node(heap, 0, 5)
    heap.copy_array(0, 1, 0, 0, LARGE)
    heap.write(0, 5, None)
    assert (heap.roots[1].cards, heap.barrier.remembered) == ({1}, [])
    heap.collect_minor()
    assert number_in(heap, 1, 5) == 7


def test_an_aligned_copy_adds_to_the_cards_that_are_dirty_already(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE, LARGE)
    write_young_node(heap, 0, 5)
    write_young_node(heap, 1, 19)
    heap.copy_array(0, 1, 0, 0, 8)
    assert heap.roots[1].cards == {1, 4}
    assert heap.barrier.dirty_arrays == heap.roots


@pytest.mark.parametrize(("item", "copied"), [(31, {7}), (32, set())])
def test_an_aligned_copy_copies_cards_by_the_byte(heap: Heap, item: int, copied: set[int]) -> None:
    allocate_old_arrays(heap, 2 * LARGE, 2 * LARGE)
    write_young_node(heap, 0, item)
    heap.copy_array(0, 1, 0, 0, 8)
    assert heap.roots[1].cards == copied
    assert heap.barrier.dirty_arrays == (heap.roots if copied else heap.roots[:1])


def test_a_card_beyond_the_end_of_the_destination_does_no_harm(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE, 8)
    write_young_node(heap, 0, LARGE - 1)
    heap.copy_array(0, 1, 0, 0, 8)
    assert heap.roots[1].cards == {4}
    heap.collect_minor()
    assert heap.roots[1].cards == set()


def test_an_aligned_copy_includes_a_dirty_card_that_is_copied_in_part(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE, LARGE)
    write_young_node(heap, 0, 8)
    heap.copy_array(0, 1, 0, 0, 9)
    heap.write(0, 8, None)
    heap.collect_minor()
    assert number_in(heap, 1, 8) == 7


@pytest.mark.parametrize(
    ("source_start", "dest_start", "length"), [(5, 0, 8), (0, 8, 8), (4, 4, 2)]
)
def test_a_copy_that_does_not_start_at_the_start_remembers_the_destination(
    heap: Heap, source_start: int, dest_start: int, length: int
) -> None:
    allocate_old_arrays(heap, LARGE, LARGE)
    write_young_node(heap, 0, 5)
    heap.copy_array(0, 1, source_start, dest_start, length)
    heap.write(0, 5, None)
    heap.collect_minor()
    assert number_in(heap, 1, 5 - source_start + dest_start) == 7


def test_a_copy_from_a_clean_large_array_remembers_nothing_wherever_it_starts(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE, LARGE)
    heap.copy_array(0, 1, 3, 1, 8)
    assert (heap.barrier.remembered, heap.barrier.dirty_arrays) == ([], [])


def test_a_copy_from_a_large_array_remembers_a_destination_without_cards(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE, SMALL)
    write_young_node(heap, 0, 1)
    heap.copy_array(0, 1, 0, 0, SMALL)
    heap.write(0, 1, None)
    heap.collect_minor()
    assert number_in(heap, 1, 1) == 7


def test_a_copy_from_a_remembered_large_array_remembers_the_destination(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE, LARGE, LARGE)
    write_young_node(heap, 0, 5)
    heap.copy_array(0, 2, 1, 0, 8)
    heap.roots[0], heap.roots[2] = heap.roots[2], heap.roots[0]
    heap.copy_array(0, 1, 0, 0, 8)
    heap.write(0, 4, None)
    heap.write(2, 5, None)
    heap.collect_minor()
    assert number_in(heap, 1, 4) == 7


def test_an_array_both_remembered_and_dirty_is_traced_whole(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE, LARGE)
    write_young_node(heap, 1, 19, 1)
    write_young_node(heap, 0, 5, 2)
    heap.copy_array(0, 1, 1, 0, 8)
    heap.collect_minor()
    assert (number_in(heap, 1, 4), number_in(heap, 1, 19)) == (2, 1)
    assert heap.roots[1].cards == set()


def test_a_young_large_array_that_was_remembered_survives_with_its_items(heap: Heap) -> None:
    heap.allocate_array(LARGE)
    heap.allocate_array(LARGE)
    write_young_node(heap, 0, 5)
    heap.copy_array(0, 1, 1, 0, 8)
    heap.free(0)
    heap.collect_minor()
    assert number_in(heap, 0, 4) == 7


def test_a_dead_young_array_that_was_remembered_keeps_nothing_alive(heap: Heap) -> None:
    heap.allocate_array(LARGE)
    heap.allocate_array(LARGE)
    write_young_node(heap, 0, 5)
    heap.copy_array(0, 1, 1, 0, 8)
    heap.roots.clear()
    heap.collect_minor()
    assert heap.memory_used_bytes() == 0


def test_a_copy_within_one_large_array_keeps_the_copied_items_alive(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE)
    write_young_node(heap, 0, 1)
    heap.copy_array(0, 0, 0, 2, 8)
    heap.write(0, 1, None)
    heap.collect_minor()
    assert number_in(heap, 0, 3) == 7


# Copies into prebuilt arrays, which lie at 2 and 3 of the prebuilt objects.


def test_a_copy_from_an_old_array_makes_an_untouched_prebuilt_one_a_root(
    heap_with_prebuilt: Heap,
) -> None:
    heap = heap_with_prebuilt
    heap.allocate_array(SMALL)
    write_young_node(heap, 0, 0)
    heap.collect_minor()
    heap.load_prebuilt(2)
    heap.copy_array(0, 1, 0, 0, SMALL)
    assert heap.barrier.prebuilt_roots == [heap.prebuilt[2]]
    heap.free(0)
    heap.collect_full()
    assert number_in(heap, 0, 0) == 7


def test_a_copy_from_a_young_array_makes_an_untouched_prebuilt_one_a_root(
    heap_with_prebuilt: Heap,
) -> None:
    heap = heap_with_prebuilt
    heap.allocate_array(SMALL)
    write_young_node(heap, 0, 0)
    heap.load_prebuilt(2)
    heap.copy_array(0, 1, 0, 0, SMALL)
    heap.free(0)
    heap.collect_full()
    assert number_in(heap, 0, 0) == 7


def test_a_copy_from_a_large_array_makes_an_untouched_prebuilt_one_a_root(
    heap_with_prebuilt: Heap,
) -> None:
    heap = heap_with_prebuilt
    heap.allocate_array(LARGE)
    write_young_node(heap, 0, 0)
    heap.collect_minor()
    heap.load_prebuilt(2)
    heap.copy_array(0, 1, 0, 0, SMALL)
    heap.free(0)
    heap.collect_full()
    assert number_in(heap, 0, 0) == 7


def test_a_copy_between_untouched_prebuilt_arrays_makes_neither_a_root(
    heap_with_prebuilt: Heap,
) -> None:
    heap = heap_with_prebuilt
    heap.load_prebuilt(2)
    heap.load_prebuilt(3)
    heap.copy_array(0, 1, 0, 0, SMALL)
    assert heap.barrier.prebuilt_roots == []


def test_a_copy_into_a_prebuilt_root_does_not_make_it_a_root_twice(
    heap_with_prebuilt: Heap,
) -> None:
    heap = heap_with_prebuilt
    heap.load_prebuilt(2)
    write_young_node(heap, 0, 0)
    heap.load_prebuilt(3)
    heap.collect_minor()
    for _ in range(2):
        heap.copy_array(0, 1, 0, 0, SMALL)
    assert heap.barrier.prebuilt_roots == [heap.prebuilt[2], heap.prebuilt[3]]


# Copies while marking: the destination is black, and the source is the only way to a white node.


@pytest.mark.parametrize("source_length", [SMALL, LARGE])
@pytest.mark.parametrize("dest_length", [SMALL, LARGE])
@pytest.mark.parametrize("start", [0, 1])
def test_a_copy_into_a_black_array_while_marking_loses_nothing(
    source_length: int, dest_length: int, start: int
) -> None:
    heap = Heap(Configuration(single_step_marking=True))
    heap.allocate_array(source_length)
    heap.allocate_array(dest_length)
    write_young_node(heap, 0, 1)
    heap.collect_step()
    heap.collect_step()
    heap.copy_array(0, 1, start, start, 3)
    heap.write(0, 1, None)
    while heap.major.state is not State.SCANNING:
        heap.collect_step()
    assert number_in(heap, 1, 1) == 7


def test_a_copy_from_a_clean_source_while_marking_remembers_the_destination(heap: Heap) -> None:
    allocate_old_arrays(heap, SMALL, SMALL)
    heap.collect_step()
    heap.copy_array(0, 1, 0, 0, SMALL)
    assert heap.barrier.remembered == [heap.roots[1]]


def test_a_copy_between_clean_large_arrays_while_marking_lists_the_destination(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE, LARGE)
    heap.collect_step()
    heap.copy_array(0, 1, 0, 0, LARGE)
    assert (heap.roots[1].cards, heap.barrier.dirty_arrays) == (set(), [heap.roots[1]])
