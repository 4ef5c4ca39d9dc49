"""Bounds of the number of arenas.

    arena   | page of 16 | page of 32 | free page |      a page has objects of one size

A new page begins only if all pages of that size are full, and a new arena only if no page is free.
While a major collection sweeps, a page that it has not reached takes no object. After a full
collection each page has a living object, and each arena except one has such a page.

Invariant: there are at most as many pages and arenas as are counted here, in any order of
allocations and deaths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fuzz.protocol.contract import OldSpace


class ArenaBound:
    """`arenas` is the upper bound. Sizes are in bytes, rounded up to words."""

    def __init__(self, space: OldSpace) -> None:
        self._space = space
        self._objects: Counter[int] = Counter()
        self._pages: Counter[int] = Counter()
        self.arenas = 0

    def place(self, sizes: Sequence[int], is_sweeping: bool) -> None:
        """Objects of these sizes are allocated."""
        for size_bytes in set(sizes):
            count, pages = sizes.count(size_bytes), self._pages[size_bytes]
            self._objects[size_bytes] += count
            per_page = self._space.page_room_bytes // size_bytes
            if is_sweeping:
                self._pages[size_bytes] = pages + -(-count // per_page)
            elif self._objects[size_bytes] > pages * per_page:
                self._pages[size_bytes] = -(-self._objects[size_bytes] // per_page)
        self.arenas = max(self.arenas, -(-self._pages.total() // self._space.arena_pages))

    def least(self, sizes: Iterable[int]) -> int:
        """The fewest arenas that objects of these sizes need."""
        counts, free_bytes = Counter(sizes), self._space.page_room_bytes
        pages = sum(-(-count // (free_bytes // size)) for size, count in counts.items())
        return -(-pages // self._space.arena_pages)

    def sweep(self, sizes: Iterable[int]) -> None:
        """After a full collection, objects of these sizes remain."""
        self._objects = Counter(sizes)
        self._pages &= self._objects
        self.arenas = min(self.arenas, self._pages.total() + 1)
