"""The places of small old objects: pages and arenas with few bytes, and the plain list.

A page has 128 bytes, so three blocks of 32 or four of 24; an arena has three usable pages.
"""

import pytest

from gcmodel import Kind
from gcmodel.collector.arenas import Arenas, ListedObjects, PagedArenas
from gcmodel.memory.objects import FREED, OUTSIDE, VISITED, Object

ALL = 1000
"""More pages than there are."""


@pytest.fixture
def paged() -> PagedArenas:
    return PagedArenas()


@pytest.fixture(params=[PagedArenas, ListedObjects])
def arenas(request: pytest.FixtureRequest) -> Arenas:
    made: Arenas = request.param()
    return made


def add(arenas: Arenas, count: int, size_bytes: int = 32) -> list[Object]:
    objects = [Object(Kind.STRING, OUTSIDE, size_bytes, 0, []) for _ in range(count)]
    for obj in objects:
        arenas.add(obj)
    return objects


def freed(objects: list[Object]) -> list[bool]:
    return [obj.place == FREED for obj in objects]


def sweep_keeping(arenas: Arenas, kept: list[Object]) -> None:
    for obj in kept:
        obj.flags |= VISITED
    arenas.prepare_sweep("this one")
    arenas.sweep(ALL)


# Both.


def test_used_bytes_are_those_of_all_objects(arenas: Arenas) -> None:
    add(arenas, 4, 32)
    add(arenas, 2, 16)
    assert arenas.used_bytes == 160


def test_a_sweep_frees_what_was_not_visited_and_makes_the_rest_white(arenas: Arenas) -> None:
    objects = add(arenas, 5)
    sweep_keeping(arenas, objects[1:3])
    assert freed(objects) == [True, False, False, True, True]
    assert [obj.flags for obj in objects] == [0] * 5
    assert arenas.used_bytes == 64
    sweep_keeping(arenas, [])
    assert (freed(objects), arenas.used_bytes) == ([True] * 5, 0)


def test_objects_added_during_a_sweep_are_not_swept(arenas: Arenas) -> None:
    add(arenas, 2)
    arenas.prepare_sweep("this one")
    newcomers = add(arenas, 2)
    arenas.sweep(ALL)
    assert (freed(newcomers), arenas.used_bytes) == ([False, False], 64)


def test_an_empty_space_is_swept_at_once(arenas: Arenas) -> None:
    arenas.prepare_sweep("this one")
    assert arenas.sweep(1)


# The plain list.


def test_the_plain_list_is_swept_from_its_end_in_steps() -> None:
    listed = ListedObjects()
    objects = add(listed, 25)
    listed.prepare_sweep("this one")
    assert not listed.sweep(1)
    # Ten objects a page and one more: 1.0 less ten times 0.1 is 1.4e-16, in PyPy too.
    assert freed(objects) == [False] * 14 + [True] * 11
    assert [listed.sweep(1), listed.sweep(1)] == [False, True]


def test_the_used_bytes_of_the_plain_list_are_counted_again_by_a_sweep() -> None:
    listed = ListedObjects()
    for obj in add(listed, 25):
        obj.flags |= VISITED
    listed.prepare_sweep("this one")
    assert listed.used_bytes == 0
    listed.sweep(ALL)
    assert (listed.used_bytes, listed.arena_bytes) == (25 * 32, 0)


# Pages and arenas.


@pytest.mark.parametrize(
    ("size_bytes", "count", "arena_count"),
    [(32, 1, 1), (32, 9, 1), (32, 10, 2), (24, 12, 1), (24, 13, 2), (16, 18, 1), (40, 7, 2)],
)
def test_an_arena_has_three_pages_of_as_many_blocks_as_fit(
    paged: PagedArenas, size_bytes: int, count: int, arena_count: int
) -> None:
    add(paged, count, size_bytes)
    assert paged.arena_bytes == arena_count * 512


def test_a_page_has_blocks_of_one_size(paged: PagedArenas) -> None:
    for size_bytes in (16, 24, 32):
        add(paged, 1, size_bytes)
    assert paged.arena_bytes == 512
    add(paged, 1, 40)
    assert paged.arena_bytes == 1024


@pytest.mark.parametrize(("kept", "arena_bytes"), [(0, 0), (1, 512)])
def test_a_sweep_gives_empty_arenas_back(paged: PagedArenas, kept: int, arena_bytes: int) -> None:
    objects = add(paged, 18)
    sweep_keeping(paged, objects[:kept])
    assert paged.arena_bytes == arena_bytes


def test_a_sweep_stops_after_its_pages_and_continues_there(paged: PagedArenas) -> None:
    objects = add(paged, 18)
    paged.prepare_sweep("this one")
    counts = []
    while not paged.sweep(2):
        counts.append(freed(objects).count(True))
    assert (counts, freed(objects)) == ([6, 12, 18], [True] * 18)


def test_the_largest_blocks_are_swept_first(paged: PagedArenas) -> None:
    small, large = add(paged, 1, 16), add(paged, 1, 40)
    paged.prepare_sweep("this one")
    paged.sweep(1)
    assert (freed(small), freed(large)) == ([False], [True])


def test_full_pages_are_swept_before_partial_ones(paged: PagedArenas) -> None:
    objects = add(paged, 4)
    paged.prepare_sweep("this one")
    paged.sweep(1)
    assert freed(objects) == [True, True, True, False]


@pytest.mark.parametrize(("kept", "arena_bytes"), [(9, [1024, 1024]), (8, [512, 1024])])
def test_partial_pages_fill_up_first(paged: PagedArenas, kept: int, arena_bytes: list[int]) -> None:
    objects = add(paged, 9)
    sweep_keeping(paged, objects[:kept])
    for expected in arena_bytes:
        add(paged, 1)
        assert paged.arena_bytes == expected


def test_the_partial_page_that_was_swept_last_is_filled_first(paged: PagedArenas) -> None:
    first_page, second_page = add(paged, 3), add(paged, 3)
    sweep_keeping(paged, first_page[:2] + second_page[:2])
    newcomers = add(paged, 1)
    paged.prepare_sweep("this one")
    paged.sweep(1)
    assert freed(first_page[:2] + newcomers + second_page[:2]) == [True] * 3 + [False] * 2


def test_a_free_page_may_take_blocks_of_another_size(paged: PagedArenas) -> None:
    objects = add(paged, 9)
    sweep_keeping(paged, objects[:6])
    add(paged, 4, 24)
    assert paged.arena_bytes == 512


def test_a_page_freed_in_the_arena_in_use_is_used_again(paged: PagedArenas) -> None:
    add(paged, 3)
    sweep_keeping(paged, [])
    add(paged, 9)
    assert paged.arena_bytes == 512


def test_the_arena_with_the_fewest_free_pages_is_filled_first(paged: PagedArenas) -> None:
    objects = add(paged, 18)
    # One page of the first arena stays in use, two of the second.
    sweep_keeping(paged, objects[:3] + objects[9:15])
    newcomers = add(paged, 3)
    sweep_keeping(paged, objects[9:15] + newcomers)
    assert paged.arena_bytes == 512


def test_arenas_that_a_sweep_empties_are_found_when_none_is_free(paged: PagedArenas) -> None:
    add(paged, 9)
    paged.prepare_sweep("this one")
    paged.sweep(2)
    add(paged, 6)
    assert paged.arena_bytes == 512
