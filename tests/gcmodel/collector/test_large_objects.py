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


@pytest.mark.parametrize(("length", "card_bytes"), [(6, 8), (256, 8), (257, 16)])
def test_a_large_array_has_a_bit_for_each_card(heap: Heap, length: int, card_bytes: int) -> None:
    heap.allocate_array(length)
    assert heap.memory_used_bytes() == 16 + 8 * length + card_bytes


def test_without_card_marking_an_array_takes_only_its_size() -> None:
    heap = Heap(Configuration(card_items=0))
    heap.allocate_array(257)
    assert heap.memory_used_bytes() == 16 + 8 * 257


def test_visited_young_objects_become_old_and_the_others_are_freed(space: LargeObjects) -> None:
    objects = [an_object(flags=flags) for flags in (VISITED_YOUNG, 0, VISITED_YOUNG)]
    for obj in objects:
        space.add_young(obj)
    assert space.used_bytes == 3 * 104
    space.free_young("this one")
    assert (space.old, space.young) == ([objects[0], objects[2]], [])
    assert ([obj.flags for obj in objects], objects[1].place) == ([0, 0, 0], FREED)
    assert space.used_bytes == 2 * 104


def test_a_sweep_begins_at_the_end_and_whitens_visited_objects(space: LargeObjects) -> None:
    first, last = an_object(flags=VISITED), an_object()
    space.add_old(first)
    space.add_old(last)
    space.prepare_sweep("this one")
    assert space.used_bytes == 208  # Dead objects count until they are swept.
    space.sweep(1)
    assert (first.place, last.place, space.used_bytes) == (OUTSIDE, FREED, 104)
    space.sweep(5)
    assert (space.old, space.to_sweep, first.flags) == ([first], [], 0)


def test_an_object_that_becomes_old_during_a_sweep_is_not_swept(space: LargeObjects) -> None:
    space.add_old(an_object())
    space.prepare_sweep("this one")
    newcomer = an_object(48)
    space.add_old(newcomer)
    space.sweep(5)
    assert (space.old, space.used_bytes) == ([newcomer], 48)
