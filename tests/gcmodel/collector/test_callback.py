"""The mutator's callback after a collection that an allocation causes, which allocates itself.

An object of 256 bytes still lies in the nursery here, so the callback can fill all of it.
"""

from collections.abc import Callable

import pytest
from heap_steps import SHORT, SURVIVED, allocate_dead_nodes, allocate_pinned, letters, reported

from gcmodel import Configuration, Heap, HeapError, Kind

LEAVES_ROOM_FOR_A_NODE = 256 - 32 - 25
FILLS_THE_NURSERY = 256 - 25


@pytest.fixture
def wide() -> Heap:
    """256 bytes of nursery, and only an object of as many lies outside."""
    return Heap(Configuration(large_object_bytes=256, prebuilt_nodes=0, prebuilt_arrays=0))


# When it is called.


def test_the_callbacks_string_lies_before_the_object_that_collected(heap: Heap) -> None:
    heap.set_callback(SHORT)
    allocate_dead_nodes(heap, 8)
    assert heap.allocate_node(1) == (32, 32)
    assert [obj.kind for obj in heap.nursery.memory.values()] == [Kind.STRING, Kind.NODE]


@pytest.mark.parametrize(
    ("lengths", "address"), [((), 0), ((SHORT, None), 0), ((SHORT, SHORT + 1), 40)]
)
def test_the_callback_allocates_what_was_set_last(
    heap: Heap, lengths: tuple[int | None, ...], address: int
) -> None:
    for length in lengths:
        heap.set_callback(length)
    allocate_dead_nodes(heap, 8)
    assert heap.allocate_node(1) == (32, address)


def test_an_allocation_that_fits_calls_nothing_back(heap: Heap) -> None:
    heap.set_callback(SHORT)
    allocate_dead_nodes(heap, 8)
    assert heap.nursery.nursery_free == 256


@pytest.mark.parametrize(
    "collect",
    [
        Heap.collect_minor,
        Heap.collect_progress,
        Heap.collect_step,
        Heap.collect_full,
        lambda heap: heap.disable_sampling(report=True),
    ],
    ids=["minor", "progress", "step", "full", "disable"],
)
def test_a_requested_collection_calls_nothing(heap: Heap, collect: Callable[[Heap], None]) -> None:
    heap.set_callback(SHORT)
    collect(heap)
    assert (heap.nursery.nursery_free, heap.nursery.memory) == (0, {})


@pytest.mark.parametrize(
    "allocate",
    [
        lambda heap: heap.allocate_string(700),
        lambda heap: heap.allocate_old_string(700),
        lambda heap: (heap.add_memory_pressure(640), heap.allocate_old_string(700)),
    ],
    ids=["young", "old", "pressure"],
)
def test_an_object_outside_calls_back_first(heap: Heap, allocate: Callable[[Heap], object]) -> None:
    heap.set_callback(SHORT)
    allocate(heap)
    assert [obj.kind for obj in heap.nursery.memory.values()] == [Kind.STRING]


# Its string.


def test_the_callbacks_string_is_in_no_root_and_dies(heap: Heap) -> None:
    heap.set_callback(SHORT)
    allocate_dead_nodes(heap, 9)
    assert heap.roots == []
    heap.collect_minor()
    assert (heap.memory_used_bytes(), heap.minor.surviving_bytes) == (0, 0)


def test_the_callbacks_string_jumps_pinned_objects(heap: Heap) -> None:
    allocate_pinned(heap)
    heap.collect_minor()
    heap.set_callback(SHORT)
    allocate_dead_nodes(heap, 7)
    assert heap.allocate_node(1) == (32, 64)


# The second minor collection.


@pytest.mark.parametrize(
    ("length", "order", "address"),
    [
        (LEAVES_ROOM_FOR_A_NODE, "M", 224),
        (LEAVES_ROOM_FOR_A_NODE + 1, "MM", 0),
        (FILLS_THE_NURSERY, "MM", 0),
    ],
)
def test_a_second_minor_collection_happens_exactly_if_the_object_does_not_fit_behind_the_string(
    wide: Heap, length: int, order: str, address: int
) -> None:
    wide.set_callback(length)
    allocate_dead_nodes(wide, 8)
    wide.events.take()
    assert wide.allocate_node(1) == (32, address)
    assert letters(wide) == order


def test_the_second_minor_collection_calls_nothing_back(wide: Heap) -> None:
    wide.set_callback(FILLS_THE_NURSERY)
    allocate_dead_nodes(wide, 9)
    assert [obj.kind for obj in wide.nursery.memory.values()] == [Kind.NODE]


def test_the_second_minor_collection_is_not_a_step_of_the_major_one(wide: Heap) -> None:
    wide.collect_step()
    allocate_dead_nodes(wide, 8)
    wide.set_callback(FILLS_THE_NURSERY)
    state = wide.major.state
    wide.allocate_node(1)
    assert wide.major.state == state + 1


@pytest.mark.parametrize("length", [None, SHORT])
def test_an_object_without_room_after_two_collections_fails(heap: Heap, length: int | None) -> None:
    heap.set_callback(length)
    with pytest.raises(HeapError, match="collecting twice is not enough"):
        heap.nursery.allocate(264)
    assert letters(heap) == "MM"


# Sampling.


def test_the_callbacks_string_is_sampled_and_reported_as_dead(heap: Heap) -> None:
    heap.enable_sampling(264)
    heap.set_callback(SHORT)
    allocate_dead_nodes(heap, 9)
    assert (letters(heap), heap.sampling.pending) == ("Ms", [0])
    heap.collect_minor()
    assert reported(heap) == [Kind.STRING << 2]


def test_the_second_minor_collection_reports_the_callbacks_string(wide: Heap) -> None:
    wide.enable_sampling(264)
    wide.set_callback(FILLS_THE_NURSERY)
    allocate_dead_nodes(wide, 9)
    order, [report] = wide.events.take()
    assert (order, report.entries) == ("MsMRs", [Kind.STRING << 2])


def test_an_object_sampled_before_both_collections_is_in_the_report_of_neither(wide: Heap) -> None:
    wide.enable_sampling(248)
    wide.set_callback(LEAVES_ROOM_FOR_A_NODE)
    allocate_dead_nodes(wide, 7)
    wide.allocate_array(3)
    assert (wide.events.take(), wide.sampling.pending) == (("sMM", []), [0])
    wide.collect_minor()
    assert reported(wide) == [Kind.ARRAY << 2 | SURVIVED]


def test_a_sample_point_may_lie_before_and_behind_the_callbacks_string(wide: Heap) -> None:
    wide.enable_sampling(240)
    wide.set_callback(LEAVES_ROOM_FOR_A_NODE)
    allocate_dead_nodes(wide, 7)
    wide.allocate_array(3)
    assert (letters(wide), wide.sampling.pending) == ("sMsM", [0, 0])


@pytest.mark.parametrize("period_bytes", [8, 40, 104, 256, 264, 1000])
def test_samples_are_exact_with_callbacks(heap: Heap, period_bytes: int) -> None:
    heap.enable_sampling(period_bytes)
    heap.set_callback(SHORT)
    allocate_dead_nodes(heap, 200)
    order = letters(heap)
    # The first 8 nodes fill the nursery; then each collection's string leaves room for 7.
    assert order.count("M") == (200 - 8 + 6) // 7
    counted_bytes = 32 * (200 + order.count("M"))
    assert order.count("s") == (counted_bytes - 1) // period_bytes
