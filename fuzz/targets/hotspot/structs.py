"""The places of the virtual machine's fields, from the table that it exports for debuggers.

`gHotSpotVMStructs` has an entry for each field that src/hotspot/share/runtime/vmStructs.cpp lists:
the offset of a field, or the address of a static one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import c_int32, c_uint64

from fuzz.problems import BadInputError

TABLE = "gHotSpotVMStruct"
WORD_BYTES = 8
REFERENCE_TAGS = 7
"""Since version 21 these bits of a reference are its kind."""


class Structs:
    """The table of a library. Raises BadInputError if it exports none."""

    def __init__(self, library: ctypes.CDLL) -> None:
        try:
            self._entries = dict(_entries(library))
        except ValueError as problem:
            raise BadInputError(f"this library is not HotSpot: {problem}") from problem

    def has(self, type_name: str, field: str) -> bool:
        return (type_name, field) in self._entries

    def place(self, field: str, *type_names: str) -> int:
        """The offset of a field, or its address if it is static.

        It is taken from the first type that has it, since versions differ in that. Raises
        BadInputError if none has it.
        """
        for type_name in type_names:
            if self.has(type_name, field):
                return self._entries[type_name, field]
        raise BadInputError(f"this JVM does not say where {type_names[0]}::{field} is")


def _entries(library: ctypes.CDLL) -> Iterator[tuple[tuple[str, str], int]]:
    offsets = [
        c_uint64.in_dll(library, f"{TABLE}Entry{name}Offset").value
        for name in ("TypeName", "FieldName", "IsStatic", "Offset", "Address")
    ]
    stride = c_uint64.in_dll(library, f"{TABLE}EntryArrayStride").value
    entry = c_uint64.in_dll(library, f"{TABLE}s").value
    while True:
        at_type, at_field, at_static, at_offset, at_address = (entry + each for each in offsets)
        if not word(at_type):
            return
        name = ctypes.string_at(word(at_type)), ctypes.string_at(word(at_field))
        is_static = c_int32.from_address(at_static).value
        yield (name[0].decode(), name[1].decode()), word(at_address if is_static else at_offset)
        entry += stride


def word(address: int) -> int:
    """The 64 bits at an address."""
    return c_uint64.from_address(address).value


def referred(reference: int) -> int:
    """The word behind a reference of JNI: mostly the object's address."""
    return word(reference & ~REFERENCE_TAGS)


def set_word(address: int, value: int) -> None:
    """Write the 64 bits at an address."""
    c_uint64.from_address(address).value = value
