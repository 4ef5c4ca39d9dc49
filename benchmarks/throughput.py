"""How fast sessions are, as ratios within one run: `python benchmarks/throughput.py`.

Figures of one machine say little; a ratio of two of them, taken in turns in one run, says whether
checking is cheap against collecting, Hypothesis against the target, two workers against one, the
end of a long trace against its beginning. Each figure is the best of several turns.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test
from rich.console import Console
from rich.table import Table

from fuzz.drawing.draw import draw_action, draw_configuration, draw_length, menu_of
from fuzz.drawing.probes import ProbeCounter
from fuzz.drawing.rules import Rule, rules_for
from fuzz.engines.engine import slices_of
from fuzz.engines.machine import STEPS, TraceMachine, session_settings
from fuzz.engines.random import RandomChoices, RandomEngine
from fuzz.oracles import Bench
from fuzz.oracles.heap import HeapOracle
from fuzz.oracles.pointers import PointersOracle
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.survival import SurvivalOracle
from fuzz.protocol.actions import NAMES, Action
from fuzz.protocol.observation import Observation
from fuzz.run import Run
from fuzz.sessions.session import Session
from fuzz.sessions.worker import CYCLE_COLLECTION_THRESHOLD, Plan
from fuzz.targets import make_target
from gcmodel import Configuration, Heap

TURNS = 5
ACTIONS = 60_000
SESSION_ACTIONS = 400_000
LONG_TRACE = 10_000
LONG_TRACES = 30
PART = 1_000

Trace = tuple[dict[str, int], list[Action]]


def drawn_traces(actions: int) -> list[Trace]:
    """What the random engine draws for the reference, as concrete actions."""
    target = make_target("reference")
    settings, traces, left, number = target.start({}).settings, [], actions, 0
    while left > 0:
        source = RandomChoices(f"benchmark/{number}")
        run = Run(target, draw_configuration(settings, source))
        menu = menu_of(rules_for(run.contract))
        for _ in range(min(draw_length(source), left)):
            run.step(draw_action(run.situation, menu, source))
        traces.append((run.configuration, run.actions))
        left -= len(run.actions)
        number += 1
    return traces


def seconds(work: Callable[[], object]) -> float:
    """What one turn of `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def best(*works: Callable[[], object]) -> list[float]:
    """The best turn of each of `works`, which take turns."""
    turns = [[seconds(work) for work in works] for _ in range(TURNS)]
    return [min(times) for times in zip(*turns, strict=True)]


# The bare reference: gcmodel's heap without drawing, observing or checking.

HEAP_METHODS = {
    "read_weakref": "is_weakref_alive",
    "take_identity": "identity",
    "check_heap": "walk",
    "fork": "after_fork",
}
"""Where an action is not called like the heap's method."""

Call = tuple[str, tuple[object, ...]]


def arguments_of(action: Action) -> tuple[object, ...]:
    """What the heap's method is called with; the reference has one thread, which nobody names."""
    return attrs.astuple(action, filter=lambda field, _: field.name != "thread")


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


# What the others run.


def run_random(actions: int) -> None:
    """The random engine, all checks on."""
    engine = RandomEngine(make_target("reference"), "benchmark")
    for done in slices_of(engine, actions, ProbeCounter()):
        assert not done.failures


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
                facts = [bench.oracles[kind].facts for kind in each.tellers()]
                each.check(action, observation, *facts)


class CheckedMachine(TraceMachine):
    """The machine on the reference, counting its actions."""

    make_target = staticmethod(lambda: make_target("reference"))
    actions = 0

    def perform(self, trace: Run, action: Action) -> Observation:
        type(self).actions += 1
        return super().perform(trace, action)


class IdleMachine(CheckedMachine):
    """The same with a target that does nothing and is asked nothing."""

    def perform(self, trace: Run, action: Action) -> Observation:
        type(self).actions += 1
        trace.bench.shadow.follow(action, minors=0)  # The rules look at it.
        return Observation()


def run_machine(machine: type[CheckedMachine]) -> None:
    """A turn of the machine: some examples of every length."""
    machine.actions = 0
    for number, steps in enumerate(STEPS):
        run_state_machine_as_test(seed(number)(machine), settings=session_settings(steps))


def run_session(workers: int) -> None:
    """A session of the random engine."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan("reference", "random", 1, workers, Path(folder), actions=SESSION_ACTIONS)
        assert not Session(plan, []).run().finds


def cost_over_length() -> float:
    """The cost of the last actions of long traces, in terms of the first ones."""
    target, first, last = make_target("reference"), 0.0, 0.0
    settings = target.start({}).settings
    for number in range(LONG_TRACES):
        source = RandomChoices(f"long/{number}")
        run = Run(target, draw_configuration(settings, source))
        menu = menu_of(rules_for(run.contract))

        def part(run: Run = run, menu: list[Rule] = menu, source: RandomChoices = source) -> None:
            for _ in range(PART):
                run.step(draw_action(run.situation, menu, source))

        parts = [seconds(part) for _ in range(LONG_TRACE // PART)]
        first, last = first + parts[0], last + parts[-1]
    return last / first


# The tables.


def print_engines(console: Console) -> None:
    """The engines' speeds and what they are measured against."""
    traces = drawn_traces(ACTIONS)
    calls = heap_calls(traces)
    bare, checked = best(lambda: run_bare(calls), lambda: run_random(ACTIONS))
    idle, machine = best(lambda: run_machine(IdleMachine), lambda: run_machine(CheckedMachine))
    one, two = best(lambda: run_session(1), lambda: run_session(2))
    idle_speed, machine_speed = IdleMachine.actions / idle, CheckedMachine.actions / machine
    table = Table("what", "actions/s", "against", "actions/s", "ratio", "at least")
    rows = (
        ("random engine", ACTIONS / checked, "bare reference", ACTIONS / bare, "0.2"),
        ("machine engine", machine_speed, "an idle target", idle_speed, "0.8"),
        ("two workers", SESSION_ACTIONS / two, "one worker", SESSION_ACTIONS / one, "1.8"),
    )
    for what, speed, against, other, least in rows:
        table.add_row(
            what, f"{speed:,.0f}", against, f"{other:,.0f}", f"{speed / other:.2f}", least
        )
    console.print(table)


def print_length(console: Console) -> None:
    """Whether long traces grow slow."""
    console.print(
        f"the last {PART:,} actions of a {LONG_TRACE:,}-action trace cost "
        f"{cost_over_length():.2f} times the first (at most 1.25)"
    )


def print_oracles(console: Console) -> None:
    """What each oracle adds to the cost of an action. Two need the sampling oracle's count."""
    traces = drawn_traces(ACTIONS)
    sets: dict[str, tuple[type, ...]] = {
        "none": (),
        "heap": (HeapOracle,),
        "sampling": (SamplingOracle,),
        "sampling and survival": (SamplingOracle, SurvivalOracle),
        "sampling and pointers": (SamplingOracle, PointersOracle),
        "all": (HeapOracle, SamplingOracle, SurvivalOracle, PointersOracle),
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
    print_oracles(console)


if __name__ == "__main__":
    main()
