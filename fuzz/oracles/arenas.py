"""How many arenas there are, at most and at least: the pages that a contract promises.

    arena   | page of 16 | page of 32 | free page |      a page holds objects of one size

A page is begun only if each page of that size is full, and an arena only if no page is free. So p
pages of a size hold more than p - 1 pages full of objects when the last of them is begun, and
likewise arenas. While a major collection sweeps, a page that it has not reached takes nothing.
After a full collection each page has an object that lives, and each arena but one such a page.

Invariant: whatever the order in which objects came, and whichever of them died, there are no more
pages and arenas than are counted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fuzz.protocol.contract import OldSpace


class ArenaBound:
    """`arenas` is the bound. Sizes are in bytes, rounded up to words."""

    def __init__(self, space: OldSpace) -> None:
        self._space = space
        self._objects: Counter[int] = Counter()
        self._pages: Counter[int] = Counter()
        self.arenas = 0

    def place(self, sizes: Sequence[int], is_sweeping: bool) -> None:
        """Objects of these sizes come."""
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
        """So many arenas objects of these sizes take, however they lie there."""
        counts, room_bytes = Counter(sizes), self._space.page_room_bytes
        pages = sum(-(-count // (room_bytes // size)) for size, count in counts.items())
        return -(-pages // self._space.arena_pages)

    def sweep(self, sizes: Iterable[int]) -> None:
        """A full collection has left objects of these sizes."""
        self._objects = Counter(sizes)
        self._pages &= self._objects
        self.arenas = min(self.arenas, self._pages.total() + 1)
