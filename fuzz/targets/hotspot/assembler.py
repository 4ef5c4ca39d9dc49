"""An assembler for classes whose methods are bytecode written by hand.

(The Java Virtual Machine Specification, chapters 4 and 6.)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from fuzz.targets.hotspot.class_file import OBJECT, Pool, class_bytes

FIELD, METHOD = 9, 10
PUBLIC, STATIC = 0x1, 0x8
STACK_MAX = 12
CODE_MAX = 0xFFFF
"""The most bytes that a method may have."""
LOCALS_MIN = 12
WIDE, NARROW_MAX = 0xC4, 0xFF
"""A prefix for a local variable of a higher number."""
Members: TypeAlias = Mapping[str, tuple[int, str, str, str]]
"""What code may refer to by a name: FIELD or METHOD, the class, the member and its type."""
OPCODES = {
    name: (int(opcode, 16), operands)
    for name, opcode, *operands in map(
        str.split,
        """
        aconst_null 01; iconst_0 03; iconst_1 04; lconst_0 09; lconst_1 0a; bipush 10 b
        sipush 11 h; ldc2_w 14 long; iload 15 local; lload 16 local; aload 19 local; aaload 32
        istore 36 local; lstore 37 local; astore 3a local; aastore 53; pop 57; dup 59
        iadd 60; ladd 61; imul 68; lmul 69; lushr 7d; iand 7e; iinc 84 Bb; i2l 85; l2i 88
        lcmp 94; ifeq 99 to; ifne 9a to; iflt 9b to; ifle 9e to; if_icmpne a0 to; if_acmpeq a5 to
        goto a7 to; ireturn ac; lreturn ad; areturn b0; return b1; getstatic b2 member
        putstatic b3 member; getfield b4 member; putfield b5 member; invokevirtual b6 member
        invokespecial b7 member; invokestatic b8 member; new bb class; newarray bc B
        anewarray bd class; arraylength be; athrow bf
        checkcast c0 class; monitorenter c2; monitorexit c3; ifnull c6 to; ifnonnull c7 to
        """.strip()
        .replace("\n", ";")
        .split(";"),
    )
}
"""Each with its operands: as struct packs them, a local variable, an entry of the pool, or a label.
"""
LINE, CATCH = "line", "catch"
"""`line N`: the next instructions are those of this line. `catch FROM TO HANDLER`: a handler of all
exceptions between two labels."""


def assembled_class(  # noqa: PLR0913 - the parts of a class file
    name: str,
    fields: Mapping[str, str],
    methods: Mapping[str, str],
    code: Mapping[str, str],
    members: Members,
    static_fields: Mapping[str, str] = MappingProxyType({}),
    interfaces: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """The class file: the types of fields and methods, each method's code, and its members.

    `interfaces` maps those that the class implements to the method of each. All methods but these
    and constructors are static. Raises ValueError if a method is too large.
    """
    pool = Pool()
    packed_fields = [
        struct.pack(">4H", rights, *map(pool.text, each), 0)
        for rights, named in ((0, fields), (STATIC, static_fields))
        for each in named.items()
    ]
    packed_methods = []
    for method, kind in methods.items():
        try:
            attribute = _Assembly(code[method], pool, members).packed()
        except struct.error as error:
            raise ValueError(f"the method {method} is too large") from error
        is_static = method not in ("<init>", *interfaces.values())
        rights = PUBLIC | STATIC if is_static else PUBLIC
        head = struct.pack(">4H", rights, pool.text(method), pool.text(kind), 1)
        size = struct.pack(">HI", pool.text("Code"), len(attribute))
        packed_methods.append(head + size + attribute)
    return class_bytes(pool, name, OBJECT, packed_fields, packed_methods, interfaces)


class _Assembly:
    """A method's instructions; a word with a colon is a label."""

    def __init__(self, code: str, pool: Pool, members: Members) -> None:
        self._pool, self._members = pool, members
        self._steps = bytearray()
        self._places: dict[str, int] = {}
        self._jumps: list[tuple[int, str]] = []
        self._lines: list[tuple[int, int]] = []
        self._catches: list[list[str]] = []
        self._locals_max = LOCALS_MIN
        for line in code.replace("\n", ";").split(";"):
            words = line.split()
            if words and words[0].endswith(":"):
                self._places[words.pop(0)[:-1]] = len(self._steps)
            match words:
                case []:
                    pass
                case [name, number] if name == LINE:
                    self._lines.append((len(self._steps), int(number)))
                case [name, *labels] if name == CATCH:
                    self._catches.append(labels)
                case [name, *operands]:
                    self._append(name, operands)
        for start, place in self._jumps:
            struct.pack_into(">h", self._steps, start + 1, self._places[place] - start)

    def _append(self, name: str, words: Sequence[str]) -> None:
        opcode, operands = OPCODES[name]
        match operands:
            case ["to"]:
                self._jumps.append((len(self._steps), words[0]))
                operand = bytes(2)
            case ["class"]:
                # An array's name ends in a semicolon, which here separates instructions.
                name = f"{words[0]};" if words[0].startswith("[L") else words[0]
                operand = struct.pack(">H", self._pool.kind(name))
            case ["long"]:
                operand = struct.pack(">H", self._pool.long(int(words[0])))
            case ["member"]:
                operand = struct.pack(">H", self._pool.member(*self._members[words[0]]))
            case ["local"]:
                number = int(words[0])
                self._locals_max = max(self._locals_max, number + 2)  # A long takes two.
                if number > NARROW_MAX:
                    self._steps.append(WIDE)
                operand = struct.pack(">H" if number > NARROW_MAX else ">B", number)
            case _:
                operand = struct.pack(">" + "".join(operands), *map(int, words))
        self._steps += bytes([opcode]) + operand

    def packed(self) -> bytes:
        """The contents of the attribute `Code`."""
        if len(self._steps) > CODE_MAX:
            raise struct.error
        head = struct.pack(">HHI", STACK_MAX, self._locals_max, len(self._steps))
        table = [struct.pack(">H", len(self._catches))]
        table += (
            struct.pack(">4H", *(self._places[label] for label in labels), 0)
            for labels in self._catches
        )
        lines = b"".join(struct.pack(">HH", *each) for each in self._lines)
        attribute = struct.pack(">HH", 1, self._pool.text("LineNumberTable")) if lines else bytes(2)
        if lines:
            attribute += struct.pack(">IH", len(lines) + 2, len(self._lines)) + lines
        return head + self._steps + b"".join(table) + attribute
