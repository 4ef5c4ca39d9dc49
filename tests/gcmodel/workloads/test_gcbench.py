"""GCBench builds the trees that it should, and the long-lived data is whole at the end."""

from collections.abc import Callable

import pytest

from gcmodel import Heap, Kind
from gcmodel.workloads.gcbench import (
    Result,
    Size,
    count_nodes,
    make_long_lived_array,
    make_long_lived_tree,
    make_tree,
    run,
    tree_size,
)

# 350 nodes each way are 50 trees of 7 nodes, or 11 trees of 31 nodes.
SMALL = Size(
    stretch_depth=7,
    long_lived_depth=5,
    min_depth=2,
    max_depth=4,
    nodes_per_depth=700,
    array_length=50,
)


def test_the_long_lived_data_is_whole_at_the_end(large_heap: Heap) -> None:
    assert run(large_heap, SMALL) == Result(2 * (50 + 11), 63, sum(range(25)))


def test_every_tree_is_built_once(large_heap: Heap) -> None:
    run(large_heap, SMALL)
    nodes = 255 + 63 + 25 + 2 * (50 * 7 + 11 * 31)
    # All of it fits in the nursery, and an array of 50 has 16 bytes before its items.
    assert large_heap.nursery.nursery_free == nodes * 32 + 16 + 50 * 8


@pytest.mark.parametrize("make", [make_tree, make_long_lived_tree])
@pytest.mark.parametrize(("depth", "nodes"), [(0, 1), (1, 3), (6, 127)])
def test_a_tree_of_either_direction_is_complete(
    heap: Heap, make: Callable[[Heap, int], int], depth: int, nodes: int
) -> None:
    assert count_nodes(heap, make(heap, depth)) == nodes == tree_size(depth)


def test_trees_of_both_directions_are_equal(heap: Heap) -> None:
    make_tree(heap, 4)
    bottom_up = heap.walk()
    heap.free(0)
    make_long_lived_tree(heap, 4)
    assert heap.walk() == bottom_up


def test_the_second_half_of_the_array_stays_empty(heap: Heap) -> None:
    make_long_lived_array(heap, 5)
    assert heap.walk() == [[Kind.ARRAY, 5, 0, 1, 1, 2], [Kind.NODE, 0], [Kind.NODE, 1]]
