"""GCBench: binary trees of many depths, beside a tree and an array that live to the end.

After the benchmark of John Ellis, Pete Kovac and Hans Boehm, scaled down; its array of doubles is
one of boxed integers. Invariant: the short-lived trees of every depth have nearly the same number
of nodes together, half of them built top down and half bottom up, so depths and directions compare.
"""

from __future__ import annotations

import attrs

from gcmodel.collector.heap import Heap
from gcmodel.workloads.scopes import Scope, newest

LEFT, RIGHT = 0, 1


@attrs.frozen(kw_only=True)
class Size:
    """Depths of trees, from 0 up: a tree of depth 0 is one node. How much else there is."""

    stretch_depth: int = 12
    long_lived_depth: int = 10
    min_depth: int = 4
    max_depth: int = 10
    """The short-lived trees have `min_depth`, and every second depth from there to `max_depth`."""
    nodes_per_depth: int = 80_000
    """In all trees of one depth together, at most."""
    array_length: int = 4000


@attrs.frozen
class Result:
    """What was found at the end of the long-lived data, and how many short-lived trees died."""

    short_lived_trees: int
    long_lived_nodes: int
    array_sum: int


def run(heap: Heap, size: Size = Size()) -> Result:
    """The whole benchmark."""
    with Scope(heap):
        stretch(heap, size.stretch_depth)
        tree = make_long_lived_tree(heap, size.long_lived_depth)
        array = make_long_lived_array(heap, size.array_length)
        trees = 0
        for depth in range(size.min_depth, size.max_depth + 1, 2):
            count = size.nodes_per_depth // 2 // tree_size(depth)
            construct_top_down(heap, depth, count)
            construct_bottom_up(heap, depth, count)
            trees += 2 * count
        return Result(trees, count_nodes(heap, tree), sum_array(heap, array))


def tree_size(depth: int) -> int:
    """How many nodes a tree of so many levels below its root has."""
    return (2 << depth) - 1


def stretch(heap: Heap, depth: int) -> None:
    """Make the heap as large as it will ever be, once, with a tree that dies at once."""
    with Scope(heap):
        make_tree(heap, depth)


def make_long_lived_tree(heap: Heap, depth: int) -> int:
    """The slot of a tree that is built top down."""
    heap.allocate_node(depth)
    tree = newest(heap)
    populate(heap, tree, depth)
    return tree


def make_long_lived_array(heap: Heap, length: int) -> int:
    """The slot of an array of which the first half refers to the numbers from 0 up."""
    heap.allocate_array(length)
    array = newest(heap)
    for index in range(length // 2):
        with Scope(heap):
            heap.allocate_node(index)
            heap.write(array, index, newest(heap))
    return array


def construct_top_down(heap: Heap, depth: int, count: int) -> None:
    """Build so many trees, each dead when the next one is begun."""
    for _ in range(count):
        with Scope(heap):
            heap.allocate_node(depth)
            populate(heap, newest(heap), depth)


def construct_bottom_up(heap: Heap, depth: int, count: int) -> None:
    """The same, children first."""
    for _ in range(count):
        with Scope(heap):
            make_tree(heap, depth)


def populate(heap: Heap, node: int, depth: int) -> None:
    """Give `node` two children and these theirs: references lead from old objects to new ones."""
    if depth == 0:
        return
    with Scope(heap):
        for side in (LEFT, RIGHT):
            heap.allocate_node(depth - 1)
            child = newest(heap)
            heap.write(node, side, child)
            populate(heap, child, depth - 1)


def make_tree(heap: Heap, depth: int) -> int:
    """The slot of a tree whose references lead from new objects to old ones."""
    with Scope(heap) as scope:
        if depth == 0:
            heap.allocate_node(depth)
            return scope.keep(newest(heap))
        left, right = make_tree(heap, depth - 1), make_tree(heap, depth - 1)
        heap.allocate_node(depth)
        node = newest(heap)
        heap.write(node, LEFT, left)
        heap.write(node, RIGHT, right)
        return scope.keep(node)


def count_nodes(heap: Heap, node: int) -> int:
    """How many nodes the tree really has."""
    count = 1
    for side in (LEFT, RIGHT):
        with Scope(heap):
            if heap.read(node, side) is not None:
                count += count_nodes(heap, newest(heap))
    return count


def sum_array(heap: Heap, array: int) -> int:
    """The sum of the numbers to which the array refers."""
    total = 0
    for index in range(heap.read_number(array)):
        with Scope(heap):
            if heap.read(array, index) is not None:
                total += heap.read_number(newest(heap))
    return total
