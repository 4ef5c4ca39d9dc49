"""Programs whose objects live in the reference's heap, for an allocation profile to show.

Each is written on the mutator's interface alone, with functions that are named after what they
allocate for. Invariant: a program asks for the same allocations in every run and under every
configuration, and leaves nothing alive that was not alive before.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gcmodel.collector.heap import Heap
from gcmodel.workloads import allocate, expressions, gcbench, interpreter


@attrs.frozen
class Workload:
    """A program: `run` is all of it, in its usual size, a few hundred thousand allocations."""

    name: str
    description: str
    run: Callable[[Heap], object]


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("gcbench", "binary trees of many depths, some of which live long", gcbench.run),
        Workload("expressions", "formulas are read, simplified and evaluated", expressions.run),
        Workload("interpreter", "a register machine runs a sieve and Fibonacci", interpreter.run),
        Workload("allocate", "a loop that allocates, and keeps nothing", allocate.run),
    )
}
