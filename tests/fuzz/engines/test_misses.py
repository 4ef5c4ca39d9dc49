"""Small mistakes in the reference which sessions once missed: each is found by any seed.

They are no bugs of the field, so they are planted here alone. What it takes is an array whose young
items are copied about, or a weak reference that is read after its object died in an unusual way.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.targets import make_target
from gcmodel.collector.barrier import Barrier
from gcmodel.collector.major import MajorCollection
from gcmodel.collector.minor import MinorCollection
from gcmodel.collector.pinning import Pinning
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.objects import OUTSIDE, PINNED, TRACK_YOUNG, VISITED_YOUNG, YOUNG, Object

ACTIONS_MAX = 30_000
Method = Callable[..., None]


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


def card_cut_short_is_not_traced(
    original: Method, minor: MinorCollection, array: Object, card: int
) -> None:
    if (card + 1) * minor._heap.configuration.card_items <= len(array.refs):  # noqa: SLF001
        original(minor, array, card)


def weakrefs_are_cleared_before_the_last_rescan(original: Method, major: MajorCollection) -> None:
    major._heap.weakrefs.after_marking()  # noqa: SLF001
    original(major)


def what_is_pinned_never_dies(original: Method, weakrefs: Weakrefs, weakref: Object) -> None:
    if weakref.target.flags & PINNED:
        weakrefs.young.append(weakref)
    else:
        original(weakrefs, weakref)


def dead_large_object_is_taken_for_old(
    original: Method, weakrefs: Weakrefs, weakref: Object
) -> None:
    target = weakref.target
    if target.place == OUTSIDE and target.flags & YOUNG and not target.flags & VISITED_YOUNG:
        weakrefs.old.append(weakref)
    else:
        original(weakrefs, weakref)


def dead_parents_keep_what_is_pinned(original: Method, pinning: Pinning) -> None:
    """Those that the major collection did not reach are kept too."""


MISSES: dict[Callable[..., None], tuple[type, str]] = {
    no_barrier_within_one_array: (Barrier, "before_copy"),
    young_destination_is_remembered: (Barrier, "before_copy"),
    only_the_first_card_is_copied: (Barrier, "_before_copy_of_cards"),
    nothing_young_is_forgotten: (Barrier, "forget_young"),
    ninth_card_is_never_marked: (Barrier, "mark_card"),
    card_cut_short_is_not_traced: (MinorCollection, "_drag_out_card"),
    weakrefs_are_cleared_before_the_last_rescan: (MajorCollection, "_finish_marking"),
    what_is_pinned_never_dies: (Weakrefs, "_follow"),
    dead_large_object_is_taken_for_old: (Weakrefs, "_follow"),
    dead_parents_keep_what_is_pinned: (Pinning, "after_marking"),
}
"""Each mistake, and the method that it takes the place of, which it gets first."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("mistake", MISSES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_that_was_missed_is_found(
    mistake: Callable[..., None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = MISSES[mistake]
    original = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given: mistake(original, *given))
    engine = RandomEngine(make_target("reference"), str(seed))
    found = slices_of(engine, ACTIONS_MAX, ProbeCounter())
    assert any(done.failures for done in found)
