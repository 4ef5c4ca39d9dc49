"""What every kind of object costs, to the byte.

The sizes are those of PyPy's incminimark on a 64-bit machine: a header of one word, then the
fields. An object in the nursery is rounded up to whole words; an object outside the nursery is
counted unrounded by the sampler but occupies whole words of memory.
"""

from enum import IntEnum

WORD_BYTES = 8
HEADER_BYTES = 8


class Kind(IntEnum):
    """The kinds of object, numbered as reports name them (the type index)."""

    NODE = 1
    WEAKREF = 2
    ARRAY = 3
    STRING = 4


# A node is an integer and two references, a weak reference is one hidden reference.
NODE_BYTES = HEADER_BYTES + 3 * WORD_BYTES
WEAKREF_BYTES = HEADER_BYTES + WORD_BYTES
NODE_REFERENCES = 2


def array_bytes(length: int) -> int:
    """The unrounded size of an array of `length` references: header, length, items."""
    return HEADER_BYTES + WORD_BYTES + WORD_BYTES * length


def string_bytes(length: int) -> int:
    """The unrounded size of a string: header, hash, length, one byte a character, a final zero."""
    return HEADER_BYTES + 2 * WORD_BYTES + length + 1


def rounded(size_bytes: int) -> int:
    """`size_bytes` rounded up to whole words."""
    return (size_bytes + WORD_BYTES - 1) & -WORD_BYTES
