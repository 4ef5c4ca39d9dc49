"""The shadow heap follows actions alone: the roots, and which objects are young, old or dead."""

import pytest

from fuzz.mutator.objects import Age
from fuzz.mutator.shadow import Shadow
from fuzz.protocol.actions import (
    Action,
    AddMemoryPressure,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    Calloc,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CopyArray,
    DisableSampling,
    EnableSampling,
    FillArray,
    Fork,
    Free,
    LoadPrebuilt,
    Malloc,
    MoveArray,
    PauseSampling,
    Pin,
    Read,
    Realloc,
    ResumeSampling,
    SetCallback,
    SetPeriod,
    Unpin,
    Write,
    WriteNumber,
)
from fuzz.protocol.contract import Contract


def follow(shadow: Shadow, *actions: Action) -> None:
    """Follow actions of a target that collects only when asked to."""
    for action in actions:
        shadow.follow(action, minors=int(isinstance(action, CollectMinor | CollectFull)))


def numbers(shadow: Shadow) -> list[int]:
    return [obj.number for obj in shadow.roots]


# The roots.


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        pytest.param([AllocateNode(5), AllocateString(6), AllocateArray(7)], [5, 6, 7], id="new"),
        pytest.param(
            [AllocateNode(0), AllocateNode(1), AllocateNode(2), Free(1)], [0, 2], id="free"
        ),
        pytest.param(
            [AllocateNode(0), AllocateNode(1), Write(0, 1, 1), Free(1), Read(0, 1)],
            [0, 1],
            id="read",
        ),
        pytest.param([AllocateNode(0), Read(0, 1)], [0], id="read null"),
        pytest.param([AllocateNode(0), WriteNumber(0, -7)], [-7], id="write number"),
        pytest.param([AllocateNode(0), CheckHeap()], [0], id="no effect"),
    ],
)
def test_the_numbers_of_the_objects_in_the_roots(
    shadow: Shadow, actions: list[Action], expected: list[int]
) -> None:
    follow(shadow, *actions)
    assert numbers(shadow) == expected


def test_an_object_is_as_the_contract_says(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateArray(3), AllocateString(1), AllocateString(1, True))
    assert [(obj.kind, obj.refs, obj.size_bytes, obj.outside) for obj in shadow.roots] == [
        ("node", [None] * 2, 32, False),
        ("array", [None] * 3, 40, False),
        ("string", [], 32, False),
        ("string", [], 26, True),
    ]


def test_prebuilt_objects_are_in_the_contract_old_and_outside(shadow: Shadow) -> None:
    assert [(obj.kind, len(obj.refs), obj.age, obj.outside) for obj in shadow.prebuilt] == [
        ("node", 2, Age.OLD, True),
        ("array", 4, Age.OLD, True),
    ]
    follow(shadow, LoadPrebuilt(1))
    assert shadow.roots == [shadow.prebuilt[1]]


# What objects refer to.


def test_null_can_be_written_over_a_reference(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), Write(0, 0, 0), Write(0, 0, None))
    assert shadow.roots[0].refs == [None, None]


def test_a_weak_reference_has_no_strong_one(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateWeakref(0))
    node, weakref = shadow.roots
    assert (weakref.target, weakref.refs) == (node, [])


def test_all_items_of_an_array_are_filled(shadow: Shadow) -> None:
    follow(shadow, AllocateArray(2), AllocateNode(0), FillArray(0, 1))
    assert shadow.roots[0].refs == [shadow.roots[1]] * 2


def test_items_are_moved_within_an_array_although_the_ranges_overlap(shadow: Shadow) -> None:
    follow(shadow, AllocateArray(3), Write(0, 0, 0), MoveArray(0, 0, 1, 2))
    assert shadow.roots[0].refs == [shadow.roots[0]] * 2 + [None]


def test_items_are_copied_between_arrays(shadow: Shadow) -> None:
    follow(shadow, AllocateArray(2), AllocateArray(3), Write(0, 1, 0), CopyArray(0, 1, 0, 1, 2))
    assert shadow.roots[1].refs == [None, None, shadow.roots[0]]


def test_items_are_copied_within_an_array_as_they_were_before(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateArray(3), Write(1, 0, 0), Write(1, 1, 1))
    follow(shadow, CopyArray(1, 1, 0, 1, 2))
    node, array = shadow.roots
    assert array.refs == [node, node, array]


# Collections.

NODE, NINE, WEAKREF = AllocateNode(0), AllocateNode(9), AllocateWeakref(0)
MINOR, FULL = CollectMinor(), CollectFull()
AGES: dict[str, tuple[list[Action], list[Action], Age]] = {
    "no root holds it": ([NODE], [Free(0), MINOR], Age.DEAD),
    "no root holds it outside": ([AllocateNode(0, nonmovable=True)], [Free(0), MINOR], Age.DEAD),
    "a root holds it": ([NODE], [MINOR], Age.OLD),
    "only a weak reference holds it": ([NODE], [WEAKREF, Free(0), MINOR], Age.DEAD),
    "young objects hold it": (
        [NODE, AllocateNode(1), NINE],
        [Write(1, 0, 2), Write(0, 0, 1), Free(2), Free(1), MINOR],
        Age.OLD,
    ),
    **{
        f"an old {name} holds it": (
            [holder, MINOR, NINE],
            [Write(0, 0, 1), Free(1), MINOR],
            Age.OLD,
        )
        for name, holder in {
            "node": NODE,
            "array": AllocateArray(1),
            "prebuilt object": LoadPrebuilt(0),
        }.items()
    },
    "an old unreachable object holds it": (
        [NODE, MINOR, NINE],
        [Write(0, 0, 1), Free(1), Free(0), MINOR],
        Age.OLD,
    ),
    "it was copied into an old array": (
        [AllocateArray(1), MINOR, AllocateArray(1), NINE],
        [Write(1, 0, 2), CopyArray(1, 0, 0, 0, 1), Free(2), Free(1), MINOR],
        Age.OLD,
    ),
    "its reference was overwritten": (
        [NODE, MINOR, NINE],
        [Write(0, 0, 1), Write(0, 0, None), Free(1), MINOR],
        Age.DEAD,
    ),
    "old, and a weak reference holds it": ([NODE], [WEAKREF, MINOR, Free(0), FULL], Age.DEAD),
    "that, before a full collection": ([NODE], [WEAKREF, MINOR, Free(0), MINOR], Age.OLD),
    "reachable in a full collection": (
        [NODE],
        [WEAKREF, LoadPrebuilt(0), Write(2, 0, 0), Free(0), FULL],
        Age.OLD,
    ),
    "reachable in the first of two": ([NODE], [WEAKREF, FULL, Free(0), FULL], Age.DEAD),
    "an old string": ([AllocateOldString(1)], [], Age.OLD),
    "an old string, freed": ([AllocateOldString(1)], [WEAKREF, Free(0), MINOR], Age.OLD),
    "in a full collection": ([AllocateOldString(1)], [WEAKREF, Free(0), FULL], Age.DEAD),
}


@pytest.mark.parametrize(("allocating", "then", "age"), AGES.values(), ids=AGES)
def test_the_age_of_an_object_after_collections(
    shadow: Shadow, allocating: list[Action], then: list[Action], age: Age
) -> None:
    follow(shadow, *allocating)
    obj = shadow.roots[-1]
    follow(shadow, *then)
    assert obj.age is age


def test_an_unreachable_cycle_dies(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateNode(1), Write(0, 0, 1), Write(1, 0, 0))
    cycle = [*shadow.roots]
    follow(shadow, Free(1), Free(0), CollectMinor())
    assert [obj.age for obj in cycle] == [Age.DEAD] * 2


def test_a_collection_inside_an_allocation_comes_before_the_object(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0))
    shadow.follow(AllocateNode(1), minors=1)
    assert [obj.age for obj in shadow.roots] == [Age.OLD, Age.YOUNG]
    assert shadow.young == [shadow.roots[1]]


def test_an_old_string_is_old_and_outside_from_the_start(shadow: Shadow) -> None:
    follow(shadow, AllocateOldString(1))
    (string,) = shadow.roots
    assert (string.kind, string.number, string.size_bytes) == ("string", 1, 26)
    assert (string.age, string.outside, string.survived) == (Age.OLD, True, True)


# Pinned objects.

PINNED = [AllocateString(5), Pin(0)]
BESIDE = [NODE, MINOR, AllocateString(5), Pin(1)]
HELD = [Write(0, 0, 1), Free(1), MINOR]
"""From here on only the old node refers to the string beside it."""
Facts = tuple[Age, bool, bool]
STAYS, COUNTS, IS_DEAD = (Age.YOUNG, True, True), (Age.OLD, True, False), (Age.DEAD, False, False)
IS_OLD = Age.OLD, False, False
PINS: dict[str, tuple[list[Action], list[Action], Facts]] = {
    "in the roots": (PINNED, [MINOR, MINOR, FULL], STAYS),
    "an old object holds it": (BESIDE, [*HELD, MINOR, MINOR], STAYS),
    "never held after its root": (PINNED, [Free(0), MINOR], IS_DEAD),
    "its holder was freed": (BESIDE, [*HELD, Free(0), MINOR, MINOR], COUNTS),
    "its holder is in a dead cycle": (BESIDE, [*HELD, Write(0, 1, 0), Free(0), MINOR], COUNTS),
    "it survived and was freed": (PINNED, [MINOR, Free(0), MINOR], COUNTS),
    "its reference was overwritten": (BESIDE, [*HELD, Write(0, 0, None), MINOR], COUNTS),
    "unreachable in a full collection": (PINNED, [MINOR, WEAKREF, Free(0), FULL], IS_DEAD),
    "unpinned": (PINNED, [MINOR, Unpin(0)], (Age.YOUNG, False, True)),
    "unpinned, and collected": (PINNED, [MINOR, Unpin(0), MINOR], IS_OLD),
    "unpinned in an old object": (BESIDE, [*HELD, Read(0, 0), Unpin(1), Free(1), MINOR], IS_OLD),
}
"""The age of a pinned string, whether it counts as pinned, and whether it is listed as young."""


@pytest.mark.parametrize(("pinning", "then", "facts"), PINS.values(), ids=PINS)
def test_a_pinned_object_stays_in_the_nursery_until_it_may_be_dead(
    shadow: Shadow, pinning: list[Action], then: list[Action], facts: Facts
) -> None:
    follow(shadow, *pinning)
    string = shadow.roots[-1]
    follow(shadow, *then)
    assert (string.age, string in shadow.pinned, string in shadow.young) == facts


def test_only_a_pinned_object_stays_in_the_nursery(shadow: Shadow) -> None:
    follow(shadow, *PINNED, AllocateString(5))
    assert [obj.is_in_nursery for obj in shadow.roots] == [True, True]
    follow(shadow, MINOR)
    assert [(obj.is_in_nursery, obj.survived) for obj in shadow.roots] == [
        (True, True),
        (False, True),
    ]


def test_after_a_full_collection_only_reachable_pinned_objects_are_counted(shadow: Shadow) -> None:
    follow(shadow, *BESIDE, *HELD, AllocateString(5), Pin(1))
    other = shadow.roots[-1]
    follow(shadow, Free(0), FULL)
    assert shadow.pinned == [other]


def test_an_obstacle_stands_from_one_minor_collection_to_the_next(shadow: Shadow) -> None:
    def has_obstacles_after(*actions: Action) -> bool:
        follow(shadow, *actions)
        return shadow.has_obstacles

    assert not has_obstacles_after(*PINNED)
    assert has_obstacles_after(MINOR, Unpin(0))
    assert not has_obstacles_after(MINOR)


# Sampling, callbacks and memory pressure, as the mutator asked for them.

PERIOD = EnableSampling(64)


@pytest.mark.parametrize(
    ("actions", "period_bytes"),
    [
        *(((), None), ((PERIOD,), 64), ((PERIOD, EnableSampling(8)), 8)),
        *(
            ((PERIOD, DisableSampling()), None),
            ((PERIOD, PauseSampling()), None),
            ((PERIOD, Fork()), None),
        ),
        ((PERIOD, PauseSampling(), ResumeSampling()), 64),
        ((PERIOD, PauseSampling(), PauseSampling(), ResumeSampling()), 64),
        ((PERIOD, ResumeSampling()), 64),
        ((EnableSampling(0), PauseSampling(), ResumeSampling()), 0),
        ((PERIOD, SetPeriod(0)), 0),
        ((PauseSampling(), ResumeSampling()), None),
        ((PERIOD, PauseSampling(), Fork(), ResumeSampling()), None),
        ((PERIOD, PauseSampling(), DisableSampling(), ResumeSampling()), None),
        ((PERIOD, PauseSampling(), EnableSampling(8), ResumeSampling()), 8),
        ((PERIOD, PauseSampling(), ResumeSampling(), DisableSampling(), ResumeSampling()), None),
        ((PERIOD, PauseSampling(), EnableSampling(8), DisableSampling(), ResumeSampling()), None),
    ],
    ids=str,
)
def test_the_period_is_what_was_asked_for(
    shadow: Shadow, actions: tuple[Action, ...], period_bytes: int | None
) -> None:
    follow(shadow, *actions)
    assert shadow.sampling_bytes == period_bytes


@pytest.mark.parametrize(
    ("actions", "callback_bytes"),
    [
        *(((SetCallback(0),), 32), ((SetCallback(8),), 40)),
        *(((SetCallback(8), SetCallback(0)), 32), ((SetCallback(8), SetCallback(None)), 0)),
    ],
    ids=str,
)
def test_a_callback_costs_what_its_string_does(
    shadow: Shadow, actions: tuple[Action, ...], callback_bytes: int
) -> None:
    follow(shadow, *actions)
    assert shadow.callback_bytes == callback_bytes


def test_a_callbacks_string_is_no_object_of_the_mutators(shadow: Shadow) -> None:
    follow(shadow, SetCallback(0))
    shadow.follow(AllocateNode(7), minors=1)
    assert numbers(shadow) == [7]
    assert shadow.young == shadow.roots


def test_memory_pressure_may_make_a_collection_due_until_one_comes(shadow: Shadow) -> None:
    follow(shadow, AddMemoryPressure(8), AllocateNode(0))
    assert shadow.collection_may_be_due
    shadow.follow(AllocateNode(0), minors=1)
    assert not shadow.collection_may_be_due


# What a walk must find.


def test_a_cycle_is_reachable_from_a_root(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateNode(1), Write(0, 0, 1), Write(1, 0, 0))
    both = {*shadow.roots}
    follow(shadow, Free(1))
    assert shadow.reachable() == both | {*shadow.prebuilt}


@pytest.mark.parametrize(
    ("actions", "graph"),
    [
        pytest.param([], [], id="empty"),
        pytest.param([AllocateNode(0), Free(0)], [], id="freed"),
        pytest.param(
            [AllocateNode(7), Write(0, 0, 0), Write(0, 1, 0), Read(0, 0), LoadPrebuilt(0)],
            [[1, 7, 0, 0, 1, 0]],
            id="each object once",
        ),
        pytest.param([AllocateNode(7), WEAKREF, Free(0)], [[2, 0]], id="no weak references"),
    ],
)
def test_a_walk_finds_the_roots_and_the_prebuilt_objects(
    shadow: Shadow, actions: list[Action], graph: list[list[int]]
) -> None:
    follow(shadow, *actions)
    assert shadow.graph() == [*graph, [1, 0], [3, 4]]


def test_a_walk_goes_breadth_first(shadow: Shadow) -> None:
    follow(shadow, AllocateArray(3), AllocateString(8), AllocateNode(9))
    follow(shadow, Write(0, 2, 1), Write(0, 0, 2), Free(2), Free(1))
    assert shadow.graph() == [[3, 3, 0, 3, 2, 4], [1, 0], [3, 4], [1, 9], [4, 8]]


def test_two_shadows_share_nothing(contract: Contract) -> None:
    first, second = Shadow(contract), Shadow(contract)
    follow(first, AllocateNode(0))
    assert second.roots == []


# Blocks.


@pytest.fixture
def of_blocks(blocks: Contract) -> Shadow:
    return Shadow(blocks)


def test_a_block_lies_outside_the_nursery_and_has_the_room_of_its_class(of_blocks: Shadow) -> None:
    follow(of_blocks, Malloc(9), Calloc(3, 5), Calloc(0, 5), Malloc(129))
    assert numbers(of_blocks) == [9, 15, 0, 129]
    assert [obj.size_bytes for obj in of_blocks.roots] == [16, 16, 8, 256]
    assert {(obj.kind, obj.outside, obj.is_in_nursery) for obj in of_blocks.roots} == {
        ("block", True, False)
    }
    assert of_blocks.young == []


def test_a_resized_block_keeps_its_slot_until_it_is_freed(of_blocks: Shadow) -> None:
    follow(of_blocks, Malloc(9), Malloc(10))
    block = of_blocks.roots[0]
    follow(of_blocks, Realloc(0, 30))
    assert numbers(of_blocks) == [30, 10]
    assert of_blocks.roots[0] is block
    follow(of_blocks, Free(0))
    assert of_blocks.graph() == [[1, 10]]


@pytest.mark.parametrize(
    ("actions", "sampling_bytes", "paused_bytes"),
    [
        ((), 100, None),
        ((SetPeriod(7),), 7, None),
        ((PauseSampling(), SetPeriod(7)), None, 7),
        ((PauseSampling(), SetPeriod(7), ResumeSampling()), 7, None),
        ((DisableSampling(), SetPeriod(7), ResumeSampling()), None, None),
    ],
    ids=str,
)
def test_a_period_is_set_while_sampling_is_on_or_paused(
    of_blocks: Shadow,
    actions: tuple[Action, ...],
    sampling_bytes: int | None,
    paused_bytes: int | None,
) -> None:
    follow(of_blocks, *actions)
    assert (of_blocks.sampling_bytes, of_blocks.paused_bytes) == (sampling_bytes, paused_bytes)
