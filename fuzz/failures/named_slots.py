"""Actions whose slots have names instead of numbers, so that any of them can be removed.

An action refers to the slot that a certain action appended. Removing an allocation removes what
depends on it, and renumbers the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from fuzz.mutator.legality import why_illegal
from fuzz.mutator.occupancy import as_exhausted
from fuzz.mutator.shadow import Shadow
from fuzz.protocol import actions as kinds
from fuzz.protocol.actions import SLOT_FIELDS, Action
from fuzz.protocol.contract import Contract

Name = tuple[int, int]
"""The name of a slot: the number of the action that appended it, and which of its objects it is."""


class ContractChangedError(Exception):
    """An action of the failure is no longer legal: the target now states another contract."""


@attrs.frozen
class Named:
    """An action whose slots are named by the action that appended them."""

    action: Action
    slots: dict[str, Name]
    appends: int
    """Its number, which the slots that it appends have in their names."""
    depends_on_collections: bool = False
    """Whether it is legal only because a collection has ended a pin, or found an object dead."""
    is_exhausted: bool = False
    """Whether it has appended no slot, for lack of memory."""


class _Slots:
    """The names of the slots while a trace runs on a shadow heap."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._shadow = Shadow(contract)
        self._has_kept = False
        self.names: list[Name] = []

    def allows(self, action: Action) -> bool:
        return why_illegal(action, self._contract, self._shadow) is None

    @property
    def may_be_behind(self) -> bool:
        """Whether objects may be dead that are pinned, have finalizers or take memory.

        Or that weak references led to, which were kept instead. Neither minor collections nor
        finalizers that run are followed.
        """
        shadow = self._shadow
        is_behind = shadow.pinned or shadow.finalizers.registered or shadow.occupancy
        return bool(is_behind or self._has_kept)

    def know(self, action: Action) -> bool:
        """Whether the object exists that the action resurrects, if it does that."""
        known = self._shadow.finalizers.registered
        return not isinstance(action, kinds.Resurrect) or action.number in known

    def follow(self, action: Action, appends: int, is_exhausted: bool) -> None:
        """Follow a legal action. The slots that it appends have `appends` in their names."""
        if is_exhausted:
            action = as_exhausted(action, self._contract.exhaustion)
        self._has_kept |= isinstance(action, kinds.ReadWeakref) and action.keep
        self._shadow.follow(action, minors=0)
        if isinstance(action, kinds.Free):
            del self.names[action.root]
        else:
            if isinstance(action, kinds.ReadWeakref) and action.keep and not self._has_grown():
                # What this shadow has here is the dead object of a weak reference that was kept
                # instead of it. Reading that keeps it once more.
                self._shadow.roots.append(self._shadow.roots[action.root])
            new = len(self._shadow.roots) - len(self.names)
            self.names.extend((appends, place) for place in range(new))

    def _has_grown(self) -> bool:
        return len(self._shadow.roots) > len(self.names)


def name_slots(
    contract: Contract, actions: Sequence[Action], exhausted: Collection[int] = ()
) -> list[Named]:
    """The actions with their slots named. Raises ContractChangedError if one is illegal."""
    slots, named = _Slots(contract), []
    for number, action in enumerate(actions):
        is_legal = slots.allows(action)
        if not is_legal and not slots.may_be_behind:
            raise ContractChangedError
        roots = {field: getattr(action, field) for field in SLOT_FIELDS[type(action)]}
        names = {field: slots.names[root] for field, root in roots.items() if root is not None}
        named.append(Named(action, names, number, not is_legal, number in exhausted))
        slots.follow(action, number, number in exhausted)
    return named


def number_slots(contract: Contract, named: Sequence[Named]) -> list[Action]:
    """The actions with their slots numbered. Actions that are no longer legal are left out."""
    slots, actions = _Slots(contract), []
    for each in named:
        if all(name in slots.names for name in each.slots.values()):
            numbers = {field: slots.names.index(name) for field, name in each.slots.items()}
            action = each.action.changed(numbers) if numbers else each.action
            if slots.allows(action) or (each.depends_on_collections and slots.know(action)):
                slots.follow(action, each.appends, each.is_exhausted)
                actions.append(action)
    return actions


def without(named: Sequence[Named], places: Collection[int]) -> list[Named]:
    """The actions but for those at some places."""
    return [each for place, each in enumerate(named) if place not in places]


def tail_of(named: Sequence[Named], length: int) -> list[Named]:
    """The last actions, those that appended their slots, and the last switch of sampling."""
    needed = set(range(len(named) - length, len(named)))
    for number in range(len(named) - 1, -1, -1):
        if number in needed:
            needed.update(appended_by for appended_by, _ in named[number].slots.values())
    switches = [each for each in named[:-length] if each.action.sampling not in (None, "stops")]
    needed.update(each.appends for each in switches[-1:])
    return [each for each in named if each.appends in needed]
