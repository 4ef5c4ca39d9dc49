"""The heap that counts: its sum is what the sampler counts, for each program."""

from collections.abc import Callable
from functools import partial

import pytest
from exact_heap import ExactHeap

from gcmodel import Heap
from gcmodel.memory.layout import NODE_BYTES, WEAKREF_BYTES, array_bytes, rounded, string_bytes
from gcmodel.profiling.cost import cost_of
from gcmodel.profiling.sampled_run import PROFILED
from gcmodel.workloads import allocate, expressions, gcbench, interpreter

PROGRAMS: dict[str, Callable[[Heap], object]] = {
    "gcbench": partial(
        gcbench.run, size=gcbench.Size(stretch_depth=8, nodes_per_depth=4000, max_depth=6)
    ),
    "expressions": partial(expressions.run, rounds=2),
    "interpreter": partial(interpreter.run, sieve_limit=50, fibonacci_of=8),
    "allocate": partial(allocate.run, rounds=1000),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_types_together_are_what_the_sampler_counts(name: str) -> None:
    heap = ExactHeap(PROFILED)
    PROGRAMS[name](heap)
    assert heap.bytes_by_type.total() == cost_of(PROGRAMS[name]).allocated_bytes


def test_each_type_is_counted_by_itself() -> None:
    heap = ExactHeap(PROFILED)
    heap.allocate_node(1)
    heap.allocate_weakref(0)
    heap.allocate_array(3)
    heap.allocate_string(3)
    assert heap.bytes_by_type == {
        "node": NODE_BYTES,
        "weakref": WEAKREF_BYTES,
        "array": array_bytes(3),
        "string": rounded(string_bytes(3)),
    }


@pytest.mark.parametrize(
    "allocate_outside",
    [
        lambda heap: heap.allocate_old_string(3),
        lambda heap: heap.allocate_string(3, nonmovable=True),
    ],
)
def test_outside_the_nursery_a_size_is_not_rounded(
    allocate_outside: Callable[[Heap], object],
) -> None:
    heap = ExactHeap(PROFILED)
    allocate_outside(heap)
    assert heap.bytes_by_type == {"string": string_bytes(3)}
