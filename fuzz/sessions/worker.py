"""The process that carries out the tasks of a session: it runs chunks and reduces failures.

The result of a task depends on the plan and the task only. Invariants: a failure is on disk before
it is sent, if it can be saved; no worker outlives its parent, and no program its worker.
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
from fuzz.engines.random import RandomEngine
from fuzz.failure import Failure
from fuzz.failures import corpus
from fuzz.failures.compare import counted_as
from fuzz.failures.corpus import RERUN_SECONDS_MAX, SavedFailure
from fuzz.problems import BadInputError, HarnessError, portable
from fuzz.protocol.target import Target, full, name_of
from fuzz.reached.combinations import CombinationCounter
from fuzz.sessions.plan import UNLIMITED, Chunk, Plan, SessionTotals, make_engine
from fuzz.targets import make_target

SEND_SECONDS = 0.2
PARENT_SECONDS = 1.0
CYCLE_COLLECTION_THRESHOLD = 50_000
TRIES_ALONE_MAX = 8
"""How many failures of one identity are tried in a process of their own.

A collector keeps state between traces that a header does not undo. A bug in an adapter for Boehm's
collector was seen once, after 59 actions; in a process of its own it takes six."""
IDLE_SLICES_MAX = 256
"""After this many slices in a row without any action the contract is taken to leave none. Until
commit d1cd538, a session whose contract leaves no action did not end."""
CUT = "cut"
"""The message that ends a task early."""


@attrs.frozen
class Search:
    """Run a chunk. Failures with a known identity are not sent."""

    chunk: Chunk
    known: frozenset[tuple[str, ...]] = frozenset()


@attrs.frozen
class Reduction:
    """Reduce a failure within some seconds.

    `alone` means that another failure of its identity did not reproduce; so this one first has to
    reproduce in a process of its own.
    """

    found: SavedFailure
    seconds: float = UNLIMITED
    """Until it is cut off."""
    reduce_seconds: float = UNLIMITED
    """Its share of the session's time for reductions. If that ends it, it is whole all the same."""
    rerun_seconds: float = RERUN_SECONDS_MAX
    alone: bool = False


@attrs.frozen
class Canary:
    """Run a chunk on a collector with a planted bug, in place of the target."""

    target: str = "reference+one-sample-per-object"
    chunk: int = 8
    """It has 256 actions. With seed 1 the random engine finds the bug six times."""


Task = Search | Reduction | Canary


@attrs.frozen
class Searched:
    """The end of a search. The chunk is whole unless the search was cut off, or had a problem."""

    totals: SessionTotals
    is_whole: bool
    problem: BadInputError | None = None
    """Why the target is hopeless. The worker can still reduce failures."""


@attrs.frozen
class Reduced:
    """The end of a reduction. It is whole unless it was cut off."""

    saved: SavedFailure
    is_whole: bool
    seconds: float = 0.0
    """How long it took."""


@attrs.frozen
class CanaryResult:
    """The end of a canary's chunk, and whether its bug was found."""

    found: bool


@attrs.frozen
class Candidates:
    """How many candidates were run so far to reduce a failure."""

    number: int


TaskProgress = SessionTotals | Candidates
Message = TaskProgress | SavedFailure | Searched | Reduced | CanaryResult | Exception
"""What a worker sends: progress, failures as they were found, the end of its task, and a problem
that ends the session."""


def run_chunk(
    plan: Plan,
    chunk: Chunk,
    target: Target,
    totals: SessionTotals,
    found: Callable[[Failure], None],
) -> None:
    """Run a chunk, count into `totals`, and pass each failure to `found`.

    The result is a function of the plan and the chunk, unless it is cancelled. Raises BadInputError
    if the target is hopeless.
    """
    seed = f"{plan.seed}/{chunk.index}"
    engine = make_engine(plan.engine, target, seed, plan.database, plan.process_seed(chunk))
    probes = plan.counter()
    totals.probes = probes.counts
    # The number of a slice decides whether it runs twice, and its length in the stateful engine.
    number, left, idle = chunk.index, chunk.actions, 0
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
        idle = 0 if done.actions or done.failures else idle + 1
        if idle >= IDLE_SLICES_MAX:
            raise BadInputError(
                f"{name_of(target)}: {idle} traces in a row had no legal action; its contract "
                "leaves none, or only with some settings: check `actions`, "
                "`exhaustion` and `settings`"
            )
    totals.probes = Counter({name: probes.counts[name] for name in plan.probes})
    if isinstance(probes, CombinationCounter):
        totals.held = probes.held


def run_canary(canary: Canary) -> CanaryResult:
    """Run a canary's chunk in this process."""
    plan = Plan(canary.target, RandomEngine.name, 1, 1, Path())
    found: list[Failure] = []
    target, chunk = make_target(canary.target), plan.chunk(canary.chunk)
    run_chunk(plan, chunk, target, SessionTotals(), found.append)
    return CanaryResult(bool(found))


class TaskRunner:
    """Carries out the tasks that come through a connection."""

    def __init__(self, plan: Plan, connection: Connection) -> None:
        self._plan = plan
        self._connection = connection
        self._target = plan.origin(0).make_target()
        self._sent_at = 0.0
        self._progress: TaskProgress = Candidates(0)
        self._is_cut = False

    def serve(self) -> None:
        """Do one task after another until None comes. A message during a task cuts it off."""
        while (task := self._connection.recv()) is not None:
            self._is_cut = False
            with checked_by(self._send_progress):
                if isinstance(task, Search):
                    self._connection.send(self._search(task))
                elif isinstance(task, Reduction):
                    self._connection.send(self._reduce(task))
                elif isinstance(task, Canary):
                    self._connection.send(run_canary(task))

    def _send_progress(self) -> None:
        if time.monotonic() - self._sent_at > SEND_SECONDS:
            self._connection.send(self._progress)
            self._is_cut = self._connection.poll()
            self._sent_at = time.monotonic()

    def _search(self, search: Search) -> Searched:
        """Run a chunk. Its failures are sent."""
        totals = self._progress = SessionTotals()
        origin = self._plan.origin(search.chunk.index)
        tries = 1 + TRIES_ALONE_MAX * origin.shares_processes
        sent = Counter[tuple[str, ...]]()

        def found(failure: Failure) -> None:
            sent[failure.identity] += 1
            if failure.identity not in search.known and sent[failure.identity] <= tries:
                self._connection.send(corpus.save_found(origin, failure, search.chunk.index))

        try:
            with suppress(Cancelled), cancelled_when(lambda: self._is_cut):
                run_chunk(self._plan, search.chunk, self._target, totals, found)
        except BadInputError as problem:
            return Searched(totals, is_whole=False, problem=portable(problem))
        return Searched(totals, not self._is_cut)

    def _reduce(self, reduction: Reduction) -> Reduced:
        self._tried(0)
        found, takes_too_long = reduction.found, after(reduction.seconds)
        is_share_used, started = after(reduction.reduce_seconds), time.monotonic()
        origin = self._plan.origin(found.chunk)
        if reduction.alone:
            origin = origin.with_fresh_processes()
            failure = attrs.evolve(found.failure, earlier=())
            again, tries = corpus.try_again(origin, failure, reduction.rerun_seconds)
            if again is None:
                return Reduced(attrs.evolve(found, tries=tries), is_whole=True)

        def is_over() -> bool:
            return self._is_cut or takes_too_long()

        def is_reduced() -> bool:
            return is_over() or is_share_used()

        saved = corpus.reduce_saved(origin, found, is_reduced, reduction.rerun_seconds, self._tried)
        return Reduced(saved, not is_over(), time.monotonic() - started)

    def _tried(self, candidates: int) -> None:
        self._progress = Candidates(candidates)


def work(plan: Plan, connection: Connection) -> None:
    """The main function of a worker's process."""
    # It was started with a terminal's signals blocked: only its parent decides when it ends.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The programs under test belong to the worker's POSIX session, and end with it.
    os.setsid()
    prepare_worker()
    try:
        TaskRunner(plan, connection).serve()
    except BadInputError as problem:
        connection.send(portable(problem))
    except (BrokenPipeError, ConnectionResetError, EOFError):
        pass  # The parent is gone.
    except OSError as problem:
        connection.send(BadInputError(f"a worker cannot continue: {problem}"))
    except Exception:  # noqa: BLE001 - a bug of gcfuzz, which the parent reports
        import traceback

        connection.send(HarnessError(f"a worker failed\n{traceback.format_exc()}"))


def prepare_worker() -> None:
    """Prepare a process that fuzzes for its parent."""
    if multiprocessing.parent_process() is not None:
        threading.Thread(target=_die_with_parent, daemon=True).start()
    gc.freeze()  # Objects of the parent stay as they are in a fork.
    # Each action makes many short-lived objects; frequent searches for cycles are a waste.
    gc.set_threshold(CYCLE_COLLECTION_THRESHOLD)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    # Other forks of the parent keep the pipe open that its end would close.
    while os.getppid() == parent.pid:
        parent.join(PARENT_SECONDS)
    die()


def die() -> None:
    """End this process, and its programs if it is a worker.

    Another thread that sees the end of its program would start the next one meanwhile.
    """
    try:  # If too many files are open, no module can be imported.
        from fuzz.targets.process.conversation import stop_starting

        stop_starting()
        if os.getsid(0) == os.getpid():
            end_session(os.getpid())
    finally:
        os._exit(1)


def end_session(leader: int) -> None:
    """End the processes of a POSIX session except its leader, and what its programs started."""
    import psutil

    from fuzz.targets.process.conversation import end_programs_of

    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if pid != leader and os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)
    end_programs_of(leader)
