"""The loop allocates the same bytes in every round."""

from gcmodel import Heap
from gcmodel.workloads.allocate import run


def test_every_round_allocates_the_same_bytes(large_heap: Heap) -> None:
    # 6 nodes of 32; arrays of 24, 48 and 144; strings of 32 and 112, rounded; a weakref of 16.
    assert [run(large_heap, rounds) for rounds in (0, 1, 1000)] == [0, 568, 568_000]


def test_no_round_keeps_anything(large_heap: Heap) -> None:
    run(large_heap, 3)
    large_heap.collect_minor()
    assert large_heap.memory_used_bytes() == 0
