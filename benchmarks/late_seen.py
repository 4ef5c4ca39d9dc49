"""Ten bugs of `gcmodel`, each of which shows only if three things or more are true at once.

Each docstring says the three. They were tuned by, and those of `late_unseen` were not.
"""

from __future__ import annotations

from typing import Any

from late_declared import Method, declarations

from gcmodel.collector.barrier import CARDS_IN_BYTE, Barrier
from gcmodel.collector.finalizers import Deaths, Finalizers
from gcmodel.collector.finalizing import FinalizingMajor
from gcmodel.collector.large_objects import LargeObjects
from gcmodel.collector.limited import LimitedMajor
from gcmodel.collector.major import MajorCollection
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.errors import HeapExhaustedError
from gcmodel.memory.objects import PINNED, TRACK_YOUNG, VISITED, VISITED_YOUNG, Object
from gcmodel.sampling.sample_point import Sampling

BUGS, bug, _ = declarations()


@bug(Barrier, "_before_copy_of_cards")
def copied_cards_replace_those_of_the_destination(
    original: Method,
    barrier: Barrier,
    source: Object,
    dest: Object,
    source_start: int,
    dest_start: int,
    length: int,
) -> None:
    """A large array is copied to a large one; cards are copied; the latter has another dirty."""
    original(barrier, source, dest, source_start, dest_start, length)
    byte_items = CARDS_IN_BYTE * barrier._card_items
    copied = {card for card in source.cards or () if card // CARDS_IN_BYTE * byte_items < length}
    if copied and dest is not source and dest.cards is not None and dest.flags & TRACK_YOUNG:
        dest.cards.intersection_update(copied)


@bug(LargeObjects, "free_young")
def card_marks_of_written_array_that_dies_young_stay_counted(
    original: Method, large_objects: LargeObjects, collection: str
) -> None:
    """A large array has cards; one of them was dirtied; the array dies in its first collection."""
    dead = [obj for obj in large_objects.young if obj.cards and not obj.flags & VISITED_YOUNG]
    lost_bytes = sum(large_objects.memory_bytes(obj) - obj.size_bytes for obj in dead)
    original(large_objects, collection)
    large_objects.used_bytes += lost_bytes


@bug(Weakrefs, "after_marking")
def weakref_is_cleared_after_the_weakref_it_refers_to(original: Method, weakrefs: Weakrefs) -> None:
    """A weak reference is weakly referred to; it is cleared now; it comes first in the list."""
    chained = [
        (weakref, weakref.target)
        for place, weakref in enumerate(weakrefs.old)
        if weakref.target in weakrefs.old[place + 1 :]
    ]
    original(weakrefs)
    for weakref, target in chained:
        if weakref in weakrefs.old and target is not None and target.target is None:
            weakref.target = None
            weakrefs.old.remove(weakref)


@bug(Sampling, "jumped")
def jump_out_of_an_unused_room_moves_no_sample_point(
    original: Method, sampling: Sampling, jump_bytes: int
) -> None:
    """Sampling is on; two objects are pinned; an object does not fit the room between them."""
    nursery = sampling._nursery
    jumped_to = sampling.__dict__.get("_jumped_to")
    is_wrong = jumped_to == (nursery.filling, nursery.nursery_free - jump_bytes)
    sampling.__dict__["_jumped_to"] = nursery.filling, nursery.nursery_free
    original(sampling, 0 if is_wrong else jump_bytes)


@bug(MajorCollection, "_make_gray")
def marking_ends_at_the_first_pinned_child(
    original: Method, major: MajorCollection, refs: Any
) -> None:
    """An object has several children; one is pinned while it is visited; another comes later."""
    if refs is not major._heap.roots:
        pinned = [index for index, ref in enumerate(refs) if ref and ref.flags & PINNED]
        refs = refs[: pinned[0]] if pinned else refs
    original(major, refs)


@bug(Finalizers, "run", "reference-finalizers")
def next_run_drops_the_new_finalizer_of_a_resurrected_object(
    original: Method, finalizers: Finalizers, keep: bool
) -> Any:
    """An object was kept; it gets a finalizer again; the queue is run before any collection."""
    kept = [*finalizers.kept.values()]
    numbers = original(finalizers, keep)
    finalizers.young = [entry for entry in finalizers.young if entry.obj not in kept]
    return numbers


@bug(FinalizingMajor, "_mark_finalizable", "reference-finalizers")
def chain_from_a_finalizable_key_is_followed_once(
    original: Method, major: FinalizingMajor, deaths: Deaths
) -> None:
    """Only a finalizer keeps a key; the value is a key itself; its ephemeron is listed before."""
    for head in deaths.heads:
        major._mark_now(head)
    for entry in major._heap.ephemerons.old:
        if entry.obj.flags & VISITED and entry.key.flags & VISITED:
            major._mark_now(entry.value)


@bug(Finalizers, "roots", "reference-finalizers")
def pending_finalizers_hide_the_kept_objects(original: Method, finalizers: Finalizers) -> Any:
    """An object is kept; another one's finalizer is pending; a major collection scans roots."""
    return [entry.obj for entry in finalizers.pending] or original(finalizers)


@bug(FinalizingMajor, "_mark_finalizable", "reference-finalizers")
def destructor_comes_before_the_values_of_finalizable_keys(
    original: Method, major: FinalizingMajor, deaths: Deaths
) -> None:
    """Only a finalizer keeps a key; its ephemeron lives; the value has a destructor."""
    for head in deaths.heads:
        major._mark_now(head)
    major._heap.destructors.after_marking()
    original(major, deaths)


@bug(LimitedMajor, "_set_threshold", "reference-exhaustion")
def paused_period_is_lost_when_no_object_fits_outside(
    original: Method, major: LimitedMajor, bytes_wanted: float, reserve_bytes: int
) -> None:
    """The heap is exhausted; an object outside was asked for; sampling is paused."""
    try:
        original(major, bytes_wanted, reserve_bytes)
    except HeapExhaustedError:
        if reserve_bytes:
            major._heap.sampling.paused_period_bytes = 0
        raise
