"""Rules: when each kind of action is legal, and how its arguments are drawn.

Written once and drawn by either engine through a `Source`, which makes one kind of choice: a
number below another. Sizes and periods lean on the edges, and the edges come from the oracles'
own state: what just fits in the nursery and what just does not, what just reaches the sample point
and what passes it, twice the period, several nurseries. The drawn action is concrete, so that a
replay needs no state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import attrs

from fuzz.actions import (
    NAMES,
    Action,
    AddMemoryPressure,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    Calloc,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectProgress,
    CollectStep,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Fork,
    Free,
    LoadPrebuilt,
    Malloc,
    PauseSampling,
    Pin,
    Read,
    ReadNumber,
    ReadProfile,
    ReadWeakref,
    Realloc,
    ResumeSampling,
    SetCallback,
    SetPeriod,
    TakeIdentity,
    Unpin,
    Write,
    WriteNumber,
)
from fuzz.contract import Contract
from fuzz.legality import (
    PRESSURES,
    callback_length_max,
    can_be_pinned,
    length_max,
    why_not_enabled,
    why_nothing_pinned,
)
from fuzz.oracles import Bench
from fuzz.shadow import ShadowObject

T = TypeVar("T")
Story = Iterator[Action]
"""A scenario that has begun: its actions, each drawn when it is asked for."""

ROOTS_MAX = 8
"""Beyond so many roots nothing is allocated, so that long traces do not grow slow."""
OBJECTS_MAX = 24
"""Nor beyond so many objects that the last walk through the heap found."""
NUMBERS = 100
SMALL_LENGTHS = 12
NURSERIES_MAX = 4
NURSERIES_PRESSED_MAX = 8
"""Memory pressure of so many nurseries makes any collection due."""
LENGTHS_MAX = {"string": 2**20, "array": 160}
"""Long strings cost nothing to follow, long arrays do."""
LAST_ITEM_SHARE = 4
"""One access in so many is to the last item, beside those by chance."""
SMALL_BLOCK_BYTES = 128
NONMOVABLE_SHARE = 8
"""One object in so many is asked to be non-movable."""


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
    """What rules and scenarios may look at: the contract, and the oracles' own state."""

    contract: Contract
    bench: Bench
    objects: int = 0
    """How many objects the last walk found."""
    story: Story | None = None
    """The scenario that goes on, if any."""
    thread: int = 0
    """Who takes the next action."""

    @property
    def roots(self) -> list[ShadowObject]:
        """The mutator's root slots."""
        return self.bench.shadow.roots

    def has_slot(self) -> bool:
        """Whether a trace should have one more root."""
        return len(self.bench.shadow.roots) < ROOTS_MAX

    def has_room(self) -> bool:
        """Whether a trace should have one more object."""
        return self.objects < OBJECTS_MAX and self.has_slot()


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

    def draw_for(self, situation: Situation, source: Source, subjects: Sequence[int]) -> Action:
        """Draw an action upon one of the subjects, by one of the threads."""
        if situation.contract.threads == 1:
            return self.draw(situation, source, subjects)
        situation.thread = source.below(situation.contract.threads)
        return attrs.evolve(self.draw(situation, source, subjects), thread=situation.thread)


# Subjects.

THE_HEAP = range(1)
NOTHING = range(0)


def _the_heap(situation: Situation) -> Sequence[int]:
    return THE_HEAP


def _the_heap_if_room(situation: Situation) -> Sequence[int]:
    return THE_HEAP if situation.has_room() else NOTHING


def _the_heap_if_nothing_pinned(situation: Situation) -> Sequence[int]:
    return NOTHING if situation.bench.shadow.pinned else THE_HEAP


def _the_heap_if_enabling(situation: Situation) -> Sequence[int]:
    problem = why_not_enabled(situation.contract, situation.bench.shadow)
    return NOTHING if problem else THE_HEAP


def _strings_to_pin(situation: Situation) -> Sequence[int]:
    if why_nothing_pinned(situation.contract, situation.bench.shadow):
        return NOTHING
    return [slot for slot, obj in enumerate(situation.roots) if can_be_pinned(obj)]


def _pinned(situation: Situation) -> Sequence[int]:
    if not situation.bench.shadow.pinned:
        return NOTHING
    return [slot for slot, obj in enumerate(situation.roots) if obj.pinned]


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
    if contract.sampling.context_bytes:
        room_bytes = sampling.clocks[situation.thread].room_bytes
    else:
        room_bytes = nursery_bytes - sampling.nursery_used_bytes
    large_bytes = contract.layout.large_object_bytes
    if not sampling.period_bytes:
        return room_bytes, room_bytes, large_bytes, large_bytes, nursery_bytes
    sample_bytes = sampling.bytes_until_sample(situation.thread)
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
    """A length that makes an object small, or of an interesting size."""
    if not source.below(2):
        return min(source.below(SMALL_LENGTHS), length_max(kind, situation.contract))
    return edge_length(situation, source, kind)


def edge_length(situation: Situation, source: Source, kind: str) -> int:
    """A length that makes an object of an interesting size."""
    layout = situation.contract.layout.kinds.get(kind)
    if layout is None:
        return 0  # For a scenario, which the target's lack of that kind ends.
    size = min(_edge_bytes(situation, source), situation.contract.layout.object_bytes_max)
    if layout.item_bytes == 1:
        size -= source.below(2)
    length = (size - layout.fixed_bytes) // layout.item_bytes
    return min(max(length, 0), LENGTHS_MAX[kind])


# Blocks.


def _block_edges(situation: Situation) -> Sequence[int]:
    """The sizes at which something changes."""
    layout, sampling = situation.contract.layout, situation.bench.sampling
    until_bytes = sampling.bytes_until_sample(situation.thread)
    edges = [until_bytes, until_bytes, until_bytes, layout.object_bytes_max]
    if layout.size_classes:
        edges.append(layout.size_classes[-1])
        edges.append(layout.class_bytes(until_bytes) or layout.page_bytes)
    return edges


def _block_bytes(situation: Situation, source: Source, least: int = 0) -> int:
    """The size of a block: small, at some edge, of some class, or anything."""
    layout = situation.contract.layout
    most = layout.object_bytes_max
    match source.below(4):
        case 0:
            size_bytes = source.below(SMALL_BLOCK_BYTES)
        case 1:
            size_bytes = source.pick(_block_edges(situation)) + source.below(3) - 1
        case 2 if layout.size_classes:
            size_bytes = source.pick(layout.size_classes) + source.below(3) - 1
        case _:
            size_bytes = source.log_between(1, most)
    return min(max(size_bytes, least), most)


def _malloc(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return Malloc(_block_bytes(situation, source))


def _calloc(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    size_bytes = _block_bytes(situation, source)
    count = source.pick((1, 2, 3, 8))
    return Calloc(count, size_bytes // count)


def _realloc(situation: Situation, source: Source, slots: Sequence[int]) -> Action:
    root = _recent(slots, source)
    room_bytes = situation.roots[root].size_bytes
    edges = (room_bytes, room_bytes // 2, room_bytes + room_bytes // 4, 2 * room_bytes)
    if source.below(2):
        size_bytes = source.pick(edges) + source.below(3) - 1
        size_bytes = min(size_bytes, situation.contract.layout.object_bytes_max)
    else:
        size_bytes = _block_bytes(situation, source)
    return Realloc(root, max(size_bytes, 1))


def _set_period(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return SetPeriod(block_period(situation, source))


def block_period(situation: Situation, source: Source) -> int:
    """A legal period, where there is no nursery that it could be measured by."""
    rule = situation.contract.sampling
    if rule.periods:
        return source.pick(rule.periods)
    legal, most = rule.period_bytes, situation.contract.layout.object_bytes_max
    return rule.nearest(source.log_between(max(legal.minimum, 1), max(most, legal.minimum, 1)))


def _nonmovable(source: Source) -> bool:
    return source.below(NONMOVABLE_SHARE) == NONMOVABLE_SHARE - 1


def _allocate_node(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return AllocateNode(source.below(NUMBERS), _nonmovable(source))


def _allocate_string(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return AllocateString(_length(situation, source, "string"), _nonmovable(source))


def _allocate_array(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return AllocateArray(_length(situation, source, "array"), _nonmovable(source))


def _allocate_old_string(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return AllocateOldString(_length(situation, source, "string"))


def _set_callback(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    longest = callback_length_max(situation.contract)
    if longest < 0 or source.below(3):
        return SetCallback(None)
    return SetCallback(source.pick((0, longest, source.between(0, longest))))


def _add_memory_pressure(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    nurseries = source.between(1, NURSERIES_PRESSED_MAX)
    return AddMemoryPressure(PRESSURES.nearest(nurseries * situation.contract.nursery_bytes))


# Sampling.


def short_period(situation: Situation, source: Source) -> int:
    """A legal period of some words."""
    rule = situation.contract.sampling
    return rule.nearest(source.between(1, 16) * rule.period_bytes.multiple)


def period(situation: Situation, source: Source) -> int:
    """A legal period, from a word to many nurseries."""
    nursery = situation.contract.nursery_bytes
    if not nursery:
        return block_period(situation, source)
    legal = situation.contract.sampling.period_bytes
    match source.below(4):
        case 0:
            return short_period(situation, source)
        case 1:
            period_bytes = nursery - situation.bench.sampling.nursery_used_bytes
        case 2:
            period_bytes = nursery * source.between(1, NURSERIES_MAX)
        case _:
            period_bytes = source.log_between(legal.multiple, max(8 * nursery, legal.multiple))
    return situation.contract.sampling.nearest(period_bytes)


def _enable_sampling(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return EnableSampling(period(situation, source))


def _disable_sampling(situation: Situation, source: Source, _: Sequence[int]) -> Action:
    return DisableSampling(source.pick(situation.contract.sampling.disabling) == "report")


# Access.


def _recent(slots: Sequence[int], source: Source) -> int:
    """One of the slots; the newest more often, since its object is likely to be young."""
    return slots[-1] if source.below(3) == 0 else source.pick(slots)


def _place(situation: Situation, source: Source, slots: Sequence[int]) -> tuple[int, int]:
    """One of the slots, whose objects have references, and one of its object's fields."""
    root = _recent(slots, source)
    length = len(situation.roots[root].refs)
    # The last item may lie on a card that the array's end cuts short.
    if source.below(LAST_ITEM_SHARE) == LAST_ITEM_SHARE - 1:
        return root, length - 1
    return root, source.below(length)


def _read(situation: Situation, source: Source, slots: Sequence[int]) -> Action:
    return Read(*_place(situation, source, slots))


def _write(situation: Situation, source: Source, slots: Sequence[int]) -> Action:
    root, field = _place(situation, source, slots)
    return Write(root, field, _value(situation, source))


def _value(situation: Situation, source: Source) -> int | None:
    """A slot whose object is to be written; null stays rare, since collectors lose references."""
    # What is pinned may have no slot any more; the choice is made all the same.
    if situation.bench.shadow.pinned and not source.below(2):
        pinned = _pinned(situation)
        if pinned:
            return source.pick(pinned)
    value = source.between(-1, len(situation.roots) - 1)
    return None if value < 0 else value


def _write_number(situation: Situation, source: Source, nodes: Sequence[int]) -> Action:
    return WriteNumber(_recent(nodes, source), source.below(NUMBERS))


def _copy_array(situation: Situation, source: Source, arrays: Sequence[int]) -> Action:
    roots = situation.roots
    # What is worth copying are references, and from one array into another.
    filled = [slot for slot in arrays if any(roots[slot].refs)]
    from_root = source.pick(filled or arrays)
    others = [slot for slot in arrays if roots[slot] is not roots[from_root]]
    to_root = _recent(others if others and source.below(4) else arrays, source)
    return _copy_between(situation, source, from_root, to_root)


def _copy_between(situation: Situation, source: Source, from_root: int, to_root: int) -> CopyArray:
    roots = situation.roots
    from_refs, to_length = roots[from_root].refs, len(roots[to_root].refs)
    length = min(len(from_refs), to_length)
    if source.below(2):
        length = source.between(1, length)
    start = source.between(0, len(from_refs) - length)
    if any(from_refs) and not any(from_refs[start : start + length]):
        start = min(_first_reference(from_refs), len(from_refs) - length)
    return CopyArray(from_root, to_root, start, source.between(0, to_length - length), length)


def _first_reference(refs: Sequence[object]) -> int:
    return next(index for index, ref in enumerate(refs) if ref is not None)


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
    _rule(CollectStep, 8),
    _rule(CollectProgress, 1),
    _rule(CollectFull, 2),
    Rule(DisableSampling, 7, _the_heap_if_disabling, _disable_sampling),
    Rule(EnableSampling, 10, _the_heap_if_enabling, _enable_sampling),
    _rule(PauseSampling, 2),
    Rule(ResumeSampling, 2, _the_heap_if_enabling, lambda situation, source, _: ResumeSampling()),
    _rule(Fork, 2),
    Rule(AllocateNode, 16, _the_heap_if_room, _allocate_node),
    Rule(AllocateString, 16, _the_heap_if_room, _allocate_string),
    Rule(AllocateArray, 10, _the_heap_if_room, _allocate_array),
    Rule(AllocateOldString, 4, _the_heap_if_room, _allocate_old_string),
    Rule(Malloc, 24, _the_heap_if_room, _malloc),
    Rule(Calloc, 6, _the_heap_if_room, _calloc),
    Rule(Realloc, 12, _roots_that_are("block"), _realloc),
    Rule(SetPeriod, 3, _the_heap, _set_period),
    _rule(ReadProfile, 3),
    _rule_on(AllocateWeakref, 4, _roots_if_room),
    Rule(
        LoadPrebuilt,
        4,
        _prebuilt_if_slot,
        lambda situation, source, indices: LoadPrebuilt(source.pick(indices)),
    ),
    _rule_on(Free, 18, _roots),
    Rule(Read, 6, _roots_with_references_if_slot, _read),
    _rule_on(ReadNumber, 2, _roots_that_are("node", "string", "array")),
    _rule_on(ReadWeakref, 3, _roots_that_are("weakref")),
    Rule(Write, 12, _roots_with_references, _write),
    Rule(WriteNumber, 6, _roots_that_are("node"), _write_number),
    Rule(CopyArray, 6, _arrays_with_items, _copy_array),
    _rule_on(TakeIdentity, 4, _roots),
    _rule_on(Pin, 4, _strings_to_pin),
    _rule_on(Unpin, 6, _pinned),
    Rule(SetCallback, 2, _the_heap_if_nothing_pinned, _set_callback),
    Rule(AddMemoryPressure, 2, _the_heap, _add_memory_pressure),
    _rule(CheckHeap, 1),
)


def rules_for(contract: Contract) -> tuple[Rule, ...]:
    """The rules whose actions the target carries out."""
    return tuple(rule for rule in RULES if rule.name in contract.actions)
