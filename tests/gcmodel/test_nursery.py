"""The bump pointer and its one check, without a heap around it."""

import pytest

from gcmodel import Kind
from gcmodel.nursery import Nursery
from gcmodel.objects import Object

ADDRESS_FROM_SLOW_PATH = 999


class SlowPath:
    """Notes for how many bytes the nursery asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def reserve(self, size_bytes: int) -> int:
        self.asked.append(size_bytes)
        return ADDRESS_FROM_SLOW_PATH


@pytest.fixture
def slow_path() -> SlowPath:
    return SlowPath()


@pytest.fixture
def nursery(slow_path: SlowPath) -> Nursery:
    return Nursery(64, slow_path.reserve)


def test_objects_follow_each_other(nursery: Nursery) -> None:
    assert [nursery.allocate(16), nursery.allocate(24), nursery.allocate(8)] == [0, 16, 40]


def test_an_object_that_ends_exactly_at_the_limit_fits(
    nursery: Nursery, slow_path: SlowPath
) -> None:
    assert (nursery.allocate(64), slow_path.asked) == (0, [])


def test_an_object_that_passes_the_nurserys_end_takes_the_slow_path(
    nursery: Nursery, slow_path: SlowPath
) -> None:
    nursery.allocate(40)
    assert (nursery.allocate(32), slow_path.asked) == (ADDRESS_FROM_SLOW_PATH, [32])


def test_an_object_that_passes_a_lowered_limit_takes_the_slow_path(
    nursery: Nursery, slow_path: SlowPath
) -> None:
    nursery.nursery_limit = 24
    assert (nursery.allocate(32), slow_path.asked) == (ADDRESS_FROM_SLOW_PATH, [32])


def test_the_slow_path_finds_the_free_pointer_already_moved(nursery: Nursery) -> None:
    nursery.allocate(40)
    nursery.allocate(32)
    assert nursery.nursery_free == 72


def test_an_emptied_nursery_is_free_from_its_start_to_its_end(nursery: Nursery) -> None:
    nursery.nursery_limit = 24
    nursery.allocate(16)
    nursery.empty()
    assert (nursery.nursery_free, nursery.nursery_limit, nursery.nursery_top) == (0, 64, 64)


def test_an_emptied_nursery_forgets_its_objects(nursery: Nursery) -> None:
    nursery.memory[nursery.allocate(32)] = Object(Kind.NODE, nursery.filling, 32, 1, [])
    nursery.empty()
    assert nursery.memory == {}


def test_each_filling_has_a_number_of_its_own(nursery: Nursery) -> None:
    fillings = []
    for _ in range(3):
        fillings.append(nursery.filling)
        nursery.empty()
    assert len(set(fillings)) == 3
