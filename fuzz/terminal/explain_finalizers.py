"""What a step shows of finalizers: those that the target ran, and those that have not run.

Invariant: a finalizer is named with its object, since its number alone shows no reader what it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from fuzz.descriptions import describe_finalizers
from fuzz.mutator.objects import Age, ShadowObject
from fuzz.plain import counted
from fuzz.protocol.actions import RegisterFinalizer, RunFinalizers, UnregisterFinalizer
from fuzz.replay import Step


@attrs.frozen
class Waiting:
    """A finalizer or a destructor that has not run."""

    number: int
    what: str
    obj: ShadowObject
    is_reachable: bool
    """Whether the mutator can reach its object. Otherwise a collection puts it into the queue."""

    def __str__(self) -> str:
        state = "reachable" if self.is_reachable else "unreachable"
        return f"{self.what} {self.number} of {self.obj.label} ({state})"


def waiting_after(step: Step) -> list[Waiting]:
    """Those that have not run after a step, in the order of their registration."""
    table = step.shadow.finalizers
    destructors = {n: obj for n, obj in table.destructors.items() if obj.age is not Age.DEAD}
    if not (table.waiting or destructors):
        return []
    reachable = step.shadow.reachable()
    return [
        Waiting(number, what, obj, obj in reachable)
        for what, objects in (("finalizer", table.waiting), ("destructor", destructors))
        for number, obj in objects.items()
    ]


def finalizer_answers(step: Step) -> Iterator[str]:
    """What ran in a step. Those that wait are listed after an action that may change them."""
    seen, action = step.observation, step.action
    if seen.finalized:
        yield f"finalized {describe_finalizers(seen.finalized, step.shadow)}"
    elif isinstance(action, RunFinalizers) and seen.error is None:
        yield "finalized none"
    is_about_them = isinstance(action, RegisterFinalizer | RunFinalizers | UnregisterFinalizer)
    if not (is_about_them or seen.minors or step.failure):
        return
    waiting = waiting_after(step)
    if waiting:
        yield f"{counted(len(waiting), 'finalizer')} waiting: {', '.join(map(str, waiting))}"
