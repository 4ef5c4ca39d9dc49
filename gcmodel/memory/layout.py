"""The sizes of objects.

They are those of PyPy's incminimark on a 64-bit machine: a header of one word, then the fields. In
the nursery an object is rounded up to whole words. Outside it occupies whole words too, but the
sampler counts its unrounded size.
"""

from enum import IntEnum

WORD_BYTES = 8
HEADER_BYTES = 8


class Kind(IntEnum):
    """The kinds of object, numbered as in reports (the type index)."""

    NODE = 1
    WEAKREF = 2
    ARRAY = 3
    STRING = 4
    EPHEMERON = 5


# A node is an integer and two references. A weak reference is one hidden reference, an ephemeron
# two.
NODE_BYTES = HEADER_BYTES + 3 * WORD_BYTES
WEAKREF_BYTES = HEADER_BYTES + WORD_BYTES
EPHEMERON_BYTES = HEADER_BYTES + 2 * WORD_BYTES
NODE_REFERENCES = 2


def array_bytes(length: int) -> int:
    """The unrounded size of an array of `length` references: header, length, items."""
    return HEADER_BYTES + WORD_BYTES + WORD_BYTES * length


def string_bytes(length: int) -> int:
    """The unrounded size of a string: header, hash, length, one byte a character, a final zero."""
    return HEADER_BYTES + 2 * WORD_BYTES + length + 1


def rounded(size_bytes: int) -> int:
    """Round `size_bytes` up to whole words."""
    return (size_bytes + WORD_BYTES - 1) & -WORD_BYTES
