"""The interface of an engine, and what both engines do with a finished trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import attrs

from fuzz.failure import Failure
from fuzz.oracles import RERUN_ORACLES, RerunOracle
from fuzz.protocol.target import Target
from fuzz.reached.probes import ProbeCounter
from fuzz.run import Run, rerun


def reruns(number: int) -> Iterator[RerunOracle]:
    """The oracles that run the trace `number` a second time."""
    return (oracle for oracle in RERUN_ORACLES.values() if number % oracle.share == 0)


def rerun_some(target: Target, run: Run, number: int) -> None:
    """Run the trace `number` a second time for each of these oracles. Raises a Mismatch."""
    for oracle in reruns(number):
        rerun(target, run, oracle)


@attrs.define
class Tally:
    """Counts of what was done."""

    traces: int = 0
    actions: int = 0
    samples: int = 0
    minor_collections: int = 0

    def add(self, done: Tally) -> None:
        """Add the counts of another tally."""
        self.traces += done.traces
        self.actions += done.actions
        self.samples += done.samples
        self.minor_collections += done.minor_collections


@attrs.define
class Slice(Tally):
    """What a slice of a session did: some traces, and their failures."""

    failures: list[Failure] = attrs.Factory(list)


class Engine(Protocol):
    """Draws traces and runs them on one target."""

    name: str

    def run_slice(self, number: int, actions_max: int, probes: ProbeCounter) -> Slice:
        """Run the slice `number`, of at most `actions_max` actions.

        The same number gives the same traces, whatever ran before. A slice may be cancelled.
        """


def slices_of(
    engine: Engine, actions: int, probes: ProbeCounter, number: int = 0
) -> Iterator[Slice]:
    """The slices from that number on, until that number of actions is used up."""
    while actions > 0:
        done = engine.run_slice(number, actions, probes)
        yield done
        actions -= done.actions
        number += 1
