"""Combinations: what is seen to hold at once, and what never can."""

from itertools import chain, combinations

import attrs
import pytest

from fuzz.drawing.draw import draw_configuration
from fuzz.drawing.planner import facts_meet
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.scenarios import next_of
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomChoices, RandomEngine
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
from fuzz.protocol.observation import MAJOR_STATES
from fuzz.protocol.target import contract_of
from fuzz.reached.combinations import (
    IMPOSSIBLE,
    SEEN,
    SIZES,
    CombinationCounter,
    Held,
    combinations_for,
    facts_for,
    held_among,
    why_impossible,
)
from fuzz.reached.probes import ProbeCounter
from fuzz.run import Run
from fuzz.sessions.reach import reach_combinations, unplanned_facts
from fuzz.targets import make_target

HOSTS = ("reference", "reference-finalizers", "reference-exhaustion", "reference-groups")
NAMES = {fact.name for fact in SEEN}
SHARE_PERCENT, ACTIONS = 95, 3000
TRIPLE = ("string", "young", "pinned")
PLANS = 80


def held_after(*actions: Action, host: str = "reference") -> set[tuple[str, ...]]:
    """The pairs of facts that held after some of these actions."""
    target = make_target(host)
    counter = CombinationCounter(contract_of(target))
    run = Run(target, {"nursery_bytes": 1024}, counter)
    for action in actions:
        run.step(action)
    return counter.held.of(2)


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
    assert ("string", "forked") not in counter.held.of(2)


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_said_to_be_impossible_never_holds(host: str) -> None:
    target = make_target(host)
    contract = contract_of(target)
    counter = CombinationCounter(contract)
    for _ in slices_of(RandomEngine(target, "1"), ACTIONS, counter):
        pass
    assert counter.held.of(2) <= {*combinations_for(contract, 2)}


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


def held(*facts: str, together: tuple[str, ...] = TRIPLE) -> Held:
    """That all of some facts held at once."""
    return held_among(facts, [{*combinations(together, size)} for size in SIZES])


def test_what_held_is_in_its_numbers() -> None:
    one = held("string", "young", "old", "pinned")
    assert one.of(3) == {TRIPLE}
    assert one.of(2) == {("string", "young"), ("string", "pinned"), ("young", "pinned")}


def test_the_union_has_what_held_in_either_session() -> None:
    facts = "string", "young", "old", "pinned"
    both = held(*facts) | held(*facts, together=("string", "old"))
    assert both.of(2) == held(*facts).of(2) | {("string", "old")}
    assert both.of(3) == {TRIPLE}


def test_the_union_of_two_contracts_has_the_facts_of_both_in_one_order() -> None:
    one, other = held("string", "young", "pinned"), held("young", "old", "forked", together=())
    assert one | other == other | one
    assert (one | other).facts == ("string", "young", "old", "pinned", "forked")
    assert (one | other).of(3) == {TRIPLE}


def test_a_session_that_did_not_look_adds_nothing() -> None:
    assert Held() | Held() == Held()
    assert held(*TRIPLE) | Held() == held(*TRIPLE) == Held() | held(*TRIPLE)


def test_a_counter_of_combinations_counts_the_same_probes() -> None:
    target = make_target("reference")
    counters = ProbeCounter(), CombinationCounter(contract_of(target))
    for counter in counters:
        for _ in slices_of(RandomEngine(target, "1"), 500, counter):
            pass
    assert counters[0].counts == counters[1].counts


# The planner.


@pytest.mark.parametrize("host", [*HOSTS, "reference-threads", "reference-hotspot"])
def test_plans_bring_about_all_that_the_planner_can(host: str) -> None:
    target = make_target(host)
    contract = contract_of(target)
    counter = CombinationCounter(contract)
    for seed in range(PLANS):
        choices = RandomChoices(str(seed))
        run = Run(target, draw_configuration(contract.settings, choices), counter)
        plan = facts_meet(ScenarioMutator(run.situation, choices), choices)
        while (action := next_of(plan)) and not run.why_illegal(action):
            run.step(action)
    names = {fact.name for fact in facts_for(contract)}
    assert {fact for (fact,) in counter.held.of(1)} == names - {*unplanned_facts(contract)}


def test_without_steps_the_planner_reaches_no_state_of_a_major_collection() -> None:
    contract = contract_of(make_target("reference"))
    kept = tuple(name for name in contract.actions if name != "collect_step")
    assert unplanned_facts(attrs.evolve(contract, actions=kept)) == [*MAJOR_STATES]


def test_the_planner_pins_nothing_if_the_contract_allows_no_pin() -> None:
    contract = attrs.evolve(contract_of(make_target("reference")), pins_max=0)
    assert unplanned_facts(contract) == ["pinned"]


def test_a_contract_of_blocks_has_no_plans() -> None:
    contract = contract_of(make_target("reference-jemalloc"))
    assert unplanned_facts(contract) == [fact.name for fact in facts_for(contract)] != []


# Sessions.


def test_a_session_without_actions_misses_everything() -> None:
    for each in reach_combinations(make_target("reference"), 1, 0):
        assert len(each.missed) == each.possible > 0


@pytest.mark.slow
def test_a_session_reaches_nearly_all_pairs_with_finalizers() -> None:
    _, pairs, _ = reach_combinations(make_target("reference-finalizers"), 1, 100_000)
    assert 100 * (pairs.possible - len(pairs.missed)) >= SHARE_PERCENT * pairs.possible
