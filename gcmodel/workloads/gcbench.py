"""GCBench: binary trees of many depths, beside a tree and an array that live to the end.

It is the benchmark of John Ellis, Pete Kovac and Hans Boehm, scaled down, with an array of boxed
integers instead of doubles. Invariant: the short-lived trees of every depth have nearly the same
number of nodes together, half of them built top down and half bottom up, so that depths and
directions compare.
"""

import attrs

from gcmodel.collector.heap import Heap
from gcmodel.workloads.scopes import Scope, newest

LEFT, RIGHT = 0, 1


@attrs.frozen(kw_only=True)
class Size:
    """The depths of trees, from 0 up (a tree of depth 0 is one node), and other sizes."""

    stretch_depth: int = 12
    long_lived_depth: int = 10
    min_depth: int = 4
    max_depth: int = 10
    """Short-lived trees have `min_depth`, and every second depth from there to `max_depth`."""
    nodes_per_depth: int = 80_000
    """The most nodes that all trees of one depth have together."""
    array_length: int = 4000


@attrs.frozen
class Result:
    """The long-lived data found at the end, and the number of short-lived trees that died."""

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
    """The number of nodes in a tree with `depth` levels below its root."""
    return (2 << depth) - 1


def stretch(heap: Heap, depth: int) -> None:
    """Make the heap as large as it will ever be, with a tree that dies at once."""
    with Scope(heap):
        make_tree(heap, depth)


def make_long_lived_tree(heap: Heap, depth: int) -> int:
    """Build a tree top down; return its slot."""
    heap.allocate_node(depth)
    tree = newest(heap)
    populate(heap, tree, depth)
    return tree


def make_long_lived_array(heap: Heap, length: int) -> int:
    """Make an array whose first half refers to the numbers from 0 up; return its slot."""
    heap.allocate_array(length)
    array = newest(heap)
    for index in range(length // 2):
        with Scope(heap):
            heap.allocate_node(index)
            heap.write(array, index, newest(heap))
    return array


def construct_top_down(heap: Heap, depth: int, count: int) -> None:
    """Build `count` trees, parents first, each dead when the next one is started."""
    for _ in range(count):
        with Scope(heap):
            heap.allocate_node(depth)
            populate(heap, newest(heap), depth)


def construct_bottom_up(heap: Heap, depth: int, count: int) -> None:
    """Build `count` trees, children first."""
    for _ in range(count):
        with Scope(heap):
            make_tree(heap, depth)


def populate(heap: Heap, node: int, depth: int) -> None:
    """Add `depth` levels below `node`: references lead from old objects to new ones."""
    if depth == 0:
        return
    with Scope(heap):
        for side in (LEFT, RIGHT):
            heap.allocate_node(depth - 1)
            child = newest(heap)
            heap.write(node, side, child)
            populate(heap, child, depth - 1)


def make_tree(heap: Heap, depth: int) -> int:
    """Build a tree whose references lead from new objects to old ones; return its slot."""
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
    """Count the nodes that the tree really has."""
    count = 1
    for side in (LEFT, RIGHT):
        with Scope(heap):
            if heap.read(node, side) is not None:
                count += count_nodes(heap, newest(heap))
    return count


def sum_array(heap: Heap, array: int) -> int:
    """Sum the numbers to which the array refers."""
    total = 0
    for index in range(heap.read_number(array)):
        with Scope(heap):
            if heap.read(array, index) is not None:
                total += heap.read_number(newest(heap))
    return total
