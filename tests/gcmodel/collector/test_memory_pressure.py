"""Memory pressure: when bytes outside the heap make a collection due, and how.

The threshold of an empty heap is 640 bytes, and each call counts 16 bytes more than its argument.
"""

from collections.abc import Callable

import pytest
from heap_steps import allocate_dead_nodes, allocate_pinned, letters, sample_point_of, samples

from gcmodel import Heap
from gcmodel.collector.major import State

JUST_ENOUGH = 640 - 16 + 1
"""Bytes that bring the threshold below zero at once."""


def test_pressure_down_to_zero_makes_no_collection_due(heap: Heap) -> None:
    heap.add_memory_pressure(JUST_ENOUGH - 1)
    assert (heap.major.threshold_bytes, heap.nursery.nursery_limit) == (0, 256)
    allocate_dead_nodes(heap, 8)
    assert letters(heap) == ""


def test_under_pressure_the_next_allocation_collects_once_even_if_it_would_fit(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.add_memory_pressure(JUST_ENOUGH)
    assert heap.nursery.nursery_limit == heap.nursery.nursery_free == 32
    assert letters(heap) == ""
    assert heap.allocate_node(2) == (32, 0)
    allocate_dead_nodes(heap, 7)
    assert (letters(heap), heap.major.state) == ("M", State.MARKING)


def test_pressure_adds_up(heap: Heap) -> None:
    for _ in range(2):
        heap.add_memory_pressure(320 - 16)
    assert not heap.nursery.is_collection_due
    heap.add_memory_pressure(0)
    assert heap.nursery.is_collection_due


def test_a_cycle_ends_the_pressure(heap: Heap) -> None:
    heap.add_memory_pressure(5000)
    heap.collect_full()
    assert (heap.major.threshold_bytes, heap.nursery.is_collection_due) == (640, False)


@pytest.mark.parametrize(
    "collect",
    [
        Heap.collect_minor,
        lambda heap: heap.disable_sampling(report=True),
        lambda heap: heap.allocate_string(100),
        lambda heap: heap.allocate_old_string(100),
    ],
    ids=["minor", "disable", "young", "old"],
)
def test_any_minor_collection_is_the_due_one(heap: Heap, collect: Callable[[Heap], object]) -> None:
    heap.add_memory_pressure(JUST_ENOUGH)
    collect(heap)
    assert letters(heap).startswith("M")
    assert heap.nursery.nursery_limit == 256
    allocate_dead_nodes(heap, 8)
    assert letters(heap) == ""


def test_the_collection_that_is_due_comes_before_a_jump(heap_for_pins: Heap) -> None:
    heap = heap_for_pins
    allocate_pinned(heap)
    heap.collect_minor()
    heap.allocate_node(1)
    heap.events.take()
    heap.add_memory_pressure(1280)
    assert heap.allocate_node(2) == (32, 32)
    assert letters(heap) == "M"


# Sampling.


def test_pressure_is_not_a_sample_and_counts_no_bytes(heap: Heap) -> None:
    heap.enable_sampling(1000)
    allocate_dead_nodes(heap, 3)
    heap.add_memory_pressure(JUST_ENOUGH)
    assert (letters(heap), sample_point_of(heap)) == ("", 1000)
    allocate_dead_nodes(heap, 1)
    assert letters(heap) == "M"
    assert sample_point_of(heap) - heap.nursery.nursery_free == 1000 - 4 * 32


@pytest.mark.parametrize(("period_bytes", "nodes_before"), [(24, 0), (32, 1)])
def test_a_due_collection_comes_first(heap: Heap, period_bytes: int, nodes_before: int) -> None:
    """Also if the sample point was reached exactly before."""
    heap.enable_sampling(period_bytes)
    allocate_dead_nodes(heap, nodes_before)
    heap.add_memory_pressure(JUST_ENOUGH)
    allocate_dead_nodes(heap, 1)
    assert heap.events.take() == ("Ms", [])


@pytest.mark.parametrize("period_bytes", [8, 40, 264])
def test_samples_are_exact_under_pressure(heap: Heap, period_bytes: int) -> None:
    heap.enable_sampling(period_bytes)
    for _ in range(50):
        allocate_dead_nodes(heap, 3)
        heap.add_memory_pressure(500)
    assert samples(heap) == (150 * 32 - 1) // period_bytes


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
@pytest.mark.parametrize("before", ["off", "on", "paused"])
def test_a_due_collection_is_not_lost(heap: Heap, act: Callable[[Heap], None], before: str) -> None:
    if before != "off":
        heap.enable_sampling(128)
    if before == "paused":
        heap.pause_sampling()
    heap.add_memory_pressure(JUST_ENOUGH)
    act(heap)
    assert letters(heap) == ""
    heap.allocate_array(0)
    assert letters(heap) == "M"
