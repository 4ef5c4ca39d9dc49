"""Recordings of JDK Flight Recorder by hand: numbers, texts, and a whole chunk."""

from __future__ import annotations

import struct

import pytest

from fuzz.targets.hotspot.jfr_file import HEADER, HEADER_BYTES, MAGIC, ChunkReader, events_in


def number(value: int) -> bytes:
    """As the recorder writes it."""
    parts = bytearray()
    while value >= 0x80 and len(parts) < 8:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def text(value: str) -> bytes:
    return b"\3" + number(len(value)) + value.encode()


@pytest.mark.parametrize("value", [0, 127, 128, 2**35, 2**56 - 1, 2**56, 2**64 - 1])
def test_the_ninth_byte_of_a_number_is_whole(value: int) -> None:
    reader = ChunkReader(number(value) + b"\7")
    assert (reader.number(), reader.number()) == (value, 7)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        *((b"\0", None), (b"\1", ""), (b"\2\5", 5), (b"\3\2\xc3\xa4", "ä")),
        *((b"\4\1" + number(0x20AC), "€"), (b"\5\1\xe4", "ä")),
    ],
)
def test_a_text_may_be_written_in_six_ways(data: bytes, found: object) -> None:
    assert ChunkReader(data).text() == found


TEXTS = [
    *("root", "metadata", "class", "field", "name", "id", "constantPool", "true"),
    *("long", "java.lang.Class", "jdk.Sample", "objectClass", "weight", "10", "11", "12"),
]


def element(name: str, attributes: dict[str, str], *children: bytes) -> bytes:
    pairs = [number(TEXTS.index(each)) for pair in attributes.items() for each in pair]
    head = number(TEXTS.index(name)) + number(len(attributes)) + b"".join(pairs)
    return head + number(len(children)) + b"".join(children)


def event(kind: int, *parts: bytes) -> bytes:
    """Its size has four bytes, as the recorder writes it."""
    body = number(kind) + b"".join(parts)
    size = len(body) + 4
    return bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, 0x80, 0]) + body


def chunk(*events: bytes) -> bytes:
    weight = element("field", {"name": "weight", "class": "10"})
    kind = element("field", {"name": "objectClass", "class": "11", "constantPool": "true"})
    tree = element(
        "root",
        {},
        element(
            "metadata",
            {},
            element("class", {"name": "long", "id": "10"}),
            element("class", {"name": "java.lang.Class", "id": "11"}, weight),
            element("class", {"name": "jdk.Sample", "id": "12"}, kind, weight),
        ),
    )
    strings = number(len(TEXTS)) + b"".join(map(text, TEXTS))
    metadata = event(0, *[b"\0"] * 3, strings, tree)
    body = b"".join(events) + metadata
    metadata_at = HEADER_BYTES + len(body) - len(metadata)
    size = HEADER_BYTES + len(body)
    header = HEADER.pack(MAGIC, 2, 1, size, 0, metadata_at, 0, 0, 0, 0)
    return header + struct.pack(">I", 1) + body


SAMPLE = event(12, number(7), number(2**40))
CONSTANTS = event(1, *[b"\0"] * 3, b"\1", number(1), number(11), number(1), number(7), number(99))


def test_an_event_has_its_fields_and_the_constants_of_its_chunk() -> None:
    data = chunk(SAMPLE, CONSTANTS) + chunk(SAMPLE)
    first, second = events_in(data, ("jdk.Sample",))
    assert first.fields == {"objectClass": 7, "weight": 2**40}
    assert first.constants["java.lang.Class"][7] == {"weight": 99}
    assert second.constants == {}


def test_events_of_other_types_are_passed() -> None:
    assert [*events_in(chunk(SAMPLE, CONSTANTS), ("jdk.DataLoss",))] == []


def test_a_file_that_is_no_recording_is_an_error() -> None:
    with pytest.raises(ValueError, match="no chunk begins at byte 0"):
        [*events_in(bytes(100), ())]
