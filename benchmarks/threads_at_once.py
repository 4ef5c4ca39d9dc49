"""HotSpot's threads at once, for so long with each collector: what they did, and that they race.

    python benchmarks/threads_at_once.py 600 /usr/lib/jvm/java-17-openjdk-amd64 ...

A step of the generator that all threads share is lost where two of them take it at the same time:
then the samples are more than the steps from the state before to the state after.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from typing_extensions import override

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.random import RandomEngine
from fuzz.protocol.actions import Action, RunAtOnce
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.run import Failure
from fuzz.targets.hotspot.at_once_driver import CHOSEN, AtOnceTarget
from fuzz.targets.hotspot.collectors import COLLECTOR, COLLECTORS
from fuzz.targets.hotspot.hotspot_command import find_library
from fuzz.targets.hotspot.hotspot_state import BITS, INCREMENT, MULTIPLIER
from fuzz.targets.hotspot.structs import word

COUNTED = ("runs at once", "objects", "collections", "samples", "steps lost", "failures")


def steps_between(before: int, after: int) -> int:
    """How many steps of the generator lead from one state to another: bit by bit, from the last."""
    steps, multiplier, increment = 0, MULTIPLIER, INCREMENT
    for bit in range(BITS):
        if (before ^ after) >> bit & 1:
            before = (before * multiplier + increment) % 2**BITS
            steps += 2**bit
        increment = increment * (multiplier + 1) % 2**BITS
        multiplier = multiplier**2 % 2**BITS
    return steps


class Counting(AtOnceTarget):
    """The target with one collector; it counts what happens while threads run at once."""

    def __init__(self, library: str, collector: int) -> None:
        super().__init__(library)
        self._only = {COLLECTOR: collector}
        self.counts: Counter[str] = Counter()

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.contract = super().start({**configuration, **self._only})
        return self.contract

    @override
    def _run(self, action: Action) -> Observation:
        before = word(self._samplers.generator)
        said = super()._run(action)
        if not isinstance(action, RunAtOnce):
            return said
        steps = steps_between(before, word(self._samplers.generator))
        lost = 0 if self.contract.sampling.periods == (0,) else said.samples - steps
        objects = 2 * action.objects * self.contract.threads
        happened = (1, objects, said.minors, said.samples, lost)
        self.counts.update(dict(zip(COUNTED, happened, strict=False)))
        return said


def measure(library: str, collector: int, seconds: float) -> None:
    """Fuzz for so long, and print a row."""
    target, number, failures = Counting(library, collector), 0, list[Failure]()
    engine = RandomEngine(target, "at once")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        failures += engine.run_slice(number, sys.maxsize, ProbeCounter()).failures
        number += 1
    target.counts["failures"] = len(failures)
    figures = " | ".join(f"{target.counts[name]:,}" for name in COUNTED)
    print(f"| {target.contract.version}, {COLLECTORS[collector]} | {figures} |", flush=True)
    for failure in failures:
        print(failure.message)


def main() -> None:
    """A process for each collector of each virtual machine, one after another."""
    seconds, *places = sys.argv[1:]
    print(f"| | {' | '.join(COUNTED)} |\n|---|{'--:|' * len(COUNTED)}", flush=True)
    for place in places:
        library = str(find_library(Path(place)))
        for collector in CHOSEN:
            process = multiprocessing.get_context("spawn").Process(
                target=measure, args=(library, collector, float(seconds))
            )
            process.start()
            process.join()


if __name__ == "__main__":
    main()
