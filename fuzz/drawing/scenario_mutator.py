"""What a scenario acts through: objects instead of slots, and legal actions only where it asks."""

from __future__ import annotations

from collections.abc import Callable, Generator

import attrs

from fuzz.drawing.rules import any_node, finalizer_number, read_weakref
from fuzz.drawing.situation import Choices, Scenario, Situation
from fuzz.drawing.sizes import edge_length, period, short_period
from fuzz.mutator.legality import why_illegal
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol import actions
from fuzz.protocol.actions import Action

SEVERAL_ITEMS = 2
"""The least number of items for which PyPy calls its barrier for copies (`ll_arraycopy`).

While most scenarios copied one item, a million actions on PyPy's main did not find
arraycopy-clean-cards (docs/findings). Planted in the reference, it was found after 1,491 (commit
7140188f).
"""


class ObjectGoneError(Exception):
    """The scenario ends: the object or the field that it acts on does not exist any more."""


def _on_slot(action: Callable[[int], Action]) -> Callable[[ScenarioMutator, ShadowObject], Action]:
    return lambda mutator, obj: action(mutator.slot(obj))


@attrs.frozen
class ScenarioMutator:
    """Acts on objects for a scenario, and looks up their slots when an action is due.

    A method raises ObjectGoneError if no slot holds the object any more.
    """

    situation: Situation
    choices: Choices

    def supports(self, action: str) -> bool:
        """Whether the contract has the action of that name."""
        return action in self.situation.contract.actions

    def newest(self) -> ShadowObject:
        """The object in the last slot: the one that the scenario allocated or loaded last.

        A rule may have put another object on top of it; then the scenario goes on with that one.
        """
        if not self.situation.roots:
            raise ObjectGoneError
        return self.situation.roots[-1]

    def new(self, action: Action) -> Generator[Action, None, ShadowObject]:
        """Allocate or load an object, and return it."""
        yield action
        return self.newest()

    def slot(self, obj: ShadowObject) -> int:
        try:
            return self.situation.roots.index(obj)
        except ValueError:
            raise ObjectGoneError from None

    def field(self, obj: ShadowObject) -> int:
        """Any field or item of the object; the last one more often."""
        length = len(obj.refs)
        if not length:
            raise ObjectGoneError
        return length - 1 if not self.choices.below(2) else self.choices.below(length)

    def load_prebuilt(self, *kinds: str) -> Action:
        """Load a prebuilt object of one of these kinds, or of any kind."""
        prebuilt = enumerate(self.situation.bench.shadow.prebuilt)
        indices = [index for index, obj in prebuilt if not kinds or obj.kind in kinds]
        if not indices:
            raise ObjectGoneError
        return actions.LoadPrebuilt(self.choices.pick(indices))

    free = _on_slot(actions.Free)
    pin = _on_slot(actions.Pin)
    unpin = _on_slot(actions.Unpin)
    take_identity = _on_slot(actions.TakeIdentity)
    weakref = _on_slot(actions.AllocateWeakref)
    read_ephemeron = _on_slot(actions.ReadEphemeron)

    def read_weakref(self, weakref: ShadowObject) -> Action:
        """Read a weak reference, and perhaps keep its object as a root, if it can be kept."""
        return read_weakref(self.situation, self.choices, self.slot(weakref))

    def read(self, holder: ShadowObject, field: int) -> Action:
        """Read a field of the holder, whose object is a root from then on."""
        return actions.Read(self.slot(holder), field)

    def ephemeron(self, key: ShadowObject, value: ShadowObject) -> Action:
        """Allocate an ephemeron."""
        return actions.AllocateEphemeron(self.slot(key), self.slot(value))

    def any_node(self) -> actions.AllocateNode:
        """A node with a small integer. It may be nonmovable, or have a destructor."""
        return any_node(self.situation, self.choices, self.choices.below(8))

    def register_finalizer(self, obj: ShadowObject) -> Action:
        """Give the object a finalizer with a new number."""
        return actions.RegisterFinalizer(self.slot(obj), finalizer_number(self.situation))

    def unregister_finalizer(self, obj: ShadowObject) -> Action:
        """Take back the finalizers of the object, at least one of which has not run.

        Without this condition, sessions of .NET show one open defect again and again: an object
        whose finalizer has run and is then taken back gets no other one (docs/findings).
        """
        if obj not in self.situation.bench.shadow.finalizers.waiting.values():
            raise ObjectGoneError
        return actions.UnregisterFinalizer(self.slot(obj))

    def write(
        self, holder: ShadowObject, value: ShadowObject | None, field: int | None = None
    ) -> Action:
        """Write a reference or null into a field of the holder; by default into any field."""
        root = self.slot(holder)
        field = self.field(holder) if field is None else field
        return actions.Write(root, field, None if value is None else self.slot(value))

    def copy(
        self,
        source: ShadowObject,
        dest: ShadowObject,
        start: int,
        to: int | None = None,
        length: int = 1,
    ) -> Action:
        """Copy items between arrays; by default one item, to any place."""
        slots = self.slot(source), self.slot(dest)
        return actions.CopyArray(*slots, start, self.field(dest) if to is None else to, length)

    def copy_with_others(self, source: ShadowObject, dest: ShadowObject, item: int) -> Action:
        """Copy an item of one array to any place of another, alone or with those beside it."""
        most, choices = min(len(source.refs), len(dest.refs)), self.choices
        if most < SEVERAL_ITEMS or choices.one_in(4):
            return self.copy(source, dest, item)
        length = choices.between(SEVERAL_ITEMS, most)
        first, last = max(item - length + 1, 0), min(item, len(source.refs) - length)
        start, to = choices.between(first, last), choices.between(0, len(dest.refs) - length)
        return self.copy(source, dest, start, to, length)

    def sample(self) -> Action:
        """Enable sampling with any period."""
        return actions.EnableSampling(period(self.situation, self.choices))

    def sample_often(self) -> Action:
        return actions.EnableSampling(short_period(self.situation, self.choices))

    def edge_length(self) -> int:
        """The length of a string of an interesting size."""
        return edge_length(self.situation, self.choices, "string")

    def if_legal(self, draw: Callable[..., Action], *given: object) -> Scenario:
        """The action `draw(*given)`, or nothing if it is illegal here or its object is gone."""
        try:
            action = draw(*given)
        except ObjectGoneError:
            return
        situation = self.situation
        if not why_illegal(action, situation.contract, situation.bench.shadow):
            situation.found_legal = action
            yield action
