"""A scope drops the roots that came during it, all but the one that it keeps."""

import pytest

from gcmodel import Heap
from gcmodel.workloads.scopes import Scope, assign, copied, newest


def numbers(heap: Heap) -> list[int]:
    return [heap.read_number(root) for root in range(len(heap.roots))]


def test_the_roots_of_a_scope_are_dropped_when_it_ends(heap: Heap) -> None:
    heap.allocate_node(1)
    with Scope(heap):
        heap.allocate_node(2)
        heap.allocate_node(3)
    assert numbers(heap) == [1]


def test_a_scope_that_ends_by_an_error_drops_its_roots_too(heap: Heap) -> None:
    heap.allocate_node(1)

    def fail() -> None:
        with Scope(heap):
            heap.allocate_node(2)
            heap.read(newest(heap), 2)

    with pytest.raises(IndexError):
        fail()
    assert numbers(heap) == [1]


@pytest.mark.parametrize(("kept", "number"), [(2, 3), (0, 1)])
def test_a_scope_s_object_is_the_one_new_root(heap: Heap, kept: int, number: int) -> None:
    heap.allocate_node(1)
    with Scope(heap) as scope:
        for each in (2, 3, 4):
            heap.allocate_node(each)
        slot = scope.keep(kept)
    assert (slot, numbers(heap)) == (1, [1, number])


def test_the_object_that_an_inner_scope_keeps_belongs_to_the_outer_one(heap: Heap) -> None:
    with Scope(heap):
        with Scope(heap) as inner:
            heap.allocate_node(1)
            inner.keep(0)
        assert numbers(heap) == [1]
    assert numbers(heap) == []


def test_the_newest_slot_is_that_of_the_last_read(heap: Heap) -> None:
    heap.allocate_array(1)
    heap.allocate_node(7)
    heap.write(0, 0, 1)
    heap.free(1)
    heap.read(0, 0)
    assert heap.read_number(newest(heap)) == 7


def test_assigning_to_a_copy_leaves_the_slot_that_it_was_copied_from(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_node(2)
    variable = copied(heap, 0)
    before = numbers(heap)
    assign(heap, variable, 1)
    assert (before, numbers(heap)) == ([1, 2, 1], [1, 2, 2])
