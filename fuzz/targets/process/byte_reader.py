"""Reads values from bytes, one after another: the formats in which runtimes report samples."""

from __future__ import annotations

import mmap
import struct
from typing import Any, ClassVar

MORE = 0x80
"""The bit of a byte that says that another byte of the number follows."""


class ByteReader:
    """Reads from the place `at` on. Raises ValueError, IndexError or struct.error at the end."""

    NUMBER_BYTES_MAX: ClassVar[int] = 10
    """The length of the longest number, whose last byte has eight bits."""

    def __init__(self, data: bytes | mmap.mmap, at: int = 0) -> None:
        self.data, self.at = data, at

    def number(self) -> int:
        """A whole number with seven bits in each byte, the lowest first."""
        data, at, shift, number = self.data, self.at, 0, 0
        while data[at] & MORE and shift < 7 * (self.NUMBER_BYTES_MAX - 1):
            number |= (data[at] - MORE) << shift
            at, shift = at + 1, shift + 7
        self.at = at + 1
        return number | data[at] << shift

    def taken(self, size_bytes: int) -> bytes:
        self.at += size_bytes
        taken = self.data[self.at - size_bytes : self.at]
        if len(taken) < size_bytes:
            raise ValueError("the data ends too early")
        return taken

    def fixed(self, size_bytes: int) -> int:
        """A whole number of this size, the lowest byte first."""
        return int.from_bytes(self.taken(size_bytes), "little")

    def packed(self, form: struct.Struct) -> tuple[Any, ...]:
        self.at += form.size
        return form.unpack_from(self.data, self.at - form.size)
