"""How many bugs gcfuzz finds that need several things at once: `python benchmarks/conjunctions.py`.

A mutant of one token (`mutants.py`) shows whenever its line runs. A conjunctive bug does the wrong
thing only if A and B and C hold. Thirty were written before the drawing of actions was tuned for
such bugs; `TUNING` has the half that the tuning looked at, `UNSEEN` the other one. `GENERATED` does
not depend on anybody's taste: a call of the reference is left out if random conditions hold. Some
of them exclude each other or break no promise, so their share says something only in comparison.
Twenty more were written before the planner of facts, on several references: `late_seen.py` and
`late_unseen.py`. The planner was finished before its author read the second
file (docs/evidence/effectiveness.md has its hash). Sixty more are in `fresh_tuning.py`,
`fresh_checked.py` and `fresh_unseen.py`.

A hunt is won if something fails within the budget. It has the chunks of a session with that seed
and budget. A larger budget makes the last of these chunks longer, and adds others. Each hunt plants
one bug in this process.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import click
import fresh_checked
import fresh_tuning
import fresh_unseen
import late_seen
import late_unseen

from fuzz.engines.engine import slices_of
from fuzz.reached.probes import ProbeCounter
from fuzz.sessions.plan import Plan, make_engine
from fuzz.sessions.worker import prepare_worker
from fuzz.targets import make_target
from gcmodel import Heap, Kind
from gcmodel.collector.barrier import Barrier
from gcmodel.collector.identities import Identities
from gcmodel.collector.large_objects import LargeObjects
from gcmodel.collector.major import MajorCollection, State
from gcmodel.collector.minor import MinorCollection
from gcmodel.collector.pinning import Pinning
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.configuration import SMALL_OBJECT_BYTES
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import (
    CARDS_SET,
    HAS_SHADOW,
    PINNED,
    TRACK_YOUNG,
    VISITED,
    VISITED_YOUNG,
    Object,
)
from gcmodel.sampling.sample_point import Sampling
from gcmodel.sampling.sampler import REPORT_SURVIVED, Sampler
from gcmodel.sampling.slow_path import Allocation

Method = Callable[..., Any]
ACTIONS = 30_000
BUDGETS = (ACTIONS, 60_000, 100_000, 150_000, 300_000, 600_000)
"""If hunts have more actions, those that were won within each of these numbers are counted, too."""
SEEDS = 5
GENERATED_COUNT = 24


@attrs.frozen
class Bug:
    """What replaces a method, which it gets first."""

    owner: type
    method: str
    mistake: Method

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant it in this process."""
        original = getattr(self.owner, self.method)
        mistake = self.mistake

        def wrong(*given: Any, **named: Any) -> Any:
            return mistake(original, *given, **named)

        with patch.object(self.owner, self.method, wrong):
            yield


BUGS: dict[str, Bug] = {}


def bug(owner: type, method: str) -> Callable[[Method], Method]:
    """Declare a function to be a mistake in that method."""

    def declare(mistake: Method) -> Method:
        BUGS[mistake.__name__] = Bug(owner, method, mistake)
        return mistake

    return declare


# Samples.


@bug(Sampler, "_entry")
def sampled_weakref_to_pinned_object_is_reported_dead(
    original: Method, sampler: Sampler, sampled: int | Object
) -> int:
    entry: int = original(sampler, sampled)
    obj = sampler._nursery.memory[sampled] if isinstance(sampled, int) else sampled
    is_wrong = obj.target is not None and obj.target.flags & PINNED
    return entry & ~REPORT_SURVIVED if is_wrong else entry


@bug(Allocation, "old")
def old_object_sampled_while_marking_is_not_reported(
    original: Method, allocation: Any, *given: Any
) -> Object:
    obj: Object = original(allocation, *given)
    heap = allocation._heap
    if heap.major.is_marking() and obj in heap.sampling.pending:
        heap.sampling.pending.remove(obj)
    return obj


@bug(Sampler, "pause")
def pausing_keeps_pinned_samples(original: Method, sampler: Sampler) -> None:
    memory = sampler._nursery.memory
    in_nursery = [each for each in sampler.pending if isinstance(each, int)]
    original(sampler)
    sampler.pending += [each for each in in_nursery if memory[each].flags & PINNED]


@bug(Sampler, "enable")
def enabling_again_beside_an_obstacle_counts_a_word_more(
    original: Method, sampler: Sampler, period_bytes: int
) -> None:
    was_on = sampler.period_bytes and sampler.pending and sampler._nursery.obstacles
    original(sampler, period_bytes)
    if was_on and isinstance(sampler, Sampling):
        sampler.sample_point += 8
        sampler.set_limit()


@bug(Sampling, "jumped")
def jump_over_more_than_a_period_with_pending_samples_counts(
    original: Method, sampling: Sampling, jump_bytes: int
) -> None:
    is_wrong = sampling.pending and 0 < sampling.period_bytes < jump_bytes
    original(sampling, 0 if is_wrong else jump_bytes)


@bug(Heap, "after_fork")
def fork_beside_pinned_object_can_be_resumed(original: Method, heap: Heap) -> None:
    paused_period_bytes = heap.sampling.paused_period_bytes
    original(heap)
    if heap.pinning.count:
        heap.sampling.paused_period_bytes = paused_period_bytes


@bug(Heap, "disable_sampling")
def disabling_while_paused_beside_young_identity_can_be_resumed(
    original: Method, heap: Heap, report: bool
) -> None:
    paused_period_bytes, has_shadows = heap.sampling.paused_period_bytes, heap.identities._shadows
    original(heap, report)
    if has_shadows and report:
        heap.sampling.paused_period_bytes = paused_period_bytes


@bug(Allocation, "_placed_outside")
def sample_of_object_that_collects_with_callback_is_lost(
    original: Method, allocation: Any, obj: Object, raw_bytes: int, is_young: bool
) -> Object:
    heap = allocation._heap
    is_wrong = heap.is_major_due(raw_bytes) and heap.callback_length is not None
    original(allocation, obj, raw_bytes, is_young)
    if is_wrong and obj in heap.sampling.pending:
        heap.sampling.pending.remove(obj)
    return obj


@bug(Allocation, "collect_and_reserve")
def second_sample_behind_an_obstacle_is_lost(
    original: Method, allocation: Any, size_bytes: int
) -> int:
    heap = allocation._heap
    filling, obstacles = heap.nursery.filling, len(heap.nursery.obstacles)
    address: int = original(allocation, size_bytes)
    has_jumped = filling == heap.nursery.filling and len(heap.nursery.obstacles) < obstacles
    if has_jumped and heap.sampling.pending.count(address) > 1:
        heap.sampling.pending.remove(address)
    return address


# Weak references.


@bug(Weakrefs, "_follow")
def weakref_to_filled_array_with_identity_is_cleared(
    original: Method, weakrefs: Weakrefs, weakref: Object
) -> None:
    target = weakref.target
    assert target is not None
    is_wrong = target.kind is Kind.ARRAY and target.flags & HAS_SHADOW and any(target.refs)
    original(weakrefs, weakref)
    if is_wrong:
        weakref.target = None


@bug(Weakrefs, "after_marking")
def weakref_to_large_object_with_identity_is_cleared(original: Method, weakrefs: Weakrefs) -> None:
    for weakref in weakrefs.old:
        target = weakref.target
        if target and target.identity and target.size_bytes > SMALL_OBJECT_BYTES:
            weakref.target = None
    weakrefs.old = [weakref for weakref in weakrefs.old if weakref.target]
    original(weakrefs)


@bug(Weakrefs, "_follow")
def second_weakref_to_pinned_object_is_forgotten(
    original: Method, weakrefs: Weakrefs, weakref: Object
) -> None:
    others = [each for each in weakrefs.young if each.target is weakref.target]
    original(weakrefs, weakref)
    if others and weakrefs.young[-1] is weakref:
        weakrefs.young.pop()


@bug(Heap, "allocate_weakref")
def weakref_made_while_marking_to_pinned_object_is_forgotten(
    original: Method, heap: Heap, root: int
) -> Any:
    placed = original(heap, root)
    target = heap.roots[-1].target
    if heap.major.is_marking() and target is not None and target.flags & PINNED:
        heap.weakrefs.young.pop()
    return placed


# Identities.


@bug(Identities, "move_to_shadow")
def second_item_of_array_with_identity_is_lost(
    original: Method, identities: Identities, obj: Object
) -> Object:
    moved: Object = original(identities, obj)
    filled = [index for index, ref in enumerate(moved.refs) if ref is not None]
    if moved.kind is Kind.ARRAY and len(filled) > 1:
        moved.refs[filled[1]] = None
    return moved


@bug(Identities, "after_minor_collection")
def second_pinned_object_loses_its_identity(
    original: Method, identities: Identities, pinned: dict[int, Object], is_marking: bool
) -> None:
    original(identities, pinned, is_marking)
    for obj in [*identities._shadows][1:]:
        obj.flags &= ~HAS_SHADOW
        del identities._shadows[obj]


@bug(Heap, "identity")
def identity_of_large_array_changes_while_sweeping(original: Method, heap: Heap, root: int) -> int:
    obj = heap._object(root)
    is_wrong = heap.major.state is State.SWEEPING and obj.cards is not None and any(obj.refs)
    if is_wrong:
        obj.identity = 0
    identity: int = original(heap, root)
    return identity


@bug(Heap, "identity")
def place_reserved_for_large_array_while_marking_is_black(
    original: Method, heap: Heap, root: int
) -> int:
    identity: int = original(heap, root)
    obj = heap._object(root)
    shadow = heap.identities._shadows.get(obj)
    is_large = obj.kind is Kind.ARRAY and obj.size_bytes > SMALL_OBJECT_BYTES
    if shadow is not None and is_large and heap.major.is_marking():
        shadow.flags |= VISITED
    return identity


# Pinned objects.


@bug(Pinning, "reach")
def holder_with_identity_is_no_parent(
    original: Method, pinning: Pinning, obj: Object, parent: Object | None
) -> None:
    original(pinning, obj, None if parent is not None and parent.identity else parent)


@bug(Pinning, "unpin")
def unpinning_one_of_two_beside_a_parent_counts_twice(
    original: Method, pinning: Pinning, obj: Object
) -> None:
    original(pinning, obj)
    if pinning.count == 1 and pinning.parents:
        pinning.count -= 1


@bug(Pinning, "after_marking")
def large_array_is_no_parent_after_marking(original: Method, pinning: Pinning) -> None:
    original(pinning)
    pinning.parents = {obj: None for obj in pinning.parents if obj.cards is None}


@bug(Pinning, "losing_a_pin")
def parent_that_keeps_a_pin_is_not_rescanned(
    original: Method, pinning: Pinning, parents: list[Object]
) -> list[Object]:
    losing: list[Object] = original(pinning, parents)
    return [
        parent
        for parent in losing
        if not any(ref is not None and ref.flags & PINNED for ref in parent.refs)
    ]


@bug(Heap, "copy_array")
def copy_from_large_parent_of_pinned_object_is_not_remembered(
    original: Method, heap: Heap, *places: int
) -> None:
    parents = heap.pinning.parents
    heap.pinning.parents = {obj: None for obj in parents if obj.cards is None}
    original(heap, *places)
    heap.pinning.parents = parents


# Barriers, and the minor collection.


@bug(Barrier, "mark_card")
def second_card_of_black_array_is_not_listed(
    original: Method, barrier: Barrier, array: Object, card: int
) -> None:
    is_wrong = card and array.flags & VISITED and not array.flags & CARDS_SET
    if is_wrong and array.cards is not None and barrier._is_marking():
        array.cards.add(card)
    else:
        original(barrier, array, card)


@bug(MinorCollection, "_visit_young")
def nonmovable_array_of_this_marking_is_not_searched(
    original: Method, minor: MinorCollection, obj: Object
) -> None:
    heap = minor._heap
    is_new = not obj.flags & VISITED_YOUNG
    original(minor, obj)
    is_wrong = obj.kind is Kind.ARRAY and obj.cards is None and heap.major.is_marking()
    if is_new and is_wrong and obj in heap.barrier.remembered:
        heap.barrier.remembered.remove(obj)
        obj.flags |= TRACK_YOUNG


@bug(MinorCollection, "_drag_out_cards")
def dirty_array_with_identity_stays_black(
    original: Method, minor: MinorCollection, array: Object
) -> None:
    is_black = array.flags & VISITED
    original(minor, array)
    to_rescan = minor._heap.major.to_rescan
    if is_black and array.identity and array in to_rescan:
        to_rescan.remove(array)
        array.flags |= VISITED


@bug(MinorCollection, "_rescan_roots")
def new_weakref_to_pinned_object_stays_white(original: Method, minor: MinorCollection) -> None:
    original(minor)
    major = minor._heap.major
    major.to_rescan = [
        obj for obj in major.to_rescan if not (obj.target and obj.target.flags & PINNED)
    ]


# The major collection, and the nursery.


@bug(MajorCollection, "rescan_black")
def written_parent_of_pinned_object_stays_black(
    original: Method, major: MajorCollection, written: list[Object]
) -> None:
    pinned = [each for each in written if any(ref and ref.flags & PINNED for ref in each.refs)]
    original(major, [obj for obj in written if obj not in pinned])


@bug(MajorCollection, "_sweep")
def prebuilt_array_stays_black_while_sampling(
    original: Method, major: MajorCollection, reserve_bytes: int
) -> None:
    heap = major._heap
    black = [obj for obj in heap.barrier.prebuilt_roots if obj.flags & VISITED]
    original(major, reserve_bytes)
    if heap.sampling.period_bytes:
        for obj in black:
            obj.flags |= VISITED if obj.kind is Kind.ARRAY else 0


@bug(Nursery, "empty")
def second_of_two_adjacent_pins_is_no_obstacle(
    original: Method, nursery: Nursery, pinned: dict[int, Object]
) -> None:
    original(nursery, pinned)
    starts = {end for _, end in nursery.obstacles}
    nursery.obstacles = [each for each in nursery.obstacles if each[0] not in starts]


@bug(Nursery, "empty")
def collection_stays_due_beside_a_pin(
    original: Method, nursery: Nursery, pinned: dict[int, Object]
) -> None:
    was_due = nursery.is_collection_due
    original(nursery, pinned)
    nursery.is_collection_due = was_due and bool(pinned)


NAMES = sorted(BUGS)
TUNING = sorted(random.Random(33).sample(NAMES, len(NAMES) // 2))  # noqa: S311 - no secret
UNSEEN = [name for name in NAMES if name not in TUNING]

# Generated bugs: a call is left out if three conditions hold, each about something else.

CALLS: tuple[tuple[type, str], ...] = (
    (Barrier, "remember"),
    (Barrier, "_list_dirty"),
    (LargeObjects, "add_old"),
    (MinorCollection, "_visit_young"),
    (MinorCollection, "_drag_out_cards"),
)
"""Methods that get an object first and return nothing."""
Guard = Callable[[Heap, Object], object]


def _is_weakly_referenced(heap: Heap, obj: Object) -> bool:
    return any(each.target is obj for each in heap.weakrefs.old + heap.weakrefs.young)


GUARDS: tuple[dict[str, Guard], ...] = (
    {
        "marking": lambda heap, _: heap.major.state is State.MARKING,
        "sweeping": lambda heap, _: heap.major.state is State.SWEEPING,
    },
    {
        "sampling": lambda heap, _: heap.sampling.period_bytes,
        "paused": lambda heap, _: heap.sampling.paused_period_bytes,
        "samples pending": lambda heap, _: heap.sampling.pending,
    },
    {
        "something pinned": lambda heap, _: heap.pinning.count,
        "a callback": lambda heap, _: heap.callback_length is not None,
    },
    {
        "identity known": lambda _, obj: obj.identity or obj.flags & HAS_SHADOW,
        "weakly referenced": _is_weakly_referenced,
        "an array": lambda _, obj: obj.kind is Kind.ARRAY,
        "two references": lambda _, obj: len(obj.refs) - obj.refs.count(None) > 1,
    },
)
"""Conditions of one group exclude each other, or say nearly the same."""
_HEAPS: list[Heap] = []
"""The heap that was made last: not every part knows its heap."""


def _remembering(original: Method, heap: Heap, *given: Any, **named: Any) -> None:
    _HEAPS[:] = [heap]
    original(heap, *given, **named)


def generated(number: int) -> tuple[str, Bug]:
    """The bug of that number, from 0 up, and its name."""
    rng = random.Random(f"conjunction {number}")  # noqa: S311 - reproducible, not secret
    owner, method = rng.choice(CALLS)
    chosen = [rng.choice([*group.items()]) for group in rng.sample(GUARDS, 3)]

    def mistake(original: Method, part: object, obj: Object, *given: Any) -> None:
        if not all(guard(_HEAPS[0], obj) for _, guard in chosen):
            original(part, obj, *given)

    name = f"{owner.__name__}.{method} is left out if: {', '.join(name for name, _ in chosen)}"
    return name, Bug(owner, method, mistake)


FRESH = {**fresh_tuning.BUGS, **fresh_checked.BUGS, **fresh_unseen.BUGS}
LATE = {**late_seen.BUGS, **late_unseen.BUGS, **FRESH}


def _find(name: str) -> Bug:
    return BUGS[name] if name in BUGS else dict(map(generated, range(GENERATED_COUNT)))[name]


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant the bug of that name in this process."""
    if name in LATE:
        with LATE[name].planted():
            yield
    else:
        with Bug(Heap, "__init__", _remembering).planted(), _find(name).planted():
            yield


# Hunts.


def hunt(name: str, engine_name: str, seed: int, actions_max: int) -> int | None:
    """The number of actions until something fails; None if nothing does."""
    target = LATE[name].target if name in LATE else "reference"
    plan = Plan(target, engine_name, seed, 1, Path(), actions=actions_max)
    actions = 0
    with planted(name):
        for chunk in map(plan.chunk, plan.share):
            engine = make_engine(
                engine_name,
                make_target(target),
                f"{seed}/{chunk.index}",
                process_seed=plan.process_seed(chunk),
            )
            for done in slices_of(engine, chunk.actions, ProbeCounter(), chunk.index):
                actions += done.actions
                if done.failures:
                    return actions
    return None


def hunt_all(
    names: Sequence[str], engine: str, seeds: int, actions_max: int
) -> dict[str, list[int | None]]:
    """The hunts for each bug, with the seeds from 1 up."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), context, prepare_worker) as pool:
        pending = {
            name: [
                pool.submit(hunt, name, engine, seed, actions_max) for seed in range(1, seeds + 1)
            ]
            for name in names
        }
        return {name: [each.result() for each in hunts] for name, hunts in pending.items()}


def row(name: str, hunts: Sequence[int | None], actions_max: int) -> str:
    """The hunts won, and the median of the actions; a hunt that is lost counts all of them."""
    won = sum(each is not None for each in hunts)
    median = statistics.median(actions_max if each is None else each for each in hunts)
    return f"| {name} | {won} | {median:,.0f} |"


HALVES: dict[str, Callable[[], Sequence[str]]] = {
    "tuning": lambda: TUNING,
    "unseen": lambda: UNSEEN,
    "late-seen": lambda: [*late_seen.BUGS],
    "late-unseen": lambda: [*late_unseen.BUGS],
    "fresh-tuning": lambda: [*fresh_tuning.BUGS],
    "fresh-checked": lambda: [*fresh_checked.BUGS],
    "fresh-unseen": lambda: [*fresh_unseen.BUGS],
    "generated": lambda: [generated(number)[0] for number in range(GENERATED_COUNT)],
}


@click.command()
@click.option("--half", type=click.Choice([*HALVES]), default="tuning", show_default=True)
@click.option("--bug", "bugs", multiple=True, help="Only this one.")
@click.option(
    "--engine", type=click.Choice(["random", "stateful"]), default="random", show_default=True
)
@click.option("--seeds", type=click.IntRange(min=1), default=SEEDS, show_default=True)
@click.option("--actions", type=click.IntRange(min=1), default=ACTIONS, show_default=True)
def main(half: str, bugs: Sequence[str], engine: str, seeds: int, actions: int) -> None:
    """Hunt conjunctive bugs, and print how many hunts were won."""
    names = bugs or HALVES[half]()
    hunted = hunt_all(names, engine, seeds, actions)
    print(f"| {half}, {engine}, {actions:,} actions | won of {seeds} | median |\n|---|--:|--:|")
    for name in names:
        print(row(name, hunted[name], actions))
    found = [each for hunts in hunted.values() for each in hunts if each is not None]
    for budget in [each for each in BUDGETS if each < actions]:
        print(f"{sum(each <= budget for each in found)} hunts won within {budget:,} actions")
    print(f"{len(found)} of {seeds * len(names)} hunts won")


if __name__ == "__main__":
    main()
