"""An assembler for classes whose methods are bytecode written by hand.

(The Java Virtual Machine Specification, chapters 4 and 6.)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeAlias

from fuzz.targets.hotspot.class_file import OBJECT, Pool, class_bytes

FIELD, METHOD = 9, 10
PUBLIC, STATIC = 0x1, 0x8
STACK_MAX = LOCALS_MAX = 12
Members: TypeAlias = Mapping[str, tuple[int, str, str, str]]
"""What code may refer to by a name: FIELD or METHOD, the class, the member and its type."""
OPCODES = {
    name: (int(opcode, 16), operands)
    for name, opcode, *operands in map(
        str.split,
        """
        aconst_null 01; iconst_1 04; lconst_0 09; lconst_1 0a; bipush 10 b; sipush 11 h
        ldc2_w 14 long; iload 15 B; lload 16 B; aload 19 B; aaload 32; istore 36 B; lstore 37 B
        astore 3a B; aastore 53; dup 59; iadd 60; ladd 61; imul 68; lmul 69; lushr 7d; iand 7e
        iinc 84 Bb; i2l 85; l2i 88; iflt 9b to; ifle 9e to; goto a7 to; lreturn ad; areturn b0
        return b1
        getfield b4 member; putfield b5 member; invokespecial b7 member; invokestatic b8 member
        new bb class; newarray bc B; anewarray bd class; arraylength be; ifnull c6 to
        """.strip()
        .replace("\n", ";")
        .split(";"),
    )
}
"""Each with its operands: as struct packs them, an entry of the pool, or a label."""


def assembled_class(
    name: str,
    fields: Mapping[str, str],
    methods: Mapping[str, str],
    code: Mapping[str, str],
    members: Members,
) -> bytes:
    """The class file: the types of fields and methods, each method's code, and its members.

    All methods but constructors are static.
    """
    pool = Pool()
    packed_fields = [struct.pack(">4H", 0, *map(pool.text, each), 0) for each in fields.items()]
    packed_methods = []
    for method, kind in methods.items():
        steps = _assembled(code[method], pool, members)
        rights = PUBLIC if method == "<init>" else PUBLIC | STATIC
        attribute = struct.pack(">HHI", STACK_MAX, LOCALS_MAX, len(steps)) + steps + bytes(4)
        head = struct.pack(">4H", rights, pool.text(method), pool.text(kind), 1)
        size = struct.pack(">HI", pool.text("Code"), len(attribute))
        packed_methods.append(head + size + attribute)
    return class_bytes(pool, name, OBJECT, packed_fields, packed_methods)


def _assembled(code: str, pool: Pool, members: Members) -> bytes:
    """A method's instructions; a word with a colon is a label."""
    steps, places, jumps = bytearray(), {}, []
    for line in code.replace("\n", ";").split(";"):
        words = line.split()
        if words and words[0].endswith(":"):
            places[words.pop(0)[:-1]] = len(steps)
        if not words:
            continue
        opcode, operands = OPCODES[words[0]]
        match operands:
            case ["to"]:
                jumps.append((len(steps), words[1]))
                operand = bytes(2)
            case ["class"]:
                operand = struct.pack(">H", pool.kind(words[1]))
            case ["long"]:
                operand = struct.pack(">H", pool.long(int(words[1])))
            case ["member"]:
                operand = struct.pack(">H", pool.member(*members[words[1]]))
            case _:
                operand = struct.pack(">" + "".join(operands), *map(int, words[1:]))
        steps += bytes([opcode]) + operand
    for start, place in jumps:
        struct.pack_into(">h", steps, start + 1, places[place] - start)
    return bytes(steps)
