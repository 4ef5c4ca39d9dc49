"""What fuzzing a target reaches: how often each probe, by which trace, and which combinations.

A probe or a combination of facts that is never reached is a situation that was not tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from fuzz.drawing.combinations import Combination, CombinationCounter, combinations_for
from fuzz.drawing.probes import ProbeCounter, probes_for
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.failure import Reaching
from fuzz.failures.reduce import reduce_failure
from fuzz.protocol.target import Target, contract_of
from fuzz.run import ProbeReached

SIZES = (1, 2, 3)
"""Of how many facts the combinations are."""


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
    """The combinations of `size` facts: how many can be reached, and which ones were not."""

    size: int
    possible: int
    missed: Sequence[Combination]


def reach_combinations(target: Target, seed: int, actions: int) -> Sequence[ReachedCombinations]:
    """Fuzz `target` for a number of actions; returns which facts, pairs and triples held."""
    contract = contract_of(target)
    counter = CombinationCounter(contract)
    _fuzz(target, seed, actions, counter)
    found = []
    for size in SIZES:
        possible, reached = combinations_for(contract, size), counter.reached(size)
        missed = [combination for combination in possible if combination not in reached]
        found.append(ReachedCombinations(size, len(possible), missed))
    return found


def _fuzz(target: Target, seed: int, actions: int, probes: ProbeCounter) -> Reaching | None:
    """Fuzz until the actions are used up, or the wanted probe is reached."""
    try:
        for _ in slices_of(RandomEngine(target, str(seed)), actions, probes):
            pass
    except ProbeReached as reached:
        return reached.trace
    return None
