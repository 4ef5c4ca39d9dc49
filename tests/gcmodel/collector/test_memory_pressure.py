"""Memory outside the heap that depends on objects in it: when it makes a collection due, and how.

The threshold of an empty heap is 640 bytes, and each call counts 16 bytes more than it says.
"""

from collections.abc import Callable

import pytest

from gcmodel import Heap
from gcmodel.collector.major import State

JUST_ENOUGH = 640 - 16 + 1
"""Bytes that bring the threshold below zero at once."""


def allocate_dead_nodes(heap: Heap, count: int) -> None:
    for number in range(count):
        heap.allocate_node(number)
        heap.free(len(heap.roots) - 1)


def test_pressure_lowers_the_threshold_by_a_few_bytes_more(heap: Heap) -> None:
    heap.add_memory_pressure(100)
    assert heap.major.threshold_bytes == 640 - 116


def test_pressure_down_to_zero_makes_no_collection_due(heap: Heap) -> None:
    heap.add_memory_pressure(JUST_ENOUGH - 1)
    assert (heap.major.threshold_bytes, heap.nursery.nursery_limit) == (0, 256)
    allocate_dead_nodes(heap, 8)
    assert heap.events.take()[0] == ""


def test_under_pressure_the_next_allocation_collects_though_it_would_fit(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.add_memory_pressure(JUST_ENOUGH)
    assert heap.events.take()[0] == ""
    assert heap.allocate_node(2) == (32, 0)
    assert heap.events.take()[0] == "M"


def test_pressure_adds_up(heap: Heap) -> None:
    for _ in range(2):
        heap.add_memory_pressure(320 - 16)
    assert not heap.nursery.is_collection_due
    heap.add_memory_pressure(0)
    assert heap.nursery.is_collection_due


def test_the_collection_starts_a_cycle(heap: Heap) -> None:
    heap.add_memory_pressure(JUST_ENOUGH)
    heap.allocate_node(1)
    assert heap.major.state is State.MARKING


def test_a_cycle_ends_the_pressure(heap: Heap) -> None:
    heap.add_memory_pressure(5000)
    heap.collect_full()
    assert (heap.major.threshold_bytes, heap.nursery.is_collection_due) == (640, False)


def test_pressure_collects_once(heap: Heap) -> None:
    heap.add_memory_pressure(JUST_ENOUGH)
    allocate_dead_nodes(heap, 8)
    assert heap.events.take()[0] == "M"


def test_while_a_collection_is_due_nothing_fits(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.add_memory_pressure(JUST_ENOUGH)
    assert heap.nursery.nursery_limit == heap.nursery.nursery_free == 32


def test_any_minor_collection_is_the_one_that_was_due(heap: Heap) -> None:
    heap.add_memory_pressure(JUST_ENOUGH)
    heap.collect_minor()
    heap.events.take()
    assert heap.nursery.nursery_limit == 256
    allocate_dead_nodes(heap, 8)
    assert heap.events.take()[0] == ""


@pytest.mark.parametrize(
    "allocate",
    [lambda heap: heap.allocate_string(100), lambda heap: heap.allocate_old_string(100)],
    ids=["young", "old"],
)
def test_an_object_outside_makes_the_collection_that_is_due(
    heap: Heap, allocate: Callable[[Heap], object]
) -> None:
    heap.add_memory_pressure(JUST_ENOUGH)
    allocate(heap)
    assert heap.events.take()[0].startswith("M")
    heap.allocate_node(1)
    assert heap.events.take()[0] == ""


def test_the_collection_that_is_due_comes_before_a_jump(heap_for_pins: Heap) -> None:
    heap = heap_for_pins
    heap.allocate_string(7)
    heap.pin(0)
    heap.collect_minor()
    heap.allocate_node(1)
    heap.events.take()
    heap.add_memory_pressure(1280)
    assert heap.allocate_node(2) == (32, 32)
    assert heap.events.take()[0] == "M"


# Sampling.


def test_pressure_is_no_sample_and_counts_no_bytes(heap: Heap) -> None:
    heap.enable_sampling(1000)
    allocate_dead_nodes(heap, 3)
    heap.add_memory_pressure(JUST_ENOUGH)
    assert (heap.events.take()[0], heap.sampling.sample_point) == ("", 1000)
    allocate_dead_nodes(heap, 1)
    assert heap.events.take()[0] == "M"
    distance = heap.sampling.sample_point - heap.nursery.nursery_free
    assert distance == 1000 - 4 * 32


def test_the_collection_that_is_due_comes_before_the_sample(heap: Heap) -> None:
    heap.enable_sampling(24)
    heap.add_memory_pressure(JUST_ENOUGH)
    heap.allocate_node(1)
    assert heap.events.take() == ("Ms", [])


def test_a_sample_point_that_is_reached_exactly_is_not_taken_for_the_pressure(heap: Heap) -> None:
    heap.enable_sampling(32)
    heap.allocate_node(1)
    heap.add_memory_pressure(JUST_ENOUGH)
    heap.allocate_array(0)
    assert heap.events.take()[0] == "Ms"


@pytest.mark.parametrize("period_bytes", [8, 40, 264])
def test_samples_are_exact_under_pressure(heap: Heap, period_bytes: int) -> None:
    heap.enable_sampling(period_bytes)
    for _ in range(50):
        allocate_dead_nodes(heap, 3)
        heap.add_memory_pressure(500)
    assert heap.events.take()[0].count("s") == (150 * 32 - 1) // period_bytes


@pytest.mark.parametrize(
    "act",
    [
        lambda heap: heap.enable_sampling(64),
        lambda heap: heap.disable_sampling(report=False),
        Heap.pause_sampling,
        Heap.resume_sampling,
        Heap.after_fork,
        lambda heap: heap.add_memory_pressure(0),
    ],
    ids=["enable", "disable", "pause", "resume", "fork", "pressure"],
)
@pytest.mark.parametrize("is_on", [False, True])
def test_what_becomes_of_sampling_loses_no_collection_that_is_due(
    heap: Heap, act: Callable[[Heap], None], is_on: bool
) -> None:
    if is_on:
        heap.enable_sampling(128)
    heap.add_memory_pressure(JUST_ENOUGH)
    act(heap)
    assert heap.events.take()[0] == ""
    heap.allocate_array(0)
    assert heap.events.take()[0] == "M"


def test_resuming_loses_no_collection_that_is_due(heap: Heap) -> None:
    heap.enable_sampling(64)
    heap.pause_sampling()
    heap.add_memory_pressure(JUST_ENOUGH)
    heap.resume_sampling()
    heap.allocate_array(0)
    assert heap.events.take()[0] == "M"


def test_disabling_by_collecting_is_the_collection_that_was_due(heap: Heap) -> None:
    heap.add_memory_pressure(JUST_ENOUGH)
    heap.disable_sampling(report=True)
    heap.allocate_node(1)
    assert heap.events.take()[0] == "M"
