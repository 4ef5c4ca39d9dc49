"""Groups lose members in a reduction, together with what uses these."""

from __future__ import annotations

import attrs
import pytest

from fuzz.failures.named_slots import name_slots, number_slots
from fuzz.failures.reduce import reduce_failure
from fuzz.failures.smaller_groups import smaller_groups
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateGroup,
    AllocateNode,
    Free,
    Member,
    ReadNumber,
    WriteNumber,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.groups import Groups
from fuzz.run import run_actions
from fuzz.targets import make_target

NODE, ARRAY = Member("node", 3), Member("array", length=2)
GROUP = AllocateGroup((NODE, ARRAY))
TRACE: tuple[Action, ...] = (AllocateNode(1), GROUP, ReadNumber(2), WriteNumber(1, 5), Free(0))


@pytest.fixture
def grouping(contract: Contract) -> Contract:
    groups = Groups(72, 3, ("node", "array"))
    layout = attrs.evolve(contract.layout, large_object_bytes=80)
    actions = (*contract.actions, "allocate_group")
    return attrs.evolve(contract, groups=groups, layout=layout, actions=actions)


def candidates(contract: Contract) -> list[list[Action]]:
    smaller = smaller_groups(name_slots(contract, TRACE), 1, GROUP)
    return [number_slots(contract, each) for each in smaller]


def test_the_slots_of_a_group_are_named_one_by_one(grouping: Contract) -> None:
    named = name_slots(grouping, TRACE)
    assert [each.slots for each in named[2:]] == [
        {"root": (1, 1)},
        {"root": (1, 0)},
        {"root": (0, 0)},
    ]
    assert number_slots(grouping, named) == [*TRACE]


def test_a_member_goes_with_what_uses_it(grouping: Contract) -> None:
    assert [AllocateNode(1), AllocateGroup((NODE,)), WriteNumber(1, 5), Free(0)] in candidates(
        grouping
    )
    assert [AllocateNode(1), AllocateGroup((ARRAY,)), ReadNumber(1), Free(0)] in candidates(
        grouping
    )


def test_one_member_may_be_allocated_alone(grouping: Contract) -> None:
    assert [AllocateNode(1), AllocateNode(3), WriteNumber(1, 5), Free(0)] in candidates(grouping)
    assert AllocateArray(2) not in {action for each in candidates(grouping) for action in each[:1]}


def test_members_become_simpler(grouping: Contract) -> None:
    groups = {each[1] for each in candidates(grouping)}
    assert AllocateGroup((NODE, Member("array"))) in groups
    assert AllocateGroup((Member("node"), ARRAY)) in groups


def test_a_reduction_keeps_the_members_that_matter() -> None:
    target = make_target("reference-groups+group-one-word-short")
    members = (Member("string", length=9), Member("array", length=1), Member("node", 5))
    failure = run_actions(target, {}, (AllocateNode(7), AllocateGroup(members)))
    assert failure is not None
    two_nodes = AllocateGroup((Member("node"), Member("node")))
    assert reduce_failure(target, failure).actions == (two_nodes,)
