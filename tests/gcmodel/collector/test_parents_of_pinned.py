"""Old objects that refer to pinned ones. Root 0 is the parent; the pinned string is in no root."""

from collections.abc import Callable

import pytest
from heap_steps import SHORT, allocate_pinned, finish_cycle

from gcmodel import Configuration, Heap, Kind
from gcmodel.collector.major import State
from gcmodel.memory.objects import FREED, OUTSIDE, VISITED

SMALL, LARGE = 3, 20
"""Items of an array without cards and of one with cards."""


@pytest.fixture(
    params=[
        *("node", "array", "array with cards", "array without cards"),
        *("prebuilt", "prebuilt array"),
    ]
)
def parent(request: pytest.FixtureRequest) -> Heap:
    card_items = 0 if request.param == "array without cards" else 4
    heap = Heap(Configuration(card_items=card_items, prebuilt_nodes=1, prebuilt_arrays=1))
    match request.param:
        case "node":
            heap.allocate_node(1)
        case "array":
            heap.allocate_array(SMALL)
        case "prebuilt":
            heap.load_prebuilt(0)
        case "prebuilt array":
            heap.load_prebuilt(1)
        case _:
            heap.allocate_array(LARGE)
    heap.collect_minor()
    return heap


def write_pinned(heap: Heap, parent_root: int = 0, field: int = 1) -> None:
    """A pinned string that only this field refers to."""
    allocate_pinned(heap)
    heap.write(parent_root, field, len(heap.roots) - 1)
    heap.free(len(heap.roots) - 1)


@pytest.mark.parametrize("collect", [Heap.collect_minor, Heap.collect_full])
def test_a_parent_keeps_a_pinned_object(parent: Heap, collect: Callable[[Heap], None]) -> None:
    write_pinned(parent)
    pinned = parent.nursery.memory[0]
    for _ in range(3):
        collect(parent)
        assert parent.nursery.memory == {0: pinned}
    assert parent.read(0, 1) is pinned


def test_a_parent_follows_the_object_when_it_moves(parent: Heap) -> None:
    write_pinned(parent)
    parent.collect_minor()
    parent.read(0, 1)
    parent.unpin(1)
    parent.free(1)
    parent.collect_minor()
    moved = parent.read(0, 1)
    assert moved is not None
    assert (moved.place, moved.number, parent.nursery.memory) == (OUTSIDE, SHORT, {})


def test_a_pinned_object_dies_when_its_parent_drops_it(parent: Heap) -> None:
    write_pinned(parent)
    parent.collect_minor()
    parent.write(0, 1, None)
    parent.collect_minor()
    assert (parent.nursery.memory, parent.pinning.parents) == ({}, {})


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_a_young_parent_becomes_old_beside_the_pinned_object(heap: Heap, length: int) -> None:
    heap.allocate_array(length)
    write_pinned(heap)
    pinned = next(reversed(heap.nursery.memory.values()))
    heap.collect_minor()
    heap.collect_minor()
    assert heap.read(0, 1) is pinned


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_a_dead_parent_keeps_pins_until_a_full_collection(heap: Heap, length: int) -> None:
    heap.allocate_array(length)
    heap.collect_minor()
    write_pinned(heap)
    dead = heap.roots.pop()
    heap.collect_minor()
    assert len(heap.nursery.memory) == 1
    heap.collect_full()
    assert (heap.nursery.memory, heap.memory_used_bytes()) == ({}, 0)
    assert (dead.place, heap.pinning.parents) == (FREED, {})


def test_a_pinned_object_dies_with_the_last_of_its_parents(heap: Heap) -> None:
    for number in range(2):
        heap.allocate_node(number)
    heap.collect_minor()
    write_pinned(heap)
    heap.read(0, 1)
    heap.write(1, 0, 2)
    heap.free(2)
    for left in (1, 0):
        heap.free(0)
        heap.collect_full()
        assert len(heap.nursery.memory) == left


@pytest.mark.parametrize("source_length", [SMALL, LARGE])
@pytest.mark.parametrize("dest_length", [SMALL, LARGE])
def test_a_copy_keeps_the_pinned_object(heap: Heap, source_length: int, dest_length: int) -> None:
    heap.allocate_array(source_length)
    heap.allocate_array(dest_length)
    heap.collect_minor()
    write_pinned(heap)
    heap.collect_minor()
    heap.copy_array(0, 1, 0, 0, SMALL)
    heap.free(0)
    heap.collect_full()
    heap.read(0, 1)
    assert heap.nursery.memory == {0: heap.roots[1]}


def test_copies_remember_every_parent_once(heap: Heap) -> None:
    for _ in range(3):
        heap.allocate_array(SMALL)
    heap.collect_minor()
    write_pinned(heap)
    heap.collect_minor()
    heap.copy_array(1, 2, 0, 0, SMALL)
    assert heap.barrier.remembered == heap.roots[:1]
    for _ in range(2):
        heap.copy_array(0, 1, 0, 0, SMALL)
    assert heap.barrier.remembered == heap.roots[:2]


# Pinned objects and the major collection in progress.


@pytest.fixture
def stepwise() -> Heap:
    """A marking step visits one object only; three objects may be pinned."""
    return Heap(
        Configuration(
            nursery_bytes=512, single_step_marking=True, prebuilt_nodes=0, prebuilt_arrays=0
        )
    )


def test_marking_leaves_pinned_objects_out(stepwise: Heap) -> None:
    allocate_pinned(stepwise)
    stepwise.allocate_node(1)
    stepwise.collect_step()
    assert stepwise.major.to_trace == [stepwise.roots[1]]


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_pinned_root_may_change_before_it_is_marked(stepwise: Heap, is_kept: bool) -> None:
    stepwise.allocate_node(1)
    allocate_pinned(stepwise)
    stepwise.collect_step()
    if is_kept:
        stepwise.unpin(1)
    else:
        stepwise.free(1)
    finish_cycle(stepwise)
    assert stepwise.walk() == [[Kind.NODE, 1], *[[Kind.STRING, SHORT]] * is_kept]
    assert stepwise.nursery.memory == {}


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_marking_allows_unpinning_and_dropping(stepwise: Heap, length: int, is_kept: bool) -> None:
    stepwise.allocate_node(1)
    stepwise.allocate_array(length)
    write_pinned(stepwise, 1)
    stepwise.collect_step()
    stepwise.collect_step()
    stepwise.collect_minor()
    # A parent stays black while its object is pinned.
    assert stepwise.roots[1].flags & VISITED
    if is_kept:
        stepwise.read(1, 1)
        stepwise.unpin(2)
        stepwise.free(2)
    else:
        stepwise.write(1, 1, None)
    finish_cycle(stepwise)
    moved = stepwise.read(1, 1)
    assert (moved and (moved.place, moved.number)) == ((OUTSIDE, SHORT) if is_kept else None)


@pytest.mark.parametrize("single_step_marking", [False, True])
def test_marking_ends_even_if_a_parent_refers_to_itself(single_step_marking: bool) -> None:
    heap = Heap(Configuration(single_step_marking=single_step_marking))
    # Visiting it uses up a step's budget of four nurseries.
    heap.allocate_array(4 * 256 // 8)
    heap.write(0, 0, 0)
    write_pinned(heap)
    states = []
    for _ in range(6):
        heap.collect_step()
        states.append(heap.major.state)
    assert State.SWEEPING in states


def test_a_parent_that_dies_while_marking_keeps_its_object_for_a_cycle(stepwise: Heap) -> None:
    stepwise.allocate_node(1)
    write_pinned(stepwise)
    stepwise.collect_step()
    stepwise.free(0)
    finish_cycle(stepwise)
    stepwise.collect_minor()
    assert len(stepwise.nursery.memory) == 1
    stepwise.collect_full()
    assert stepwise.nursery.memory == {}
