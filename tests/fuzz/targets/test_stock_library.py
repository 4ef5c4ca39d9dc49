"""The functions that the drivers of all allocators share, with the C library's allocator."""

import ctypes

import pytest

from fuzz.protocol.written import NUMBER_BYTES, contents_of
from fuzz.targets.allocators.pieces import END_BYTES, WHOLE_BYTES, pieces_of
from fuzz.targets.allocators.stock_library import Allocator

BLOCK_BYTES = 200
LARGE_BYTES = 3 * WHOLE_BYTES
NUMBER = 5
LINE = pieces_of(NUMBER, LARGE_BYTES)[2][0]
"""The offset of the second line of a large block."""


@pytest.fixture
def allocator() -> Allocator:
    return Allocator(ctypes.PyDLL(None), "", "malloc_usable_size")


@pytest.mark.parametrize("size_bytes", [0, 1, BLOCK_BYTES, LARGE_BYTES])
def test_zeros_are_zero_also_before_another_byte(allocator: Allocator, size_bytes: int) -> None:
    block = ctypes.create_string_buffer(bytes(size_bytes) + b"x")
    assert allocator.is_zero(ctypes.addressof(block), NUMBER, size_bytes)


@pytest.mark.parametrize(
    ("place", "size_bytes"),
    [
        *((0, BLOCK_BYTES), (BLOCK_BYTES - 1, BLOCK_BYTES), (WHOLE_BYTES // 2 + 1, WHOLE_BYTES)),
        *((END_BYTES - 1, LARGE_BYTES), (LINE, LARGE_BYTES)),
        *((LARGE_BYTES - END_BYTES, LARGE_BYTES), (LARGE_BYTES - 1, LARGE_BYTES)),
    ],
)
def test_one_other_byte_is_noticed(allocator: Allocator, place: int, size_bytes: int) -> None:
    block = ctypes.create_string_buffer(size_bytes)
    block[place] = b"x"
    assert not allocator.is_zero(ctypes.addressof(block), NUMBER, size_bytes)


@pytest.mark.parametrize("length", [BLOCK_BYTES, WHOLE_BYTES])
def test_all_bytes_of_a_block_are_filled(allocator: Allocator, length: int) -> None:
    block = ctypes.create_string_buffer(length + 1)
    allocator.fill(ctypes.addressof(block), NUMBER, length)
    assert bytes(block) == contents_of(NUMBER, length) + b"\0"


def test_only_the_pieces_of_a_large_block_are_filled(allocator: Allocator) -> None:
    block = ctypes.create_string_buffer(LARGE_BYTES + 1)
    allocator.fill(ctypes.addressof(block), NUMBER, LARGE_BYTES)
    filled = bytes(block)
    assert filled.count(0) > LARGE_BYTES // 2
    expected = bytearray(LARGE_BYTES + 1)
    for offset, piece in pieces_of(NUMBER, LARGE_BYTES):
        expected[offset : offset + len(piece)] = piece
    assert filled == expected


@pytest.mark.parametrize(
    "place", [0, NUMBER_BYTES, END_BYTES - 1, LINE, LARGE_BYTES - END_BYTES, LARGE_BYTES - 1]
)
def test_one_wrong_byte_of_a_large_block_is_noticed(allocator: Allocator, place: int) -> None:
    content = bytearray(contents_of(NUMBER, LARGE_BYTES))
    content[place] ^= 1
    block = ctypes.create_string_buffer(bytes(content))
    difference = allocator.difference(ctypes.addressof(block), NUMBER, LARGE_BYTES)
    assert difference is not None
    offset, found = difference
    assert (offset, found[0]) == (place, content[place])
