"""A thread's cache of free small blocks: the fast path of an allocator.

Invariant: an address is handed out again only after it was given back. Nothing is counted here: the
sampler counts a block once, whether the cache had one or had to be filled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable


class ThreadCache:
    """Free addresses of each size class, those given back last in use first."""

    FILL_COUNT = 4
    """How many blocks of a class are fetched at a time."""

    def __init__(
        self, new_address: Callable[[int], int], spans: dict[int, tuple[int, ...]]
    ) -> None:
        """`spans`, which all threads' caches share, has the addresses fetched with each."""
        self._new_address = new_address
        self._spans = spans
        self._free: defaultdict[int, list[int]] = defaultdict(list)

    def take(self, class_bytes: int) -> int:
        """The address of a free block of that class."""
        if not self.has(class_bytes):
            self._fill(class_bytes)
        return self._free[class_bytes].pop()

    def has(self, class_bytes: int) -> bool:
        """Whether a block of that class can be taken without the slow path."""
        return bool(self._free[class_bytes])

    def _fill(self, class_bytes: int) -> None:
        """The slow path: fetch free blocks of that class."""
        fetched = tuple(self._new_address(class_bytes) for _ in range(self.FILL_COUNT))
        self._spans.update(dict.fromkeys(fetched, fetched))
        self._free[class_bytes].extend(reversed(fetched))

    def give(self, class_bytes: int, address: int) -> None:
        """Keep a block of that class that was freed."""
        self._free[class_bytes].append(address)
