"""How a group is drawn: small members, which together often have an interesting size."""

from __future__ import annotations

from fuzz.drawing.situation import ROOTS_MAX, Choices, Situation
from fuzz.drawing.sizes import LENGTHS_MAX, edge_bytes
from fuzz.mutator.legality import length_max
from fuzz.protocol.actions import AllocateGroup, Member, group_bytes

LENGTHS, NUMBERS = 4, 100
"""Short members leave room for others, and the last one is as long as it takes to reach an edge."""


def allocate_group(situation: Situation, choices: Choices) -> AllocateGroup:
    """A group that the contract allows, and that finds slots."""
    contract, layout = situation.contract, situation.contract.layout
    groups = contract.groups
    assert groups is not None
    members: list[Member] = []
    left_bytes = groups.bytes_max
    for _ in range(choices.between(min(2, groups.members_max), groups.members_max)):
        kind = choices.pick(groups.kinds)
        if kind == "node":
            member = Member(kind, choices.below(NUMBERS))
        else:
            member = Member(kind, length=min(choices.below(LENGTHS), length_max(kind, contract)))
        size_bytes = layout.cost(kind, member.length, nonmovable=False)[0]
        has_slot = len(situation.roots) + len(members) < ROOTS_MAX
        if members and (size_bytes > left_bytes or not has_slot):
            break
        members.append(member if size_bytes <= left_bytes else Member(kind))
        left_bytes -= size_bytes
    wanted_bytes = min(edge_bytes(situation, choices), groups.bytes_max)
    if not choices.below(2):
        members[-1] = _longer(members, wanted_bytes, situation)
    return AllocateGroup(tuple(members))


def _longer(members: list[Member], wanted_bytes: int, situation: Situation) -> Member:
    """The last member, as long as it takes for all to have that size."""
    last, layout = members[-1], situation.contract.layout
    # What is no whole word more does not fit, since each member is rounded up.
    wanted_bytes -= wanted_bytes % layout.word_bytes
    missing_bytes = wanted_bytes - group_bytes(AllocateGroup(tuple(members)), layout)
    if last.kind == "node" or missing_bytes <= 0:
        return last
    longest = min(LENGTHS_MAX[last.kind], length_max(last.kind, situation.contract))
    more = missing_bytes // layout.kinds[last.kind].item_bytes
    return Member(last.kind, length=min(last.length + more, longest))
