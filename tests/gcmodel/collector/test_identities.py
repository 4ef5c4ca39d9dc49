"""Identities: one for each object, always the same, and the memory that taking one costs."""

from collections.abc import Callable

import pytest
from heap_steps import allocate_pinned, step_until

from gcmodel import Heap
from gcmodel.collector.major import State
from gcmodel.memory.objects import OUTSIDE


def test_an_object_keeps_its_identity_when_it_moves(heap: Heap) -> None:
    heap.allocate_node(1)
    before = heap.identity(0)
    assert heap.identity(0) == before > 0
    heap.collect_minor()
    heap.collect_full()
    assert heap.identity(0) == before


def test_different_objects_have_different_identities_even_dead_ones(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    heap.allocate_node(1)
    heap.allocate_string(100)
    heap.allocate_array(1)
    identities = {heap.identity(root) for root in range(4)}
    heap.roots.clear()
    heap.collect_full()
    heap.allocate_node(2)
    assert len({*identities, heap.identity(0)}) == 5


@pytest.mark.parametrize(
    ("allocate", "size_bytes"),
    [
        # The object itself takes memory only if it is outside the nursery.
        (lambda heap: heap.allocate_array(2), 32),
        (lambda heap: heap.allocate_array(5), 56),
        (lambda heap: heap.allocate_string(75), 104),
        (lambda heap: heap.allocate_old_string(7), 32),
        (lambda heap: (heap.allocate_node(1), heap.collect_minor()), 32),
    ],
    ids=["small", "medium", "large", "old string", "old"],
)
def test_the_identity_of_a_young_object_reserves_its_future_place(
    heap: Heap, allocate: Callable[[Heap], object], size_bytes: int
) -> None:
    allocate(heap)
    for _ in range(2):
        heap.identity(0)
        assert heap.memory_used_bytes() == size_bytes
    heap.collect_minor()
    assert heap.memory_used_bytes() == size_bytes


def test_an_object_arrives_at_its_reserved_place_with_its_contents(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_node(2)
    heap.write(0, 1, 1)
    heap.identity(0)
    heap.write_number(0, 9)
    heap.write_number(1, 3)
    heap.free(1)
    heap.collect_minor()
    assert heap.walk() == [[1, 9, 1, 1], [1, 3]]


def test_a_major_collection_frees_a_place_reserved_for_a_dead_object(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.identity(0)
    heap.free(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 32
    heap.collect_full()
    assert heap.memory_used_bytes() == 0


@pytest.mark.parametrize("state", [State.MARKING, State.SWEEPING])
def test_an_identity_taken_in_the_middle_of_a_cycle_lasts(heap: Heap, state: State) -> None:
    heap.allocate_string(100)
    step_until(heap, state)
    heap.allocate_node(7)
    before = heap.identity(1)
    heap.collect_full()
    assert (heap.read_number(1), heap.identity(1)) == (7, before)


# Pinned objects, whose future place waits for longer.


@pytest.mark.parametrize(
    "before", ["pinning", "a collection", "unpinning", "the collection that moves it"]
)
def test_a_pinned_object_keeps_its_identity_when_it_finally_moves(heap: Heap, before: str) -> None:
    identities: list[int] = []

    def take(moment: str) -> None:
        if identities or moment == before:
            identities.append(heap.identity(0))

    heap.allocate_string(7)
    take("pinning")
    heap.pin(0)
    take("a collection")
    heap.collect_minor()
    take("unpinning")
    heap.collect_minor()
    heap.unpin(0)
    take("the collection that moves it")
    heap.collect_minor()
    take("")
    assert heap.roots[0].place == OUTSIDE
    assert len(set(identities)) == 1
    # It reserves one place, however long it stays.
    assert heap.memory_used_bytes() == 32


@pytest.mark.parametrize("length", [7, 30])
def test_no_major_collection_frees_the_place_of_a_pinned_object(heap: Heap, length: int) -> None:
    heap.allocate_string(length)
    heap.pin(0)
    before = heap.identity(0)
    size_bytes = heap.memory_used_bytes()
    heap.collect_full()
    heap.collect_full()
    heap.unpin(0)
    heap.collect_minor()
    assert heap.roots[0].place == OUTSIDE
    assert (heap.identity(0), heap.memory_used_bytes()) == (before, size_bytes)


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("is_taken_first", [False, True])
def test_a_pinned_object_may_take_or_use_its_place_in_the_middle_of_a_cycle(
    heap: Heap, state: State, is_taken_first: bool
) -> None:
    allocate_pinned(heap)
    if is_taken_first:
        heap.identity(0)
    step_until(heap, state)
    before = heap.identity(0)
    if not is_taken_first:
        heap.collect_full()
    heap.unpin(0)
    heap.collect_full()
    assert heap.roots[0].place == OUTSIDE
    assert (heap.identity(0), heap.memory_used_bytes()) == (before, 32)


def test_the_place_of_a_pinned_object_that_died_is_freed_by_the_next_cycle(heap: Heap) -> None:
    allocate_pinned(heap)
    heap.identity(0)
    heap.collect_full()
    heap.collect_minor()
    heap.free(0)
    heap.collect_minor()
    assert heap.memory_used_bytes() == 32
    heap.collect_full()
    assert heap.memory_used_bytes() == 0
