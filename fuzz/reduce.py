"""Reducing a failure to a few readable actions, whichever engine found it.

It works on concrete actions: remove some, replace a run of them by one argument-less action, merge
allocations and objects, lower integers, drop settings and turn switches, until nothing helps. A
candidate counts only if it fails in the same
way (see Failure.identity), so that one bug never turns into another.

Slots are named, not numbered, while actions are removed: an action refers to the slot that a
certain action appended. Removing an allocation removes what depends on it, and renumbers the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

import attrs

from fuzz.actions import (
    ALLOCATIONS,
    SLOT_FIELDS,
    Action,
    AllocateOldString,
    AllocateString,
    CollectFull,
    CollectMinor,
    CollectStep,
    DisableSampling,
    EnableSampling,
    Free,
    PauseSampling,
    ResumeSampling,
    SetPeriod,
    Write,
)
from fuzz.contract import Contract, problem_of_configuration
from fuzz.forecast import cost_of
from fuzz.legality import why_illegal
from fuzz.run import Failure, run_again
from fuzz.shadow import Shadow
from fuzz.targets.target import Target

ATTEMPTS_MAX = 5000
SECONDS_MAX = 120.0
"""For targets so slow, or so silent, that all attempts would take hours."""
TOGETHER_STEPS = (4096, 1024, 256, 64, 8, 1)
MERGEABLE = ALLOCATIONS - {AllocateOldString}
SEED = "sampler_seed"
"""The setting from which drawn distances begin, by convention."""
SEEDS_TRIED = 48
TAILS = (1, 2, 3, 4, 6, 8, 12)
"""So many of the last actions may be all that is needed."""
SETTING = -1
"""Where an action's position is expected: this integer is a setting's."""
_Place = tuple[int, str]
SWITCHES = (EnableSampling, ResumeSampling, PauseSampling, SetPeriod)
FILLERS: tuple[Action, ...] = (CollectMinor(), DisableSampling(), CollectStep(), CollectFull())


class ContractChangedError(Exception):
    """What was legal when it failed no longer is: the target now states another contract."""


@attrs.frozen
class _Named:
    """An action whose slots are named by the number of the action that appended them."""

    action: Action
    slots: dict[str, int]
    appends: int


def _roots_in(action: Action) -> Iterator[tuple[str, int]]:
    """The action's fields that are slots, with their values."""
    for field in SLOT_FIELDS[type(action)]:
        slot = getattr(action, field)
        if slot is not None:
            yield field, slot


class _Slots:
    """The names of the slots while a trace runs on a shadow heap."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._shadow = Shadow(contract)
        self.names: list[int] = []

    def allows(self, action: Action) -> bool:
        """Whether `action` is legal here."""
        return why_illegal(action, self._contract, self._shadow) is None

    def follow(self, action: Action, appends: int) -> None:
        """Carry out a legal action; a slot that it appends gets that name."""
        self._shadow.follow(action, minors=0)
        if isinstance(action, Free):
            del self.names[action.root]
        elif len(self._shadow.roots) > len(self.names):
            self.names.append(appends)


def _name(contract: Contract, actions: Sequence[Action]) -> list[_Named]:
    """The actions with their slots named. Raises ContractChangedError if one is illegal."""
    slots, named = _Slots(contract), []
    for number, action in enumerate(actions):
        if not slots.allows(action):
            raise ContractChangedError
        names = {field: slots.names[slot] for field, slot in _roots_in(action)}
        named.append(_Named(action, names, number))
        slots.follow(action, number)
    return named


def _number(contract: Contract, named: Sequence[_Named]) -> list[Action]:
    """The actions with their slots numbered; what has become impossible is left out."""
    slots, actions = _Slots(contract), []
    for each in named:
        if all(name in slots.names for name in each.slots.values()):
            numbers = {field: slots.names.index(name) for field, name in each.slots.items()}
            action = attrs.evolve(each.action, **numbers)
            if slots.allows(action):
                slots.follow(action, each.appends)
                actions.append(action)
    return actions


class Reducer:
    """Reduces one failure of one target. `attempts` counts the candidates that were run."""

    def __init__(self, target: Target, failure: Failure, deadline: float) -> None:
        self._target = target
        self._deadline = deadline
        self.failure = failure
        self.attempts = 0

    @property
    def _is_over(self) -> bool:
        return self.attempts >= ATTEMPTS_MAX or time.monotonic() > self._deadline

    def reduce(self) -> Failure:
        """The smallest failure of the same identity that was found.

        A target that contradicts its own contract ends the search.
        """
        with suppress(ContractChangedError):
            self._reduce()
        return self.failure

    def _reduce(self) -> None:
        before = None
        while before != self.failure and not self._is_over:
            before = self.failure
            self._remove_actions()
            self._begin_later()
            self._remove_with_another_seed()
            self._replace_actions()
            self._merge_allocations()
            self._merge_objects()
            self._drop_settings()
            self._lower_settings()
            self._lower_integers()
            self._lower_together()

    def _contract(self) -> Contract:
        return self._target.start(self.failure.configuration)

    def _accept(self, configuration: dict[str, int], actions: Sequence[Action]) -> bool:
        """Run a candidate; keep it if it fails in the same way."""
        if self._is_over:
            return False
        self.attempts += 1
        failure = run_again(self._target, configuration, actions, self.failure)
        if failure is None or failure.identity != self.failure.identity:
            return False
        self.failure = failure
        return True

    def _accept_actions(self, actions: Sequence[Action]) -> bool:
        return self._accept(self.failure.configuration, actions)

    def _accept_named(self, contract: Contract, named: Sequence[_Named]) -> bool:
        return self._accept_actions(_number(contract, named))

    def _remove_actions(self) -> None:
        """Remove chunks, large ones first, from the end to the start."""
        size = len(self.failure.actions) // 2
        while size:
            start = len(self.failure.actions) - size
            contract = self._contract()
            named = _name(contract, self.failure.actions)
            while start >= 0:
                if self._accept_named(contract, named[:start] + named[start + size :]):
                    named = _name(contract, self.failure.actions)
                start = min(start - 1 if size == 1 else start - size // 2, len(named) - size)
            size //= 2

    def _begin_later(self) -> None:
        """Where distances are drawn, leave out all but the last actions, and try other seeds.

        Whatever is left out shifts all further samples, so that one by one nothing can be spared.
        """
        contract = self._contract()
        for length in TAILS:
            if length >= len(self.failure.actions):
                return
            named = _name(contract, self.failure.actions)
            if self._accept_with_a_seed(contract, _tail(named, length)):
                return

    def _remove_with_another_seed(self) -> None:
        """The same with each single action of a trace that is short already."""
        contract = self._contract()
        position = len(self.failure.actions) - 2
        while 0 <= position < TAILS[-1]:
            named = _name(contract, self.failure.actions)
            self._accept_with_a_seed(contract, named[:position] + named[position + 1 :])
            position -= 1

    def _accept_with_a_seed(self, contract: Contract, named: Sequence[_Named]) -> bool:
        """Run a candidate with one seed after another; False too where there are no seeds."""
        actions = _number(contract, named)
        for setting in contract.settings:
            if setting.name == SEED:
                least = setting.range.minimum
                return any(
                    self._accept_if_legal(self.failure.configuration | {SEED: seed}, actions)
                    for seed in range(least, least + SEEDS_TRIED)
                )
        return False

    def _replace_actions(self) -> None:
        """Replace a run of actions, or one that is less simple, by an argument-less action."""
        contract = self._contract()
        size = len(self.failure.actions) // 2
        while size:
            start = 0
            while start + size < len(self.failure.actions):
                self._replace_run(contract, start, size)
                start += 1
            size //= 2

    def _replace_run(self, contract: Contract, start: int, size: int) -> None:
        named = _name(contract, self.failure.actions)
        for filler in FILLERS:
            if size == 1 and _rank(filler) >= _rank(named[start].action):
                return
            instead = _Named(filler, {}, named[start].appends)
            if self._accept_named(contract, [*named[:start], instead, *named[start + size :]]):
                return

    def _merge_allocations(self) -> None:
        """Replace two allocations in a row by one string that counts as many bytes."""
        position = 0
        while position + 1 < len(self.failure.actions):
            if not self._merge(position):
                position += 1

    def _merge(self, position: int) -> bool:
        contract = self._contract()
        pair = self.failure.actions[position : position + 2]
        if not MERGEABLE.issuperset(map(type, pair)):
            return False
        named = _name(contract, self.failure.actions)
        if "string" not in contract.layout.kinds:
            return False
        sizes = [cost_of(contract.layout, action)[0] for action in pair]
        length = sum(sizes) - contract.layout.kinds["string"].fixed_bytes
        merged = attrs.evolve(named[position], action=AllocateString(length), slots={})
        return self._accept_named(contract, [*named[:position], merged, *named[position + 2 :]])

    def _merge_objects(self) -> None:
        """Let one object play the part of another, which is then not needed."""
        position = 0
        while position < len(self.failure.actions):
            if not self._replace_object(position):
                position += 1

    def _replace_object(self, gone: int) -> bool:
        """Do without the slot that the action `gone` appends; whether another could replace it."""
        contract = self._contract()
        named = _name(contract, self.failure.actions)
        if not any(gone in each.slots.values() for each in named):
            return False
        kept = [
            each
            for each in named
            if each.appends != gone
            and not (isinstance(each.action, Free) and gone in each.slots.values())
        ]
        for other in range(len(named)):
            if other != gone and self._accept_named(contract, _renamed(kept, gone, other)):
                return True
        return False

    def _drop_settings(self) -> None:
        """Settings that make no difference keep their default."""
        for name in tuple(self.failure.configuration):
            rest = {key: value for key, value in self.failure.configuration.items() if key != name}
            self._accept_if_legal(rest, self.failure.actions)

    def _lower_settings(self) -> None:
        for name in tuple(self.failure.configuration):
            value = self.failure.configuration[name]
            for lower in _lower(value):
                lowered = self.failure.configuration | {name: lower}
                if self._accept_if_legal(lowered, self.failure.actions):
                    break

    def _accept_if_legal(self, configuration: dict[str, int], actions: Sequence[Action]) -> bool:
        if self._is_over:
            return False
        if problem_of_configuration(configuration, self._contract().settings):
            return False
        return self._accept(configuration, actions)

    def _lower_integers(self) -> None:
        """Lower each integer of each action as far as it goes."""
        position = 0
        while position < len(self.failure.actions):
            for field in _fields_of(self.failure.actions[position]):
                while self._lower_field(position, field):
                    pass
            position += 1

    def _lower_field(self, position: int, field: str) -> bool:
        """Lower one integer by one step; whether that was possible."""
        action = self.failure.actions[position]
        for lower in _simpler(action, field):
            actions = list(self.failure.actions)
            changes: dict[str, Any] = {field: lower}
            actions[position] = attrs.evolve(action, **changes)
            if self._accept_actions(actions):
                return True
        return False

    def _lower_together(self) -> None:
        """Lower integers that depend on each other by the same amount: two, or all at once.

        A nursery, a period and a length that only fail together cannot be lowered one by one.
        """
        for step in TOGETHER_STEPS:
            places = [place for place in self._places() if self._value(place) > step]
            for group in (places, *combinations(places, 2)):
                while len(group) > 1 and self._lower_group(group, step):
                    pass

    def _places(self) -> list[_Place]:
        """Where integers stand: settings by name, fields by the action's position."""
        settings = [(SETTING, name) for name in self.failure.configuration]
        fields = [
            (position, field)
            for position, action in enumerate(self.failure.actions)
            for field in _fields_of(action)
            if field not in SLOT_FIELDS[type(action)] and type(getattr(action, field)) is int
        ]
        return settings + fields

    def _value(self, place: _Place) -> int:
        """The integer at `place`; 0 where the failure has become shorter."""
        position, name = place
        if position == SETTING:
            return self.failure.configuration.get(name, 0)
        if position >= len(self.failure.actions):
            return 0
        return int(getattr(self.failure.actions[position], name, 0))

    def _lower_group(self, group: Sequence[_Place], step: int) -> bool:
        if min(map(self._value, group)) <= step:
            return False
        configuration, actions = dict(self.failure.configuration), list(self.failure.actions)
        for position, name in group:
            lower = self._value((position, name)) - step
            if position == SETTING:
                configuration[name] = lower
            else:
                actions[position] = attrs.evolve(actions[position], **{name: lower})
        return self._accept_if_legal(configuration, actions)


def _tail(named: Sequence[_Named], length: int) -> list[_Named]:
    """The last actions, those that appended their slots, and what sampling was last told."""
    needed = set(range(len(named) - length, len(named)))
    for number in range(len(named) - 1, -1, -1):
        if number in needed:
            needed.update(named[number].slots.values())
    switches = [each.appends for each in named[:-length] if isinstance(each.action, SWITCHES)]
    needed.update(switches[-1:])
    return [each for each in named if each.appends in needed]


def _renamed(named: Sequence[_Named], gone: int, other: int) -> list[_Named]:
    """The actions with the slot `other` wherever they had `gone`."""
    return [
        attrs.evolve(
            each,
            slots={field: other if name == gone else name for field, name in each.slots.items()},
        )
        for each in named
    ]


def _fields_of(action: Action) -> tuple[str, ...]:
    """The names of the action's fields."""
    return tuple(field.name for field in attrs.fields(type(action)))


def _rank(action: Action) -> int:
    """Argument-less actions are simpler than others, and the earlier ones simplest."""
    return FILLERS.index(action) if action in FILLERS else len(FILLERS)


def _lower(value: int) -> list[int]:
    """Integers simpler than `value`, the simplest first; words too, for periods are multiples."""
    if value < 0:
        return [0]
    steps = (0, 1, 2, 8, 16, 64, value // 2, value // 2 & -8, value - 64, value - 8, value - 1)
    return sorted({step for step in steps if 0 <= step < value})


def _simpler(action: Action, field: str) -> Sequence[int | None]:
    """Values of the action's field that are simpler than the one it has, the simplest first."""
    value = getattr(action, field)
    if value is None or value is False:
        return []
    if value is True:
        return [False]
    nullable = isinstance(action, Write) and field == "value"
    return [None, *_lower(value)] if nullable else _lower(value)


def reduce_failure(target: Target, failure: Failure, seconds: float = SECONDS_MAX) -> Failure:
    """The smallest failure of the same identity that a bounded search finds."""
    deadline = time.monotonic() + seconds
    smallest = Reducer(target, failure, deadline).reduce()
    for switch, default in _switches(target, smallest):
        turned = 1 - smallest.configuration.get(switch, default)
        configuration = {**smallest.configuration, switch: turned}
        other = run_again(target, configuration, smallest.actions, smallest)
        if other is not None and other.identity == smallest.identity:
            reduced = Reducer(target, other, deadline).reduce()
            if len(reduced.actions) < len(smallest.actions):
                smallest = reduced
    return smallest


def _switches(target: Target, failure: Failure) -> list[tuple[str, int]]:
    """The settings that are 0 or 1, with their defaults: turned, a long trace may become short."""
    return [
        (setting.name, setting.default)
        for setting in target.start(failure.configuration).settings
        if (setting.range.minimum, setting.range.maximum) == (0, 1)
    ]
