"""Smaller groups, for a reduction: without a member, or with a simpler one.

A group is one action, so removing actions does not reach its members. The slots of a member that is
removed go with everything that uses them, as those of a removed action do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from fuzz.failures.named_slots import Name, Named
from fuzz.protocol.actions import Action, AllocateGroup, Member, alone

NODE = Member("node")
"""The simplest member."""


def smaller_groups(
    named: Sequence[Named], position: int, group: AllocateGroup
) -> Iterator[Sequence[Named]]:
    """The actions with a smaller group in place of the one at a position, the smallest first."""
    for place, member in enumerate(group.members):
        yield _instead(named, position, alone(member), {place: 0})
    for place in range(len(group.members)):
        others = [each for each in range(len(group.members)) if each != place]
        left = AllocateGroup(tuple(group.members[each] for each in others))
        yield _instead(named, position, left, {each: new for new, each in enumerate(others)})
    same = {place: place for place in range(len(group.members))}
    for place, member in enumerate(group.members):
        for simpler in _simpler(member):
            members = (*group.members[:place], simpler, *group.members[place + 1 :])
            yield _instead(named, position, AllocateGroup(members), same)


def _simpler(member: Member) -> Iterator[Member]:
    if member != NODE:
        yield NODE
    for field in ("number", "length"):
        value = getattr(member, field)
        for lower in sorted({0, value // 2, value - 1} - {value}):
            if 0 <= lower < value:
                yield attrs.evolve(member, **{field: lower})


def _instead(
    named: Sequence[Named], position: int, action: Action, places: dict[int, int]
) -> Sequence[Named]:
    """The actions with another one at a position. `places` are the new places of its members.

    No slot has the name of a member that is gone, so what uses it goes, too.
    """
    number = named[position].appends

    def renamed(name: Name) -> Name:
        return name if name[0] != number else (number, places.get(name[1], -1))

    changed = [
        attrs.evolve(each, slots={field: renamed(name) for field, name in each.slots.items()})
        for each in named
    ]
    changed[position] = attrs.evolve(
        changed[position], action=action.by(named[position].action.thread)
    )
    return changed
