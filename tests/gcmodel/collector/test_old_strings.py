"""Strings that are old from the start: only a major collection frees them."""

import pytest

from gcmodel import Configuration, Heap, Kind
from gcmodel.collector.major import State
from gcmodel.memory.objects import FREED, OUTSIDE

REPORT_OUTSIDE, REPORT_SURVIVED = 2, 1


def finish_cycle(heap: Heap) -> None:
    while heap.major.state is not State.SCANNING:
        heap.collect_step()


@pytest.mark.parametrize("length", [1, 76])
def test_an_old_string_is_counted_unrounded_and_has_no_address(heap: Heap, length: int) -> None:
    assert heap.allocate_old_string(length) == (25 + length, None)


@pytest.mark.parametrize(("length", "size_bytes"), [(1, 32), (76, 104)])
def test_an_old_string_takes_whole_words_outside_the_arenas(
    heap: Heap, length: int, size_bytes: int
) -> None:
    heap.allocate_old_string(length)
    assert (heap.large_objects.used_bytes, heap.arenas.used_bytes) == (size_bytes, 0)


def test_an_old_string_never_moves(heap: Heap) -> None:
    heap.allocate_old_string(1)
    obj = heap.roots[0]
    heap.collect_minor()
    heap.collect_full()
    assert heap.roots == [obj]
    assert heap.read_number(0) == 1


def test_an_unreachable_old_string_survives_minor_collections(heap: Heap) -> None:
    heap.allocate_old_string(76)
    obj = heap.roots.pop()
    heap.collect_minor()
    heap.collect_minor()
    assert (obj.place, heap.memory_used_bytes()) == (OUTSIDE, 104)


def test_an_unreachable_old_string_is_freed_by_a_full_collection(heap: Heap) -> None:
    heap.allocate_old_string(76)
    obj = heap.roots.pop()
    heap.collect_full()
    assert (obj.place, heap.memory_used_bytes()) == (FREED, 0)


def test_an_old_string_is_none_of_the_bytes_that_a_minor_collection_made_old(heap: Heap) -> None:
    heap.allocate_old_string(76)
    heap.collect_minor()
    assert (heap.minor.surviving_bytes, heap.major.made_old_bytes) == (0, 0)


def test_an_old_string_that_passes_the_threshold_collects_before_it_is_allocated(
    heap: Heap,
) -> None:
    heap.allocate_old_string(600 - 25)
    assert heap.events.take()[0] == ""
    heap.free(0)
    heap.allocate_old_string(600 - 25)
    assert heap.events.take()[0].startswith("M")
    assert heap.memory_used_bytes() == 600


def test_an_old_string_that_a_young_object_refers_to_is_reachable(heap: Heap) -> None:
    heap.allocate_old_string(76)
    heap.allocate_node(1)
    heap.write(1, 0, 0)
    heap.free(0)
    heap.collect_full()
    assert heap.walk() == [[Kind.NODE, 1, 0, 1], [Kind.STRING, 76]]


@pytest.mark.parametrize("state", [State.MARKING, State.SWEEPING])
def test_an_old_string_allocated_in_the_middle_of_a_cycle_is_not_lost(
    heap: Heap, state: State
) -> None:
    heap.allocate_string(100)
    while heap.major.state is not state:
        heap.collect_step()
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


def test_the_identity_of_an_old_string_takes_no_memory(heap: Heap) -> None:
    heap.allocate_old_string(7)
    before = heap.identity(0)
    heap.collect_full()
    assert (heap.identity(0), heap.memory_used_bytes()) == (before, 32)


def test_a_weak_reference_to_an_old_string_is_cleared_by_a_full_collection_only(heap: Heap) -> None:
    heap.allocate_old_string(7)
    heap.allocate_weakref(0)
    heap.free(0)
    heap.collect_minor()
    assert heap.is_weakref_alive(0)
    heap.collect_full()
    assert not heap.is_weakref_alive(0)


# Sampling.


def test_an_old_string_brings_the_sample_point_nearer_by_its_unrounded_size(heap: Heap) -> None:
    heap.enable_sampling(1024)
    heap.allocate_old_string(101 - 25)
    assert heap.sampling.sample_point == 1024 - 101


def test_an_old_string_that_uses_up_the_distance_exactly_is_not_sampled(heap: Heap) -> None:
    heap.enable_sampling(104)
    heap.allocate_old_string(104 - 25)
    assert (heap.events.take()[0], heap.sampling.sample_point) == ("", 0)


def test_an_old_string_is_sampled_as_often_as_it_passes_a_sample_point(heap: Heap) -> None:
    heap.enable_sampling(16)
    heap.allocate_old_string(100 - 25)
    assert (heap.events.take()[0], heap.sampling.pending) == ("ssssss", heap.roots * 6)


@pytest.mark.parametrize("kept", [False, True])
def test_an_old_string_is_reported_as_surviving_outside_whether_reachable_or_not(
    heap: Heap, kept: bool
) -> None:
    heap.enable_sampling(64)
    heap.allocate_old_string(100 - 25)
    if not kept:
        heap.free(0)
    heap.collect_minor()
    [report] = heap.events.take()[1]
    assert report.entries == [Kind.STRING << 2 | REPORT_OUTSIDE | REPORT_SURVIVED]


def test_an_old_string_is_reported_once(heap: Heap) -> None:
    heap.enable_sampling(64)
    heap.allocate_old_string(100 - 25)
    heap.collect_minor()
    heap.events.take()
    heap.free(0)
    heap.collect_full()
    assert heap.events.take()[1] == []
