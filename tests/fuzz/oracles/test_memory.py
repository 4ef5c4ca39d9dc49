"""The memory oracle: what a contract promises of the old space."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from fuzz.mutator.shadow import Shadow
from fuzz.oracles.memory import MemoryOracle
from fuzz.oracles.oracle import Mismatch
from fuzz.protocol.actions import (
    Action,
    AddMemoryPressure,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectProgress,
    CollectStep,
    Free,
    LoadPrebuilt,
    Pin,
    TakeIdentity,
    Unpin,
    Write,
)
from fuzz.protocol.contract import Contract, OldSpace, Promise
from fuzz.protocol.observation import Observation, Report

SCANNING, MARKING, SWEEPING = range(3)
SPACE = OldSpace(
    card_items=4,
    arena_object_bytes_max=40,
    arena_bytes=512,
    arena_pages=3,
    page_room_bytes=96,
    threshold_bytes=640,
    threshold_percent=250,
)
PROMISES: tuple[Promise, ...] = ("memory", "progress", "pressure")
LARGE_BYTES = 240
LARGE = AllocateString(LARGE_BYTES - 25)


class Judge:
    """A memory oracle over a shadow heap that follows what it is told."""

    def __init__(self, contract: Contract, *promises: Promise, space: OldSpace = SPACE) -> None:
        observes = ("minors", "state", "memory")
        contract = attrs.evolve(
            contract, observes=observes, promises=promises or PROMISES, old_space=space
        )
        self.shadow = Shadow(contract)
        self.oracle = MemoryOracle(contract, self.shadow)

    def hear(self, *actions: Action, minors: int = 0, state: int = SCANNING, **more: Any) -> None:
        for action in actions:
            self.shadow.follow(action, minors)
            self.oracle.check(action, Observation(minors=minors, state=state, **more), None)

    def collect(self, memory_used_bytes: int, arena_bytes: int) -> None:
        self.hear(CollectFull(), minors=4, memory=[memory_used_bytes, arena_bytes])

    def mismatch(self, action: Action, **seen: Any) -> tuple[str, object, object]:
        with pytest.raises(Mismatch, match=r"^memory: ") as raised:
            self.hear(action, **seen)
        return raised.value.field, raised.value.expected, raised.value.got


@pytest.fixture
def judge(contract: Contract) -> Judge:
    return Judge(contract)


# Memory.


def test_where_nothing_lives_nothing_is_used(judge: Judge) -> None:
    judge.hear(LoadPrebuilt(0), AllocateNode(0), LARGE, Free(1), Free(1))
    judge.collect(0, 0)


def test_what_lives_takes_its_bytes_rounded_up_to_words(judge: Judge) -> None:
    judge.hear(AllocateString(1), AllocateString(100), AllocateString(0, nonmovable=True))
    judge.hear(AllocateWeakref(0), AllocateOldString(0))
    judge.collect(32 + 128 + 32 + 16 + 32, 512)


@pytest.mark.parametrize(
    ("length", "card_items", "used_bytes"),
    [(300, 4, 2416 + 16), (300, 32, 2416 + 8), (300, 0, 2416), (6, 4, 64 + 8), (5, 4, 56)],
)
def test_a_large_array_has_a_bit_for_each_card(
    contract: Contract, length: int, card_items: int, used_bytes: int
) -> None:
    judge = Judge(contract, "memory", space=attrs.evolve(SPACE, card_items=card_items))
    judge.hear(AllocateArray(length))
    judge.collect(used_bytes, 0)


def test_what_is_reachable_from_a_prebuilt_object_lives(judge: Judge) -> None:
    judge.hear(LoadPrebuilt(0), AllocateNode(0), Write(0, 0, 1), Free(1), Free(0))
    judge.collect(32, 512)


@pytest.mark.parametrize("used_bytes", [31, 33, 64, -1])
def test_any_other_number_of_bytes_is_a_mismatch(judge: Judge, used_bytes: int) -> None:
    judge.hear(AllocateNode(0))
    seen = judge.mismatch(CollectFull(), minors=4, memory=[used_bytes, 512])
    assert seen == ("memory_used_bytes", 32, used_bytes)


def test_arenas_have_room_for_what_lives_in_them(judge: Judge) -> None:
    judge.hear(AllocateNode(0))
    seen = judge.mismatch(CollectFull(), minors=4, memory=[32, 0])
    assert seen == ("arena_bytes", 512, 0)


def test_pages_of_four_sizes_take_a_second_arena(judge: Judge) -> None:
    judge.hear(AllocateNode(0), AllocateWeakref(0), AllocateArray(1), AllocateArray(3))
    seen = judge.mismatch(CollectFull(), minors=4, memory=[112, 512])
    assert seen == ("arena_bytes", 1024, 512)


def test_more_arenas_than_objects_could_ever_need_are_a_mismatch(judge: Judge) -> None:
    judge.hear(AllocateNode(0))
    seen = judge.mismatch(CollectFull(), minors=4, memory=[32, 1024])
    assert seen == ("arena_bytes", 512, 1024)


def test_arenas_that_were_needed_need_not_all_be_given_back(judge: Judge) -> None:
    judge.hear(*[AllocateNode(0)] * 10)
    judge.hear(CollectMinor(), minors=1)
    judge.hear(*[Free(0)] * 9)
    judge.collect(32, 1024)


def test_what_a_dead_parent_kept_had_a_page_until_the_full_collection_freed_it(
    judge: Judge,
) -> None:
    judge.hear(*[AllocateNode(0)] * 6)
    judge.hear(CollectMinor(), minors=1)
    judge.hear(AllocateString(0), AllocateWeakref(6), Write(0, 0, 6), Free(6), Free(0))
    judge.collect(5 * 32 + 16, 1024)


def test_while_sweeping_objects_begin_pages_of_their_own(judge: Judge) -> None:
    judge.hear(*[AllocateNode(0)] * 9)
    judge.hear(CollectStep(), minors=3, state=SWEEPING)
    judge.hear(AllocateString(0), state=SWEEPING)
    judge.collect(320, 1024)


@pytest.mark.parametrize("memory", [None, [], [0], [0, 0, 0]])
def test_two_figures_are_said_after_each_full_collection(
    judge: Judge, memory: list[int] | None
) -> None:
    seen = judge.mismatch(CollectFull(), minors=4, memory=memory)
    assert seen == ("memory", "two figures", memory)


def test_nothing_is_said_of_memory_without_the_promise(contract: Contract) -> None:
    Judge(contract, "progress").hear(AllocateNode(0), CollectFull(), minors=4, memory=[99, 99])


@pytest.mark.parametrize("arena_bytes", [0, 512])
def test_what_is_old_from_the_start_may_lie_in_arenas(judge: Judge, arena_bytes: int) -> None:
    judge.hear(AllocateOldString(0))
    judge.collect(32, arena_bytes)


def test_not_if_it_is_too_large_for_them(judge: Judge) -> None:
    judge.hear(AllocateOldString(16))
    assert judge.mismatch(CollectFull(), minors=4, memory=[48, 512]) == ("arena_bytes", 0, 512)


# Reports.


def report(memory_used_bytes: int, arena_bytes: int, major_state: int = SCANNING) -> Report:
    return Report([5], memory_used_bytes, arena_bytes, major_state)


@pytest.mark.parametrize("figures", [(32, 512), (32, 0), (10**6, 512), (0, 512, MARKING)])
def test_a_reports_figures_have_bounds(judge: Judge, figures: tuple[int, ...]) -> None:
    judge.hear(AllocateNode(0))
    judge.hear(CollectMinor(), minors=1, reports=[report(*figures)])


@pytest.mark.parametrize(
    ("figures", "mismatch"),
    [
        ((31, 512), ("memory_used_bytes", 32, 31)),
        ((-1, 512, MARKING), ("memory_used_bytes", 0, -1)),
        ((32, 1024), ("arena_bytes", 512, 1024)),
        ((32, -512), ("arena_bytes", 0, -512)),
    ],
)
def test_a_report_that_is_beyond_them_is_a_mismatch(
    judge: Judge, figures: tuple[int, ...], mismatch: tuple[str, int, int]
) -> None:
    judge.hear(AllocateNode(0))
    seen = judge.mismatch(CollectMinor(), minors=1, reports=[report(*figures)])
    assert seen == mismatch


def test_once_a_major_collection_has_begun_a_report_may_tell_of_less(judge: Judge) -> None:
    judge.hear(AllocateNode(0))
    judge.hear(CollectStep(), minors=1, state=MARKING)
    judge.hear(CollectStep(), minors=3)
    judge.hear(CollectMinor(), minors=1, reports=[report(0, 512)])


def test_a_report_is_not_judged_without_the_promise(contract: Contract) -> None:
    judge = Judge(contract, "progress", "pressure")
    judge.hear(CollectMinor(), minors=1, reports=[report(-1, 10**6)])


# Pinned objects.


def test_a_pinned_object_is_still_in_the_nursery(judge: Judge) -> None:
    judge.hear(AllocateString(0), Pin(0))
    judge.collect(0, 0)
    judge.hear(Unpin(0))
    judge.collect(32, 512)


def test_one_that_only_what_is_dead_refers_to_is_still_there(judge: Judge) -> None:
    judge.hear(AllocateArray(1))
    judge.hear(CollectMinor(), minors=1, reports=[report(24, 512)])
    judge.hear(AllocateString(0), Pin(1), Write(0, 0, 1), Free(0), Free(0))
    judge.hear(CollectMinor(), minors=1, reports=[report(24, 512)])


@pytest.mark.parametrize("memory", [[0, 0], [32, 512]])
def test_one_whose_identity_was_taken_may_have_its_place_already(
    judge: Judge, memory: list[int]
) -> None:
    judge.hear(AllocateString(0), TakeIdentity(0), Pin(0))
    judge.collect(*memory)
    judge.collect(*memory)


def test_no_more_than_that_place(judge: Judge) -> None:
    judge.hear(AllocateString(0), TakeIdentity(0), TakeIdentity(0), Pin(0))
    seen = judge.mismatch(CollectFull(), minors=4, memory=[33, 512])
    assert seen == ("memory_used_bytes", 32, 33)


def test_the_place_of_one_that_died_is_free_after_another_full_collection(judge: Judge) -> None:
    judge.hear(AllocateString(0), TakeIdentity(0), Pin(0), Free(0))
    judge.collect(32, 512)
    seen = judge.mismatch(CollectFull(), minors=4, memory=[32, 512])
    assert seen == ("memory_used_bytes", 0, 32)


def test_one_that_was_never_pinned_has_no_place_but_its_own(judge: Judge) -> None:
    judge.hear(AllocateString(0), TakeIdentity(0), Free(0))
    seen = judge.mismatch(CollectFull(), minors=4, memory=[32, 512])
    assert seen == ("memory_used_bytes", 0, 32)


# Progress.


def fill(judge: Judge, nodes: int) -> None:
    """So many nodes are old, 32 bytes each."""
    for _ in range(nodes):
        judge.hear(AllocateNode(0))
    judge.hear(CollectMinor(), minors=1)


@pytest.mark.parametrize("action", [AllocateNode(0), CollectProgress()])
def test_beyond_the_threshold_an_automatic_collection_begins_a_major_one(
    contract: Contract, action: Action
) -> None:
    judge = Judge(contract)
    fill(judge, 21)
    assert judge.mismatch(action, minors=1) == ("state", MARKING, SCANNING)


@pytest.mark.parametrize("action", [AllocateNode(0), CollectProgress()])
def test_up_to_the_threshold_it_need_not(judge: Judge, action: Action) -> None:
    fill(judge, 20)
    judge.hear(action, minors=1)


def test_one_that_is_only_minor_begins_none(judge: Judge) -> None:
    fill(judge, 100)
    judge.hear(CollectMinor(), minors=1)


def test_a_step_begins_one_whatever_is_used(judge: Judge) -> None:
    assert judge.mismatch(CollectStep(), minors=1) == ("state", MARKING, SCANNING)


def test_many_minor_collections_may_have_been_a_whole_one(judge: Judge) -> None:
    fill(judge, 21)
    judge.hear(AllocateNode(0), minors=4)


def test_once_it_has_begun_nothing_is_known_of_the_threshold(judge: Judge) -> None:
    fill(judge, 21)
    judge.hear(CollectStep(), minors=1, state=MARKING)
    judge.hear(CollectStep(), minors=3)
    fill(judge, 100)
    judge.hear(AllocateNode(0), CollectProgress(), CollectStep(), minors=1)


def test_after_a_full_collection_the_threshold_is_some_times_what_it_left(judge: Judge) -> None:
    fill(judge, 10)
    judge.collect(320, 1024)
    fill(judge, 15)
    judge.hear(AllocateNode(0), minors=1)
    fill(judge, 1)
    assert judge.mismatch(AllocateNode(0), minors=1) == ("state", MARKING, SCANNING)


def test_what_dies_young_is_not_used(judge: Judge) -> None:
    for _ in range(100):
        judge.hear(AllocateNode(0), Free(0))
    judge.hear(AllocateNode(0), minors=1)


def test_what_is_dead_but_old_is_used(judge: Judge) -> None:
    fill(judge, 21)
    judge.hear(*[Free(0)] * 21)
    assert judge.mismatch(AllocateNode(0), minors=1) == ("state", MARKING, SCANNING)


@pytest.mark.parametrize("large", [LARGE, AllocateOldString(LARGE.length)])
def test_an_object_outside_that_would_be_beyond_it_collects(
    contract: Contract, large: Action
) -> None:
    judge = Judge(contract)
    judge.hear(large, large)
    assert judge.mismatch(large) == ("minors", 1, 0)


def test_young_objects_outside_that_are_dead_are_freed_by_the_minor_collection(
    judge: Judge,
) -> None:
    judge.hear(LARGE, LARGE, Free(0), Free(0))
    judge.hear(LARGE, minors=1)
    judge.hear(LARGE)
    assert judge.mismatch(LARGE) == ("minors", 1, 0)


def test_if_they_live_the_object_outside_begins_a_major_collection(judge: Judge) -> None:
    judge.hear(LARGE, LARGE)
    assert judge.mismatch(LARGE, minors=1) == ("state", MARKING, SCANNING)


def test_what_is_pinned_is_not_used_and_what_was_may_be_dead(judge: Judge) -> None:
    judge.hear(*[AllocateString(14)] * 17)
    for slot in range(17):
        judge.hear(Pin(slot))
    judge.hear(CollectMinor(), minors=1)
    for slot in range(17):
        judge.hear(Unpin(slot))
    judge.hear(*[Free(0)] * 17)
    judge.hear(AllocateNode(0), minors=1)
    judge.hear(CollectProgress(), minors=1)


def test_a_walk_is_none_of_its_business(judge: Judge) -> None:
    fill(judge, 21)
    judge.hear(CheckHeap())


def test_nothing_is_said_of_the_threshold_without_the_promise(contract: Contract) -> None:
    judge = Judge(contract, "memory")
    fill(judge, 21)
    judge.hear(AllocateNode(0), CollectProgress(), CollectStep(), minors=1)
    judge.hear(LARGE, LARGE, LARGE)


# Pressure.


@pytest.mark.parametrize("pressed", [[641], [320, 321], [640, 1]])
@pytest.mark.parametrize("action", [AllocateNode(0), LARGE])
def test_after_more_pressure_than_the_threshold_the_next_allocation_collects(
    contract: Contract, pressed: list[int], action: Action
) -> None:
    judge = Judge(contract)
    judge.hear(*map(AddMemoryPressure, pressed))
    assert judge.mismatch(action) == ("minors", 1, 0)


def test_and_begins_a_major_collection(judge: Judge) -> None:
    judge.hear(AddMemoryPressure(641))
    assert judge.mismatch(AllocateNode(0), minors=1) == ("state", MARKING, SCANNING)


def test_less_pressure_collects_nothing(judge: Judge) -> None:
    judge.hear(AddMemoryPressure(320), AddMemoryPressure(320), AllocateNode(0))


def test_pressure_lowers_the_threshold(judge: Judge) -> None:
    judge.hear(AddMemoryPressure(600))
    fill(judge, 2)
    assert judge.mismatch(AllocateNode(0), minors=1) == ("state", MARKING, SCANNING)


def test_any_minor_collection_is_the_one_that_was_due(judge: Judge) -> None:
    judge.hear(AddMemoryPressure(641))
    judge.hear(CollectMinor(), minors=1)
    judge.hear(AllocateNode(0))


def test_a_full_collection_forgets_the_pressure(judge: Judge) -> None:
    judge.hear(AddMemoryPressure(640))
    judge.collect(0, 0)
    judge.hear(AddMemoryPressure(640), AllocateNode(0))


def test_nothing_is_said_of_pressure_without_the_promise(contract: Contract) -> None:
    Judge(contract, "memory", "progress").hear(AddMemoryPressure(10**6), AllocateNode(0))


def test_pressure_is_judged_without_the_promise_of_progress(contract: Contract) -> None:
    judge = Judge(contract, "pressure")
    judge.hear(AddMemoryPressure(641))
    assert judge.mismatch(AllocateNode(0)) == ("minors", 1, 0)


# Who is judged.


def test_a_contract_that_promises_nothing_is_not_judged(contract: Contract) -> None:
    assert not MemoryOracle.can_judge(contract)
