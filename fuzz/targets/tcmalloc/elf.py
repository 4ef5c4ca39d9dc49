"""The file of an x86-64 program: the values of a few symbols, and its static storage.

Reading all symbols of a file of 160 MB takes seconds, so that only the requested ones are read.
(ELF-64 Object File Format; Drepper, ELF Handling For Thread-Local Storage.)
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from fuzz.problems import BadInputError

MAGIC = b"\x7fELF\x02\x01"
HEADER = Struct("<16xHHIQQQIHHHHHH")
SEGMENT = Struct("<IIQQQQQQ")
SECTION = Struct("<IIQQQQIIQQ")
SYMBOL = Struct("<IBBHQQ")
NAME = Struct("<I")
THREADS_SEGMENT, SYMBOLS_SECTION = 7, 2


class Section(NamedTuple):
    """A part of the file."""

    kind: int
    offset: int
    size: int
    link: int


class ElfFile:
    """A program's file. Raises BadInputError if it is another file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise BadInputError(f"{path}: is not a program for x86-64")
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        _, _, _, _, self._segments, self._sections, _, _, _, segments, _, sections, _ = (
            HEADER.unpack_from(self._data)
        )
        self._segment_count, self._section_count = segments, sections

    def symbols(self, *names: str) -> list[int]:
        """The value of each symbol. Raises BadInputError if one is missing."""
        sections = [*self._all_sections()]
        for table in sections:
            if table.kind == SYMBOLS_SECTION:
                return [self._value(name, table, sections[table.link]) for name in names]
        raise BadInputError(f"{self.path}: is stripped, so that {names[0]} cannot be found in it")

    @property
    def thread_storage_bytes(self) -> int:
        """The distance from the start of a thread's static storage to its thread pointer."""
        for index in range(self._segment_count):
            kind, _, _, _, _, _, size, alignment = SEGMENT.unpack_from(
                self._data, self._segments + index * SEGMENT.size
            )
            if kind == THREADS_SEGMENT:
                return int(-(-size // alignment) * alignment)
        raise BadInputError(f"{self.path}: has no static storage for threads")

    def _all_sections(self) -> Iterator[Section]:
        for index in range(self._section_count):
            _, kind, _, _, offset, size, link, *_ = SECTION.unpack_from(
                self._data, self._sections + index * SECTION.size
            )
            yield Section(kind, offset, size, link)

    def _value(self, name: str, table: Section, names: Section) -> int:
        place = self._data.find(b"\0" + name.encode() + b"\0", names.offset)
        wanted = NAME.pack(max(place + 1 - names.offset, 0))
        found = table.offset - 1
        while (found := self._data.find(wanted, found + 1, table.offset + table.size)) >= 0:
            if place >= 0 and (found - table.offset) % SYMBOL.size == 0:
                return int(SYMBOL.unpack_from(self._data, found)[4])
        raise BadInputError(f"{self.path}: has no symbol {name}")
