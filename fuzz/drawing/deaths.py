"""Scenarios of deaths: objects die, are finalized, and may live again.

The general scenario of objects that are related is in `relations`. Two here have one relation each,
since real collectors got these wrong: with its scenario, a mistake of Lua's weak tables takes 384
actions, and 18,000 with a general one alone (docs/evidence/effectiveness.md). Invariant: as in
`cast`, a step of `lives_again` that is not legal is left out.
"""

from __future__ import annotations

from itertools import pairwise

from fuzz.drawing.cast import Cast
from fuzz.drawing.facts_of_objects import weak_are_read
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.situation import Choices, Scenario
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol import actions

CHAIN_MAX = 4


def collected_perhaps(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Nothing, or a minor collection, some steps of a major one, or a full collection."""
    match choices.below(5):
        case 1:
            yield from mutator.if_legal(actions.CollectMinor)
        case 2:
            for _ in range(choices.between(1, 6)):
                yield from mutator.if_legal(actions.CollectStep)
        case 3 | 4:
            yield from mutator.if_legal(actions.CollectFull)


def lives_again(cast: Cast, number: int) -> Scenario:
    """The object of that finalizer is a root again. It may be looked at, and may die."""
    choices, mutator = cast.choices, cast.mutator
    resurrected: list[ShadowObject] = []
    weakrefs: list[ShadowObject] = []
    yield from cast.add(resurrected, actions.Resurrect, number)
    for obj in resurrected:
        match choices.below(4):
            case 0 | 1:
                for field, ref in enumerate(obj.refs):
                    if ref is not None:
                        yield from _child_is_seen(cast, obj, field)
            case 2:
                yield from cast.act(mutator.register_finalizer, obj)
            case 3:
                yield from cast.add(weakrefs, mutator.weakref, obj)
        if weakrefs or choices.below(3):
            yield from cast.act(mutator.free, obj)
        else:
            cast.objects.append(obj)
    if weakrefs:
        # A collector may not clear a weak reference to an object whose finalizer was found before.
        yield from cast.act(actions.RunFinalizers)
        yield from cast.act(actions.CollectFull)
        yield from weak_are_read(cast, weakrefs)
        cast.weakrefs.extend(weakrefs)


def _child_is_seen(cast: Cast, holder: ShadowObject, field: int) -> Scenario:
    """What only a resurrected object refers to is a root for a moment."""
    found: list[ShadowObject] = []
    yield from cast.add(found, cast.mutator.read, holder, field)
    for obj in found:
        yield from weak_are_read(cast, [obj])
        if cast.choices.one_in(4):
            yield from cast.act(cast.mutator.unregister_finalizer, obj)
        yield from cast.act(cast.mutator.free, obj)


def weakref_is_resurrected(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Only an object with a finalizer has a weak reference, to itself or to another dead object."""
    holder = yield from mutator.new(mutator.any_node())
    yield from mutator.if_legal(mutator.register_finalizer, holder)
    target = holder
    if choices.below(3):
        target = yield from mutator.new(mutator.any_node())
        if choices.one_in(3):
            yield from mutator.if_legal(mutator.register_finalizer, target)
    weakref = yield from mutator.new(mutator.weakref(target))
    yield from collected_perhaps(mutator, choices)
    yield mutator.write(holder, weakref)
    for obj in dict.fromkeys((weakref, target, holder)):
        yield mutator.free(obj)
    yield from collected_perhaps(mutator, choices)
    yield actions.CollectFull()
    yield actions.RunFinalizers(keep=True)
    for number in [*mutator.situation.bench.shadow.finalizers.kept]:
        resurrected = yield from mutator.new(actions.Resurrect(number))
        if any(resurrected.refs):
            yield from _read_from(mutator, resurrected)
        yield mutator.free(resurrected)


def _read_from(mutator: ScenarioMutator, obj: ShadowObject) -> Scenario:
    """What only the object keeps is read, a weak reference first."""
    refs = [(ref.kind != "weakref", field) for field, ref in enumerate(obj.refs) if ref is not None]
    yield mutator.read(obj, min(refs)[1])
    found = mutator.newest()
    if found.kind == "weakref":
        yield mutator.read_weakref(found)
    yield mutator.free(found)


def ephemerons_form_a_chain(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """The value of each ephemeron is the key of another one. The key, or a value, dies first."""
    chain: list[ShadowObject] = []
    ephemerons: list[ShadowObject] = []
    for number in range(choices.between(2, CHAIN_MAX)):
        chain.append((yield from mutator.new(actions.AllocateNode(number))))
        if choices.one_in(4):
            yield from collected_perhaps(mutator, choices)
    pairs = [*pairwise(chain)]
    if choices.one_in(2):
        pairs.reverse()
    for key, value in pairs:
        pair = mutator.slot(key), mutator.slot(value)
        ephemerons.append((yield from mutator.new(actions.AllocateEphemeron(*pair))))
    if choices.one_in(3):
        yield from mutator.if_legal(mutator.register_finalizer, choices.pick(chain))
    for value in chain[1:]:
        yield mutator.free(value)
    yield from _read_after_collection(mutator, choices, ephemerons)
    yield mutator.free(chain[0])
    yield from _read_after_collection(mutator, choices, ephemerons)
    yield actions.RunFinalizers()
    yield actions.CollectFull()
    yield from _read_after_collection(mutator, choices, ephemerons)


def _read_after_collection(
    mutator: ScenarioMutator, choices: Choices, ephemerons: list[ShadowObject]
) -> Scenario:
    yield from collected_perhaps(mutator, choices)
    for ephemeron in ephemerons:
        yield mutator.read_ephemeron(ephemeron)
