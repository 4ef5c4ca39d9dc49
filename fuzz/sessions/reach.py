"""What fuzzing a target reaches: how often each probe, and the smallest trace that reaches it.

A probe that is never reached is a situation that was not tested.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from fuzz.drawing.probes import ProbeCounter, probes_for
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.failure import Reaching
from fuzz.failures.reduce import reduce_failure
from fuzz.protocol.target import Target, contract_of
from fuzz.run import ProbeReached


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


def _fuzz(target: Target, seed: int, actions: int, probes: ProbeCounter) -> Reaching | None:
    """Fuzz until the actions are used up, or the wanted probe is reached."""
    try:
        for _ in slices_of(RandomEngine(target, str(seed)), actions, probes):
            pass
    except ProbeReached as reached:
        return reached.trace
    return None
