"""Failures by their likely cause, so that one mistake is read once.

One mistake fails in several identities: an off-by-one of a sampler fails in each kind of
allocation, with other lengths and periods. Invariant: every failure is in exactly one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TypeVar

from fuzz.failure import Failure
from fuzz.failures.corpus import SavedFailure
from fuzz.protocol.actions import NAMES, Action, Realloc

STEPS = 3
"""The last steps of a trace that belong to its cause."""
Cause = tuple[str, ...]
T = TypeVar("T")


def cause_of(failure: Failure) -> Cause:
    """The likely cause of a failure: failures with equal causes form a group.

    It consists of the change, oracle, field and direction, and of the last steps. A step has no
    arguments and no kind of object: identities already differ in the kind of the last action.
    Equal actions in a row are one step, because a reduction keeps more or fewer of them by chance.
    Three steps distinguish "enable, allocate" from "collect, allocate". Earlier actions build the
    heap, and differ between traces of the same mistake.
    """
    steps = [step for step, _ in groupby(map(_step_of, failure.actions))]
    return failure.change, failure.oracle, failure.field, failure.direction, *steps[-STEPS:]


def _step_of(action: Action) -> str:
    if action.allocates or isinstance(action, Realloc):
        return "allocate"
    if action.sampling is not None:
        return action.sampling
    if action.collects != "never":
        return "collect"
    return NAMES[type(action)]


def by_cause(items: Iterable[T], saved: Callable[[T], SavedFailure]) -> Sequence[Sequence[T]]:
    """The items in groups with one likely cause. `saved` returns the failure of an item.

    The first of a group is the best to read: it reproduced, and has the shortest trace.
    """

    def order(item: T) -> tuple[bool, int]:
        return not saved(item).reproduced, saved(item).length

    groups: dict[Cause, list[T]] = {}
    for item in items:
        groups.setdefault(cause_of(saved(item).failure), []).append(item)
    ordered = (sorted(group, key=order) for group in groups.values())
    return sorted(ordered, key=lambda group: order(group[0]))
