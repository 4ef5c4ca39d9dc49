"""Relations: objects of any age refer to each other and are dropped, between collections.

A plan (`planner`) brings facts about, most of them on old objects. Many mistakes need a young
graph: an object that refers to others, whose identity is known, to which something refers weakly,
and which nothing else has. So this scenario draws many relations between a few objects. Few of them
collect. Then most of what others refer to is dropped, and a collection follows. With it, minor
collections find six times as many young objects that have a reference and whose identity is known
(docs/evidence/effectiveness.md). Invariant: as in `cast`, a step that is not legal is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from fuzz.drawing.cast import Cast
from fuzz.drawing.deaths import lives_again
from fuzz.drawing.fact import BringAbout, dimensions_for
from fuzz.drawing.facts_of_heaps import (
    callback_allocates,
    collected,
    collection_is_due,
    is_crowded,
    is_paused,
    samples_often,
)
from fuzz.drawing.facts_of_objects import (
    identity_is_known,
    is_copied,
    is_pinned,
    is_weakly_referenced,
    weak_are_read,
)
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.situation import Choices, Scenario
from fuzz.mutator.legality import why_nothing_pinned
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol import actions
from fuzz.protocol.contract import Contract

ROUNDS_MAX = 3
PREBUILT_SHARE = 12
"""One new object in that many is a prebuilt one. So some stay that were never written."""
RELATIONS_IN_ROUND = (8, 16)
"""How many relations a round draws. With 2, 4 or 8, fewer bugs were found."""
LAST_ROUNDS_MAX = 3
"""How often all objects are dropped at the end, if finalizers let some live again."""
DEPTH, FIELDS_MAX = 3, 2
"""How many levels of what an object refers to are looked into, and how many fields of each."""


def objects_are_related(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Objects of any age are related, collected, and looked at; some have died."""
    cast = Cast(mutator, choices)
    yield from _sampler(cast)
    if choices.one_in(2):
        yield from callback_allocates(cast)
    if choices.one_in(2):
        yield from _new(cast)
        yield from _relations(cast)
        yield from collected(cast)
    for _ in range(choices.between(1, ROUNDS_MAX)):
        yield from _round(cast)
    for obj in dict.fromkeys(cast.identified):
        yield from cast.act(mutator.take_identity, obj)
    for holder in cast.living(lambda obj: any(obj.refs)):
        yield from _looked_into(cast, holder, DEPTH)
    yield from _end(cast)


def _sampler(cast: Cast) -> Scenario:
    """Sampling goes on as it is, is paused, or has a period of some words."""
    match cast.choices.below(6):
        case 0:
            yield from is_paused(cast)
        case 1 | 2 | 3:
            yield from samples_often(cast)


def _round(cast: Cast) -> Scenario:
    """Old and new objects are related, some are dropped, and a collection follows."""
    choices = cast.choices
    if choices.one_in(2):
        yield from collected(cast)
    for _ in range(choices.between(0, 2)):
        yield from _new(cast)
    yield from _relations(cast)
    # What was pinned moves in this collection. Few facts unpin anything.
    if choices.one_in(3):
        for obj in cast.objects:
            yield from cast.act(cast.mutator.unpin, obj)
    if cast.contract.finalizers and choices.below(4):
        for obj in cast.living():
            if choices.below(4):
                yield from cast.act(cast.mutator.free, obj)
    yield from _collection(cast)
    yield from weak_are_read(cast, cast.weak)
    if choices.below(3):
        yield from _finalized(cast)


def _end(cast: Cast) -> Scenario:
    """All are dropped, and die. So do those that finalizers let live again."""
    for _ in range(LAST_ROUNDS_MAX):
        for obj in dict.fromkeys(cast.objects):
            yield from cast.act(cast.mutator.free, obj)
        yield from cast.act(actions.CollectFull)
        yield from weak_are_read(cast, cast.weak)
        yield from _finalized(cast)
        if not cast.living():
            break
    for obj in cast.weak:
        yield from cast.act(cast.mutator.free, obj)


def _new(cast: Cast) -> Scenario:
    """One more object: a prebuilt one, any other, or a node, most of the time with a finalizer."""
    choices = cast.choices
    if cast.shadow.prebuilt and choices.one_in(PREBUILT_SHARE):
        yield from cast.new(cast.mutator.load_prebuilt)
        return
    if not cast.contract.finalizers or choices.one_in(4):
        yield from cast.new(cast.anything)
        return
    nodes: list[ShadowObject] = []
    yield from cast.add(nodes, cast.mutator.any_node)
    for node in nodes:
        if choices.below(4):
            yield from cast.act(cast.mutator.register_finalizer, node)
    cast.objects[:0] = nodes


def _collection(cast: Cast) -> Scenario:
    """One that the mutator asks for, or that an allocation brings."""
    # Under the contracts of V8 and Go, no allocation has to collect.
    if not any(map(cast.mutator.supports, ("collect_minor", "collect_step"))):
        yield from cast.act(actions.CollectFull)
        return
    match cast.choices.below(7):
        case 0 | 1:
            yield from cast.act(actions.CollectMinor)
        case 2 | 3:
            for _ in range(cast.choices.between(1, 3)):
                yield from cast.act(actions.CollectStep)
        case 4:
            yield from cast.act(actions.CollectFull)
        case 5:
            yield from is_crowded(cast)
        case _:
            yield from collection_is_due(cast)
            yield from cast.new(cast.anything)


# Relations.


def _relations(cast: Cast) -> Scenario:
    """Relations come about, and most of what others refer to is dropped."""
    choices, kinds = cast.choices, _kinds(cast.contract)
    for _ in range(choices.pick(RELATIONS_IN_ROUND)):
        yield from choices.pick(kinds)(cast)
    # An object with more than one reference to it survives most mistakes.
    for obj in _held(cast):
        if choices.below(4):
            yield from cast.act(cast.mutator.free, obj)


def _kinds(contract: Contract) -> Sequence[BringAbout]:
    """The kinds of relations that the contract allows."""
    supported = {*contract.actions} - (set() if contract.pins_max != 0 else {"pin"})
    kinds = RELATIONS + OF_FINALIZERS if contract.finalizers else RELATIONS
    return [kind for kind in kinds if NEEDED_FOR.get(kind) in (None, *supported)]


def _held(cast: Cast) -> list[ShadowObject]:
    """The roots to which an object, perhaps itself, or an ephemeron as its value, refers."""
    held = {ref for obj in cast.objects for ref in obj.refs}
    held.update(ephemeron.value for ephemeron in cast.ephemerons)
    return [obj for obj in (*cast.objects, *cast.weak) if obj in held and obj in cast.roots]


def _held_is_dropped(cast: Cast) -> Scenario:
    for obj in _held(cast)[:1]:
        yield from cast.act(cast.mutator.free, obj)


def _is_pinned(cast: Cast) -> Scenario:
    """A string is pinned. A callback, or sampling, that excludes pins goes on most of the time."""
    if cast.choices.one_in(3) or not why_nothing_pinned(cast.contract, cast.shadow):
        yield from is_pinned(cast)


def _has_fact(cast: Cast) -> Scenario:
    facts = cast.choices.pick(dimensions_for(cast.contract))
    yield from cast.choices.pick(facts).bring_about(cast)


def _refers(cast: Cast) -> Scenario:
    """An object refers to another one, which may be a weak reference, or to nothing more."""
    choices = cast.choices
    for holder in cast.among(lambda obj: obj.refs):
        value = choices.pick([*cast.living(), *cast.weak]) if choices.below(8) else None
        yield from cast.act(cast.mutator.write, holder, value)


def _is_in_ephemeron(cast: Cast) -> Scenario:
    objects = cast.living()
    for one in cast.among():
        pairs = [(one, cast.choices.pick([*objects, *cast.weak]))]
        for key, value in pairs if cast.choices.below(3) else pairwise(objects):
            yield from cast.add(cast.ephemerons, cast.mutator.ephemeron, key, value)


def _has_finalizer(cast: Cast) -> Scenario:
    for obj in cast.among(lambda obj: obj.kind == "node"):
        yield from cast.act(cast.mutator.register_finalizer, obj)


def _finalizer_is_taken_back(cast: Cast) -> Scenario:
    for obj in cast.among():
        yield from cast.act(cast.mutator.unregister_finalizer, obj)
        # Lua calls such a finalizer in its old place of the order.
        if cast.choices.one_in(2):
            yield from cast.act(cast.mutator.register_finalizer, obj)


RELATIONS: tuple[BringAbout, ...] = (
    *(identity_is_known, is_weakly_referenced, _is_pinned, is_copied),
    *(_held_is_dropped, _has_fact, _new, *[_refers] * 4),
)
OF_FINALIZERS: tuple[BringAbout, ...] = (
    *(_is_in_ephemeron, _has_finalizer, _finalizer_is_taken_back),
)
NEEDED_FOR: Mapping[BringAbout, str] = {_is_pinned: "pin", is_copied: "copy_array"}
"""The action without which a relation would act, but never come about."""


# What is seen.


def _looked_into(cast: Cast, holder: ShadowObject, depth: int) -> Scenario:
    """What only the object refers to is a root for a moment, and what that refers to."""
    unrooted = [field for field, ref in enumerate(holder.refs) if ref not in (None, *cast.roots)]
    for field in unrooted[:FIELDS_MAX]:
        found: list[ShadowObject] = []
        yield from cast.add(found, cast.mutator.read, holder, field)
        for obj in found:
            if obj in cast.identified:
                yield from cast.act(cast.mutator.take_identity, obj)
            yield from weak_are_read(cast, [obj])
            if depth > 1 and any(obj.refs):
                yield from _looked_into(cast, obj, depth - 1)
            yield from cast.act(cast.mutator.free, obj)


def _finalized(cast: Cast) -> Scenario:
    """Finalizers run, and most of what they keep lives again."""
    if not cast.contract.finalizers:
        return
    choices = cast.choices
    yield from cast.act(actions.RunFinalizers, bool(choices.below(4)))
    for number in [*cast.shadow.finalizers.kept]:
        if choices.below(4) and cast.mutator.situation.has_slot():
            yield from lives_again(cast, number)
