"""Which groups are legal, and what the shadow heap has of them."""

from __future__ import annotations

import attrs
import pytest

from fuzz.mutator.legality import why_illegal
from fuzz.mutator.shadow import Shadow
from fuzz.protocol.actions import AllocateGroup, CollectMinor, Member
from fuzz.protocol.contract import Contract
from fuzz.protocol.groups import Groups

NODE, ARRAY, STRING = Member("node", 7), Member("array", length=1), Member("string", length=2)


@pytest.fixture
def grouping(contract: Contract) -> Contract:
    """Up to three members of at most 56 bytes."""
    groups = Groups(56, 3, ("node", "array"))
    actions = (*contract.actions, "allocate_group")
    return attrs.evolve(contract, groups=groups, actions=actions)


@pytest.mark.parametrize("members", [(NODE,), (ARRAY, ARRAY), (NODE, ARRAY)], ids=str)
def test_a_group_within_the_limits_is_legal(
    members: tuple[Member, ...], grouping: Contract
) -> None:
    assert why_illegal(AllocateGroup(members), grouping, Shadow(grouping)) is None


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ((), "the group has 0 members; it must have from 1 to 3"),
        ((Member("array"),) * 4, "the group has 4 members; it must have from 1 to 3"),
        ((NODE, NODE), "the group takes 64 bytes; it must be at most 56"),
        ((NODE, STRING), "member 1 is a string; it must be a node or array"),
        ((Member("node", 7, 1),), "member 0 is a node, and has no length"),
        ((Member("array", 1, 1),), "member 0 is an array, and has no number"),
        ((Member("array", length=2**60),), "it must be at most 56"),
        ((NODE, Member("array", length=-3)), "the length of member 1 is -3; it must be at least 0"),
        ((Member("node", 2**63),), "the number of member 0 is 9223372036854775808; it must be"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_group_has_a_sentence(
    members: tuple[Member, ...], problem: str, grouping: Contract
) -> None:
    why = why_illegal(AllocateGroup(members), grouping, Shadow(grouping))
    assert why is not None
    assert problem in why


def test_without_groups_in_the_contract_none_is_legal(contract: Contract) -> None:
    why = why_illegal(AllocateGroup((NODE,)), contract, Shadow(contract))
    assert why == "the target does not carry out allocate_group"


def test_each_member_is_a_root_and_the_group_counts_as_one(grouping: Contract) -> None:
    shadow, group = Shadow(grouping), AllocateGroup((NODE, ARRAY))
    shadow.follow(group, minors=0)
    assert [(obj.label, obj.number) for obj in shadow.roots] == [
        ("node #1.1", 7),
        ("array #1.2", 1),
    ]
    assert shadow.members(group) == shadow.roots
    assert shadow.placed.size_bytes == 56


def test_members_are_young_until_a_collection(grouping: Contract) -> None:
    shadow = Shadow(grouping)
    shadow.follow(AllocateGroup((ARRAY, ARRAY)), minors=0)
    assert shadow.young == shadow.roots
    shadow.follow(CollectMinor(), minors=1)
    assert [obj.survived for obj in shadow.roots] == [True, True]
