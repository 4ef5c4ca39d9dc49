"""The heap as a mutator sees it; an access to what is gone is an error, never a wrong value."""

from collections.abc import Callable

import pytest

from gcmodel import Configuration, DanglingReferenceError, Heap, Kind, Parts
from gcmodel.collector.minor import MinorCollection

# Allocation.


def test_an_object_in_the_nursery_is_counted_rounded_and_has_an_address(heap: Heap) -> None:
    heap.allocate_node(1)
    assert heap.allocate_string(0) == (32, 32)
    assert heap.allocate_array(1) == (24, 64)


def test_an_object_outside_is_counted_unrounded_and_has_no_address(heap: Heap) -> None:
    assert heap.allocate_string(76) == (101, None)


@pytest.mark.parametrize(("length", "placed"), [(38, (64, 0)), (39, (64, None))])
def test_the_unrounded_size_decides_what_lies_outside(
    heap: Heap, length: int, placed: tuple[int, int | None]
) -> None:
    assert heap.allocate_string(length) == placed


@pytest.mark.parametrize(
    ("allocate", "counted_bytes"),
    [(Heap.allocate_node, 32), (Heap.allocate_array, 24), (Heap.allocate_string, 26)],
)
def test_an_object_that_may_not_move_lies_outside_and_stays_in_place(
    heap: Heap, allocate: Callable[[Heap, int, bool], tuple[int, int | None]], counted_bytes: int
) -> None:
    assert allocate(heap, 1, True) == (counted_bytes, None)
    obj = heap.roots[0]
    heap.collect_full()
    assert heap.roots[0] is obj


def test_every_allocation_appends_a_root(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_array(2)
    heap.allocate_string(3)
    heap.allocate_weakref(0)
    assert [obj.kind for obj in heap.roots] == [Kind.NODE, Kind.ARRAY, Kind.STRING, Kind.WEAKREF]


def test_a_weak_reference_whose_allocation_collects_still_refers_to_its_object(heap: Heap) -> None:
    for number in range(8):
        heap.allocate_node(number)
    heap.allocate_weakref(0)
    assert heap.events.take()[0] == "M"
    assert heap.roots[8].target is heap.roots[0]


def test_freeing_a_slot_moves_those_above_it_down(heap: Heap) -> None:
    for number in range(3):
        heap.allocate_node(number)
    heap.free(1)
    assert [heap.read_number(root) for root in (0, 1)] == [0, 2]


# Access.


def test_a_new_node_or_array_refers_to_nothing(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_array(5)
    assert heap.read(0, 0) is heap.read(0, 1) is None
    assert heap.walk() == [[Kind.NODE, 1], [Kind.ARRAY, 5]]


def test_reading_appends_a_root_unless_it_finds_null(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_node(2)
    heap.write(0, 1, 1)
    assert heap.read(0, 0) is None
    assert heap.read(0, 1) is heap.roots[1]
    assert heap.roots[2:] == [heap.roots[1]]


def test_writing_one_field_leaves_the_other(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.write(0, 0, 0)
    heap.write(0, 1, 0)
    heap.write(0, 1, None)
    assert heap.walk() == [[Kind.NODE, 1, 0, 0]]


def test_a_node_has_the_number_written_last_and_others_their_length(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.write_number(0, 2)
    heap.allocate_string(7)
    heap.allocate_array(100)
    assert [heap.read_number(root) for root in range(3)] == [2, 7, 100]


@pytest.mark.parametrize(
    ("source_start", "dest_start", "items"),
    [(0, 2, [0, 1, 0, 1, 2]), (2, 0, [2, 3, 4, 3, 4]), (0, 0, [0, 1, 2, 3, 4])],
)
def test_a_copy_within_an_array_reads_every_item_before_it_writes_one(
    heap: Heap, source_start: int, dest_start: int, items: list[int]
) -> None:
    heap.allocate_array(5)
    for number in range(5):
        heap.allocate_node(number)
        heap.write(0, number, 1)
        heap.free(1)
    heap.copy_array(0, 0, source_start, dest_start, 3)
    numbers = [row[1] for row in heap.walk()]
    # An array without nulls: its row is (field, row found there) from 0 to 4.
    assert [numbers[row] for row in heap.walk()[0][3::2]] == items


def test_a_copy_between_arrays_leaves_the_source_and_the_items_around(heap: Heap) -> None:
    heap.allocate_array(3)
    heap.allocate_array(4)
    heap.write(0, 1, 0)
    heap.copy_array(0, 1, 1, 2, 1)
    assert heap.walk() == [[3, 3, 1, 0], [3, 4, 2, 0]]


# The walk.


def test_the_walk_goes_breadth_first_from_the_roots_and_numbers_what_it_finds(heap: Heap) -> None:
    for number in range(4):
        heap.allocate_node(number)
    heap.write(0, 0, 3)
    heap.write(0, 1, 2)
    heap.write(3, 0, 0)
    del heap.roots[2:]
    assert [row[1] for row in heap.walk()] == [0, 1, 3, 2]
    assert [row[2:] for row in heap.walk()] == [[0, 2, 1, 3], [], [0, 0], []]


def test_the_walk_finds_the_prebuilt_objects_after_the_roots(heap_with_prebuilt: Heap) -> None:
    heap_with_prebuilt.allocate_string(3)
    assert [row[:2] for row in heap_with_prebuilt.walk()] == [
        [4, 3],
        [1, 0],
        [1, 0],
        [3, 4],
        [3, 4],
    ]


def test_the_walk_names_the_field_of_every_reference_and_appends_no_root(heap: Heap) -> None:
    heap.allocate_array(4)
    heap.write(0, 1, 0)
    heap.write(0, 3, 0)
    assert heap.walk() == [[Kind.ARRAY, 4, 1, 0, 3, 0]]
    assert len(heap.roots) == 1


# Prebuilt objects.


def test_prebuilt_objects_survive_and_take_no_memory(heap_with_prebuilt: Heap) -> None:
    heap = heap_with_prebuilt
    heap.collect_full()
    for index in range(4):
        heap.load_prebuilt(index)
    # Nodes come before arrays.
    assert heap.walk() == [[Kind.NODE, 0]] * 2 + [[Kind.ARRAY, 4]] * 2
    assert heap.memory_used_bytes() == 0


def test_an_object_that_a_prebuilt_one_dropped_is_freed(heap_with_prebuilt: Heap) -> None:
    heap = heap_with_prebuilt
    heap.load_prebuilt(0)
    heap.allocate_node(1)
    heap.write(0, 0, 1)
    heap.free(1)
    heap.collect_full()
    heap.write(0, 0, None)
    heap.collect_full()
    assert heap.memory_used_bytes() == 0


# Dangling references. Slot 0 is a node that was moved, or an array that was freed.


@pytest.fixture(params=["moved", "freed"])
def dangling(heap: Heap, request: pytest.FixtureRequest) -> Heap:
    if request.param == "moved":
        heap.allocate_node(1)
    else:
        heap.allocate_array(100)
    gone = heap.roots[0]
    if request.param == "freed":
        heap.free(0)
    heap.collect_minor()
    heap.roots[:] = [gone]
    heap.allocate_array(2)
    return heap


@pytest.mark.parametrize(
    "access",
    [
        *(lambda heap: heap.read(0, 0), lambda heap: heap.read_number(0)),
        *(lambda heap: heap.write(0, 0, None), lambda heap: heap.write(1, 0, 0)),
        *(lambda heap: heap.write_number(0, 5), lambda heap: heap.identity(0)),
        lambda heap: heap.copy_array(0, 1, 0, 0, 1),
        lambda heap: heap.copy_array(1, 0, 0, 0, 1),
        *(lambda heap: heap.allocate_weakref(0), lambda heap: heap.is_weakref_alive(0)),
        *(Heap.walk, Heap.collect_minor),
    ],
)
def test_access_to_an_object_gone_fails(dangling: Heap, access: Callable[[Heap], object]) -> None:
    with pytest.raises(DanglingReferenceError):
        access(dangling)


def test_the_error_says_moved_or_freed(dangling: Heap, request: pytest.FixtureRequest) -> None:
    what_happened = request.node.callspec.params["dangling"]
    with pytest.raises(DanglingReferenceError, match=f"which was {what_happened}"):
        dangling.read_number(0)


@pytest.mark.parametrize("access", [lambda heap: heap.read(1, 0), Heap.walk])
def test_a_field_with_a_lost_object_fails(dangling: Heap, access: Callable[[Heap], object]) -> None:
    dangling.roots[1].refs[0] = dangling.roots[0]
    dangling.roots[0] = dangling.roots[1]
    with pytest.raises(DanglingReferenceError):
        access(dangling)


def test_a_weak_reference_that_was_not_cleared_is_an_error(dangling: Heap) -> None:
    gone = dangling.roots[0]
    dangling.allocate_weakref(1)
    dangling.roots[2].target = gone
    with pytest.raises(DanglingReferenceError):
        dangling.is_weakref_alive(2)


class ForgetsTheRoots(MinorCollection):
    """Moves what the roots refer to, and leaves the roots as they were."""

    def _drag_out_roots(self) -> None:
        before = list(self._heap.roots)
        super()._drag_out_roots()
        self._heap.roots[:] = before


def test_a_collector_that_forgets_to_update_the_roots_is_caught_at_the_next_access() -> None:
    heap = Heap(Configuration(), Parts(minor=ForgetsTheRoots))
    heap.allocate_node(1)
    heap.collect_minor()
    with pytest.raises(DanglingReferenceError):
        heap.read_number(0)
