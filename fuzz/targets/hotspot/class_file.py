"""The class of nodes, as a class file made by hand, so that no compiler is needed.

(The Java Virtual Machine Specification, chapter 4.)
"""

from __future__ import annotations

import struct
from itertools import count

NODE = "gcfuzz/Node"
OBJECT = "java/lang/Object"
NUMBER, PREV, NEXT = ("number", "J"), ("prev", f"L{OBJECT};"), ("next", f"L{OBJECT};")
"""Its fields: names and descriptors."""
MAGIC, MAJOR_VERSION = 0xCAFEBABE, 52
UTF8, CLASS = 1, 7
PUBLIC_SUPER = 0x21
STATIC_NATIVE = 0x109


def class_file(
    name: str = NODE,
    fields: tuple[tuple[str, str], ...] = (NUMBER, PREV, NEXT),
    parent: str = OBJECT,
    natives: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """A public class of these fields, and static methods that the machine has itself.

    Objects are made without a constructor.
    """
    texts = [name, parent, *(text for member in (*fields, *natives) for text in member)]
    pool = [struct.pack(">BH", UTF8, len(text)) + text.encode() for text in texts]
    pool += [struct.pack(">BH", CLASS, index) for index in (1, 2)]
    own = len(pool) - 1
    places = count(3)
    rows = [struct.pack(">4H", 0, next(places), next(places), 0) for _ in fields]
    methods = [struct.pack(">4H", STATIC_NATIVE, next(places), next(places), 0) for _ in natives]
    return b"".join(
        (
            struct.pack(">IHHH", MAGIC, 0, MAJOR_VERSION, len(pool) + 1),
            *pool,
            struct.pack(">5H", PUBLIC_SUPER, own, own + 1, 0, len(rows)),
            *rows,
            struct.pack(">H", len(methods)),
            *methods,
            struct.pack(">H", 0),
        )
    )


def node_with(longs: int) -> tuple[str, bytes]:
    """The name and the class of nodes that have so many long integers besides."""
    name = f"{NODE}{longs}"
    return name, class_file(name, tuple((f"long{each}", "J") for each in range(longs)), NODE)
