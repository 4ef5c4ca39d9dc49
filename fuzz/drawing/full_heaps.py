"""The scenario of a heap that is full: memory is exhausted, and the mutator goes on."""

from __future__ import annotations

from collections.abc import Generator

from fuzz.drawing.deaths import collected_perhaps
from fuzz.drawing.scenario_mutator import ObjectGoneError, ScenarioMutator
from fuzz.drawing.situation import Choices, Scenario, Situation
from fuzz.mutator.legality import length_max
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol import actions

STRINGS_MAX = 6
FREED_MAX = 4
WORDS = 4
"""A string ends at most this many words before the limit, or after it."""


def heap_is_filled(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Strings fill the heap up to its limit or beyond. Finalizers and samples may be pending."""
    weakref = (yield from _dead_node(mutator, choices)) if choices.one_in(2) else None
    if choices.one_in(4):
        yield from mutator.if_legal(mutator.sample_often)
    for _ in range(choices.between(1, STRINGS_MAX)):
        yield from mutator.if_legal(_filling, mutator.situation, choices)
        if choices.one_in(8):
            yield from collected_perhaps(mutator, choices)
        if weakref is not None and choices.one_in(4):
            yield from mutator.if_legal(mutator.read_weakref, weakref)
    if choices.one_in(2):
        yield from mutator.if_legal(actions.CollectFull)
    for _ in range(choices.between(0, FREED_MAX)):
        yield from mutator.if_legal(
            actions.Free, choices.below(max(len(mutator.situation.roots), 1))
        )
    if choices.one_in(2):
        yield from collected_perhaps(mutator, choices)
    yield from mutator.if_legal(_filling, mutator.situation, choices)
    yield from mutator.if_legal(actions.RunFinalizers)
    yield from mutator.if_legal(actions.AllocateNode, 0)


def _dead_node(
    mutator: ScenarioMutator, choices: Choices
) -> Generator[actions.Action, None, ShadowObject | None]:
    """A node with a finalizer or a weak reference dies; return the weak reference."""
    weakref = None
    node = yield from mutator.new(actions.AllocateNode(0))
    if choices.one_in(2) and mutator.supports("register_finalizer"):
        yield from mutator.if_legal(mutator.register_finalizer, node)
    if choices.one_in(2) and mutator.supports("allocate_weakref"):
        weakref = yield from mutator.new(mutator.weakref(node))
    yield from mutator.if_legal(mutator.free, node)
    yield from collected_perhaps(mutator, choices)
    return weakref


def _filling(situation: Situation, choices: Choices) -> actions.Action:
    """A string that takes all that is left, half of it or less, or more than that."""
    contract, shadow = situation.contract, situation.bench.shadow
    exhaustion, occupancy = contract.exhaustion, shadow.occupancy
    layout = contract.layout.kinds.get("string")
    if exhaustion is None or occupancy is None or layout is None:
        raise ObjectGoneError
    overshoot_bytes = choices.pick((0, exhaustion.overshoot_bytes))
    free_bytes = exhaustion.heap_bytes_max + overshoot_bytes - occupancy.most_bytes()
    size_bytes = max(free_bytes, 0) // choices.pick((1, 2, 4))
    size_bytes += contract.layout.word_bytes * (choices.below(2 * WORDS + 1) - WORDS)
    length = (size_bytes - layout.fixed_bytes) // layout.item_bytes
    return actions.AllocateString(min(max(length, 0), length_max("string", contract)))
