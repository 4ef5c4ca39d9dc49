"""Programs whose objects live in the reference's heap, for an allocation profile to show.

Each uses the mutator's interface, in functions named after what they allocate for, and imports the
collector only. Start with `allocate`, then `scopes`, a program's local variables, and `gcbench`.
Invariant: a program makes the same allocations in every run and under every configuration, and
leaves nothing alive that was not alive before.
"""

from collections.abc import Callable

from gcmodel.collector.heap import Heap
from gcmodel.workloads import allocate, expressions, gcbench, interpreter

WORKLOADS: dict[str, Callable[[Heap], object]] = {
    "gcbench": gcbench.run,
    "expressions": expressions.run,
    "interpreter": interpreter.run,
    "allocate": allocate.run,
}
"""The programs by name, in their usual size: a few hundred thousand allocations."""
