"""Pinned objects: they stay in place, and allocations jump over them.

Strings of 7 characters and nodes have 32 bytes each, so that addresses are easy to read.
"""

import itertools
from collections.abc import Callable

import pytest
from heap_steps import (
    SHORT,
    SURVIVED,
    allocate_dead_nodes,
    allocate_pinned,
    letters,
    reported,
    sample_point_of,
)

from gcmodel import Configuration, DanglingReferenceError, Heap, Kind, PinningError
from gcmodel.collector.pinning import pins_max
from gcmodel.memory.layout import array_bytes, rounded, string_bytes
from gcmodel.memory.objects import OUTSIDE

COLLECTIONS = [Heap.collect_minor, Heap.collect_progress, Heap.collect_step, Heap.collect_full]


def pin_at(heap: Heap, *addresses: int) -> None:
    """Pin strings at these multiples of 32, one in each root; the rest of the nursery is free."""
    for address in addresses:
        allocate_dead_nodes(heap, (address - heap.nursery.nursery_free) // 32)
        allocate_pinned(heap)
    heap.collect_minor()
    heap.events.take()


def addresses_of_nodes(heap: Heap, count: int) -> list[int | None]:
    return [heap.allocate_node(number)[1] for number in range(count)]


# A pinned object stays, and an unpinned one moves.


@pytest.mark.parametrize("collect", COLLECTIONS)
def test_a_pinned_object_stays_at_its_address(heap: Heap, collect: Callable[[Heap], None]) -> None:
    heap.allocate_node(1)
    allocate_pinned(heap)
    heap.write(0, 1, 1)
    pinned = heap.roots[1]
    for _ in range(3):
        collect(heap)
        assert heap.roots[1] is heap.nursery.memory[32] is pinned
    assert heap.walk() == [[Kind.NODE, 1, 1, 1], [Kind.STRING, SHORT]]
    assert heap.memory_used_bytes() == 32  # The node's.


@pytest.mark.parametrize("collect", COLLECTIONS)
def test_an_unreachable_pinned_object_dies(heap: Heap, collect: Callable[[Heap], None]) -> None:
    allocate_pinned(heap)
    pinned = heap.roots[0]
    heap.collect_minor()
    heap.free(0)
    collect(heap)
    assert (heap.nursery.memory, heap.pinning.count) == ({}, 0)
    heap.roots.append(pinned)
    with pytest.raises(DanglingReferenceError, match="which was freed"):
        heap.read_number(0)


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_unpinned_object_moves_or_dies_in_the_next_collection(heap: Heap, is_kept: bool) -> None:
    allocate_pinned(heap)
    heap.collect_minor()
    heap.unpin(0)
    assert heap.nursery.memory[0] is heap.roots[0]
    assert heap.read_number(0) == SHORT
    if not is_kept:
        heap.free(0)
    heap.collect_minor()
    assert [(obj.place, obj.number) for obj in heap.roots] == [(OUTSIDE, SHORT)] * is_kept
    assert heap.nursery.memory == {}
    assert heap.memory_used_bytes() == heap.minor.surviving_bytes == 32 * is_kept


def test_an_object_pinned_again_before_the_collection_stays(heap: Heap) -> None:
    allocate_pinned(heap)
    pinned = heap.roots[0]
    heap.collect_minor()
    heap.unpin(0)
    heap.pin(0)
    heap.collect_minor()
    assert heap.nursery.memory == {0: pinned}


# Obstacles and rooms.


def test_an_object_pinned_since_the_last_collection_is_not_an_obstacle(heap: Heap) -> None:
    allocate_pinned(heap)
    assert heap.nursery.nursery_top == 256
    assert heap.allocate_node(1) == (32, 32)


@pytest.mark.parametrize(
    ("pinned", "addresses"),
    [
        ((0,), [32, 64]),
        ((64,), [0, 32, 96, 128]),
        ((32, 64, 96), [0, 128]),
        ((480,), [*range(0, 480, 32), 0]),
        ((64, 192, 320), [0, 32, 96, 128, 160, 224, 256, 288, *range(352, 512, 32), 0]),
    ],
    ids=str,
)
def test_allocations_jump_over_pinned_objects(
    heap_for_pins: Heap, pinned: tuple[int, ...], addresses: list[int]
) -> None:
    heap = heap_for_pins
    pin_at(heap, *pinned)
    tops = []
    for address in addresses:
        assert heap.allocate_node(0) == (32, address)
        heap.free(len(heap.roots) - 1)
        tops.append(heap.nursery.nursery_top)
    # A room ends at the next pinned object. A jump does not collect, but the end of the last does.
    assert letters(heap) == ("M" if addresses[-1] == 0 else "")
    ends = [*pinned, 512]
    expected = [next(end for end in ends if end > address) for address in addresses]
    assert tops == expected


def test_an_object_may_fit_only_behind_the_second_obstacle(heap_for_pins: Heap) -> None:
    pin_at(heap_for_pins, 32, 96)
    assert heap_for_pins.nursery.nursery_limit == 32
    assert heap_for_pins.allocate_string(30) == (56, 128)
    # The rest of a room is not used any more.
    assert heap_for_pins.allocate_array(0) == (16, 184)
    assert letters(heap_for_pins) == ""


def test_an_obstacle_ends_where_its_object_ends(heap: Heap) -> None:
    heap.allocate_string(30)
    heap.pin(0)
    heap.collect_minor()
    assert heap.allocate_node(1) == (32, 56)


def test_an_obstacle_stays_until_the_collection_after_it_is_free(heap_for_pins: Heap) -> None:
    pin_at(heap_for_pins, 32, 96)
    heap_for_pins.unpin(1)
    heap_for_pins.free(0)
    assert addresses_of_nodes(heap_for_pins, 3) == [0, 64, 128]
    heap_for_pins.collect_minor()
    assert addresses_of_nodes(heap_for_pins, 4) == [0, 32, 64, 96]


# How many.


@pytest.mark.parametrize(
    ("nursery_bytes", "large_object_bytes", "pins"),
    [
        *[(64, 64, 0), (128, 64, 0), (184, 64, 0), (192, 64, 1), (320, 64, 2), (512, 64, 3)],
        (256, 26, 3),
    ],
)
def test_twice_as_many_objects_and_one_as_may_be_pinned_fill_the_nursery(
    nursery_bytes: int, large_object_bytes: int, pins: int
) -> None:
    configuration = Configuration(
        nursery_bytes=nursery_bytes, large_object_bytes=large_object_bytes
    )
    assert pins_max(configuration) == pins


def test_no_more_than_the_maximum_may_be_pinned(heap: Heap) -> None:
    allocate_pinned(heap)
    heap.allocate_string(SHORT)
    with pytest.raises(PinningError, match="no more than 1 may be pinned at once"):
        heap.pin(1)
    heap.collect_minor()
    assert [obj.place == OUTSIDE for obj in heap.roots] == [False, True]


def test_unpinning_makes_room_for_another_pin_at_once(heap: Heap) -> None:
    allocate_pinned(heap)
    heap.unpin(0)
    allocate_pinned(heap)
    heap.collect_minor()
    assert heap.nursery.memory == {32: heap.roots[1]}


def test_a_pinned_object_counts_until_a_minor_collection_finds_it_dead(heap: Heap) -> None:
    allocate_pinned(heap)
    heap.free(0)
    heap.allocate_string(SHORT)
    with pytest.raises(PinningError):
        heap.pin(0)
    heap.collect_minor()
    allocate_pinned(heap)
    assert heap.pinning.count == 1


@pytest.mark.parametrize("large_object_bytes", [26, 33, 34, 40, 57, 64])
def test_the_largest_object_fits_beside_all_pinned_ones(large_object_bytes: int) -> None:
    nurseries_bytes = (64, 72, 128, 192, 200, 256, 320, 504, 512, 1000, 4096)
    length = large_object_bytes - 1 - string_bytes(0)
    largest_bytes = rounded(string_bytes(length))
    # The worst gap is the last one: just too small for the largest object.
    gaps_bytes = (0, *range(array_bytes(0), largest_bytes, 8))
    for nursery_bytes, gap_bytes in itertools.product(nurseries_bytes, gaps_bytes):
        configuration = Configuration(
            nursery_bytes=nursery_bytes, large_object_bytes=large_object_bytes
        )
        heap = Heap(configuration)
        for _ in range(pins_max(configuration)):
            if gap_bytes:
                heap.allocate_array((gap_bytes - array_bytes(0)) // 8)
                heap.free(len(heap.roots) - 1)
            heap.allocate_string(length)
            heap.pin(len(heap.roots) - 1)
        heap.collect_minor()
        heap.events.take()
        size_bytes, address = heap.allocate_string(length)
        assert (size_bytes, address is None) == (largest_bytes, False)
        assert letters(heap) == ""


# Objects that cannot be pinned or unpinned.


@pytest.mark.parametrize(
    "allocate",
    [
        lambda heap: heap.allocate_node(1),
        lambda heap: heap.allocate_array(2),
        lambda heap: (heap.allocate_node(1), heap.allocate_weakref(0)),
        lambda heap: heap.allocate_string(100),
        lambda heap: heap.allocate_string(SHORT, nonmovable=True),
        lambda heap: heap.allocate_old_string(SHORT),
        lambda heap: (heap.allocate_string(SHORT), heap.collect_minor()),
    ],
    ids=["node", "array", "weakref", "large", "nonmovable", "old", "moved"],
)
def test_only_young_strings_can_be_pinned(heap: Heap, allocate: Callable[[Heap], object]) -> None:
    allocate(heap)
    with pytest.raises(PinningError, match="cannot be pinned"):
        heap.pin(len(heap.roots) - 1)
    assert heap.pinning.count == 0


@pytest.mark.parametrize("collected", [False, True])
def test_an_object_cannot_be_pinned_or_unpinned_twice(heap_for_pins: Heap, collected: bool) -> None:
    heap = heap_for_pins
    allocate_pinned(heap)
    if collected:
        heap.collect_minor()
    with pytest.raises(PinningError, match="cannot be pinned"):
        heap.pin(0)
    assert heap.pinning.count == 1
    heap.unpin(0)
    if collected:
        heap.collect_minor()
    with pytest.raises(PinningError, match="is not pinned"):
        heap.unpin(0)
    assert heap.pinning.count == 0


# Pinning and sampling exclude each other, unless the configuration allows it.


def test_no_object_is_pinned_while_sampling_is_on(heap: Heap) -> None:
    heap.enable_sampling(64)
    heap.allocate_string(SHORT)
    with pytest.raises(PinningError, match="sampling is on"):
        heap.pin(0)
    heap.collect_minor()
    assert heap.roots[0].place == OUTSIDE


@pytest.mark.parametrize(
    "stop",
    [lambda heap: heap.disable_sampling(report=False), Heap.pause_sampling, Heap.after_fork],
    ids=["disable", "pause", "fork"],
)
def test_an_object_may_be_pinned_after_sampling(heap: Heap, stop: Callable[[Heap], None]) -> None:
    heap.enable_sampling(64)
    stop(heap)
    allocate_pinned(heap)
    heap.collect_minor()
    assert heap.nursery.memory == {0: heap.roots[0]}


def test_sampling_is_neither_enabled_nor_resumed_while_an_object_is_pinned(heap: Heap) -> None:
    heap.enable_sampling(8)
    heap.pause_sampling()
    allocate_pinned(heap)
    with pytest.raises(PinningError, match=r"objects are pinned \(1\), which excludes sampling"):
        heap.enable_sampling(64)
    with pytest.raises(PinningError, match="which excludes sampling"):
        heap.resume_sampling()
    assert (heap.sampling.period_bytes, heap.sampling.paused_period_bytes) == (0, 8)


@pytest.mark.parametrize(
    "release",
    [lambda heap: heap.unpin(0), lambda heap: (heap.free(0), heap.collect_minor())],
    ids=["unpinned", "found dead"],
)
def test_sampling_starts_without_pins(heap: Heap, release: Callable[[Heap], object]) -> None:
    allocate_pinned(heap)
    release(heap)
    heap.enable_sampling(64)
    assert heap.sampling.period_bytes == 64


def test_with_pin_while_sampling_each_may_start_beside_the_other(heap_for_pins: Heap) -> None:
    allocate_pinned(heap_for_pins)
    heap_for_pins.enable_sampling(64)
    allocate_pinned(heap_for_pins)
    assert (heap_for_pins.pinning.count, heap_for_pins.sampling.period_bytes) == (2, 64)


def test_a_jump_moves_the_sample_point(heap_for_pins: Heap) -> None:
    pin_at(heap_for_pins, 32, 96)
    heap_for_pins.enable_sampling(400)
    heap_for_pins.allocate_string(30)
    # The rest of a room does not count towards the sample.
    assert (heap_for_pins.nursery.nursery_free, sample_point_of(heap_for_pins)) == (184, 528)


def test_an_object_that_jumps_passes_each_sample_point_once(heap_for_pins: Heap) -> None:
    pin_at(heap_for_pins, 32, 96)
    heap_for_pins.enable_sampling(16)
    heap_for_pins.allocate_string(30)
    assert (letters(heap_for_pins), heap_for_pins.sampling.pending) == ("sss", [128] * 3)
    assert sample_point_of(heap_for_pins) - heap_for_pins.nursery.nursery_free == 64 - 56


def test_the_object_behind_an_obstacle_passes_its_sample_point(heap_for_pins: Heap) -> None:
    pin_at(heap_for_pins, 64)
    heap_for_pins.enable_sampling(64)
    allocate_dead_nodes(heap_for_pins, 3)
    assert (letters(heap_for_pins), heap_for_pins.sampling.pending) == ("s", [96])


@pytest.mark.parametrize("period_bytes", [8, 40, 104, 256, 264, 1000])
@pytest.mark.parametrize("addresses", [(0,), (64,), (64, 192, 320), (32, 64, 96), (480,)])
def test_samples_are_exact_across_jumps(
    heap_for_pins: Heap, addresses: tuple[int, ...], period_bytes: int
) -> None:
    pin_at(heap_for_pins, *addresses)
    heap_for_pins.enable_sampling(period_bytes)
    counted_bytes = 0
    for step in range(200):
        counted_bytes += heap_for_pins.allocate_array(step % 8)[0]
        heap_for_pins.free(len(heap_for_pins.roots) - 1)
        point, free = sample_point_of(heap_for_pins), heap_for_pins.nursery.nursery_free
        assert (counted_bytes + point - free) % period_bytes == 0
        assert heap_for_pins.nursery.nursery_limit == min(point, heap_for_pins.nursery.nursery_top)
    assert letters(heap_for_pins).count("s") == (counted_bytes - 1) // period_bytes


def test_sampling_changes_no_address_among_pinned_objects() -> None:
    addresses = []
    for period_bytes in (0, 40):
        heap = Heap(Configuration(nursery_bytes=512, pin_while_sampling=True))
        pin_at(heap, 64, 192, 320)
        if period_bytes:
            heap.enable_sampling(period_bytes)
        addresses.append([heap.allocate_array(number % 5) for number in range(60)])
    assert addresses[0] == addresses[1]


@pytest.mark.parametrize("kept", [False, True])
def test_a_sampled_pinned_object_is_reported_once(heap_for_pins: Heap, kept: bool) -> None:
    heap_for_pins.enable_sampling(24)
    allocate_pinned(heap_for_pins)
    if not kept:
        heap_for_pins.free(0)
    heap_for_pins.collect_minor()
    assert reported(heap_for_pins) == [Kind.STRING << 2 | (SURVIVED if kept else 0)]
    heap_for_pins.roots.clear()
    heap_for_pins.collect_minor()
    assert heap_for_pins.events.take() == ("M", [])
