"""Facts: each can be brought about under a contract that allows it, and does nothing illegal."""

import attrs
import pytest
from typing_extensions import override

from fuzz.drawing.cast import ARRAY_LENGTHS, Cast, array_lengths
from fuzz.drawing.fact import FACTS, Fact, dimensions_for
from fuzz.drawing.planner import DIMENSIONS
from fuzz.drawing.scenario_mutator import ScenarioMutator
from fuzz.drawing.scenarios import next_of
from fuzz.drawing.situation import Scenario
from fuzz.engines.random import RandomChoices
from fuzz.mutator.legality import why_illegal
from fuzz.protocol.actions import (
    ACTIONS,
    NAMES,
    AllocateArray,
    AllocateString,
    AllocateWeakref,
    EnableSampling,
    Free,
    Write,
)
from fuzz.protocol.target import contract_of
from fuzz.run import Run
from fuzz.targets import make_target

HOSTS = ("reference", "reference-finalizers", "reference-groups")
SEEDS, INTERRUPTED_SEEDS = 20, 60
CONFIGURATION = {"pin_while_sampling": 1, "nursery_bytes": 1024, "large_object_bytes": 128}


def play(run: Run, scenario: Scenario) -> set[str]:
    """The names of the actions that a scenario takes. Raises a Mismatch."""
    names = set()
    for action in scenario:
        assert why_illegal(action, run.contract, run.bench.shadow) is None
        run.step(action)
        names.add(NAMES[type(action)])
    return names


def brought_about(fact: Fact, host: str) -> set[str]:
    """The names of the actions that bring it about: beside an array that has a child, and a string.

    With half of the seeds sampling is on.
    """
    names: set[str] = set()
    for seed in range(SEEDS):
        run, choices = Run(make_target(host), CONFIGURATION), RandomChoices(str(seed))
        cast = Cast(ScenarioMutator(run.situation, choices), choices)
        if seed % 2:
            play(run, cast.act(EnableSampling, 2**16))
        play(run, cast.new(AllocateString, 0))
        play(run, cast.new(AllocateArray, 4))
        play(run, cast.act(Write, 1, 0, 0))
        names |= play(run, fact.bring_about(cast))
    return names


@pytest.mark.parametrize(
    ("fact", "host"),
    [
        pytest.param(fact, host, id=f"{fact.bring_about.__name__}-{host}")
        for host in HOSTS
        for fact in FACTS
        if fact.needs <= {*contract_of(make_target(host)).actions}
    ],
)
def test_a_fact_is_brought_about_under_each_contract_that_allows_it(fact: Fact, host: str) -> None:
    names = brought_about(fact, host)
    assert names >= fact.needs
    if fact.collects:
        assert any(ACTIONS[name].collects != "never" for name in names)


def test_without_pins_no_fact_needs_them() -> None:
    contract = contract_of(make_target("reference"))
    without = dimensions_for(attrs.evolve(contract, pins_max=0))
    assert not [fact for facts in without for fact in facts if "pin" in fact.needs]
    assert len(without) == len(dimensions_for(contract)) - 2


def test_the_reference_has_as_many_dimensions_as_a_plan_may_need() -> None:
    contract = contract_of(make_target("reference-finalizers"))
    assert len(dimensions_for(contract)) >= max(DIMENSIONS)


def test_lengths_of_arrays_meet_the_limits_of_a_contract() -> None:
    contract = contract_of(make_target("reference"))
    layout = contract.layout.kinds["array"]
    lengths = {*array_lengths(contract)} - {*ARRAY_LENGTHS}
    for limit in (contract.layout.large_object_bytes, contract.nursery_bytes):
        within = (limit - layout.fixed_bytes) // layout.item_bytes
        assert {within, within + 1} <= lengths | {*ARRAY_LENGTHS}


class Strict(RandomChoices):
    """Refuses to choose among none, as Hypothesis does."""

    @override
    def below(self, bound: int) -> int:
        assert bound > 0
        return super().below(bound)


def interrupt(run: Run, choices: RandomChoices) -> None:
    """What a rule may do between two actions of a plan."""
    rules = (
        *(AllocateString(0), AllocateArray(1), AllocateWeakref(0), Free(0), Free(1)),
        *(Write(slot, 0, None) for slot in range(4)),
    )
    action = choices.pick(rules)
    if not why_illegal(action, run.contract, run.bench.shadow):
        run.step(action)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.bring_about.__name__)
def test_rules_may_interrupt_a_fact_anywhere(fact: Fact) -> None:
    host = "reference-groups" if "allocate_group" in fact.needs else "reference-finalizers"
    for seed in range(INTERRUPTED_SEEDS):
        run, choices = Run(make_target(host), CONFIGURATION), Strict(str(seed))
        cast = Cast(ScenarioMutator(run.situation, choices), choices)
        play(run, cast.new(AllocateArray, 1))
        play(run, cast.new(AllocateArray, 2))
        play(run, cast.act(Write, 1, 0, 0))
        actions = fact.bring_about(cast)
        while (action := next_of(actions)) is not None:
            if why_illegal(action, run.contract, run.bench.shadow):
                break
            run.step(action)
            interrupt(run, choices)
