"""The cast of a plan: the objects that facts are about, and how a plan acts on them.

The first object is the main one. Invariant: a step that is not legal here is left out. A plan ends
early only if a rule in between frees what it has just allocated, or all roots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import attrs

from fuzz.drawing.rules import any_node
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.situation import Choices, Scenario
from fuzz.mutator.legality import length_max
from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract

STRING_LENGTHS = (0, 7, 16, 24)
ARRAY_LENGTHS = (2, 4, 5, 1, 12, 34)
"""In a page or not, with one card or two, or with cards in a second byte."""
LENGTH_MAX = 160
"""Longer arrays cost more time than they are worth."""
Draw = Callable[..., Action]


def array_lengths(contract: Contract) -> Sequence[int]:
    """Lengths of arrays that matter, among them those at the limits of the contract."""
    layout = contract.layout.kinds.get("array")
    if layout is None:
        return ARRAY_LENGTHS
    limits = (
        contract.old_space.arena_object_bytes_max or 0,
        contract.layout.large_object_bytes,
        contract.nursery_bytes,
    )
    longest = min(LENGTH_MAX, length_max("array", contract))
    return _lengths_at(limits, layout.fixed_bytes, layout.item_bytes, longest)


@cache
def _lengths_at(
    limits: Sequence[int], fixed_bytes: int, item_bytes: int, longest: int
) -> Sequence[int]:
    """At each limit in bytes, the longest array within it, and one that is longer by an item."""
    within = {(limit - fixed_bytes) // item_bytes for limit in limits}
    at = sorted(length for last in within for length in (last, last + 1) if 0 < length <= longest)
    return (*ARRAY_LENGTHS, *at)


@attrs.frozen
class Cast:
    """The objects of a plan."""

    mutator: ScenarioMutator
    choices: Choices
    objects: list[ShadowObject] = attrs.Factory(list)
    weakrefs: list[ShadowObject] = attrs.Factory(list)
    ephemerons: list[ShadowObject] = attrs.Factory(list)
    identified: list[ShadowObject] = attrs.Factory(list)
    """The objects whose identity was taken."""
    to_drop: list[ShadowObject] = attrs.Factory(list)
    """What the mutator drops once all facts hold."""

    @property
    def weak(self) -> Sequence[ShadowObject]:
        """The weak references and ephemerons."""
        return [*self.weakrefs, *self.ephemerons]

    @property
    def contract(self) -> Contract:
        return self.mutator.situation.contract

    @property
    def shadow(self) -> Shadow:
        return self.mutator.situation.bench.shadow

    @property
    def roots(self) -> Sequence[ShadowObject]:
        return self.mutator.situation.roots

    def act(self, draw: Draw, *given: object) -> Scenario:
        """The action `draw(*given)`, if it is legal."""
        return self.mutator.if_legal(draw, *given)

    def new(self, draw: Draw, *given: object) -> Scenario:
        """Allocate or load an object, if that is legal. It is the main one from now on."""
        return self.add(self.objects, draw, *given, at=0)

    def add(
        self, to: list[ShadowObject], draw: Draw, *given: object, at: int | None = None
    ) -> Scenario:
        """Allocate or load an object, if that is legal, and add it to a list; by default last."""
        for allocation in self.act(draw, *given):
            yield allocation
            to.insert(len(to) if at is None else at, self.mutator.newest())

    def living(
        self, may_be: Callable[[ShadowObject], object] = lambda obj: True
    ) -> list[ShadowObject]:
        """The objects of which that is true and that are roots."""
        return [obj for obj in self.objects if obj in self.roots and may_be(obj)]

    def among(
        self, may_be: Callable[[ShadowObject], object] = lambda obj: True
    ) -> Sequence[ShadowObject]:
        """The first one of these objects, or any; none if there is none."""
        objects = self.living(may_be)
        if not objects:
            return ()
        # Facts of several objects seldom show a mistake: three of four times it is the same one.
        return [objects[0] if self.choices.below(4) else self.choices.pick(objects)]

    # Allocations.

    def anything(self) -> Action:
        """An object of any kind, in the nursery, outside, or old."""
        match self.choices.below(8):
            case 0 | 1:
                return self.string()
            case 2:
                return actions.AllocateString(self.choices.pick(STRING_LENGTHS), nonmovable=True)
            case 3 if self.mutator.supports("allocate_old_string"):
                return actions.AllocateOldString(self.choices.pick(STRING_LENGTHS))
        return self.holder()

    def string(self) -> Action:
        """A string in the nursery, which can be pinned."""
        return actions.AllocateString(self.choices.pick(STRING_LENGTHS))

    def holder(self) -> Action:
        """An object that has references."""
        choices = self.choices
        if choices.one_in(3):
            return any_node(self.mutator.situation, choices, 0)
        length = choices.pick(array_lengths(self.contract))
        return actions.AllocateArray(length, nonmovable=choices.one_in(4))

    def like(self, obj: ShadowObject) -> Action:
        """An object of that kind and size."""
        if obj.kind == "string":
            return actions.AllocateString(obj.number, nonmovable=obj.outside)
        if obj.kind == "array":
            return actions.AllocateArray(len(obj.refs), nonmovable=obj.outside)
        return actions.AllocateNode(0)
