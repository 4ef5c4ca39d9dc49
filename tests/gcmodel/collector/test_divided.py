"""Arrays of two blocks."""

from __future__ import annotations

import pytest

from gcmodel import Configuration, Kind, TlabSizes
from gcmodel.collector.divided import DividedHeap, DividedParts


def heap_with(nursery_bytes: int, desired_bytes: int, first_bytes: int = 8) -> DividedHeap:
    sizes = TlabSizes(
        desired_bytes=desired_bytes,
        least_bytes=8,
        reserve_bytes=16,
        waste_bytes=512,
        waste_increment_bytes=0,
    )
    configuration = Configuration(
        nursery_bytes=nursery_bytes,
        large_object_bytes=nursery_bytes,
        tlab=sizes,
        sampler_seeds=(1,),
        first_bytes=first_bytes,
    )
    return DividedHeap(configuration, DividedParts())


def test_the_items_come_first() -> None:
    heap = heap_with(512, 256)
    assert heap.allocate_array(3) == (80, 48)
    assert [(at, obj.size_bytes) for at, obj in heap.nursery.memory.items()] == [(0, 48), (48, 32)]
    assert [(obj.kind, obj.number, obj.refs) for obj in heap.roots] == [(Kind.ARRAY, 3, [None] * 3)]


@pytest.mark.parametrize(("first_bytes", "address"), [(48, 0), (49, 48), (80, 48)])
def test_each_block_counts_by_itself(first_bytes: int, address: int) -> None:
    """The items take 48 bytes, and the array 32."""
    heap = heap_with(512, 256, first_bytes)
    heap.enable_sampling(8)
    heap.allocate_array(3)
    assert heap.sampling.pending[0] == address


def test_a_collection_may_come_between_the_blocks() -> None:
    """The items of 32 bytes begin a buffer of 48 bytes, with a reserve of 16."""
    heap = heap_with(72, 16)
    heap.allocate_array(1)
    assert heap.events.order == "M"
    assert [obj.kind for obj in heap.nursery.memory.values()] == [Kind.ARRAY]
    heap.collect_full()
    assert heap.read_number(0) == 1
