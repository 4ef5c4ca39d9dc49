"""Each pass of a reduction makes something simpler, and none turns a failure into another."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from fuzz.cancellation import Cancelled
from fuzz.engines.random import RandomEngine
from fuzz.failure import Failure
from fuzz.failures.reduce import STEPS_MAX, Reducer, reduce_failure
from fuzz.mutator.objects import ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Free,
    Pin,
    Read,
    RegisterFinalizer,
    RunFinalizers,
    SetCallback,
    TakeIdentity,
    Write,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, Target, full
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

SLICES_MAX = 400


class Planted(FullTarget):
    """The reference, but it answers with an error if `fails` returns true."""

    name = "planted"
    host = "reference"

    def __init__(self, fails: "Callable[[Planted], object]") -> None:
        self._target = make_target(self.host)
        self._fails = fails

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.configuration = configuration
        contract = self._target.start(configuration)
        self.nursery_bytes = contract.nursery_bytes
        self.shadow = Shadow(contract)
        self.done: list[Action] = []
        self.minors = 0
        return contract

    def perform(self, action: Action) -> Observation:
        observation = self._target.perform(action)
        self.done.append(action)
        self.minors += observation.minors
        self.shadow.follow(action, observation.minors)
        failure = self._fails(self)
        if failure:
            observation.error = failure if isinstance(failure, str) else "Planted"
        return observation

    @property
    def last(self) -> Any:
        return self.done[-1]

    def named(self) -> ShadowObject:
        """The object in the slot that the last action names."""
        root: int = self.last.root
        return self.shadow.roots[root]


def failure_of(target: Target, *actions: Action, **configuration: int) -> Failure:
    failure = run_actions(target, configuration, actions)
    assert failure is not None
    return failure


def reduced(target: Target, *actions: Action, **configuration: int) -> Failure:
    return reduce_failure(target, failure_of(target, *actions, **configuration))


def reduced_soon(target: Target, attempts: int, *actions: Action, **configuration: int) -> Failure:
    """The result of the first passes, which remove actions."""
    reducer = Reducer(target, failure_of(target, *actions, **configuration), attempts)
    with suppress(Cancelled):
        reducer.reduce()
    assert isinstance(reducer.failure, Failure)
    return reducer.failure


# Removing actions.


def test_actions_that_do_not_matter_are_removed() -> None:
    target = make_target("reference+one-sample-per-object")
    noise = (AllocateNode(3), TakeIdentity(0), CollectMinor(), AllocateArray(9), Free(0))
    failure = reduced(target, *noise, EnableSampling(8), *noise, AllocateNode(0))
    assert failure.actions == (EnableSampling(8), AllocateNode(0))


def test_an_action_that_is_legal_since_a_pinned_object_died_may_be_removed_or_needed() -> None:
    dead = AllocateString(0), Pin(0), Free(0), CollectMinor()
    callback = SetCallback(8), AllocateNode(0)
    for fails, left in (
        (lambda heap: heap.last == AllocateNode(0), [AllocateNode(0)]),
        (lambda heap: heap.done[-2:] == [*callback], [*callback]),
    ):
        assert [*reduced(Planted(fails), *dead, *callback).actions] == left


def test_actions_after_the_first_wrong_answer_are_not_part_of_a_failure() -> None:
    target = Planted(lambda heap: isinstance(heap.last, CheckHeap))
    assert reduced(target, CheckHeap(), CollectMinor()).actions == (CheckHeap(),)


STRINGS = tuple(AllocateString(length) for length in range(15))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "start"),
    [(1, 0), (1, 7), (1, 14), (2, 0), (2, 1), (2, 6), (2, 7), (2, 13), (4, 0), (4, 2), (4, 10)],
)
def test_actions_that_only_matter_together_are_removed_together(size: int, start: int) -> None:
    left = (*STRINGS[:start], *STRINGS[start + size :], CheckHeap())
    target = Planted(lambda heap: tuple(heap.done) in {(*STRINGS, CheckHeap()), left})
    assert reduced_soon(target, 80, *STRINGS, CheckHeap()).actions == left


def fails_with_the_switch(least_flipped: int) -> Planted:
    """It needs four full collections, or with paged_arenas=0 that many, and no smaller number."""

    def fails(heap: Planted) -> bool:
        least = 4 if heap.configuration.get("paged_arenas", 1) else least_flipped
        node = heap.done[0]
        enough = heap.done.count(CollectFull()) >= least
        return enough and isinstance(node, AllocateNode) and node.number >= least

    return Planted(fails)


@pytest.mark.parametrize(("least_flipped", "configuration"), [(2, {"paged_arenas": 0}), (5, {})])
def test_a_switch_is_flipped_if_the_failure_becomes_shorter(
    least_flipped: int, configuration: dict[str, int]
) -> None:
    target = fails_with_the_switch(least_flipped)
    failure = reduced(target, AllocateNode(99), *[CollectFull()] * 8)
    least = min(least_flipped, 4)
    assert failure.configuration == configuration
    assert failure.actions == (AllocateNode(least), *[CollectFull()] * least)


def test_no_candidate_is_run_twice() -> None:
    runs: list[tuple[object, ...]] = []

    def fails(heap: Planted) -> bool:
        if isinstance(heap.last, CheckHeap):  # All the actions of a candidate are performed.
            runs.append((*sorted(heap.configuration.items()), *heap.done))
        return isinstance(heap.last, CheckHeap) and heap.minors > 0

    actions = (AllocateNode(3), CollectFull(), AllocateString(9), CheckHeap())
    assert reduced(Planted(fails), *actions, nursery_bytes=512).actions[-1] == CheckHeap()
    # The reducer does not know the run that found the failure.
    assert len(set(runs)) == len(runs)


# Removing actions where distances are drawn.


class Seeded(Planted):
    """The same with random distances, whose seed is a setting."""

    host = "reference-geometric"

    @property
    def seed(self) -> int:
        return self.configuration.get("sampler_seed", 0)


STEPS = tuple(AllocateString(length) for length in range(20))


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 3, 4, 6, 8, 12])
def test_the_last_actions_are_tried_with_other_seeds(length: int) -> None:
    def fails(heap: Planted) -> bool:
        assert isinstance(heap, Seeded)
        return tuple(heap.done) == {9: STEPS, 47: STEPS[-length:]}.get(heap.seed)

    target = Seeded(fails)
    assert reduced_soon(target, 500, *STEPS, sampler_seed=9).actions == STEPS[-length:]


@pytest.mark.slow
@pytest.mark.parametrize("gone", range(4))
def test_each_action_but_the_last_is_left_out_with_other_seeds(gone: int) -> None:
    actions = (*STRINGS[:4], CheckHeap())
    left = (*actions[:gone], *actions[gone + 1 :])

    def fails(heap: Planted) -> bool:
        assert isinstance(heap, Seeded)
        return tuple(heap.done) == {9: actions, 47: left}.get(heap.seed)

    assert reduced_soon(Seeded(fails), 500, *actions, sampler_seed=9).actions == left


def test_a_trace_of_the_same_length_is_tried_with_few_other_seeds() -> None:
    seeds: set[int] = set()

    def fails(heap: Planted) -> bool:
        assert isinstance(heap, Seeded)
        if tuple(heap.done) == SEVEN:
            seeds.add(heap.seed)
        return takes_identity_of_7(heap)

    assert reduced(Seeded(fails), *SEVEN, sampler_seed=99).actions == SEVEN
    assert seeds == {99, *range(12)}


def test_no_candidate_is_without_actions() -> None:
    begun: list[Action] = []

    def fails(heap: Planted) -> bool:
        begun.extend(heap.done[:1] if len(heap.done) == 1 else ())
        return takes_identity_of_7(heap)

    target = Planted(fails)
    reducer = Reducer(target, failure_of(target, *SEVEN))
    begun.clear()
    reducer.reduce()
    assert len(begun) == reducer.attempts


def takes_identity_of_7(heap: Planted) -> bool:
    return isinstance(heap.last, TakeIdentity) and heap.named().number == 7


SEVEN = (AllocateNode(7), TakeIdentity(0))


@pytest.mark.parametrize(
    "actions",
    [
        (AllocateNode(1), AllocateNode(7), AllocateNode(2), TakeIdentity(1)),
        (AllocateNode(1), AllocateNode(7), Free(0), TakeIdentity(0)),
        (AllocateNode(1), Write(0, 0, 0), Read(0, 0), AllocateNode(7), TakeIdentity(2)),
        (AllocateNode(1), AllocateNode(7), Write(1, 0, 0), TakeIdentity(1)),
        (*(AllocateArray(2), AllocateNode(7), CopyArray(0, 0, 0, 0, 2)), TakeIdentity(1)),
    ],
    ids=["allocation", "free", "dependent", "value", "copy"],
)
def test_slots_are_renumbered_where_an_allocation_is_removed(actions: tuple[Action, ...]) -> None:
    assert reduced(Planted(takes_identity_of_7), *actions).actions == SEVEN


@pytest.mark.slow
def test_the_slot_that_a_read_appended_is_renumbered() -> None:
    target = Planted(
        lambda heap: takes_identity_of_7(heap) and {Read, Free} <= {*map(type, heap.done)}
    )
    read = (AllocateNode(7), Write(1, 0, 1), Read(1, 0), Free(1))
    failure = reduced(target, AllocateNode(1), *read, TakeIdentity(1))
    assert failure.actions == (
        *(AllocateNode(7), Write(0, 0, 0), Read(0, 0), Free(0)),
        TakeIdentity(0),
    )


@pytest.mark.slow
def test_a_write_that_makes_a_later_one_legal_stays() -> None:
    target = Planted(
        lambda heap: isinstance(heap.last, CheckHeap) and Write(2, 0, None) in heap.done
    )
    objects = (AllocateNode(0), AllocateString(0))
    # Without the second write the slot 2 is the string's.
    needed = (Write(0, 0, 0), Read(0, 0), Write(2, 0, None), CheckHeap())
    assert reduced(target, *objects, Write(0, 0, 1), *needed).actions == (*objects, *needed)


@pytest.mark.slow
def test_a_destructor_that_does_not_matter_is_left_out() -> None:
    target = make_target(KNOWN_BUGS["pending-not-rooted"].target)
    dies = RegisterFinalizer(0, 0), Free(0), CollectFull(), CollectFull()
    failure = run_actions(target, {}, [AllocateNode(0, destructor=1), *dies])
    assert failure is not None
    assert reduce_failure(target, failure).actions[:3] == (AllocateNode(0), *dies[:2])


# Replacing actions.


@pytest.mark.parametrize(
    "actions",
    [
        (*[AllocateNode(0)] * 9, CheckHeap()),
        (*[AllocateArray(5), Free(0)] * 5, CheckHeap()),
        (CollectFull(), CheckHeap()),
        (DisableSampling(report=True), CheckHeap()),
    ],
    ids=["nodes", "freed arrays", "full collection", "disabling"],
)
def test_collecting_actions_become_minor_collections(actions: tuple[Action, ...]) -> None:
    target = Planted(lambda heap: isinstance(heap.last, CheckHeap) and heap.minors)
    assert reduced(target, *actions).actions == (CollectMinor(), CheckHeap())


def test_a_replacement_is_the_simplest_that_fails() -> None:
    target = Planted(lambda heap: isinstance(heap.last, CheckHeap) and heap.minors > 3)
    assert reduced(target, *[CollectFull()] * 5, CheckHeap()).actions == (
        CollectFull(),
        CheckHeap(),
    )


# Lowering integers.


@pytest.mark.parametrize(
    ("fails", "actions", "left"),
    [
        (lambda last: getattr(last, "length", 0) >= 100, [AllocateString(5000)], "length=100"),
        # Periods are multiples of a word.
        (lambda last: getattr(last, "period_bytes", 0) > 100, [EnableSampling(2**30)], "=104"),
        (lambda last: last.allocates, [AllocateNode(9, nonmovable=True)], "number=0, nonm.*=False"),
        (
            lambda last: getattr(last, "nonmovable", False),
            [AllocateNode(9, nonmovable=True)],
            "number=0, nonmovable=True",
        ),
        (
            lambda last: isinstance(last, Write),
            [AllocateNode(9), Write(0, 1, None)],
            "root=0, field=0, value=None",
        ),
    ],
)
def test_integers_and_flags_are_lowered_as_far_as_the_failure_allows(
    fails: Callable[[Action], object], actions: list[Action], left: str
) -> None:
    *_, last = reduced(Planted(lambda heap: fails(heap.last)), *actions).actions
    assert re.search(left, str(last))


def test_an_integer_of_an_earlier_action_is_lowered() -> None:
    target = Planted(lambda heap: isinstance(heap.last, TakeIdentity) and heap.named().number >= 7)
    assert reduced(target, AllocateNode(96), TakeIdentity(0)).actions == SEVEN


@pytest.mark.parametrize("lower", [0, 1, 2, 8, 16, 64, 508, 504, 952, 1008, 1015])
def test_an_integer_that_fails_at_two_values_only_is_lowered_to_the_other(lower: int) -> None:
    target = Planted(lambda heap: getattr(heap.last, "length", None) in {1016, lower})
    assert reduced(target, AllocateString(1016)).actions == (AllocateString(lower),)


@pytest.mark.parametrize("least", [9_000, 14_000])
def test_an_integer_whose_half_is_too_little_is_lowered_in_few_candidates(least: int) -> None:
    target = Planted(lambda heap: getattr(heap.last, "length", 0) >= least)
    reducer = Reducer(target, failure_of(target, AllocateString(15_000)), 200)
    reducer.reduce()  # By 64 at a time, the first of these takes more than 200.
    assert reducer.failure.actions == (AllocateString(least),)


def period_equals_length(heap: Planted) -> bool:
    match heap.done:
        case [*_, EnableSampling(period), AllocateString(length)]:
            return period == length >= 24
    return False


def test_two_integers_that_depend_on_each_other_are_lowered_together() -> None:
    failure = reduced(Planted(period_equals_length), EnableSampling(8000), AllocateString(8000))
    assert failure.actions == (EnableSampling(24), AllocateString(24))


def test_a_setting_is_lowered_together_with_what_depends_on_it() -> None:
    target = Planted(
        lambda heap: period_equals_length(heap) and heap.last.length == heap.nursery_bytes
    )
    failure = reduced(target, EnableSampling(4096), AllocateString(4096), nursery_bytes=4096)
    assert failure.configuration == {"nursery_bytes": 64}
    assert failure.actions == (EnableSampling(64), AllocateString(64))


def test_integers_lowered_together_may_fail_sooner() -> None:
    def fails(heap: Planted) -> bool:
        numbers = [each.number for each in heap.done if isinstance(each, AllocateNode)]
        return numbers == [34, 34] or (len(numbers) > 2 and len(set(numbers)) == 1)

    failure = reduced(Planted(fails), *[AllocateNode(98)] * 3)
    assert failure.actions == (AllocateNode(34), AllocateNode(34))


def test_a_target_that_becomes_worse_may_fail_sooner_while_an_integer_is_lowered() -> None:
    is_spoilt = False

    def fails(heap: Planted) -> bool:
        nonlocal is_spoilt
        lengths = [each.length for each in heap.done if isinstance(each, AllocateString)]
        failed = len(lengths) == (1 if is_spoilt else 3)
        is_spoilt |= lengths[1:2] < [100] and len(lengths) == 2
        return failed

    failure = reduced(Planted(fails), *[AllocateString(100)] * 3)
    assert failure.actions == (AllocateString(0),)


# Settings.


@pytest.mark.parametrize(("least_bytes", "left"), [(0, {}), (301, {"nursery_bytes": 304})])
def test_settings_are_dropped_or_lowered(least_bytes: int, left: dict[str, int]) -> None:
    target = Planted(
        lambda heap: isinstance(heap.last, CheckHeap) and heap.nursery_bytes >= least_bytes
    )
    settings = {"nursery_bytes": 4096, "card_items": 0, "prebuilt_nodes": 8}
    assert reduced(target, CheckHeap(), **settings).configuration == left


# What a reduction keeps, and when it ends.


def test_a_failure_never_turns_into_another() -> None:
    def fails(heap: Planted) -> str | None:
        length = getattr(heap.last, "length", 0)
        return "Planted" if length >= 100 else "Other" if length >= 50 else None

    assert reduced(Planted(fails), AllocateString(5000)).actions == (AllocateString(100),)


def test_the_last_action_never_turns_into_another_kind() -> None:
    target = Planted(lambda heap: isinstance(heap.last, AllocateNode | AllocateString))
    failure = reduced(target, AllocateString(9))
    assert failure.actions == (AllocateString(0),)


MORE_THAN_SHORTEST = {"reference": 4, "reference-random": 14}
MORE_WHERE_DRAWN = 6
"""How many more actions a reduced trace may have, by its host: more if distances are drawn, because
each action that is removed moves all later samples. Most if chance decides: a short period needs
more samples. Of nodes, n samples need n (ln(period_bytes / 32) - 1) > 40 (oracles/estimate.py), so
that a period of 3272 bytes needs 11 of them, each with an allocation before it. A bug may show in
another oracle first, whose traces are longer: that an object survived takes four actions more."""


QUICK_TO_REDUCE = (
    *("disable-before-enable", "one-sample-per-object", "stale-limit-after-large"),
    *("toggle-kills-sampling", "class-size-vs-request"),
)
"""The failures of all bugs are reduced in test_hunt."""


def first_failure(target: Target) -> Failure:
    engine = RandomEngine(target, "reduce")
    for number in range(SLICES_MAX):
        failures = engine.run_slice(number, 100, ProbeCounter()).failures
        if failures:
            return failures[0]
    raise AssertionError(f"not found in {SLICES_MAX} slices")


@pytest.mark.slow
@pytest.mark.parametrize("bug", QUICK_TO_REDUCE)
def test_the_failure_of_a_known_bug_keeps_its_identity_and_becomes_short(bug: str) -> None:
    target = make_target(KNOWN_BUGS[bug].target)
    before = first_failure(target)
    after = reduce_failure(target, before)
    assert after.identity == before.identity
    more = MORE_THAN_SHORTEST.get(KNOWN_BUGS[bug].host, MORE_WHERE_DRAWN)
    longest = KNOWN_BUGS[bug].shortest + more
    assert len(after.actions) <= min(longest, len(before.actions))


def test_a_reduced_failure_fails_again() -> None:
    target = make_target("reference+sample-on-equality")
    failure = reduce_failure(target, first_failure(target))
    assert run_actions(target, failure.configuration, failure.actions) == failure


def test_a_shorter_period_spares_the_actions_that_lead_to_a_sample() -> None:
    """With this period none of them can be removed, and the period cannot be lowered alone."""
    target = make_target("reference+one-sample-per-object")
    actions = (AllocateString(0), EnableSampling(48), AllocateString(32), SetCallback(40))
    configuration = {"nursery_bytes": 160, "large_object_bytes": 66}
    assert reduced(
        target, *actions, AllocateArray(6), AllocateNode(0), **configuration
    ).actions == (EnableSampling(8), AllocateNode(0))


@pytest.mark.parametrize("attempts", [0, 1, 10])
def test_no_more_candidates_are_run_than_allowed(attempts: int) -> None:
    target = make_target("reference+one-sample-per-object")
    failure = failure_of(target, *[AllocateNode(9)] * 9, EnableSampling(8), AllocateNode(9))
    reducer = Reducer(target, failure, attempts)
    with pytest.raises(Cancelled):
        reducer.reduce()
    assert reducer.failure.identity == failure.identity
    assert reducer.attempts == attempts


def test_fewer_candidates_run_if_each_starts_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    target = full(Planted(lambda planted: isinstance(planted.last, Free)))
    failure = failure_of(target, *[AllocateNode(1)] * 6, Free(0))
    target.starts_afresh = True
    monkeypatch.setattr("fuzz.failures.reduce.START_STEPS", STEPS_MAX // 3)
    reducer = Reducer(target, failure)
    with pytest.raises(Cancelled):
        reducer.reduce()
    assert reducer.attempts == 2  # The second fails, so it is run twice.


def test_a_search_ends_after_many_useless_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    target = full(Planted(lambda planted: isinstance(planted.last, Free)))
    failure = failure_of(target, *[AllocateNode(1)] * 6, Free(0))
    whole, idle = Reducer(target, failure), Reducer(target, failure)
    whole.reduce()
    monkeypatch.setattr("fuzz.failures.reduce.IDLE_ATTEMPTS_MAX", 1)
    idle.reduce_until(lambda: False)
    assert idle.attempts < whole.attempts
    assert idle.ended_early == ""


class Changing(Planted):
    """Its contract has an allocation only in the first headers."""

    headers_left = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start(configuration)
        self.headers_left -= 1
        return contract.without(("allocate_node",) if self.headers_left < 0 else ())


@pytest.mark.parametrize("headers", [1, 2, 5])
def test_a_contract_that_changes_ends_the_reduction(headers: int) -> None:
    target = Changing(lambda planted: isinstance(planted.last, Free))
    target.headers_left = headers
    actions = (AllocateNode(7), AllocateString(3), AllocateNode(0), Free(2))
    failure = failure_of(target, *actions)
    assert reduce_failure(target, failure).identity == failure.identity


@pytest.mark.slow
def test_after_an_exhausted_action_the_slots_are_those_of_the_target() -> None:
    """If the string that is too large had a slot, the node would be in another one."""
    target = make_target("reference-exhaustion+exhaustion-drops-pending")
    dead = (AllocateNode(0), RegisterFinalizer(0, 0), Free(0), CollectFull())
    noise = (AllocateNode(1), Write(1, 0, 1), Read(1, 0), Free(2), AllocateString(3))
    too_large = AllocateString(872)
    failure = reduced(target, *dead, AllocateString(0), too_large, *noise, RunFinalizers())
    assert failure.actions == (*dead, AllocateString(840), RunFinalizers())
