"""Does a session find bugs sooner that looks at what it reached? `python benchmarks/guidance.py`.

The random engine draws each trace as if it were the first. Here are engines that remember: one
that prefers the rarer of two rules, and some that keep the traces that reached
something new and begin every other trace with a part of one, as fuzzers guided by coverage do. New
may be three collector events in a row (as in GCFuzz, for the JVM) or a branch of gcmodel. What
counts is the number of actions until a known bug is found, over all of them, and over those that
were planted after the rules and scenarios were written. Nothing of it is part of the product unless
it pays; docs/evidence/effectiveness.md says that it does not.

Branches need `sys.monitoring`, CPython 3.12; with an older one they are left out.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import CodeType
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table
from typing_extensions import override

from fuzz.drawing.draw import (
    TRIES_MAX,
    draw_configuration,
    draw_from_scenario,
    draw_length,
    menu_of,
)
from fuzz.drawing.probes import ProbeCounter
from fuzz.drawing.rules import Rule, Situation, rules_for
from fuzz.engines.engine import Slice, rerun_some, reruns, slices_of
from fuzz.engines.random import RandomChoices, RandomEngine
from fuzz.oracles import Mismatch
from fuzz.protocol.actions import Action
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.run import Run
from fuzz.sessions.hunt import ACTIONS_MAX as HUNT_ACTIONS_MAX
from fuzz.sessions.worker import prepare_worker
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

BUGS = [*KNOWN_BUGS]
ACTIONS_MAX = HUNT_ACTIONS_MAX["random"]
SEEDS = 10
KEPT_MAX = 300
KEPT_ACTIONS_MAX = 200
"""So many traces are kept, and none that is longer, since what begins with it is longer still."""
GRAM = 3
HELD_OUT = (
    *("sample-eats-guard-budget", "recorded-type-unrooted", "deaf-after-enable"),
    *("stale-bytes-after-enable", "retired-buffer-charged", "shared-generator-reseeded"),
    *("only-starting-thread", "uninitialised-thread-sampled", "marker-size"),
    *("realloc-keeps-old-sample", "realloc-frees-new-pointer", "resize-stale-context"),
    *("snapshot-counts-history", "live-size-unweighted", "crossings-as-weight"),
    *("rate-change-mixes-weights", "first-event-wrong-weight", "weight-since-last-sample"),
    *("clamped-weight-vanishes", "size-raised-to-interval", "zero-draw-stops-sampling"),
    "rate-one-samples-nothing",
)
"""They were planted after the rules and scenarios had been written."""
MONITORING: Any = getattr(sys, "monitoring", None)
MONITOR = 3
"""A number that neither a debugger nor coverage uses."""


class Guided(RandomEngine):
    """The random engine, but what a trace begins with and what is drawn may be another's choice."""

    @override
    def _run_trace(self, number: int, actions_max: int, probes: ProbeCounter, done: Slice) -> None:
        choices = RandomChoices(f"{self._seed}/{number}")
        configuration, beginning = self.begin(choices)
        run = Run(self._target, configuration, probes, keeps_answers=any(reruns(number)))
        done.traces = 1
        try:
            for action in self._actions(run, beginning, choices, actions_max):
                self.heard(action, run.step(action), run)
            run.finish()
            rerun_some(self._target, run, number)
            self.ended(run)
        except Mismatch as mismatch:
            done.failures.append(run.failure(mismatch))
        finally:
            done.actions = run.answered

    def _actions(
        self, run: Run, beginning: Sequence[Action], choices: RandomChoices, actions_max: int
    ) -> Iterator[Action]:
        for action in beginning[:actions_max]:
            if run.why_illegal(action):
                break
            yield action
        for _ in range(min(draw_length(choices), actions_max - run.answered)):
            drawn = draw_from_scenario(run.situation, choices) or self.draw(run, choices)
            if drawn is None:
                break
            yield drawn

    def draw(self, run: Run, choices: RandomChoices) -> Action | None:
        """An action by one of the rules; None if none has subjects."""
        for rule, subjects in _drawn(run.situation, choices):
            return rule.draw_for(run.situation, choices, subjects)
        return None

    def begin(self, choices: RandomChoices) -> tuple[Mapping[str, int], Sequence[Action]]:
        """A configuration, and actions to begin with."""
        return draw_configuration(self._settings, choices), ()

    def heard(self, action: Action, observation: Observation, run: Run) -> None:
        """What came of an action."""

    def ended(self, run: Run) -> None:
        """A trace was right."""


def _drawn(situation: Situation, choices: RandomChoices) -> Iterator[tuple[Rule, Sequence[int]]]:
    """Rules that have subjects, each drawn by its weight."""
    menu = menu_of(rules_for(situation.contract))
    for _ in range(TRIES_MAX):
        rule = choices.pick(menu)
        subjects = rule.subjects(situation)
        if subjects:
            yield rule, subjects


class Leaning(Guided):
    """Of two rules it prefers the rarer in this state of the collector, with sampling on or off."""

    def __init__(self, target: Target, seed: str) -> None:
        super().__init__(target, seed)
        self._seen: Counter[tuple[object, ...]] = Counter()

    @override
    def draw(self, run: Run, choices: RandomChoices) -> Action | None:
        two = [drawn for drawn, _ in zip(_drawn(run.situation, choices), range(2), strict=False)]
        if not two:
            return None
        rule, subjects = min(two, key=lambda drawn: self._seen[drawn[0].action, *_state(run)])
        return rule.draw_for(run.situation, choices, subjects)

    @override
    def heard(self, action: Action, observation: Observation, run: Run) -> None:
        self._seen[type(action), *_state(run)] += 1


def _state(run: Run) -> tuple[object, ...]:
    """The major collection's, and whether sampling is on."""
    return run.last.state, run.bench.sampling.is_on


class Keeping(Guided):
    """Half of its traces begin with a part of one that reached something new."""

    def __init__(self, target: Target, seed: str) -> None:
        super().__init__(target, seed)
        self._kept: deque[tuple[Mapping[str, int], Sequence[Action]]] = deque(maxlen=KEPT_MAX)
        self._is_new = False

    @override
    def begin(self, choices: RandomChoices) -> tuple[Mapping[str, int], Sequence[Action]]:
        self._is_new = False
        if not self._kept or choices.below(2):
            return super().begin(choices)
        configuration, actions = choices.pick(self._kept)
        return configuration, actions[: choices.between(1, len(actions))]

    @override
    def ended(self, run: Run) -> None:
        if self._is_new and 0 < len(run.actions) <= KEPT_ACTIONS_MAX:
            self._kept.append((run.configuration, tuple(run.actions)))


class NewEvents(Keeping):
    """New is what the collector did in three actions, one after another."""

    def __init__(self, target: Target, seed: str) -> None:
        super().__init__(target, seed)
        self._grams: set[tuple[object, ...]] = set()
        self._last: deque[object] = deque(maxlen=GRAM)

    @override
    def begin(self, choices: RandomChoices) -> tuple[Mapping[str, int], Sequence[Action]]:
        self._last.clear()
        return super().begin(choices)

    @override
    def heard(self, action: Action, observation: Observation, run: Run) -> None:
        self._last.append(self._event(action, observation))
        gram = tuple(self._last)
        if gram not in self._grams:
            self._grams.add(gram)
            self._is_new = True

    def _event(self, action: Action, observation: Observation) -> object:
        return observation.order, observation.state


class NewActionsAndEvents(NewEvents):
    """New is which actions came and what the collector did, three times."""

    @override
    def _event(self, action: Action, observation: Observation) -> object:
        return type(action), observation.order, observation.state


class NewBranches(Keeping):
    """New is a branch of gcmodel that was never taken to that side."""

    def __init__(self, target: Target, seed: str) -> None:
        super().__init__(target, seed)
        if MONITORING.get_tool(MONITOR) is None:
            MONITORING.use_tool_id(MONITOR, "gcfuzz")
        branch = MONITORING.events.BRANCH
        MONITORING.register_callback(MONITOR, branch, self._branch)
        MONITORING.set_events(MONITOR, branch)
        MONITORING.restart_events()
        self._taken: defaultdict[tuple[CodeType, int], set[int]] = defaultdict(set)

    def _branch(self, code: CodeType, source: int, destination: int) -> object:
        """Called until both sides are taken, which costs nothing any more."""
        if "gcmodel" not in code.co_filename:
            return MONITORING.DISABLE
        sides = self._taken[code, source]
        if destination not in sides:
            sides.add(destination)
            self._is_new = True
        return MONITORING.DISABLE if len(sides) > 1 else None


ENGINES: dict[str, type[Guided]] = {
    "as drawn": Guided,
    "the rarer of two rules": Leaning,
    "new events": NewEvents,
    "new actions and events": NewActionsAndEvents,
    **({"new branches": NewBranches} if MONITORING else {}),
}


def actions_until_found(engine: str, bug: str, seed: int) -> int:
    """In a worker: what is not found counts as if it were with the last action."""
    actions = 0
    hunter = ENGINES[engine](make_target(KNOWN_BUGS[bug].target), str(seed))
    for done in slices_of(hunter, ACTIONS_MAX, ProbeCounter()):
        actions += done.actions
        if done.failures:
            break
    return actions


Found = dict[str, list[int]]
"""Of one engine: for each bug the actions until it was found, one a seed."""


def search_all(seeds: int) -> dict[str, Found]:
    """What each engine finds, by all cores."""
    context = multiprocessing.get_context("spawn")
    jobs = [
        (engine, bug, seed) for engine in ENGINES for bug in BUGS for seed in range(1, seeds + 1)
    ]
    found: dict[str, Found] = {engine: {bug: [] for bug in BUGS} for engine in ENGINES}
    with ProcessPoolExecutor(
        os.cpu_count(), mp_context=context, initializer=prepare_worker
    ) as pool:
        searches = pool.map(actions_until_found, *zip(*jobs, strict=True), chunksize=4)
        console = Console(stderr=True)
        for (engine, bug, _), actions in zip(
            jobs, track(searches, "searching", len(jobs), console=console), strict=True
        ):
            found[engine][bug].append(actions)
    return found


def figures(found: Found, unguided: Found, bugs: Sequence[str]) -> list[str]:
    """The median of medians, the mean, and how many times as many actions it takes a bug."""
    means = {bug: statistics.mean(found[bug]) for bug in bugs}
    times = [means[bug] / statistics.mean(unguided[bug]) for bug in bugs]
    return [
        f"{statistics.median(statistics.median(found[bug]) for bug in bugs):,.0f}",
        f"{statistics.mean(means.values()):,.0f}",
        f"{statistics.geometric_mean(times):.2f}",
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", type=click.IntRange(min=1), default=SEEDS, show_default=True)
def main(seeds: int) -> None:
    """Print after how many actions bugs are found, by engines that look at what they reached."""
    found = search_all(seeds)
    unguided = found["as drawn"]
    held_out = [bug for bug in BUGS if bug in HELD_OUT]
    table = Table("engine")
    for name in ("median", "mean", "slower", "held out: median", "mean", "slower", "missed"):
        table.add_column(name, justify="right")
    for engine, searches in found.items():
        missed = sum(each >= ACTIONS_MAX for times in searches.values() for each in times)
        table.add_row(
            engine,
            *figures(searches, unguided, BUGS),
            *figures(searches, unguided, held_out),
            str(missed),
        )
    console = Console(width=100, highlight=False)
    console.print(f"{len(BUGS)} bugs, {len(held_out)} held out, {seeds} seeds")
    console.print(table)


if __name__ == "__main__":
    main()
