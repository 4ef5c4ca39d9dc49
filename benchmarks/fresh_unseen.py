"""Twenty bugs of `gcmodel`, each of which shows only if three things or more are true at once.

Each docstring says the facts. They were written after the scenario of deaths, and nothing was changed because of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from late_declared import Method, declarations

from gcmodel.collector.arenas import USABLE_PAGES, PagedArenas
from gcmodel.collector.barrier import Barrier
from gcmodel.collector.ephemerons import Ephemeron, Ephemerons, is_marked
from gcmodel.collector.finalizers import Finalizer, Finalizers
from gcmodel.collector.finalizing import FinalizingHeap, FinalizingMinor
from gcmodel.collector.grouping import GroupingHeap
from gcmodel.collector.heap import Heap
from gcmodel.collector.limited import LimitedMajor
from gcmodel.collector.minor import MinorCollection
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.errors import HeapExhaustedError
from gcmodel.memory.layout import Kind, rounded, string_bytes
from gcmodel.memory.objects import (
    CARDS_SET,
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
from gcmodel.sampling.sample_point import Sampling
from gcmodel.sampling.sampler import Sampler

BUGS, bug, also = declarations()


@bug(Ephemerons, "after_marking", "reference-finalizers")
def ephemeron_with_a_prebuilt_value_is_not_asked_for_its_key(
    original: Method, ephemerons: Ephemerons
) -> None:
    """An ephemeron lives; its key is dead; its value is prebuilt, and was never written."""
    kept = [
        entry
        for entry in ephemerons.old
        if is_marked(entry.obj)
        and not is_marked(entry.key)
        and entry.value.flags & NO_HEAP_REFERENCES
    ]
    original(ephemerons)
    ephemerons.old += kept


@bug(Finalizers, "run", "reference-finalizers")
def run_of_an_empty_queue_keeps_what_the_last_run_kept(
    original: Method, finalizers: Finalizers, keep: bool
) -> Any:
    """An object was kept; the queue is empty at the next run; a major collection asks for it."""
    return original(finalizers, keep) if finalizers.pending else []


@bug(Finalizers, "register", "reference-finalizers")
def finalizer_of_an_old_object_comes_before_those_of_young_ones(
    original: Method, finalizers: Finalizers, obj: Object, number: int
) -> None:
    """A cycle has a young object and an old one; the young one is registered first; both die.

    No collection comes between the registrations.
    """
    if obj.place == OUTSIDE and not obj.flags & YOUNG:
        finalizers.old.append(Finalizer(number, obj))
    else:
        original(finalizers, obj, number)


@bug(Ephemerons, "_promote", "reference-finalizers")
def young_value_outside_is_taken_for_an_old_one(
    original: Method, ephemerons: Ephemerons, entry: Ephemeron, drag_out: Callable[[Object], Object]
) -> None:
    """An ephemeron's value lies outside; it is young; only the ephemeron has it; the key lives."""
    value = entry.value
    if value.place == OUTSIDE:
        entry.value = entry.key
    original(ephemerons, entry, drag_out)
    if value.place == OUTSIDE:
        entry.value = value


@bug(FinalizingMinor, "_drag_out_all", "reference-finalizers")
def object_that_a_young_finalizer_keeps_is_no_parent(
    original: Method, minor: FinalizingMinor, parents: list[Object]
) -> None:
    """A young dead node has a finalizer; only it has a pinned string; one more minor collection."""
    heap = minor._heap
    MinorCollection._drag_out_all(minor, parents)
    heap.finalizers.after_minor_trace(minor._drag_out_if_young)
    reached = dict(heap.pinning.parents)
    minor._drag_out_from_old()
    heap.pinning.parents = reached
    heap.ephemerons.after_minor_trace(minor._drag_out_if_young, minor._drag_out_from_old)


@bug(FinalizingMinor, "_drag_out_all", "reference-finalizers")
def samples_are_judged_before_the_values_of_young_ephemerons(
    original: Method, minor: FinalizingMinor, parents: list[Object]
) -> None:
    """An object is sampled; only a young ephemeron has it; the ephemeron survives."""
    heap = minor._heap
    MinorCollection._drag_out_all(minor, parents)
    heap.finalizers.after_minor_trace(minor._drag_out_if_young)
    minor._drag_out_from_old()
    heap.sampling.report(heap.statistics)
    heap.ephemerons.after_minor_trace(minor._drag_out_if_young, minor._drag_out_from_old)


@bug(FinalizingMinor, "_drag_out_all", "reference-finalizers")
def ephemeron_that_grew_old_while_marking_is_not_asked(
    original: Method, minor: FinalizingMinor, parents: list[Object]
) -> None:
    """An ephemeron grows old while it marks; its key dies before marking ends; it is read later."""
    ephemerons = minor._heap.ephemerons
    before = len(ephemerons.old)
    original(minor, parents)
    if minor._heap.major.is_marking():
        ephemerons.__dict__.setdefault("_new", []).extend(ephemerons.old[before:])


@also("ephemeron_that_grew_old_while_marking_is_not_asked", Ephemerons, "after_marking")
def _after_marking_but_new(original: Method, ephemerons: Ephemerons) -> None:
    new = ephemerons.__dict__.pop("_new", [])
    kept = [entry for entry in new if is_marked(entry.obj) and not is_marked(entry.key)]
    original(ephemerons)
    ephemerons.old += kept


@bug(FinalizingHeap, "allocate_ephemeron", "reference-finalizers")
def value_is_looked_up_before_its_ephemeron_collects(
    original: Method, heap: FinalizingHeap, key_root: int, value_root: int
) -> Any:
    """An ephemeron's allocation collects; its value is young; the value moves."""
    value = heap._object(value_root)
    placed = original(heap, key_root, value_root)
    heap.ephemerons.young[-1].value = value
    return placed


@bug(FinalizingHeap, "resurrect", "reference-finalizers")
def resurrection_while_marking_blackens(
    original: Method, heap: FinalizingHeap, number: int
) -> None:
    """An object is kept; it is resurrected while it marks, not visited yet; only it has a child."""
    original(heap, number)
    if heap.major.is_marking():
        heap.roots[-1].flags |= VISITED


@bug(LimitedMajor, "_sweep", "reference-exhaustion")
def prebuilt_objects_are_made_white_after_the_heap_was_found_exhausted(
    original: Method, major: LimitedMajor, reserve_bytes: int
) -> None:
    """The heap is exhausted; a prebuilt object is black; only it has a child; a cycle follows."""
    black = [obj for obj in major._heap.barrier.prebuilt_roots if obj.flags & VISITED]
    try:
        original(major, reserve_bytes)
    except HeapExhaustedError:
        for obj in black:
            obj.flags |= VISITED
        raise


@bug(FinalizingHeap, "progress_and_call_back", "reference-exhaustion")
def callback_follows_a_collection_that_exhausts_the_heap(
    original: Method, heap: FinalizingHeap, extra_bytes: int
) -> None:
    """A callback is set; an object outside collects; the heap is exhausted; the string is there."""
    try:
        original(heap, extra_bytes)
    except HeapExhaustedError:
        length = heap.callback_length
        if length is not None and extra_bytes:
            heap._place_young(Kind.STRING, rounded(string_bytes(length)), length, 0)
        raise


@bug(GroupingHeap, "allocate_group", "reference-groups")
def write_of_a_member_into_another_one_needs_no_barrier(
    original: Method, heap: GroupingHeap, members: Sequence[tuple[Kind, int]]
) -> Any:
    """A member of a group is written into another; they are old, or one is; only it has the member.

    The holder is old and the member pinned, or it marks, and the holder is black.
    """
    answer = original(heap, members)
    groups = heap.__dict__.setdefault("_groups", [])
    groups.append(heap.roots[-len(members) :])
    del groups[:-64]
    return answer


@also("write_of_a_member_into_another_one_needs_no_barrier", Heap, "write")
def _write_in_group(
    original: Method, heap: Heap, root: int, field: int, value_root: int | None
) -> None:
    if value_root is not None:
        obj, value = heap._object(root), heap._object(value_root)
        for group in heap.__dict__.get("_groups", ()):
            members = [member.forwarded_to or member for member in group]
            if obj in members and value in members:
                obj.refs[field] = value
                return
    original(heap, root, field, value_root)


@bug(GroupingHeap, "allocate_group", "reference-groups")
def sampled_member_is_judged_by_the_first_one_of_its_group(
    original: Method, heap: GroupingHeap, members: Sequence[tuple[Kind, int]]
) -> Any:
    """A group's member is sampled, not the first one; one of the two survives, and one dies."""
    answer = original(heap, members)
    group = heap.roots[-len(members) :]
    firsts = heap.sampling.__dict__.get("_firsts", {})
    firsts = {obj: first for obj, first in firsts.items() if obj.place == heap.nursery.filling}
    heap.sampling.__dict__["_firsts"] = {**firsts, **dict.fromkeys(group, group[0])}
    return answer


@also("sampled_member_is_judged_by_the_first_one_of_its_group", Sampler, "has_survived")
def _has_survived_with_first(original: Method, sampler: Sampler, obj: Object) -> bool:
    return bool(original(sampler, sampler.__dict__.get("_firsts", {}).get(obj, obj)))


@bug(Sampler, "resume")
def resuming_forgets_that_a_collection_is_due(original: Method, sampler: Sampler) -> None:
    """Sampling is paused; memory pressure makes a collection due; it is resumed before that."""
    nursery, is_paused = sampler._nursery, sampler.paused_period_bytes
    original(sampler)
    if is_paused and nursery.is_collection_due and isinstance(sampler, Sampling):
        nursery.nursery_limit = min(sampler.sample_point, nursery.nursery_top)


@bug(Weakrefs, "_follow")
def weakref_to_a_survivor_outside_waits_for_another_minor_collection(
    original: Method, weakrefs: Weakrefs, weakref: Object
) -> None:
    """A young object outside is weakly referred to; it survives; then it dies before any is new."""
    target = weakref.target
    if target is not None and target.flags & YOUNG and target.flags & VISITED_YOUNG:
        weakrefs.young.append(weakref)
    else:
        original(weakrefs, weakref)


@bug(Barrier, "_before_copy_of_cards")
def copy_at_equal_places_is_aligned(
    original: Method,
    barrier: Barrier,
    source: Object,
    dest: Object,
    source_start: int,
    dest_start: int,
    length: int,
) -> None:
    """Large arrays are copied; the source has dirty cards; the places are equal, and far from 0.

    A young object lies behind as many items as are copied, and their byte of cards.
    """
    if source_start == dest_start:
        source_start = dest_start = 0
    original(barrier, source, dest, source_start, dest_start, length)


@bug(Barrier, "before_fill")
def fill_dirties_whole_cards_only(original: Method, barrier: Barrier, array: Object) -> None:
    """A large array is old; it is filled with a young object; its last card is not a whole one."""
    items = barrier._card_items
    is_old = array.flags & TRACK_YOUNG and not array.flags & YOUNG
    if array.cards is None or not is_old or len(array.refs) < items:
        original(barrier, array)
        return
    for card in range(len(array.refs) // items):
        barrier.mark_card(array, card)


@bug(MinorCollection, "_visit_young")
def array_that_grows_old_clean_while_marking_is_not_listed_later(
    original: Method, minor: MinorCollection, obj: Object
) -> None:
    """A large array is not written while young; it survives while marking; then it is written.

    Only it has the young object.
    """
    is_clean = obj.cards is not None and not obj.cards and not obj.flags & VISITED_YOUNG
    dirty = minor._heap.barrier.dirty_arrays
    original(minor, obj)
    is_marking = minor._heap.major.is_marking()
    if is_marking and is_clean and obj.flags & CARDS_SET and dirty and dirty[-1] is obj:
        dirty.pop()


@bug(PagedArenas, "_rehash")
def arena_that_was_full_is_not_given_back(original: Method, arenas: PagedArenas) -> None:
    """All pages of an arena are in use; all of its objects die in one sweep; pages are counted."""
    full = arenas._resting[0]
    lost = [arena for arena in full if arena.free_pages == USABLE_PAGES]
    arenas._resting[0] = [arena for arena in full if arena not in lost]
    original(arenas)
    arenas._resting[0] += lost


@bug(MinorCollection, "_conclude")
def weakref_to_a_dead_young_object_shows_its_reserved_place(
    original: Method, minor: MinorCollection
) -> None:
    """A young object is weakly referred to; its identity was taken; it dies in the nursery."""
    heap = minor._heap
    dead = []
    for young in heap.weakrefs.young:
        weakref, target = young.forwarded_to, young.target
        if weakref is None or target is None or target.forwarded_to is not None:
            continue
        is_kept = target.flags & PINNED and target.flags & VISITED_YOUNG
        if target.flags & HAS_SHADOW and target.place == heap.nursery.filling and not is_kept:
            dead.append((weakref, heap.identities._shadows[target]))
    original(minor)
    for weakref, shadow in dead:
        weakref.target = shadow
        heap.weakrefs.old.append(weakref)
