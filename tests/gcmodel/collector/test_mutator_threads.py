"""Threads of one heap: what one has recorded, and what it leaves behind."""

from __future__ import annotations

import pytest

from gcmodel import Configuration
from gcmodel.collector.invariants import check_invariants
from gcmodel.collector.mutator_threads import ThreadedHeap, ThreadedParts

CARDED = 6
"""An array of this length has cards."""


@pytest.fixture
def heap() -> ThreadedHeap:
    configuration = Configuration(nursery_bytes=1024, card_items=4, sampler_seeds=(1, 2))
    return ThreadedHeap(configuration, ThreadedParts())


def write_young(heap: ThreadedHeap, thread: int) -> None:
    """A thread writes a new node into the old object in slot 0, and frees its own reference."""
    heap.run(thread)
    heap.allocate_node(7)
    heap.write(0, 0, 1)
    heap.free(1)
    check_invariants(heap)


@pytest.mark.parametrize("length", [1, CARDED], ids=["without cards", "with cards"])
@pytest.mark.parametrize("ends", [False, True], ids=["living", "ended"])
def test_a_collection_sees_what_another_thread_has_written(
    heap: ThreadedHeap, length: int, ends: bool
) -> None:
    heap.allocate_array(length)
    heap.collect_minor()
    write_young(heap, 1)
    if ends:
        heap.end_thread(1)
        check_invariants(heap)
    heap.run(0)
    heap.collect_minor()
    check_invariants(heap)
    kept = heap.read(0, 0)
    assert kept is not None
    assert kept.number == 7


def test_two_threads_remember_an_object_once(heap: ThreadedHeap) -> None:
    heap.allocate_node(0)
    heap.collect_minor()
    write_young(heap, 0)
    write_young(heap, 1)
    assert heap.barrier.remembered == []  # Thread 0 has recorded it.
    assert heap.barrier.logs[0].remembered == heap.roots[:1]


def test_a_thread_that_begins_has_nothing_of_the_one_before(heap: ThreadedHeap) -> None:
    heap.allocate_node(0)
    heap.collect_minor()
    write_young(heap, 1)
    heap.end_thread(1)
    heap.run(1)
    assert heap.barrier.remembered == []


def test_beginning_collects_what_is_dead(heap: ThreadedHeap) -> None:
    heap.allocate_node(0)
    heap.allocate_weakref(0)
    heap.free(0)
    heap.run(1)
    heap.end_thread(1)
    heap.run(1)
    heap.begin_thread()
    assert not heap.is_weakref_alive(0)
