"""A reference to an object that is gone: the error names the slot, and the collection."""

from __future__ import annotations

import pytest

from gcmodel import Configuration, DanglingReferenceError, Heap


@pytest.fixture
def heap() -> Heap:
    return Heap(Configuration())


def error_of_walk(heap: Heap) -> str:
    with pytest.raises(DanglingReferenceError) as raised:
        heap.walk()
    return str(raised.value)


def test_a_root_that_was_not_updated(heap: Heap) -> None:
    heap.collect_minor()
    heap.allocate_node(1)
    heap.allocate_node(2)
    moved_away = heap.roots[1]
    heap.collect_minor()
    heap.roots[1] = moved_away
    assert error_of_walk(heap) == (
        "a reference leads to <node of 32 bytes, nursery 1>, which was moved by minor collection 2;"
        " it is in root 1"
    )


def test_a_field_of_a_field(heap: Heap) -> None:
    heap.allocate_array(3)
    heap.allocate_node(1)
    heap.write(0, 2, 1)
    heap.free(1)
    heap.collect_minor()
    heap.allocate_string(0)
    node = heap.roots[0].refs[2]
    assert node is not None
    node.refs[1] = heap.roots.pop()
    heap.roots.insert(0, heap.prebuilt[0])
    # As if the write had gone past the barrier.
    heap.collect_minor()
    assert error_of_walk(heap) == (
        "a reference leads to <string of 32 bytes, nursery 1>, which was freed by minor"
        " collection 2; it is in root 1, field 2, field 1"
    )


def test_a_field_of_a_prebuilt_object(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.prebuilt[1].refs[3] = heap.roots.pop()
    heap.collect_minor()
    assert error_of_walk(heap).endswith("; it is in prebuilt object 1, field 3")


def test_a_large_object_that_a_minor_collection_freed(heap: Heap) -> None:
    heap.allocate_string(100)
    gone = heap.roots.pop()
    heap.collect_minor()
    heap.collect_minor()
    heap.roots.append(gone)
    assert error_of_walk(heap) == (
        "a reference leads to <string of 128 bytes, freed>, which was freed by minor collection 1;"
        " it is in root 0"
    )


@pytest.mark.parametrize("length", [0, 100])
@pytest.mark.parametrize("paged", [True, False])
def test_an_old_object_that_a_major_collection_freed(length: int, paged: bool) -> None:
    heap = Heap(Configuration(paged_arenas=paged))
    heap.allocate_string(length)
    heap.collect_full()
    gone = heap.roots.pop()
    heap.collect_full()
    heap.roots.append(gone)
    assert "freed>, which was freed by major collection 2; it is in" in error_of_walk(heap)


def test_an_object_of_a_weak_reference(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_weakref(0)
    gone = heap.roots[0]
    heap.collect_minor()
    heap.roots[1].target = gone
    with pytest.raises(DanglingReferenceError, match=r"it is in root 1, weakly$"):
        heap.is_weakref_alive(1)


def test_a_reference_in_a_dead_object_that_a_minor_collection_finds(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_node(2)
    gone = heap.roots.pop()
    heap.collect_minor()
    heap.write(0, 0, None)
    heap.roots.pop().refs[0] = gone
    with pytest.raises(DanglingReferenceError) as raised:
        heap.collect_minor()
    assert str(raised.value) == (
        "the minor collection found a reference to <node of 32 bytes, nursery 0>, which was freed"
        " by minor collection 1; it is in an unreachable object"
    )


def test_a_reference_that_marking_finds(heap: Heap) -> None:
    heap.allocate_node(1)
    moved_away = heap.roots[0]
    heap.collect_minor()
    heap.roots[0].refs[1] = moved_away
    with pytest.raises(DanglingReferenceError) as raised:
        heap.collect_full()
    assert str(raised.value) == (
        "marking found a reference to <node of 32 bytes, nursery 0>, which was moved by"
        " minor collection 1; it is in root 0, field 1"
    )
