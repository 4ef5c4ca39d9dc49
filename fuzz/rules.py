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

    def is_full(self) -> bool:
        """Whether the heap is as large as a trace should make it."""
        return len(self.bench.shadow.roots) >= ROOTS_MAX or self.objects >= OBJECTS_MAX

    def has_roots(self) -> bool:
        """Whether there is an object to act upon."""
        return bool(self.bench.shadow.roots)

    def roots_of(self, *kinds: str) -> list[int]:
        """The slots whose objects are of these kinds and, if arrays, not empty."""
        return [
            slot
            for slot, obj in enumerate(self.bench.shadow.roots)
            if obj.kind in kinds and (obj.refs or obj.kind != "array")
        ]


@attrs.frozen
class Rule:
    """One kind of action. `weight` is how often it is drawn, relative to the others."""

    action: type[Action]
    weight: int
    legal: Callable[[Situation], bool]
    draw: Callable[[Situation, Source], Action]

    @property
    def name(self) -> str:
        """The name of its action."""
        return NAMES[self.action]


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


def _allocate_node(situation: Situation, source: Source) -> Action:
    return AllocateNode(source.below(NUMBERS), _nonmovable(source))


def _allocate_string(situation: Situation, source: Source) -> Action:
    return AllocateString(_length(situation, source, "string"), _nonmovable(source))


def _allocate_array(situation: Situation, source: Source) -> Action:
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


def _enable_sampling(situation: Situation, source: Source) -> Action:
    return EnableSampling(_period(situation, source))


def _disable_sampling(situation: Situation, source: Source) -> Action:
    return DisableSampling(source.pick(situation.contract.sampling.disabling) == "report")


# Access.


def _recent(slots: Sequence[int], source: Source) -> int:
    """One of the slots; the newest more often, since its object is likely to be young."""
    return slots[-1] if source.below(3) == 0 else source.pick(slots)


def _root(situation: Situation, source: Source) -> int:
    return _recent(range(len(situation.bench.shadow.roots)), source)


def _place(situation: Situation, source: Source) -> tuple[int, int]:
    """A slot whose object has references, and one of its fields."""
    root = _recent(situation.roots_of("node", "array"), source)
    return root, source.below(len(situation.bench.shadow.roots[root].refs))


def _write(situation: Situation, source: Source) -> Action:
    root, field = _place(situation, source)
    # Null is the simplest value and should stay rare: references are what collectors lose.
    value = source.between(-1, len(situation.bench.shadow.roots) - 1)
    return Write(root, field, None if value < 0 else value)


def _copy_array(situation: Situation, source: Source) -> Action:
    arrays, roots = situation.roots_of("array"), situation.bench.shadow.roots
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


def _with_root(action: Callable[[int], Action]) -> Callable[[Situation, Source], Action]:
    return lambda situation, source: action(_root(situation, source))


def _with_root_of(
    action: Callable[[int], Action], *kinds: str
) -> Callable[[Situation, Source], Action]:
    return lambda situation, source: action(_recent(situation.roots_of(*kinds), source))


def _always(situation: Situation) -> bool:
    return True


def _has_room(situation: Situation) -> bool:
    return not situation.is_full()


def _has(*kinds: str) -> Callable[[Situation], bool]:
    return lambda situation: bool(situation.roots_of(*kinds))


# The simplest first: a reduction that replaces an action by an earlier one makes progress.
RULES: tuple[Rule, ...] = (
    Rule(CollectMinor, 3, _always, lambda situation, source: CollectMinor()),
    Rule(CollectStep, 4, _always, lambda situation, source: CollectStep()),
    Rule(CollectProgress, 1, _always, lambda situation, source: CollectProgress()),
    Rule(CollectFull, 1, _always, lambda situation, source: CollectFull()),
    Rule(
        DisableSampling,
        2,
        lambda situation: bool(situation.contract.sampling.disabling),
        _disable_sampling,
    ),
    Rule(EnableSampling, 5, _always, _enable_sampling),
    Rule(AllocateNode, 16, _has_room, _allocate_node),
    Rule(AllocateString, 16, _has_room, _allocate_string),
    Rule(AllocateArray, 8, _has_room, _allocate_array),
    Rule(
        AllocateWeakref,
        4,
        lambda situation: situation.has_roots() and not situation.is_full(),
        _with_root(AllocateWeakref),
    ),
    Rule(
        LoadPrebuilt,
        2,
        lambda situation: bool(situation.bench.shadow.prebuilt) and not situation.is_full(),
        lambda situation, source: LoadPrebuilt(source.below(len(situation.bench.shadow.prebuilt))),
    ),
    Rule(Free, 18, Situation.has_roots, _with_root(Free)),
    Rule(
        Read,
        6,
        lambda situation: not situation.is_full() and bool(situation.roots_of("node", "array")),
        lambda situation, source: Read(*_place(situation, source)),
    ),
    Rule(
        ReadNumber,
        2,
        _has("node", "string", "array"),
        _with_root_of(ReadNumber, "node", "string", "array"),
    ),
    Rule(ReadWeakref, 3, _has("weakref"), _with_root_of(ReadWeakref, "weakref")),
    Rule(Write, 12, _has("node", "array"), _write),
    Rule(
        WriteNumber,
        6,
        _has("node"),
        lambda situation, source: WriteNumber(
            _recent(situation.roots_of("node"), source), source.below(NUMBERS)
        ),
    ),
    Rule(CopyArray, 4, _has("array"), _copy_array),
    Rule(TakeIdentity, 6, Situation.has_roots, _with_root(TakeIdentity)),
    Rule(CheckHeap, 1, _always, lambda situation, source: CheckHeap()),
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
        menu.extend([rule] * (rule.weight * source.pick((1, 1, 1, 0, 3))))
    return menu or list(rules)


def draw_action(situation: Situation, menu: Sequence[Rule], source: Source) -> Action:
    """A legal action by one of the rules on the menu.

    If chance finds none that is legal, it is the first legal one of all. Raises BadInputError if
    the contract supports no action that is legal here.
    """
    for _ in range(TRIES_MAX):
        rule = menu[source.below(len(menu))]
        if rule.legal(situation):
            return rule.draw(situation, source)
    for rule in rules_for(situation.contract):
        if rule.legal(situation):
            return rule.draw(situation, source)
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
        return legal.nearest(source.between(legal.minimum, legal.maximum))
    # Large values cost time and reach little, so the larger of two draws is dropped.
    return legal.nearest(min(source.log_between(legal.minimum, legal.maximum) for _ in range(2)))
