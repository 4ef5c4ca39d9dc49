"""Scenarios: sequences of actions that have been dangerous to collectors.

A rule draws one action. A dozen actions that matter only together are rarely drawn in sequence, so
a scenario is a generator of them. It draws each action from the current situation and leaves out
some steps at random; actions that the rules draw in between may change the scenario or end it.
Invariant: a scenario yields concrete actions, as a rule does. Whether an action is legal is checked
when it is due. No scenario knows how a target works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzz.drawing.rules import (
    NUMBERS,
    OBJECTS_MAX,
    SMALL_BLOCK_BYTES,
    Choices,
    Scenario,
    Situation,
    edge_length,
    period,
    short_period,
)
from fuzz.mutator.legality import callback_length_max, why_nothing_pinned
from fuzz.mutator.shadow import ShadowObject
from fuzz.protocol.actions import (
    PRESSURES,
    Action,
    AddMemoryPressure,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    CollectFull,
    CollectMinor,
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
    ReadWeakref,
    ResumeSampling,
    SetCallback,
    TakeIdentity,
    Unpin,
    Write,
    WriteNumber,
)
from fuzz.protocol.contract import Contract

STEPS_MAX = 3
FREED_MAX = 4
ALLOCATIONS_MAX = 4
ITEMS_MAX = 12
IN_STEP_PERIOD_MIN = 1024
IN_STEP_PERIOD_MAX = 16384
IN_STEP_TIMES_MAX = 32
IN_STEP_BLOCKS_SHARE = 32
"""One scenario of blocks in 32 is not empty, since there is no other one."""
MOMENTS = 64
MOMENTS_WEIGHT = 10
"""It takes hundreds of allocations to show that samples are missing."""
LONG_ITEMS_MAX = 512
"""Longer arrays cost more than they tell."""
LARGE_ITEMS = 34
"""An array of so many has cards in two bytes, where a card is of four items. (incminimark.)"""


class ObjectGoneError(Exception):
    """The scenario names an object or a field that is not there, and so it ends."""


def _newest(situation: Situation) -> ShadowObject:
    """The object in the last slot. Raises ObjectGoneError.

    It is what the scenario allocated or loaded last, unless a rule has put another on top of it: a
    scenario is asked for its next action only when it goes on, and then goes on with that object.
    """
    if not situation.roots:
        raise ObjectGoneError
    return situation.roots[-1]


def _slot(situation: Situation, obj: ShadowObject) -> int:
    """A slot that holds `obj`. Raises ObjectGoneError."""
    for slot, root in enumerate(situation.roots):
        if root is obj:
            return slot
    raise ObjectGoneError


def _field(choices: Choices, obj: ShadowObject) -> int:
    """A field or item; the last one more often. Raises ObjectGoneError if there is none."""
    length = len(obj.refs)
    if not length:
        raise ObjectGoneError
    return length - 1 if not choices.below(2) else choices.below(length)


def _array(choices: Choices) -> AllocateArray:
    return AllocateArray(1 + choices.below(ITEMS_MAX))


def _large_or_small(choices: Choices) -> AllocateArray:
    """An array of one card or of many, in the nursery or outside."""
    if choices.below(3):
        return AllocateArray(LARGE_ITEMS, nonmovable=bool(choices.below(2)))
    return _array(choices)


def _parent(choices: Choices) -> Action:
    """An object with references."""
    return _array(choices) if choices.below(2) else AllocateNode(0)


def _pin_perhaps(situation: Situation, choices: Choices, obj: ShadowObject) -> Scenario:
    """Pin a string, where any can be pinned."""
    excluded = why_nothing_pinned(situation.contract, situation.bench.shadow)
    if obj.kind == "string" and not excluded and choices.below(3):
        yield Pin(_slot(situation, obj))


def _steps(choices: Choices) -> Scenario:
    """Some steps of a major collection."""
    for _ in range(choices.between(0, STEPS_MAX)):
        yield CollectStep()


def _collection(situation: Situation) -> Action:
    """The least that the target can be asked for."""
    return CollectMinor() if "collect_minor" in situation.contract.actions else CollectFull()


def _ages_perhaps(situation: Situation, choices: Choices) -> Scenario:
    """What lives is old from here on, or still young."""
    if choices.below(2):
        yield _collection(situation)


def _ending(choices: Choices) -> Scenario:
    """What brings mistakes to light."""
    yield CollectFull() if choices.below(2) else CollectMinor()


def reference_is_moved(situation: Situation, choices: Choices) -> Scenario:
    """While marking, a reference is copied from one array to another, and deleted where it was.

    The hard case of incremental marking; PyPy's array copy got it wrong (issue 4925).
    """
    yield _array(choices)
    origin = _newest(situation)
    yield AllocateNode(0)
    item, obj = _field(choices, origin), _newest(situation)
    yield Write(_slot(situation, origin), item, _slot(situation, obj))
    yield Free(_slot(situation, obj))
    yield _array(choices)
    heir = _newest(situation)
    yield CollectStep()
    yield from _steps(choices)
    yield CopyArray(
        _slot(situation, origin), _slot(situation, heir), item, _field(choices, heir), 1
    )
    yield Write(_slot(situation, origin), item, None)
    yield CollectFull()


def reference_is_moved_beside_dirty_card(situation: Situation, choices: Choices) -> Scenario:
    """The same between large arrays, where the source was written elsewhere. (Found with gcfuzz.)

    Only what is copied may be clean: whether the destination is looked at again must not depend on
    the rest of the source. (PyPy's array copy, docs/findings.)
    """
    yield AllocateArray(LARGE_ITEMS)
    origin = _newest(situation)
    yield AllocateNode(0)
    obj = _newest(situation)
    yield Write(_slot(situation, origin), 0, _slot(situation, obj))
    yield Free(_slot(situation, obj))
    yield AllocateArray(LARGE_ITEMS)
    heir = _newest(situation)
    # The second step is likely to visit the newest root, and no other.
    for _ in range(choices.pick((1, 2, 2, 3))):
        yield CollectStep()
    yield Write(_slot(situation, origin), len(origin.refs) - 1, None)
    yield CopyArray(_slot(situation, origin), _slot(situation, heir), 0, 0, 1)
    yield Write(_slot(situation, origin), 0, None)
    yield CollectFull()


def prebuilt_object_inherits(situation: Situation, choices: Choices) -> Scenario:
    """A prebuilt array is all that refers to what was copied into it. (PyPy, commit 345aaf99.)"""
    yield AllocateArray(1 + choices.below(2))
    origin = _newest(situation)
    yield Write(_slot(situation, origin), 0, choices.below(len(situation.roots)))
    yield CollectMinor()
    yield LoadPrebuilt(choices.below(max(len(situation.bench.shadow.prebuilt), 1)))
    heir = _newest(situation)
    yield CopyArray(_slot(situation, origin), _slot(situation, heir), 0, _field(choices, heir), 1)
    yield Free(_slot(situation, origin))
    yield CollectFull()


def young_item_is_copied(situation: Situation, choices: Choices) -> Scenario:
    """A young item goes from array to array, or within one; each may be old, large or soon dead."""
    if choices.below(3):
        yield EnableSampling(short_period(situation, choices))
    yield _large_or_small(choices)
    origin = heir = _newest(situation)
    yield from _ages_perhaps(situation, choices)
    if choices.below(3):
        yield _large_or_small(choices)
        heir = _newest(situation)
        yield from _ages_perhaps(situation, choices)
    weakref = None
    if choices.below(2):
        yield AllocateWeakref(_slot(situation, heir))
        weakref = _newest(situation)
    yield AllocateNode(0)
    item, child = _field(choices, origin), _newest(situation)
    if choices.below(3) > 1:
        # A copy to another place remembers it whole, and its cards say nothing of it any more.
        yield CopyArray(_slot(situation, heir), _slot(situation, origin), 0, item, 1)
    yield Write(_slot(situation, origin), item, _slot(situation, child))
    yield Free(_slot(situation, child))
    if heir is not origin and choices.below(2):
        # Both from their beginnings, which is how cards can be copied.
        start, to, length = 0, 0, min(len(origin.refs), len(heir.refs))
    else:
        # What a rule has put in the heir's place may have no items; then the scenario ends below.
        start, longest = item, min(len(origin.refs) - item, len(heir.refs))
        length = choices.between(1, max(longest, 1))
        to = min(_field(choices, heir), len(heir.refs) - length)
    yield CopyArray(_slot(situation, origin), _slot(situation, heir), start, to, length)
    if choices.below(3):
        for array in dict.fromkeys((origin, heir)):
            yield Free(_slot(situation, array))
    yield from _ending(choices)
    if weakref is not None:
        yield ReadWeakref(_slot(situation, weakref))


def array_of_many_cards_lives(situation: Situation, choices: Choices) -> Scenario:
    """An array takes another word for its cards, or nearly, and its last item lies on the last.

    A card is a bit of a word. (incminimark.)
    """
    space = situation.contract.old_space
    word_items = (space.card_items or 1) * situation.contract.layout.word_bytes * 8
    length = min(word_items * (1 + choices.below(2)), LONG_ITEMS_MAX) + choices.between(-2, 2)
    yield AllocateArray(length)
    array = _newest(situation)
    yield from _ages_perhaps(situation, choices)
    yield AllocateNode(0)
    child = _newest(situation)
    yield Write(_slot(situation, array), _field(choices, array), _slot(situation, child))
    yield Free(_slot(situation, child))
    yield from _ending(choices)


def pinned_item_is_copied(situation: Situation, choices: Choices) -> Scenario:
    """One old array is known for what is pinned, which goes from it to another. (PyPy's pinning.)

    By its flags the first refers to nothing young; the pinned object moves when it is unpinned.
    """
    yield _array(choices)
    origin = _newest(situation)
    yield _array(choices)
    heir = _newest(situation)
    yield AllocateString(0)
    item, obj = _field(choices, origin), _newest(situation)
    yield Write(_slot(situation, origin), item, _slot(situation, obj))
    yield Pin(_slot(situation, obj))
    yield CollectMinor()
    yield CopyArray(
        _slot(situation, origin), _slot(situation, heir), item, _field(choices, heir), 1
    )
    yield Unpin(_slot(situation, obj))
    yield from _ending(choices)


def weak_reference_is_read(situation: Situation, choices: Choices) -> Scenario:
    """An object that may be pinned dies, and its weak reference is read. (Every collector.)"""
    yield AllocateString(0) if choices.below(2) else _parent(choices)
    obj = _newest(situation)
    yield from _pin_perhaps(situation, choices, obj)
    yield AllocateWeakref(_slot(situation, obj))
    weakref = _newest(situation)
    yield from _steps(choices)
    yield Free(_slot(situation, obj))
    yield from _ending(choices)
    yield ReadWeakref(_slot(situation, weakref))


def only_holder_is_let_go(situation: Situation, choices: Choices) -> Scenario:
    """What alone refers to an object goes, or was never young, while marking may go on.

    Its weak reference says whether it was taken for dead too early, or never: it may be pinned, and
    a prebuilt object that was never written before is not marked with the others. A young holder
    keeps nothing alive, though its future place is reserved.
    """
    yield from _steps(choices)
    yield LoadPrebuilt(0) if choices.below(2) else _parent(choices)
    holder = _newest(situation)
    is_known = choices.below(3) > 1
    if is_known:
        yield TakeIdentity(_slot(situation, holder))
    yield AllocateString(0) if choices.below(3) else AllocateNode(0)
    obj = _newest(situation)
    yield from _pin_perhaps(situation, choices, obj)
    yield AllocateWeakref(_slot(situation, obj))
    weakref = _newest(situation)
    yield Write(_slot(situation, holder), _field(choices, holder), _slot(situation, obj))
    yield Free(_slot(situation, obj))
    if not is_known:  # It would grow old.
        yield from _steps(choices)
    yield Free(_slot(situation, holder))
    yield CollectMinor()
    yield ReadWeakref(_slot(situation, weakref))
    yield CollectFull()
    yield ReadWeakref(_slot(situation, weakref))


def old_object_is_written(situation: Situation, choices: Choices) -> Scenario:
    """An old object is all that refers to a young one. (Every generational collector.)"""
    yield _parent(choices)
    parent = _newest(situation)
    yield CollectMinor()
    yield AllocateNode(0)
    child = _newest(situation)
    yield Write(_slot(situation, parent), _field(choices, parent), _slot(situation, child))
    if choices.below(2):
        yield Free(_slot(situation, child))
    yield from _ending(choices)


def pinned_object_is_known(situation: Situation, choices: Choices) -> Scenario:
    """A pinned object whose identity was taken outlives a major collection. (PyPy 96a224bd.)"""
    yield AllocateString(0)
    obj = _newest(situation)
    for action in (Pin, TakeIdentity) if choices.below(2) else (TakeIdentity, Pin):
        yield action(_slot(situation, obj))
    yield from _steps(choices)
    yield CollectFull()
    yield Unpin(_slot(situation, obj))
    yield CollectMinor()


def pinned_object_is_let_go(situation: Situation, choices: Choices) -> Scenario:
    """While marking, an object is unpinned that only an old one refers to. (PyPy 4900, 2363.)"""
    yield AllocateNode(0)
    yield AllocateString(0)
    obj = _newest(situation)
    yield Pin(_slot(situation, obj))
    yield _parent(choices)
    parent = _newest(situation)
    yield Write(_slot(situation, parent), _field(choices, parent), _slot(situation, obj))
    yield CollectStep()
    yield from _steps(choices)
    yield Unpin(_slot(situation, obj))
    yield Free(_slot(situation, obj))
    yield CollectFull()


def obstacle_is_left(situation: Situation, choices: Choices) -> Scenario:
    """Sampling begins while an obstacle stands of what was pinned. (PyPy's sampling fork.)"""
    yield AllocateString(choices.below(ITEMS_MAX))
    obj = _newest(situation)
    yield Pin(_slot(situation, obj))
    yield CollectMinor()
    yield Unpin(_slot(situation, obj))
    yield EnableSampling(period(situation, choices))
    for _ in range(choices.between(1, ALLOCATIONS_MAX)):
        yield AllocateNode(0)


def callback_is_in_the_way(situation: Situation, choices: Choices) -> Scenario:
    """A callback leaves too little of the nursery for what it was collected for. (PyPy's fork.)"""
    longest = max(callback_length_max(situation.contract), 0)
    yield SetCallback(max(longest - choices.below(ITEMS_MAX), 0))
    yield EnableSampling(period(situation, choices))
    for _ in range(choices.between(1, ALLOCATIONS_MAX)):
        yield AllocateString(longest)
    yield SetCallback(None)


def pressure_comes(situation: Situation, choices: Choices) -> Scenario:
    """A collection is due while sampling is on. (PyPy's fork.)"""
    yield EnableSampling(short_period(situation, choices))
    extra_bytes = situation.contract.nursery_bytes << (2 + choices.below(2))
    yield AddMemoryPressure(PRESSURES.nearest(extra_bytes))
    yield AllocateNode(0)


def identity_is_taken(situation: Situation, choices: Choices) -> Scenario:
    """A young object changes after its future place was reserved."""
    yield AllocateNode(0)
    obj = _newest(situation)
    yield TakeIdentity(_slot(situation, obj))
    yield WriteNumber(_slot(situation, obj), 1 + choices.below(NUMBERS - 1))
    yield from _ending(choices)


def process_forks(situation: Situation, choices: Choices) -> Scenario:
    """A process forks while a sample is pending. (PyPy's fork.)"""
    yield EnableSampling(short_period(situation, choices))
    yield AllocateString(edge_length(situation, choices, "string"))
    yield Fork()
    if choices.below(2):
        # What the child has kept of its parent's samples shows only if it is sampled again.
        yield EnableSampling(short_period(situation, choices))
    yield CollectMinor()


def sampling_is_off(situation: Situation, choices: Choices) -> Scenario:
    """Sampling ends that may never have begun. (Jung and Bolz-Tereick, section 3.7.)"""
    yield DisableSampling()
    yield AllocateNode(0)


def sampling_pauses(situation: Situation, choices: Choices) -> Scenario:
    """Sampling is paused and resumed. (PyPy's fork, rvmprof.)"""
    yield EnableSampling(period(situation, choices))
    if choices.below(2):
        yield AllocateString(edge_length(situation, choices, "string"))
    yield PauseSampling()
    yield ResumeSampling()


def old_object_is_sampled(situation: Situation, choices: Choices) -> Scenario:
    """An object that is old from the start is sampled, and reported. (PyPy's fork.)"""
    yield EnableSampling(short_period(situation, choices))
    yield AllocateOldString(edge_length(situation, choices, "string"))
    yield CollectMinor()


def sample_point_goes_far(situation: Situation, choices: Choices) -> Scenario:
    """The sample point comes into the nursery, and leaves it again. (PyPy's fork.)"""
    yield EnableSampling(period(situation, choices))
    for _ in range(2):
        yield AllocateString(edge_length(situation, choices, "string"), nonmovable=True)
    yield AllocateNode(0)


def kinds_alternate_in_step(situation: Situation, choices: Choices) -> Scenario:
    """A large and a small object, again and again, take a period together. (AllocationTick.)

    Where all distances are alike, the end of each lies in the small object: it is always sampled,
    and the other never.
    """
    layout = situation.contract.layout
    if not {"node", "string"} <= layout.kinds.keys():
        raise ObjectGoneError
    node_bytes = layout.cost("node", 0, nonmovable=False)[0]
    legal = situation.contract.sampling
    period_bytes = legal.nearest(choices.log_between(IN_STEP_PERIOD_MIN, IN_STEP_PERIOD_MAX))
    length = period_bytes - node_bytes - layout.kinds["string"].fixed_bytes
    yield EnableSampling(period_bytes)
    yield AllocateNode(0)
    for _ in range(choices.between(1, IN_STEP_TIMES_MAX)):
        yield Free(len(situation.roots) - 1)
        yield AllocateString(max(length, 0))
        yield Free(len(situation.roots) - 1)
        yield AllocateNode(0)


def blocks_alternate_in_step(situation: Situation, choices: Choices) -> Scenario:
    """A large and a small block, again and again, take a period together. (Scalene.)

    The distance ends in one of them each time, and in which one depends on where it began.
    """
    layout, period_bytes = situation.contract.layout, situation.bench.sampling.period_bytes
    if choices.below(IN_STEP_BLOCKS_SHARE) or period_bytes is None:
        return  # The rules draw most blocks.
    small = Malloc(choices.below(SMALL_BLOCK_BYTES))
    rest_bytes = period_bytes - layout.room_bytes(small.size_bytes)
    large = Malloc(max(rest_bytes - layout.kinds["block"].fixed_bytes, 0))
    if choices.below(2):
        yield large
    for _ in range(choices.between(1, IN_STEP_TIMES_MAX)):
        yield large
        yield small


def sampling_is_on_for_moments(situation: Situation, choices: Choices) -> Scenario:
    """Sampling is on for a moment, again and again, and each thread allocates once. (.NET)

    Before that each thread allocates a small object: what it has reserved together with that, up
    to a boundary of the contract, may go unsampled.
    """
    contract, layout = situation.contract, situation.contract.layout.kinds.get("array")
    if layout is None:
        raise ObjectGoneError
    small = AllocateArray(0)
    large_bytes = choices.pick(contract.boundary_bytes) - layout.fixed_bytes
    large = AllocateArray(max(large_bytes - layout.fixed_bytes, 0) // layout.item_bytes)
    for _ in range(MOMENTS):
        yield _collection(situation)
        yield from _by_each_thread(situation, small)
        yield EnableSampling(contract.sampling.nearest(0))
        yield from _by_each_thread(situation, large)
        yield DisableSampling()


def _by_each_thread(situation: Situation, action: Action) -> Scenario:
    """Every thread takes the action, in order."""
    for thread in range(situation.threads):
        situation.thread = thread
        yield action


def room_is_made(situation: Situation, choices: Choices) -> Scenario:
    """Some of what other stories left is let go, where none has room any more.

    Objects are counted again where some are collected.
    """
    for _ in range(choices.between(1, FREED_MAX)):
        yield Free(choices.below(max(len(situation.roots), 1)))
    if situation.objects >= OBJECTS_MAX:
        yield _collection(situation)


SCENARIOS: tuple[Callable[[Situation, Choices], Scenario], ...] = (
    old_object_is_written,
    sampling_is_off,
    process_forks,
    sampling_pauses,
    old_object_is_sampled,
    sample_point_goes_far,
    pressure_comes,
    identity_is_taken,
    reference_is_moved,
    reference_is_moved_beside_dirty_card,
    prebuilt_object_inherits,
    pinned_object_is_known,
    pinned_object_is_let_go,
    obstacle_is_left,
    callback_is_in_the_way,
    young_item_is_copied,
    array_of_many_cards_lives,
    pinned_item_is_copied,
    weak_reference_is_read,
    only_holder_is_let_go,
)


OF_COLLECTORS = (
    *SCENARIOS,
    reference_is_moved_beside_dirty_card,
    young_item_is_copied,
    young_item_is_copied,
)
"""Copies with cards are told more often: several of their choices matter only together."""
IN_STEP_WEIGHT = 5
"""Chance alone hardly comes into step, and few of these stories are long enough to tell."""
OF_CHANCE = (*OF_COLLECTORS, *[kinds_alternate_in_step] * IN_STEP_WEIGHT)
OF_BOUNDARIES = (*OF_CHANCE, *[sampling_is_on_for_moments] * MOMENTS_WEIGHT)
OF_BLOCKS = (blocks_alternate_in_step,)


def scenarios_for(contract: Contract) -> Sequence[Callable[[Situation, Choices], Scenario]]:
    """Those that may show something of a target: of blocks only how they are sampled by chance."""
    if not contract.nursery_bytes:
        return OF_BLOCKS if contract.sampling.distances == "random" else ()
    if contract.sampling.distances != "random":
        return OF_COLLECTORS
    return OF_BOUNDARIES if contract.boundary_bytes else OF_CHANCE


def next_of(scenario: Scenario) -> Action | None:
    """The next action of a scenario; None if it is over."""
    try:
        return next(scenario, None)
    except ObjectGoneError:
        return None
