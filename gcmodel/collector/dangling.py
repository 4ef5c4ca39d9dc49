"""The message of an error about a dangling reference: its slot, and the collection that broke it.

Both are searched for when the error is raised, so a correct heap pays nothing for them. Collections
are numbered from 1. Minor collections that found nothing new to do are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from gcmodel.collector.collected_heap import CollectedHeap
from gcmodel.memory.errors import DanglingReferenceError
from gcmodel.memory.objects import FREED, Object

NOWHERE = "an unreachable object"


def dangling_reference(heap: CollectedHeap, gone: Object, found: str) -> DanglingReferenceError:
    """Return the error for a reference to `gone`; `found` is the start of its message."""
    what = f"{found} {gone!r}, which was {_fate(gone)}; it is in {_slot(heap, gone)}"
    return DanglingReferenceError(what)


def _fate(gone: Object) -> str:
    if gone.place == FREED:
        return f"freed by {gone.freed_by}"
    # A filling of the nursery ends with the minor collection after it.
    what = "freed" if gone.forwarded_to is None else "moved"
    return f"{what} by minor collection {gone.place + 1}"


def _slot(heap: CollectedHeap, gone: Object) -> str:
    """Find the first slot with the reference, breadth first; return the path to it."""
    queue = [(f"root {slot}", root) for slot, root in enumerate(heap.roots)]
    queue += [(f"prebuilt object {index}", obj) for index, obj in enumerate(heap.prebuilt)]
    seen = set()
    for path, obj in queue:  # The loop appends to it.
        if obj is gone:
            return path
        if obj not in seen:
            seen.add(obj)
            queue += [(f"{path}, {step}", ref) for step, ref in _references(obj)]
    return NOWHERE


def _references(obj: Object) -> Iterator[tuple[str, Object]]:
    for field, ref in enumerate(obj.refs):
        if ref is not None:
            yield f"field {field}", ref
    if obj.target is not None:
        yield "weakly", obj.target
