"""Which bytes of a block the drivers of allocators write and compare."""

from itertools import pairwise

import pytest

from fuzz.protocol.written import contents_of
from fuzz.targets.allocators.pieces import (
    END_BYTES,
    LINE_DISTANCE_BYTES,
    PAGE_BYTES,
    WHOLE_BYTES,
    pieces_of,
)

LARGE_BYTES = 5 * LINE_DISTANCE_BYTES + 12_345
PAGES = LINE_DISTANCE_BYTES // PAGE_BYTES


@pytest.mark.parametrize("length", [0, 1, 1000, WHOLE_BYTES])
def test_a_block_that_is_not_large_is_one_piece(length: int) -> None:
    assert pieces_of(3, length) == [(0, contents_of(3, length))]


@pytest.mark.parametrize("number", [0, 1, PAGES - 1, PAGES, PAGES + 1])
@pytest.mark.parametrize("length", [WHOLE_BYTES + 1, LARGE_BYTES])
def test_each_piece_of_a_large_block_has_its_bytes(number: int, length: int) -> None:
    contents = contents_of(number, length)
    pieces = pieces_of(number, length)
    assert pieces == [(at, contents[at : at + len(piece)]) for at, piece in pieces]
    assert [len(piece) for _, piece in (pieces[0], pieces[-1])] == [END_BYTES, END_BYTES]


@pytest.mark.parametrize("number", [0, 1, PAGES - 1, PAGES, PAGES + 1])
def test_each_run_as_long_as_the_distance_of_lines_has_compared_bytes(number: int) -> None:
    pieces = pieces_of(number, LARGE_BYTES)
    gaps = [after - (at + len(piece)) for (at, piece), (after, _) in pairwise(pieces)]
    assert max(gaps) < LINE_DISTANCE_BYTES


def test_each_page_of_a_large_block_is_compared_in_the_block_of_a_number() -> None:
    pages = {
        at // PAGE_BYTES for number in range(PAGES) for at, _ in pieces_of(number, LARGE_BYTES)
    }
    last = (LARGE_BYTES - END_BYTES) // PAGE_BYTES
    ends = range(1, END_BYTES // PAGE_BYTES)
    assert pages == {*range(last + 1)} - {*ends}
