"""What fuzzing a target reaches: how often each probe, by which trace, and which combinations.

A probe or a combination of facts that is never reached is a situation that was not tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from fuzz.drawing.planner import facts_meet
from fuzz.drawing.scenarios import scenarios_for
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.failure import Reaching
from fuzz.failures.reduce import reduce_failure
from fuzz.protocol.actions import ACTIONS
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import MAJOR_STATES
from fuzz.protocol.target import Target, contract_of
from fuzz.reached.combinations import (
    SIZES,
    Combination,
    CombinationCounter,
    Held,
    facts_for,
    possible_among,
)
from fuzz.reached.probes import ProbeCounter, probes_for
from fuzz.run import ProbeReached

NEEDED_BY_PLANS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("sampled", "sampling", "point near"), ("enable_sampling",)),
    **dict.fromkeys(MAJOR_STATES, ("collect_step",)),
    "prebuilt": ("load_prebuilt", "write"),
    "destructor": ("register_finalizer",),
}
"""The actions with which plans bring about a fact, if they are not what is needed to see it."""
NAMES_OF_SIZES = ("facts", "pairs of facts", "triples of facts")


@attrs.frozen
class Reached:
    """A probe, how often it was reached, and the smallest trace that reaches it."""

    probe: str
    times: int
    smallest: Reaching | None


def reach(target: Target, seed: int, actions: int) -> Iterator[Reached]:
    """Fuzz `target` for a number of actions; yields each probe. Failures are not reported."""
    counter = ProbeCounter()
    _fuzz(target, seed, actions, counter)
    for probe in probes_for(contract_of(target)):
        times = counter.counts[probe]
        found = _fuzz(target, seed, actions, ProbeCounter(wanted=probe)) if times else None
        yield Reached(probe, times, reduce_failure(target, found) if found else None)


@attrs.frozen
class ReachedCombinations:
    """Facts, pairs or triples of facts: how many can be reached, and which ones were not."""

    name: str
    possible: int
    missed: Sequence[Combination]

    @property
    def count(self) -> int:
        """How many were reached."""
        return self.possible - len(self.missed)

    def __str__(self) -> str:
        # Rounded down, so that 100 % means all.
        share = f" ({100 * self.count // self.possible} %)" if self.possible else ""
        return f"{self.count:,} of {self.possible:,} {self.name}{share}"


def reached_of(held: Held) -> Sequence[ReachedCombinations]:
    """Of all facts, pairs and triples that can hold, those that did."""
    found = []
    for size, name in zip(SIZES, NAMES_OF_SIZES, strict=True):
        possible, reached = possible_among(held.facts, size), held.of(size)
        missed = [combination for combination in possible if combination not in reached]
        found.append(ReachedCombinations(name, len(possible), missed))
    return found


def reach_combinations(target: Target, seed: int, actions: int) -> Sequence[ReachedCombinations]:
    """Fuzz `target` for a number of actions; returns which facts, pairs and triples held."""
    counter = CombinationCounter(contract_of(target))
    _fuzz(target, seed, actions, counter)
    return reached_of(counter.held)


def unplanned_facts(contract: Contract) -> Sequence[str]:
    """The facts that can be seen under the contract, and that the planner cannot bring about."""
    facts = facts_for(contract)
    if facts_meet not in scenarios_for(contract, is_late=False):
        return [fact.name for fact in facts]
    supported = {*contract.actions} - (set() if contract.pins_max != 0 else {"pin"})
    return [
        fact.name
        for fact in facts
        if not supported.issuperset(NEEDED_BY_PLANS.get(fact.name, ()))
        or (fact.needs in ACTIONS and fact.needs not in supported)
    ]


def _fuzz(target: Target, seed: int, actions: int, probes: ProbeCounter) -> Reaching | None:
    """Fuzz until the actions are used up, or the wanted probe is reached."""
    try:
        for _ in slices_of(RandomEngine(target, str(seed)), actions, probes):
            pass
    except ProbeReached as reached:
        return reached.trace
    return None
