"""Scenarios of finalizers and ephemerons: objects die, and it is observed.

As in `scenarios`, each is a generator of actions that have been dangerous together: an object is
resurrected while marking, objects wait for each other, a queue is emptied late.
"""

from __future__ import annotations

from itertools import pairwise

from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.situation import Choices, Scenario
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol import actions

NODES_MAX = 4
CHAIN_MAX = 4


def collected(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Nothing, or a minor collection, some steps of a major one, or a full collection."""
    match choices.below(5):
        case 1:
            yield from mutator.if_legal(actions.CollectMinor)
        case 2:
            for _ in range(choices.between(1, 6)):
                yield from mutator.if_legal(actions.CollectStep)
        case 3 | 4:
            yield from mutator.if_legal(actions.CollectFull)


def objects_with_finalizers_die(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Nodes with finalizers refer to each other and to others, die, and may be resurrected."""
    nodes: list[ShadowObject] = []
    weakrefs: list[ShadowObject] = []
    for _ in range(choices.between(1, NODES_MAX)):
        nodes.append((yield from mutator.new(mutator.any_node())))
        if choices.below(4):
            yield from mutator.if_legal(mutator.register_finalizer, nodes[-1])
        if choices.one_in(4) and mutator.supports("allocate_weakref"):
            weakrefs.append((yield from mutator.new(mutator.weakref(nodes[-1]))))
        if choices.one_in(4):
            yield from collected(mutator, choices)
    for _ in range(choices.between(0, 2 * len(nodes))):
        yield mutator.write(choices.pick(nodes), choices.pick([*nodes, *weakrefs]))
    if choices.one_in(3):
        yield from collected(mutator, choices)
    if choices.one_in(8) and mutator.supports("unregister_finalizer"):
        yield actions.UnregisterFinalizer(mutator.slot(choices.pick(nodes)))
    if choices.one_in(4):
        yield from mutator.if_legal(mutator.sample_often)
    for node in nodes if choices.below(4) else nodes[1:]:
        yield from mutator.if_legal(mutator.free, node)
    yield from _dead_are_finalized(mutator, choices, weakrefs)


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
    yield from collected(mutator, choices)
    yield mutator.write(holder, weakref)
    for obj in dict.fromkeys((weakref, target, holder)):
        yield mutator.free(obj)
    yield from collected(mutator, choices)
    yield actions.CollectFull()
    yield actions.RunFinalizers(keep=True)
    for number in [*mutator.situation.bench.shadow.finalizers.kept]:
        resurrected = yield from mutator.new(actions.Resurrect(number))
        if any(resurrected.refs):
            yield from _read_from(mutator, resurrected)
        yield mutator.free(resurrected)


def _dead_are_finalized(
    mutator: ScenarioMutator, choices: Choices, weakrefs: list[ShadowObject]
) -> Scenario:
    """Again and again, collections find some dead, and their finalizers run or wait."""
    for _ in range(choices.between(1, 4)):
        yield from collected(mutator, choices)
        for weakref in weakrefs:
            yield from mutator.if_legal(mutator.read_weakref, weakref)
        if choices.one_in(3):
            continue
        yield actions.RunFinalizers(keep=choices.one_in(2))
        for number in [*mutator.situation.bench.shadow.finalizers.kept]:
            if choices.below(2) and mutator.situation.has_slot():
                yield from _resurrected(mutator, choices, number)


def _resurrected(mutator: ScenarioMutator, choices: Choices, number: int) -> Scenario:
    """An object is a root again. It may be looked at, get another finalizer, and die."""
    obj = yield from mutator.new(actions.Resurrect(number))
    match choices.below(4):
        case 1 if any(obj.refs):
            yield from _read_from(mutator, obj)
        case 2:
            yield from mutator.if_legal(mutator.register_finalizer, obj)
        case 3 if mutator.supports("allocate_weakref"):
            yield mutator.weakref(obj)
            weakref = mutator.newest()
            yield mutator.free(obj)
            yield actions.RunFinalizers()
            yield actions.CollectFull()
            yield mutator.read_weakref(weakref)
    if choices.below(3):
        yield from mutator.if_legal(mutator.free, obj)


def _read_from(mutator: ScenarioMutator, obj: ShadowObject) -> Scenario:
    """What only the object keeps is read, a weak reference first."""
    refs = [(ref.kind != "weakref", field) for field, ref in enumerate(obj.refs) if ref is not None]
    yield actions.Read(mutator.slot(obj), min(refs)[1])
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
            yield from collected(mutator, choices)
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
    yield from collected(mutator, choices)
    for ephemeron in ephemerons:
        yield actions.ReadEphemeron(mutator.slot(ephemeron))
