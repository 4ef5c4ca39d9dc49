"""Where small old objects live: size-class pages in arenas, or a plain list.

Both are swept in steps: `prepare_sweep` sets aside all that exists, `sweep` frees what the major
collection did not visit, some pages at a time. What is allocated meanwhile goes to pages that are
not being swept, so a sweep never meets an object younger than its marking.
Rules and order are those of PyPy's minimarkpage.py (and of minimarktest.py for the plain list).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

import attrs

from gcmodel.memory.configuration import ARENA_BYTES, PAGE_BYTES, SMALL_OBJECT_BYTES
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.objects import FREED, VISITED, Object

PAGE_HEADER_BYTES = 32
# The arena's start is not on a page boundary, so one page of it is lost.
PAGES_LOST_PER_ARENA = 1
PAGES_PER_ARENA = ARENA_BYTES // PAGE_BYTES
SIZE_CLASSES = SMALL_OBJECT_BYTES // WORD_BYTES
PAGES_PER_LISTED_OBJECT = 0.1
"""What sweeping one object of the plain list costs of a step's limit, in binary fractions as in
minimarktest.py: ten of them do not quite make a page, so that a step of one page sweeps eleven."""


class Arenas(Protocol):
    """What the collector needs of the space for small old objects."""

    used_bytes: int
    """Bytes of all objects in it, dead ones not yet swept included."""

    @property
    def arena_bytes(self) -> int:
        """Bytes of all its arenas."""

    def add(self, obj: Object) -> None:
        """Give `obj`, of at most SMALL_OBJECT_BYTES, a place."""

    def objects(self) -> Iterable[Object]:
        """All objects in it that no sweep has yet to judge."""

    def unswept(self) -> Iterable[Object]:
        """All objects in it that the sweep in progress has yet to judge."""

    def prepare_sweep(self) -> None:
        """All objects now in it are to be swept."""

    def sweep(self, pages: int) -> bool:
        """Sweep about as many pages; True when no more is to be swept."""


def survives_sweep(obj: Object) -> bool:
    """Free `obj` if the major collection did not visit it; otherwise make it white again."""
    if obj.flags & VISITED:
        obj.flags &= ~VISITED
        return True
    obj.place = FREED
    return False


class ListedObjects:
    """The plain list, swept from its end; `used_bytes` is recounted during the sweep."""

    def __init__(self) -> None:
        self.used_bytes = 0
        self.arena_bytes = 0
        self._objects: list[Object] = []
        self._to_sweep: list[Object] = []

    def add(self, obj: Object) -> None:
        self._objects.append(obj)
        self.used_bytes += obj.size_bytes

    def objects(self) -> Iterable[Object]:
        return self._objects

    def unswept(self) -> Iterable[Object]:
        return self._to_sweep

    def prepare_sweep(self) -> None:
        self._to_sweep, self._objects = self._objects, []
        self.used_bytes = 0

    def sweep(self, pages: int) -> bool:
        left = float(pages)
        while self._to_sweep:
            obj = self._to_sweep.pop()
            if survives_sweep(obj):
                self.add(obj)
            left -= PAGES_PER_LISTED_OBJECT
            if left <= 0:
                return False
        return True


@attrs.define(eq=False)
class Arena:
    """A run of pages. Pages that were handed out and came back are counted in `free_pages`."""

    total_pages: int
    untouched_pages: int
    free_pages: int = 0


@attrs.define(eq=False)
class Page:
    """A page of blocks of one size."""

    arena: Arena
    objects: list[Object] = attrs.Factory(list)


def _blocks_per_page(size_class: int) -> int:
    return (PAGE_BYTES - PAGE_HEADER_BYTES) // (size_class * WORD_BYTES)


def _objects_on(*by_size_class: list[list[Page]]) -> Iterator[Object]:
    pages = chain.from_iterable(chain.from_iterable(by_size_class))
    return (obj for page in pages for obj in page.objects)


class PagedArenas:
    """Pages of one block size each. A page is full, partial or free; free pages change size.

    For each size class: `_partial` and `_full` pages, the one used next at the end of the list,
    and their counterparts that the sweep in progress has not reached.
    """

    def __init__(self) -> None:
        self.used_bytes = 0
        self._partial = self._page_lists()
        self._full = self._page_lists()
        self._unswept_partial = self._page_lists()
        self._unswept_full = self._page_lists()
        self._sweep_class = 0
        self._current: Arena | None = None
        # _resting[n] holds the arenas with n free pages, as far as the last rehash knew.
        self._resting: list[list[Arena]] = [[] for _ in range(PAGES_PER_ARENA)]
        self._arena_count = 0
        self._has_pages_back = False

    def _page_lists(self) -> list[list[Page]]:
        return [[] for _ in range(SIZE_CLASSES + 1)]

    @property
    def arena_bytes(self) -> int:
        return ARENA_BYTES * self._arena_count

    def add(self, obj: Object) -> None:
        self.used_bytes += obj.size_bytes
        size_class = obj.size_bytes // WORD_BYTES
        partial = self._partial[size_class]
        if not partial:
            partial.append(self._new_page())
        page = partial[-1]
        page.objects.append(obj)
        if len(page.objects) == _blocks_per_page(size_class):
            self._full[size_class].append(partial.pop())

    def _new_page(self) -> Page:
        arena = self._current or self._next_arena()
        self._current = arena
        if arena.free_pages:
            arena.free_pages -= 1
        else:
            arena.untouched_pages -= 1
        if not arena.free_pages and not arena.untouched_pages:
            self._resting[0].append(arena)
            self._current = None
        return Page(arena)

    def _next_arena(self) -> Arena:
        """The arena with the fewest free pages, so that the others may become empty."""
        for rehash in (False, True):
            if rehash:
                self._rehash()
            for arenas in self._resting[1:]:
                if arenas:
                    return arenas.pop()
        self._arena_count += 1
        pages = PAGES_PER_ARENA - PAGES_LOST_PER_ARENA
        return Arena(total_pages=pages, untouched_pages=pages)

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
                if arena.free_pages == arena.total_pages:
                    self._arena_count -= 1
                else:
                    self._resting[arena.free_pages].append(arena)

    def objects(self) -> Iterable[Object]:
        return _objects_on(self._partial, self._full)

    def unswept(self) -> Iterable[Object]:
        return _objects_on(self._unswept_partial, self._unswept_full)

    def prepare_sweep(self) -> None:
        self._unswept_partial, self._partial = self._partial, self._page_lists()
        self._unswept_full, self._full = self._full, self._page_lists()
        self._sweep_class = SIZE_CLASSES

    def sweep(self, pages: int) -> bool:
        while self._sweep_class:
            for unswept in (self._unswept_full, self._unswept_partial):
                while unswept[self._sweep_class]:
                    self._sweep_page(unswept[self._sweep_class].pop())
                    pages -= 1
                    if pages <= 0:
                        return False
            self._sweep_class -= 1
        self._rehash()
        return True

    def _sweep_page(self, page: Page) -> None:
        size_class = self._sweep_class
        before = len(page.objects)
        page.objects = [obj for obj in page.objects if survives_sweep(obj)]
        surviving = len(page.objects)
        self.used_bytes -= (before - surviving) * size_class * WORD_BYTES
        if surviving == _blocks_per_page(size_class):
            self._full[size_class].append(page)
        elif surviving:
            self._partial[size_class].append(page)
        else:
            page.arena.free_pages += 1
            self._has_pages_back = True
