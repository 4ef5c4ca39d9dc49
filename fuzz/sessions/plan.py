"""What a session is to do, cut into chunks.

A chunk is a pure function: of the plan's target, engine and seed, of its index and its number of
actions. Which process or machine runs it makes no difference, nor how many run at once, nor what
ran before. Invariant: how a session is cut depends on its budget of actions alone, and without one
on nothing; so any share of its chunks is a piece of the same sum.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from pathlib import Path

import attrs

from fuzz.drawing.draw import check_beginning
from fuzz.drawing.probes import PROBES, probes_for
from fuzz.drawing.rules import Situation
from fuzz.engines.engine import Engine, Tally
from fuzz.engines.random import RandomEngine
from fuzz.oracles import Bench
from fuzz.problems import BadInputError
from fuzz.protocol.target import Target, contract_of
from fuzz.sessions.compare import Before, ComparingEngine, ComparingFinder, Pair
from fuzz.sessions.corpus import Finder
from fuzz.targets import NO_OPTIONS, TargetOptions, make_target

ENGINES = ("random", "stateful")
UNLIMITED = 2**62
TOKEN_BYTES = 6
FIRST_CHUNK_ACTIONS, CHUNK_ACTIONS = 64, 4096
"""The first chunks are small, so that a slow program has whole ones too; the others take a third of
a second on the reference, a hundred times what handing them out takes."""
CHUNKS_PER_SIZE = 4
"""So many chunks are as large as each other before they become twice as large."""
RAMP_CHUNKS = CHUNKS_PER_SIZE * (CHUNK_ACTIONS // FIRST_CHUNK_ACTIONS).bit_length()
OVERTIME_SECONDS_MIN, OVERTIME_SECONDS_MAX = 10.0, 120.0
"""When the time is up, a find may still be reduced for as long again: for ten seconds at least, and
for two minutes at most."""


def actions_before(index: int) -> int:
    """How many actions the chunks before that one have, where no budget ends them."""
    ramp = min(index, RAMP_CHUNKS)
    size, rest = FIRST_CHUNK_ACTIONS << ramp // CHUNKS_PER_SIZE, ramp % CHUNKS_PER_SIZE
    before = CHUNKS_PER_SIZE * (size - FIRST_CHUNK_ACTIONS) + rest * size
    return before + (index - ramp) * CHUNK_ACTIONS


@attrs.frozen
class Chunk:
    """One chunk of a plan, and how many actions it has."""

    index: int
    actions: int


@attrs.frozen
class Plan:
    """What a session is to do. `seconds`, `actions` or the end of `chunks` is its budget."""

    target: str
    engine: str
    seed: int
    workers: int
    corpus: Path
    seconds: float | None = None
    actions: int | None = None
    options: TargetOptions = NO_OPTIONS
    probes: tuple[str, ...] = PROBES
    """What the target's contract lets it reach."""
    failures_max: int | None = None
    """So many failures that can be reproduced are enough."""
    before: Before | None = None
    """What the target is compared with, if it is: what it was before a change."""
    has_canary: bool = False
    """Whether each worker first shows that it finds a bug planted for it."""
    database: str | None = None
    """Where the stateful engine shares its examples. What comes of a chunk depends on it, too."""
    chunks: range = range(UNLIMITED)
    """The share of this session, as far as the budget goes."""
    token: str = attrs.field(factory=lambda: os.urandom(TOKEN_BYTES).hex(), eq=False)
    """Tells this session's files from those of others that save in the same corpus."""

    def under_contract(self) -> Plan:
        """The same with what its target promises. Raises BadInputError if that cannot be learned.

        A program that cannot be talked to is bad input now, and a find later.
        """
        contract = contract_of(make_target(self.target, self.options))
        check_beginning(Situation(contract, Bench(contract)))
        options = attrs.evolve(self.options, contract=contract)
        before = None if self.before is None else self.before.under_contract()
        return attrs.evolve(self, options=options, probes=probes_for(contract), before=before)

    @property
    def share(self) -> range:
        """The indices of the chunks that this session runs."""
        if self.actions is None:
            return self.chunks
        whole = range(bisect_left(range(UNLIMITED), self.actions, key=actions_before))
        stop = min(self.chunks.stop, whole.stop)
        return range(min(self.chunks.start, stop), stop, self.chunks.step)

    def chunk(self, index: int) -> Chunk:
        """The chunk with that index."""
        end, before = actions_before(index + 1), actions_before(index)
        return Chunk(index, (end if self.actions is None else min(end, self.actions)) - before)

    def finder(self, chunk: int) -> Finder:
        """Who finds in a chunk of this session."""
        token = f"{self.token}-{chunk}"
        who = self.corpus, self.target, self.engine, self.seed, self.options, token
        return Finder(*who) if self.before is None else ComparingFinder(*who, before=self.before)

    @property
    def overtime_seconds(self) -> float:
        """How long a find may still be reduced when the time is up."""
        seconds = self.seconds or OVERTIME_SECONDS_MAX
        return min(max(seconds, OVERTIME_SECONDS_MIN), OVERTIME_SECONDS_MAX)


@attrs.define
class SessionTotals(Tally):
    """What was done. Probes are counted by those who have them."""

    probes: Counter[str] = attrs.Factory(Counter)
    changes: Counter[str] = attrs.Factory(Counter)
    """In so many traces what a change did was seen: by what it was, and the action."""

    def add_all(self, other: SessionTotals) -> None:
        """Count what was done elsewhere, probes and changes too."""
        self.add(other)
        self.probes.update(other.probes)
        self.changes.update(other.changes)


def make_engine(
    name: str,
    target: Target,
    seed: str,
    database: str | None = None,
    process_seed: str | None = None,
) -> Engine:
    """The engine of that name; Hypothesis is imported only for the machine.

    What processes settle is drawn from a seed of its own, if there is one. Raises BadInputError if
    the database does not answer.
    """
    if isinstance(target, Pair):
        return ComparingEngine(target, seed, process_seed)
    if name == RandomEngine.name:
        return RandomEngine(target, seed, process_seed)
    from fuzz.engines.stateful import StatefulEngine

    try:
        return StatefulEngine(target, seed, database, process_seed)
    except ImportError as problem:
        raise BadInputError(f"{database} needs redis: pip install 'hypothesis[redis]'") from problem
    except (OSError, ValueError) as problem:
        raise BadInputError(f"{database}: {problem}") from problem
