"""Class files made by hand, so that no compiler is needed: nodes, and natives of the machine.

(The Java Virtual Machine Specification, chapter 4.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

NODE = "gcfuzz/Node"
OBJECT = "java/lang/Object"
NUMBER, PREV, NEXT = ("number", "J"), ("prev", f"L{OBJECT};"), ("next", f"L{OBJECT};")
"""The node's fields: names and descriptors."""
MAGIC, VERSION = 0xCAFEBABE, 50
"""A class of this version needs no stack maps."""
UTF8, LONG, CLASS, NAME_AND_TYPE = 1, 5, 7, 12
PUBLIC_SUPER, STATIC_NATIVE = 0x21, 0x109


class Pool:
    """The constants of a class, each with its number."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._next = 1

    def _number(self, entry: bytes, places: int = 1) -> int:
        if entry not in self._numbers:
            self._numbers[entry] = self._next
            self._next += places
        return self._numbers[entry]

    def text(self, text: str) -> int:
        return self._number(struct.pack(">BH", UTF8, len(text)) + text.encode())

    def kind(self, name: str) -> int:
        return self._number(struct.pack(">BH", CLASS, self.text(name)))

    def long(self, number: int) -> int:
        return self._number(struct.pack(">Bq", LONG, number), places=2)

    def member(self, tag: int, owner: str, name: str, kind: str) -> int:
        pair = struct.pack(">BHH", NAME_AND_TYPE, self.text(name), self.text(kind))
        return self._number(struct.pack(">BHH", tag, self.kind(owner), self._number(pair)))

    def packed(self) -> bytes:
        return struct.pack(">H", self._next) + b"".join(self._numbers)


def class_bytes(  # noqa: PLR0913 - the parts of a class file
    pool: Pool,
    name: str,
    parent: str,
    fields: Iterable[bytes],
    methods: Iterable[bytes],
    interfaces: Iterable[str] = (),
) -> bytes:
    """A public class with these fields and methods."""
    own, super_class = pool.kind(name), pool.kind(parent)
    implemented = [struct.pack(">H", pool.kind(interface)) for interface in interfaces]
    parts = [
        struct.pack(">H", len(members)) + b"".join(members)
        for members in (implemented, [*fields], [*methods], [])  # No attributes.
    ]
    head = struct.pack(">IHH", MAGIC, 0, VERSION) + pool.packed()
    return head + struct.pack(">3H", PUBLIC_SUPER, own, super_class) + b"".join(parts)


def class_file(
    name: str = NODE,
    fields: tuple[tuple[str, str], ...] = (NUMBER, PREV, NEXT),
    parent: str = OBJECT,
    natives: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """A class with fields, and static methods that the machine has, but without a constructor."""
    pool = Pool()

    def members(flags: int, named: tuple[tuple[str, str], ...]) -> list[bytes]:
        return [struct.pack(">4H", flags, *map(pool.text, each), 0) for each in named]

    return class_bytes(pool, name, parent, members(0, fields), members(STATIC_NATIVE, natives))


def node_with(longs: int) -> tuple[str, bytes]:
    """The name and the class of nodes with further fields: long integers."""
    name = f"{NODE}{longs}"
    return name, class_file(name, tuple((f"long{each}", "J") for each in range(longs)), NODE)
