"""What the session needs of an engine, and what both engines do with a finished trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import attrs

from fuzz.drawing.probes import ProbeCounter
from fuzz.oracles import RERUN_ORACLES, RerunOracle
from fuzz.protocol.target import Target
from fuzz.run import Failure, Run, rerun


def reruns(number: int) -> Iterator[RerunOracle]:
    """The oracles that run the trace `number` once more."""
    return (oracle for oracle in RERUN_ORACLES.values() if number % oracle.share == 0)


def rerun_some(target: Target, run: Run, number: int) -> None:
    """Run the trace `number` once more for the oracles whose turn it is. Raises a Mismatch."""
    for oracle in reruns(number):
        rerun(target, run, oracle)


@attrs.define
class Tally:
    """How much was done."""

    traces: int = 0
    actions: int = 0
    samples: int = 0
    minor_collections: int = 0

    def add(self, done: Tally) -> None:
        """Count what was done besides."""
        self.traces += done.traces
        self.actions += done.actions
        self.samples += done.samples
        self.minor_collections += done.minor_collections


@attrs.define
class Slice(Tally):
    """What a slice of a session did: some traces, and the failures among them."""

    failures: list[Failure] = attrs.Factory(list)


class Engine(Protocol):
    """Draws traces and runs them on one target."""

    name: str

    def run_slice(self, number: int, actions_max: int, probes: ProbeCounter) -> Slice:
        """Run the slice `number`, of at most `actions_max` actions.

        The same number gives the same traces, whatever ran before. A slice that is cancelled is
        what was done of it.
        """


def slices_of(engine: Engine, actions: int, probes: ProbeCounter) -> Iterator[Slice]:
    """The slices from the first on, until so many actions are used up."""
    number = 0
    while actions > 0:
        done = engine.run_slice(number, actions, probes)
        yield done
        actions -= done.actions
        number += 1
