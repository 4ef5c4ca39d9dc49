"""The functions that the drivers of all allocators share, with the C library's allocator."""

import ctypes

import pytest

from fuzz.targets.allocators.stock_library import ZEROS, Allocator

BLOCK_BYTES = 20


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
