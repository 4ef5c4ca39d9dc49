"""Which actions are legal, up to the limit of each rule, and the reason if one is not."""

from typing import Literal

import attrs
import pytest
from changed_contracts import with_layout, with_rule

from fuzz.mutator.legality import may_be_sent_ahead, while_legal, why_illegal
from fuzz.mutator.shadow import Shadow
from fuzz.protocol import actions as do
from fuzz.protocol.actions import ACTIONS, Action
from fuzz.protocol.contract import Contract, Range
from fuzz.protocol.finalizers import Finalizers

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
        *(do.AllocateNode(0), do.AllocateString(5), do.AllocateArray(3)),
        *(do.AllocateWeakref(NODE), do.AllocateArray(0)),
    ):
        shadow.follow(action, minors=0)
    return shadow


def follow(shadow: Shadow, *actions: Action) -> None:
    for action in actions:
        shadow.follow(action, minors=int(isinstance(action, do.CollectMinor)))


LEGAL = (
    *(do.AllocateNode(0), do.AllocateNode(-(2**63)), do.AllocateNode(2**63 - 1, nonmovable=True)),
    *(do.AllocateString(0), do.AllocateString(STRING_MAX), do.AllocateString(0, nonmovable=True)),
    *(do.AllocateArray(0), do.AllocateArray(ARRAY_MAX)),
    *(do.AllocateWeakref(NODE), do.AllocateWeakref(STRING), do.AllocateWeakref(WEAKREF)),
    *(do.LoadPrebuilt(0), do.LoadPrebuilt(1)),
    *(do.Free(0), do.Free(EMPTY), do.TakeIdentity(0), do.TakeIdentity(WEAKREF)),
    *(do.Read(NODE, 0), do.Read(NODE, 1), do.Read(ARRAY, 0), do.Read(ARRAY, 2)),
    *(do.Write(NODE, 1, None), do.Write(ARRAY, 2, EMPTY), do.Write(NODE, 0, NODE)),
    *(do.ReadNumber(NODE), do.ReadNumber(STRING), do.ReadNumber(ARRAY), do.ReadNumber(EMPTY)),
    *(do.ReadWeakref(WEAKREF), do.WriteNumber(NODE, -(2**63)), do.WriteNumber(NODE, 2**63 - 1)),
    *(do.CopyArray(ARRAY, ARRAY, 0, 0, 3), do.CopyArray(ARRAY, ARRAY, 2, 0, 1)),
    *(do.FillArray(ARRAY, None), do.FillArray(EMPTY, ARRAY), do.MoveArray(ARRAY, 0, 1, 2)),
    *(do.CollectMinor(), do.CollectProgress(), do.CollectStep(), do.CollectFull(), do.CheckHeap()),
    *(do.EnableSampling(8), do.EnableSampling(16), do.EnableSampling(2**40)),
    *(do.DisableSampling(), do.DisableSampling(report=True)),
    *(do.PauseSampling(), do.ResumeSampling(), do.Fork(), do.Pin(STRING)),
    *(do.AllocateOldString(0), do.AllocateOldString(STRING_MAX)),
    *(do.SetCallback(None), do.SetCallback(0), do.SetCallback(CALLBACK_MAX)),
    *(do.AddMemoryPressure(1), do.AddMemoryPressure(2**40)),
)

A_PIN = (do.AllocateString(6), do.Pin(PINNED))
SAMPLED, PAUSED = do.EnableSampling(8), do.PauseSampling()
LEGAL_AFTER: tuple[tuple[tuple[Action, ...], Action], ...] = (
    *(
        (A_PIN, action)
        for action in (
            *(
                do.Unpin(PINNED),
                do.Free(PINNED),
                do.TakeIdentity(PINNED),
                do.Write(NODE, 0, PINNED),
            ),
            *(do.SetCallback(None), do.Fork(), do.PauseSampling(), do.DisableSampling()),
            *(
                do.AddMemoryPressure(1),
                do.CollectMinor(),
                do.CollectFull(),
                do.AllocateOldString(0),
            ),
        )
    ),
    ((*A_PIN, do.CollectMinor()), do.Unpin(PINNED)),
    ((*A_PIN, do.CollectMinor(), do.Unpin(PINNED)), do.Pin(PINNED)),
    *(((SAMPLED, off), do.Pin(STRING)) for off in (do.DisableSampling(), PAUSED, do.Fork())),
    ((do.SetCallback(0), do.SetCallback(None)), do.Pin(STRING)),
)

ILLEGAL = (
    (do.AllocateNode(2**63), "number is 9223372036854775808; it must be from -9223372036854775808"),
    (do.AllocateNode(-(2**63) - 1), "number is -9223372036854775809"),
    (do.AllocateString(-1), "length is -1; it must be from 0 to 1048551"),
    (do.AllocateString(STRING_MAX + 1), "length is 1048552; it must be from 0 to 1048551"),
    (do.AllocateArray(-1), "length is -1; it must be from 0 to 131070"),
    (do.AllocateArray(ARRAY_MAX + 1), "length is 131071; it must be from 0 to 131070"),
    (do.AllocateWeakref(5), "root is 5; there are 5 roots, from 0 up"),
    (do.LoadPrebuilt(2), "index is 2; there are 2 prebuilt objects, from 0 up"),
    (do.LoadPrebuilt(-1), "index is -1"),
    (do.Free(5), "root is 5"),
    (do.Free(-1), "root is -1"),
    (do.TakeIdentity(5), "root is 5"),
    (do.Read(STRING, 0), "root 1 is a string; it must be a node or array"),
    (do.Read(WEAKREF, 0), "root 3 is a weakref; it must be a node or array"),
    (do.Read(NODE, 2), "field 2 and length 1 do not lie in 2 references"),
    (do.Read(NODE, -1), "field -1 and"),
    (do.Read(ARRAY, 3), "do not lie in 3 references"),
    (do.Read(EMPTY, 0), "do not lie in 0 references"),
    (do.Write(STRING, 0, None), "root 1 is a string; it must be a node or array"),
    (do.Write(NODE, 2, None), "field 2"),
    (do.Write(NODE, 0, 5), "value is 5; there are 5 roots"),
    (do.Write(NODE, 0, -1), "value is -1"),
    (do.Write(5, 0, None), "root is 5"),
    (do.ReadNumber(WEAKREF), "root 3 is a weakref; it must be a node or string or array"),
    (do.ReadWeakref(NODE), "root 0 is a node; it must be a weakref"),
    (do.WriteNumber(STRING, 0), "root 1 is a string; it must be a node"),
    (do.WriteNumber(NODE, 2**63), "number is 9223372036854775808"),
    (do.CopyArray(5, ARRAY, 0, 0, 1), "source is 5"),
    (do.CopyArray(ARRAY, 5, 0, 0, 1), "dest is 5"),
    (do.CopyArray(NODE, ARRAY, 0, 0, 1), "source 0 is a node; it must be an array"),
    (do.CopyArray(ARRAY, NODE, 0, 0, 1), "dest 0 is a node; it must be an array"),
    (do.CopyArray(ARRAY, ARRAY, 0, 0, 0), "source_start 0 and length 0"),
    (do.CopyArray(ARRAY, ARRAY, 0, 0, 4), "source_start 0 and length 4 do not lie in 3 references"),
    (do.CopyArray(ARRAY, ARRAY, 3, 0, 1), "source_start 3"),
    (do.CopyArray(ARRAY, ARRAY, -1, 0, 1), "source_start -1"),
    (do.CopyArray(ARRAY, ARRAY, 0, 3, 1), "dest_start 3"),
    (do.CopyArray(ARRAY, ARRAY, 0, -1, 1), "dest_start -1"),
    (do.FillArray(NODE, None), "root 0 is a node; it must be an array"),
    (do.FillArray(ARRAY, 5), "value is 5"),
    (do.MoveArray(ARRAY, 0, 1, 3), "dest_start 1 and length 3 do not lie in 3 references"),
    (do.MoveArray(ARRAY, 3, 0, 1), "source_start 3"),
    (do.CopyArray(ARRAY, EMPTY, 0, 0, 1), "dest_start 0 and length 1 do not lie in 0 references"),
    (do.EnableSampling(0), "period_bytes is 0; it must be a multiple of 8 from 8 to 1099511627776"),
    (do.EnableSampling(12), "period_bytes is 12"),
    (do.EnableSampling(-8), "period_bytes is -8"),
    (do.EnableSampling(2**40 + 8), "period_bytes is 1099511627784"),
    (do.AllocateOldString(-1), "length is -1; it must be from 0 to 1048551"),
    (do.AllocateOldString(STRING_MAX + 1), "length is 1048552"),
    (do.SetCallback(-1), "length is -1; it must be from 0 to 38"),
    (do.SetCallback(CALLBACK_MAX + 1), "length is 39; it must be from 0 to 38"),
    (do.AddMemoryPressure(0), "extra_bytes is 0; it must be from 1 to 1099511627776"),
    (do.AddMemoryPressure(2**40 + 1), "extra_bytes is 1099511627777"),
    (do.Pin(5), "root is 5"),
    (do.Pin(NODE), "only a string in the nursery that is not pinned can be pinned"),
    (do.Pin(ARRAY), "only a string in the nursery"),
    (do.Pin(WEAKREF), "only a string in the nursery"),
    (do.Unpin(5), "root is 5"),
    (do.Unpin(STRING), "root 1 is not pinned"),
)

NO_STRING_TO_PIN = "only a string in the nursery that is not pinned can be pinned"
NO_MORE_PINS = "objects may be pinned already (1 of 1)"
BESIDE_SAMPLING = "sampling is on, and excludes pinning"
ILLEGAL_AFTER: tuple[tuple[tuple[Action, ...], Action, str], ...] = (
    (A_PIN, do.Pin(PINNED), NO_STRING_TO_PIN),
    (A_PIN, do.Pin(STRING), NO_MORE_PINS),
    (A_PIN, do.SetCallback(0), "objects are pinned (1), and exclude callbacks"),
    (A_PIN, do.EnableSampling(8), "objects are pinned (1)"),
    (A_PIN, do.ResumeSampling(), "objects are pinned (1)"),
    ((do.AllocateString(0, nonmovable=True),), do.Pin(PINNED), NO_STRING_TO_PIN),
    ((do.AllocateString(39),), do.Pin(PINNED), NO_STRING_TO_PIN),
    ((do.AllocateOldString(0),), do.Pin(PINNED), NO_STRING_TO_PIN),
    ((do.CollectMinor(),), do.Pin(STRING), NO_STRING_TO_PIN),
    # It may still be alive.
    ((*A_PIN, do.Free(PINNED)), do.Pin(STRING), NO_MORE_PINS),
    ((SAMPLED, PAUSED, do.EnableSampling(8)), do.Pin(STRING), BESIDE_SAMPLING),
    ((SAMPLED, PAUSED, do.ResumeSampling()), do.Pin(STRING), BESIDE_SAMPLING),
    ((do.SetCallback(0),), do.Pin(STRING), "there is a callback, which excludes pinning"),
)


@pytest.mark.parametrize(
    ("before", "action"), [*(((), action) for action in LEGAL), *LEGAL_AFTER], ids=str
)
def test_a_legal_action_has_no_problem(
    before: tuple[Action, ...], action: Action, contract: Contract, shadow: Shadow
) -> None:
    follow(shadow, *before)
    assert why_illegal(action, contract, shadow) is None


@pytest.mark.parametrize(
    ("before", "action", "reason"), [*(((), *each) for each in ILLEGAL), *ILLEGAL_AFTER], ids=str
)
def test_an_illegal_action_has_a_reason(
    before: tuple[Action, ...], action: Action, reason: str, contract: Contract, shadow: Shadow
) -> None:
    follow(shadow, *before)
    problem = why_illegal(action, contract, shadow)
    assert problem is not None
    assert reason in problem


def test_every_kind_of_action_can_be_legal(contract: Contract, finalizing: Contract) -> None:
    of_others = {do.Malloc, do.Calloc, do.Realloc, do.SetPeriod, do.ReadProfile, do.RunAtOnce}
    of_others |= {do.CheckContents, do.AllocateGroup}
    legal = {type(action) for action in (*LEGAL, *(action for _, action in LEGAL_AFTER))}
    of_threads = {do.EndThread, do.BeginThread}
    of_finalizers = {ACTIONS[name] for name in {*finalizing.actions} - {*contract.actions}}
    assert legal == {*ACTIONS.values()} - of_others - of_threads - of_finalizers


A_FINALIZER = do.RegisterFinalizer(NODE, 7)


@pytest.mark.parametrize(
    ("before", "action", "problem"),
    [
        ((), A_FINALIZER, None),
        ((A_FINALIZER,), do.RegisterFinalizer(NODE, 8), None),
        ((A_FINALIZER,), A_FINALIZER, "there was a finalizer with the number 7"),
        ((), do.AllocateNode(0, destructor=7), None),
        ((A_FINALIZER,), do.AllocateNode(0, destructor=7), "there was a finalizer with the numb"),
        ((do.AllocateNode(0, destructor=7),), A_FINALIZER, "there was a finalizer with the number"),
        ((), do.AllocateNode(0, True, 7), "the node cannot have a destructor"),
        ((), do.RegisterFinalizer(ARRAY, 0), "root 2 is an array; it must be a node"),
        ((do.LoadPrebuilt(0),), do.RegisterFinalizer(5, 0), "a prebuilt object cannot have a"),
        ((A_FINALIZER,), do.Resurrect(7), "no object is kept whose finalizer has the number 7"),
        ((do.AllocateEphemeron(NODE, ARRAY),), do.ReadEphemeron(5), None),
        ((), do.AllocateEphemeron(NODE, STRING), "value 1 is a string; it must be a node or"),
    ],
)
def test_a_finalizer_has_a_new_number_and_a_node(
    before: tuple[Action, ...], action: Action, problem: str | None, finalizing: Contract
) -> None:
    shadow = Shadow(finalizing)
    follow(shadow, do.AllocateNode(0), do.AllocateString(5), do.AllocateArray(3))
    follow(shadow, do.AllocateWeakref(NODE), do.AllocateArray(0), *before)
    assert (why_illegal(action, finalizing, shadow) or "").startswith(problem or "")
    assert (why_illegal(action, finalizing, shadow) is None) == (problem is None)


def test_a_contract_or_its_node_size_may_exclude_destructors(finalizing: Contract) -> None:
    without = attrs.evolve(finalizing, finalizers=Finalizers())
    layout = attrs.evolve(finalizing.layout, large_object_bytes=32)
    action, problem = do.AllocateNode(0, destructor=7), "the node cannot have a destructor"
    for contract in (without, attrs.evolve(finalizing, layout=layout)):
        assert why_illegal(action, contract, Shadow(contract)) == problem
        assert why_illegal(do.AllocateNode(0), contract, Shadow(contract)) is None


@pytest.mark.parametrize(("unregistering", "is_legal"), [("present", True), ("all", False)])
def test_taking_finalizers_back_may_exclude_later_ones(
    unregistering: Literal["present", "all"], is_legal: bool, finalizing: Contract
) -> None:
    contract = attrs.evolve(finalizing, finalizers=Finalizers(unregistering=unregistering))
    shadow = Shadow(contract)
    follow(shadow, do.AllocateNode(0), do.AllocateNode(1), do.UnregisterFinalizer(NODE))
    assert (why_illegal(A_FINALIZER, contract, shadow) is None) == is_legal
    assert why_illegal(do.RegisterFinalizer(1, 7), contract, shadow) is None


@pytest.mark.parametrize(("keep", "is_legal"), [(True, True), (False, False)])
def test_a_kept_object_can_be_resurrected(keep: bool, is_legal: bool, finalizing: Contract) -> None:
    shadow = Shadow(finalizing)
    follow(shadow, do.AllocateNode(0), A_FINALIZER, do.Free(NODE))
    shadow.follow(do.RunFinalizers(keep=keep), 0, [7])
    assert (why_illegal(do.Resurrect(7), finalizing, shadow) is None) == is_legal


@pytest.mark.parametrize(
    ("registrations", "after_running", "is_legal"),
    [
        *(("any", False, True), ("one_at_a_time", False, False), ("one_at_a_time", True, True)),
        *(("one", False, False), ("one", True, False)),
    ],
)
def test_a_contract_may_limit_the_finalizers_of_an_object(
    registrations: Literal["any", "one_at_a_time", "one"],
    after_running: bool,
    is_legal: bool,
    finalizing: Contract,
) -> None:
    contract = attrs.evolve(finalizing, finalizers=Finalizers(registrations=registrations))
    shadow = Shadow(contract)
    follow(shadow, do.AllocateNode(0), A_FINALIZER)
    if after_running:
        shadow.follow(do.RunFinalizers(), 0, [7])
    again = do.RegisterFinalizer(NODE, 8)
    assert (why_illegal(again, contract, shadow) is None) == is_legal


def test_actions_are_not_sent_ahead_of_the_finalizers_that_run(finalizing: Contract) -> None:
    contract = finalizing.without(["pin"])
    assert not may_be_sent_ahead(contract)
    assert may_be_sent_ahead(contract.without(["run_finalizers"]))


@pytest.mark.parametrize(
    ("before", "action", "problem"),
    [
        ((), do.EndThread(thread=1), None),
        ((), do.EndThread(), "the first thread does not end"),
        ((), do.EndThread(thread=2), "thread is 2; there are 2, from 0 up"),
        ((), do.BeginThread(thread=1), "thread 1 has not ended"),
        ((do.EndThread(thread=1),), do.BeginThread(thread=1), None),
        ((do.EndThread(thread=1),), do.EndThread(thread=1), "thread 1 has ended"),
        ((do.EndThread(thread=1),), do.AllocateNode(0, thread=1), "thread 1 has ended"),
        ((do.EndThread(thread=1),), do.AllocateNode(0), None),
        ((do.EndThread(thread=1), do.BeginThread(thread=1)), do.AllocateNode(0, thread=1), None),
    ],
)
def test_a_thread_that_has_ended_takes_no_action(
    contract: Contract, before: tuple[Action, ...], action: Action, problem: str | None
) -> None:
    contract = with_rule(contract, seeds=(0, 0))
    shadow = Shadow(contract)
    follow(shadow, *before)
    assert why_illegal(action, contract, shadow) == problem


@pytest.mark.parametrize(
    ("before", "action"),
    [
        (A_PIN, do.EnableSampling(8)),
        (A_PIN, do.ResumeSampling()),
        ((do.EnableSampling(8),), do.Pin(STRING)),
    ],
)
def test_where_it_is_allowed_objects_are_pinned_while_sampling(
    before: tuple[Action, ...], action: Action, contract: Contract, shadow: Shadow
) -> None:
    follow(shadow, *before)
    assert why_illegal(action, with_rule(contract, pinning="allowed"), shadow) is None


def test_the_contract_limits_the_number_of_pins(contract: Contract, shadow: Shadow) -> None:
    follow(shadow, *A_PIN)
    assert why_illegal(do.Pin(STRING), attrs.evolve(contract, pins_max=2), shadow) is None


def test_a_callback_beyond_any_nursery_is_illegal(contract: Contract, shadow: Shadow) -> None:
    tiny = with_layout(contract, large_object_bytes=25)
    assert why_illegal(do.SetCallback(0), tiny, shadow) is not None
    assert why_illegal(do.SetCallback(None), tiny, shadow) is None


def test_an_unsupported_action_is_illegal(contract: Contract, shadow: Shadow) -> None:
    smaller = attrs.evolve(contract, actions=("collect_full",))
    problem = why_illegal(do.CollectMinor(), smaller, shadow)
    assert problem == "the target does not carry out collect_minor"


@pytest.mark.parametrize(("report", "other"), [(True, "drop"), (False, "report")])
def test_a_way_of_disabling_that_the_target_does_not_have_is_illegal(
    report: bool, other: Literal["drop", "report"], contract: Contract, shadow: Shadow
) -> None:
    problem = why_illegal(
        do.DisableSampling(report), with_rule(contract, disabling=(other,)), shadow
    )
    assert problem == f"the target cannot disable sampling with {'report' if report else 'drop'}"


def test_the_legal_periods_are_those_of_the_contract(contract: Contract, shadow: Shadow) -> None:
    other = with_rule(contract, period_bytes=Range(24, 48, 12))
    legal = [p for p in range(100) if not why_illegal(do.EnableSampling(p), other, shadow)]
    assert legal == [24, 36, 48]


# Blocks and threads.


@pytest.fixture
def blocks(blocks: Contract) -> Contract:
    return attrs.evolve(blocks, actions=(*blocks.actions, "read_profile"))


@pytest.fixture
def of_blocks(blocks: Contract) -> Shadow:
    """Roots: a block of 9 bytes."""
    shadow = Shadow(blocks)
    follow(shadow, do.Malloc(9))
    return shadow


LEGAL_WITH_BLOCKS = (
    *(do.Malloc(0), do.Malloc(4096), do.Malloc(1, thread=2), do.Calloc(0, 7), do.Calloc(7, 0)),
    *(do.Calloc(2, 2048), do.Calloc(1, 4096)),
    *(do.Realloc(0, 1), do.Realloc(0, 4096), do.Free(0, thread=1)),
    *(do.SetPeriod(1), do.SetPeriod(4096), do.EnableSampling(4096, thread=2), do.ReadProfile()),
    *(do.DisableSampling(), do.PauseSampling(), do.ResumeSampling()),
)

ILLEGAL_WITH_BLOCKS = (
    (do.Malloc(-1), "the block has -1 bytes; it must have from 0 to 4096"),
    (do.Malloc(4097), "the block has 4097 bytes; it must have from 0 to 4096"),
    (do.Calloc(2, 2049), "the block has 4098 bytes; it must have from 0 to 4096"),
    (do.Calloc(-1, 8), "count is -1, size_bytes 8; none may be below 0"),
    (do.Calloc(8, -1), "count is 8, size_bytes -1; none may be below 0"),
    (do.Calloc(-2, -2), "count is -2, size_bytes -2; none may be below 0"),
    (do.Realloc(0, 0), "the block has 0 bytes; it must have from 1 to 4096"),
    (do.Realloc(0, 4097), "the block has 4097 bytes; it must have from 1 to 4096"),
    (do.Realloc(1, 8), "root is 1; there are 1 roots, from 0 up"),
    (do.Free(1), "root is 1; there are 1 roots, from 0 up"),
    (do.SetPeriod(0), "period_bytes is 0; it must be from 1 to 4096"),
    (do.SetPeriod(4097), "period_bytes is 4097; it must be from 1 to 4096"),
    (do.Malloc(1, thread=3), "thread is 3; there are 3, from 0 up"),
    (do.Malloc(1, thread=-1), "thread is -1; there are 3, from 0 up"),
    (do.ReadProfile(thread=3), "thread is 3; there are 3, from 0 up"),
    (do.AllocateNode(0), "the target does not carry out allocate_node"),
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
    contract = with_layout(contract, object_bytes_max=2**60)
    assert why_illegal(do.AllocateArray(2**20), contract, shadow) is None
    problem = why_illegal(do.AllocateArray(2**20 + 1), contract, shadow)
    assert problem == "length is 1048577; it must be from 0 to 1048576"


def test_only_a_block_is_made_another_size(contract: Contract, shadow: Shadow) -> None:
    contract = attrs.evolve(contract, actions=(*contract.actions, "realloc"))
    problem = why_illegal(do.Realloc(NODE, 8), contract, shadow)
    assert problem == "root 0 is a node; it must be a block"


@pytest.mark.parametrize("action", [do.EnableSampling(8), do.SetPeriod(8)], ids=str)
def test_an_unlisted_period_is_illegal(action: Action, blocks: Contract, of_blocks: Shadow) -> None:
    problem = why_illegal(action, with_rule(blocks, periods=(16, 64)), of_blocks)
    assert problem == "period_bytes is 8; it must be one of 16, 64"


def test_a_target_of_one_thread_is_asked_by_that_one(contract: Contract, shadow: Shadow) -> None:
    problem = why_illegal(do.CollectMinor(thread=1), contract, shadow)
    assert problem == "thread is 1; there are 1, from 0 up"


def test_blocks_are_asked_for_ahead_of_the_answers(blocks: Contract) -> None:
    assert may_be_sent_ahead(blocks)
    actions = (do.Malloc(9), do.Free(0), do.Realloc(0, 9), do.Malloc(9))
    assert list(while_legal(blocks, actions)) == [do.Malloc(9), do.Free(0)]
