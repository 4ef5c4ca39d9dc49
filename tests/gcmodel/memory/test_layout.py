"""The sizes of objects."""

import pytest

from gcmodel.memory.layout import (
    EPHEMERON_BYTES,
    NODE_BYTES,
    WEAKREF_BYTES,
    Kind,
    array_bytes,
    rounded,
    string_bytes,
)


def test_nodes_weak_references_and_ephemerons_have_a_header_and_their_fields() -> None:
    assert (NODE_BYTES, WEAKREF_BYTES, EPHEMERON_BYTES) == (32, 16, 24)


@pytest.mark.parametrize(("length", "size_bytes"), [(0, 16), (1, 24), (5, 56), (257, 2072)])
def test_an_array_is_a_header_a_length_and_its_items(length: int, size_bytes: int) -> None:
    assert array_bytes(length) == size_bytes


@pytest.mark.parametrize(("length", "size_bytes"), [(0, 25), (7, 32), (39, 64)])
def test_a_string_has_25_bytes_beside_its_characters(length: int, size_bytes: int) -> None:
    assert string_bytes(length) == size_bytes


@pytest.mark.parametrize(("size_bytes", "whole_words"), [(0, 0), (1, 8), (8, 8), (9, 16), (25, 32)])
def test_rounding_goes_up_to_whole_words(size_bytes: int, whole_words: int) -> None:
    assert rounded(size_bytes) == whole_words


def test_kinds_are_numbered_as_in_reports() -> None:
    assert {kind.name: kind.value for kind in Kind} == {
        "NODE": 1,
        "WEAKREF": 2,
        "ARRAY": 3,
        "STRING": 4,
        "EPHEMERON": 5,
    }
