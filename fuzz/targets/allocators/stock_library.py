"""A stock allocator's library in this process, beside the process's own allocator.

It is loaded through ctypes and not preloaded, so that only the calls made here reach it. A library
that cannot be used is a BadInputError with what to install.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_void_p
from typing import Any

from fuzz.problems import BadInputError
from fuzz.targets.allocators.find import STATIC_STORAGE
from fuzz.targets.allocators.pieces import pieces_of


def load(name: str, how_to_install: str) -> ctypes.PyDLL:
    """Calls hold the interpreter's lock, so that threads take turns."""
    try:
        return ctypes.PyDLL(name)
    except OSError as problem:
        remedy = how_to_install
        if "static TLS" in str(problem):
            remedy = f"start it with {STATIC_STORAGE}"
        raise BadInputError(f"{problem}; {remedy}") from problem


def declared(
    library: ctypes.CDLL,
    name: str,
    result: type[ctypes._SimpleCData[Any]] | None,
    *arguments: type[ctypes._SimpleCData[Any] | ctypes._Pointer[Any]],
) -> ctypes._FuncPointer:
    """A function of the library. Raises AttributeError if it is missing."""
    function = library[name]
    function.restype, function.argtypes = result, arguments
    return function


def there(address: int | None) -> int:
    """An address that is not null. Raises MemoryError if it is."""
    if not address:
        raise MemoryError("the allocator has no memory left")
    return address


_compare = declared(ctypes.PyDLL(None), "memcmp", c_int, c_void_p, c_void_p, c_size_t)


class Allocator:
    """The functions of an allocator. Addresses are integers."""

    version: str
    """A name and a version for the user."""
    free: Callable[[int], object]
    usable_bytes: Callable[[int], int]
    """Returns the usable bytes of a block."""
    _malloc: Callable[..., int | None]
    _calloc: Callable[..., int | None]
    _realloc: Callable[..., int | None]

    def __init__(self, library: ctypes.CDLL, prefix: str, usable: str) -> None:
        """Raises AttributeError if a function is missing."""
        self._malloc = declared(library, f"{prefix}malloc", c_void_p, c_size_t)
        self._calloc = declared(library, f"{prefix}calloc", c_void_p, c_size_t, c_size_t)
        self._realloc = declared(library, f"{prefix}realloc", c_void_p, c_void_p, c_size_t)
        self.free = declared(library, f"{prefix}free", None, c_void_p)
        self.usable_bytes = declared(library, usable, c_size_t, c_void_p)

    def holds(self, address: int, expected: bytes) -> bool:
        """Whether these bytes are there."""
        return not _compare(address, expected, len(expected))

    def is_zero(self, address: int, number: int, size_bytes: int) -> bool:
        """Whether the pieces of the block with that number have zeros only."""
        pieces = pieces_of(number, size_bytes)
        return all(self.holds(address + at, bytes(len(piece))) for at, piece in pieces)

    def fill(self, address: int, number: int, length: int) -> None:
        """Write the pieces of the block with that number."""
        for offset, piece in pieces_of(number, length):
            self.write(address + offset, piece)

    def difference(self, address: int, number: int, length: int) -> tuple[int, bytes] | None:
        """The offset of the first wrong byte in the block's pieces, and its piece from there on."""
        for offset, piece in pieces_of(number, length):
            if not self.holds(address + offset, piece):
                found = self.read(address + offset, len(piece))
                pairs = enumerate(zip(found, piece, strict=True))
                place = next(place for place, (got, right) in pairs if got != right)
                return offset + place, found[place:]
        return None

    def read(self, address: int, length: int) -> bytes:
        return ctypes.string_at(address, length)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def malloc(self, size_bytes: int) -> int:
        """The address of a new block. Raises MemoryError, as do calloc and realloc."""
        return there(self._malloc(size_bytes))

    def calloc(self, count: int, size_bytes: int) -> int:
        return there(self._calloc(count, size_bytes))

    def realloc(self, address: int, size_bytes: int) -> int:
        """The new address of a resized block. A size of 0 would free it."""
        return there(self._realloc(address, size_bytes))
