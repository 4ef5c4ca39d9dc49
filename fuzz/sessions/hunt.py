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

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.failure import Failure
from fuzz.failures.reduce import reduce_failure
from fuzz.problems import HarnessError
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
class Record:
    """A bug and all its hunts. `reduced` is the reduced failure of the first seed that had one."""

    bug: KnownBug
    hunts: tuple[Hunt, ...]
    reduced: Failure | None

    @property
    def found(self) -> bool:
        """Whether every seed found the bug."""
        return all(hunt.actions is not None for hunt in self.hunts)

    @property
    def oracles(self) -> tuple[str, ...]:
        """The oracles that caught it, the most frequent one first."""
        caught = Counter(hunt.failure.oracle for hunt in self.hunts if hunt.failure)
        return tuple(oracle for oracle, _ in caught.most_common())

    @property
    def actions_median(self) -> float | None:
        """The median number of actions until it was found."""
        actions = self._actions()
        return statistics.median(actions) if actions else None

    @property
    def actions_worst(self) -> int | None:
        """The largest number of actions; None if one seed did not find it."""
        return max(self._actions()) if self.found else None

    def _actions(self) -> list[int]:
        return [hunt.actions for hunt in self.hunts if hunt.actions is not None]


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
) -> Iterator[Record]:
    """Hunt each bug with the seeds from 1 to `seeds`; `progress` is called after each hunt.

    Raises HarnessError if a worker process dies.
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
            yield Record(KNOWN_BUGS[bug], hunts, reduced)
