"""The bump pointer and its one check, without a heap around it."""

import pytest

from gcmodel import Kind
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import Object

ADDRESS_FROM_SLOW_PATH = 999


class SlowPath:
    """Records how many bytes the nursery requests."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def reserve(self, size_bytes: int) -> int:
        self.asked.append(size_bytes)
        return ADDRESS_FROM_SLOW_PATH


def string_of_16_bytes() -> Object:
    return Object(Kind.STRING, 0, 16, 1, [])


@pytest.fixture
def slow_path() -> SlowPath:
    return SlowPath()


@pytest.fixture
def nursery(slow_path: SlowPath) -> Nursery:
    return Nursery(64, moving=False, reserve=slow_path.reserve)


def test_objects_follow_each_other_up_to_the_limit(nursery: Nursery, slow_path: SlowPath) -> None:
    assert [nursery.allocate(16), nursery.allocate(24), nursery.allocate(24)] == [0, 16, 40]
    assert slow_path.asked == []


@pytest.mark.parametrize("limit", [64, 56])
def test_an_object_that_passes_the_limit_takes_the_slow_path(
    nursery: Nursery, slow_path: SlowPath, limit: int
) -> None:
    nursery.nursery_limit = limit
    nursery.allocate(40)
    assert (nursery.allocate(32), slow_path.asked) == (ADDRESS_FROM_SLOW_PATH, [32])
    assert nursery.nursery_free == 72  # It is already moved.


def test_an_emptied_nursery_is_free_and_has_forgotten_its_objects(nursery: Nursery) -> None:
    nursery.nursery_limit = 24
    nursery.is_collection_due = True
    nursery.memory[nursery.allocate(16)] = string_of_16_bytes()
    nursery.empty(pinned={})
    assert (nursery.nursery_free, nursery.nursery_limit, nursery.nursery_top) == (0, 64, 64)
    assert (nursery.memory, nursery.is_collection_due) == ({}, False)


def test_each_filling_has_a_number_of_its_own(nursery: Nursery) -> None:
    fillings = []
    for _ in range(3):
        fillings.append(nursery.filling)
        nursery.empty(pinned={})
    assert len(set(fillings)) == 3


def test_an_emptied_nursery_keeps_the_pinned_objects_in_its_new_filling(nursery: Nursery) -> None:
    address = nursery.allocate(16)
    pinned = Object(Kind.STRING, nursery.filling, 16, 1, [])
    nursery.empty(pinned={address: pinned})
    assert (nursery.memory, pinned.place) == ({0: pinned}, nursery.filling)


def test_an_emptied_nursery_ends_at_the_first_pinned_object(nursery: Nursery) -> None:
    nursery.empty(pinned={address: string_of_16_bytes() for address in (48, 16)})
    assert (nursery.nursery_free, nursery.nursery_limit, nursery.nursery_top) == (0, 16, 16)
    assert nursery.obstacles == [(48, 64), (16, 32)]


def test_entering_the_next_room_returns_the_length_of_the_jump(nursery: Nursery) -> None:
    nursery.empty(pinned={16: string_of_16_bytes()})
    nursery.allocate(8)
    assert nursery.enter_next_room() == 24
    assert (nursery.nursery_free, nursery.nursery_top, nursery.obstacles) == (32, 64, [])


@pytest.mark.parametrize(
    ("sample_point", "is_collection_due", "limit"),
    [(None, False, 64), (24, False, 24), (72, False, 64), (None, True, 8), (24, True, 8)],
)
def test_the_limit_is_where_the_fast_path_must_stop(
    nursery: Nursery, sample_point: int | None, is_collection_due: bool, limit: int
) -> None:
    nursery.allocate(8)
    nursery.is_collection_due = is_collection_due
    nursery.set_limit(sample_point)
    assert nursery.nursery_limit == limit


@pytest.mark.parametrize(("moving", "ends"), [(False, [64, 64, 64]), (True, [128, 64, 128])])
def test_the_nurserys_end_moves(slow_path: SlowPath, moving: bool, ends: list[int]) -> None:
    nursery = Nursery(64, moving=moving, reserve=slow_path.reserve)
    found = []
    for _ in range(3):
        nursery.empty(pinned={})
        assert nursery.nursery_end - nursery.nursery_start == 64
        found.append(nursery.nursery_end)
    assert found == ends
