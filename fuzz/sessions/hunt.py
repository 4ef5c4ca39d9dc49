"""Hunts: how soon each known bug is found, and how short its trace becomes.

The value of the harness is the share of these bugs that it finds. Invariant: a hunt knows only
where the bug is planted, and the same seed gives the same figures (for the stateful engine, in one
installation).
"""

from __future__ import annotations

import multiprocessing
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import attrs

from fuzz.engines.engine import slices_of
from fuzz.failure import Failure
from fuzz.failures.reduce import reduce_failure
from fuzz.problems import HarnessError
from fuzz.reached.probes import ProbeCounter
from fuzz.sessions.plan import make_engine
from fuzz.sessions.worker import prepare_worker
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bug import KnownBug
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS

ACTIONS_MAX = {"random": 20_000, "stateful": 50_000}
"""The budget of one hunt, by engine."""


@attrs.frozen
class Hunt:
    """One bug and one seed. `actions` is when the bug was found, None if it was not."""

    bug: str
    seed: int
    actions: int | None
    failure: Failure | None


@attrs.frozen
class HuntedBug:
    """A known bug, and how it was found: a row of the kill matrix."""

    id: str
    seen_in: str
    found: bool
    """Whether every seed found it."""
    oracle: str | None
    oracles: tuple[str, ...]
    """The oracles that caught it, the most frequent one, `oracle`, first."""
    actions_median: float | None
    """Actions until it was found, of the seeds that found it."""
    actions_worst: int | None
    """The most of these; None if a seed did not find it."""
    reduced: int | None
    shortest: int


@attrs.frozen
class HuntedBugs:
    """The output of `gcfuzz bugs --json`."""

    engine: str
    seeds: int
    bugs: tuple[HuntedBug, ...]


def summed_up(bug: KnownBug, hunts: Sequence[Hunt], reduced: Failure | None) -> HuntedBug:
    """The row of a bug. `reduced` is the reduced failure of the first seed that had one."""
    actions = [hunt.actions for hunt in hunts if hunt.actions is not None]
    caught = Counter(hunt.failure.oracle for hunt in hunts if hunt.failure)
    oracles = tuple(oracle for oracle, _ in caught.most_common())
    found = len(actions) == len(hunts)
    return HuntedBug(
        id=bug.id,
        seen_in=bug.seen_in,
        found=found,
        oracle=oracles[0] if oracles else None,
        oracles=oracles,
        actions_median=statistics.median(actions) if actions else None,
        actions_worst=max(actions) if found else None,
        reduced=len(reduced.actions) if reduced else None,
        shortest=bug.shortest,
    )


def hunt(bug: str, engine_name: str, seed: int) -> Hunt:
    """Fuzz the bug's host with `bug` planted until something fails or the budget is used up."""
    engine = make_engine(engine_name, make_target(KNOWN_BUGS[bug].target), str(seed))
    actions = 0
    for done in slices_of(engine, ACTIONS_MAX[engine_name], ProbeCounter()):
        actions += done.actions
        if done.failures:
            return Hunt(bug, seed, actions, done.failures[0])
    return Hunt(bug, seed, None, None)


def hunt_all(
    bugs: Sequence[str], engine: str, seeds: int, workers: int, progress: Callable[[], None]
) -> Iterator[tuple[HuntedBug, Failure | None]]:
    """Hunt each bug with the seeds from 1 to `seeds`; yields its row and its reduced failure.

    `progress` is called after each hunt. Raises HarnessError if a worker process dies.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=prepare_worker) as pool:
        numbers = range(1, seeds + 1)
        pending = {bug: [pool.submit(hunt, bug, engine, seed) for seed in numbers] for bug in bugs}
        for each in (future for futures in pending.values() for future in futures):
            each.add_done_callback(lambda _: progress())
        for bug, futures in pending.items():
            try:
                hunts = tuple(future.result() for future in futures)
            except BrokenProcessPool as problem:
                raise HarnessError("a process that hunted a bug died") from problem
            failure = next((each.failure for each in hunts if each.failure), None)
            target = make_target(KNOWN_BUGS[bug].target)
            reduced = reduce_failure(target, failure) if failure else None
            yield summed_up(KNOWN_BUGS[bug], hunts, reduced), reduced
