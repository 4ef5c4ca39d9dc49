"""Long traces: long lives, and sizes at the limits of the contract and of the layout."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import attrs
import pytest

from fuzz.drawing.draw import STARTED_ACTIONS, start_long
from fuzz.drawing.planner import objects_live_long
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.scenarios import StartScenario, next_of, sizes_meet_limits, starts_of_long_traces
from fuzz.drawing.situation import Scenario, Situation
from fuzz.engines.random import RandomChoices, draw_actions
from fuzz.mutator.legality import length_max
from fuzz.oracles import Bench, Mismatch
from fuzz.protocol import actions as do
from fuzz.protocol.contract import Contract
from fuzz.protocol.target import contract_of
from fuzz.run import Run
from fuzz.targets import make_target, registry

CONTRACTS = {
    name: contract_of(make_target(name)) for name in registry().targets if name[:9] == "reference"
}
OF_HEAPS = [name for name, contract in CONTRACTS.items() if contract.nursery_bytes]
OF_BLOCKS = sorted(CONTRACTS.keys() - {*OF_HEAPS})
COLLECTIONS_MIN = 150
SEEDS = range(4)
BLOCK_ACTIONS = 3000


def play(target: str, start: StartScenario, seed: int) -> Run:
    """A trace of one scenario, from the start of a heap to the end of the scenario."""
    choices = RandomChoices(str(seed))
    run = Run(make_target(target), {})
    scenario = start(ScenarioMutator(run.situation, choices), choices)
    while (action := next_of(scenario)) and not run.why_illegal(action):
        run.step(action)
    return run


# Long lives.


@pytest.mark.parametrize("seed", SEEDS)
def test_objects_whose_identity_is_known_outlive_more_than_a_hundred_collections(seed: int) -> None:
    run = play("reference", objects_live_long, seed)
    minors, first, ages = 0, defaultdict[int | None, int](int), [0]
    for action, answer in zip(run.actions, run.answers, strict=True):
        minors += answer.minors or 0
        if isinstance(action, do.TakeIdentity):
            ages.append(minors - first.setdefault(answer.identity, minors))
    assert max(ages) > COLLECTIONS_MIN


@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_life_alone_finds_an_age_that_overflows(seed: int) -> None:
    with pytest.raises(Mismatch, match="had another before"):
        play("reference+age-overflows", objects_live_long, seed)


def test_the_middle_of_a_long_life_is_idle() -> None:
    run = play("reference", objects_live_long, 1)
    collections = sum(isinstance(each, do.CollectMinor | do.CollectFull) for each in run.actions)
    assert collections > len(run.actions) / 3


# Sizes at limits.


def limits_of(contract: Contract) -> set[int]:
    """All limits of sizes that a contract of a heap states, in bytes."""
    layout = contract.layout
    return {
        *(layout.large_object_bytes, layout.object_bytes_max, contract.nursery_bytes),
        *(contract.old_space.arena_object_bytes_max, *contract.boundary_bytes),
    }


def test_a_contract_has_no_other_limit_of_sizes() -> None:
    """If this fails, `lengths_at_limits` and `limits_of` may need the new one."""
    named = {
        f"{holder.__name__}.{field.name}"
        for holder in (Contract, type(CONTRACTS["reference"].layout))
        for field in attrs.fields(holder)
        if field.name.endswith(("_bytes", "bytes_max"))
    }
    assert named == {
        *("Contract.nursery_bytes", "Contract.boundary_bytes", "Layout.large_object_bytes"),
        *("Layout.object_bytes_max", "Layout.word_bytes", "Layout.page_bytes"),
        *("Layout.shared_bytes", "Contract.survivor_bytes"),
    }


@pytest.mark.parametrize(("target", "kind"), [*product(OF_HEAPS, ("string", "array"))])
def test_sizes_are_drawn_at_each_limit_an_item_beyond_it_and_a_word_beyond_it(
    target: str, kind: str
) -> None:
    contract = CONTRACTS[target]
    sizes, longest = contract.layout.kinds[kind], length_max(kind, contract)
    word_items = max(contract.layout.word_bytes // sizes.item_bytes, 1)
    within = [(limit - sizes.fixed_bytes) // sizes.item_bytes for limit in limits_of(contract)]
    wanted = {last + more for last in within for more in (0, 1, word_items)}
    drawn = {
        action.length
        for seed in SEEDS
        for action in play(target, sizes_meet_limits, seed).actions
        if isinstance(action, do.AllocateString | do.AllocateArray) and action.kind == kind
    }
    assert {length for length in wanted if 0 <= length <= longest} == drawn


@pytest.mark.parametrize("target", OF_BLOCKS)
def test_blocks_are_drawn_at_each_limit_and_a_byte_beyond_it(target: str) -> None:
    layout, drawn = CONTRACTS[target].layout, set[int]()
    choices, fuzzed = RandomChoices("1"), make_target(target)
    header_bytes = layout.kinds["block"].fixed_bytes
    run = Run(fuzzed, {})
    for action in draw_actions(run, (BLOCK_ACTIONS, BLOCK_ACTIONS), choices):
        run.step(action)
        if isinstance(action, do.Malloc):
            drawn.add(action.size_bytes + header_bytes)
    classes = layout.size_classes[:: max(len(layout.size_classes) - 1, 1)]
    wanted = {size + more for size in classes for more in (0, 1)}
    wanted.add(layout.object_bytes_max + header_bytes)
    assert {size for size in wanted if size <= layout.object_bytes_max + header_bytes} <= drawn


# Which traces start with them.


FOR_LONG_TRACES = {"objects_live_long", "sizes_meet_limits"}


def name_of(scenario: Scenario | None) -> str:
    return "" if scenario is None else scenario.__name__  # type: ignore[attr-defined]


def started_in(contract: Contract) -> set[str]:
    """The scenarios with which long traces start."""
    found = set()
    for seed in range(40):
        situation = Situation(contract, Bench(contract))
        start_long(situation, RandomChoices(str(seed)))
        found.add(name_of(situation.scenario))
    return found


def test_long_traces_start_with_scenarios_for_them_or_with_none() -> None:
    assert started_in(CONTRACTS["reference"]) == {"", *FOR_LONG_TRACES}


@pytest.mark.parametrize(
    ("length", "expected"), [(STARTED_ACTIONS, FOR_LONG_TRACES), (STARTED_ACTIONS - 1, set())]
)
def test_only_long_traces_of_the_random_engine_start_so(length: int, expected: set[str]) -> None:
    found = set()
    for seed in range(40):
        run = Run(make_target("reference"), {})
        next(iter(draw_actions(run, (length, length), RandomChoices(str(seed)))))
        found.add(name_of(run.situation.scenario))
    assert found & FOR_LONG_TRACES == expected


def test_without_minor_collections_no_trace_starts_with_a_long_life() -> None:
    contract = CONTRACTS["reference"]
    kept = tuple(name for name in contract.actions if name != "collect_minor")
    found = started_in(attrs.evolve(contract, actions=kept))
    assert found == {"", "sizes_meet_limits"}


@pytest.mark.parametrize("target", OF_BLOCKS)
def test_a_contract_of_blocks_has_no_starts_of_long_traces(target: str) -> None:
    assert starts_of_long_traces(CONTRACTS[target]) == ()
