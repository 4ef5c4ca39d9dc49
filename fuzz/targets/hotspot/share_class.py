"""The class whose method each thread runs at once with the others, assembled by hand.

It is a loop in bytecode, since calls from Python hold Python's lock and take turns. An object is
read once, when it is dropped: soon, or rarely. In Java it is

    static long run(Share[] table, long number, int objects) {
        long sum = 0;
        for (; objects > 0; objects--, number++) {
            Share made = new Share();
            made.number = number;
            made.bytes = new byte[(int) number * 37 & 127];
            long mixed = number * 2654435761L;
            int place = (int) (mixed >>> 16) & (int) (mixed >>> 32) & 1023;
            Share older = made.older = table[place];
            table[place] = made;
            if (older != null) {
                sum += read(older.older);
                older.older = null;
            }
        }
        for (int place = 1023; place >= 0; place--) {
            Share last = table[place];
            table[place] = null;
            if (last != null) sum += read(last) + read(last.older);
        }
        return sum;
    }

    static long read(Share share) {
        return share == null ? 0 : share.number * (share.bytes.length + 1);
    }
"""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.targets.hotspot.assembler import FIELD, METHOD, assembled_class
from fuzz.targets.hotspot.class_file import OBJECT

SHARE = "gcfuzz/Share"
RUN, RUN_TYPE = "run", f"([L{SHARE};JI)J"
PLACES = 1024
FIELDS = {"number": "J", "bytes": "[B", "older": f"L{SHARE};"}
METHODS = {"<init>": "()V", "read": f"(L{SHARE};)J", RUN: RUN_TYPE}
MEMBERS = {
    **{name: (FIELD, SHARE, name, kind) for name, kind in FIELDS.items()},
    **{name: (METHOD, SHARE, name, kind) for name, kind in METHODS.items()},
    "super": (METHOD, OBJECT, "<init>", "()V"),
}
"""The members that the code refers to."""
BYTE = 8
"""The operand of newarray for an array of bytes."""
CODE = {
    "<init>": "aload 0; invokespecial super; return",
    "read": """
        aload 0; ifnull none
        aload 0; getfield number; aload 0; getfield bytes; arraylength; iconst_1; iadd
        i2l; lmul; lreturn
        none: lconst_0; lreturn
    """,
    RUN: f"""
        lconst_0; lstore 4
        next: iload 3; ifle drain
        new {SHARE}; dup; invokespecial <init>; astore 6
        aload 6; lload 1; putfield number
        aload 6; lload 1; l2i; bipush 37; imul; bipush 127; iand; newarray {BYTE}; putfield bytes
        lload 1; ldc2_w 2654435761; lmul; lstore 9
        lload 9; bipush 16; lushr; l2i; lload 9; bipush 32; lushr; l2i; iand
        sipush {PLACES - 1}; iand; istore 7
        aload 6; aload 0; iload 7; aaload; putfield older
        aload 0; iload 7; aload 6; aastore
        aload 6; getfield older; astore 8; aload 8; ifnull made
        lload 4; aload 8; getfield older; invokestatic read; ladd; lstore 4
        aload 8; aconst_null; putfield older
        made: iinc 3 -1; lload 1; lconst_1; ladd; lstore 1; goto next
        drain: sipush {PLACES - 1}; istore 7
        rest: iload 7; iflt end
        aload 0; iload 7; aaload; astore 6
        aload 0; iload 7; aconst_null; aastore
        iinc 7 -1; aload 6; ifnull rest
        lload 4; aload 6; invokestatic read; ladd
        aload 6; getfield older; invokestatic read; ladd; lstore 4; goto rest
        end: lload 4; lreturn
    """,
}


def share_class(code: Mapping[str, str] = CODE) -> bytes:
    """The class file, with the code of its methods."""
    return assembled_class(SHARE, FIELDS, METHODS, code, MEMBERS)
