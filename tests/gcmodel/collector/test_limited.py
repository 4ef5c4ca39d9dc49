"""A heap with a greatest size: 1,024 bytes, four nurseries. It can be exhausted once."""

from __future__ import annotations

import pytest

from gcmodel import Configuration
from gcmodel.collector.finalizing import FinalizingHeap
from gcmodel.collector.invariants import check_invariants
from gcmodel.collector.limited import LimitedParts
from gcmodel.collector.major import SCANNING
from gcmodel.memory.errors import HeapError, HeapExhaustedError

LIMIT_BYTES, HEADER_BYTES, RESERVED_BYTES = 1024, 25, 128


@pytest.fixture
def heap() -> FinalizingHeap:
    return FinalizingHeap(Configuration(heap_bytes_max=LIMIT_BYTES), LimitedParts())


def exhaust(heap: FinalizingHeap) -> None:
    """Ask for one byte more than there is room for."""
    with pytest.raises(HeapExhaustedError, match="more than 1024 bytes are in use"):
        heap.allocate_string(LIMIT_BYTES - RESERVED_BYTES - HEADER_BYTES + 1)


def test_an_object_may_take_all_but_half_a_nursery(heap: FinalizingHeap) -> None:
    heap.allocate_string(LIMIT_BYTES - RESERVED_BYTES - HEADER_BYTES)
    exhaust(heap)


def test_an_exhausted_heap_is_whole_and_between_two_major_collections(heap: FinalizingHeap) -> None:
    heap.allocate_node(7)
    exhaust(heap)
    check_invariants(heap)
    assert heap.major.state is SCANNING
    assert heap.walk()[0][1] == 7
    assert len(heap.roots) == 1


def test_a_full_collection_with_too_many_survivors_is_exhausted(heap: FinalizingHeap) -> None:
    heap.allocate_string(LIMIT_BYTES - RESERVED_BYTES - HEADER_BYTES)
    for _ in range(4):
        heap.allocate_node(0)
    heap.collect_full()  # All of the limit is in use.
    heap.allocate_node(0)
    with pytest.raises(HeapExhaustedError):
        heap.collect_full()


def test_what_dies_makes_room_and_a_pending_finalizer_waits(heap: FinalizingHeap) -> None:
    heap.allocate_node(0)
    heap.register_finalizer(0, 3)
    heap.free(0)
    exhaust(heap)
    assert heap.run_finalizers(keep=False) == [3]
    heap.allocate_string(LIMIT_BYTES - RESERVED_BYTES - HEADER_BYTES - 32)
    heap.free(0)
    heap.collect_full()
    assert heap.memory_used_bytes() == 0


def test_the_second_time_the_program_ends(heap: FinalizingHeap) -> None:
    exhaust(heap)
    with pytest.raises(HeapError, match="for the second time"):
        heap.allocate_string(LIMIT_BYTES)


def test_no_threshold_is_above_the_limit() -> None:
    configuration = Configuration(nursery_bytes=256, heap_bytes_max=512)
    heap = FinalizingHeap(configuration, LimitedParts())
    assert heap.major.threshold_bytes == 512
    heap.allocate_string(300)
    heap.collect_full()
    assert heap.major.threshold_bytes == 512
