"""The space of small old objects: size-class pages in arenas, or a plain list.

Both are swept in steps: `prepare_sweep` sets all objects aside, and `sweep` frees those that the
major collection did not visit, some pages at a time. Objects allocated meanwhile go to other pages,
so a sweep never meets an object younger than its marking. Rules and order are those of PyPy's
minimarkpage.py, and of minimarktest.py for the plain list.
"""

from collections.abc import Iterable
from itertools import chain

import attrs

from gcmodel.memory.configuration import ARENA_BYTES, PAGE_BYTES, SMALL_OBJECT_BYTES
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.objects import VISITED, Object

PAGE_HEADER_BYTES = 32
# An arena does not start on a page boundary, so one page of it is lost.
PAGES_LOST_PER_ARENA = 1
PAGES_PER_ARENA = ARENA_BYTES // PAGE_BYTES
USABLE_PAGES = PAGES_PER_ARENA - PAGES_LOST_PER_ARENA
BLOCKS_PER_PAGE = {
    block_bytes: (PAGE_BYTES - PAGE_HEADER_BYTES) // block_bytes
    for block_bytes in range(WORD_BYTES, SMALL_OBJECT_BYTES + 1, WORD_BYTES)
}
PAGES_PER_LISTED_OBJECT = 0.1
"""The cost of sweeping one object of the plain list. As in minimarktest.py it is not exact in
binary: ten of them are slightly less than one page, so a step of one page sweeps eleven."""


def survives_sweep(obj: Object, collection: str) -> bool:
    """Free `obj` if the major collection did not visit it; if it did, make it white again."""
    if obj.flags & VISITED:
        obj.flags &= ~VISITED
        return True
    obj.free(collection)
    return False


class ListedObjects:
    """The plain list, swept from its end.

    A sweep counts `used_bytes` again from 0, while that of pages includes dead objects that are not
    swept yet. There are no arenas, so `arena_bytes` is always 0.
    """

    def __init__(self) -> None:
        self.used_bytes = 0
        self.arena_bytes = 0
        self._objects: list[Object] = []
        self._to_sweep: list[Object] = []
        self._sweeping = ""

    def add(self, obj: Object) -> None:
        """Add an object of at most SMALL_OBJECT_BYTES."""
        self._objects.append(obj)
        self.used_bytes += obj.size_bytes

    def objects(self) -> Iterable[Object]:
        """All objects that no sweep in progress has set aside."""
        return self._objects

    def unswept(self) -> Iterable[Object]:
        """All objects that the sweep in progress has not reached."""
        return self._to_sweep

    def prepare_sweep(self, collection: str) -> None:
        """Let the major collection of that name sweep all objects."""
        self._sweeping = collection
        self._to_sweep, self._objects = self._objects, []
        self.used_bytes = 0

    def sweep(self, pages: int) -> bool:
        """Sweep about that many pages; return whether nothing is left to sweep."""
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
    """A run of pages. `free_pages` counts pages that were used and are free again."""

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

    `_partial` and `_full` have the pages of each block size, the one to be used next last.
    `_unswept` has the pages that the sweep in progress has not reached, the next one last.
    """

    def __init__(self) -> None:
        self.used_bytes = 0
        self.arena_bytes = 0
        self._partial = _page_lists()
        self._full = _page_lists()
        self._unswept: list[Page] = []
        self._sweeping = ""
        self._current: Arena | None = None
        # _resting[n] has the arenas that had n free pages at the last rehash.
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
        """Take the arena with the fewest free pages, so that the others may become empty."""
        for rehash in (False, True):
            if rehash:
                self._rehash()
            for arenas in self._resting[1:]:
                if arenas:
                    return arenas.pop()
        self.arena_bytes += ARENA_BYTES
        return Arena()

    def _rehash(self) -> None:
        """Sort the resting arenas by their free pages again, and give back the empty ones.

        This reverses each list. If no page became free since the last time, nothing else changes.
        That case must be fast, since a growing heap rehashes for each new arena.
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
        # Large blocks are swept first, and full pages before partial ones.
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
