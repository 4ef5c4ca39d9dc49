"""Weak references: cleared exactly when their object dies, and no earlier."""

from collections.abc import Callable

import pytest

from gcmodel import Configuration, Heap
from gcmodel.collector.major import State


def allocate_weakly(heap: Heap) -> None:
    """Root 0 is a node, root 1 a weak reference to it."""
    heap.allocate_node(1)
    heap.allocate_weakref(0)


def test_a_weak_reference_to_a_surviving_object_follows_it(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.collect_minor()
    assert heap.is_weakref_alive(1)
    assert heap.roots[1].target is heap.roots[0]


def test_an_object_lives_until_a_collection_finds_it_dead(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.free(0)
    assert heap.is_weakref_alive(0)


def test_a_weak_reference_keeps_no_young_object_alive(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.free(0)
    heap.collect_minor()
    assert not heap.is_weakref_alive(0)


def test_a_weak_reference_keeps_no_old_object_alive(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.collect_minor()
    heap.free(0)
    heap.collect_full()
    assert not heap.is_weakref_alive(0)
    assert heap.memory_used_bytes() == 16


def test_a_minor_collection_clears_no_weak_reference_to_an_old_object(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.allocate_weakref(0)
    heap.free(0)
    heap.collect_minor()
    assert heap.is_weakref_alive(0)


def test_full_collections_keep_a_weak_reference_to_a_reachable_object(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.collect_full()
    heap.collect_full()
    assert heap.is_weakref_alive(1)


def test_an_old_weak_reference_is_cleared_in_a_later_cycle_than_it_was_kept_in(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.collect_full()
    heap.free(0)
    heap.collect_full()
    assert not heap.is_weakref_alive(0)


def test_old_weak_references_are_cleared_when_marking_ends(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.collect_minor()
    heap.free(0)
    heap.collect_step()
    assert heap.is_weakref_alive(0)
    heap.collect_step()
    assert heap.major.state is State.SWEEPING
    assert not heap.is_weakref_alive(0)


@pytest.mark.parametrize("kept", [False, True])
def test_a_weak_reference_to_a_young_object_outside_lives_as_long_as_it(
    heap: Heap, kept: bool
) -> None:
    heap.allocate_string(100)
    heap.allocate_weakref(0)
    if not kept:
        heap.free(0)
    heap.collect_minor()
    assert heap.is_weakref_alive(len(heap.roots) - 1) is kept


def test_a_dead_young_weak_reference_is_forgotten(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.free(1)
    heap.collect_minor()
    assert (heap.weakrefs.young, heap.weakrefs.old) == ([], [])


def test_a_dead_old_weak_reference_is_forgotten(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.collect_minor()
    heap.free(1)
    heap.collect_full()
    assert heap.weakrefs.old == []


def test_a_cleared_weak_reference_is_forgotten(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.free(0)
    heap.collect_minor()
    assert (heap.weakrefs.young, heap.weakrefs.old) == ([], [])


def test_a_weak_reference_to_a_weak_reference_outlives_it(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.allocate_weakref(1)
    heap.free(1)
    heap.collect_minor()
    assert not heap.is_weakref_alive(1)


@pytest.mark.parametrize("written", [False, True])
def test_a_weak_reference_to_a_prebuilt_object_is_never_cleared(written: bool) -> None:
    heap = Heap(Configuration(prebuilt_nodes=1))
    heap.load_prebuilt(0)
    if written:
        heap.write(0, 0, 0)
    heap.allocate_weakref(0)
    heap.free(0)
    heap.collect_full()
    heap.collect_full()
    assert heap.is_weakref_alive(0)


def test_two_weak_references_to_one_object_are_cleared_together(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.allocate_weakref(0)
    heap.free(0)
    heap.collect_minor()
    assert (heap.is_weakref_alive(0), heap.is_weakref_alive(1)) == (False, False)


def test_a_weak_reference_follows_an_object_to_the_place_its_identity_reserved(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.identity(0)
    heap.collect_minor()
    assert heap.roots[1].target is heap.roots[0]


def test_a_weak_reference_whose_identity_was_taken_still_refers_to_its_object(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.identity(1)
    heap.collect_minor()
    assert heap.roots[1].target is heap.roots[0]


def test_what_a_weak_reference_refers_to_is_no_part_of_the_walked_graph(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.free(0)
    assert heap.walk() == [[2, 0]]


# Weak references to pinned objects.


def allocate_weakly_pinned(heap: Heap) -> None:
    """Root 0 is a pinned string, root 1 a weak reference to it, which is old."""
    heap.allocate_string(7)
    heap.pin(0)
    heap.allocate_weakref(0)
    heap.collect_minor()


@pytest.mark.parametrize("collect", [Heap.collect_minor, Heap.collect_full])
def test_a_weak_reference_to_a_pinned_object_stays_while_that_is_kept(
    heap: Heap, collect: Callable[[Heap], None]
) -> None:
    allocate_weakly_pinned(heap)
    for _ in range(2):
        collect(heap)
        assert heap.is_weakref_alive(1)
        assert heap.roots[1].target is heap.roots[0]


def test_a_weak_reference_keeps_no_pinned_object_alive(heap: Heap) -> None:
    allocate_weakly_pinned(heap)
    heap.free(0)
    assert heap.is_weakref_alive(0)
    heap.collect_minor()
    assert not heap.is_weakref_alive(0)
    assert heap.nursery.memory == {}


def test_a_young_weak_reference_to_a_pinned_object_that_dies_is_cleared(heap: Heap) -> None:
    heap.allocate_string(7)
    heap.pin(0)
    heap.allocate_weakref(0)
    heap.free(0)
    heap.collect_minor()
    assert not heap.is_weakref_alive(0)


def test_a_weak_reference_follows_a_pinned_object_when_it_moves(heap: Heap) -> None:
    allocate_weakly_pinned(heap)
    heap.unpin(0)
    heap.collect_minor()
    assert heap.is_weakref_alive(1)
    assert heap.roots[1].target is heap.roots[0]


def test_a_weak_reference_to_an_unpinned_object_that_dies_is_cleared(heap: Heap) -> None:
    allocate_weakly_pinned(heap)
    heap.unpin(0)
    heap.free(0)
    heap.collect_minor()
    assert not heap.is_weakref_alive(0)


def test_a_weak_reference_to_an_object_that_was_pinned_is_cleared_by_a_full_collection(
    heap: Heap,
) -> None:
    allocate_weakly_pinned(heap)
    heap.unpin(0)
    heap.collect_minor()
    heap.free(0)
    heap.collect_full()
    assert not heap.is_weakref_alive(0)


def test_a_young_weak_reference_that_dies_while_its_object_is_pinned_is_forgotten(
    heap: Heap,
) -> None:
    heap.allocate_string(7)
    heap.pin(0)
    heap.allocate_weakref(0)
    heap.free(1)
    heap.collect_minor()
    assert (heap.weakrefs.young, heap.weakrefs.old) == ([], [])


def test_an_old_weak_reference_that_dies_while_its_object_is_pinned_is_forgotten(
    heap: Heap,
) -> None:
    allocate_weakly_pinned(heap)
    heap.free(1)
    heap.collect_full()
    heap.collect_minor()
    assert (heap.weakrefs.young, heap.weakrefs.old) == ([], [])
    assert heap.memory_used_bytes() == 0


def test_a_dead_weak_reference_that_is_not_swept_yet_is_forgotten_after_its_object_moved(
    heap: Heap,
) -> None:
    allocate_weakly_pinned(heap)
    heap.free(1)
    while heap.major.state is not State.SWEEPING:
        heap.collect_step()
    heap.unpin(0)
    heap.collect_full()
    assert (heap.weakrefs.young, heap.weakrefs.old) == ([], [])


def test_a_weak_reference_to_an_object_unpinned_while_marking_is_kept(heap: Heap) -> None:
    allocate_weakly_pinned(heap)
    heap.collect_step()
    heap.unpin(0)
    heap.collect_full()
    assert heap.is_weakref_alive(1)
    assert heap.roots[1].target is heap.roots[0]
