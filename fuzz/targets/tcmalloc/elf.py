"""The file of an x86-64 program: the values of a few symbols, and its static storage.

Reading all symbols of a file of 160 MB takes seconds, so that only the requested ones are read.
(ELF-64 Object File Format; Drepper, ELF Handling For Thread-Local Storage.)
"""

from __future__ import annotations

import mmap
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
        _, _, _, _, segments_at, sections_at, _, _, _, segments, _, sections, _ = (
            HEADER.unpack_from(self._data)
        )
        self._segments = self._table(SEGMENT, segments_at, segments)
        self._sections = [
            Section(kind, offset, size, link)
            for _, kind, _, _, offset, size, link, *_ in self._table(SECTION, sections_at, sections)
        ]

    def symbols(self, *names: str) -> list[int]:
        """The value of each symbol. Raises BadInputError if one is missing."""
        for table in self._sections:
            if table.kind == SYMBOLS_SECTION:
                return [self._value(name, table, self._sections[table.link]) for name in names]
        raise BadInputError(f"{self.path}: is stripped, so that {names[0]} cannot be found in it")

    @property
    def thread_storage_bytes(self) -> int:
        """The distance from the start of a thread's static storage to its thread pointer."""
        for kind, _, _, _, _, _, size, alignment in self._segments:
            if kind == THREADS_SEGMENT:
                return int(-(-size // alignment) * alignment)
        raise BadInputError(f"{self.path}: has no static storage for threads")

    def _table(self, form: Struct, place: int, count: int) -> list[tuple[int, ...]]:
        return [form.unpack_from(self._data, place + form.size * each) for each in range(count)]

    def _value(self, name: str, table: Section, names: Section) -> int:
        place = self._data.find(b"\0" + name.encode() + b"\0", names.offset)
        wanted = NAME.pack(max(place + 1 - names.offset, 0))
        found = table.offset - 1
        while (found := self._data.find(wanted, found + 1, table.offset + table.size)) >= 0:
            if place >= 0 and (found - table.offset) % SYMBOL.size == 0:
                return int(SYMBOL.unpack_from(self._data, found)[4])
        raise BadInputError(f"{self.path}: has no symbol {name}")
