"""Rules: when each kind of action is legal, and how its arguments are drawn.

Written once and drawn by either engine through a `Source`, which makes one kind of choice: a
number below another. Sizes and periods lean on the edges, and the edges come from the oracles'
own state: what just fits in the nursery and what just does not, what just reaches the sample point
and what passes it, twice the period, several nurseries. The drawn action is concrete, so that a
replay needs no state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from fuzz.actions import (
    NAMES,
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectProgress,
    CollectStep,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Free,
    LoadPrebuilt,
    Read,
    ReadNumber,
    ReadWeakref,
    TakeIdentity,
    Write,
    WriteNumber,
)
from fuzz.contract import Contract, Setting
from fuzz.oracles import Bench
from fuzz.problems import BadInputError
from fuzz.shadow import ShadowObject

T = TypeVar("T")

ROOTS_MAX = 12
"""Beyond so many roots nothing is allocated, so that long traces do not grow slow."""
OBJECTS_MAX = 60
"""Nor beyond so many objects that the last walk through the heap found."""
NUMBERS = 100
SMALL_LENGTHS = 12
NURSERIES_MAX = 4
LENGTHS_MAX = {"string": 2**20, "array": 160}
"""Long strings cost nothing to follow, long arrays do."""
NEVER_LEFT_OUT = (LoadPrebuilt, Free)
"""Without these a trace could fill its heap and never get rid of anything."""
NONMOVABLE_SHARE = 8
"""One object in so many is asked to be non-movable."""
TRIES_MAX = 64
ACTIONS_MIN = 10
ACTIONS_MAX = 1000


class Source(ABC):
    """Where choices come from. Smaller numbers are the simpler choices."""

    @abstractmethod
    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1."""

    def between(self, minimum: int, maximum: int) -> int:
        """A number from `minimum` to `maximum`, both included."""
        return minimum + self.below(maximum - minimum + 1)

    def pick(self, choices: Sequence[T]) -> T:
        """One of `choices`; the first is the simplest."""
        return choices[self.below(len(choices))]

    def log_between(self, minimum: int, maximum: int) -> int:
        """A number in that range, each power of two about as likely as the next."""
        octaves = (maximum // minimum).bit_length()
        base = minimum << self.below(octaves)
        return min(base + self.below(base), maximum)


@attrs.define
class Situation:
    """What a rule may look at: the contract, and the oracles' own state."""

    contract: Contract
    bench: Bench
    objects: int = 0
    """How many objects the last walk found."""

    @property
    def roots(self) -> list[ShadowObject]:
        """The mutator's root slots."""
        return self.bench.shadow.roots

    def has_slot(self) -> bool:
        """Whether a trace should have one more root."""
        return len(self.bench.shadow.roots) < ROOTS_MAX

    def has_room(self) -> bool:
        """Whether a trace should have one more object."""
        return self.objects < OBJECTS_MAX and len(self.bench.shadow.roots) < ROOTS_MAX


Subjects = Callable[[Situation], Sequence[int]]


@attrs.frozen
class Rule:
    """One kind of action. `weight` is how often it is drawn, relative to the others.

    `subjects` are what it may act upon: root slots, or numbers of prebuilt objects, or the heap as
    a whole, of which there is one. Without any, the action is not legal here, or not wanted.
    """

    action: type[Action]
    weight: int
    subjects: Subjects
    draw: Callable[[Situation, Source, Sequence[int]], Action]

    @property
    def name(self) -> str:
        """The name of its action."""
        return NAMES[self.action]


# Subjects.

THE_HEAP = range(1)
NOTHING = range(0)


def _the_heap(situation: Situation) -> Sequence[int]:
    return THE_HEAP


def _the_heap_if_room(situation: Situation) -> Sequence[int]:
    return THE_HEAP if situation.has_room() else NOTHING


def _the_heap_if_disabling(situation: Situation) -> Sequence[int]:
    return THE_HEAP if situation.contract.sampling.disabling else NOTHING


def _prebuilt_if_slot(situation: Situation) -> Sequence[int]:
    return range(len(situation.bench.shadow.prebuilt)) if situation.has_slot() else NOTHING


def _roots(situation: Situation) -> Sequence[int]:
    return range(len(situation.roots))


def _roots_if_room(situation: Situation) -> Sequence[int]:
    return range(len(situation.roots)) if situation.has_room() else NOTHING


def _roots_with_references(situation: Situation) -> Sequence[int]:
    return [slot for slot, obj in enumerate(situation.roots) if obj.refs]


def _roots_with_references_if_slot(situation: Situation) -> Sequence[int]:
    return _roots_with_references(situation) if situation.has_slot() else NOTHING


def _roots_that_are(*kinds: str) -> Subjects:
    return lambda situation: [slot for slot, obj in enumerate(situation.roots) if obj.kind in kinds]


def _arrays_with_items(situation: Situation) -> Sequence[int]:
    return [slot for slot, obj in enumerate(situation.roots) if obj.refs and obj.kind == "array"]


# Sizes.


def _edges(situation: Situation) -> Sequence[int]:
    """The sizes at which something changes, those that matter more standing there more often."""
    contract, sampling = situation.contract, situation.bench.sampling
    nursery_bytes = contract.nursery_bytes
    room_bytes = nursery_bytes - sampling.nursery_used_bytes
    large_bytes = contract.layout.large_object_bytes
    if not sampling.period_bytes:
        return room_bytes, room_bytes, large_bytes, large_bytes, nursery_bytes
    sample_bytes = sampling.bytes_until_sample
    twice_bytes = 2 * sampling.period_bytes
    return (
        sample_bytes,
        sample_bytes,
        sample_bytes,
        room_bytes,
        large_bytes,
        twice_bytes,
        nursery_bytes,
    )


def _edge_bytes(situation: Situation, source: Source) -> int:
    """The size of an object at some edge, in bytes: on it, or a word or two to either side."""
    nursery_bytes = situation.contract.nursery_bytes
    size = source.pick(_edges(situation))
    if size == nursery_bytes:
        size *= source.between(1, NURSERIES_MAX)
    size += situation.contract.layout.word_bytes * (source.below(5) - 2)
    return size if size <= NURSERIES_MAX * nursery_bytes else nursery_bytes


def _length(situation: Situation, source: Source, kind: str) -> int:
    """A length that makes an object of an interesting size."""
    if not source.below(2):
        return source.below(SMALL_LENGTHS)
    layout = situation.contract.layout.kinds[kind]
    size = min(_edge_bytes(situation, source), situation.contract.layout.object_bytes_max)
    if layout.item_bytes == 1:
        size -= source.below(2)
    length = (size - layout.fixed_bytes) // layout.item_bytes
    return min(max(length, 0), LENGTHS_MAX[kind])


def _nonmovable(source: Source) -> bool:
    return source.below(NONMOVABLE_SHARE) == NONMOVABLE_SHARE - 1


def _allocate_node(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return AllocateNode(source.below(NUMBERS), _nonmovable(source))


def _allocate_string(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return AllocateString(_length(situation, source, "string"), _nonmovable(source))


def _allocate_array(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return AllocateArray(_length(situation, source, "array"), _nonmovable(source))


# Sampling.


def _period(situation: Situation, source: Source) -> int:
    """A legal period, from a word to many nurseries."""
    legal = situation.contract.sampling.period_bytes
    nursery = situation.contract.nursery_bytes
    match source.below(4):
        case 0:
            period = source.between(1, 16) * legal.multiple
        case 1:
            period = nursery - situation.bench.sampling.nursery_used_bytes
        case 2:
            period = nursery * source.between(1, NURSERIES_MAX)
        case _:
            period = source.log_between(legal.multiple, 8 * nursery)
    return legal.nearest(period)


def _enable_sampling(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return EnableSampling(_period(situation, source))


def _disable_sampling(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return DisableSampling(source.pick(situation.contract.sampling.disabling) == "report")


# Access.


def _recent(slots: Sequence[int], source: Source) -> int:
    """One of the slots; the newest more often, since its object is likely to be young."""
    return slots[-1] if source.below(3) == 0 else source.pick(slots)


def _place(situation: Situation, source: Source, slots: Sequence[int]) -> tuple[int, int]:
    """One of the slots, whose objects have references, and one of its object's fields."""
    root = _recent(slots, source)
    return root, source.below(len(situation.roots[root].refs))


def _read(situation: Situation, source: Source, slots: Sequence[int]) -> Action:
    return Read(*_place(situation, source, slots))


def _write(situation: Situation, source: Source, slots: Sequence[int]) -> Action:
    root, field = _place(situation, source, slots)
    # Null is the simplest value and should stay rare: references are what collectors lose.
    value = source.between(-1, len(situation.roots) - 1)
    return Write(root, field, None if value < 0 else value)


def _write_number(situation: Situation, source: Source, nodes: Sequence[int]) -> Action:
    return WriteNumber(_recent(nodes, source), source.below(NUMBERS))


def _copy_array(situation: Situation, source: Source, arrays: Sequence[int]) -> Action:
    roots = situation.roots
    from_root, to_root = source.pick(arrays), source.pick(arrays)
    from_length, to_length = len(roots[from_root].refs), len(roots[to_root].refs)
    length = min(from_length, to_length)
    if source.below(2):
        length = source.between(1, length)
    return CopyArray(
        from_root,
        to_root,
        source.between(0, from_length - length),
        source.between(0, to_length - length),
        length,
    )


def _rule(action: Callable[[], Action], weight: int) -> Rule:
    """A rule for an action without arguments, which is always legal."""
    kind = type(action())
    return Rule(kind, weight, _the_heap, lambda situation, source, _: action())


def _rule_on(action: Callable[[int], Action], weight: int, subjects: Subjects) -> Rule:
    """A rule for an action whose only argument is a slot."""
    kind = type(action(0))
    return Rule(
        kind, weight, subjects, lambda situation, source, slots: action(_recent(slots, source))
    )


# The simplest first: a reduction that replaces an action by an earlier one makes progress.
RULES: tuple[Rule, ...] = (
    _rule(CollectMinor, 3),
    _rule(CollectStep, 4),
    _rule(CollectProgress, 1),
    _rule(CollectFull, 1),
    Rule(DisableSampling, 2, _the_heap_if_disabling, _disable_sampling),
    Rule(EnableSampling, 5, _the_heap, _enable_sampling),
    Rule(AllocateNode, 16, _the_heap_if_room, _allocate_node),
    Rule(AllocateString, 16, _the_heap_if_room, _allocate_string),
    Rule(AllocateArray, 8, _the_heap_if_room, _allocate_array),
    _rule_on(AllocateWeakref, 4, _roots_if_room),
    Rule(
        LoadPrebuilt,
        2,
        _prebuilt_if_slot,
        lambda situation, source, indices: LoadPrebuilt(source.pick(indices)),
    ),
    _rule_on(Free, 18, _roots),
    Rule(Read, 6, _roots_with_references_if_slot, _read),
    _rule_on(ReadNumber, 2, _roots_that_are("node", "string", "array")),
    _rule_on(ReadWeakref, 3, _roots_that_are("weakref")),
    Rule(Write, 12, _roots_with_references, _write),
    Rule(WriteNumber, 6, _roots_that_are("node"), _write_number),
    Rule(CopyArray, 4, _arrays_with_items, _copy_array),
    _rule_on(TakeIdentity, 6, _roots),
    _rule(CheckHeap, 1),
)


def rules_for(contract: Contract) -> tuple[Rule, ...]:
    """The rules whose actions the target carries out."""
    return tuple(rule for rule in RULES if rule.name in contract.actions)


def draw_menu(rules: Sequence[Rule], source: Source) -> list[Rule]:
    """Rules for one trace, each as often as it is to be drawn.

    Some are left out and some made frequent: a trace that does a few things often reaches what
    one that does a bit of everything does not (swarm testing, Groce and others, 2012).
    """
    menu: list[Rule] = []
    for rule in rules:
        frequency = source.pick((1, 1, 1, 0, 3))
        if rule.action in NEVER_LEFT_OUT:
            frequency = max(frequency, 1)
        menu.extend([rule] * (rule.weight * frequency))
    return menu or list(rules)


def draw_action(situation: Situation, menu: Sequence[Rule], source: Source) -> Action:
    """A legal action by one of the rules on the menu.

    If chance finds none that is legal, it is the first legal one of all. Raises BadInputError if
    the contract supports no action that is legal here.
    """
    for _ in range(TRIES_MAX):
        rule = menu[source.below(len(menu))]
        subjects = rule.subjects(situation)
        if subjects:
            return rule.draw(situation, source, subjects)
    for rule in rules_for(situation.contract):
        subjects = rule.subjects(situation)
        if subjects:
            return rule.draw(situation, source, subjects)
    raise BadInputError("the contract supports no action that is legal here")


def draw_length(source: Source) -> int:
    """How many actions a trace has: 10 to 1,000, short ones as likely as long ones."""
    return source.log_between(ACTIONS_MIN, ACTIONS_MAX)


def draw_configuration(settings: Sequence[Setting], source: Source) -> dict[str, int]:
    """A legal configuration; every setting is drawn, small ones as likely as large ones."""
    configuration: dict[str, int] = {}
    for setting in sorted(settings, key=lambda setting: setting.at_most is not None):
        most = configuration[setting.at_most] if setting.at_most else setting.range.maximum
        configuration[setting.name] = _draw_setting(setting, most, source)
    return configuration


def _draw_setting(setting: Setting, most: int, source: Source) -> int:
    if setting.choices:
        return source.pick([choice for choice in setting.choices if choice <= most])
    legal = attrs.evolve(setting.range, maximum=min(most, setting.range.maximum))
    if legal.minimum <= 0:
        # From 1 up there are logarithms.
        shift = 1 - legal.minimum
        return legal.nearest(source.log_between(1, legal.maximum + shift) - shift)
    # Large values cost time and reach little, so the larger of two draws is dropped.
    return legal.nearest(min(source.log_between(legal.minimum, legal.maximum) for _ in range(2)))
