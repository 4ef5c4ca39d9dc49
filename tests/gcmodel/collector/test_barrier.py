"""The write barrier: which objects the next minor collection traces, and why that is enough.

The last part copies between arrays, in every case that the barrier distinguishes.
"""

from collections.abc import Callable

import pytest
from heap_steps import finish_cycle

from gcmodel import Configuration, Heap

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
    heap.write(0, 0, 0)
    assert heap.barrier.remembered == []  # It is young.
    heap.collect_minor()
    heap.write(0, 0, 0)
    heap.write(0, 1, 0)
    assert heap.barrier.remembered == [heap.roots[0]]
    heap.collect_minor()
    assert heap.barrier.remembered == []


@pytest.mark.parametrize(("length", "index"), [(SMALL, 0), (LARGE, 3)])
def test_an_object_is_remembered_after_each_collection(heap: Heap, length: int, index: int) -> None:
    allocate_old_arrays(heap, length)
    for number in (1, 2):
        write_young_node(heap, 0, index, number)
        heap.collect_minor()
        assert number_in(heap, 0, index) == number


@pytest.mark.parametrize(
    ("card_items", "length", "indices", "cards"),
    [
        (4, LARGE, (3, 4, 7, 19), {0, 1, 4}),
        (4, 10, (9,), {2}),  # The last card is short.
        (32, 100, (31, 32, 99), {0, 1, 3}),
    ],
)
def test_a_write_into_a_large_array_makes_the_card_of_that_item_dirty(
    card_items: int, length: int, indices: tuple[int, ...], cards: set[int]
) -> None:
    heap = Heap(Configuration(card_items=card_items))
    allocate_old_arrays(heap, length)
    for index in indices:
        write_young_node(heap, 0, index)
    assert heap.roots[0].cards == cards
    assert (heap.barrier.dirty_arrays, heap.barrier.remembered) == ([heap.roots[0]], [])
    heap.collect_minor()
    assert [number_in(heap, 0, index) for index in indices] == [7] * len(indices)
    assert (heap.roots[0].cards, heap.barrier.dirty_arrays) == (set(), [])


@pytest.mark.parametrize(
    ("card_items", "length", "nonmovable"), [(0, LARGE, False), (4, SMALL, True)]
)
def test_an_array_without_cards_is_whole(card_items: int, length: int, nonmovable: bool) -> None:
    heap = Heap(Configuration(card_items=card_items))
    heap.allocate_array(length, nonmovable)
    heap.collect_minor()
    write_young_node(heap, 0, length - 1)
    assert heap.barrier.remembered == [heap.roots[0]]
    heap.collect_minor()
    assert number_in(heap, 0, length - 1) == 7


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_young_large_array_is_listed_only_when_it_becomes_old(heap: Heap, is_kept: bool) -> None:
    heap.allocate_array(LARGE)
    write_young_node(heap, 0, 8)
    assert (heap.roots[0].cards, heap.barrier.dirty_arrays) == ({2}, [])
    if is_kept:
        heap.collect_minor()
        assert number_in(heap, 0, 8) == 7
    else:
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
        assert number_in(heap, 0, 0) == 7
    assert heap.barrier.prebuilt_roots == [heap.prebuilt[0]]


# Copies. Root 0 is the source, root 1 the destination.


def test_a_copy_into_a_young_array_needs_no_barrier(heap: Heap) -> None:
    allocate_old_arrays(heap, SMALL)
    write_young_node(heap, 0, 0)
    heap.allocate_array(SMALL)
    heap.copy_array(0, 1, 0, 0, SMALL)
    assert heap.barrier.remembered == [heap.roots[0]]


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_a_copy_from_a_clean_old_array_remembers_nothing(heap: Heap, length: int) -> None:
    allocate_old_arrays(heap, length, length)
    heap.copy_array(0, 1, 2, 1, 2)
    assert (heap.barrier.remembered, heap.barrier.dirty_arrays) == ([], [])


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


@pytest.mark.parametrize(
    ("lengths", "item", "copy"),
    [
        pytest.param((SMALL, SMALL), 0, (0, 2, 1), id="small"),
        pytest.param((LARGE, SMALL), 1, (0, 0, SMALL), id="large to small"),
        pytest.param((LARGE, LARGE), 5, (0, 0, LARGE), id="aligned"),
        pytest.param((LARGE, LARGE), 8, (0, 0, 9), id="a card copied in part"),
        pytest.param((LARGE, LARGE), 5, (5, 0, 8), id="source misaligned"),
        pytest.param((LARGE, LARGE), 5, (0, 8, 8), id="destination misaligned"),
        pytest.param((LARGE, LARGE), 5, (4, 4, 2), id="both in the middle"),
    ],
)
def test_a_young_node_that_was_copied_from_an_old_array_survives(
    heap: Heap, lengths: tuple[int, int], item: int, copy: tuple[int, int, int]
) -> None:
    allocate_old_arrays(heap, *lengths)
    write_young_node(heap, 0, item)
    heap.copy_array(0, 1, *copy)
    heap.write(0, item, None)
    heap.collect_minor()
    assert number_in(heap, 1, item - copy[0] + copy[1]) == 7


def test_a_copy_within_one_large_array_keeps_the_copied_items_alive(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE)
    write_young_node(heap, 0, 1)
    heap.copy_array(0, 0, 0, 2, 8)
    heap.write(0, 1, None)
    heap.collect_minor()
    assert number_in(heap, 0, 3) == 7


@pytest.mark.parametrize(
    ("dirty", "dest_dirty", "length", "cards"),
    [
        (5, None, LARGE, {1}),
        (5, 19, 8, {1, 4}),
        # Cards are copied by the byte, which has 32 items.
        (31, None, 8, {7}),
        (32, None, 8, set()),
    ],
)
def test_an_aligned_copy_makes_the_same_cards_dirty(
    heap: Heap, dirty: int, dest_dirty: int | None, length: int, cards: set[int]
) -> None:
    allocate_old_arrays(heap, 2 * LARGE, 2 * LARGE)
    write_young_node(heap, 0, dirty)
    if dest_dirty is not None:
        write_young_node(heap, 1, dest_dirty)
    heap.copy_array(0, 1, 0, 0, length)
    assert (heap.roots[1].cards, heap.barrier.remembered) == (cards, [])
    assert heap.barrier.dirty_arrays == (heap.roots if cards else heap.roots[:1])


def test_a_card_beyond_the_end_of_the_destination_does_no_harm(heap: Heap) -> None:
    allocate_old_arrays(heap, LARGE, 8)
    write_young_node(heap, 0, LARGE - 1)
    heap.copy_array(0, 1, 0, 0, 8)
    assert heap.roots[1].cards == {4}
    heap.collect_minor()
    assert heap.roots[1].cards == set()


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


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_remembered_young_array_lives_or_dies_with_its_items(heap: Heap, is_kept: bool) -> None:
    heap.allocate_array(LARGE)
    heap.allocate_array(LARGE)
    write_young_node(heap, 0, 5)
    heap.copy_array(0, 1, 1, 0, 8)
    heap.free(0)
    if is_kept:
        heap.collect_minor()
        assert number_in(heap, 0, 4) == 7
    else:
        heap.free(0)
        heap.collect_minor()
        assert heap.memory_used_bytes() == 0


# Copies into prebuilt arrays, which are 2 and 3 of the prebuilt objects.


@pytest.mark.parametrize("length", [SMALL, LARGE])
@pytest.mark.parametrize("collect", [Heap.collect_minor, lambda heap: None], ids=["old", "young"])
def test_a_copy_makes_an_untouched_prebuilt_array_a_root(
    heap_with_prebuilt: Heap, length: int, collect: Callable[[Heap], None]
) -> None:
    heap = heap_with_prebuilt
    heap.allocate_array(length)
    write_young_node(heap, 0, 0)
    collect(heap)
    heap.load_prebuilt(2)
    heap.copy_array(0, 1, 0, 0, SMALL)
    assert heap.barrier.prebuilt_roots == [heap.roots[1]]
    heap.free(0)
    heap.collect_full()
    assert number_in(heap, 0, 0) == 7


def test_a_copy_between_prebuilt_arrays_makes_neither_a_root(heap_with_prebuilt: Heap) -> None:
    heap = heap_with_prebuilt
    heap.load_prebuilt(2)
    heap.load_prebuilt(3)
    heap.copy_array(0, 1, 0, 0, SMALL)
    assert heap.barrier.prebuilt_roots == []


def test_a_copy_makes_no_prebuilt_root_a_root_twice(heap_with_prebuilt: Heap) -> None:
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
def test_copying_while_marking_is_safe(source_length: int, dest_length: int, start: int) -> None:
    heap = Heap(Configuration(single_step_marking=True))
    heap.allocate_array(source_length)
    heap.allocate_array(dest_length)
    write_young_node(heap, 0, 1)
    heap.collect_step()
    heap.collect_step()
    heap.copy_array(0, 1, start, start, 3)
    heap.write(0, 1, None)
    finish_cycle(heap)
    assert number_in(heap, 1, 1) == 7


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_a_copy_from_a_clean_source_lists_the_destination(heap: Heap, length: int) -> None:
    allocate_old_arrays(heap, length, length)
    heap.collect_step()
    heap.copy_array(0, 1, 0, 0, length)
    lists = heap.barrier.remembered, heap.barrier.dirty_arrays
    assert lists == (([heap.roots[1]], []) if length == SMALL else ([], [heap.roots[1]]))
