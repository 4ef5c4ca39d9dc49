"""Reads a recording of JDK Flight Recorder: chunks of events, whose metadata describe their fields.

A chunk is a header, events, and constants that events name by numbers. An event begins with its
size and the number of its type. Invariant: nothing here knows a type of event, except the two that
describe the others. (OpenJDK, jdk.jfr.internal.consumer: ChunkHeader, MetadataReader, ChunkParser.)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from fuzz.targets.process.byte_reader import ByteReader

HEADER = struct.Struct(">4s2H7Q")
"""Magic, version, size, places of constants and metadata, start, duration, start and rate of the
clock. Four bytes follow."""
HEADER_BYTES = 68
MAGIC = b"FLR\0"
CONSTANTS = 1
"""The type of the events with constants. The header says where the metadata are."""
NULL, EMPTY, SHARED, UTF8, CHARACTERS, LATIN1 = range(6)
"""How a text is written."""


class Field(NamedTuple):
    """A field of a type."""

    name: str
    type: int
    is_constant: bool
    """Whether the number of a constant is there instead of the value."""
    is_array: bool


class ValueType(NamedTuple):
    """A type of events or of values."""

    name: str
    fields: tuple[Field, ...]


ValueTypes = Mapping[int, ValueType]


class ChunkReader(ByteReader):
    """Reads values of a recording."""

    NUMBER_BYTES_MAX = 9

    def text(self) -> str | int | None:
        """A text, or the number of a shared one."""
        encoding = self.fixed(1)
        if encoding in (NULL, EMPTY):
            return None if encoding == NULL else ""
        if encoding == SHARED:
            return self.number()
        if encoding == CHARACTERS:
            return "".join(chr(self.number()) for _ in range(self.number()))
        if encoding in (UTF8, LATIN1):
            return self.taken(self.number()).decode("latin1" if encoding == LATIN1 else "utf-8")
        raise ValueError(f"a text of the unknown encoding {encoding}")

    def value(self, kinds: ValueTypes, field: Field) -> Any:  # noqa: ANN401 - of any type
        if field.is_array:
            single = field._replace(is_array=False)
            return [self.value(kinds, single) for _ in range(self.number())]
        if field.is_constant:
            return self.number()
        kind = kinds[field.type]
        plain = PLAIN.get(kind.name)
        return plain(self) if plain else self.record(kinds, kind)

    def record(self, kinds: ValueTypes, kind: ValueType) -> dict[str, Any]:
        return {field.name: self.value(kinds, field) for field in kind.fields}


def _fixed(layout: str) -> Callable[[ChunkReader], Any]:
    packed = struct.Struct(layout)
    return lambda reader: reader.packed(packed)[0]


PLAIN: Mapping[str, Callable[[ChunkReader], Any]] = {
    **dict.fromkeys(("long", "int", "short", "char"), ChunkReader.number),
    "byte": _fixed("b"),
    "boolean": _fixed("?"),
    "float": _fixed(">f"),
    "double": _fixed(">d"),
    "java.lang.String": ChunkReader.text,
}
"""What reads the types without fields."""


class Event(NamedTuple):
    """An event: the name of its type, and its fields. `constants` has those that these name."""

    name: str
    fields: dict[str, Any]
    constants: Mapping[str, Mapping[int, Any]]
    """The constants of each type, by the type's name."""


def events_in(data: bytes, names: tuple[str, ...]) -> Iterator[Event]:
    """The events of these types in a recording. Raises ValueError if it is broken."""
    start = 0
    while start < len(data):
        magic, _, _, size_bytes, _, metadata_at, *_ = HEADER.unpack_from(data, start)
        if magic != MAGIC:
            raise ValueError(f"no chunk begins at byte {start} of the recording")
        yield from _events_of_chunk(data[start : start + size_bytes], metadata_at, names)
        start += size_bytes


def _events_of_chunk(chunk: bytes, metadata_at: int, names: tuple[str, ...]) -> Iterator[Event]:
    metadata = ChunkReader(chunk, metadata_at)
    end = metadata_at + metadata.number()
    for _ in ("type", "start", "duration", "number of the metadata"):
        metadata.number()
    kinds = _kinds_in(chunk[metadata.at : end])
    wanted = {number: kind for number, kind in kinds.items() if kind.name in names}
    constants: dict[str, dict[int, Any]] = {}
    found = []
    at = HEADER_BYTES
    while at < len(chunk):
        reader = ChunkReader(chunk, at)
        size_bytes, number = reader.number(), reader.number()
        if size_bytes == 0:
            raise ValueError("an event without a size")
        if number == CONSTANTS:
            _read_constants(reader, kinds, constants)
        elif number in wanted:
            kind = wanted[number]
            found.append(Event(kind.name, reader.record(kinds, kind), constants))
        at += size_bytes
    yield from found  # Constants may follow the events that name them.


def _read_constants(
    reader: ChunkReader, kinds: ValueTypes, constants: dict[str, dict[int, Any]]
) -> None:
    for _ in ("start", "duration", "distance to the constants before"):
        reader.number()
    reader.taken(1)
    for _ in range(reader.number()):
        kind = kinds[reader.number()]
        of_kind = constants.setdefault(kind.name, {})
        for _ in range(reader.number()):
            number = reader.number()
            of_kind[number] = reader.record(kinds, kind)


@lru_cache(maxsize=4)
def _kinds_in(metadata: bytes) -> ValueTypes:
    """The types. Most recordings of a machine have equal ones."""
    reader = ChunkReader(metadata)
    texts = [reader.text() for _ in range(reader.number())]
    return {
        int(attributes["id"]): ValueType(attributes["name"], tuple(_fields_in(children)))
        for name, attributes, children in _flattened(_element(reader, texts))
        if name == "class"
    }


def _element(reader: ChunkReader, texts: list[Any]) -> tuple[str, dict[str, str], list[Any]]:
    """An element of a tree: its name, its attributes, and the elements in it."""
    name = texts[reader.number()]
    attributes = {texts[reader.number()]: texts[reader.number()] for _ in range(reader.number())}
    return name, attributes, [_element(reader, texts) for _ in range(reader.number())]


def _flattened(element: tuple[str, dict[str, str], list[Any]]) -> Iterator[Any]:
    yield element
    for child in element[2]:
        yield from _flattened(child)


def _fields_in(children: list[Any]) -> Iterator[Field]:
    for name, attributes, _ in children:
        if name == "field":
            yield Field(
                attributes["name"],
                int(attributes["class"]),
                attributes.get("constantPool") == "true",
                attributes.get("dimension", "0") != "0",
            )
