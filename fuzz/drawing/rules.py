"""Rules: when each kind of action is legal, and how its arguments are drawn.

Written once and drawn by either engine through `Choices`, which makes one kind of choice: a
number below another. Sizes and periods lean on the edges, and the edges come from the oracles'
own state: what just fits in the nursery and what just does not, what just reaches the sample point
and what passes it, twice the period, several nurseries. The drawn action is concrete, so that a
replay needs no state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TypeVar

import attrs

from fuzz.mutator.legality import (
    callback_length_max,
    can_be_pinned,
    length_max,
    why_not_enabled,
    why_nothing_pinned,
)
from fuzz.mutator.shadow import ShadowObject
from fuzz.oracles import Bench
from fuzz.protocol import actions
from fuzz.protocol.actions import BOUNDS, NAMES, PRESSURES, Action, SlotOf
from fuzz.protocol.contract import Contract

T = TypeVar("T")
Scenario = Iterator[Action]
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
EDGE_WORDS = 2
"""A size at an edge is at most two words away from it."""
LAST_ITEM_SHARE = 4
"""One access in so many is to the last item, beside those by chance."""
SMALL_BLOCK_BYTES = 128
SHARE_OBJECTS_MAX = 2**16
"""A thread makes so many in tens of milliseconds."""
EVERY_SHARE = 8
"""One period in so many is 0, if that is legal."""
NONMOVABLE_SHARE = 8
"""One object in so many is asked to be non-movable."""


class Choices(ABC):
    """Where choices come from. Smaller numbers are the simpler choices."""

    @abstractmethod
    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1."""

    def one_in(self, count: int) -> bool:
        """True once in `count` times; the simplest choice is False."""
        return self.below(count) == count - 1

    def between(self, minimum: int, maximum: int) -> int:
        """A number from `minimum` to `maximum`, both included."""
        return minimum + self.below(maximum - minimum + 1)

    def pick(self, among: Sequence[T]) -> T:
        """One of them; the first is the simplest."""
        return among[self.below(len(among))]

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
    scenario: Scenario | None = None
    """The scenario that goes on, if any."""
    thread: int = 0
    """Who takes the next action."""
    roots: list[ShadowObject] = attrs.field(init=False, repr=False)
    """The mutator's root slots."""
    threads: int = attrs.field(init=False)
    """How many threads it has."""
    keeps_blocks: bool = attrs.field(init=False)
    """Whether it allocates blocks and frees none."""

    def __attrs_post_init__(self) -> None:
        self.roots = self.bench.shadow.roots
        self.threads = self.contract.threads
        actions = self.contract.actions
        self.keeps_blocks = "malloc" in actions and "free" not in actions

    def take_turn(self, choices: Choices) -> None:
        """One of the threads that are there takes the next action."""
        drawn = choices.below(self.threads)
        self.thread = 0 if drawn in self.bench.shadow.ended_threads else drawn

    def has_slot(self) -> bool:
        """Whether a trace should have one more root. Of blocks that are never freed it has many."""
        return len(self.roots) < ROOTS_MAX or self.keeps_blocks

    def has_room(self) -> bool:
        """Whether a trace should have one more object."""
        return self.objects < OBJECTS_MAX and self.has_slot()


Subjects = Callable[[Situation], Sequence[int]]


@attrs.frozen(eq=False)
class Rule:
    """One kind of action. `weight` is how often it is drawn, relative to the others.

    `subjects` are what it may act upon: root slots, or numbers of prebuilt objects, or the heap as
    a whole, of which there is one. Without any, the action is not legal here, or not wanted.
    """

    action: type[Action]
    weight: int
    subjects: Subjects
    draw: Callable[[Situation, Choices, Sequence[int]], Action]

    @property
    def name(self) -> str:
        """The name of its action."""
        return NAMES[self.action]

    def draw_for(self, situation: Situation, choices: Choices, subjects: Sequence[int]) -> Action:
        """Draw an action upon one of the subjects, by one of the threads."""
        if situation.threads == 1:
            return self.draw(situation, choices, subjects)
        situation.take_turn(choices)
        action = self.draw(situation, choices, subjects)
        return action if action.thread else action.by(situation.thread)


# Subjects.

THE_HEAP = range(1)
NOTHING = range(0)


def _the_heap(situation: Situation) -> Sequence[int]:
    return THE_HEAP


def _the_heap_if_room(situation: Situation) -> Sequence[int]:
    return THE_HEAP if situation.has_room() else NOTHING


def _threads_but_the_first(situation: Situation) -> Sequence[int]:
    ended = situation.bench.shadow.ended_threads
    return [each for each in range(1, situation.threads) if each not in ended]


def _ended_threads(situation: Situation) -> Sequence[int]:
    return sorted(situation.bench.shadow.ended_threads)


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


def roots_for(action: type[Action]) -> Subjects:
    """The slots that the action takes as its root, by its own declaration."""
    bound = BOUNDS[action]["root"]
    assert isinstance(bound, SlotOf)
    kinds = bound.kinds
    if not kinds:
        return _roots
    return lambda situation: [slot for slot, obj in enumerate(situation.roots) if obj.kind in kinds]


def _arrays_with_items(situation: Situation) -> Sequence[int]:
    return [slot for slot, obj in enumerate(situation.roots) if obj.refs and obj.kind == "array"]


# Sizes.


def _edges(situation: Situation) -> Sequence[int]:
    """The sizes at which something changes, those that matter more standing there more often."""
    contract, sampling = situation.contract, situation.bench.sampling
    nursery_bytes = contract.nursery_bytes
    large_bytes = contract.layout.large_object_bytes
    room_bytes = nursery_bytes - sampling.nursery_used_bytes
    if contract.sampling.counting.has_local_buffers:
        if large_bytes > contract.layout.object_bytes_max:
            large_bytes = room_bytes  # What lies outside a thread's buffer is in the nursery too.
        room_bytes = sampling.room_bytes[situation.thread]
    if sampling.period_bytes is None:
        edges = [room_bytes, room_bytes, large_bytes, large_bytes, nursery_bytes]
    else:
        sample_bytes = sampling.bytes_until_sample(situation.thread)
        twice_bytes = 2 * sampling.period_bytes
        edges = [*[sample_bytes] * 3, room_bytes, large_bytes, twice_bytes, nursery_bytes]
    return [*edges, *contract.boundary_bytes]


def _edge_bytes(situation: Situation, choices: Choices) -> int:
    """The size of an object at some edge, in bytes: on it, or a word or two to either side."""
    contract = situation.contract
    nursery_bytes = contract.nursery_bytes
    edge_bytes = size = choices.pick(_edges(situation))
    if size == nursery_bytes:
        size *= choices.between(1, NURSERIES_MAX)
    size += contract.layout.word_bytes * (choices.below(2 * EDGE_WORDS + 1) - EDGE_WORDS)
    is_wanted = size <= NURSERIES_MAX * nursery_bytes or edge_bytes in contract.boundary_bytes
    return size if is_wanted else nursery_bytes


def _length(situation: Situation, choices: Choices, kind: str) -> int:
    """A length that makes an object small, or of an interesting size."""
    if not choices.below(2):
        return min(choices.below(SMALL_LENGTHS), length_max(kind, situation.contract))
    return edge_length(situation, choices, kind)


def edge_length(situation: Situation, choices: Choices, kind: str) -> int:
    """A length that makes an object of an interesting size."""
    layout = situation.contract.layout.kinds.get(kind)
    if layout is None:
        return 0  # For a scenario, which the target's lack of that kind ends.
    size = min(_edge_bytes(situation, choices), situation.contract.layout.object_bytes_max)
    if layout.item_bytes == 1:
        size -= choices.below(2)
    length = max((size - layout.fixed_bytes) // layout.item_bytes, 0)
    if _only_arrays_reach(size, situation.contract):
        return length
    return min(length, LENGTHS_MAX[kind])


def _only_arrays_reach(size_bytes: int, contract: Contract) -> bool:
    """Whether a size is at a boundary of the contract, and the items of strings are too large."""
    layout = contract.layout
    string = layout.kinds.get("string")
    if string is not None and string.item_bytes <= layout.word_bytes:
        return False
    boundaries = layout.large_object_bytes, *contract.boundary_bytes
    most_bytes = EDGE_WORDS * layout.word_bytes
    return any(abs(size_bytes - each) <= most_bytes for each in boundaries)


# Blocks.


def _block_edges(situation: Situation) -> Sequence[int]:
    """The sizes at which something changes, with what stands before a block."""
    contract, layout = situation.contract, situation.contract.layout
    until_bytes = situation.bench.sampling.bytes_until_sample(situation.thread)
    most_bytes = layout.object_bytes_max + layout.kinds["block"].fixed_bytes
    edges = [until_bytes, until_bytes, until_bytes, most_bytes]
    if layout.size_classes:
        edges.append(layout.size_classes[-1])
        edges.append(layout.class_bytes(until_bytes) or layout.page_bytes)
    return [*edges, *contract.sampling.counting.edge_bytes, *contract.boundary_bytes]


def _block_bytes(situation: Situation, choices: Choices) -> int:
    """The size of a block: small, at some edge, of some class, or anything."""
    layout = situation.contract.layout
    most, header_bytes = layout.object_bytes_max, layout.kinds["block"].fixed_bytes
    match choices.below(4):
        case 0:
            size_bytes = choices.below(SMALL_BLOCK_BYTES)
        case 1:
            size_bytes = choices.pick(_block_edges(situation)) - header_bytes + choices.below(3) - 1
        case 2 if layout.size_classes:
            size_bytes = choices.pick(layout.size_classes) - header_bytes + choices.below(3) - 1
        case _:
            size_bytes = choices.log_between(1, most)
    return min(max(size_bytes, 0), most)


def _malloc(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.Malloc(_block_bytes(situation, choices))


def _calloc(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    size_bytes = _block_bytes(situation, choices)
    count = choices.pick((1, 2, 3, 8))
    return actions.Calloc(count, size_bytes // count)


def _realloc(situation: Situation, choices: Choices, slots: Sequence[int]) -> Action:
    root = _recent(slots, choices)
    room_bytes = situation.roots[root].size_bytes
    edges = (room_bytes, room_bytes // 2, room_bytes + room_bytes // 4, 2 * room_bytes)
    if choices.below(2):
        size_bytes = choices.pick(edges) + choices.below(3) - 1
        size_bytes = min(size_bytes, situation.contract.layout.object_bytes_max)
    else:
        size_bytes = _block_bytes(situation, choices)
    return actions.Realloc(root, max(size_bytes, 1))


def _set_period(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    is_every = _is_every(situation, choices)
    return actions.SetPeriod(0 if is_every else block_period(situation, choices))


def block_period(situation: Situation, choices: Choices) -> int:
    """A legal period, where there is no nursery that it could be measured by."""
    rule = situation.contract.sampling
    if rule.periods:
        return choices.pick(rule.periods)
    legal, most = rule.period_bytes, situation.contract.layout.object_bytes_max
    return rule.nearest(choices.log_between(max(legal.minimum, 1), max(most, legal.minimum, 1)))


def _nonmovable(choices: Choices) -> bool:
    return choices.below(NONMOVABLE_SHARE) == NONMOVABLE_SHARE - 1


def _allocate_node(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.AllocateNode(choices.below(NUMBERS), _nonmovable(choices))


def _allocate_string(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.AllocateString(_length(situation, choices, "string"), _nonmovable(choices))


def _allocate_array(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.AllocateArray(_length(situation, choices, "array"), _nonmovable(choices))


def _allocate_old_string(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.AllocateOldString(_length(situation, choices, "string"))


def _set_callback(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    longest = callback_length_max(situation.contract)
    if longest < 0 or choices.below(3):
        return actions.SetCallback(None)
    return actions.SetCallback(choices.pick((0, longest, choices.between(0, longest))))


def _add_memory_pressure(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    bytes_drawn = choices.between(1, NURSERIES_PRESSED_MAX) * situation.contract.nursery_bytes
    return actions.AddMemoryPressure(PRESSURES.nearest(bytes_drawn))


def _run_at_once(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.RunAtOnce(
        choices.log_between(1, SHARE_OBJECTS_MAX), choices.below(actions.FIRST_NUMBERS.maximum + 1)
    )


# Sampling.


def short_period(situation: Situation, choices: Choices) -> int:
    """A legal period of some words."""
    rule = situation.contract.sampling
    return rule.nearest(choices.between(1, 16) * rule.period_bytes.multiple)


def _is_every(situation: Situation, choices: Choices) -> bool:
    """Whether each allocation is to be sampled, where a period can be 0."""
    return situation.contract.sampling.why_illegal(0) is None and not choices.below(EVERY_SHARE)


def period(situation: Situation, choices: Choices) -> int:
    """A legal period, from a word to many nurseries."""
    nursery = situation.contract.nursery_bytes
    if not nursery:
        return block_period(situation, choices)
    legal = situation.contract.sampling.period_bytes
    if _is_every(situation, choices):
        return 0
    match choices.below(4):
        case 0:
            return short_period(situation, choices)
        case 1:
            period_bytes = nursery - situation.bench.sampling.nursery_used_bytes
        case 2:
            period_bytes = nursery * choices.between(1, NURSERIES_MAX)
        case _:
            period_bytes = choices.log_between(legal.multiple, max(8 * nursery, legal.multiple))
    return situation.contract.sampling.nearest(period_bytes)


def _enable_sampling(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.EnableSampling(period(situation, choices))


def _disable_sampling(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.DisableSampling(choices.pick(situation.contract.sampling.disabling) == "report")


# Threads.


def _end_thread(situation: Situation, choices: Choices, threads: Sequence[int]) -> Action:
    return actions.EndThread(thread=choices.pick(threads))


def _begin_thread(situation: Situation, choices: Choices, threads: Sequence[int]) -> Action:
    return actions.BeginThread(thread=choices.pick(threads))


# Access.


def _recent(slots: Sequence[int], choices: Choices) -> int:
    """One of the slots; the newest more often, since its object is likely to be young."""
    return slots[-1] if choices.below(3) == 0 else choices.pick(slots)


def _place(situation: Situation, choices: Choices, slots: Sequence[int]) -> tuple[int, int]:
    """One of the slots, whose objects have references, and one of its object's fields."""
    root = _recent(slots, choices)
    length = len(situation.roots[root].refs)
    # The last item may lie on a card that the array's end cuts short.
    if choices.below(LAST_ITEM_SHARE) == LAST_ITEM_SHARE - 1:
        return root, length - 1
    return root, choices.below(length)


def _read(situation: Situation, choices: Choices, slots: Sequence[int]) -> Action:
    return actions.Read(*_place(situation, choices, slots))


def _write(situation: Situation, choices: Choices, slots: Sequence[int]) -> Action:
    root, field = _place(situation, choices, slots)
    return actions.Write(root, field, _value(situation, choices))


def _value(situation: Situation, choices: Choices) -> int | None:
    """A slot whose object is to be written; null stays rare, since collectors lose references."""
    # What is pinned may have no slot any more; the choice is made all the same.
    if situation.bench.shadow.pinned and not choices.below(2):
        pinned = _pinned(situation)
        if pinned:
            return choices.pick(pinned)
    value = choices.between(-1, len(situation.roots) - 1)
    return None if value < 0 else value


def _write_number(situation: Situation, choices: Choices, nodes: Sequence[int]) -> Action:
    return actions.WriteNumber(_recent(nodes, choices), choices.below(NUMBERS))


def _copy_array(situation: Situation, choices: Choices, arrays: Sequence[int]) -> Action:
    roots = situation.roots
    # What is worth copying are references, and from one array into another.
    filled = [slot for slot in arrays if any(roots[slot].refs)]
    from_root = choices.pick(filled or arrays)
    others = [slot for slot in arrays if roots[slot] is not roots[from_root]]
    to_root = _recent(others if others and choices.below(4) else arrays, choices)
    return _copy_between(situation, choices, from_root, to_root)


def _copy_between(situation: Situation, choices: Choices, from_root: int, to_root: int) -> Action:
    roots = situation.roots
    from_refs, to_length = roots[from_root].refs, len(roots[to_root].refs)
    length = min(len(from_refs), to_length)
    if choices.below(2):
        length = choices.between(1, length)
    start = choices.between(0, len(from_refs) - length)
    if any(from_refs) and not any(from_refs[start : start + length]):
        first = next(index for index, ref in enumerate(from_refs) if ref is not None)
        start = min(first, len(from_refs) - length)
    to_start = choices.between(0, to_length - length)
    return actions.CopyArray(from_root, to_root, start, to_start, length)


def _rule(action: Callable[[], Action], weight: int, subjects: Subjects = _the_heap) -> Rule:
    """A rule for an action without arguments, by default one that is always legal."""
    drawn = action()  # It is frozen, and always the same.
    return Rule(type(drawn), weight, subjects, lambda situation, choices, _: drawn)


def _rule_on(
    action: Callable[[int], Action], weight: int, subjects: Subjects | None = None
) -> Rule:
    """A rule for an action whose only argument is a slot, by default any that it may take."""
    kind = type(action(0))
    return Rule(
        kind,
        weight,
        subjects or roots_for(kind),
        lambda situation, choices, slots: action(_recent(slots, choices)),
    )


# The simplest first: a reduction that replaces an action by an earlier one makes progress.
RULES: tuple[Rule, ...] = (
    _rule(actions.CollectMinor, 3),
    _rule(actions.CollectStep, 8),
    _rule(actions.CollectProgress, 1),
    _rule(actions.CollectFull, 2),
    Rule(actions.DisableSampling, 7, _the_heap_if_disabling, _disable_sampling),
    Rule(actions.EnableSampling, 10, _the_heap_if_enabling, _enable_sampling),
    _rule(actions.PauseSampling, 2),
    _rule(actions.ResumeSampling, 2, _the_heap_if_enabling),
    _rule(actions.Fork, 2),
    Rule(actions.AllocateNode, 16, _the_heap_if_room, _allocate_node),
    Rule(actions.AllocateString, 16, _the_heap_if_room, _allocate_string),
    Rule(actions.AllocateArray, 10, _the_heap_if_room, _allocate_array),
    Rule(actions.AllocateOldString, 4, _the_heap_if_room, _allocate_old_string),
    Rule(actions.Malloc, 24, _the_heap_if_room, _malloc),
    Rule(actions.Calloc, 6, _the_heap_if_room, _calloc),
    Rule(actions.Realloc, 12, roots_for(actions.Realloc), _realloc),
    Rule(actions.SetPeriod, 3, _the_heap, _set_period),
    _rule(actions.ReadProfile, 3),
    _rule_on(actions.AllocateWeakref, 4, _roots_if_room),
    Rule(
        actions.LoadPrebuilt,
        4,
        _prebuilt_if_slot,
        lambda situation, choices, indices: actions.LoadPrebuilt(choices.pick(indices)),
    ),
    _rule_on(actions.Free, 18),
    Rule(actions.Read, 6, _roots_with_references_if_slot, _read),
    _rule_on(actions.ReadNumber, 2),
    _rule_on(actions.ReadWeakref, 3),
    Rule(actions.Write, 12, _roots_with_references, _write),
    Rule(actions.WriteNumber, 6, roots_for(actions.WriteNumber), _write_number),
    Rule(actions.CopyArray, 6, _arrays_with_items, _copy_array),
    _rule_on(actions.TakeIdentity, 4),
    _rule_on(actions.Pin, 4, _strings_to_pin),
    _rule_on(actions.Unpin, 6, _pinned),
    Rule(actions.SetCallback, 2, _the_heap_if_nothing_pinned, _set_callback),
    Rule(actions.AddMemoryPressure, 2, _the_heap, _add_memory_pressure),
    Rule(actions.EndThread, 4, _threads_but_the_first, _end_thread),
    Rule(actions.BeginThread, 24, _ended_threads, _begin_thread),
    Rule(actions.RunAtOnce, 16, _the_heap, _run_at_once),
    _rule(actions.CheckHeap, 1),
)


def rules_for(contract: Contract) -> tuple[Rule, ...]:
    """The rules whose actions the target carries out."""
    return _rules_for(contract.actions)


@cache
def _rules_for(names: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES if rule.name in names)
