"""Twenty bugs of `gcmodel`, each of which shows only if three things or more are true at once.

Each docstring says the facts. The first scenario of deaths lost more hunts for these than its parent, and was changed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from late_declared import Method, declarations

from gcmodel.blocks.block_heap import Block, BlockHeap
from gcmodel.collector.barrier import Barrier
from gcmodel.collector.ephemerons import Ephemeron, Ephemerons, is_marked
from gcmodel.collector.finalizers import Deaths, Finalizers
from gcmodel.collector.finalizing import FinalizingHeap, FinalizingMajor
from gcmodel.collector.grouping import GroupingHeap
from gcmodel.collector.identities import Identities
from gcmodel.collector.limited import LimitedMajor
from gcmodel.collector.major import FINALIZING, SWEEPING, MajorCollection
from gcmodel.collector.minor import MinorCollection
from gcmodel.memory.errors import HeapExhaustedError
from gcmodel.memory.layout import Kind
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import CARDS_SET, HAS_SHADOW, TRACK_YOUNG, VISITED, Object
from gcmodel.sampling.sampler import Sampler
from gcmodel.sampling.shipped_contexts import ShippedSampling
from gcmodel.sampling.slow_path import Allocation

BUGS, bug, also = declarations()


@bug(MajorCollection, "_scan_roots")
def prebuilt_object_first_written_while_marking_stays_black(
    original: Method, major: MajorCollection
) -> None:
    """A prebuilt object is first written while it marks; only it has a child; a cycle follows."""
    original(major)
    major.__dict__["_scanned"] = list(major._heap.barrier.prebuilt_roots)


@also("prebuilt_object_first_written_while_marking_stays_black", MajorCollection, "_sweep")
def _sweep_and_whiten_scanned(original: Method, major: MajorCollection, reserve_bytes: int) -> None:
    scanned = major.__dict__.get("_scanned", ())
    late = [
        obj
        for obj in major._heap.barrier.prebuilt_roots
        if obj.flags & VISITED and obj not in scanned
    ]
    original(major, reserve_bytes)
    if major.state is FINALIZING:
        for obj in late:
            obj.flags |= VISITED


@bug(BlockHeap, "realloc", "reference-jemalloc")
def sample_of_a_block_resized_while_paused_stays_in_the_profile(
    original: Method, heap: BlockHeap, block: Block, requested_bytes: int
) -> Any:
    """A block is sampled; sampling is paused; the block is resized; the profile is read."""
    if heap._samplers[heap.thread].is_paused:
        block.sample = None
    return original(heap, block, requested_bytes)


@bug(FinalizingMajor, "_finish_marking", "reference-finalizers")
def finalizers_are_due_before_prebuilt_objects_are_visited(
    original: Method, major: FinalizingMajor
) -> None:
    """A prebuilt object is first written while it marks; its only child is new; with a finalizer."""
    heap = major._heap
    heap.ephemerons.visit_values(major._mark_now)
    deaths = heap.finalizers.after_marking()
    heap.weakrefs.before_finalizers(deaths)
    major._mark_finalizable(deaths)
    heap.ephemerons.after_marking()
    heap.destructors.after_marking()
    MajorCollection._finish_marking(major)


@bug(Ephemerons, "visit_values", "reference-finalizers")
def ephemeron_that_the_value_of_another_keeps_is_not_asked(
    original: Method, ephemerons: Ephemerons, visit: Callable[[Object], None]
) -> None:
    """Only an ephemeron's value has an ephemeron; its key is alive; only it has its value."""
    asked = [entry for entry in ephemerons.old if is_marked(entry.obj)]
    found = True
    while found:
        found = False
        for entry in asked:
            if is_marked(entry.key) and not is_marked(entry.value):
                visit(entry.value)
                found = True


@bug(GroupingHeap, "allocate_group", "reference-groups")
def pinned_member_is_an_obstacle_where_its_group_began(
    original: Method, heap: GroupingHeap, members: Sequence[tuple[Kind, int]]
) -> Any:
    """A member of a group, not the first, is pinned; a collection comes; an object is put there."""
    answer = original(heap, members)
    starts = heap.nursery.__dict__.setdefault("_starts", {})
    for obj in heap.roots[-len(members) :]:
        starts[obj] = heap.nursery.nursery_start + answer[1]
    return answer


@also("pinned_member_is_an_obstacle_where_its_group_began", Nursery, "empty")
def _empty_but_groups(original: Method, nursery: Nursery, pinned: Mapping[int, Object]) -> None:
    original(nursery, pinned)
    starts = nursery.__dict__.get("_starts")
    if pinned and starts:
        places = sorted(
            (starts.get(obj, address), obj.size_bytes) for address, obj in pinned.items()
        )
        nursery.obstacles = [(start, start + size_bytes) for start, size_bytes in reversed(places)]
        nursery._end_room()
        nursery.nursery_limit = nursery.nursery_top


@bug(FinalizingHeap, "resurrect", "reference-finalizers")
def object_that_was_resurrected_once_is_kept_no_more(
    original: Method, heap: FinalizingHeap, number: int
) -> None:
    """An object is kept; it is resurrected and dropped; a major collection comes before the run."""
    original(heap, number)
    heap.finalizers.__dict__.setdefault("_resurrected", set()).add(number)


@also("object_that_was_resurrected_once_is_kept_no_more", Finalizers, "roots")
def _roots_without_resurrected(original: Method, finalizers: Finalizers) -> list[Object]:
    resurrected = finalizers.__dict__.get("_resurrected", ())
    kept = [obj for number, obj in finalizers.kept.items() if number not in resurrected]
    return [*(entry.obj for entry in finalizers.pending), *kept]


@bug(MinorCollection, "_drag_out_cards")
def array_written_before_the_sweep_reaches_it_is_made_white(
    original: Method, minor: MinorCollection, array: Object
) -> None:
    """A large array has a dirty card; a sweep is in progress, and has not reached it."""
    is_wrong = array.flags & TRACK_YOUNG and array.cards and minor._heap.major.state is SWEEPING
    original(minor, array)
    if is_wrong:
        array.flags &= ~VISITED


@bug(Ephemerons, "_promote", "reference-finalizers")
def ephemeron_has_the_former_place_of_a_key_with_an_identity(
    original: Method, ephemerons: Ephemerons, entry: Ephemeron, drag_out: Callable[[Object], Object]
) -> None:
    """An ephemeron's key is young; its identity is known; a major collection asks for the key."""
    key = entry.key
    original(ephemerons, entry, drag_out)
    if key.flags & HAS_SHADOW:
        entry.key = key


@bug(FinalizingHeap, "allocate_destructible", "reference-exhaustion")
def destructor_of_a_node_that_was_not_allocated_is_called(
    original: Method, heap: FinalizingHeap, number: int, destructor: int
) -> Any:
    """A node with a destructor is asked for; the heap is exhausted; another object came before."""
    try:
        return original(heap, number, destructor)
    except HeapExhaustedError:
        if heap.roots:
            heap.destructors.add(heap.roots[-1], destructor)
        raise


@bug(Allocation, "_collect")
def second_collection_of_an_allocation_drops_the_callbacks_sample(
    original: Method, allocation: Allocation, collections: int
) -> Any:
    """A callback's string is sampled; it leaves too little room; so another collection follows."""
    if collections == 1:
        allocation._heap.sampling.pending.clear()
    return original(allocation, collections)


@bug(MinorCollection, "_drag_out_card")
def card_traced_while_marking_has_no_parent_for_its_pinned_item(
    original: Method, minor: MinorCollection, array: Object, card: int
) -> None:
    """A large array's card is dirty; its item is pinned, and nothing else has it; it marks.

    The major collection must be marking when the card is traced. The pinned item dies one minor
    collection later.
    """
    if not minor._heap.major.is_marking():
        original(minor, array, card)
        return
    items = minor._heap.configuration.card_items
    stop = min((card + 1) * items, len(array.refs))
    minor._drag_out_range(array.refs, card * items, stop, None)


@bug(BlockHeap, "set_period", "reference-tcmalloc")
def setting_the_period_reweighs_the_distances_of_other_threads(
    original: Method, heap: BlockHeap, period_bytes: int
) -> None:
    """A thread sets another period; a second thread has a distance already; that one samples."""
    original(heap, period_bytes)
    for thread, sampler in enumerate(heap._samplers):
        if thread != heap.thread:
            cast(Any, sampler).picked_period_bytes = period_bytes


@bug(Sampler, "enable")
def enabling_again_drops_pending_samples_outside(
    original: Method, sampler: Sampler, period_bytes: int
) -> None:
    """Sampling is on, and enabled again; a sample is pending; its object lies outside."""
    if sampler.period_bytes:
        sampler.pending[:] = [each for each in sampler.pending if isinstance(each, int)]
    original(sampler, period_bytes)


@bug(FinalizingMajor, "_mark_finalizable", "reference-finalizers")
def pinning_forgets_a_parent_that_only_a_finalizer_keeps(
    original: Method, major: FinalizingMajor, deaths: Deaths
) -> None:
    """A pinned object has one parent; that dies, and has a finalizer; it is resurrected later."""
    major._heap.pinning.after_marking()
    original(major, deaths)


@bug(Barrier, "_before_copy_of_cards")
def copy_within_an_array_shifts_its_dirty_cards_by_whole_cards(
    original: Method,
    barrier: Barrier,
    source: Object,
    dest: Object,
    source_start: int,
    dest_start: int,
    length: int,
) -> None:
    """A large array has a dirty card; it is copied within itself; not by a multiple of cards."""
    if source is not dest or not source.flags & CARDS_SET or barrier._is_marking():
        original(barrier, source, dest, source_start, dest_start, length)
        return
    assert dest.cards is not None
    shift = (dest_start - source_start) // barrier._card_items
    last = (len(dest.refs) - 1) // barrier._card_items
    dest.cards |= {card + shift for card in dest.cards if 0 <= card + shift <= last}


@bug(Identities, "_shadow")
def place_reserved_while_marking_is_black_before_its_object_comes(
    original: Method, identities: Identities, obj: Object
) -> Object:
    """An identity is taken young, while it marks; the object survives; only it has some child."""
    is_new = not obj.flags & HAS_SHADOW
    shadow: Object = original(identities, obj)
    if is_new and cast(Any, identities._place_old).__self__.major.is_marking():
        shadow.flags |= VISITED
    return shadow


@bug(MajorCollection, "pressure", "reference-exhaustion")
def pressure_is_reserved_for_an_object_outside(
    original: Method, major: MajorCollection, extra_bytes: int
) -> Any:
    """There was memory pressure; an object outside collects for it; the heap is near its limit."""
    major.__dict__["_pressed_bytes"] = major.__dict__.get("_pressed_bytes", 0) + extra_bytes
    return original(major, extra_bytes)


@also("pressure_is_reserved_for_an_object_outside", LimitedMajor, "_set_threshold")
def _set_threshold_with_pressure(
    original: Method, major: LimitedMajor, bytes_wanted: float, reserve_bytes: int
) -> None:
    pressed_bytes = major.__dict__.pop("_pressed_bytes", 0)
    original(major, bytes_wanted, reserve_bytes + (pressed_bytes if reserve_bytes else 0))


@bug(Identities, "_shadow")
def place_reserved_beside_the_arenas_joins_the_sweep_in_progress(
    original: Method, identities: Identities, obj: Object
) -> Object:
    """An identity is taken young; the object is too large for an arena; a sweep is in progress."""
    is_new = not obj.flags & HAS_SHADOW
    shadow: Object = original(identities, obj)
    heap = cast(Any, identities._place_old).__self__
    large = heap.large_objects
    if is_new and heap.major.state is SWEEPING and large.old and large.old[-1] is shadow:
        large.to_sweep.append(large.old.pop())
    return shadow


@bug(Deaths, "add_head", "reference-finalizers")
def finalizers_are_not_ordered_through_large_arrays(
    original: Method, deaths: Deaths, head: Object
) -> None:
    """Two objects with finalizers die together; one leads to the other; by a large array only."""
    deaths.heads.append(head)
    found, pending = {head}, [head]
    for obj in pending:  # It grows.
        deaths._counts[obj] = deaths.count(obj) + 1
        for ref in obj.refs if obj.cards is None else ():
            if ref is not None and ref not in found and not ref.flags & VISITED:
                found.add(ref)
                pending.append(ref)


@bug(ShippedSampling, "judge_outside", "reference-dotnet")
def object_outside_is_judged_again_if_a_collection_ended_its_context(
    original: Method, sampling: ShippedSampling, size_bytes: int
) -> None:
    """An object lies outside; its allocation collects; its thread had a context; sampling is on."""
    context = sampling._threads.contexts[sampling._threads.thread]
    had_context = context.alloc_limit > 0
    sampling.__dict__["_judged_in"] = sampling._threads.filling if had_context else None
    original(sampling, size_bytes)


@also(
    "object_outside_is_judged_again_if_a_collection_ended_its_context",
    ShippedSampling,
    "allocated_outside",
)
def _judged_again(
    original: Method, sampling: ShippedSampling, obj: Object, counted_bytes: int
) -> None:
    judged_in = sampling.__dict__.get("_judged_in")
    if judged_in is not None and judged_in != sampling._threads.filling:
        sampling.samples_outside = sampling.judge(counted_bytes)
    original(sampling, obj, counted_bytes)
