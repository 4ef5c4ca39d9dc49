"""Small mistakes in the reference which sessions once missed: each is found by any seed.

They are no bugs of the field, so they are planted here alone. What it takes is an array whose young
items are copied about, or a weak reference that is read after its object died in an unusual way; or
somebody who looks at the memory in use, at when a major collection begins, and at empty reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.targets import make_target
from gcmodel.collector.arenas import USABLE_PAGES, Arena, Page, PagedArenas
from gcmodel.collector.barrier import Barrier
from gcmodel.collector.heap import Heap
from gcmodel.collector.identities import Identities
from gcmodel.collector.large_objects import LargeObjects
from gcmodel.collector.major import MajorCollection
from gcmodel.collector.pinning import Pinning
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.events import Report
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.objects import (
    OUTSIDE,
    PINNED,
    TRACK_YOUNG,
    VISITED,
    VISITED_YOUNG,
    YOUNG,
    Object,
)
from gcmodel.sampling.sampler import Sampler

ACTIONS_MAX = 30_000
Method = Callable[..., Any]


def no_barrier_within_one_array(
    original: Method, barrier: Barrier, source: Object, dest: Object, *places: int
) -> None:
    if source is not dest:
        original(barrier, source, dest, *places)


def young_destination_is_remembered(
    original: Method, barrier: Barrier, source: Object, dest: Object, *places: int
) -> None:
    if not dest.flags & TRACK_YOUNG:
        barrier.remembered.append(dest)
    original(barrier, source, dest, *places)


def only_the_first_card_is_copied(
    original: Method, barrier: Barrier, source: Object, dest: Object, *places: int
) -> None:
    before = {*dest.cards} if dest.cards else set()
    original(barrier, source, dest, *places)
    if dest.cards:
        dest.cards &= {0} | before


def nothing_young_is_forgotten(original: Method, barrier: Barrier) -> None:
    """A dead young array keeps its items alive."""


def ninth_card_is_never_marked(
    original: Method, barrier: Barrier, array: Object, card: int
) -> None:
    if card != 8:
        original(barrier, array, card)


def weakrefs_are_cleared_before_the_last_rescan(original: Method, major: MajorCollection) -> None:
    major._heap.weakrefs.after_marking()  # noqa: SLF001
    original(major)


def what_is_pinned_never_dies(original: Method, weakrefs: Weakrefs, weakref: Object) -> None:
    assert weakref.target is not None
    if weakref.target.flags & PINNED:
        weakrefs.young.append(weakref)
    else:
        original(weakrefs, weakref)


def dead_large_object_is_taken_for_old(
    original: Method, weakrefs: Weakrefs, weakref: Object
) -> None:
    target = weakref.target
    assert target is not None
    if target.place == OUTSIDE and target.flags & YOUNG and not target.flags & VISITED_YOUNG:
        weakrefs.old.append(weakref)
    else:
        original(weakrefs, weakref)


def dead_parents_keep_what_is_pinned(original: Method, pinning: Pinning) -> None:
    """Those that the major collection did not reach are kept too."""


def large_objects_are_never_freed(original: Method, large: LargeObjects, count: int) -> None:
    for obj in large.to_sweep:
        obj.flags |= VISITED
    original(large, count)


def cards_take_one_word(original: Method, large: LargeObjects, obj: Object) -> int:
    return obj.size_bytes + WORD_BYTES * (obj.cards is not None)


def remembered_source_has_its_cards_copied(
    original: Method, barrier: Barrier, source: Object, dest: Object, *places: int
) -> None:
    flags = source.flags
    source.flags |= TRACK_YOUNG
    original(barrier, source, dest, *places)
    source.flags = flags


def parents_of_what_is_pinned_are_forgotten_in_a_copy(
    original: Method, heap: Heap, *places: int
) -> None:
    parents, heap.pinning.parents = heap.pinning.parents, {}
    original(heap, *places)
    heap.pinning.parents = parents


def object_whose_identity_is_taken_is_taken_for_old(
    original: Method, identities: Identities, obj: Object
) -> object:
    obj.flags |= TRACK_YOUNG
    return original(identities, obj)


def an_arena_has_one_page_more(original: Method, arenas: PagedArenas) -> Arena:
    arena: Arena = original(arenas)
    arena.untouched_pages += arena.untouched_pages == USABLE_PAGES
    return arena


def pages_never_come_back(original: Method, arenas: PagedArenas, page: Page) -> None:
    free_pages = page.arena.free_pages
    original(arenas, page)
    page.arena.free_pages = free_pages


def arenas_are_never_given_back(original: Method, arenas: PagedArenas) -> None:
    arenas._has_pages_back = False  # noqa: SLF001
    original(arenas)


def major_collections_never_come(original: Method, *_: object) -> bool:
    return False


def only_one_major_collection_comes(original: Method, major: MajorCollection, extra: int) -> bool:
    return not major.started and bool(original(major, extra))


def pressure_never_collects(original: Method, *_: object) -> bool:
    return False


def every_minor_collection_reports(
    original: Method, sampler: Sampler, statistics: Callable[[], tuple[int, int, int]]
) -> None:
    if not sampler.pending:
        sampler._events.report(Report([], *statistics()))  # noqa: SLF001
    original(sampler, statistics)


def minor_collections_report_while_sampling_is_off(
    original: Method, sampler: Sampler, statistics: Callable[[], tuple[int, int, int]]
) -> None:
    if sampler.period_bytes:
        original(sampler, statistics)
    else:
        every_minor_collection_reports(original, sampler, statistics)


def disabling_keeps_what_is_pending(original: Method, sampler: Sampler) -> None:
    pending = [*sampler.pending]
    original(sampler)
    sampler.pending += pending


MISSES: dict[Callable[..., Any], tuple[type, str]] = {
    no_barrier_within_one_array: (Barrier, "before_copy"),
    young_destination_is_remembered: (Barrier, "before_copy"),
    only_the_first_card_is_copied: (Barrier, "_before_copy_of_cards"),
    nothing_young_is_forgotten: (Barrier, "forget_young"),
    ninth_card_is_never_marked: (Barrier, "mark_card"),
    weakrefs_are_cleared_before_the_last_rescan: (MajorCollection, "_finish_marking"),
    what_is_pinned_never_dies: (Weakrefs, "_follow"),
    dead_large_object_is_taken_for_old: (Weakrefs, "_follow"),
    dead_parents_keep_what_is_pinned: (Pinning, "after_marking"),
    large_objects_are_never_freed: (LargeObjects, "sweep"),
    cards_take_one_word: (LargeObjects, "memory_bytes"),
    remembered_source_has_its_cards_copied: (Barrier, "_before_copy_of_cards"),
    parents_of_what_is_pinned_are_forgotten_in_a_copy: (Heap, "copy_array"),
    object_whose_identity_is_taken_is_taken_for_old: (Identities, "_shadow"),
    an_arena_has_one_page_more: (PagedArenas, "_next_arena"),
    pages_never_come_back: (PagedArenas, "_sweep_page"),
    arenas_are_never_given_back: (PagedArenas, "_rehash"),
    major_collections_never_come: (MajorCollection, "threshold_reached"),
    only_one_major_collection_comes: (MajorCollection, "threshold_reached"),
    pressure_never_collects: (MajorCollection, "pressure"),
    every_minor_collection_reports: (Sampler, "report"),
    minor_collections_report_while_sampling_is_off: (Sampler, "report"),
    disabling_keeps_what_is_pending: (Sampler, "disable"),
}
"""Each mistake, and the method that it takes the place of, which it gets first."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("mistake", MISSES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_that_was_missed_is_found(
    mistake: Callable[..., Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = MISSES[mistake]
    original = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given: mistake(original, *given))
    engine = RandomEngine(make_target("reference"), str(seed))
    found = slices_of(engine, ACTIONS_MAX, ProbeCounter())
    assert any(done.failures for done in found)
