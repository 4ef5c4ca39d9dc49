"""The space outside the nursery and the arenas: its bytes, its young objects and its sweep."""

import pytest

from gcmodel import Configuration, Heap, Kind
from gcmodel.collector.large_objects import LargeObjects
from gcmodel.memory.objects import FREED, OUTSIDE, VISITED, VISITED_YOUNG, Object


@pytest.fixture
def space() -> LargeObjects:
    return LargeObjects(Configuration(card_items=4))


def an_object(size_bytes: int = 104, flags: int = 0) -> Object:
    obj = Object(Kind.STRING, OUTSIDE, size_bytes, 0, [])
    obj.flags = flags
    return obj


def test_a_young_object_counts_at_once(space: LargeObjects) -> None:
    space.add_young(an_object(104))
    assert space.used_bytes == 104


def test_an_object_moved_here_is_old_and_counts(space: LargeObjects) -> None:
    obj = an_object(48)
    space.add_old(obj)
    assert (space.old, space.young, space.used_bytes) == ([obj], [], 48)


@pytest.mark.parametrize(("length", "card_bytes"), [(6, 8), (256, 8), (257, 16)])
def test_the_card_marks_of_a_large_array_take_one_bit_a_card(
    heap: Heap, length: int, card_bytes: int
) -> None:
    heap.allocate_array(length)
    assert heap.memory_used_bytes() == 16 + 8 * length + card_bytes


def test_without_card_marking_an_array_takes_no_more_than_its_size() -> None:
    heap = Heap(Configuration(card_items=0))
    heap.allocate_array(257)
    assert heap.memory_used_bytes() == 16 + 8 * 257


def test_a_string_outside_takes_whole_words(heap: Heap) -> None:
    heap.allocate_string(76)
    assert heap.memory_used_bytes() == 104


def test_the_memory_of_a_dead_array_is_freed_with_its_card_marks(heap: Heap) -> None:
    heap.allocate_array(257)
    heap.free(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 0


def test_young_objects_that_were_not_visited_are_freed(space: LargeObjects) -> None:
    obj = an_object()
    space.add_young(obj)
    space.free_young("this one")
    assert (obj.place, space.used_bytes, space.old, space.young) == (FREED, 0, [], [])


def test_young_objects_that_were_visited_become_old_in_their_order(space: LargeObjects) -> None:
    objects = [an_object(flags=VISITED_YOUNG) for _ in range(3)]
    for obj in objects:
        space.add_young(obj)
    space.free_young("this one")
    assert (space.old, space.young, [obj.flags for obj in objects]) == (objects, [], [0, 0, 0])


def test_a_sweep_meets_the_last_object_first(space: LargeObjects) -> None:
    first, last = an_object(), an_object()
    space.add_old(first)
    space.add_old(last)
    space.prepare_sweep("this one")
    space.sweep(1)
    assert (first.place, last.place, space.used_bytes) == (OUTSIDE, FREED, 104)


def test_a_sweep_keeps_what_was_visited_and_makes_it_white(space: LargeObjects) -> None:
    obj = an_object(flags=VISITED)
    space.add_old(obj)
    space.prepare_sweep("this one")
    space.sweep(5)
    assert (space.old, space.to_sweep, obj.flags) == ([obj], [], 0)


def test_an_object_that_becomes_old_during_a_sweep_is_not_swept(space: LargeObjects) -> None:
    space.add_old(an_object())
    space.prepare_sweep("this one")
    newcomer = an_object(48)
    space.add_old(newcomer)
    space.sweep(5)
    assert (space.old, space.used_bytes) == ([newcomer], 48)


def test_dead_objects_count_until_they_are_swept(space: LargeObjects) -> None:
    space.add_old(an_object(104))
    space.prepare_sweep("this one")
    assert space.used_bytes == 104
