"""Programs whose objects live in the reference's heap, for an allocation profile to show.

Each is written on the mutator's interface, with functions that are named after what they allocate
for, and imports the collector alone. A newcomer begins with `allocate`, then `scopes`, a program's
local variables, and `gcbench`. Invariant: a program asks for the same allocations in every run and
under every configuration, and leaves nothing alive that was not alive before.
"""

from __future__ import annotations

from collections.abc import Callable

from gcmodel.collector.heap import Heap
from gcmodel.workloads import allocate, expressions, gcbench, interpreter

WORKLOADS: dict[str, Callable[[Heap], object]] = {
    "gcbench": gcbench.run,
    "expressions": expressions.run,
    "interpreter": interpreter.run,
    "allocate": allocate.run,
}
"""All of each program, in its usual size: a few hundred thousand allocations."""
