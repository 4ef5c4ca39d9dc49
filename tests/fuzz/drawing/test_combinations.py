"""Combinations: what is seen to hold at once, and what never can."""

from itertools import chain

import pytest

from fuzz.drawing.combinations import (
    IMPOSSIBLE,
    SEEN,
    CombinationCounter,
    combinations_for,
    why_impossible,
)
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    CollectMinor,
    EnableSampling,
    Fork,
    Free,
    PauseSampling,
    Pin,
    TakeIdentity,
    Write,
)
from fuzz.protocol.target import contract_of
from fuzz.run import Run
from fuzz.sessions.reach import reach_combinations
from fuzz.targets import make_target

HOSTS = ("reference", "reference-finalizers", "reference-exhaustion", "reference-groups")
NAMES = {fact.name for fact in SEEN}
SHARE_PERCENT, ACTIONS = 95, 3000


def held_after(*actions: Action, host: str = "reference") -> set[tuple[str, ...]]:
    """The pairs of facts that held after some of these actions."""
    target = make_target(host)
    counter = CombinationCounter(contract_of(target))
    run = Run(target, {"nursery_bytes": 1024}, counter)
    for action in actions:
        run.step(action)
    return counter.reached(2)


@pytest.mark.parametrize(
    ("actions", "pair"),
    [
        ((AllocateString(3), Pin(0)), ("string", "pinned")),
        ((AllocateNode(0), TakeIdentity(0), CollectMinor()), ("old", "identity")),
        ((AllocateArray(2), AllocateString(0), Write(0, 0, 1), Free(1)), ("string", "only held")),
        ((AllocateNode(0), EnableSampling(2**16), PauseSampling()), ("node", "paused")),
        ((EnableSampling(8), AllocateNode(0)), ("node", "sampled")),
        ((AllocateString(0), Fork()), ("string", "forked")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value[0], str) else "after",
)
def test_facts_that_hold_at_once_are_seen(
    actions: tuple[Action, ...], pair: tuple[str, ...]
) -> None:
    assert pair in held_after(*actions)
    assert pair not in held_after(*actions[:-1])


def test_facts_of_two_objects_do_not_hold_at_once() -> None:
    assert ("node", "identity") not in held_after(
        AllocateNode(0), AllocateString(0), TakeIdentity(1)
    )


def test_nothing_is_remembered_of_another_trace() -> None:
    target = make_target("reference")
    counter = CombinationCounter(contract_of(target))
    for actions in ((Fork(),), (AllocateString(0),)):
        run = Run(target, {}, counter)
        for action in actions:
            run.step(action)
    assert ("string", "forked") not in counter.reached(2)


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_said_to_be_impossible_never_holds(host: str) -> None:
    target = make_target(host)
    contract = contract_of(target)
    counter = CombinationCounter(contract)
    for _ in slices_of(RandomEngine(target, "1"), ACTIONS, counter):
        pass
    assert counter.reached(2) <= {*combinations_for(contract, 2)}


def test_each_impossible_fact_can_be_seen() -> None:
    for _, ones, others in IMPOSSIBLE:
        assert {*chain(ones, others)} <= NAMES


def test_a_larger_combination_with_an_impossible_pair_is_impossible() -> None:
    assert why_impossible(("node", "old", "pinned")) == "only strings are pinned"


def test_without_an_action_its_facts_are_not_asked_for() -> None:
    contract = contract_of(make_target("reference"))
    assert not [pair for pair in combinations_for(contract, 2) if "finalizer" in pair]


def test_what_cannot_lie_outside_is_not_asked_for() -> None:
    contract = contract_of(make_target("reference-hotspot"))
    assert not [pair for pair in combinations_for(contract, 2) if "outside" in pair]


def test_a_session_without_actions_misses_everything() -> None:
    for each in reach_combinations(make_target("reference"), 1, 0):
        assert len(each.missed) == each.possible > 0


@pytest.mark.slow
def test_a_session_reaches_nearly_all_pairs_with_finalizers() -> None:
    _, pairs, _ = reach_combinations(make_target("reference-finalizers"), 1, 100_000)
    assert 100 * (pairs.possible - len(pairs.missed)) >= SHARE_PERCENT * pairs.possible
