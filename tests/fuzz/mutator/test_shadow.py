"""The shadow heap follows actions alone: what is in the roots, young, old and dead."""

import pytest

from fuzz.mutator.shadow import Age, Shadow, ShadowObject
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
    Fork,
    Free,
    LoadPrebuilt,
    Malloc,
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


def test_an_allocation_appends_a_root(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(5), AllocateString(6), AllocateArray(7))
    assert [(obj.kind, obj.number) for obj in shadow.roots] == [
        ("node", 5),
        ("string", 6),
        ("array", 7),
    ]


def test_an_object_costs_what_the_contract_says(shadow: Shadow) -> None:
    follow(shadow, AllocateString(1), AllocateString(1, nonmovable=True))
    assert [(obj.size_bytes, obj.outside) for obj in shadow.roots] == [(32, False), (26, True)]


def test_the_references_of_a_new_object_are_null(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateArray(3), AllocateString(3))
    assert [obj.refs for obj in shadow.roots] == [[None] * 2, [None] * 3, []]


def test_freeing_a_slot_moves_those_above_it_down(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateNode(1), AllocateNode(2), Free(1))
    assert numbers(shadow) == [0, 2]


def test_loading_a_prebuilt_object_appends_it(shadow: Shadow) -> None:
    follow(shadow, LoadPrebuilt(1))
    assert shadow.roots == [shadow.prebuilt[1]]


def test_prebuilt_objects_are_what_the_contract_lists(shadow: Shadow) -> None:
    assert [(obj.kind, len(obj.refs)) for obj in shadow.prebuilt] == [("node", 2), ("array", 4)]


def test_prebuilt_objects_are_old_and_outside(shadow: Shadow) -> None:
    assert {(obj.age, obj.outside) for obj in shadow.prebuilt} == {(Age.OLD, True)}


def test_an_object_that_was_read_is_appended(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateNode(1), Write(0, 1, 1), Free(1), Read(0, 1))
    assert numbers(shadow) == [0, 1]


def test_reading_null_appends_nothing(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), Read(0, 1))
    assert numbers(shadow) == [0]


def test_an_action_that_changes_nothing_changes_nothing(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), CheckHeap())
    assert numbers(shadow) == [0]


# What objects refer to.


def test_null_can_be_written_over_a_reference(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), Write(0, 0, 0), Write(0, 0, None))
    assert shadow.roots[0].refs == [None, None]


def test_a_number_that_was_written_stays(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), WriteNumber(0, -7))
    assert numbers(shadow) == [-7]


def test_a_weak_reference_has_no_strong_one(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateWeakref(0))
    node, weakref = shadow.roots
    assert (weakref.target, weakref.refs) == (node, [])


def test_items_are_copied_between_arrays(shadow: Shadow) -> None:
    follow(shadow, AllocateArray(2), AllocateArray(3), Write(0, 1, 0), CopyArray(0, 1, 0, 1, 2))
    assert shadow.roots[1].refs == [None, None, shadow.roots[0]]


def test_items_are_copied_within_an_array_as_they_were_before(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateArray(3), Write(1, 0, 0), Write(1, 1, 1))
    follow(shadow, CopyArray(1, 1, 0, 1, 2))
    node, array = shadow.roots
    assert array.refs == [node, node, array]


# Minor collections.


@pytest.mark.parametrize("nonmovable", [False, True])
def test_an_object_that_no_root_holds_is_dead_after_a_minor_collection(
    shadow: Shadow, nonmovable: bool
) -> None:
    follow(shadow, AllocateNode(0, nonmovable))
    node = shadow.roots[0]
    follow(shadow, Free(0), CollectMinor())
    assert node.age is Age.DEAD


def test_an_object_in_the_roots_is_old_after_a_minor_collection(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), CollectMinor())
    assert shadow.roots[0].age is Age.OLD


def test_young_objects_keep_each_other_alive(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateNode(1), AllocateNode(2), Write(1, 0, 2))
    follow(shadow, Write(0, 0, 1), Free(2), Free(1), CollectMinor(), Read(0, 0), Read(1, 0))
    assert [obj.age for obj in shadow.roots] == [Age.OLD] * 3


def test_a_cycle_that_nothing_else_refers_to_dies(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateNode(1), Write(0, 0, 1), Write(1, 0, 0))
    cycle = [*shadow.roots]
    follow(shadow, Free(1), Free(0), CollectMinor())
    assert [obj.age for obj in cycle] == [Age.DEAD] * 2


@pytest.mark.parametrize("holder", [AllocateNode(0), AllocateArray(1), LoadPrebuilt(0)], ids=str)
def test_an_old_object_keeps_a_young_one_alive(shadow: Shadow, holder: Action) -> None:
    follow(shadow, holder, CollectMinor(), AllocateNode(9), Write(0, 0, 1), Free(1))
    follow(shadow, CollectMinor(), Read(0, 0))
    assert shadow.roots[-1].age is Age.OLD


def test_an_old_object_that_is_unreachable_itself_keeps_a_young_one_alive(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), CollectMinor(), AllocateNode(9), Write(0, 0, 1))
    young = shadow.roots[1]
    follow(shadow, Free(1), Free(0), CollectMinor())
    assert young.age is Age.OLD


def test_an_old_array_keeps_young_items_alive_that_were_copied_into_it(shadow: Shadow) -> None:
    follow(shadow, AllocateArray(1), CollectMinor(), AllocateArray(1), AllocateNode(9))
    young = shadow.roots[2]
    follow(shadow, Write(1, 0, 2), CopyArray(1, 0, 0, 0, 1), Free(2), Free(1), CollectMinor())
    assert young.age is Age.OLD


def test_a_reference_that_was_overwritten_keeps_nothing_alive(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), CollectMinor(), AllocateNode(9), Write(0, 0, 1))
    young = shadow.roots[1]
    follow(shadow, Write(0, 0, None), Free(1), CollectMinor())
    assert young.age is Age.DEAD


def test_a_weak_reference_keeps_nothing_alive(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateWeakref(0))
    node = shadow.roots[0]
    follow(shadow, Free(0), CollectMinor())
    assert node.age is Age.DEAD


def test_a_collection_inside_an_allocation_comes_before_the_object(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0))
    shadow.follow(AllocateNode(1), minors=1)
    assert [obj.age for obj in shadow.roots] == [Age.OLD, Age.YOUNG]


def test_the_objects_since_the_last_minor_collection_are_young(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), CollectMinor(), AllocateNode(1))
    assert shadow.young == [shadow.roots[1]]


# Full collections.


def test_the_unreachable_object_of_a_weak_reference_is_dead_after_a_full_collection(
    shadow: Shadow,
) -> None:
    follow(shadow, AllocateNode(0), AllocateWeakref(0), CollectMinor())
    node = shadow.roots[0]
    follow(shadow, Free(0), CollectFull())
    assert node.age is Age.DEAD


def test_the_unreachable_object_of_a_weak_reference_may_outlive_a_minor_collection(
    shadow: Shadow,
) -> None:
    follow(shadow, AllocateNode(0), AllocateWeakref(0), CollectMinor())
    node = shadow.roots[0]
    follow(shadow, Free(0), CollectMinor())
    assert node.age is Age.OLD


def test_a_reachable_object_outlives_a_full_collection(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateWeakref(0), LoadPrebuilt(0), Write(2, 0, 0))
    node = shadow.roots[0]
    follow(shadow, Free(0), CollectFull())
    assert node.age is Age.OLD


def test_an_object_that_outlived_one_full_collection_can_die_in_the_next(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), AllocateWeakref(0), CollectFull())
    node = shadow.roots[0]
    follow(shadow, Free(0), CollectFull())
    assert node.age is Age.DEAD


# Strings that are old from the start.


def test_an_old_string_is_old_and_outside_from_the_start(shadow: Shadow) -> None:
    follow(shadow, AllocateOldString(1))
    (string,) = shadow.roots
    assert (string.kind, string.number, string.size_bytes) == ("string", 1, 26)
    assert (string.age, string.outside, string.survived) == (Age.OLD, True, True)


def test_an_old_string_does_not_die_in_a_minor_collection(shadow: Shadow) -> None:
    follow(shadow, AllocateOldString(1), AllocateWeakref(0))
    string = shadow.roots[0]
    follow(shadow, Free(0), CollectMinor())
    assert string.age is Age.OLD


def test_an_old_string_is_dead_after_a_full_collection(shadow: Shadow) -> None:
    follow(shadow, AllocateOldString(1), AllocateWeakref(0))
    string = shadow.roots[0]
    follow(shadow, Free(0), CollectFull())
    assert string.age is Age.DEAD


# Pinned objects.


def pinned(shadow: Shadow) -> ShadowObject:
    """A pinned string, in the last slot."""
    follow(shadow, AllocateString(5), Pin(len(shadow.roots)))
    return shadow.roots[-1]


def held_by_an_old_node(shadow: Shadow) -> ShadowObject:
    """A pinned string that only an old node refers to, which is in slot 0."""
    follow(shadow, AllocateNode(0), CollectMinor())
    string = pinned(shadow)
    follow(shadow, Write(0, 0, 1), Free(1), CollectMinor())
    return string


def test_an_object_that_is_not_pinned_leaves_the_nursery(shadow: Shadow) -> None:
    follow(shadow, AllocateString(5))
    assert shadow.roots[0].is_in_nursery
    follow(shadow, CollectMinor())
    assert not shadow.roots[0].is_in_nursery


def test_a_pinned_object_in_the_roots_stays_young(shadow: Shadow) -> None:
    string = pinned(shadow)
    follow(shadow, CollectMinor(), CollectMinor(), CollectFull())
    assert (string.age, string.is_in_nursery, string.survived) == (Age.YOUNG, True, True)
    assert shadow.young == [string]


def test_a_pinned_object_that_an_old_object_refers_to_stays_young(shadow: Shadow) -> None:
    string = held_by_an_old_node(shadow)
    follow(shadow, CollectMinor(), CollectMinor(), Read(0, 0))
    assert (shadow.roots[-1], string.age) == (string, Age.YOUNG)


def test_a_pinned_object_that_nothing_ever_held_after_its_root_dies(shadow: Shadow) -> None:
    string = pinned(shadow)
    follow(shadow, Free(0), CollectMinor())
    assert (string.age, string.survived) == (Age.DEAD, False)
    assert shadow.pinned == []


def test_of_a_pinned_object_whose_parent_was_freed_nothing_is_expected(shadow: Shadow) -> None:
    string = held_by_an_old_node(shadow)
    follow(shadow, Free(0), CollectMinor(), CollectMinor())
    assert string.age is Age.OLD
    assert shadow.young == []


def test_of_a_pinned_object_that_survived_and_was_freed_nothing_is_expected(shadow: Shadow) -> None:
    string = pinned(shadow)
    follow(shadow, CollectMinor(), Free(0), CollectMinor())
    assert string.age is Age.OLD


def test_an_object_whose_reference_to_a_pinned_one_was_overwritten_keeps_nothing_alive(
    shadow: Shadow,
) -> None:
    string = held_by_an_old_node(shadow)
    follow(shadow, Write(0, 0, None), CollectMinor())
    assert string not in shadow.reachable()
    assert string.age is not Age.YOUNG


def test_an_unpinned_object_is_old_after_the_next_minor_collection(shadow: Shadow) -> None:
    string = pinned(shadow)
    follow(shadow, CollectMinor(), Unpin(0))
    assert string.age is Age.YOUNG
    follow(shadow, CollectMinor())
    assert (string.age, shadow.pinned, shadow.young) == (Age.OLD, [], [])


def test_an_unpinned_object_that_only_an_old_object_refers_to_is_old_after_it_too(
    shadow: Shadow,
) -> None:
    string = held_by_an_old_node(shadow)
    follow(shadow, Read(0, 0), Unpin(1), Free(1), CollectMinor(), Read(0, 0))
    assert (shadow.roots[-1], string.age) == (string, Age.OLD)


def test_pinned_objects_are_counted_until_they_are_unpinned(shadow: Shadow) -> None:
    first, second = pinned(shadow), pinned(shadow)
    assert shadow.pinned == [first, second]
    follow(shadow, CollectMinor(), Unpin(0))
    assert shadow.pinned == [second]


def test_a_pinned_object_that_may_be_alive_is_counted(shadow: Shadow) -> None:
    string = held_by_an_old_node(shadow)
    follow(shadow, Free(0), CollectMinor())
    assert shadow.pinned == [string]


def test_a_pinned_object_in_a_dead_cycle_of_old_objects_is_counted(shadow: Shadow) -> None:
    string = held_by_an_old_node(shadow)
    follow(shadow, Write(0, 1, 0), Free(0), CollectMinor())
    assert shadow.pinned == [string]


def test_after_a_full_collection_only_reachable_pinned_objects_are_counted(shadow: Shadow) -> None:
    held_by_an_old_node(shadow)
    other = pinned(shadow)
    follow(shadow, Free(0), CollectFull())
    assert shadow.pinned == [other]


def test_a_pinned_object_is_dead_after_a_full_collection_if_it_is_unreachable(
    shadow: Shadow,
) -> None:
    string = pinned(shadow)
    follow(shadow, CollectMinor(), AllocateWeakref(0), Free(0), CollectFull())
    assert string.age is Age.DEAD


def test_a_minor_collection_leaves_obstacles_where_objects_are_pinned(shadow: Shadow) -> None:
    pinned(shadow)
    assert not shadow.has_obstacles
    follow(shadow, CollectMinor())
    assert shadow.has_obstacles


def test_the_obstacle_of_an_unpinned_object_stays_until_the_next_minor_collection(
    shadow: Shadow,
) -> None:
    pinned(shadow)
    follow(shadow, CollectMinor(), Unpin(0))
    assert shadow.has_obstacles
    follow(shadow, CollectMinor())
    assert not shadow.has_obstacles


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


def test_what_was_freed_and_is_held_by_nothing_is_unreachable(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(0), Free(0))
    assert shadow.reachable() == {*shadow.prebuilt}


def test_an_empty_heap_has_its_prebuilt_objects(shadow: Shadow) -> None:
    assert shadow.graph() == [[1, 0], [3, 4]]


def test_a_walk_goes_breadth_first_from_roots_and_prebuilt_objects(shadow: Shadow) -> None:
    follow(shadow, AllocateArray(3), AllocateString(8), AllocateNode(9))
    follow(shadow, Write(0, 2, 1), Write(0, 0, 2), Free(2), Free(1))
    assert shadow.graph() == [[3, 3, 0, 3, 2, 4], [1, 0], [3, 4], [1, 9], [4, 8]]


def test_a_walk_meets_each_object_once(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(7), Write(0, 0, 0), Write(0, 1, 0), Read(0, 0), LoadPrebuilt(0))
    assert shadow.graph() == [[1, 7, 0, 0, 1, 0], [1, 0], [3, 4]]


def test_a_walk_does_not_follow_weak_references(shadow: Shadow) -> None:
    follow(shadow, AllocateNode(7), AllocateWeakref(0), Free(0))
    assert shadow.graph() == [[2, 0], [1, 0], [3, 4]]


def test_two_shadows_share_nothing(contract: Contract) -> None:
    first, second = Shadow(contract), Shadow(contract)
    follow(first, AllocateNode(0))
    assert second.roots == []


# Blocks.


@pytest.fixture
def of_blocks(blocks: Contract) -> Shadow:
    return Shadow(blocks)


def test_a_block_is_as_large_as_it_was_asked_for(of_blocks: Shadow) -> None:
    follow(of_blocks, Malloc(9), Calloc(3, 5), Calloc(0, 5), Malloc(0))
    assert numbers(of_blocks) == [9, 15, 0, 0]
    assert {obj.kind for obj in of_blocks.roots} == {"block"}


def test_a_block_has_the_room_of_its_class_until_it_is_known_to_be_sampled(
    of_blocks: Shadow,
) -> None:
    follow(of_blocks, Malloc(9), Malloc(129))
    assert [obj.size_bytes for obj in of_blocks.roots] == [16, 256]


def test_a_block_lies_outside_the_nursery_and_is_not_young(of_blocks: Shadow) -> None:
    follow(of_blocks, Malloc(9))
    [block] = of_blocks.roots
    assert block.outside
    assert not block.is_in_nursery
    assert of_blocks.young == []


def test_a_block_that_is_made_another_size_keeps_its_slot(of_blocks: Shadow) -> None:
    follow(of_blocks, Malloc(9), Malloc(10))
    block = of_blocks.roots[0]
    follow(of_blocks, Realloc(0, 30))
    assert numbers(of_blocks) == [30, 10]
    assert of_blocks.roots[0] is block


def test_a_freed_block_is_gone(of_blocks: Shadow) -> None:
    follow(of_blocks, Malloc(9), Malloc(10), Free(0))
    assert numbers(of_blocks) == [10]
    assert of_blocks.graph() == [[1, 10]]


def test_sampling_is_on_from_the_start_where_the_contract_says_so(of_blocks: Shadow) -> None:
    assert of_blocks.sampling_bytes == 100


def test_a_period_is_set_while_sampling_is_on(of_blocks: Shadow) -> None:
    follow(of_blocks, SetPeriod(7))
    assert (of_blocks.sampling_bytes, of_blocks.paused_bytes) == (7, None)


def test_a_period_that_is_set_while_sampling_is_paused_is_resumed_with(of_blocks: Shadow) -> None:
    follow(of_blocks, PauseSampling(), SetPeriod(7))
    assert of_blocks.sampling_bytes is None
    follow(of_blocks, ResumeSampling())
    assert of_blocks.sampling_bytes == 7


def test_a_period_that_is_set_while_sampling_is_off_means_nothing(of_blocks: Shadow) -> None:
    follow(of_blocks, DisableSampling(), SetPeriod(7), ResumeSampling())
    assert of_blocks.sampling_bytes is None
