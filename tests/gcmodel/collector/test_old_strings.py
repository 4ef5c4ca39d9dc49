"""Strings that are old from the start: only a major collection frees them."""

import pytest
from heap_steps import (
    OUTSIDE_NURSERY,
    SURVIVED,
    finish_cycle,
    letters,
    reported,
    sample_point_of,
    step_until,
)

from gcmodel import Configuration, Heap, Kind
from gcmodel.collector.major import State
from gcmodel.memory.objects import FREED, OUTSIDE


@pytest.mark.parametrize(("length", "size_bytes"), [(1, 32), (76, 104)])
def test_an_old_string_is_counted_unrounded(heap: Heap, length: int, size_bytes: int) -> None:
    assert heap.allocate_old_string(length) == (25 + length, None)
    assert (heap.large_objects.used_bytes, heap.arenas.used_bytes) == (size_bytes, 0)


def test_a_reachable_old_string_never_moves(heap: Heap) -> None:
    heap.allocate_old_string(76)
    obj = heap.roots[0]
    heap.allocate_node(1)
    heap.write(1, 0, 0)
    heap.free(0)
    heap.collect_minor()
    heap.collect_full()
    assert heap.read(0, 0) is obj
    assert heap.walk() == [[Kind.NODE, 1, 0, 1], [Kind.STRING, 76]]


def test_only_a_major_collection_frees_an_unreachable_old_string(heap: Heap) -> None:
    heap.allocate_old_string(76)
    obj = heap.roots.pop()
    heap.collect_minor()
    heap.collect_minor()
    assert (obj.place, heap.memory_used_bytes()) == (OUTSIDE, 104)
    # It is not part of what a minor collection made old.
    assert (heap.minor.surviving_bytes, heap.major.made_old_bytes) == (0, 0)
    heap.collect_full()
    assert (obj.place, heap.memory_used_bytes()) == (FREED, 0)


def test_an_old_string_collects_before_it_passes_the_threshold(heap: Heap) -> None:
    heap.allocate_old_string(600 - 25)
    assert letters(heap) == ""
    heap.free(0)
    heap.allocate_old_string(600 - 25)
    assert letters(heap).startswith("M")
    assert heap.memory_used_bytes() == 600


@pytest.mark.parametrize("state", [State.MARKING, State.SWEEPING])
def test_an_old_string_allocated_within_a_cycle_is_not_lost(heap: Heap, state: State) -> None:
    heap.allocate_string(100)
    step_until(heap, state)
    heap.allocate_old_string(7)
    finish_cycle(heap)
    assert heap.read_number(1) == 7


def test_an_old_string_stored_in_a_black_object_is_not_lost() -> None:
    heap = Heap(Configuration(single_step_marking=True))
    heap.allocate_node(1)
    heap.allocate_node(2)
    heap.collect_step()
    heap.collect_step()
    heap.allocate_old_string(7)
    heap.write(1, 0, 2)
    heap.free(2)
    finish_cycle(heap)
    heap.read(1, 0)
    assert heap.read_number(2) == 7


def test_only_a_full_collection_clears_a_weak_reference_to_an_old_string(heap: Heap) -> None:
    heap.allocate_old_string(7)
    heap.allocate_weakref(0)
    heap.free(0)
    heap.collect_minor()
    assert heap.is_weakref_alive(0)
    heap.collect_full()
    assert not heap.is_weakref_alive(0)


# Sampling.


@pytest.mark.parametrize(
    ("period_bytes", "count", "sample_point"), [(1024, 0, 920), (104, 0, 0), (16, 6, 8)]
)
def test_an_old_string_is_sampled_by_its_unrounded_size(
    heap: Heap, period_bytes: int, count: int, sample_point: int
) -> None:
    heap.enable_sampling(period_bytes)
    heap.allocate_old_string(104 - 25)
    assert (letters(heap), heap.sampling.pending) == ("s" * count, heap.roots * count)
    assert sample_point_of(heap) == sample_point


@pytest.mark.parametrize("kept", [False, True])
def test_an_old_string_is_reported_once_as_surviving_outside(heap: Heap, kept: bool) -> None:
    heap.enable_sampling(64)
    heap.allocate_old_string(100 - 25)
    if not kept:
        heap.free(0)
    heap.collect_minor()
    assert reported(heap) == [Kind.STRING << 2 | OUTSIDE_NURSERY | SURVIVED]
    heap.roots.clear()
    heap.collect_full()
    assert heap.events.take()[1] == []
