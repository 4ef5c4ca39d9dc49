"""The invariants between the parts of the collector, checked between any two actions.

Each is described in the docstring of the part that maintains it. Here it is a function that yields
the places where it is broken. A check costs as much as walking the heap, so it is a mode for tests.

A *doomed* object is dead, and not yet swept by the major collection. No invariant holds for what
it refers to.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from gcmodel.collector.arenas import ListedObjects
from gcmodel.collector.barrier import Barrier
from gcmodel.collector.heap import Heap
from gcmodel.collector.mutator_threads import Log, LoggingBarrier
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
    """Raise InvariantError with the name of the first invariant that is broken."""
    for name, problems in INVARIANTS.items():
        for problem in problems(heap):
            raise InvariantError(f"{name}: {problem}")


def _unswept(heap: Heap) -> list[Object]:
    return [*heap.arenas.unswept(), *heap.large_objects.to_sweep]


def _old(heap: Heap) -> list[Object]:
    """Every old object, including prebuilt ones, except doomed ones."""
    kept = [obj for obj in _unswept(heap) if obj.flags & VISITED]
    return [*heap.prebuilt, *heap.arenas.objects(), *heap.large_objects.old, *kept]


def _recorded(heap: Heap, of: Callable[[Barrier | Log], list[Object]]) -> set[Object]:
    """What the barrier has recorded, also for threads that do not run. See mutator_threads."""
    barrier = heap.barrier
    logs = barrier.logs.values() if isinstance(barrier, LoggingBarrier) else ()
    return {obj for lists in (barrier, *logs) for obj in of(lists)}


def _is_young(heap: Heap, obj: Object) -> bool:
    return obj.place == heap.nursery.filling or bool(obj.flags & YOUNG)


def _pointers(heap: Heap) -> Iterator[str]:
    """See nursery and sample_point: the order of the pointers, and the limit."""
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
    """See contexts: the same for each thread's context."""
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
    """See sampler: each pending object exists until the next minor collection."""
    memory = heap.nursery.memory
    for sampled in heap.sampling.pending:
        if not (sampled in memory if isinstance(sampled, int) else sampled.place == OUTSIDE):
            yield f"a sample of {sampled!r} is pending, which is gone"


def _pins(heap: Heap) -> Iterator[str]:
    """See pinning and nursery: the number of pinned objects, and the rooms between them."""
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
    """See arenas and large_objects: each object is in one space, which counts its bytes."""
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
    """See barrier and pinning: the minor collection visits old objects that refer to young ones."""
    remembered = _recorded(heap, lambda log: log.remembered)
    visited_whole = remembered | heap.pinning.parents.keys()
    for obj in _old(heap):
        if obj in remembered and obj.flags & TRACK_YOUNG:
            yield f"{obj!r} is remembered, and the barrier would remember it once more"
        if obj not in visited_whole:
            young = [i for i, ref in enumerate(obj.refs) if ref and _is_young(heap, ref)]
            if obj.refs and not obj.flags & TRACK_YOUNG:
                yield f"{obj!r} is not remembered, and has the flags of a remembered object"
            if young and obj.cards is None:
                yield f"{obj!r} refers to a young object and is not remembered"
        if obj.target and _is_young(heap, obj.target) and obj not in heap.weakrefs.young:
            yield f"{obj!r} is weak, its object young, and no minor collection looks at it"


def _cards(heap: Heap) -> Iterator[str]:
    """See barrier: young objects in a large array are on its dirty cards, and it is listed.

    A young array is in no list. A remembered one and a parent are visited whole.
    """
    listed = _recorded(heap, lambda log: log.dirty_arrays)
    items = heap.configuration.card_items
    for array in (*_old(heap), *heap.large_objects.young):
        if array.cards is None:
            continue
        if not array.flags & YOUNG and (array in listed) != bool(array.flags & CARDS_SET):
            yield f"{array!r} is not listed as its flags require"
        if array.cards and not array.flags & CARDS_SET:
            yield f"{array!r} has dirty cards without the flag for them"
        young = {i // items for i, ref in enumerate(array.refs) if ref and _is_young(heap, ref)}
        is_visited_whole = not array.flags & TRACK_YOUNG or array in heap.pinning.parents
        if not young <= array.cards and not is_visited_whole:
            yield f"{array!r} has young objects on cards that are clean"


def _colours(heap: Heap) -> Iterator[str]:
    """See major: a black object refers to a white one only if it will become gray again.

    Outside of a cycle nothing is black.
    """
    major, barrier = heap.major, heap.barrier
    if not major.is_marking():
        black = [*heap.arenas.objects(), *heap.large_objects.old]
        yield from (f"{obj!r} is black before marking" for obj in black if obj.flags & VISITED)
        return
    # A prebuilt object first written after the roots were scanned is visited when marking ends.
    gray = {*major.to_trace, *major.to_rescan, *barrier.prebuilt_roots}
    will_be_gray = _recorded(heap, lambda log: [*log.remembered, *log.dirty_arrays])
    for obj in _old(heap):
        if obj.flags & VISITED and obj not in will_be_gray:
            white = (ref for ref in obj.refs if ref and _is_white(ref) and ref not in gray)
            yield from (f"black {obj!r} refers to white {ref!r}" for ref in white)


def _is_white(obj: Object) -> bool:
    return obj.place == OUTSIDE and not obj.flags & (VISITED | NO_HEAP_REFERENCES)


def _references(heap: Heap) -> Iterator[str]:
    """See heap: no object that is kept refers to one that was moved or freed, or is doomed."""
    doomed = {obj for obj in _unswept(heap) if not obj.flags & VISITED}
    old, filling = _old(heap), heap.nursery.filling
    for ref in chain(heap.roots, (obj.target for obj in old), *(obj.refs for obj in old)):
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
"""The invariants by name. If one is broken, a later one may be broken as a consequence."""
