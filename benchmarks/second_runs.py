"""What second runs of traces are worth: how much is done until a bug is found, by their shares.

    python benchmarks/second_runs.py [--bugs known|conjunctive] [--seeds N] [--actions N]

Second runs draw nothing, so the traces of a hunt are the same for all shares. Invariant: each trace
runs again once for each oracle here, and what a session with other shares would have done is
counted from that: the actions of first and second runs until something fails.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from unittest.mock import patch

import attrs
import click
from conjunctions import BUGS, planted
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fuzz.engines import random as random_engine
from fuzz.engines.engine import slices_of
from fuzz.oracles import RERUN_ORACLES, Mismatch, RerunOracle
from fuzz.protocol.actions import Action
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.reached.probes import ProbeCounter
from fuzz.run import Run, rerun
from fuzz.sessions.plan import make_engine
from fuzz.sessions.worker import prepare_worker
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

Shares = Mapping[str, int]
"""By oracle: one trace in that many runs again; 0 if none does."""
TODAY = {name: oracle.share for name, oracle in RERUN_ORACLES.items()}
COMPARED: dict[str, Shares] = {
    "none": dict.fromkeys(TODAY, 0),
    "a quarter": {name: 4 * share for name, share in TODAY.items()},
    "half": {name: 2 * share for name, share in TODAY.items()},
    "today": TODAY,
    "twice": {name: share // 2 for name, share in TODAY.items()},
    "four times": {name: share // 4 for name, share in TODAY.items()},
    "all": dict.fromkeys(TODAY, 1),
}
FIRST_TRACES = (0, 3, 7, 13, 21, 29)
"""The numbers that the first trace could have had: they decide which traces run again."""
SEEDS, ACTIONS = 5, 6_000


@attrs.frozen
class Second:
    """A second run: its actions, and whether the oracle found a difference."""

    actions: int
    has_failed: bool


@attrs.frozen
class Hunt:
    """The first runs of a hunt, by their actions, and the second ones, by trace and oracle."""

    first: list[int] = attrs.Factory(list)
    second: list[dict[str, Second]] = attrs.Factory(list)

    def actions_with(self, shares: Shares, first_trace: int) -> tuple[int, bool]:
        """The actions until something fails, or all; and whether anything does.

        A trace that failed has no second runs, and is the last.
        """
        actions = 0
        for number, done in enumerate(self.first):
            actions += done
            if number == len(self.second):
                return actions, True
            for name, second in self.second[number].items():
                if shares[name] and (first_trace + number) % shares[name] == 0:
                    actions += second.actions
                    if second.has_failed:
                        return actions, True
        return actions, False


def second_run(target: Target, run: Run, oracle: RerunOracle) -> Second:
    """Run a trace again as a session does, without its consequences."""
    kept, actions, perform = [*run.actions], 0, target.perform

    def counted(action: Action) -> Observation:
        nonlocal actions
        actions += 1
        return perform(action)

    has_failed = False
    with patch.object(target, "perform", counted):
        try:
            rerun(target, run, oracle)
        except Mismatch:
            has_failed = True
    run.actions[:] = kept
    return Second(actions, has_failed)


def hunt(bug: str, seed: int, actions_max: int) -> Hunt:
    """Fuzz with the bug until a first run fails, or the budget is used up."""
    hunted = Hunt()

    def run_all_again(target: Target, run: Run, _: int) -> None:
        hunted.second.append(
            {name: second_run(target, run, oracle) for name, oracle in RERUN_ORACLES.items()}
        )

    host = KNOWN_BUGS[bug].target if bug in KNOWN_BUGS else "reference"
    with ExitStack() as switches:
        switches.enter_context(patch.object(random_engine, "rerun_some", run_all_again))
        switches.enter_context(
            patch.object(random_engine, "reruns", lambda _: RERUN_ORACLES.values())
        )
        if bug in BUGS:
            switches.enter_context(planted(bug))
        engine = make_engine("random", make_target(host), str(seed))
        for done in slices_of(engine, actions_max, ProbeCounter()):
            hunted.first.append(done.actions)
            if done.failures:
                break
    return hunted


def hunt_all(bugs: Sequence[str], seeds: int, actions_max: int) -> Iterator[Hunt]:
    """The hunts for each bug, with the seeds from 1 up, on all cores."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), context, prepare_worker) as pool:
        pending = [
            pool.submit(hunt, bug, seed, actions_max)
            for bug in bugs
            for seed in range(1, seeds + 1)
        ]
        for future in track(pending, "hunting", console=Console(stderr=True)):
            yield future.result()


NAMES = {"known": [*KNOWN_BUGS], "conjunctive": [*BUGS]}


@click.command()
@click.option("--bugs", type=click.Choice([*NAMES]), default="known", show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=SEEDS, show_default=True)
@click.option("--actions", type=click.IntRange(min=1), default=ACTIONS, show_default=True)
def main(bugs: str, seeds: int, actions: int) -> None:
    """Print how much each choice of shares does until the bugs are found."""
    hunts = [*hunt_all(NAMES[bugs], seeds, actions)]
    table = Table(title=f"{len(hunts)} hunts for {bugs} bugs, at most {actions:,} actions")
    for column in ("second runs", "won", "mean actions of both runs"):
        table.add_column(column, justify="left" if column == "second runs" else "right")
    for name, shares in COMPARED.items():
        ends = [each.actions_with(shares, first) for each in hunts for first in FIRST_TRACES]
        won = sum(is_found for _, is_found in ends) / len(ends)
        mean = sum(done for done, _ in ends) / len(ends)
        table.add_row(name, f"{won:.1%}", f"{mean:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
