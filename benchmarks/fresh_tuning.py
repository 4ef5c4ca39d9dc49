"""Twenty bugs of `gcmodel`, each of which shows only if three things or more are true at once.

Each docstring says the facts. The scenario of deaths was tuned by these, and by `fresh_checked`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from late_declared import Method, declarations

from gcmodel.collector.arenas import BLOCKS_PER_PAGE, Page, PagedArenas
from gcmodel.collector.divided import DividedAllocation
from gcmodel.collector.ephemerons import Ephemerons, is_marked
from gcmodel.collector.finalizers import Deaths, Finalizers
from gcmodel.collector.finalizing import FinalizingHeap, FinalizingMajor, FinalizingMinor
from gcmodel.collector.grouping import GroupAllocation, GroupingHeap, _raw_bytes
from gcmodel.collector.identities import Identities
from gcmodel.collector.large_objects import LargeObjects
from gcmodel.collector.limited import LimitedMajor
from gcmodel.collector.minor import MinorCollection
from gcmodel.collector.pinning import Pinning
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.layout import Kind
from gcmodel.memory.objects import (
    HAS_SHADOW,
    NO_HEAP_REFERENCES,
    OUTSIDE,
    PINNED,
    TRACK_YOUNG,
    VISITED,
    VISITED_YOUNG,
    YOUNG,
    Object,
)
from gcmodel.sampling.sampler import Sampler
from gcmodel.sampling.tlab import ChargingAhead, Placed

BUGS, bug, also = declarations()


@bug(Pinning, "reach")
def sampled_pinned_object_that_only_a_parent_keeps_is_reported_dead(
    original: Method, pinning: Pinning, obj: Object, parent: Object | None
) -> None:
    """An object is sampled; it is pinned before the report; only an old parent keeps it alive."""
    original(pinning, obj, parent)
    if parent is None:
        pinning.__dict__.setdefault("_rooted", set()).add(obj)


@also(
    "sampled_pinned_object_that_only_a_parent_keeps_is_reported_dead", MinorCollection, "_conclude"
)
def _conclude_by_roots(original: Method, minor: MinorCollection) -> None:
    heap = minor._heap
    rooted = heap.pinning.__dict__.pop("_rooted", set())
    heap.sampling.__dict__["_unrooted"] = {
        obj
        for obj in heap.nursery.memory.values()
        if obj.flags & PINNED and obj.flags & VISITED_YOUNG and obj not in rooted
    }
    original(minor)


@also("sampled_pinned_object_that_only_a_parent_keeps_is_reported_dead", Sampler, "has_survived")
def _has_survived_in_roots(original: Method, sampler: Sampler, obj: Object) -> bool:
    return obj not in sampler.__dict__.get("_unrooted", ()) and bool(original(sampler, obj))


@bug(PagedArenas, "_sweep_page")
def free_page_has_the_room_of_its_earlier_tenants(
    original: Method, arenas: PagedArenas, page: Page
) -> None:
    """All objects of a page die; its arena stays; larger ones come there, more than fit."""
    original(arenas, page)
    if not page.objects:
        tenants = arenas.__dict__.setdefault("_tenants", {})
        tenants.setdefault(page.arena, []).append(page.block_bytes)


@also("free_page_has_the_room_of_its_earlier_tenants", PagedArenas, "_new_page")
def _new_page_with_old_room(original: Method, arenas: PagedArenas, block_bytes: int) -> Page:
    page: Page = original(arenas, block_bytes)
    tenants = arenas.__dict__.get("_tenants", {}).get(page.arena, [])
    if len(tenants) > page.arena.free_pages:
        rooms = arenas.__dict__.setdefault("_rooms", {})
        rooms[page] = BLOCKS_PER_PAGE[tenants.pop()]
    return page


@also("free_page_has_the_room_of_its_earlier_tenants", PagedArenas, "add")
def _add_with_old_room(original: Method, arenas: PagedArenas, obj: Object) -> None:
    original(arenas, obj)
    rooms = arenas.__dict__.get("_rooms", {})
    partial, full = arenas._partial[obj.size_bytes], arenas._full[obj.size_bytes]
    if full and full[-1].objects[-1] is obj:
        if rooms.get(full[-1], 0) > len(full[-1].objects):
            partial.append(full.pop())
    elif (
        partial
        and len(partial[-1].objects) > BLOCKS_PER_PAGE[obj.size_bytes]
        and len(partial[-1].objects) >= rooms.get(partial[-1], 0)
    ):
        full.append(partial.pop())


@bug(LargeObjects, "sweep")
def large_object_at_the_end_of_a_sweep_step_stays_black(
    original: Method, large_objects: LargeObjects, count: int
) -> None:
    """More large objects than a step sweeps; one has a child that is not a root; a next cycle."""
    original(large_objects, count)
    if large_objects.to_sweep and large_objects.to_sweep[-1].flags & VISITED:
        large_objects.old.append(large_objects.to_sweep.pop())


@bug(Pinning, "after_marking")
def dead_parent_keeps_a_pinned_object_alive(original: Method, pinning: Pinning) -> None:
    """An old parent of a pinned object dies; nothing else has that; it is weakly referred to.

    Weak references are what shows it, or a place that stays taken.
    """


@bug(DividedAllocation, "reserve_blocks", "reference-unfolded")
def items_are_reserved_again_if_their_array_collects(
    original: Method, allocation: DividedAllocation, sizes: Sequence[int]
) -> Iterator[int]:
    """An array has two blocks; a collection comes between them; the bytes count for a sample."""
    nursery = allocation._heap.nursery
    for block, size_bytes in enumerate(sizes):
        filling = nursery.filling
        address = nursery.allocate(size_bytes)
        if block and nursery.filling != filling:
            nursery.allocate(sizes[0])
        yield address


@bug(Weakrefs, "after_marking")
def end_of_marking_forgets_weakrefs_to_pinned_objects(original: Method, weakrefs: Weakrefs) -> None:
    """A weak reference's object is pinned; marking ends meanwhile; the object moves or dies later."""
    original(weakrefs)
    weakrefs.young = [
        weakref for weakref in weakrefs.young if weakref.target and weakref.target.flags & VISITED
    ]


@bug(GroupingHeap, "allocate_group", "reference-groups")
def identity_of_a_member_reserves_the_rest_of_its_group(
    original: Method, heap: GroupingHeap, members: Sequence[tuple[Kind, int]]
) -> Any:
    """A group is young; the identity of a member is taken, not of the last one; it survives."""
    answer = original(heap, members)
    tails = heap.identities.__dict__.setdefault("_tails", {})
    tail_bytes = 0
    for obj in reversed(heap.roots[-len(members) :]):
        tail_bytes += obj.size_bytes
        tails[obj] = tail_bytes
    return answer


@also("identity_of_a_member_reserves_the_rest_of_its_group", Identities, "_shadow")
def _shadow_of_tail(original: Method, identities: Identities, obj: Object) -> Any:
    tails = identities.__dict__.get("_tails", {})
    size_bytes = obj.size_bytes
    obj.size_bytes = tails.pop(obj, size_bytes)
    shadow = original(identities, obj)
    obj.size_bytes = size_bytes
    return shadow


@bug(Finalizers, "after_marking", "reference-exhaustion")
def exhaustion_forgets_the_finalizers_of_its_collection(
    original: Method, finalizers: Finalizers
) -> Any:
    """A finalizer becomes due; the same collection exhausts the heap; then finalizers run."""
    before = len(finalizers.pending)
    deaths = original(finalizers)
    finalizers.__dict__["_new"] = finalizers.pending[before:]
    return deaths


@also("exhaustion_forgets_the_finalizers_of_its_collection", LimitedMajor, "_exhaust")
def _exhaust_and_forget(original: Method, major: LimitedMajor) -> None:
    finalizers = major._heap.finalizers
    new = finalizers.__dict__.get("_new", ())
    finalizers.pending = [entry for entry in finalizers.pending if entry not in new]
    original(major)


@bug(PagedArenas, "add")
def survivor_joins_a_partial_page_that_is_not_swept_yet(
    original: Method, arenas: PagedArenas, obj: Object
) -> None:
    """Pages are yet to be swept; one of them has room; an object of its size survives meanwhile."""
    if arenas._unswept and not arenas._partial[obj.size_bytes]:
        for page in reversed(arenas._unswept):
            room = BLOCKS_PER_PAGE[page.block_bytes] - len(page.objects)
            if page.block_bytes == obj.size_bytes and room > 0:
                page.objects.append(obj)
                arenas.used_bytes += obj.size_bytes
                return
    original(arenas, obj)


@bug(MinorCollection, "_drag_out_cards")
def black_array_is_rescanned_for_young_items_only(
    original: Method, minor: MinorCollection, array: Object
) -> None:
    """A large array is black, and it marks; a card is dirty; what was written is old and white."""
    major, items = minor._heap.major, minor._heap.configuration.card_items
    has_young = any(
        ref is not None and (ref.place != OUTSIDE or ref.flags & YOUNG)
        for card in array.cards or ()
        for ref in array.refs[card * items : (card + 1) * items]
    )
    is_wrong = array.flags & TRACK_YOUNG and array.flags & VISITED and not has_young
    original(minor, array)
    if is_wrong and major.is_marking():
        array.flags |= VISITED
        major.to_rescan.pop()


@bug(FinalizingMinor, "_drag_out_all", "reference-finalizers")
def young_ephemerons_are_decided_before_young_finalizers(
    original: Method, minor: FinalizingMinor, parents: list[Object]
) -> None:
    """A young ephemeron's only parent is dead; that has a young finalizer; the key is alive."""
    MinorCollection._drag_out_all(minor, parents)
    drag_out, trace = minor._drag_out_if_young, minor._drag_out_from_old
    minor._heap.ephemerons.after_minor_trace(drag_out, trace)
    minor._heap.finalizers.after_minor_trace(drag_out)
    trace()


@bug(ChargingAhead, "notify", "reference-hotspot-17")
def sample_outside_a_buffer_takes_back_what_the_buffer_charged(
    original: Method, sampling: ChargingAhead, size_bytes: int, placed: Placed
) -> Any:
    """An object lies outside its thread's buffer; it is sampled; the buffer has charged bytes."""
    thread = sampling._eden.thread
    charged_bytes = sampling._charged_bytes[thread]
    samples = original(sampling, size_bytes, placed)
    if samples and placed == "outside":
        sampling._charged_bytes[thread] -= charged_bytes
    return samples


@bug(FinalizingMajor, "_mark_finalizable", "reference-finalizers")
def ephemeron_that_only_a_finalizer_keeps_loses_its_value(
    original: Method, major: FinalizingMajor, deaths: Deaths
) -> None:
    """Only an object in the queue has an ephemeron; its key is alive; the object is resurrected."""
    ephemerons = major._heap.ephemerons
    ephemerons.old = [entry for entry in ephemerons.old if is_marked(entry.obj)]
    original(major, deaths)


@bug(Finalizers, "after_marking", "reference-finalizers")
def finalizer_that_waits_for_a_referrer_cannot_be_taken_back(
    original: Method, finalizers: Finalizers
) -> Deaths:
    """A finalizer waits for that of a parent; the parent is resurrected; the other is taken back."""
    deaths: Deaths = original(finalizers)
    waiting = [entry for entry in finalizers.old if not entry.obj.flags & VISITED]
    finalizers.__dict__["_waiting"] = waiting
    return deaths


@also("finalizer_that_waits_for_a_referrer_cannot_be_taken_back", Finalizers, "unregister")
def _unregister_but_waiting(original: Method, finalizers: Finalizers, obj: Object) -> None:
    waiting = [entry for entry in finalizers.__dict__.get("_waiting", ()) if entry.obj is obj]
    kept = [entry for entry in finalizers.old if entry in waiting]
    original(finalizers, obj)
    finalizers.old += kept


@bug(Ephemerons, "visit_values", "reference-finalizers")
def dead_ephemeron_keeps_the_value_of_a_prebuilt_key(
    original: Method, ephemerons: Ephemerons, visit: Callable[[Object], None]
) -> None:
    """An ephemeron dies old; its key is prebuilt, and never written; its value is dead too."""
    original(ephemerons, visit)
    for entry in ephemerons.old:
        if entry.key.flags & NO_HEAP_REFERENCES and not is_marked(entry.value):
            visit(entry.value)
    original(ephemerons, visit)


@bug(Identities, "after_minor_collection")
def identity_of_an_unpinned_object_is_inherited_in_its_place(
    original: Method, identities: Identities, pinned: Mapping[int, Object], is_marking: bool
) -> None:
    """A pinned object's identity is known; it is unpinned and moves; the next one there is pinned.

    The next one must have the same size, and its identity is taken while it is pinned.
    """
    original(identities, pinned, is_marking)
    by_address = identities.__dict__.setdefault("_by_address", {})
    for address, obj in pinned.items():
        if obj.flags & HAS_SHADOW:
            by_address[address] = identities._shadows[obj]


@also("identity_of_an_unpinned_object_is_inherited_in_its_place", Identities, "_shadow")
def _shadow_of_address(original: Method, identities: Identities, obj: Object) -> Any:
    if obj.flags & PINNED and not obj.flags & HAS_SHADOW:
        memory = cast(Any, identities._place_old).__self__.nursery.memory
        by_address = identities.__dict__.get("_by_address", {})
        address = next((at for at, each in memory.items() if each is obj), None)
        earlier = by_address.get(address)
        if earlier is not None and earlier.size_bytes == obj.size_bytes:
            obj.flags |= HAS_SHADOW
            identities._shadows[obj] = by_address.pop(address)
            return earlier
    return original(identities, obj)


@bug(Finalizers, "after_marking", "reference-finalizers")
def second_finalizer_of_a_cycle_is_dropped_with_the_first(
    original: Method, finalizers: Finalizers
) -> Any:
    """Objects of a cycle have finalizers; they die together; the first one was run and dropped."""
    pending = [*finalizers.pending]
    deaths = original(finalizers)
    heads = {entry.obj for entry in finalizers.pending if entry not in pending}
    kept = []
    for entry in finalizers.old:
        dead = Deaths()
        if not entry.obj.flags & VISITED and deaths.count(entry.obj):
            dead.add_head(entry.obj)
        if heads.isdisjoint(dead.objects()):
            kept.append(entry)
    finalizers.old = kept
    return deaths


@bug(GroupingHeap, "allocate_group", "reference-groups")
def padding_of_a_string_in_a_group_names_the_next_member(
    original: Method, heap: GroupingHeap, members: Sequence[tuple[Kind, int]]
) -> Any:
    """A group has a string; the sampled byte lies in its padding; another member follows it."""
    heap.allocation.__dict__["_raws"] = [_raw_bytes(kind, number) for kind, number in members]
    return original(heap, members)


@also("padding_of_a_string_in_a_group_names_the_next_member", GroupAllocation, "record")
def _record_by_raw_sizes(
    original: Method,
    allocation: GroupAllocation,
    address: int,
    size_bytes: int,
    passed: Sequence[int],
) -> None:
    sizes = allocation._sizes
    if not sizes:
        original(allocation, address, size_bytes, passed)
        return
    raws, counts = allocation.__dict__["_raws"], [0] * len(sizes)
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    for each in passed:
        offset = size_bytes - each
        index = max(index for index, start in enumerate(starts) if start <= offset)
        if offset - starts[index] >= raws[index] and index + 1 < len(sizes):
            index += 1
        counts[index] += 1
    for index in reversed(range(len(sizes))):
        allocation._heap.sampling.record(address + starts[index], counts[index], sizes[index])


@bug(LimitedMajor, "_is_exhausted", "reference-exhaustion")
def card_marks_do_not_count_towards_the_limit(
    original: Method, major: LimitedMajor, reserve_bytes: int
) -> bool:
    """Large arrays have cards; the heap exceeds its limit by less than these; all of it lives."""
    large = major._heap.large_objects
    outside = (*large.old, *large.to_sweep, *large.young)
    cards_bytes = sum(large.memory_bytes(obj) - obj.size_bytes for obj in outside)
    used_bytes = major._heap.memory_used_bytes() - cards_bytes
    return major.threshold_bytes - used_bytes < reserve_bytes


@bug(FinalizingHeap, "resurrect", "reference-finalizers")
def resurrection_takes_the_destructor_back(
    original: Method, heap: FinalizingHeap, number: int
) -> None:
    """A node has a destructor and a finalizer; that has run; the node is resurrected, and dies."""
    obj = heap.finalizers.kept[number]
    original(heap, number)
    old = heap.destructors.old
    heap.destructors.old = [entry for entry in old if entry.obj is not obj]
