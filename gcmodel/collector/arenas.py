"""Where small old objects live: size-class pages in arenas, or a plain list.

Both are swept in steps: `prepare_sweep` sets aside all that exists, `sweep` frees what the major
collection did not visit, some pages at a time. What is allocated meanwhile goes to pages that are
not being swept, so a sweep never meets an object younger than its marking.
Rules and order are those of PyPy's minimarkpage.py (and of minimarktest.py for the plain list).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import attrs

from gcmodel.memory.configuration import ARENA_BYTES, PAGE_BYTES, SMALL_OBJECT_BYTES
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.objects import VISITED, Object

PAGE_HEADER_BYTES = 32
# The arena's start is not on a page boundary, so one page of it is lost.
PAGES_LOST_PER_ARENA = 1
PAGES_PER_ARENA = ARENA_BYTES // PAGE_BYTES
USABLE_PAGES = PAGES_PER_ARENA - PAGES_LOST_PER_ARENA
BLOCKS_PER_PAGE = {
    block_bytes: (PAGE_BYTES - PAGE_HEADER_BYTES) // block_bytes
    for block_bytes in range(WORD_BYTES, SMALL_OBJECT_BYTES + 1, WORD_BYTES)
}
PAGES_PER_LISTED_OBJECT = 0.1
"""What sweeping one object of the plain list costs of a step's limit, in binary fractions as in
minimarktest.py: ten of them do not quite make a page, so that a step of one page sweeps eleven."""


def survives_sweep(obj: Object, collection: str) -> bool:
    """Free `obj` if the major collection did not visit it; otherwise make it white again."""
    if obj.flags & VISITED:
        obj.flags &= ~VISITED
        return True
    obj.free(collection)
    return False


class ListedObjects:
    """The plain list, swept from its end.

    `used_bytes` are those of all objects in it, recounted during the sweep (in pages, of dead ones
    too that are not swept yet). `arena_bytes` are those of all arenas, of which it has none.
    """

    def __init__(self) -> None:
        self.used_bytes = 0
        self.arena_bytes = 0
        self._objects: list[Object] = []
        self._to_sweep: list[Object] = []
        self._sweeping = ""

    def add(self, obj: Object) -> None:
        """Give `obj`, of at most SMALL_OBJECT_BYTES, a place."""
        self._objects.append(obj)
        self.used_bytes += obj.size_bytes

    def objects(self) -> Iterable[Object]:
        """All objects in it that no sweep has yet to judge."""
        return self._objects

    def unswept(self) -> Iterable[Object]:
        """All objects in it that the sweep in progress has yet to judge."""
        return self._to_sweep

    def prepare_sweep(self, collection: str) -> None:
        """All objects now in it are to be swept, by the major collection of that name."""
        self._sweeping = collection
        self._to_sweep, self._objects = self._objects, []
        self.used_bytes = 0

    def sweep(self, pages: int) -> bool:
        """Sweep about as many pages; True when no more is to be swept."""
        left = float(pages)
        while self._to_sweep:
            obj = self._to_sweep.pop()
            if survives_sweep(obj, self._sweeping):
                self.add(obj)
            left -= PAGES_PER_LISTED_OBJECT
            if left <= 0:
                return False
        return True


@attrs.define(eq=False)
class Arena:
    """A run of pages. Pages that were handed out and came back are counted in `free_pages`."""

    untouched_pages: int = USABLE_PAGES
    free_pages: int = 0


@attrs.define(eq=False)
class Page:
    """A page of blocks of one size."""

    arena: Arena
    block_bytes: int
    objects: list[Object] = attrs.Factory(list)


def _page_lists() -> dict[int, list[Page]]:
    return {block_bytes: [] for block_bytes in BLOCKS_PER_PAGE}


class PagedArenas:
    """Pages of one block size each. A page is full, partial or free; free pages change size.

    For each block size: `_partial` and `_full` pages, the one used next at the end of the list.
    `_unswept` are the pages that the sweep in progress has not reached, the next one last.
    """

    def __init__(self) -> None:
        self.used_bytes = 0
        self.arena_bytes = 0
        self._partial = _page_lists()
        self._full = _page_lists()
        self._unswept: list[Page] = []
        self._sweeping = ""
        self._current: Arena | None = None
        # _resting[n] holds the arenas with n free pages, as far as the last rehash knew.
        self._resting: list[list[Arena]] = [[] for _ in range(PAGES_PER_ARENA)]
        self._has_pages_back = False

    def add(self, obj: Object) -> None:
        self.used_bytes += obj.size_bytes
        partial = self._partial[obj.size_bytes]
        if not partial:
            partial.append(self._new_page(obj.size_bytes))
        page = partial[-1]
        page.objects.append(obj)
        if len(page.objects) == BLOCKS_PER_PAGE[obj.size_bytes]:
            self._full[obj.size_bytes].append(partial.pop())

    def _new_page(self, block_bytes: int) -> Page:
        arena = self._current or self._next_arena()
        self._current = arena
        if arena.free_pages:
            arena.free_pages -= 1
        else:
            arena.untouched_pages -= 1
        if not arena.free_pages and not arena.untouched_pages:
            self._resting[0].append(arena)
            self._current = None
        return Page(arena, block_bytes)

    def _next_arena(self) -> Arena:
        """The arena with the fewest free pages, so that the others may become empty."""
        for rehash in (False, True):
            if rehash:
                self._rehash()
            for arenas in self._resting[1:]:
                if arenas:
                    return arenas.pop()
        self.arena_bytes += ARENA_BYTES
        return Arena()

    def _rehash(self) -> None:
        """Sort the resting arenas by their free pages anew, and give back the empty ones.

        Each list is turned round thereby. If no page came back since the last time, that is all: a
        heap that only grows asks for that at each new arena.
        """
        if not self._has_pages_back:
            for arenas in self._resting:
                arenas.reverse()
            return
        self._has_pages_back = False
        resting, self._resting = self._resting, [[] for _ in range(PAGES_PER_ARENA)]
        for arenas in resting:
            for arena in reversed(arenas):
                if arena.free_pages == USABLE_PAGES:
                    self.arena_bytes -= ARENA_BYTES
                else:
                    self._resting[arena.free_pages].append(arena)

    def objects(self) -> Iterable[Object]:
        pages = chain(*self._partial.values(), *self._full.values())
        return (obj for page in pages for obj in page.objects)

    def unswept(self) -> Iterable[Object]:
        return (obj for page in self._unswept for obj in page.objects)

    def prepare_sweep(self, collection: str) -> None:
        self._sweeping = collection
        # The largest are swept first, and those on full pages before those on partial ones.
        by_size = zip(self._partial.values(), self._full.values(), strict=True)
        self._unswept = [page for pages in by_size for page in chain(*pages)]
        self._partial, self._full = _page_lists(), _page_lists()

    def sweep(self, pages: int) -> bool:
        while self._unswept:
            self._sweep_page(self._unswept.pop())
            pages -= 1
            if pages <= 0:
                return False
        self._rehash()
        return True

    def _sweep_page(self, page: Page) -> None:
        before = len(page.objects)
        collection = self._sweeping
        page.objects = [obj for obj in page.objects if survives_sweep(obj, collection)]
        surviving = len(page.objects)
        self.used_bytes -= (before - surviving) * page.block_bytes
        if surviving == BLOCKS_PER_PAGE[page.block_bytes]:
            self._full[page.block_bytes].append(page)
        elif surviving:
            self._partial[page.block_bytes].append(page)
        else:
            page.arena.free_pages += 1
            self._has_pages_back = True


Arenas = PagedArenas | ListedObjects
"""The space for small old objects."""
