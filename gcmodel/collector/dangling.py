"""What is said of a reference to an object that is gone: where it stands, and who lost the object.

It is looked for when somebody meets the reference, so that a heap that is right pays nothing for
it. Collections are counted from the heap's beginning on, the first being number 1; of minor ones,
those that emptied the nursery, not those where nothing was new.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gcmodel.memory.errors import DanglingReferenceError
from gcmodel.memory.objects import FREED, Object

if TYPE_CHECKING:
    from gcmodel.collector.heap import Heap

NOWHERE = "an object that nobody can reach"


def dangling_reference(heap: Heap, gone: Object, found: str) -> DanglingReferenceError:
    """The error for a reference to `gone`; `found` says who found it."""
    what = f"{found} {gone!r}, which was {_fate(gone)}; it stands in {_slot(heap, gone)}"
    return DanglingReferenceError(what)


def _fate(gone: Object) -> str:
    """What became of the object, and in which collection."""
    if gone.place == FREED:
        return f"freed by {gone.freed_by}"
    # A filling of the nursery ends with the minor collection after it.
    what = "freed" if gone.forwarded_to is None else "moved"
    return f"{what} by minor collection {gone.place + 1}"


def _slot(heap: Heap, gone: Object) -> str:
    """The first slot with the reference that a walk finds, by the way that leads there."""
    queue = [(f"root {slot}", root) for slot, root in enumerate(heap.roots)]
    queue += [(f"prebuilt object {index}", obj) for index, obj in enumerate(heap.prebuilt)]
    seen = set()
    for way, obj in queue:  # It grows.
        if obj is gone:
            return way
        if obj not in seen:
            seen.add(obj)
            queue += [(f"{way}, {step}", ref) for step, ref in _references(obj)]
    return NOWHERE


def _references(obj: Object) -> Iterator[tuple[str, Object]]:
    for field, ref in enumerate(obj.refs):
        if ref is not None:
            yield f"field {field}", ref
    if obj.target is not None:
        yield "weakly", obj.target
