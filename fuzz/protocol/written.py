"""The bytes that the mutator writes into strings and blocks, and the rows that answer for them.

The n-th string or block that actions of a trace allocate has the number n, from 1, which it keeps
when it moves or is resized. Its first eight bytes are that number, the least byte first. The byte
at offset i after them depends on both:

    m = (n * 40503 + i) mod 65536
    byte = ((m * 2654435761) mod 2**32) >> 24

So two objects differ from their first byte on, and a range that is copied to another offset shows.
Invariant: a shorter object has the first bytes of a longer one with its number.
"""

from __future__ import annotations

from functools import cache

NUMBER_BYTES, NUMBERS = 8, 2**64
PERIOD_BYTES = 2**16
STRIDE = 40503
"""How far apart the bytes of two objects start in a period."""
MULTIPLIER, TOP_BYTE = 2654435761, 3
PRODUCT_BYTES = 6
"""The bytes of a number below PERIOD_BYTES times MULTIPLIER."""
SHOWN_BYTES = 16
"""How many bytes a row shows from the first wrong one on."""


@cache
def _periods(count: int) -> bytes:
    if count > 1:
        return _periods(1) * count
    # One product of all m at once takes a tenth of the time that PERIOD_BYTES products take. Each m
    # has six bytes of a number, which its product fills at most.
    lanes = bytearray(PRODUCT_BYTES * PERIOD_BYTES)
    lanes[::PRODUCT_BYTES] = bytes(range(256)) * 256
    lanes[1::PRODUCT_BYTES] = b"".join(bytes([high]) * 256 for high in range(256))
    products = int.from_bytes(lanes, "little") * MULTIPLIER
    return products.to_bytes(len(lanes), "little")[TOP_BYTE::PRODUCT_BYTES]


def number_in(data: bytes) -> int:
    """The number that an object with these bytes shows."""
    return int.from_bytes(data[:NUMBER_BYTES], "little")


def part_of(number: int, start: int, stop: int) -> bytes:
    """The bytes of the object with that number, 0 or more, at the offsets from start up to stop."""
    head = (number % NUMBERS).to_bytes(NUMBER_BYTES, "little")[start:stop]
    if stop <= NUMBER_BYTES:
        return head  # Without a table, which takes a millisecond to make.
    first = (number * STRIDE + start + len(head)) % PERIOD_BYTES
    last = first + stop - start - len(head)
    # A power of two of periods, so that few tables are kept.
    table = _periods(1 << (last // PERIOD_BYTES).bit_length())
    return b"".join((head, memoryview(table)[first:last]))


def contents_of(number: int, length: int) -> bytes:
    """The bytes of the object with that number."""
    return part_of(number, 0, length)


def row_of(data: bytes, number: int | None = None) -> list[int]:
    """The row that answers for an object with these bytes: its number, if all of them are right.

    Otherwise the first wrong offset and up to SHOWN_BYTES bytes from there follow. A mutator that
    does not know the number takes the one in the first bytes.
    """
    number = number_in(data) if number is None else number
    expected = contents_of(number, len(data))
    row = [number_in(expected)]
    if data != expected:
        pairs = enumerate(zip(data, expected, strict=True))
        offset = next(offset for offset, (got, right) in pairs if got != right)
        row += [offset, *data[offset : offset + SHOWN_BYTES]]
    return row
