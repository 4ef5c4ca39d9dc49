"""Failures by their likely cause, so that one mistake is read once.

One mistake fails in several identities: an off-by-one of a sampler in each kind of allocation, with
other lengths and periods. Invariant: every failure is in exactly one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from fuzz.protocol.actions import NAMES, Action, Realloc
from fuzz.run import Failure
from fuzz.sessions.corpus import Find

STEPS = 3
"""How many steps of a trace, the last ones, belong to its cause."""
Cause = tuple[str, ...]


def cause_of(failure: Failure) -> Cause:
    """The likely cause of a failure: those with the same result belong together.

    It consists of what a change did, the oracle, the field, the direction, and what the last
    actions do, the first wrong answer included. Arguments are left out. So is the kind of object:
    no two failures of a session have the same identity, which names the last action, so that with
    it each would be alone. Actions in a row that do the same are one step, since a reduction keeps
    more or fewer of them by chance. Three steps tell "enable, allocate" from "collect, allocate";
    the actions before them build the heap, and differ between traces of the same mistake.
    """
    steps = [step for step, _ in groupby(map(_step_of, failure.actions))]
    kind = failure.change, failure.oracle, failure.field, failure.direction
    return *kind, *steps[-STEPS:]


def _step_of(action: Action) -> str:
    """What an action does, whatever its arguments are and the kind of its object is."""
    if action.allocates or isinstance(action, Realloc):
        return "allocate"
    if action.sampling is not None:
        return action.sampling
    if action.collects != "never":
        return "collect"
    return NAMES[type(action)]


def by_cause(finds: Iterable[Find]) -> Sequence[Sequence[Find]]:
    """The finds in groups of one likely cause; first the one to read: reproduced, and shortest.

    Of equals the first one given is the first.
    """
    groups: dict[Cause, list[Find]] = {}
    for find in finds:
        groups.setdefault(cause_of(find.failure), []).append(find)
    return sorted(
        (sorted(group, key=_order) for group in groups.values()), key=lambda group: _order(group[0])
    )


def _order(find: Find) -> tuple[bool, int]:
    return not find.reproduced, len(find.failure.actions)
