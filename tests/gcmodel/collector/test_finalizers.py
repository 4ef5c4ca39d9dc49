"""Finalizers and ephemerons of the heap that has them, after PyPy's collector."""

from __future__ import annotations

import pytest

from gcmodel import Configuration
from gcmodel.collector.finalizing import FinalizingHeap
from gcmodel.collector.invariants import check_invariants
from gcmodel.memory.objects import OUTSIDE


@pytest.fixture
def heap() -> FinalizingHeap:
    return FinalizingHeap(Configuration())


def allocate_dead(heap: FinalizingHeap, count: int, *references: tuple[int, int]) -> None:
    """Nodes with finalizers 0, 1 and so on. `references` are the numbers of referrer and object."""
    for number in range(count):
        heap.allocate_node(number)
        heap.register_finalizer(number, number)
    fields = [0] * count
    for referrer, obj in references:
        heap.write(referrer, fields[referrer], obj)
        fields[referrer] += 1
    for _ in range(count):
        heap.free(0)


def runs(heap: FinalizingHeap) -> list[list[int]]:
    """Which finalizers run after each of some full collections."""
    found = []
    for _ in range(4):
        heap.collect_full()
        check_invariants(heap)
        found.append(heap.run_finalizers(keep=False))
    return found


@pytest.mark.parametrize(
    ("count", "references", "expected"),
    [
        (1, [], [[0], [], [], []]),
        (3, [], [[0, 1, 2], [], [], []]),
        (3, [(2, 1), (1, 0)], [[2], [1], [0], []]),
        (3, [(0, 1), (1, 2)], [[0], [1], [2], []]),
        (2, [(0, 1), (1, 0)], [[0], [1], [], []]),
        (1, [(0, 0)], [[0], [], [], []]),
        # Node 0 waited, so it is behind node 1 in the list.
        (3, [(2, 0), (0, 1), (1, 0)], [[2], [1], [0], []]),
    ],
)
def test_an_object_waits_for_those_that_refer_to_it(
    heap: FinalizingHeap, count: int, references: list[tuple[int, int]], expected: list[list[int]]
) -> None:
    allocate_dead(heap, count, *references)
    assert runs(heap) == expected


def test_each_registration_is_called_in_its_own_collection(heap: FinalizingHeap) -> None:
    heap.allocate_node(0)
    heap.register_finalizer(0, 0)
    heap.register_finalizer(0, 1)
    heap.free(0)
    assert runs(heap) == [[0], [1], [], []]


@pytest.mark.parametrize("is_old", [False, True])
def test_a_finalizer_that_is_taken_back_is_not_called(heap: FinalizingHeap, is_old: bool) -> None:
    heap.allocate_node(0)
    heap.register_finalizer(0, 0)
    if is_old:
        heap.collect_minor()
    heap.unregister_finalizer(0)
    heap.free(0)
    assert runs(heap) == [[]] * 4


@pytest.mark.parametrize("collections", [0, 1, 2])
def test_a_dead_object_s_destructor_is_called_once(heap: FinalizingHeap, collections: int) -> None:
    """Young ones are called last in, first out, and old ones in turn."""
    for number in range(3):
        heap.allocate_destructible(number, number)
    for _ in range(collections):
        heap.collect_minor()
    assert heap.run_finalizers(keep=False) == []
    heap.roots.clear()
    assert runs(heap) == [[0, 1, 2] if collections else [2, 1, 0], [], [], []]


def test_a_finalizer_that_keeps_an_object_delays_its_destructor(heap: FinalizingHeap) -> None:
    heap.allocate_destructible(0, 7)
    heap.allocate_node(1)
    heap.register_finalizer(1, 0)
    heap.write(1, 0, 0)
    heap.roots.clear()
    assert runs(heap) == [[0], [7], [], []]


def test_a_minor_collection_keeps_what_an_object_with_a_finalizer_has(heap: FinalizingHeap) -> None:
    heap.allocate_node(1)
    heap.register_finalizer(0, 0)
    heap.allocate_node(2)
    heap.write(0, 0, 1)
    heap.free(0)
    heap.free(0)
    heap.collect_minor()
    [finalizer] = heap.finalizers.old
    [child, _] = finalizer.obj.refs
    assert child is not None
    assert (finalizer.obj.place, child.place, child.number) == (OUTSIDE, OUTSIDE, 2)


def test_a_resurrected_object_is_whole_and_dies_later(heap: FinalizingHeap) -> None:
    heap.allocate_node(1)
    heap.register_finalizer(0, 0)
    heap.allocate_node(2)
    heap.write(0, 1, 1)
    heap.free(0)
    heap.free(0)
    heap.collect_full()
    assert heap.run_finalizers(keep=True) == [0]
    heap.collect_full()
    heap.resurrect(0)
    assert heap.run_finalizers(keep=False) == []
    heap.collect_full()
    assert heap.walk()[0] == [1, 1, 1, 3]
    heap.free(0)
    heap.collect_full()
    assert heap.memory_used_bytes() == 0


def test_an_object_in_the_queue_stays_until_it_is_taken(heap: FinalizingHeap) -> None:
    allocate_dead(heap, 1)
    for _ in range(3):
        heap.collect_full()
        assert heap.memory_used_bytes() == 32
    assert heap.run_finalizers(keep=False) == [0]
    heap.collect_full()
    assert heap.memory_used_bytes() == 0


def test_what_only_finalizers_keep_does_not_raise_the_threshold(heap: FinalizingHeap) -> None:
    for number in range(40):
        heap.allocate_node(0)
        heap.register_finalizer(number, number)
    heap.collect_full()
    assert heap.major.threshold_bytes == 40 * 32 * 5 // 2
    heap.roots.clear()
    heap.collect_full()
    assert heap.memory_used_bytes() == 40 * 32
    assert heap.major.threshold_bytes == 640


@pytest.mark.parametrize(("referrers", "is_alive"), [(0, False), (1, False), (2, True)])
def test_a_weak_reference_outlives_its_object_only_if_two_with_finalizers_share_it(
    heap: FinalizingHeap, referrers: int, is_alive: bool
) -> None:
    """PyPy's invalidate_old_weakrefs; the object is not one of those that are queued."""
    heap.allocate_node(0)
    heap.allocate_weakref(0)
    for number in range(referrers):
        heap.allocate_node(0)
        heap.register_finalizer(2, number)
        heap.write(2, 0, 0)
        heap.free(2)
    heap.free(0)
    heap.collect_full()
    assert heap.is_weakref_alive(0) == is_alive


def test_an_ephemeron_keeps_its_value_while_the_key_is_alive(heap: FinalizingHeap) -> None:
    heap.allocate_node(1)
    heap.allocate_node(2)
    heap.allocate_ephemeron(0, 1)
    heap.free(1)
    for _ in range(2):
        heap.collect_full()
        assert heap.read_ephemeron(1) == 2
    heap.free(0)
    assert heap.read_ephemeron(0) == 2
    heap.collect_full()
    assert heap.read_ephemeron(0) is None
    assert heap.memory_used_bytes() == 24


def test_a_value_that_refers_to_its_own_key_does_not_keep_it(heap: FinalizingHeap) -> None:
    heap.allocate_node(0)
    heap.allocate_node(0)
    heap.write(1, 0, 0)
    heap.allocate_ephemeron(0, 1)
    heap.free(0)
    heap.free(0)
    heap.collect_full()
    assert heap.read_ephemeron(0) is None


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_ephemerons_in_a_chain_die_together(heap: FinalizingHeap, order: tuple[int, ...]) -> None:
    for number in range(4):
        heap.allocate_node(number)
    for key in order:
        heap.allocate_ephemeron(key, key + 1)
    for _ in range(3):
        heap.free(1)
    heap.collect_full()
    assert [heap.read_ephemeron(slot) for slot in (1, 2, 3)] == [key + 1 for key in order]
    heap.free(0)
    heap.collect_full()
    assert [heap.read_ephemeron(slot) for slot in (0, 1, 2)] == [None] * 3


def test_a_key_is_alive_while_its_finalizer_is_pending(heap: FinalizingHeap) -> None:
    heap.allocate_node(0)
    heap.register_finalizer(0, 0)
    heap.allocate_node(7)
    heap.allocate_ephemeron(0, 1)
    heap.free(0)
    heap.free(0)
    heap.collect_full()
    assert heap.read_ephemeron(0) == 7
    heap.run_finalizers(keep=False)
    heap.collect_full()
    assert heap.read_ephemeron(0) is None
