"""Which actions are legal, up to the border of each rule, and what the reason says if not."""

from typing import Literal

import attrs
import pytest

from fuzz.mutator.legality import may_be_sent_ahead, while_legal, why_illegal
from fuzz.mutator.shadow import Shadow
from fuzz.protocol.actions import (
    ACTIONS,
    Action,
    AddMemoryPressure,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    BeginThread,
    Calloc,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectProgress,
    CollectStep,
    CopyArray,
    DisableSampling,
    EnableSampling,
    EndThread,
    Fork,
    Free,
    LoadPrebuilt,
    Malloc,
    PauseSampling,
    Pin,
    Read,
    ReadNumber,
    ReadProfile,
    ReadWeakref,
    Realloc,
    ResumeSampling,
    RunAtOnce,
    SetCallback,
    SetPeriod,
    TakeIdentity,
    Unpin,
    Write,
    WriteNumber,
)
from fuzz.protocol.contract import Contract, Range

NODE, STRING, ARRAY, WEAKREF, EMPTY = range(5)
PINNED = 5
STRING_MAX = 2**20 - 25
ARRAY_MAX = (2**20 - 16) // 8
CALLBACK_MAX = 63 - 25
"""The longest string that the nursery takes."""


@pytest.fixture
def contract(contract: Contract) -> Contract:
    return attrs.evolve(contract, pins_max=1)


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


@pytest.fixture
def pinned_shadow(shadow: Shadow) -> Shadow:
    """The same, and a string that is pinned."""
    follow(shadow, AllocateString(6), Pin(PINNED))
    return shadow


def follow(shadow: Shadow, *actions: Action) -> None:
    for action in actions:
        shadow.follow(action, minors=int(isinstance(action, CollectMinor)))


def allowing_pins(contract: Contract) -> Contract:
    return attrs.evolve(contract, sampling=attrs.evolve(contract.sampling, pinning="allowed"))


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
    *(PauseSampling(), ResumeSampling(), Fork(), Pin(STRING)),
    *(AllocateOldString(0), AllocateOldString(STRING_MAX)),
    *(SetCallback(None), SetCallback(0), SetCallback(CALLBACK_MAX)),
    *(AddMemoryPressure(1), AddMemoryPressure(2**40)),
)

LEGAL_BESIDE_A_PIN = (
    *(Unpin(PINNED), SetCallback(None), Fork(), PauseSampling(), DisableSampling()),
    *(Free(PINNED), TakeIdentity(PINNED), Write(NODE, 0, PINNED), AddMemoryPressure(1)),
    *(CollectMinor(), CollectFull(), AllocateOldString(0)),
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
    (Read(STRING, 0), "root 1 is a string; it must be a node or array"),
    (Read(WEAKREF, 0), "root 3 is a weakref; it must be a node or array"),
    (Read(NODE, 2), "field 2 and length 1 do not lie in 2 references"),
    (Read(NODE, -1), "field -1 and"),
    (Read(ARRAY, 3), "do not lie in 3 references"),
    (Read(EMPTY, 0), "do not lie in 0 references"),
    (Write(STRING, 0, None), "root 1 is a string; it must be a node or array"),
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
    (CopyArray(NODE, ARRAY, 0, 0, 1), "source 0 is a node; it must be an array"),
    (CopyArray(ARRAY, NODE, 0, 0, 1), "dest 0 is a node; it must be an array"),
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
    (AllocateOldString(-1), "length is -1; it must be from 0 to 1048551"),
    (AllocateOldString(STRING_MAX + 1), "length is 1048552"),
    (SetCallback(-1), "length is -1; it must be from 0 to 38"),
    (SetCallback(CALLBACK_MAX + 1), "length is 39; it must be from 0 to 38"),
    (AddMemoryPressure(0), "extra_bytes is 0; it must be from 1 to 1099511627776"),
    (AddMemoryPressure(2**40 + 1), "extra_bytes is 1099511627777"),
    (Pin(5), "root is 5"),
    (Pin(NODE), "only a string in the nursery that is not pinned can be pinned"),
    (Pin(ARRAY), "only a string in the nursery"),
    (Pin(WEAKREF), "only a string in the nursery"),
    (Unpin(5), "root is 5"),
    (Unpin(STRING), "root 1 is not pinned"),
)

ILLEGAL_BESIDE_A_PIN = (
    (Pin(PINNED), "only a string in the nursery that is not pinned can be pinned"),
    (Pin(STRING), "objects may be pinned already (1 of 1)"),
    (SetCallback(0), "objects are pinned (1), and exclude callbacks"),
    (EnableSampling(8), "objects are pinned (1)"),
    (ResumeSampling(), "objects are pinned (1)"),
)


@pytest.mark.parametrize("action", LEGAL, ids=str)
def test_a_legal_action_has_no_problem(action: Action, contract: Contract, shadow: Shadow) -> None:
    assert why_illegal(action, contract, shadow) is None


@pytest.mark.parametrize("action", LEGAL_BESIDE_A_PIN, ids=str)
def test_an_action_that_is_legal_beside_a_pinned_object_has_no_problem(
    action: Action, contract: Contract, pinned_shadow: Shadow
) -> None:
    assert why_illegal(action, contract, pinned_shadow) is None


def test_every_kind_of_action_can_be_legal() -> None:
    of_others = {Malloc, Calloc, Realloc, SetPeriod, ReadProfile, RunAtOnce}
    legal = {type(action) for action in LEGAL + LEGAL_BESIDE_A_PIN}
    of_threads = {EndThread, BeginThread}
    assert legal == {*ACTIONS.values()} - of_others - of_threads


@pytest.mark.parametrize(
    ("ended", "action", "problem"),
    [
        (False, EndThread(thread=1), None),
        (False, EndThread(), "the first thread does not end"),
        (False, EndThread(thread=2), "thread is 2; there are 2, from 0 up"),
        (False, BeginThread(thread=1), "thread 1 has not ended"),
        (True, BeginThread(thread=1), None),
        (True, EndThread(thread=1), "thread 1 has ended"),
        (True, AllocateNode(0, thread=1), "thread 1 has ended"),
        (True, AllocateNode(0), None),
    ],
)
def test_of_a_thread_that_has_ended_no_action_is(
    contract: Contract, ended: bool, action: Action, problem: str | None
) -> None:
    contract = attrs.evolve(contract, sampling=attrs.evolve(contract.sampling, seeds=(0, 0)))
    shadow = Shadow(contract)
    if ended:
        follow(shadow, EndThread(thread=1))
    assert why_illegal(action, contract, shadow) == problem


def test_a_thread_that_has_begun_may_act_again(contract: Contract) -> None:
    contract = attrs.evolve(contract, sampling=attrs.evolve(contract.sampling, seeds=(0, 0)))
    shadow = Shadow(contract)
    follow(shadow, EndThread(thread=1), BeginThread(thread=1))
    assert why_illegal(AllocateNode(0, thread=1), contract, shadow) is None


@pytest.mark.parametrize(("action", "reason"), ILLEGAL, ids=str)
def test_an_illegal_action_has_a_reason(
    action: Action, reason: str, contract: Contract, shadow: Shadow
) -> None:
    problem = why_illegal(action, contract, shadow)
    assert problem is not None
    assert reason in problem


@pytest.mark.parametrize(("action", "reason"), ILLEGAL_BESIDE_A_PIN, ids=str)
def test_an_action_that_is_illegal_beside_a_pinned_object_has_a_reason(
    action: Action, reason: str, contract: Contract, pinned_shadow: Shadow
) -> None:
    problem = why_illegal(action, contract, pinned_shadow)
    assert problem is not None
    assert reason in problem


@pytest.mark.parametrize("action", [EnableSampling(8), ResumeSampling()], ids=str)
def test_where_pinning_is_allowed_sampling_may_begin_beside_a_pinned_object(
    action: Action, contract: Contract, pinned_shadow: Shadow
) -> None:
    assert why_illegal(action, allowing_pins(contract), pinned_shadow) is None


@pytest.mark.parametrize(
    "string",
    [AllocateString(0, nonmovable=True), AllocateString(39), AllocateOldString(0)],
    ids=str,
)
def test_a_string_outside_the_nursery_cannot_be_pinned(
    string: Action, contract: Contract, shadow: Shadow
) -> None:
    follow(shadow, string)
    problem = why_illegal(Pin(len(shadow.roots) - 1), contract, shadow)
    assert problem == "only a string in the nursery that is not pinned can be pinned"


def test_a_string_that_has_left_the_nursery_cannot_be_pinned(
    contract: Contract, shadow: Shadow
) -> None:
    follow(shadow, CollectMinor())
    problem = why_illegal(Pin(STRING), contract, shadow)
    assert problem == "only a string in the nursery that is not pinned can be pinned"


def test_a_pinned_string_that_outlived_a_collection_can_be_unpinned_and_pinned_again(
    contract: Contract, pinned_shadow: Shadow
) -> None:
    follow(pinned_shadow, CollectMinor())
    assert why_illegal(Unpin(PINNED), contract, pinned_shadow) is None
    follow(pinned_shadow, Unpin(PINNED))
    assert why_illegal(Pin(PINNED), contract, pinned_shadow) is None


def test_a_pinned_object_that_was_freed_counts_until_it_is_known_to_be_dead(
    contract: Contract, pinned_shadow: Shadow
) -> None:
    follow(pinned_shadow, Free(PINNED))
    problem = why_illegal(Pin(STRING), contract, pinned_shadow)
    assert problem == "objects may be pinned already (1 of 1)"


def test_as_many_objects_can_be_pinned_as_the_contract_says(
    contract: Contract, pinned_shadow: Shadow
) -> None:
    two = attrs.evolve(contract, pins_max=2)
    assert why_illegal(Pin(STRING), two, pinned_shadow) is None


@pytest.mark.parametrize("enabling", [EnableSampling(8), ResumeSampling()], ids=str)
def test_while_sampling_is_on_nothing_can_be_pinned(
    enabling: Action, contract: Contract, shadow: Shadow
) -> None:
    follow(shadow, EnableSampling(8), PauseSampling(), enabling)
    assert why_illegal(Pin(STRING), contract, shadow) == "sampling is on, and excludes pinning"
    assert why_illegal(Pin(STRING), allowing_pins(contract), shadow) is None


@pytest.mark.parametrize("disabling", [DisableSampling(), PauseSampling(), Fork()], ids=str)
def test_once_sampling_is_off_again_objects_can_be_pinned(
    disabling: Action, contract: Contract, shadow: Shadow
) -> None:
    follow(shadow, EnableSampling(8), disabling)
    assert why_illegal(Pin(STRING), contract, shadow) is None


def test_while_there_is_a_callback_nothing_can_be_pinned(
    contract: Contract, shadow: Shadow
) -> None:
    follow(shadow, SetCallback(0))
    problem = why_illegal(Pin(STRING), contract, shadow)
    assert problem == "there is a callback, which excludes pinning"
    follow(shadow, SetCallback(None))
    assert why_illegal(Pin(STRING), contract, shadow) is None


def test_a_callback_whose_string_no_nursery_takes_is_illegal(
    contract: Contract, shadow: Shadow
) -> None:
    layout = attrs.evolve(contract.layout, large_object_bytes=25)
    tiny = attrs.evolve(contract, layout=layout)
    assert why_illegal(SetCallback(0), tiny, shadow) is not None
    assert why_illegal(SetCallback(None), tiny, shadow) is None


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


# Blocks and threads.


@pytest.fixture
def blocks(blocks: Contract) -> Contract:
    return attrs.evolve(blocks, actions=(*blocks.actions, "read_profile"))


@pytest.fixture
def of_blocks(blocks: Contract) -> Shadow:
    """Roots: a block of 9 bytes."""
    shadow = Shadow(blocks)
    follow(shadow, Malloc(9))
    return shadow


LEGAL_WITH_BLOCKS = (
    *(Malloc(0), Malloc(4096), Malloc(1, thread=2), Calloc(0, 7), Calloc(7, 0)),
    *(Calloc(2, 2048), Calloc(1, 4096), Realloc(0, 1), Realloc(0, 4096), Free(0, thread=1)),
    *(SetPeriod(1), SetPeriod(4096), EnableSampling(4096, thread=2), ReadProfile()),
    *(DisableSampling(), PauseSampling(), ResumeSampling()),
)

ILLEGAL_WITH_BLOCKS = (
    (Malloc(-1), "the block has -1 bytes; it must have from 0 to 4096"),
    (Malloc(4097), "the block has 4097 bytes; it must have from 0 to 4096"),
    (Calloc(2, 2049), "the block has 4098 bytes; it must have from 0 to 4096"),
    (Calloc(-1, 8), "count is -1, size_bytes 8; none may be below 0"),
    (Calloc(8, -1), "count is 8, size_bytes -1; none may be below 0"),
    (Calloc(-2, -2), "count is -2, size_bytes -2; none may be below 0"),
    (Realloc(0, 0), "the block has 0 bytes; it must have from 1 to 4096"),
    (Realloc(0, 4097), "the block has 4097 bytes; it must have from 1 to 4096"),
    (Realloc(1, 8), "root is 1; there are 1 roots, from 0 up"),
    (Free(1), "root is 1; there are 1 roots, from 0 up"),
    (SetPeriod(0), "period_bytes is 0; it must be from 1 to 4096"),
    (SetPeriod(4097), "period_bytes is 4097; it must be from 1 to 4096"),
    (Malloc(1, thread=3), "thread is 3; there are 3, from 0 up"),
    (Malloc(1, thread=-1), "thread is -1; there are 3, from 0 up"),
    (ReadProfile(thread=3), "thread is 3; there are 3, from 0 up"),
    (AllocateNode(0), "the target does not carry out allocate_node"),
)


@pytest.mark.parametrize("action", LEGAL_WITH_BLOCKS, ids=str)
def test_a_legal_action_on_blocks_has_no_problem(
    action: Action, blocks: Contract, of_blocks: Shadow
) -> None:
    assert why_illegal(action, blocks, of_blocks) is None


def test_every_action_of_an_allocator_can_be_legal(blocks: Contract) -> None:
    assert {type(action) for action in LEGAL_WITH_BLOCKS} == {
        ACTIONS[name] for name in blocks.actions
    }


@pytest.mark.parametrize(("action", "reason"), ILLEGAL_WITH_BLOCKS, ids=str)
def test_an_illegal_action_on_blocks_has_a_reason(
    action: Action, reason: str, blocks: Contract, of_blocks: Shadow
) -> None:
    assert why_illegal(action, blocks, of_blocks) == reason


def test_no_array_is_longer_than_can_be_followed(contract: Contract, shadow: Shadow) -> None:
    layout = attrs.evolve(contract.layout, object_bytes_max=2**60)
    contract = attrs.evolve(contract, layout=layout)
    assert why_illegal(AllocateArray(2**20), contract, shadow) is None
    problem = why_illegal(AllocateArray(2**20 + 1), contract, shadow)
    assert problem == "length is 1048577; it must be from 0 to 1048576"


def test_only_a_block_is_made_another_size(contract: Contract, shadow: Shadow) -> None:
    contract = attrs.evolve(contract, actions=(*contract.actions, "realloc"))
    problem = why_illegal(Realloc(NODE, 8), contract, shadow)
    assert problem == "root 0 is a node; it must be a block"


@pytest.mark.parametrize("action", [EnableSampling(8), SetPeriod(8)], ids=str)
def test_where_the_periods_are_listed_another_is_illegal(
    action: Action, blocks: Contract, of_blocks: Shadow
) -> None:
    rule = attrs.evolve(blocks.sampling, periods=(16, 64))
    problem = why_illegal(action, attrs.evolve(blocks, sampling=rule), of_blocks)
    assert problem == "period_bytes is 8; it must be one of 16, 64"


def test_a_target_of_one_thread_is_asked_by_that_one(contract: Contract, shadow: Shadow) -> None:
    problem = why_illegal(CollectMinor(thread=1), contract, shadow)
    assert problem == "thread is 1; there are 1, from 0 up"


def test_blocks_are_asked_for_ahead_of_the_answers(blocks: Contract) -> None:
    assert may_be_sent_ahead(blocks)
    actions = (Malloc(9), Free(0), Realloc(0, 9), Malloc(9))
    assert list(while_legal(blocks, actions)) == [Malloc(9), Free(0)]
