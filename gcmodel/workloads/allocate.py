"""A loop that only allocates, and drops each object at once: what sampling costs at most.

A collector that samples is slowed down by allocations alone, so a program that does nothing else
shows the most that it can be. Invariant: nothing survives but what the present round holds, and
every round allocates the same bytes. Sums are loops: a generator would be a frame in the profile.
"""

from __future__ import annotations

from gcmodel.collector.heap import Heap
from gcmodel.workloads.scopes import Scope, newest

ROUNDS = 40_000
NODES_PER_ROUND = 6
ARRAY_LENGTHS = (1, 4, 16)
STRING_LENGTHS = (7, 80)


def run(heap: Heap, rounds: int = ROUNDS) -> int:
    """How many bytes the sampler counts for all that was allocated."""
    counted_bytes = 0
    for _ in range(rounds):
        counted_bytes += allocate_round(heap)
    return counted_bytes


def allocate_round(heap: Heap) -> int:
    """A few objects of every kind; returns their bytes."""
    with Scope(heap):
        nodes = allocate_nodes(heap)
        arrays = allocate_arrays(heap)
        strings = allocate_strings(heap)
        return nodes + arrays + strings + allocate_weakref(heap)


def allocate_nodes(heap: Heap) -> int:
    """Nodes, each dropped with its round; returns their bytes."""
    counted_bytes = 0
    for number in range(NODES_PER_ROUND):
        counted_bytes += heap.allocate_node(number)[0]
    return counted_bytes


def allocate_arrays(heap: Heap) -> int:
    """An array of each length; returns their bytes."""
    counted_bytes = 0
    for length in ARRAY_LENGTHS:
        counted_bytes += heap.allocate_array(length)[0]
    return counted_bytes


def allocate_strings(heap: Heap) -> int:
    """A string of each length; returns their bytes."""
    counted_bytes = 0
    for length in STRING_LENGTHS:
        counted_bytes += heap.allocate_string(length)[0]
    return counted_bytes


def allocate_weakref(heap: Heap) -> int:
    """A weak reference to what was allocated last, with which it dies; returns its bytes."""
    return heap.allocate_weakref(newest(heap))[0]
