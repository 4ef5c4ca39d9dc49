"""How many arenas there are, at most and at least."""

import random

import pytest

from fuzz.oracles.arenas import ArenaBound
from fuzz.protocol.contract import OldSpace
from gcmodel.collector.arenas import PagedArenas
from gcmodel.memory.layout import Kind
from gcmodel.memory.objects import OUTSIDE, VISITED, Object

SPACE = OldSpace(arena_object_bytes_max=40, arena_bytes=512, arena_pages=3, page_room_bytes=96)
SWEEP_ENDS = 10**6


@pytest.fixture
def bound() -> ArenaBound:
    return ArenaBound(SPACE)


@pytest.mark.parametrize(("objects", "arenas"), [(0, 0), (1, 1), (9, 1), (10, 2), (18, 2), (19, 3)])
def test_an_arena_has_three_pages_of_three(bound: ArenaBound, objects: int, arenas: int) -> None:
    for _ in range(objects):
        bound.place([32], is_sweeping=False)
    assert bound.arenas == arenas


def test_a_page_has_objects_of_one_size(bound: ArenaBound) -> None:
    bound.place([16, 24, 32, 40], is_sweeping=False)
    assert bound.arenas == 2


@pytest.mark.parametrize(
    ("sizes", "arenas"),
    [([], 0), ([32], 1), ([32] * 9, 1), ([32] * 10, 2), ([16, 24, 32], 1), ([16, 24, 32, 40], 2)],
)
def test_living_objects_take_pages(bound: ArenaBound, sizes: list[int], arenas: int) -> None:
    assert bound.least(sizes) == arenas


def test_what_a_sweep_has_yet_to_reach_takes_nothing(bound: ArenaBound) -> None:
    bound.place([32] * 7, is_sweeping=False)
    bound.place([32] * 2, is_sweeping=True)
    assert bound.arenas == 2


def test_an_object_that_lives_keeps_a_page(bound: ArenaBound) -> None:
    bound.place([32] * 27, is_sweeping=False)
    bound.sweep([32] * 2)
    bound.place([32] * 4, is_sweeping=False)
    assert bound.arenas == 3


def test_an_arena_without_a_page_in_use_is_given_back_but_one(bound: ArenaBound) -> None:
    bound.place([32] * 27, is_sweeping=False)
    bound.sweep([32])
    assert bound.arenas == 2
    bound.sweep([])
    assert bound.arenas == 1


def test_room_that_dead_objects_leave_is_used_again(bound: ArenaBound) -> None:
    for _ in range(5):
        bound.place([32] * 9, is_sweeping=False)
        bound.sweep([])
    assert bound.arenas == 1


def place_some(arenas: PagedArenas, choices: random.Random) -> list[Object]:
    sizes = choices.choices((16, 24, 32, 40), k=choices.randrange(12))
    objects = [Object(Kind.STRING, OUTSIDE, size_bytes, 0, []) for size_bytes in sizes]
    for obj in objects:
        arenas.add(obj)
    return objects


def begin_sweep(arenas: PagedArenas, alive: list[Object]) -> None:
    for obj in alive:
        obj.flags |= VISITED
    arenas.prepare_sweep("this one")


@pytest.mark.parametrize("seed", range(20))
def test_the_reference_never_has_more(bound: ArenaBound, seed: int) -> None:
    choices, arenas = random.Random(seed), PagedArenas()
    alive: list[Object] = []
    is_sweeping = False
    for _ in range(200):
        new = place_some(arenas, choices)
        bound.place([obj.size_bytes for obj in new], is_sweeping)
        assert arenas.arena_bytes <= bound.arenas * 512
        alive = [obj for obj in alive + new if choices.randrange(6)]
        if is_sweeping:
            is_sweeping = not arenas.sweep(pages=3)
        elif choices.randrange(5) == 0:
            begin_sweep(arenas, alive)
            is_sweeping = True
        elif choices.randrange(8) == 0:
            begin_sweep(arenas, alive)
            assert arenas.sweep(SWEEP_ENDS)
            bound.sweep(obj.size_bytes for obj in alive)
            assert arenas.arena_bytes <= bound.arenas * 512
