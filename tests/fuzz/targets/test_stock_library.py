"""The functions that the drivers of all allocators share, with the C library's allocator."""

import ctypes

import pytest

from fuzz.protocol.written import NUMBER_BYTES, PERIOD_BYTES, contents_of
from fuzz.targets.allocators.stock_library import ZEROS, Allocator

BLOCK_BYTES = 200
FIRST_PERIOD_END = NUMBER_BYTES + PERIOD_BYTES
LARGE_BYTES = FIRST_PERIOD_END + 2 * PERIOD_BYTES


@pytest.fixture
def allocator() -> Allocator:
    return Allocator(ctypes.PyDLL(None), "", "malloc_usable_size")


@pytest.mark.parametrize("size_bytes", [0, 1, ZEROS, ZEROS + 1, BLOCK_BYTES])
def test_zeros_are_zero_also_before_another_byte(allocator: Allocator, size_bytes: int) -> None:
    block = ctypes.create_string_buffer(bytes(size_bytes) + b"x")
    assert allocator.is_zero(ctypes.addressof(block), size_bytes)


@pytest.mark.parametrize("place", [0, ZEROS - 1, ZEROS, BLOCK_BYTES - 1])
def test_one_other_byte_is_noticed(allocator: Allocator, place: int) -> None:
    block = ctypes.create_string_buffer(BLOCK_BYTES)
    block[place] = b"x"
    assert not allocator.is_zero(ctypes.addressof(block), BLOCK_BYTES)


def test_a_block_of_several_periods_has_the_bytes_of_its_number(allocator: Allocator) -> None:
    block = ctypes.create_string_buffer(LARGE_BYTES)
    allocator.fill(ctypes.addressof(block), 3, LARGE_BYTES)
    assert bytes(block) == contents_of(3, LARGE_BYTES)


@pytest.mark.parametrize(
    "place", [0, NUMBER_BYTES, FIRST_PERIOD_END - 1, FIRST_PERIOD_END, LARGE_BYTES - 1]
)
def test_one_wrong_byte_of_a_large_block_is_noticed(allocator: Allocator, place: int) -> None:
    content = bytearray(contents_of(3, LARGE_BYTES))
    content[place] ^= 1
    block = ctypes.create_string_buffer(bytes(content))
    assert not allocator.is_filled(ctypes.addressof(block), 3, LARGE_BYTES)


def test_nothing_is_written_behind_a_block_that_keeps_more_than_it_has(
    allocator: Allocator,
) -> None:
    block = ctypes.create_string_buffer(b"x" * BLOCK_BYTES, BLOCK_BYTES)
    allocator.fill(ctypes.addressof(block), 3, BLOCK_BYTES // 2, kept_bytes=BLOCK_BYTES)
    assert block.raw[BLOCK_BYTES // 2 :] == b"x" * (BLOCK_BYTES // 2)


@pytest.mark.parametrize("kept_bytes", [0, 5, NUMBER_BYTES, FIRST_PERIOD_END + 1])
def test_a_block_that_keeps_its_first_bytes_is_filled_behind_them(
    allocator: Allocator, kept_bytes: int
) -> None:
    block = ctypes.create_string_buffer(contents_of(3, kept_bytes), LARGE_BYTES)
    allocator.fill(ctypes.addressof(block), 3, LARGE_BYTES, kept_bytes)
    assert bytes(block) == contents_of(3, LARGE_BYTES)
