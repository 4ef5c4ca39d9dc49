"""The speed of sessions, as ratios within one run: `python benchmarks/throughput.py`.

A speed depends on the machine, a ratio of two speeds much less. The ratios compare checking with
collecting, the stateful engine with an idle target, two workers with one, the end of a long trace
with its start, and a large heap with a small one. The two sides of a ratio take turns. Each figure
is the best of several turns, in processor time; two workers are measured by the clock.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test
from rich.console import Console
from rich.table import Table

from fuzz.drawing.draw import draw_action, draw_configuration, draw_length, menu_of
from fuzz.drawing.rules import Rule, rules_for
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomChoices, RandomEngine
from fuzz.engines.stateful import STEPS, RuleStateMachine, session_settings
from fuzz.oracles import Bench
from fuzz.oracles.bench import ORACLES
from fuzz.oracles.heap import HeapOracle
from fuzz.oracles.pointers import PointersOracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.survival import SurvivalOracle
from fuzz.protocol.actions import (
    NAMES,
    Action,
    AllocateArray,
    AllocateNode,
    CollectStep,
    Free,
    Write,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.reached.probes import ProbeCounter
from fuzz.run import Run
from fuzz.sessions.plan import Plan
from fuzz.sessions.session import Session
from fuzz.sessions.worker import CYCLE_COLLECTION_THRESHOLD
from fuzz.targets import make_target
from gcmodel import Configuration, Heap

TURNS = 5
ACTIONS = 60_000
SESSION_ACTIONS = 400_000
LONG_TRACE = 10_000
LONG_TRACES = 30
PART = 1_000
LIVE_OBJECTS = (24, 100, 560)
ROUNDS = 50

Trace = tuple[dict[str, int], list[Action]]


def drawn_traces(actions: int) -> list[Trace]:
    """The traces that the random engine draws for the reference."""
    target = make_target("reference")
    settings, traces, left, number = target.start({}).settings, [], actions, 0
    while left > 0:
        source = RandomChoices(f"benchmark/{number}")
        run = Run(target, draw_configuration(settings, source))
        menu = menu_of(rules_for(run.contract))
        for _ in range(min(draw_length(source, run.contract), left)):
            run.step(draw_action(run.situation, menu, source))
        traces.append((run.configuration, run.actions))
        left -= len(run.actions)
        number += 1
    return traces


Clock = Callable[[], float]


def seconds(work: Callable[[], object], clock: Clock = time.process_time) -> float:
    """The seconds that one turn of `work` takes."""
    started = clock()
    work()
    return clock() - started


def best(*works: Callable[[], object], clock: Clock = time.process_time) -> list[float]:
    """The best turn of each work. The works take turns."""
    turns = [[seconds(work, clock) for work in works] for _ in range(TURNS)]
    return [min(times) for times in zip(*turns, strict=True)]


# The bare reference: gcmodel's heap without drawing, observing or checking.

HEAP_METHODS = {
    "take_identity": "identity",
    "check_contents": "contents",
    "check_heap": "walk",
    "fork": "after_fork",
}
"""The heap's method for an action, if its name is another one."""

Call = tuple[str, tuple[object, ...]]


def arguments_of(action: Action) -> tuple[object, ...]:
    """The arguments of the heap's method. The reference has one thread, and no destructors."""
    left_out = {"thread", "destructor"}
    return attrs.astuple(action, filter=lambda field, _: field.name not in left_out)


def heap_calls(traces: list[Trace]) -> list[tuple[Configuration, list[Call]]]:
    """The traces as calls of the heap's methods."""
    return [
        (
            Configuration(**configuration),  # type: ignore[arg-type]
            [
                (HEAP_METHODS.get(name := NAMES[type(action)], name), arguments_of(action))
                for action in actions
            ],
        )
        for configuration, actions in traces
    ]


def run_bare(calls: list[tuple[Configuration, list[Call]]]) -> None:
    """Call the heap."""
    for configuration, methods in calls:
        heap = Heap(configuration)
        for method, arguments in methods:
            getattr(heap, method)(*arguments)


# The other sides of the ratios.


def run_random(actions: int, target: Target | None = None) -> int:
    """Run the random engine with all checks; returns the number of minor collections."""
    engine = RandomEngine(target or make_target("reference"), "benchmark")
    minors = 0
    for done in slices_of(engine, actions, ProbeCounter()):
        assert not done.failures
        minors += done.minor_collections
    return minors


class Recording(Target):
    """The reference; keeps its answers."""

    name = "reference"

    def __init__(self) -> None:
        self._target = make_target("reference")
        self.answers: list[Contract | Observation] = []

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.answers.append(contract := self._target.start(configuration))
        return contract

    def perform(self, action: Action) -> Observation:
        self.answers.append(observation := self._target.perform(action))
        return observation


class Replaying(Target):
    """A target that costs nothing: it returns recorded answers."""

    name = "reference"

    def __init__(self, answers: Iterable[Any]) -> None:
        self._next = iter(answers).__next__

    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self._next()  # type: ignore[no-any-return]

    def perform(self, action: Action) -> Observation:
        return self._next()  # type: ignore[no-any-return]


def run_with(traces: list[Trace], oracles: tuple[type, ...]) -> None:
    """Replay concrete actions with those oracles, and always with the shadow heap."""
    target = make_target("reference")
    for configuration, actions in traces:
        bench = Bench(target.start(configuration))
        asked = [each for kind, each in bench.oracles.items() if kind in oracles]
        for action in actions:
            observation = target.perform(action)
            bench.shadow.follow(action, observation.minors)
            for each in asked:
                each.check(action, observation, bench.sampling)


class CheckedStateMachine(RuleStateMachine):
    """The state machine on the reference; it counts its actions."""

    make_target = staticmethod(lambda: make_target("reference"))
    actions = 0

    def perform(self, trace: Run, action: Action) -> Observation:
        type(self).actions += 1
        return super().perform(trace, action)


class IdleStateMachine(CheckedStateMachine):
    """The same without a target and without oracles."""

    def perform(self, trace: Run, action: Action) -> Observation:
        type(self).actions += 1
        trace.bench.shadow.follow(action, minors=0)  # The rules read the shadow.
        return Observation()


def run_machine(machine: type[CheckedStateMachine]) -> None:
    """One turn of the state machine: some examples of each length."""
    machine.actions = 0
    for number, steps in enumerate(STEPS):
        run_state_machine_as_test(seed(number)(machine), settings=session_settings(steps))


def run_session(workers: int) -> None:
    """A session of the random engine."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan("reference", "random", 1, workers, Path(folder), actions=SESSION_ACTIONS)
        assert not Session(plan, []).run().failures


def cost_over_length() -> float:
    """The cost of the last actions of long traces, divided by that of the first ones."""
    target, first, last = make_target("reference"), 0.0, 0.0
    settings = target.start({}).settings
    for number in range(LONG_TRACES):
        source = RandomChoices(f"long/{number}")
        run = Run(target, draw_configuration(settings, source))
        menu = menu_of(rules_for(run.contract))

        def part(
            run: Run = run, menu: tuple[Rule, ...] = menu, source: RandomChoices = source
        ) -> None:
            for _ in range(PART):
                run.step(draw_action(run.situation, menu, source))

        parts = [seconds(part) for _ in range(LONG_TRACE // PART)]
        first, last = first + parts[0], last + parts[-1]
    return last / first


def cost_with(live_objects: int) -> float:
    """The processor seconds of an action in a heap with that many live objects."""
    run = Run(make_target("reference"), {"nursery_bytes": 4096, "large_object_bytes": 4096})
    run.step(AllocateArray(live_objects))
    for item in range(live_objects):
        for action in (AllocateNode(item), Write(0, item, 1), Free(1)):
            run.step(action)
    rounds = (AllocateNode(0), Write(1, 0, 0), Free(1), CollectStep()) * ROUNDS

    def work() -> None:
        for action in rounds:
            run.step(action)

    return min(seconds(work) for _ in range(TURNS)) / len(rounds)


# The tables.


def print_engines(console: Console) -> None:
    """Print the speeds of the engines and of what they are compared with."""
    calls, recording = heap_calls(drawn_traces(ACTIONS)), Recording()
    minors = run_random(ACTIONS, recording)
    bare, checked, alone = best(
        lambda: run_bare(calls),
        lambda: run_random(ACTIONS),
        lambda: run_random(ACTIONS, Replaying(recording.answers)),
    )
    idle, machine = best(
        lambda: run_machine(IdleStateMachine), lambda: run_machine(CheckedStateMachine)
    )
    sessions = (lambda: run_session(1), lambda: run_session(2))
    one, two = best(*sessions, clock=time.perf_counter)
    idle_speed, machine_speed = (
        IdleStateMachine.actions / idle,
        CheckedStateMachine.actions / machine,
    )
    table = Table("what", "actions/s", "against", "actions/s", "ratio", "at least")
    rows = (
        ("random engine", ACTIONS / checked, "bare reference", ACTIONS / bare, "0.4"),
        ("harness alone", ACTIONS / alone, "random engine", ACTIONS / checked, ""),
        ("stateful engine", machine_speed, "an idle target", idle_speed, "0.8"),
        ("two workers", SESSION_ACTIONS / two, "one worker", SESSION_ACTIONS / one, "1.85"),
    )
    for what, speed, against, other, least in rows:
        table.add_row(
            what, f"{speed:,.0f}", against, f"{other:,.0f}", f"{speed / other:.2f}", least
        )
    console.print(table)
    console.print(f"{minors / ACTIONS:.2f} minor collections an action of the random engine")


def print_growth(console: Console) -> None:
    """Print what an action costs with more live objects."""
    table = Table("live objects", "µs an action", "against the fewest")
    costs = [cost_with(objects) for objects in LIVE_OBJECTS]
    for objects, cost in zip(LIVE_OBJECTS, costs, strict=True):
        table.add_row(f"{objects}", f"{cost * 1e6:.1f}", f"{cost / costs[0]:.1f}")
    console.print(table)


def print_length(console: Console) -> None:
    """Print whether long traces become slower."""
    console.print(
        f"the last {PART:,} actions of a {LONG_TRACE:,}-action trace cost "
        f"{cost_over_length():.2f} times the first (at most 1.25)"
    )


def print_oracles(console: Console) -> None:
    """Print what each oracle adds to an action. Two need the count of the sampling oracle."""
    traces = drawn_traces(ACTIONS)
    sets: dict[str, tuple[type, ...]] = {
        "none": (),
        "heap": (HeapOracle,),
        "sampling": (SamplingOracle,),
        "sampling and survival": (SamplingOracle, SurvivalOracle),
        "sampling and pointers": (SamplingOracle, PointersOracle),
        "all": tuple(ORACLES),
    }
    times = best(*[partial(run_with, traces, oracles) for oracles in sets.values()])
    table = Table("oracles", "µs an action", "more than target and shadow alone")
    for name, seconds_taken in zip(sets, times, strict=True):
        added = seconds_taken / times[0] - 1
        table.add_row(name, f"{seconds_taken / ACTIONS * 1e6:.2f}", f"{added:.0%}")
    console.print(table)


def main() -> None:
    """Print all tables."""
    gc.set_threshold(CYCLE_COLLECTION_THRESHOLD)  # As in a session's workers.
    console = Console()
    print_engines(console)
    print_length(console)
    print_growth(console)
    print_oracles(console)


if __name__ == "__main__":
    main()
