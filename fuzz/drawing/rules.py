"""Rules: when each kind of action is legal, and how its arguments are drawn.

Both engines draw by these rules. A drawn action is concrete, so a replay needs no state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import attrs

from fuzz.drawing.members_drawn import allocate_group
from fuzz.drawing.situation import Choices, Situation
from fuzz.drawing.sizes import any_length, block_bytes, block_period, is_every, period
from fuzz.mutator.legality import (
    callback_length_max,
    can_be_pinned,
    can_have_destructor,
    why_no_finalizer,
    why_not_enabled,
    why_nothing_pinned,
)
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol import actions
from fuzz.protocol.actions import BOUNDS, NAMES, PRESSURES, Action, SlotOf
from fuzz.protocol.contract import Contract

NUMBERS = 100
DESTRUCTORS_SHARE = 4
"""One node in that many has a destructor, where nodes can have one."""
AT_ONCE_OBJECTS_MAX = 2**16
"""A thread allocates that many objects in tens of milliseconds."""
Subjects = Callable[[Situation], Sequence[int]]


@attrs.frozen(eq=False)
class Rule:
    """How one kind of action is drawn; `weight` is how often, relative to the others.

    `subjects` are what it may act on: root slots, numbers of threads or of prebuilt objects, or the
    heap as a whole. If there are none, the action is not legal here, or not useful.
    """

    action: type[Action]
    weight: int
    subjects: Subjects
    draw: Callable[[Situation, Choices, Sequence[int]], Action]

    @property
    def name(self) -> str:
        """The name of the action."""
        return NAMES[self.action]

    def draw_for(self, situation: Situation, choices: Choices, subjects: Sequence[int]) -> Action:
        """Draw an action on one of the subjects, by one of the threads."""
        if situation.threads == 1:
            return self.draw(situation, choices, subjects)
        situation.take_turn(choices)
        action = self.draw(situation, choices, subjects)
        return action if action.thread else action.by(situation.thread)


# Subjects.


def _heap(situation: Situation) -> Sequence[int]:
    return range(1)


def _heap_if_room(situation: Situation) -> Sequence[int]:
    return range(situation.may_allocate())


def _roots(situation: Situation) -> Sequence[int]:
    return range(len(situation.roots))


def _with_references(situation: Situation) -> Sequence[int]:
    return [slot for slot, obj in enumerate(situation.roots) if obj.refs]


def _prebuilt(situation: Situation) -> Sequence[int]:
    return range(len(situation.bench.shadow.prebuilt))


def _ended_threads(situation: Situation) -> Sequence[int]:
    return sorted(situation.bench.shadow.ended_threads)


def _roots_that(condition: Callable[[ShadowObject], object]) -> Subjects:
    return lambda situation: [slot for slot, obj in enumerate(situation.roots) if condition(obj)]


def _if(condition: Callable[[Situation], object], subjects: Subjects = _heap) -> Subjects:
    return lambda situation: subjects(situation) if condition(situation) else ()


def _can_enable(situation: Situation) -> bool:
    return why_not_enabled(situation.contract, situation.bench.shadow) is None


def _can_resume(situation: Situation) -> bool:
    """After a pause. Where no scenario resumes without one, a rule does so once a trace."""
    kind = actions.ResumeSampling, situation.state
    is_first = not situation.contract.nursery_bytes and kind not in situation.done
    is_paused = situation.bench.shadow.paused_bytes is not None
    return (is_paused or is_first) and _can_enable(situation)


def _can_pin(situation: Situation) -> bool:
    return why_nothing_pinned(situation.contract, situation.bench.shadow) is None


def _has_pinned(situation: Situation) -> bool:
    return bool(situation.bench.shadow.pinned)


_pinned = _if(_has_pinned, _roots_that(lambda obj: obj.pinned))


def roots_for(action: type[Action]) -> Subjects:
    """The slots that the action takes as its root, by its own declaration."""
    bound = BOUNDS[action]["root"]
    assert isinstance(bound, SlotOf)
    kinds = bound.kinds
    return _roots_that(lambda obj: obj.kind in kinds) if kinds else _roots


roots_that_refer = _roots_that(lambda obj: obj.kind in ("node", "array"))


# Blocks.


def _malloc(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.Malloc(block_bytes(situation, choices))


def _calloc(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    size_bytes = block_bytes(situation, choices)
    count = choices.pick((1, 2, 3, 8))
    return actions.Calloc(count, size_bytes // count)


def _realloc(situation: Situation, choices: Choices, slots: Sequence[int]) -> Action:
    root = _recent(slots, choices)
    capacity_bytes = situation.roots[root].size_bytes
    # Where a block may begin to move: it stays if at least half of its room is used, and one that
    # grows gets at least a quarter more (`bytes_to_move` in oracles/blocks.py).
    edges = (
        capacity_bytes,
        capacity_bytes // 2,
        capacity_bytes + capacity_bytes // 4,
        2 * capacity_bytes,
    )
    if choices.below(2):
        size_bytes = choices.pick(edges) + choices.below(3) - 1
        size_bytes = min(size_bytes, situation.contract.layout.object_bytes_max)
    else:
        size_bytes = block_bytes(situation, choices)
    return actions.Realloc(root, max(size_bytes, 1))


def _set_period(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    if is_every(situation, choices):
        return actions.SetPeriod(0)
    return actions.SetPeriod(block_period(situation, choices))


# Objects.


def _nonmovable(choices: Choices) -> bool:
    return choices.one_in(8)


def _allocate_node(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return any_node(situation, choices, choices.below(NUMBERS))


def any_node(situation: Situation, choices: Choices, number: int) -> actions.AllocateNode:
    """A node with that integer. It may be nonmovable, or have a destructor."""
    nonmovable = _nonmovable(choices)
    may_have_one = can_have_destructor(situation.contract, nonmovable=nonmovable)
    has_one = may_have_one and choices.one_in(DESTRUCTORS_SHARE)
    return actions.AllocateNode(
        number, nonmovable, finalizer_number(situation) if has_one else None
    )


def _allocate_string(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.AllocateString(any_length(situation, choices, "string"), _nonmovable(choices))


def _allocate_array(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.AllocateArray(any_length(situation, choices, "array"), _nonmovable(choices))


def _allocate_old_string(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.AllocateOldString(any_length(situation, choices, "string"))


def _set_callback(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    longest = callback_length_max(situation.contract)
    if longest < 0 or choices.below(3):
        return actions.SetCallback(None)
    return actions.SetCallback(choices.pick((0, longest, choices.between(0, longest))))


def _add_memory_pressure(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    bytes_drawn = choices.between(1, 8) * situation.contract.nursery_bytes
    return actions.AddMemoryPressure(PRESSURES.nearest(bytes_drawn))


def _run_at_once(situation: Situation, choices: Choices, _: Sequence[int]) -> Action:
    return actions.RunAtOnce(
        choices.log_between(1, AT_ONCE_OBJECTS_MAX),
        choices.below(actions.FIRST_NUMBERS.maximum + 1),
    )


# Sampling.


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
    """One of the slots, and a field of its object."""
    root = _recent(slots, choices)
    return root, _field(len(situation.roots[root].refs), choices)


def _field(length: int, choices: Choices) -> int:
    """A field or item; the last one more often, since its card may be incomplete."""
    return length - 1 if choices.one_in(4) else choices.below(length)


def _read(situation: Situation, choices: Choices, slots: Sequence[int]) -> Action:
    return actions.Read(*_place(situation, choices, slots))


def read_weakref(situation: Situation, choices: Choices, root: int) -> Action:
    """Read a weak reference, and perhaps keep its object as a root, if it can be kept."""
    if situation.contract.weak_reads == "answered" or not situation.has_slot():
        return actions.ReadWeakref(root)
    return actions.ReadWeakref(root, keep=choices.one_in(2))


def _write(situation: Situation, choices: Choices, slots: Sequence[int]) -> Action:
    root, field = _place(situation, choices, slots)
    return actions.Write(root, field, _value(situation, choices))


def _value(situation: Situation, choices: Choices) -> int | None:
    """A slot whose object is written, or null, which is rare: collectors lose references."""
    # A pinned object may have no slot any more.
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
    # Copies of references to another array are worth more than others.
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


def _fill_array(situation: Situation, choices: Choices, arrays: Sequence[int]) -> Action:
    return actions.FillArray(_recent(arrays, choices), _value(situation, choices))


def _move_array(situation: Situation, choices: Choices, arrays: Sequence[int]) -> Action:
    root = _recent(arrays, choices)
    whole = len(situation.roots[root].refs)
    length = choices.between(1, whole - 1)
    places = choices.between(0, whole - length), choices.between(0, whole - length)
    return actions.MoveArray(root, *places, length)


# Finalizers and ephemerons.


def finalizable(situation: Situation) -> Sequence[int]:
    """The slots of nodes that may have one more finalizer."""
    contract, shadow = situation.contract, situation.bench.shadow
    return [
        slot
        for slot, obj in enumerate(situation.roots)
        if obj.kind == "node" and not why_no_finalizer(obj, contract, shadow)
    ]


def _with_finalizer(situation: Situation) -> Sequence[int]:
    waiting = [*situation.bench.shadow.finalizers.waiting.values()]
    return [slot for slot, obj in enumerate(situation.roots) if obj in waiting]


def _kept(situation: Situation) -> Sequence[int]:
    return [*situation.bench.shadow.finalizers.kept]


def finalizer_number(situation: Situation) -> int:
    """A number that no finalizer of the trace has."""
    return situation.bench.shadow.finalizers.new_number()


def _register_finalizer(situation: Situation, choices: Choices, nodes: Sequence[int]) -> Action:
    return actions.RegisterFinalizer(_recent(nodes, choices), finalizer_number(situation))


def _allocate_ephemeron(situation: Situation, choices: Choices, slots: Sequence[int]) -> Action:
    return actions.AllocateEphemeron(choices.pick(slots), choices.pick(slots))


def _rule(action: Callable[[], Action], weight: int, subjects: Subjects = _heap) -> Rule:
    """A rule for an action without arguments; by default it is always legal."""
    drawn = action()
    return Rule(type(drawn), weight, subjects, lambda situation, choices, _: drawn)


def _rule_on(
    action: Callable[[int], Action], weight: int, subjects: Subjects | None = None
) -> Rule:
    """A rule for an action whose only argument is a slot; by default any that it may take."""
    kind = type(action(0))
    return Rule(
        kind,
        weight,
        subjects or roots_for(kind),
        lambda situation, choices, slots: action(_recent(slots, choices)),
    )


# No experiment chose the weights: with equal ones, bugs take as long ("What each idea is worth" in
# docs/evidence/effectiveness.md). A weight that an experiment chose has a comment.
# The simplest come first: a reduction that replaces an action by an earlier one makes progress.
RULES: tuple[Rule, ...] = (
    _rule(actions.CollectMinor, 3),
    _rule(actions.CollectStep, 8),
    _rule(actions.CollectProgress, 1),
    _rule(actions.CollectFull, 2),
    Rule(
        actions.DisableSampling,
        7,
        _if(lambda situation: situation.contract.sampling.disabling),
        _disable_sampling,
    ),
    Rule(actions.EnableSampling, 10, _if(_can_enable), _enable_sampling),
    _rule(actions.PauseSampling, 4),
    # A paused sampler is soon switched off or enabled again, so it is resumed often. The known bug
    # `restart-loses-period` then takes 300 actions, and not 803 (docs/evidence/effectiveness.md).
    _rule(actions.ResumeSampling, 24, _if(_can_resume)),
    _rule(actions.Fork, 2),
    Rule(actions.AllocateNode, 16, _heap_if_room, _allocate_node),
    Rule(actions.AllocateString, 16, _heap_if_room, _allocate_string),
    Rule(actions.AllocateArray, 10, _heap_if_room, _allocate_array),
    Rule(
        actions.AllocateGroup,
        16,
        _heap_if_room,
        lambda situation, choices, _: allocate_group(situation, choices),
    ),
    Rule(actions.AllocateOldString, 4, _heap_if_room, _allocate_old_string),
    Rule(actions.Malloc, 24, _heap_if_room, _malloc),
    Rule(actions.Calloc, 6, _heap_if_room, _calloc),
    Rule(actions.Realloc, 12, roots_for(actions.Realloc), _realloc),
    Rule(actions.SetPeriod, 3, _heap, _set_period),
    _rule(actions.ReadProfile, 3),
    _rule_on(actions.AllocateWeakref, 4, _if(Situation.may_allocate, _roots)),
    # It needs only a slot: what loads or frees must stay legal, so that no heap is full forever.
    Rule(
        actions.LoadPrebuilt,
        4,
        _if(Situation.has_slot, _prebuilt),
        lambda situation, choices, indices: actions.LoadPrebuilt(choices.pick(indices)),
    ),
    _rule_on(actions.Free, 18),
    Rule(actions.Read, 6, _if(Situation.has_slot, _with_references), _read),
    _rule_on(actions.ReadNumber, 2),
    Rule(
        actions.ReadWeakref,
        3,
        roots_for(actions.ReadWeakref),
        lambda situation, choices, slots: read_weakref(situation, choices, _recent(slots, choices)),
    ),
    Rule(actions.Write, 12, _with_references, _write),
    Rule(actions.WriteNumber, 6, roots_for(actions.WriteNumber), _write_number),
    Rule(
        actions.CopyArray, 6, _roots_that(lambda obj: obj.refs and obj.kind == "array"), _copy_array
    ),
    Rule(
        actions.FillArray, 2, _roots_that(lambda obj: obj.refs and obj.kind == "array"), _fill_array
    ),
    Rule(
        actions.MoveArray,
        2,
        _roots_that(lambda obj: len(obj.refs) > 1 and obj.kind == "array"),
        _move_array,
    ),
    _rule_on(actions.TakeIdentity, 4),
    _rule_on(actions.Pin, 4, _if(_can_pin, _roots_that(can_be_pinned))),
    _rule_on(actions.Unpin, 6, _pinned),
    Rule(actions.RegisterFinalizer, 16, finalizable, _register_finalizer),
    _rule_on(actions.UnregisterFinalizer, 2, _with_finalizer),
    Rule(
        actions.RunFinalizers,
        8,
        _heap,
        lambda situation, choices, _: actions.RunFinalizers(choices.one_in(2)),
    ),
    Rule(
        actions.Resurrect,
        12,
        _if(Situation.has_slot, _kept),
        lambda situation, choices, numbers: actions.Resurrect(choices.pick(numbers)),
    ),
    Rule(
        actions.AllocateEphemeron,
        4,
        _if(Situation.may_allocate, roots_that_refer),
        _allocate_ephemeron,
    ),
    _rule_on(actions.ReadEphemeron, 4),
    Rule(actions.SetCallback, 2, _if(lambda situation: not _has_pinned(situation)), _set_callback),
    Rule(actions.AddMemoryPressure, 2, _heap, _add_memory_pressure),
    Rule(actions.EndThread, 4, Situation.threads_to_end, _end_thread),
    Rule(actions.BeginThread, 24, _ended_threads, _begin_thread),
    Rule(actions.RunAtOnce, 16, _heap, _run_at_once),
    _rule(actions.CheckContents, 2, _roots_that(lambda obj: obj.contents or obj.refers)),
    _rule(actions.CheckHeap, 1),
)


def rules_for(contract: Contract) -> tuple[Rule, ...]:
    """The rules whose actions the target carries out."""
    return _rules_for(contract.actions)


@cache
def _rules_for(names: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES if rule.name in names)
