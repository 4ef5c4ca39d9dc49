"""What the parts of the collector promise each other between any two actions, as code.

Each invariant stands in the docstring of the part that keeps it. Here it is a function of the heap
that says in which places it is broken, which costs as much as walking the heap: a mode for tests.

A *doomed* object is one that the major collection has found dead and not swept yet. Nobody reaches
it, and nobody keeps it right: no invariant speaks of what it refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from gcmodel.collector.arenas import ListedObjects
from gcmodel.collector.heap import Heap
from gcmodel.memory.errors import InvariantError
from gcmodel.memory.objects import (
    CARDS_SET,
    NO_HEAP_REFERENCES,
    OUTSIDE,
    PINNED,
    TRACK_YOUNG,
    VISITED,
    YOUNG,
    Object,
)
from gcmodel.sampling.contexts import ContextNursery
from gcmodel.sampling.sample_point import Sampling
from gcmodel.sampling.shipped_contexts import ShippedSampling
from gcmodel.sampling.tlab import TlabNursery


def check_invariants(heap: Heap) -> None:
    """Raise InvariantError, which names the invariant, if one is broken. Changes nothing."""
    for name, problems in INVARIANTS.items():
        for problem in problems(heap):
            raise InvariantError(f"{name}: {problem}")


def _unswept(heap: Heap) -> list[Object]:
    return [*heap.arenas.unswept(), *heap.large_objects.to_sweep]


def _doomed(heap: Heap) -> set[Object]:
    return {obj for obj in _unswept(heap) if not obj.flags & VISITED}


def _old(heap: Heap) -> list[Object]:
    """Every old object, prebuilt ones included, but for the doomed."""
    kept = [obj for obj in _unswept(heap) if obj.flags & VISITED]
    return [*heap.prebuilt, *heap.arenas.objects(), *heap.large_objects.old, *kept]


def _is_young(heap: Heap, obj: Object) -> bool:
    return obj.place == heap.nursery.filling or bool(obj.flags & YOUNG)


def _pointers(heap: Heap) -> Iterator[str]:
    """See nursery and sample_point: the order of the pointers, and what the limit is."""
    nursery, sampling = heap.nursery, heap.sampling
    start, free, limit = nursery.nursery_start, nursery.nursery_free, nursery.nursery_limit
    top = nursery.nursery_top
    if not start <= free <= limit <= top <= nursery.nursery_end:
        yield f"start {start}, free {free}, limit {limit}, top {top}"
    expected = top
    if nursery.is_collection_due:
        expected = free
    elif isinstance(sampling, Sampling) and sampling.period_bytes:
        expected = min(sampling.sample_point, top)
    if limit != expected:
        yield f"the limit is {limit} and should be {expected}"


def _contexts(heap: Heap) -> Iterator[str]:
    """See contexts: the same for the block of each thread."""
    if isinstance(heap.nursery, ContextNursery):
        stops = heap.sampling.period_bytes or isinstance(heap.sampling, ShippedSampling)
        for thread, context in enumerate(heap.nursery.contexts):
            if not context.alloc_ptr <= context.combined_limit <= context.alloc_limit:
                yield f"the pointers of thread {thread} are out of order: {context}"
            if not stops and context.combined_limit != context.alloc_limit:
                yield f"thread {thread} stops at a sample while sampling is off: {context}"


def _tlabs(heap: Heap) -> Iterator[str]:
    """See tlab."""
    if isinstance(heap.nursery, TlabNursery):
        for thread, tlab in enumerate(heap.nursery.tlabs):
            ends = tlab.end <= tlab.allocation_end <= heap.nursery.nursery_free
            if not (tlab.start <= tlab.top <= tlab.end and ends):
                yield f"the pointers of thread {thread} are out of order: {tlab}"


def _pending(heap: Heap) -> Iterator[str]:
    """See sampler: what is pending is there for the next minor collection to judge."""
    memory = heap.nursery.memory
    for sampled in heap.sampling.pending:
        if not (sampled in memory if isinstance(sampled, int) else sampled.place == OUTSIDE):
            yield f"a sample is pending of {sampled!r}, which is gone"


def _pins(heap: Heap) -> Iterator[str]:
    """See pinning and nursery: how many are pinned, and the rooms between those that were kept."""
    nursery, pinning = heap.nursery, heap.pinning
    pinned = sum(bool(obj.flags & PINNED) for obj in nursery.memory.values())
    if pinned != pinning.count:
        yield f"{pinned} objects are pinned, and {pinning.count} are counted"
    top, kept = nursery.nursery_top, pinning.kept
    ahead = sorted((address for address in kept if address >= top), reverse=True)
    obstacles = [(address, address + kept[address].size_bytes) for address in ahead]
    if nursery.obstacles != obstacles:
        yield f"the obstacles are {nursery.obstacles} and should be {obstacles}"
    if top != (ahead[-1] if ahead else nursery.nursery_end):
        yield f"the room ends at {top}, neither at an obstacle nor at the end of the nursery"


def _spaces(heap: Heap) -> Iterator[str]:
    """See arenas and large_objects: each object is in one space, which knows its bytes."""
    arenas, large = heap.arenas, heap.large_objects
    arena_objects, unswept = list(arenas.objects()), list(arenas.unswept())
    large_objects = [*large.young, *large.old, *large.to_sweep]
    outside = [*heap.prebuilt, *arena_objects, *unswept, *large_objects]
    inside = heap.nursery.memory.values()
    if len({*outside, *inside}) != len(outside) + len(inside):
        yield "an object is in two spaces, or twice in one"
    yield from (f"{obj!r} is in a space outside" for obj in outside if obj.place != OUTSIDE)
    filling = heap.nursery.filling
    yield from (f"{obj!r} is in the nursery" for obj in inside if obj.place != filling)
    young = {obj for obj in outside if obj.flags & YOUNG}
    if young != set(large.young):
        yield "the young objects outside are not those that have the flag"
    counted = arena_objects if isinstance(arenas, ListedObjects) else arena_objects + unswept
    yield from _miscount("arenas", arenas.used_bytes, sum(obj.size_bytes for obj in counted))
    used_bytes = sum(map(large.memory_bytes, large_objects))
    yield from _miscount("large objects", large.used_bytes, used_bytes)


def _miscount(space: str, counted_bytes: int, used_bytes: int) -> Iterator[str]:
    if counted_bytes != used_bytes:
        yield f"{space} count {counted_bytes} bytes and have {used_bytes}"


def _remembered(heap: Heap) -> Iterator[str]:
    """See barrier and pinning: the minor collection is told of old objects that refer to young."""
    barrier = heap.barrier
    remembered = set(barrier.remembered)
    visited_whole = remembered | heap.pinning.parents.keys()
    for obj in _old(heap):
        if obj in remembered and obj.flags & TRACK_YOUNG:
            yield f"{obj!r} is remembered, and the barrier would remember it once more"
        if obj not in visited_whole:
            young = [i for i, ref in enumerate(obj.refs) if ref and _is_young(heap, ref)]
            if obj.refs and not obj.flags & TRACK_YOUNG:
                yield f"{obj!r} is not remembered, and the barrier takes it for remembered"
            if young and obj.cards is None:
                yield f"{obj!r} refers to a young object and is not remembered"
        if obj.target and _is_young(heap, obj.target) and obj not in heap.weakrefs.young:
            yield f"{obj!r} is weak, its object young, and no minor collection looks at it"


def _cards(heap: Heap) -> Iterator[str]:
    """See barrier: what is young in a large array lies on its dirty cards, and it is listed.

    A young array is in no list, and one that is remembered or a parent is visited whole.
    """
    listed, items = set(heap.barrier.dirty_arrays), heap.configuration.card_items
    for array in (*_old(heap), *heap.large_objects.young):
        if array.cards is None:
            continue
        if not array.flags & YOUNG and (array in listed) != bool(array.flags & CARDS_SET):
            yield f"{array!r} is not listed as its flags say"
        if array.cards and not array.flags & CARDS_SET:
            yield f"{array!r} has dirty cards and says that it has none"
        young = {i // items for i, ref in enumerate(array.refs) if ref and _is_young(heap, ref)}
        is_visited_whole = not array.flags & TRACK_YOUNG or array in heap.pinning.parents
        if not young <= array.cards and not is_visited_whole:
            yield f"{array!r} has young objects on cards that are clean"


def _colours(heap: Heap) -> Iterator[str]:
    """See major: no black object refers to a white one, but those that will be gray again.

    Outside of a cycle nothing is black.
    """
    major, barrier = heap.major, heap.barrier
    if not major.is_marking():
        black = [*heap.arenas.objects(), *heap.large_objects.old]
        yield from (f"{obj!r} is black before marking" for obj in black if obj.flags & VISITED)
        return
    # What is prebuilt may be written for the first time after the roots: it is visited at the end.
    gray = {*major.to_trace, *major.to_rescan, *barrier.prebuilt_roots}
    will_be_gray = {*barrier.remembered, *barrier.dirty_arrays}
    for obj in _old(heap):
        if obj.flags & VISITED and obj not in will_be_gray:
            white = (ref for ref in obj.refs if ref and _is_white(ref) and ref not in gray)
            yield from (f"black {obj!r} refers to white {ref!r}" for ref in white)


def _is_white(obj: Object) -> bool:
    return obj.place == OUTSIDE and not obj.flags & (VISITED | NO_HEAP_REFERENCES)


def _references(heap: Heap) -> Iterator[str]:
    """See heap: nothing that is kept refers to what was moved, or freed, or is doomed."""
    doomed, filling = _doomed(heap), heap.nursery.filling
    targets = (obj.target for obj in _old(heap) if obj.target is not None)
    for ref in chain(heap.roots, targets, *(obj.refs for obj in _old(heap))):
        if ref is not None and (ref.place not in (OUTSIDE, filling) or ref in doomed):
            yield f"a reference leads to {ref!r}, which is dead or was moved"


INVARIANTS: dict[str, Callable[[Heap], Iterator[str]]] = {
    "nursery pointers": _pointers,
    "contexts": _contexts,
    "TLABs": _tlabs,
    "pending samples": _pending,
    "pinned objects": _pins,
    "spaces": _spaces,
    "remembered set": _remembered,
    "cards": _cards,
    "tri-colour": _colours,
    "references": _references,
}
"""Each by the name under which it is reported. What the others lead to, if broken, comes last."""
