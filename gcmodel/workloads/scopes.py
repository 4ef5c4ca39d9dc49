"""A shadow stack: root slots in scopes, like a program's local variables.

Invariant: when a scope ends, the slots are those at its start, and above them the result that it
keeps, if any. So a function that works in a scope moves no slot of its caller, and everything that
it does not return can die.
"""

from typing import Self

from gcmodel.collector.heap import Heap


class Scope:
    """`with Scope(heap) as scope:` drops the roots that were appended in it, after errors too."""

    __slots__ = ("_end", "_heap", "_start")

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self._start = self._end = len(heap.roots)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        del self._heap.roots[self._end :]

    def keep(self, root: int) -> int:
        """Keep the object in slot `root`, drop all others, and return its new slot."""
        roots = self._heap.roots
        roots[self._start :] = [roots[root]]
        self._end = self._start + 1
        return self._start


def newest(heap: Heap) -> int:
    """The slot of the last allocation or read."""
    return len(heap.roots) - 1


def copied(heap: Heap, root: int) -> int:
    """A new slot with the object of slot `root`: a variable with that initial value."""
    heap.roots.append(heap.roots[root])
    return newest(heap)


def assign(heap: Heap, variable: int, root: int) -> None:
    """Put the object of slot `root` in the slot `variable`."""
    heap.roots[variable] = heap.roots[root]
