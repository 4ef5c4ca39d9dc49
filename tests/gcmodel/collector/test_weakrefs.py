"""Weak references: cleared exactly when their object dies, and no earlier."""

from collections.abc import Callable

import pytest
from heap_steps import allocate_pinned, step_until

from gcmodel import Configuration, Heap
from gcmodel.collector.major import State


def allocate_weakly(heap: Heap) -> None:
    """Root 0 is a node, root 1 a weak reference to it."""
    heap.allocate_node(1)
    heap.allocate_weakref(0)


def assert_follows(heap: Heap) -> None:
    assert heap.is_weakref_alive(1)
    assert heap.roots[1].target is heap.roots[0]


@pytest.mark.parametrize("collect", [Heap.collect_minor, Heap.collect_full])
@pytest.mark.parametrize("identity_of", [None, 0, 1])
def test_a_weak_reference_follows_a_surviving_object(
    heap: Heap, collect: Callable[[Heap], None], identity_of: int | None
) -> None:
    """Also to or from a place that an identity has reserved."""
    allocate_weakly(heap)
    if identity_of is not None:
        heap.identity(identity_of)
    for _ in range(2):
        collect(heap)
        assert_follows(heap)


def test_an_object_that_is_read_and_kept_is_a_root(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.free(0)
    assert heap.read_weakref(0, keep=True)
    heap.collect_full()
    assert heap.walk() == [[2, 0], [1, 1]]
    heap.free(1)
    heap.collect_full()
    assert not heap.read_weakref(0, keep=True)
    assert heap.roots[0] is heap.roots[1]


def test_a_white_object_that_is_read_while_marking_is_not_swept(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.collect_minor()
    heap.free(0)
    step_until(heap, State.MARKING)
    heap.read_weakref(0, keep=True)
    step_until(heap, State.SCANNING)
    assert heap.walk() == [[2, 0], [1, 1]]


def test_a_weak_reference_keeps_no_young_object_alive(heap: Heap) -> None:
    allocate_weakly(heap)
    heap.allocate_weakref(0)
    heap.free(0)
    assert heap.walk() == [[2, 0], [2, 0]]  # The object is not part of the graph.
    assert heap.is_weakref_alive(0)
    heap.collect_minor()
    assert not heap.is_weakref_alive(0)
    assert not heap.is_weakref_alive(1)
    assert (heap.weakrefs.young, heap.weakrefs.old) == ([], [])


@pytest.mark.parametrize("cycles", [0, 1])
def test_a_weak_reference_keeps_no_old_object_alive(heap: Heap, cycles: int) -> None:
    allocate_weakly(heap)
    heap.collect_minor()
    for _ in range(cycles):
        heap.collect_full()
    heap.free(0)
    heap.collect_minor()
    assert heap.is_weakref_alive(0)
    heap.collect_full()
    assert not heap.is_weakref_alive(0)
    assert heap.memory_used_bytes() == 16


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
def test_a_weak_reference_to_a_young_object_outside_lives_with_it(heap: Heap, kept: bool) -> None:
    heap.allocate_string(100)
    heap.allocate_weakref(0)
    if not kept:
        heap.free(0)
    heap.collect_minor()
    assert heap.is_weakref_alive(len(heap.roots) - 1) is kept


@pytest.mark.parametrize("is_old", [False, True])
def test_a_dead_weak_reference_is_forgotten(heap: Heap, is_old: bool) -> None:
    allocate_weakly(heap)
    if is_old:
        heap.collect_minor()
    heap.free(1)
    heap.collect_full()
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


# Weak references to pinned objects.


def allocate_weakly_pinned(heap: Heap) -> None:
    """Root 0 is a pinned string, root 1 a weak reference to it, which is old."""
    allocate_pinned(heap)
    heap.allocate_weakref(0)
    heap.collect_minor()


@pytest.mark.parametrize("collect", [Heap.collect_minor, Heap.collect_full])
def test_a_weak_reference_follows_pinned_moves(heap: Heap, collect: Callable[[Heap], None]) -> None:
    allocate_weakly_pinned(heap)
    for step in range(4):
        if step == 2:
            heap.unpin(0)
        collect(heap)
        assert_follows(heap)


@pytest.mark.parametrize("is_unpinned", [False, True])
def test_a_weak_reference_keeps_no_pinned_object_alive(heap: Heap, is_unpinned: bool) -> None:
    allocate_weakly_pinned(heap)
    if is_unpinned:
        heap.unpin(0)
    heap.free(0)
    assert heap.is_weakref_alive(0)
    heap.collect_minor()
    assert not heap.is_weakref_alive(0)
    assert heap.nursery.memory == {}


@pytest.mark.parametrize("root", [0, 1])
def test_a_young_weak_reference_dies_no_later_than_its_object(heap: Heap, root: int) -> None:
    allocate_pinned(heap)
    heap.allocate_weakref(0)
    heap.free(root)
    heap.collect_minor()
    assert (heap.weakrefs.young, heap.weakrefs.old) == ([], [])
    assert root or not heap.is_weakref_alive(0)


def test_a_full_collection_clears_weak_references_to_pinned_objects(heap: Heap) -> None:
    allocate_weakly_pinned(heap)
    heap.unpin(0)
    heap.collect_minor()
    heap.free(0)
    heap.collect_full()
    assert not heap.is_weakref_alive(0)


def test_a_weak_reference_that_dies_before_its_pinned_object_is_forgotten(heap: Heap) -> None:
    allocate_weakly_pinned(heap)
    heap.free(1)
    heap.collect_full()
    heap.collect_minor()
    assert (heap.weakrefs.young, heap.weakrefs.old) == ([], [])
    assert heap.memory_used_bytes() == 0


def test_a_dead_weak_reference_is_forgotten_after_its_object_moved(heap: Heap) -> None:
    allocate_weakly_pinned(heap)
    heap.free(1)
    step_until(heap, State.SWEEPING)
    heap.unpin(0)
    heap.collect_full()
    assert (heap.weakrefs.young, heap.weakrefs.old) == ([], [])


def test_a_weak_reference_to_an_object_unpinned_while_marking_is_kept(heap: Heap) -> None:
    allocate_weakly_pinned(heap)
    heap.collect_step()
    heap.unpin(0)
    heap.collect_full()
    assert_follows(heap)
