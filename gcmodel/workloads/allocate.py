"""A loop that only allocates, and drops each object at once: the worst case for sampling's cost.

Sampling slows down allocations only, so a program that does nothing else is slowed down the most.
Invariant: nothing survives its round, and every round allocates the same bytes. Sums are loops,
since a generator would be a frame in the profile.
"""

from gcmodel.collector.heap import Heap
from gcmodel.workloads.scopes import Scope, newest

ROUNDS = 40_000
NODES_PER_ROUND = 6
ARRAY_LENGTHS = (1, 4, 16)
STRING_LENGTHS = (7, 80)


def run(heap: Heap, rounds: int = ROUNDS) -> int:
    """Allocate a few objects of every kind in each round; return all bytes that count."""
    counted_bytes = 0
    for _ in range(rounds):
        with Scope(heap):
            counted_bytes += allocate_nodes(heap) + allocate_arrays(heap)
            counted_bytes += allocate_strings(heap) + allocate_weakref(heap)
    return counted_bytes


def allocate_nodes(heap: Heap) -> int:
    """Allocate nodes; return their bytes."""
    counted_bytes = 0
    for number in range(NODES_PER_ROUND):
        counted_bytes += heap.allocate_node(number)[0]
    return counted_bytes


def allocate_arrays(heap: Heap) -> int:
    """Allocate an array of each length; return their bytes."""
    counted_bytes = 0
    for length in ARRAY_LENGTHS:
        counted_bytes += heap.allocate_array(length)[0]
    return counted_bytes


def allocate_strings(heap: Heap) -> int:
    """Allocate a string of each length; return their bytes."""
    counted_bytes = 0
    for length in STRING_LENGTHS:
        counted_bytes += heap.allocate_string(length)[0]
    return counted_bytes


def allocate_weakref(heap: Heap) -> int:
    """Allocate a weak reference to the last object, with which it dies; return its bytes."""
    return heap.allocate_weakref(newest(heap))[0]
