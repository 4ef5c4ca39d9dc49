"""What a session does, cut into chunks.

A chunk is a pure function of the plan's target, engine and seed, of its index and its number of
actions, and for the stateful engine of the version of Hypothesis. It does not matter which process
or machine runs it, or what ran before. Invariant: how a session is cut depends on its budget of
actions and the size of its chunks only. So any share of its chunks is a piece of the same sum.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from pathlib import Path

import attrs

from fuzz.drawing.draw import check_beginning
from fuzz.drawing.situation import Situation
from fuzz.engines.engine import Engine, Tally
from fuzz.engines.random import RandomEngine
from fuzz.failures.compare import Before, Pair
from fuzz.failures.comparing_engine import ComparingEngine
from fuzz.failures.corpus import Origin
from fuzz.failures.weaker import why_weaker
from fuzz.former_names import target_named
from fuzz.oracles import Bench
from fuzz.plain import shell_word
from fuzz.problems import BadInputError
from fuzz.protocol.target import Target, contract_of
from fuzz.reached.combinations import CombinationCounter, Held
from fuzz.reached.probes import PROBES, ProbeCounter, probes_for
from fuzz.targets import NO_OPTIONS, TargetOptions, make_target
from fuzz.targets.registration import CHUNK_ACTIONS

ENGINES = ("random", "stateful")
UNLIMITED = 2**62
TOKEN_BYTES = 6
FIRST_CHUNK_ACTIONS = 64
"""The first chunks are small, so that a slow program finishes some, too."""
CHUNKS_PER_SIZE = 4
"""After this many chunks of one size the next ones are twice as large."""
PROCESS_ACTIONS = 2**17
"""The chunks that begin in one run of this many actions share the seed of their processes.

This is not the size of a chunk: larger chunks would draw settings of processes more rarely."""
OVERTIME_SECONDS_MIN, OVERTIME_SECONDS_MAX = 10.0, 120.0
"""Bounds of the time for reductions after the session's time is up."""


def actions_before(index: int, chunk_actions: int = CHUNK_ACTIONS) -> int:
    """How many actions the chunks before this one have, if no budget ends them."""
    before, size = 0, min(FIRST_CHUNK_ACTIONS, chunk_actions)
    while index > CHUNKS_PER_SIZE and size < chunk_actions:
        before += CHUNKS_PER_SIZE * size
        index -= CHUNKS_PER_SIZE
        size = min(2 * size, chunk_actions)
    return before + index * size


@attrs.frozen
class Chunk:
    """One chunk of a plan, and how many actions it has."""

    index: int
    actions: int


@attrs.frozen
class PlanKey:
    """What distinguishes plans: plans with the same key have the same chunks."""

    target: str = attrs.field(converter=target_named)
    options: tuple[str, ...]
    """The arguments on the command line."""
    without: tuple[str, ...]
    before: tuple[str, ...] | None
    """Name and arguments of the target before a change."""
    engine: str
    seed: int
    budget_actions: int | None
    name: str = ""
    """What distinguishes the target from others, if that is not its path."""
    chunk_actions: int = CHUNK_ACTIONS
    """How many actions the chunks have after the first, small ones."""
    combinations: bool = False
    """Whether the facts that held at once are remembered. So a record has them of all its chunks,
    or of none."""


@attrs.frozen
class Plan:
    """What a session does. `seconds`, `actions` or the end of `chunks` is its budget."""

    target: str
    engine: str
    seed: int
    workers: int
    corpus: Path
    seconds: float | None = None
    actions: int | None = None
    options: TargetOptions = NO_OPTIONS
    probes: tuple[str, ...] = PROBES
    """The probes that the target's contract lets it reach."""
    reduce_seconds: float | None = None
    """The time for reductions, the sum of all. By default it is half of the session's time."""
    failures_max: int | None = None
    """The session stops after this many failures that reproduced."""
    before: Before | None = None
    """The target before a change, if two are compared."""
    known: frozenset[tuple[str, ...]] = frozenset()
    """The identities of known failures, which do not count among `failures_max`."""
    has_canary: bool = False
    """Whether each worker first runs a chunk in which it must find a planted bug."""
    database: str | None = None
    """The folder where the stateful engine shares examples. A chunk's result depends on it, too."""
    name: str = ""
    """What distinguishes the target from others in a history."""
    chunk_actions: int = CHUNK_ACTIONS
    combinations: bool = False
    """Whether to remember which facts held at once. On `reference` this doubles the time."""
    chunks: range = range(UNLIMITED)
    """The session's share of the chunks, as far as the budget goes."""
    token: str = attrs.field(factory=lambda: os.urandom(TOKEN_BYTES).hex(), eq=False)
    """Part of the names of this session's files, since several sessions may share a corpus."""

    def under_contract(self) -> Plan:
        """The plan with the contract that its target states. Raises BadInputError.

        A program that does not answer is bad input now, and a failure later.
        """
        contract = contract_of(make_target(self.target, self.options))
        check_beginning(Situation(contract, Bench(contract)))
        options = attrs.evolve(self.options, contract=contract)
        before = None if self.before is None else self.before.under_contract()
        return attrs.evolve(self, options=options, probes=probes_for(contract), before=before)

    @property
    def why_weaker(self) -> str:
        """What the contract promises less than the one before the change; empty if nothing."""
        then = None if self.before is None else self.before.options.contract
        now = self.options.contract
        return "" if then is None or now is None else why_weaker(then, now)

    @property
    def key(self) -> PlanKey:
        before = self.before
        return PlanKey(
            target=self.target,
            options=tuple(self.options.arguments),
            without=self.options.without,
            before=None if before is None else (before.target, *before.options.arguments),
            engine=self.engine,
            seed=self.seed,
            budget_actions=self.actions,
            name=self.name,
            chunk_actions=self.chunk_actions,
            combinations=self.combinations,
        )

    def counter(self) -> ProbeCounter:
        """Counts what a chunk reaches."""
        contract = self.options.contract
        return CombinationCounter(contract) if self.combinations and contract else ProbeCounter()

    @property
    def share(self) -> range:
        """The indices of the chunks that this session runs."""
        if self.actions is None:
            return self.chunks
        whole = range(bisect_left(range(UNLIMITED), self.actions, key=self._before))
        stop = min(self.chunks.stop, whole.stop)
        return range(min(self.chunks.start, stop), stop, self.chunks.step)

    def _before(self, index: int) -> int:
        return actions_before(index, self.chunk_actions)

    def process_seed(self, chunk: Chunk) -> str:
        """The seed of its processes' settings. Not each chunk waits for new processes."""
        return f"{self.seed}/{self._before(chunk.index) // PROCESS_ACTIONS}"

    def chunk(self, index: int) -> Chunk:
        end, before = self._before(index + 1), self._before(index)
        return Chunk(index, (end if self.actions is None else min(end, self.actions)) - before)

    def origin(self, chunk: int) -> Origin:
        token = f"{self.token}-{chunk}"
        where = self.corpus, self.target, self.engine, self.seed, self.options, self.before
        return Origin(*where, token=token)

    @property
    def reduction_seconds(self) -> float:
        """The time for all reductions. It has no limit if the session has none.

        It is half of the session's time, so that a session with one worker still fuzzes.
        """
        if self.reduce_seconds is not None or self.seconds is None:
            return self.reduce_seconds or float(UNLIMITED)
        return max(self.seconds * self.workers / 2, OVERTIME_SECONDS_MIN)

    @property
    def overtime_seconds(self) -> float:
        """How long failures may still be reduced after the session's time is up."""
        seconds = self.seconds or OVERTIME_SECONDS_MAX
        return min(max(seconds, OVERTIME_SECONDS_MIN), OVERTIME_SECONDS_MAX)


@attrs.define
class SessionTotals(Tally):
    """What was done."""

    probes: Counter[str] = attrs.Factory(Counter)
    """How often each probe was reached."""
    changes: Counter[str] = attrs.Factory(Counter)
    """In how many traces each effect of a change was seen, by effect and action."""
    held: Held = attrs.Factory(Held)
    """Which facts held at once, if the plan asks for it."""

    def add_all(self, other: SessionTotals) -> None:
        self.add(other)
        self.probes.update(other.probes)
        self.changes.update(other.changes)
        self.held |= other.held


def make_engine(
    name: str,
    target: Target,
    seed: str,
    database: str | None = None,
    process_seed: str | None = None,
) -> Engine:
    """The engine of that name. Hypothesis is imported only for the stateful engine.

    Settings of a process are drawn from `process_seed`, if it is given. Raises BadInputError if the
    database keeps no example.
    """
    if isinstance(target, Pair):
        return ComparingEngine(target, seed, process_seed)
    if name == RandomEngine.name:
        return RandomEngine(target, seed, process_seed)
    from fuzz.engines.stateful import StatefulEngine

    try:
        return StatefulEngine(target, seed, database, process_seed)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise BadInputError(
            f"--database {shell_word(database or '')}: cannot keep examples: {why}; name a folder "
            "that can be written"
        ) from problem
