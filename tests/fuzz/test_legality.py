"""Which actions are legal, up to the border of each rule, and what the reason says if not."""

from typing import Literal

import attrs
import pytest

from fuzz.actions import (
    ACTIONS,
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectProgress,
    CollectStep,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Free,
    LoadPrebuilt,
    Read,
    ReadNumber,
    ReadWeakref,
    TakeIdentity,
    Write,
    WriteNumber,
)
from fuzz.contract import Contract, Range
from fuzz.legality import why_illegal
from fuzz.shadow import Shadow

NODE, STRING, ARRAY, WEAKREF, EMPTY = range(5)
STRING_MAX = 2**20 - 25
ARRAY_MAX = (2**20 - 16) // 8


@pytest.fixture
def shadow(contract: Contract) -> Shadow:
    """Roots: a node, a string, an array of three, a weak reference, an array of none."""
    shadow = Shadow(contract)
    for action in (
        *(AllocateNode(0), AllocateString(5), AllocateArray(3)),
        *(AllocateWeakref(NODE), AllocateArray(0)),
    ):
        shadow.follow(action, minors=0)
    return shadow


LEGAL = (
    *(AllocateNode(0), AllocateNode(-(2**63)), AllocateNode(2**63 - 1, nonmovable=True)),
    *(AllocateString(0), AllocateString(STRING_MAX), AllocateString(0, nonmovable=True)),
    *(AllocateArray(0), AllocateArray(ARRAY_MAX)),
    *(AllocateWeakref(NODE), AllocateWeakref(STRING), AllocateWeakref(WEAKREF)),
    *(LoadPrebuilt(0), LoadPrebuilt(1)),
    *(Free(0), Free(EMPTY), TakeIdentity(0), TakeIdentity(WEAKREF)),
    *(Read(NODE, 0), Read(NODE, 1), Read(ARRAY, 0), Read(ARRAY, 2)),
    *(Write(NODE, 1, None), Write(ARRAY, 2, EMPTY), Write(NODE, 0, NODE)),
    *(ReadNumber(NODE), ReadNumber(STRING), ReadNumber(ARRAY), ReadNumber(EMPTY)),
    *(ReadWeakref(WEAKREF), WriteNumber(NODE, -(2**63)), WriteNumber(NODE, 2**63 - 1)),
    *(CopyArray(ARRAY, ARRAY, 0, 0, 3), CopyArray(ARRAY, ARRAY, 2, 0, 1)),
    *(CollectMinor(), CollectProgress(), CollectStep(), CollectFull(), CheckHeap()),
    *(EnableSampling(8), EnableSampling(16), EnableSampling(2**40)),
    *(DisableSampling(), DisableSampling(report=True)),
)

ILLEGAL = (
    (AllocateNode(2**63), "number is 9223372036854775808; it must be from -9223372036854775808"),
    (AllocateNode(-(2**63) - 1), "number is -9223372036854775809"),
    (AllocateString(-1), "length is -1; it must be from 0 to 1048551"),
    (AllocateString(STRING_MAX + 1), "length is 1048552; it must be from 0 to 1048551"),
    (AllocateArray(-1), "length is -1; it must be from 0 to 131070"),
    (AllocateArray(ARRAY_MAX + 1), "length is 131071; it must be from 0 to 131070"),
    (AllocateWeakref(5), "root is 5; there are 5 roots, from 0 up"),
    (LoadPrebuilt(2), "index is 2; there are 2 prebuilt objects, from 0 up"),
    (LoadPrebuilt(-1), "index is -1"),
    (Free(5), "root is 5"),
    (Free(-1), "root is -1"),
    (TakeIdentity(5), "root is 5"),
    (Read(STRING, 0), "root 1 is a string, which has no references"),
    (Read(WEAKREF, 0), "root 3 is a weakref, which has no references"),
    (Read(NODE, 2), "field 2 and length 1 do not lie in 2 references"),
    (Read(NODE, -1), "field -1 and"),
    (Read(ARRAY, 3), "do not lie in 3 references"),
    (Read(EMPTY, 0), "do not lie in 0 references"),
    (Write(STRING, 0, None), "has no references"),
    (Write(NODE, 2, None), "field 2"),
    (Write(NODE, 0, 5), "value is 5; there are 5 roots"),
    (Write(NODE, 0, -1), "value is -1"),
    (Write(5, 0, None), "root is 5"),
    (ReadNumber(WEAKREF), "root 3 is a weakref; it must be a node or string or array"),
    (ReadWeakref(NODE), "root 0 is a node; it must be a weakref"),
    (WriteNumber(STRING, 0), "root 1 is a string; it must be a node"),
    (WriteNumber(NODE, 2**63), "number is 9223372036854775808"),
    (CopyArray(5, ARRAY, 0, 0, 1), "source is 5"),
    (CopyArray(ARRAY, 5, 0, 0, 1), "dest is 5"),
    (CopyArray(NODE, ARRAY, 0, 0, 1), "source and dest must be arrays"),
    (CopyArray(ARRAY, NODE, 0, 0, 1), "source and dest must be arrays"),
    (CopyArray(ARRAY, ARRAY, 0, 0, 0), "source_start 0 and length 0"),
    (CopyArray(ARRAY, ARRAY, 0, 0, 4), "source_start 0 and length 4 do not lie in 3 references"),
    (CopyArray(ARRAY, ARRAY, 3, 0, 1), "source_start 3"),
    (CopyArray(ARRAY, ARRAY, -1, 0, 1), "source_start -1"),
    (CopyArray(ARRAY, ARRAY, 0, 3, 1), "dest_start 3"),
    (CopyArray(ARRAY, ARRAY, 0, -1, 1), "dest_start -1"),
    (CopyArray(ARRAY, EMPTY, 0, 0, 1), "dest_start 0 and length 1 do not lie in 0 references"),
    (EnableSampling(0), "period_bytes is 0; it must be a multiple of 8 from 8 to 1099511627776"),
    (EnableSampling(12), "period_bytes is 12"),
    (EnableSampling(-8), "period_bytes is -8"),
    (EnableSampling(2**40 + 8), "period_bytes is 1099511627784"),
)


@pytest.mark.parametrize("action", LEGAL, ids=str)
def test_a_legal_action_has_no_problem(action: Action, contract: Contract, shadow: Shadow) -> None:
    assert why_illegal(action, contract, shadow) is None


def test_every_kind_of_action_can_be_legal() -> None:
    assert {type(action) for action in LEGAL} == {*ACTIONS.values()}


@pytest.mark.parametrize(("action", "reason"), ILLEGAL, ids=str)
def test_an_illegal_action_has_a_reason(
    action: Action, reason: str, contract: Contract, shadow: Shadow
) -> None:
    problem = why_illegal(action, contract, shadow)
    assert problem is not None
    assert reason in problem


def test_an_action_that_the_target_does_not_carry_out_is_illegal(
    contract: Contract, shadow: Shadow
) -> None:
    smaller = attrs.evolve(contract, actions=("collect_full",))
    problem = why_illegal(CollectMinor(), smaller, shadow)
    assert problem == "the target does not carry out collect_minor"


@pytest.mark.parametrize(("report", "other"), [(True, "drop"), (False, "report")])
def test_a_way_of_disabling_that_the_target_does_not_have_is_illegal(
    report: bool, other: Literal["drop", "report"], contract: Contract, shadow: Shadow
) -> None:
    rule = attrs.evolve(contract.sampling, disabling=(other,))
    problem = why_illegal(DisableSampling(report), attrs.evolve(contract, sampling=rule), shadow)
    assert problem == f"the target cannot disable sampling with {'report' if report else 'drop'}"


def test_the_legal_periods_are_those_of_the_contract(contract: Contract, shadow: Shadow) -> None:
    rule = attrs.evolve(contract.sampling, period_bytes=Range(24, 48, 12))
    other = attrs.evolve(contract, sampling=rule)
    legal = [p for p in range(100) if not why_illegal(EnableSampling(p), other, shadow)]
    assert legal == [24, 36, 48]
