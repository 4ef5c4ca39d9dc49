"""A shadow stack: root slots in scopes, as a program's local variables are.

Invariant: when a scope ends, the slots are those that there were when it began, and above them the
one result that it keeps, if any. So a function that works in a scope moves none of its caller's
slots, and whatever it does not return can die.
"""

from __future__ import annotations

from typing import Self

from gcmodel.collector.heap import Heap


class Scope:
    """`with Scope(heap) as scope:` drops whatever roots were appended since, also by an error."""

    __slots__ = ("_end", "_heap", "_start")

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self._start = self._end = len(heap.roots)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        del self._heap.roots[self._end :]

    def keep(self, root: int) -> int:
        """Keep the object in slot `root` and drop all others; returns its slot from here on."""
        roots = self._heap.roots
        roots[self._start :] = [roots[root]]
        self._end = self._start + 1
        return self._start


def newest(heap: Heap) -> int:
    """The slot of what was allocated or read last."""
    return len(heap.roots) - 1


def copied(heap: Heap, root: int) -> int:
    """A new slot that names what the slot `root` names: a variable with that value at first."""
    heap.roots.append(heap.roots[root])
    return newest(heap)


def assign(heap: Heap, variable: int, root: int) -> None:
    """The slot `variable` names from here on what the slot `root` names."""
    heap.roots[variable] = heap.roots[root]
