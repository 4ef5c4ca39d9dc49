"""Scenarios: sequences of actions that have been dangerous to collectors.

A rule draws one action. A dozen actions that matter only together are rarely drawn in sequence, so
a scenario is a generator of them. The general ones are in `planner` and `relations`. One that is
here finds a known bug much sooner than those. It draws each action from the current situation and
leaves out some steps at random; actions that the rules draw in between may change the scenario or
end it. Invariant: a scenario yields concrete actions, as a rule does. Whether an action is legal is
checked when it is due. No scenario depends on how a target works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from fuzz.drawing.cast import Cast
from fuzz.drawing.deaths import ephemerons_form_a_chain, weakref_is_resurrected
from fuzz.drawing.facts_of_heaps import is_sweeping
from fuzz.drawing.full_heaps import heap_is_filled
from fuzz.drawing.planner import facts_meet, objects_live_long
from fuzz.drawing.relations import objects_are_related
from fuzz.drawing.rules import NUMBERS
from fuzz.drawing.scenario_mutator import ObjectGoneError, ScenarioMutator
from fuzz.drawing.situation import OBJECTS_MAX, Choices, Scenario, Situation
from fuzz.drawing.sizes import SMALL_BLOCK_BYTES, lengths_at_limits
from fuzz.mutator.legality import why_nothing_pinned
from fuzz.mutator.objects import ShadowObject
from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract

ITEMS_MAX = 12
ALLOCATIONS_MAX = 4
TIMES_IN_STEP_MAX = 32
LARGE_ITEMS = 34
"""The cards of an array of this length take two bytes, where a card is of four items."""


def _array(choices: Choices) -> Action:
    return actions.AllocateArray(1 + choices.below(ITEMS_MAX))


def _any_array(choices: Choices) -> Action:
    """An array of one card or of many, in the nursery or outside."""
    if choices.below(3):
        return actions.AllocateArray(LARGE_ITEMS, nonmovable=choices.one_in(2))
    return _array(choices)


def _holder(choices: Choices) -> Action:
    """An object that has references."""
    return _array(choices) if choices.one_in(2) else actions.AllocateNode(0)


def _pin_perhaps(mutator: ScenarioMutator, choices: Choices, obj: ShadowObject) -> Scenario:
    problem = why_nothing_pinned(mutator.situation.contract, mutator.situation.bench.shadow)
    if obj.kind == "string" and not problem and choices.below(3):
        yield mutator.pin(obj)


def _least_collection(situation: Situation) -> Action:
    """The smallest collection that the target carries out."""
    can_be_minor = "collect_minor" in situation.contract.actions
    return actions.CollectMinor() if can_be_minor else actions.CollectFull()


def _age_perhaps(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """All live objects grow old, or they stay young."""
    if choices.one_in(2):
        yield _least_collection(mutator.situation)


def _collect_steps(choices: Choices) -> Scenario:
    for _ in range(choices.between(0, 3)):
        yield actions.CollectStep()


def _last_collection(choices: Choices) -> Action:
    """The collection at the end of a scenario, which shows a mistake in it."""
    return actions.CollectFull() if choices.one_in(2) else actions.CollectMinor()


def reference_is_moved(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """While marking, a reference is copied from one array to another, and deleted in the first.

    The hard case of incremental marking; PyPy's array copy got it wrong (issue 4925).
    """
    source = yield from mutator.new(_array(choices))
    yield actions.AllocateNode(0)
    item, obj = mutator.field(source), mutator.newest()
    yield mutator.write(source, obj, item)
    yield mutator.free(obj)
    dest = yield from mutator.new(_array(choices))
    yield actions.CollectStep()
    yield from _collect_steps(choices)
    yield mutator.copy_with_others(source, dest, item)
    yield mutator.write(source, None, item)
    yield actions.CollectFull()


def reference_is_moved_beside_dirty_card(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """A reference is moved between large arrays. Most often another item of the source was written.

    The copied items are clean. Whether the destination is scanned again must not depend on the
    rest of the source. (PyPy's array copy, docs/findings; with a clean source, commit 94529a6d.)
    """
    source = yield from mutator.new(actions.AllocateArray(LARGE_ITEMS))
    obj = yield from mutator.new(actions.AllocateNode(0))
    yield mutator.write(source, obj, 0)
    yield mutator.free(obj)
    dest = yield from mutator.new(actions.AllocateArray(LARGE_ITEMS))
    # The second step is likely to visit the newest root, and no other.
    for _ in range(choices.pick((1, 2, 2, 3))):
        yield actions.CollectStep()
    if choices.below(4):
        yield mutator.write(source, None, len(source.refs) - 1)
    # Most copies are of several items. None has the last item, which was written, or its card.
    yield mutator.copy(source, dest, 0, 0, choices.between(1, LARGE_ITEMS - 2))
    yield mutator.write(source, None, 0)
    yield actions.CollectFull()


def prebuilt_array_holds_copy(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Only a prebuilt array refers to the item that was copied into it. (PyPy, commit 3fb1b086.)"""
    source = yield from mutator.new(actions.AllocateArray(choices.pick((2, 3, LARGE_ITEMS))))
    yield mutator.write(source, source, 0)
    yield actions.CollectMinor()
    dest = yield from mutator.new(mutator.load_prebuilt("array"))
    yield mutator.copy_with_others(source, dest, 0)
    yield mutator.free(source)
    yield actions.CollectFull()


def prebuilt_array_is_written_after_copy(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """While marking, a prebuilt array is copied to one, perhaps itself, and that is written.

    The copy may let the next write do without a barrier. (PyPy, commit 345aaf99.)
    """
    yield actions.CollectStep()
    source = yield from mutator.new(mutator.load_prebuilt("array"))
    dest = yield from mutator.new(mutator.load_prebuilt("array"))
    yield mutator.copy_with_others(source, dest, 0)
    obj = yield from mutator.new(actions.AllocateNode(0))
    yield mutator.write(dest, obj)
    yield mutator.free(obj)
    yield actions.CollectFull()


def young_item_is_moved(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """A young object fills an array or is moved within it; the array may be old or large."""
    array = yield from mutator.new(_any_array(choices))
    yield from _age_perhaps(mutator, choices)
    yield actions.AllocateNode(0)
    item, child = mutator.field(array), mutator.newest()
    if choices.one_in(2):
        yield mutator.write(array, child, item)
    else:
        yield actions.FillArray(mutator.slot(array), mutator.slot(child))
    yield mutator.free(child)
    length = min(choices.between(1, 2), len(array.refs))
    last = len(array.refs) - length
    to = choices.between(0, last)
    yield actions.MoveArray(mutator.slot(array), min(item, last), to, length)
    yield _last_collection(choices)


def young_item_is_copied(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """A young item is copied between two arrays or in one; each may be old, large or freed soon."""
    if choices.below(3):
        yield mutator.sample_often()
    source = dest = yield from mutator.new(_any_array(choices))
    yield from _age_perhaps(mutator, choices)
    if choices.below(3):
        dest = yield from mutator.new(_any_array(choices))
        # Only two old arrays with cards show whether each card is copied. Without this, a mistake
        # that copies the first card alone took 9,557 actions, and not 5,150 (commit 5700222).
        yield from _age_perhaps(mutator, choices)
    weakref = None
    if choices.one_in(2):
        weakref = yield from mutator.new(mutator.weakref(dest))
    yield actions.AllocateNode(0)
    item, child = mutator.field(source), mutator.newest()
    if choices.one_in(3):
        # A copy to another place remembers the whole array, whose cards are then out of date.
        yield mutator.copy(dest, source, 0, item)
    yield mutator.write(source, child, item)
    yield mutator.free(child)
    yield mutator.copy(source, dest, *_items_to_copy(mutator, source, dest, item))
    if choices.below(3):
        for array in dict.fromkeys((source, dest)):
            yield mutator.free(array)
    yield _last_collection(choices)
    if weakref is not None:
        yield mutator.read_weakref(weakref)


def _items_to_copy(
    mutator: ScenarioMutator, source: ShadowObject, dest: ShadowObject, item: int
) -> tuple[int, int, int]:
    """The first item in the source and in the destination, and how many follow."""
    if dest is not source and mutator.choices.one_in(2):
        # Only copies between the beginnings of two arrays can copy cards.
        return 0, 0, min(len(source.refs), len(dest.refs))
    # If a rule has put an object without items in the destination's place, the scenario ends here.
    longest = min(len(source.refs) - item, len(dest.refs))
    length = mutator.choices.between(1, max(longest, 1))
    return item, min(mutator.field(dest), len(dest.refs) - length), length


def array_has_many_cards(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """The cards of an array just need another word, or just do not, and its last item is written.

    A card is a bit of a word. (incminimark.)
    """
    contract = mutator.situation.contract
    word_items = (contract.old_space.card_items or 1) * contract.layout.word_bytes * 8
    # Longer arrays cost more time than they are worth.
    length = min(word_items * (1 + choices.below(2)), 512) + choices.between(-2, 2)
    array = yield from mutator.new(actions.AllocateArray(length))
    yield from _age_perhaps(mutator, choices)
    child = yield from mutator.new(actions.AllocateNode(0))
    yield mutator.write(array, child)
    yield mutator.free(child)
    yield _last_collection(choices)


def pinned_item_is_copied(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """An old array that refers to a pinned object is copied to another one. (PyPy's pinning.)

    Its flags say that the first array refers to nothing young. The object moves when it is
    unpinned.
    """
    source = yield from mutator.new(_array(choices))
    dest = yield from mutator.new(_array(choices))
    yield actions.AllocateString(0)
    item, obj = mutator.field(source), mutator.newest()
    yield mutator.write(source, obj, item)
    yield mutator.pin(obj)
    yield actions.CollectMinor()
    yield mutator.copy_with_others(source, dest, item)
    yield mutator.unpin(obj)
    yield _last_collection(choices)


def only_holder_is_freed(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """The only holder of an object is freed while marking may go on, or it never was young.

    A weak reference shows whether the object was freed too early or never: it may be pinned, and a
    prebuilt holder that was never written before is not marked with the others. A young holder
    keeps nothing alive, even if its future place is reserved.
    """
    yield from _collect_steps(choices)
    holder = yield from mutator.new(
        mutator.load_prebuilt() if choices.one_in(2) else _holder(choices)
    )
    has_identity = choices.one_in(3)
    if has_identity:
        yield mutator.take_identity(holder)
    obj = yield from mutator.new(
        actions.AllocateString(0) if choices.below(3) else actions.AllocateNode(0)
    )
    yield from _pin_perhaps(mutator, choices, obj)
    weakref = yield from mutator.new(mutator.weakref(obj))
    yield mutator.write(holder, obj)
    yield mutator.free(obj)
    if not has_identity:  # The steps would make the holder old.
        yield from _collect_steps(choices)
    yield mutator.free(holder)
    for collection in (actions.CollectMinor(), actions.CollectFull()):
        yield collection
        yield mutator.read_weakref(weakref)


def pinned_object_has_identity(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """A pinned object with an identity is unpinned while a major collection goes on, or after it.

    The place that is reserved for it must not be freed too early, nor kept when the object dies.
    (PyPy 96a224bd and 2c891735.)
    """
    obj = yield from mutator.new(actions.AllocateString(0))
    first, second = mutator.take_identity, mutator.pin
    if choices.one_in(2):
        first, second = second, first
    yield first(obj)
    yield second(obj)
    match choices.below(3):
        case 0:
            yield from _collect_steps(choices)
        case 1:
            yield actions.CollectFull()
        case _:
            # In PyPy until 7.3.15, it was freed if it was unpinned while the collector swept.
            yield from is_sweeping(Cast(mutator, choices))
    yield mutator.unpin(obj)
    if choices.one_in(2):
        yield mutator.free(obj)
    yield _last_collection(choices)


def pinned_object_is_freed(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """While marking, an object is unpinned that only an old one refers to. (PyPy 4900, 2363.)"""
    yield actions.AllocateNode(0)
    obj = yield from mutator.new(actions.AllocateString(0))
    yield mutator.pin(obj)
    holder = yield from mutator.new(_holder(choices))
    yield mutator.write(holder, obj)
    yield actions.CollectStep()
    yield from _collect_steps(choices)
    yield mutator.unpin(obj)
    yield mutator.free(obj)
    yield actions.CollectFull()


def sampling_starts_beside_obstacle(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Sampling starts beside the obstacle that an unpinned object has left. (PyPy's fork.)"""
    obj = yield from mutator.new(actions.AllocateString(choices.below(ITEMS_MAX)))
    yield mutator.pin(obj)
    yield actions.CollectMinor()
    yield mutator.unpin(obj)
    yield mutator.sample()
    for _ in range(choices.between(1, ALLOCATIONS_MAX)):
        yield actions.AllocateNode(0)


def object_changes_after_identity(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """A young object changes after its future place was reserved."""
    obj = yield from mutator.new(actions.AllocateNode(0))
    yield mutator.take_identity(obj)
    yield actions.WriteNumber(mutator.slot(obj), 1 + choices.below(NUMBERS - 1))
    yield _last_collection(choices)


def process_forks(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """A process forks while a sample is pending. (PyPy's fork.)"""
    yield mutator.sample_often()
    yield actions.AllocateString(mutator.edge_length())
    yield actions.Fork()
    if choices.one_in(2):
        # The samples that the child kept of its parent's show only if it samples again.
        yield mutator.sample_often()
    yield actions.CollectMinor()


def sample_point_leaves_nursery(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """The sample point comes into the nursery, and leaves it again. (PyPy's fork.)"""
    yield mutator.sample()
    for _ in range(2):
        yield actions.AllocateString(mutator.edge_length(), nonmovable=True)
    yield actions.AllocateNode(0)


def kinds_alternate_in_step(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """A large and a small object, again and again, take a period together. (AllocationTick.)

    If all distances are equal, each of them ends in the small object: it is always sampled, and the
    large one never.
    """
    situation = mutator.situation
    layout = situation.contract.layout
    if not {"node", "string"} <= layout.kinds.keys():
        raise ObjectGoneError
    node_bytes = layout.cost("node", 0, nonmovable=False)[0]
    period_bytes = situation.contract.sampling.nearest(choices.log_between(1024, 16384))
    length = period_bytes - node_bytes - layout.kinds["string"].fixed_bytes
    yield actions.EnableSampling(period_bytes)
    yield actions.AllocateNode(0)
    for _ in range(choices.between(1, TIMES_IN_STEP_MAX)):
        yield actions.Free(len(situation.roots) - 1)
        yield actions.AllocateString(max(length, 0))
        yield actions.Free(len(situation.roots) - 1)
        yield actions.AllocateNode(0)


def blocks_alternate_in_step(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """A large and a small block, again and again, take a period together. (Scalene.)

    The distance ends in the same one of them each time. In which one depends on where it started.
    """
    situation = mutator.situation
    layout, period_bytes = situation.contract.layout, situation.bench.sampling.period_bytes
    # Contracts of blocks have only this scenario, so most of the time it is empty.
    if choices.below(32) or period_bytes is None:
        return
    small = actions.Malloc(choices.below(SMALL_BLOCK_BYTES))
    rest_bytes = period_bytes - layout.capacity_bytes(small.size_bytes)
    large = actions.Malloc(max(rest_bytes - layout.kinds["block"].fixed_bytes, 0))
    if choices.one_in(2):
        yield large
    for _ in range(choices.between(1, TIMES_IN_STEP_MAX)):
        yield large
        yield small


def sampling_is_on_for_moments(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Sampling is on for a moment, again and again, and each thread allocates once. (.NET)

    Before that each thread allocates a small object. What the thread has reserved together with
    that object, up to a boundary of the contract, may not be sampled.
    """
    contract = mutator.situation.contract
    layout = contract.layout.kinds.get("array")
    if layout is None:
        raise ObjectGoneError
    small = actions.AllocateArray(0)
    large_bytes = choices.pick(contract.boundary_bytes) - layout.fixed_bytes
    large = actions.AllocateArray(max(large_bytes - layout.fixed_bytes, 0) // layout.item_bytes)
    # Chance judges the samples: .NET's missing ones show after about 45 rounds of 16 threads
    # (commit 08ae579).
    for _ in range(64):
        yield _least_collection(mutator.situation)
        yield from _by_each_thread(mutator.situation, small)
        yield actions.EnableSampling(contract.sampling.nearest(0))
        yield from _by_each_thread(mutator.situation, large)
        yield actions.DisableSampling()


def _by_each_thread(situation: Situation, action: Action) -> Scenario:
    for thread in range(situation.threads):
        situation.thread = thread
        yield action


def thread_ends_after_writes(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """A thread writes references to young objects and ends. What it has recorded must not be lost.

    (MMTk's mutators have to be flushed when they end: mmtk/mmtk-core 1047.)
    """
    situation = mutator.situation
    draw_holder = _any_array if choices.one_in(2) else _holder
    holder = yield from mutator.new(draw_holder(choices))
    if choices.below(4):
        yield _least_collection(situation)
    threads = situation.threads_to_end()
    if not threads:
        return
    thread = choices.pick(threads)
    for _ in range(choices.between(1, 3)):
        obj = yield from mutator.new(actions.AllocateNode(0))
        situation.thread = thread
        yield mutator.write(holder, obj)
        yield mutator.free(obj)
    situation.thread = thread
    yield actions.EndThread(thread=thread)
    yield _last_collection(choices)


def roots_are_freed(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Some roots are freed, which makes room for other scenarios.

    A collection then counts the objects again.
    """
    situation = mutator.situation
    for _ in range(choices.between(1, 4)):
        yield actions.Free(choices.below(max(len(situation.roots), 1)))
    if situation.objects >= OBJECTS_MAX:
        yield _least_collection(mutator.situation)


def sizes_meet_limits(mutator: ScenarioMutator, choices: Choices) -> Scenario:
    """Objects are as large as each limit of the contract allows, and a little larger."""
    contract = mutator.situation.contract
    kinds = [kind for kind in ("string", "array") if kind in contract.layout.kinds]
    kind = choices.pick(kinds)
    allocate = actions.AllocateString if kind == "string" else actions.AllocateArray
    for length in lengths_at_limits(contract, kind):
        yield from mutator.if_legal(allocate, length)
        if choices.one_in(4):
            yield _least_collection(mutator.situation)
        yield from mutator.if_legal(lambda: mutator.free(mutator.newest()))


StartScenario = Callable[[ScenarioMutator, Choices], Scenario]

SCENARIOS: tuple[StartScenario, ...] = (
    *(process_forks, sample_point_leaves_nursery, object_changes_after_identity),
    *(reference_is_moved, reference_is_moved_beside_dirty_card, array_has_many_cards),
    *(prebuilt_array_holds_copy, pinned_object_has_identity, pinned_object_is_freed),
    *(sampling_starts_beside_obstacle, young_item_is_copied, young_item_is_moved),
    *(pinned_item_is_copied, only_holder_is_freed, prebuilt_array_is_written_after_copy),
)
# A scenario is listed several times if only some of its many choices show a mistake, or if it shows
# what real collectors get wrong.
OF_HEAPS = (
    *(*SCENARIOS, reference_is_moved_beside_dirty_card),
    *(young_item_is_copied, young_item_is_copied, facts_meet),
)
# Of all actions of `reference`, relations have two fifths, and plans a quarter. Copies of arrays
# are listed often, since each is short: with half as many, PyPy's defects were found after 40,000
# actions and more, and not after 20,000 (commit 0d57159e, with copies of one item). A collector
# that takes no steps needs fewer plans, no relations, and more of what its sampler does: with
# relations, HotSpot allocated outside its buffers in 8 of 3,000 actions, where its test wants 10.
OF_COLLECTORS = (
    *(*SCENARIOS, reference_is_moved, pinned_object_is_freed, pinned_object_has_identity),
    *([young_item_is_moved, prebuilt_array_holds_copy] * 2),
    *([reference_is_moved_beside_dirty_card, young_item_is_copied] * 4),
    *([facts_meet] * 3),
    *([objects_are_related] * 6),
)
OF_DEATHS = (
    *([objects_are_related] * 20),
    *([ephemerons_form_a_chain] * 4),
    *([weakref_is_resurrected] * 4),
)
ABOUT: Mapping[StartScenario, str] = {
    ephemerons_form_a_chain: "allocate_ephemeron",
    weakref_is_resurrected: "allocate_weakref",
}
"""The action that a scenario is about."""
OF_RANDOM_DISTANCES = (*OF_HEAPS, *[kinds_alternate_in_step] * 5)
OF_BOUNDARIES = (*OF_RANDOM_DISTANCES, *[sampling_is_on_for_moments] * 10)
OF_BLOCKS = (blocks_alternate_in_step,)
OF_EXHAUSTION = (heap_is_filled,) * 13
OF_THREADS = (thread_ends_after_writes,) * 8


def scenarios_for(contract: Contract, is_late: bool) -> Sequence[StartScenario]:
    """The scenarios that may show a mistake of a target under this contract.

    Late in a trace there are only plans, relations, and scenarios of deaths: short traces find
    simple mistakes sooner.
    """
    others = _scenarios_of_one_thread(contract, is_late)
    of_exhaustion = OF_EXHAUSTION if contract.exhaustion is not None else ()
    of_threads = OF_THREADS if "end_thread" in contract.actions else ()
    return (*others, *of_exhaustion, *of_threads) if of_exhaustion or of_threads else others


def _scenarios_of_one_thread(contract: Contract, is_late: bool) -> Sequence[StartScenario]:
    """The same for a heap that is not full, and whose threads do not end."""
    is_random = contract.sampling.distances == "random"
    if not contract.nursery_bytes:
        return OF_BLOCKS if is_random else ()
    if contract.finalizers:
        return _scenarios_of_deaths(contract.actions, is_late)
    if not is_random:
        return _scenarios_of_collectors(contract.actions, is_late)
    return OF_BOUNDARIES if contract.boundary_bytes else OF_RANDOM_DISTANCES


def _scenarios_of_collectors(actions: tuple[str, ...], is_late: bool) -> Sequence[StartScenario]:
    if "collect_step" not in actions:
        return (facts_meet,) if is_late else OF_HEAPS
    return (facts_meet, objects_are_related) if is_late else OF_COLLECTORS


@cache
def _scenarios_of_deaths(actions: tuple[str, ...], is_late: bool) -> Sequence[StartScenario]:
    scenarios = (*OF_DEATHS, *_scenarios_of_collectors(actions, is_late))
    return [scenario for scenario in scenarios if ABOUT.get(scenario) in (None, *actions)]


def starts_of_long_traces(contract: Contract) -> Sequence[StartScenario]:
    """What some of the long traces start with: what is too long, or too dull, for the others.

    No trace is longer for them, and no other trace is drawn differently.
    """
    if facts_meet not in scenarios_for(contract, is_late=False):
        return ()
    # Elsewhere hundreds of collections cost too much.
    has_long_lives = "collect_minor" in contract.actions
    return (*[objects_live_long] * 2 * has_long_lives, sizes_meet_limits)


def next_of(scenario: Scenario) -> Action | None:
    """The next action of a scenario; None if it is over."""
    try:
        return next(scenario, None)
    except ObjectGoneError:
        return None
