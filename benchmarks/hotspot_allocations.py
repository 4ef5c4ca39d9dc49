"""HotSpot's allocations, each foretold by the oracles in the machine's own process, without a pipe.

    python benchmarks/hotspot_allocations.py ALLOCATIONS JAVA... 2> machines.log

So many are shared out among all collectors of each virtual machine, and for each collector among
draws of all else that a machine is made with. A trace allocates, and frees nothing until the
next one begins: threads take turns, sampling is enabled, disabled and given other periods, and
collections end buffers. Prints a row for each machine and collector; exits with 1 if anything was
wrong.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from ctypes import CDLL
from itertools import count, repeat
from math import ceil
from multiprocessing import get_context
from pathlib import Path

from typing_extensions import override

from fuzz.drawing.draw import draw_configuration
from fuzz.drawing.rules import Choices
from fuzz.engines.random import PROCESSES, RandomChoices, draw_settled
from fuzz.oracles import Mismatch
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    AllocateWeakref,
    CollectFull,
    CollectMinor,
    DisableSampling,
    EnableSampling,
    SetPeriod,
    name_of,
)
from fuzz.protocol.contract import Contract
from fuzz.run import Run
from fuzz.targets.hotspot.collectors import COLLECTOR, COLLECTORS, EPSILON, settings_of
from fuzz.targets.hotspot.hotspot_command import find_library
from fuzz.targets.hotspot.hotspot_driver import HotspotTarget
from fuzz.targets.hotspot.structs import Structs

SEED = "allocations"
RUNS, RUN_MAX = 32, 64
"""A trace is so many runs of equal allocations by a thread, each of at most so many."""
CHANGES_SHARE = 3
"""Before one run in so many it changes what is sampled, or collects."""
PERIOD_MAX = 2**16
MACHINE_MIN = 1000
"""For fewer allocations no other machine is made."""
ALLOCATE: Mapping[str, tuple[Callable[[int], Action], int]] = {
    "allocate_node": (AllocateNode, 0),
    "allocate_string": (AllocateString, 2**13),
    "allocate_array": (AllocateArray, 100),
    "allocate_weakref": (AllocateWeakref, 0),
}
"""What is allocated, and how long it is at most. Weak references refer to the first object."""
COLLECT = (CollectMinor, CollectFull)
COUNTED = ("traces", "allocations", "samples", "collections", "wrong")


def actions_of(choices: Choices, contract: Contract) -> Iterator[Action]:
    """Those of a trace."""
    names = [name for name in ALLOCATE if name in contract.actions]
    collections = [each() for each in COLLECT if name_of(each) in contract.actions]
    yield AllocateNode(0)
    for _ in range(RUNS):
        if choices.below(CHANGES_SHARE) == 0:
            period_bytes = choices.log_between(1, PERIOD_MAX + 1) - 1
            on = EnableSampling(period_bytes)
            changes = (on, on, SetPeriod(period_bytes), DisableSampling(), *collections)
            yield choices.pick(changes)
        allocate, longest = ALLOCATE[choices.pick(names)]
        allocation = allocate(choices.log_between(1, longest + 1) - 1)
        times = choices.log_between(1, RUN_MAX)
        yield from repeat(allocation.by(choices.below(contract.threads)), times)


class OneMachine(HotspotTarget):
    """Each trace is carried out by the machine of this process, also one without settings."""

    def __init__(self, library: str, started_with: Mapping[str, int]) -> None:
        super().__init__(library)
        self._made_with = started_with

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        return super().start({**configuration, **self._made_with})


def play(library: str, started_with: dict[str, int], allocations: int) -> Counter[str]:
    """What came of so many in a machine, which this process makes."""
    target, counts = OneMachine(library, started_with), Counter[str]()
    settings = target.start({}).settings
    # Of Epsilon's heap there is nothing left then.
    with suppress(*[SystemExit] if COLLECTORS[started_with[COLLECTOR]] == EPSILON else []):
        for number in count():
            if counts["allocations"] >= allocations or counts["wrong"]:
                break
            choices = RandomChoices(f"{SEED}/{started_with}/{number}")
            run = Run(target, draw_configuration(settings, choices))
            try:
                for action in actions_of(choices, run.contract):
                    run.step(action)
            except Mismatch as mismatch:
                counts["wrong"] += 1
                print(run.failure(mismatch).message, run.configuration, f"trace {number}")
            counts["traces"] += 1
            counts["allocations"] += sum(action.allocates for action in run.actions)
            counts["samples"] += sum(said.samples for said in run.answers)
            counts["collections"] += sum(said.minors for said in run.answers)
    return counts


def main() -> None:
    """A process for each machine, one after another."""
    allocations, *places = sys.argv[1:]
    machines: dict[str, list[tuple[str, dict[str, int]]]] = {}
    for place in places:
        library = str(find_library(Path(place)))
        settings = settings_of(library, Structs(CDLL(library)))
        for collector in next(each.choices for each in settings if each.name == COLLECTOR):
            draws = (draw_settled(settings, SEED, number) for number in range(PROCESSES))
            name = f"{place}, {COLLECTORS[collector]}"
            machines[name] = [(library, drawn | {COLLECTOR: collector}) for drawn in draws]
    of_collector = ceil(int(allocations) / len(machines))
    draws_used = min(PROCESSES, ceil(of_collector / MACHINE_MIN))
    print(f"| | {' | '.join(COUNTED)} |\n|---|{'--:|' * len(COUNTED)}", flush=True)
    total = Counter[str]()
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as processes:
        for name, started_with in machines.items():
            counts = Counter[str]()
            for machine in started_with[:draws_used]:
                share = ceil(of_collector / draws_used)
                counts.update(processes.submit(play, *machine, share).result())
            total.update(counts)
            print_row(name, counts)
    print_row("in all", total)
    sys.exit(total["wrong"] > 0)


def print_row(name: str, counts: Mapping[str, int]) -> None:
    """A line of the table."""
    figures = " | ".join(f"{counts[each]:,}" for each in COUNTED)
    print(f"| {name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
