"""The planner: many facts hold at once, events follow, and everything is checked.

Most mistakes that tests miss need three things at once: an object is pinned, its identity is known,
and marking is under way. A scenario for each does not scale. So a plan draws facts, at most one of
a dimension, brings them about on objects that are related, and draws events. Many facts are better
than three: ten that hold at the same time have 120 triples among them. With twelve dimensions in a
plan 81 % of the hunts for such bugs were won, with eight 74 % (docs/evidence/effectiveness.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from fuzz.drawing.cast import Cast
from fuzz.drawing.fact import BringAbout, Fact, dimensions_for
from fuzz.drawing.facts_of_heaps import (
    collected,
    collection_is_due,
    is_crowded,
    is_off,
    samples_often,
)
from fuzz.drawing.facts_of_objects import (
    has_moved_child,
    is_copied,
    is_dropped,
    is_finalized,
    is_resurrected,
    is_unpinned,
    is_unregistered,
    is_written,
    weak_are_read,
)
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.situation import Choices, Scenario
from fuzz.protocol import actions
from fuzz.protocol.actions import Action

DIMENSIONS = (8, 12, 16)
"""In how many dimensions a plan has a fact, or in all if there are fewer."""
EVENTS_MAX = 4
HELD_SHARE = 3
"""One fact or event in that many is about an object that only another one refers to, if any is."""
COLLECTED_SHARES = (3, 6, 16, 64)
"""One fact in that many is followed by a collection, or by some steps of one."""
LIFE_COLLECTIONS = 80
FULL_SHARE, SLOW_FULL_SHARE = 3, 16
"""One collection of a long life in that many is full. Without steps it is a slow one, in V8 and
HotSpot of some milliseconds."""
CROWDED_SHARE = 8
"""One collection of a long life in that many has something to move or to free."""
WHILE_ALIVE = ((), (actions.CollectMinor,), (actions.CollectFull,))
"""What is collected before the objects are dropped, one of these."""


def _happens(action: Callable[[], Action]) -> BringAbout:
    return lambda cast: cast.act(action)


EVENTS: tuple[BringAbout, ...] = (
    *map(_happens, (actions.CollectMinor, actions.CollectFull, actions.CollectStep)),
    *map(_happens, (actions.Fork, actions.Fork, actions.ResumeSampling, actions.PauseSampling)),
    *(samples_often, is_off, is_crowded, is_crowded, collection_is_due),
    *(is_written, has_moved_child, is_copied, is_dropped, is_unpinned),
)
"""What shows a mistake while facts hold; those that show more are repeated."""
OF_FINALIZERS: tuple[BringAbout, ...] = (
    *(is_finalized, is_finalized, is_resurrected, is_unregistered),
)


def facts_meet(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Facts about some objects meet, in any order and in any state of the collector."""
    cast = Cast(mutator, choices)
    yield from _meeting(cast)
    yield from _followed_by_events(cast)


def objects_live_long(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """The same, and many collections come between the facts and the events.

    What counts the collections that an object survives may overflow or saturate: HotSpot's age has
    four bits. What is known of the objects is looked at before and after. The middle is idle, so
    that it costs little.
    """
    cast = Cast(mutator, choices)
    yield from _meeting(cast)
    for obj in cast.living()[:1]:
        yield from cast.add(cast.weakrefs, mutator.weakref, obj)
    yield from _look_at_identities(cast, is_new=True)
    # A full collection by steps has a minor one before each step, so there are hundreds of these.
    full_share = FULL_SHARE if mutator.supports("collect_step") else SLOW_FULL_SHARE
    for _ in range(LIFE_COLLECTIONS):
        if choices.one_in(CROWDED_SHARE):
            yield from is_crowded(cast)
        is_full = choices.one_in(full_share)
        yield from cast.act(actions.CollectFull if is_full else actions.CollectMinor)
    yield from _look_at_identities(cast, is_new=True)
    yield from weak_are_read(cast, cast.weak)
    yield from cast.act(actions.CheckContents)
    yield from _followed_by_events(cast)


def _meeting(cast: Cast) -> Scenario:
    """Objects, and facts that are brought about on them."""
    choices = cast.choices
    facts = _drawn_facts(cast)
    if choices.below(2):
        yield from samples_often(cast)
    yield from _first_objects(cast, facts)
    # Most of the time few collections come in between, so that much is true of young objects.
    share = choices.pick(COLLECTED_SHARES)
    for fact in facts:
        if choices.one_in(8):
            yield from cast.add(cast.objects, cast.anything)
        # The second time it is often another object: some mistakes need two of a kind.
        for _ in range(1 + choices.one_in(6)):
            yield from _brought_about(cast, fact.bring_about)
        if choices.one_in(share):
            yield from collected(cast)


def _followed_by_events(cast: Cast) -> Scenario:
    """What shows a mistake while the facts hold, and all that can be seen of the objects."""
    choices = cast.choices
    if choices.below(4):
        yield from _drop(cast)
    events = EVENTS + OF_FINALIZERS if cast.contract.finalizers else EVENTS
    for _ in range(choices.between(1, EVENTS_MAX)):
        yield from _brought_about(cast, choices.pick(events))
        # An allocation shows what an event did to the sampler and to the nursery.
        if choices.one_in(2):
            yield from is_crowded(cast)
    yield from _drop(cast)
    yield from _check(cast)


def _drawn_facts(cast: Cast) -> Sequence[Fact]:
    """Facts of different dimensions. Most of the time those that collect come first."""
    choices = cast.choices
    left = [*dimensions_for(cast.contract)]
    count = min(choices.pick(DIMENSIONS), len(left))
    facts = [choices.pick(left.pop(choices.below(len(left)))) for _ in range(count)]
    if choices.below(4):
        facts.sort(key=lambda fact: (not fact.collects) + fact.is_brief)
    return facts


def _brought_about(cast: Cast, bring_about: BringAbout) -> Scenario:
    """The fact or event is about any object, or one that only another one refers to.

    Such an object is read for it, and dropped again.
    """
    if cast.choices.one_in(HELD_SHARE):
        for held in [obj for obj in cast.objects if obj not in cast.roots]:
            for slot, holder in enumerate(cast.roots):
                if held in holder.refs:
                    yield from cast.act(actions.Read, slot, holder.refs.index(held))
                    yield from bring_about(attrs.evolve(cast, objects=[held]))
                    yield from cast.act(cast.mutator.free, held)
                    return
    yield from bring_about(cast)


def _first_objects(cast: Cast, facts: Sequence[Fact]) -> Scenario:
    """One or two objects. Only a string can be pinned."""
    choices, may_pin = cast.choices, any("pin" in fact.needs for fact in facts)
    yield from cast.new(cast.string if may_pin and choices.below(2) else cast.anything)
    if choices.one_in(3):
        yield from cast.add(cast.objects, cast.anything)
    elif cast.objects and choices.one_in(3):
        yield from cast.add(cast.objects, cast.like, cast.objects[0])


def _drop(cast: Cast) -> Scenario:
    for obj in cast.to_drop:
        yield from cast.act(cast.mutator.free, obj)


def _check(cast: Cast) -> Scenario:
    """What can be seen of the objects: where they are, when they have moved, when they are dead."""
    choices, mutator = cast.choices, cast.mutator
    if choices.one_in(2):
        for obj in cast.objects:
            yield from cast.act(mutator.unpin, obj)
    for collect in choices.pick(WHILE_ALIVE):
        yield from cast.act(collect)
    yield from _look_at_identities(cast, is_new=choices.one_in(4))
    if cast.shadow.paused_bytes is not None or choices.one_in(4):
        yield from cast.act(actions.ResumeSampling)
        yield from is_crowded(cast)
    yield from weak_are_read(cast, cast.weak)
    if choices.one_in(4):
        yield from cast.act(actions.CheckContents)
    if choices.below(4):
        yield from _free(cast)
    yield from _check_dead(cast)


def _check_dead(cast: Cast) -> Scenario:
    """A full collection finds what is dead, and finalizers may run."""
    for collect in (actions.CollectMinor, actions.CollectFull):
        yield from cast.act(collect)
        yield from weak_are_read(cast, cast.weak)
        if cast.contract.finalizers and cast.choices.below(2):
            yield from is_finalized(cast)
            yield from _look_at_identities(cast)
    for obj in cast.weak:
        yield from cast.act(cast.mutator.free, obj)
    if cast.choices.below(2):
        yield from _free(cast)


def _look_at_identities(cast: Cast, *, is_new: bool = False) -> Scenario:
    """Of those objects whose identity is known; or of all, if it may be a new one."""
    for obj in cast.objects if is_new else dict.fromkeys(cast.identified):
        yield from cast.act(cast.mutator.take_identity, obj)


def _free(cast: Cast) -> Scenario:
    for obj in cast.objects:
        yield from cast.act(cast.mutator.free, obj)
