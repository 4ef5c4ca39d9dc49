"""A worker: the process that runs a session's chunks and reduces what they find, as it is told.

It knows nothing of the session but its plan: a chunk and a reduction are functions of what stands
in the task. Invariants: a failure is on disk before anybody hears of it, if a disk takes it; no
worker outlives its parent, and no program its worker.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import attrs

from fuzz.cancellation import Cancelled, after, cancelled_when, checked_by, checkpoint
from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.random import RandomEngine
from fuzz.problems import BadInputError, HarnessError
from fuzz.protocol.target import Target, full
from fuzz.run import Failure
from fuzz.sessions import corpus
from fuzz.sessions.compare import counted_as
from fuzz.sessions.corpus import RERUN_SECONDS_MAX, Origin, SavedFailure
from fuzz.sessions.plan import RAMP_CHUNKS, UNLIMITED, Chunk, Plan, SessionTotals, make_engine
from fuzz.targets import make_target

SEND_SECONDS = 0.2
PARENT_SECONDS = 1.0
CYCLE_COLLECTION_THRESHOLD = 50_000
TRIES_ALONE_MAX = 8
"""Each takes a process of its own."""


@attrs.frozen
class Search:
    """Run a chunk. Of the identities that are known nobody wants to hear."""

    chunk: Chunk
    known: frozenset[tuple[str, ...]] = frozenset()


@attrs.frozen
class Reduction:
    """Reduce a failure of a chunk, within so many seconds.

    `alone` says that one of its identity did not come back, so that this one is to do so first, in
    a process of its own.
    """

    found: SavedFailure
    seconds: float = UNLIMITED
    rerun_seconds: float = RERUN_SECONDS_MAX
    alone: bool = False


@attrs.frozen
class Canary:
    """Run a chunk on a collector with a bug planted, in the place of the target."""

    target: str = "reference+one-sample-per-object"
    chunk: int = 8
    """It has 256 actions, and with the seed 1 the random engine finds the bug six times."""


Task = Search | Reduction | Canary


@attrs.frozen
class Searched:
    """A chunk is over, and whole unless it was cut off."""

    totals: SessionTotals
    is_whole: bool


@attrs.frozen
class Reduced:
    """A reduction is over, and came to its own end unless it was cut off."""

    saved: SavedFailure
    is_whole: bool


@attrs.frozen
class Sang:
    """A canary's chunk is over, and whether its bug was found."""

    found: bool


@attrs.frozen
class Tries:
    """How many candidates were run for the failure that is being reduced."""

    number: int


Message = SessionTotals | SavedFailure | Searched | Tries | Reduced | Sang | Exception
"""What a worker tells: of a chunk its totals so far, its failures and its end; of a reduction, how
much was tried, and its end; of a canary its end; and what it cannot go on with."""


def run_chunk(
    plan: Plan,
    chunk: Chunk,
    target: Target,
    totals: SessionTotals,
    found: Callable[[Failure], None],
) -> None:
    """Run a chunk, count into `totals`, and tell of each failure when it is found.

    What comes of it is a function of the plan and the chunk, unless it is cancelled. Raises
    BadInputError if the target is hopeless.
    """
    # Chunks have processes in common, or each would wait for new ones.
    process_seed = f"{plan.seed}/{chunk.index // RAMP_CHUNKS}"
    seed = f"{plan.seed}/{chunk.index}"
    engine = make_engine(plan.engine, target, seed, plan.database, process_seed)
    probes = ProbeCounter()
    totals.probes = probes.counts
    # Which traces are run once more, and how long the machine's are, goes by a slice's number.
    number, left = chunk.index, chunk.actions
    while left > 0:
        checkpoint()
        done = engine.run_slice(number, left, probes)
        number += 1
        left -= done.actions
        totals.add(done)
        for failure in done.failures:
            if plan.before is not None:
                totals.changes[counted_as(failure)] += 1
            found(failure)
        if full(target).hopeless is not None:
            raise BadInputError(full(target).hopeless)
    totals.probes = Counter({name: probes.counts[name] for name in plan.probes})


class Worker:
    """One process's work."""

    def __init__(self, plan: Plan, connection: Connection) -> None:
        self._plan = plan
        self._connection = connection
        self._target = plan.origin(0).make_target()
        self._sent = 0.0
        self._progress: SessionTotals | Tries = Tries(0)
        self._is_cut = False

    def serve(self) -> None:
        """Do one task after another, until there is none. What comes in between cuts one off."""
        while (task := self._connection.recv()) is not None:
            self._is_cut = False
            with checked_by(self._report):
                if isinstance(task, Search):
                    self._connection.send(self._search(task))
                elif isinstance(task, Reduction):
                    self._connection.send(self._reduce(task))
                elif isinstance(task, Canary):
                    self._connection.send(sing(task))

    def _report(self) -> None:
        """Tell the parent now and then that the work goes on, and hear whether it is to stop."""
        if time.monotonic() - self._sent > SEND_SECONDS:
            self._connection.send(self._progress)
            self._is_cut = self._connection.poll()
            self._sent = time.monotonic()

    def _search(self, search: Search) -> Searched | BadInputError:
        """Run a chunk. Returns a hopeless target's problem; its failures come next."""
        totals = self._progress = SessionTotals()
        origin = self._plan.origin(search.chunk.index)
        tries = 1 + TRIES_ALONE_MAX * origin.shares_processes
        told = Counter[tuple[str, ...]]()

        def found(failure: Failure) -> None:
            told[failure.identity] += 1
            if failure.identity not in search.known and told[failure.identity] <= tries:
                self._connection.send(corpus.save_found(origin, failure, search.chunk.index))

        try:
            with suppress(Cancelled), cancelled_when(lambda: self._is_cut):
                run_chunk(self._plan, search.chunk, self._target, totals, found)
        except BadInputError as problem:
            return problem
        return Searched(totals, not self._is_cut)

    def _reduce(self, reduction: Reduction) -> Reduced:
        self._tried(0)
        found, takes_too_long = reduction.found, after(reduction.seconds)
        origin = self._plan.origin(found.chunk)
        if reduction.alone:
            origin = origin.with_fresh_processes()
            failure = attrs.evolve(found.failure, earlier=())
            again, tries = corpus.try_again(origin, failure, reduction.rerun_seconds)
            if again is None:
                return Reduced(attrs.evolve(found, tries=tries), is_whole=True)

        def is_over() -> bool:
            return self._is_cut or takes_too_long()

        saved = reduce_found(origin, found, is_over, reduction.rerun_seconds, self._tried)
        return Reduced(saved, not is_over())

    def _tried(self, attempts: int) -> None:
        self._progress = Tries(attempts)


def sing(canary: Canary) -> Sang:
    """Whether this process still finds a bug."""
    plan = Plan(canary.target, RandomEngine.name, 1, 1, Path())
    found: list[Failure] = []
    target, chunk = make_target(canary.target), plan.chunk(canary.chunk)
    run_chunk(plan, chunk, target, SessionTotals(), found.append)
    return Sang(bool(found))


def reduce_found(
    origin: Origin,
    found: SavedFailure,
    is_over: Callable[[], bool] | None = None,
    rerun_seconds: float = RERUN_SECONDS_MAX,
    report: Callable[[int], None] | None = None,
) -> SavedFailure:
    """Reduce a failure. Its trace as found is removed when the reduced one is saved."""
    saved = corpus.reduce_saved(origin, found, is_over, rerun_seconds, report)
    if saved.path != found.path:
        corpus.remove(found.path)
    return saved


def work(plan: Plan, connection: Connection) -> None:
    """A worker process's main function."""
    # Ctrl-C reaches the whole process group, but it is the parent that decides what becomes of
    # it: the worker was started with that signal held back.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The programs under test belong to the worker's session, and go with it.
    os.setsid()
    prepare_worker()
    try:
        Worker(plan, connection).serve()
    except BadInputError as problem:
        connection.send(problem)
    except (BrokenPipeError, ConnectionResetError, EOFError):
        pass  # The parent is gone, and nobody else wants to hear of it.
    except OSError as problem:
        connection.send(BadInputError(f"a worker cannot go on: {problem}"))
    except Exception:  # noqa: BLE001 - a bug of the harness, told by the parent
        import traceback

        connection.send(HarnessError(f"a worker failed\n{traceback.format_exc()}"))


def prepare_worker() -> None:
    """What every process needs that fuzzes for another."""
    if multiprocessing.parent_process() is not None:
        threading.Thread(target=_die_with_parent, daemon=True).start()
    gc.freeze()  # What a fork has of its parent's is the parent's to end.
    # Every action makes objects of a moment; looking for cycles among them so often is a waste.
    gc.set_threshold(CYCLE_COLLECTION_THRESHOLD)


def _die_with_parent() -> None:
    """Wait for the parent's end, however it comes, and follow it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    # Other forks of the parent keep open what its end closes.
    while os.getppid() == parent.pid:
        parent.join(PARENT_SECONDS)
    if os.getsid(0) == os.getpid():
        end_session(os.getpid())
    os._exit(1)


def end_session(leader: int) -> None:
    """End the processes of a POSIX session, but not its leader, and what its programs started."""
    import psutil

    from fuzz.targets.process.conversation import end_programs_of

    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if pid != leader and os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)
    end_programs_of(leader)
