"""A session: a budget, a seed, and workers that search until the budget is used up.

The parent starts the workers, each a process of its own, and turns what they send into events;
listeners format them and change nothing. Invariants: a failure is on disk before anybody hears of
it; a worker that dies takes nothing with it; no worker outlives its parent. With a budget of
actions a session is reproducible: each worker's share, seed and finds depend on the plan alone.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

import attrs
import psutil

from fuzz import corpus
from fuzz import trace as traces
from fuzz.corpus import Find, Finder
from fuzz.engines.engine import Engine, Slice
from fuzz.engines.random import RandomEngine
from fuzz.probes import PROBES, ProbeCounter
from fuzz.problems import BadInputError, HarnessError
from fuzz.reduce import SECONDS_MAX
from fuzz.run import Failure
from fuzz.targets import NO_OPTIONS, Target, TargetOptions

ENGINES = ("random", "machine")
TIME, ACTIONS, INTERRUPTED, WORKERS_DIED = "time", "actions", "interrupted", "workers died"
"""Why a session stopped."""
SEND_SECONDS = 0.2
POLL_SECONDS = 0.1
STOP_SECONDS = 10.0
INTERRUPTED_SECONDS = 3.0
"""Who interrupts a session does not want to wait for reductions."""
CYCLE_COLLECTION_THRESHOLD = 50_000
SILENCE_SECONDS = 300.0
UNLIMITED = 2**62


@attrs.frozen
class Plan:
    """What a session is to do. Exactly one of `seconds` and `actions` is its budget."""

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

    @property
    def finder(self) -> Finder:
        """Who finds in this session."""
        return Finder(self.corpus, self.target, self.engine, self.seed, self.options)


@attrs.define
class Totals:
    """What was done so far."""

    traces: int = 0
    actions: int = 0
    samples: int = 0
    minor_collections: int = 0
    probes: Counter[str] = attrs.Factory(Counter)

    def add(self, done: Slice) -> None:
        """Count a slice."""
        self.traces += done.traces
        self.actions += done.actions
        self.samples += done.samples
        self.minor_collections += done.minor_collections


# Events, in the order in which they come.


@attrs.frozen
class Started:
    """The session begins."""

    plan: Plan
    bugs_checked: int


@attrs.frozen
class Progress:
    """Totals of all workers, several times a second."""

    seconds: float
    totals: Totals
    failures: int
    seconds_since_new: float
    """Since a probe was reached, or a failure found, for the first time."""
    probes: int
    """How many can be reached."""


@attrs.frozen
class WorkerDied:
    """A worker's process ended before its time. The others go on."""

    worker: int
    how: str


@attrs.frozen
class Finished:
    """The session is over."""

    plan: Plan
    seconds: float
    totals: Totals
    finds: tuple[Find, ...]
    stop_reason: str
    problem: Exception | None
    """What a worker could not go on with: the session's result is not to be trusted."""


Event = Started | Progress | WorkerDied | Finished
Listener = Callable[[Event], None]


# Messages from a worker.


@attrs.frozen
class _Done:
    totals: Totals


@attrs.frozen
class _Raw:
    path: Path
    failure: Failure


@attrs.frozen
class _Reduced:
    raw: Path
    find: Find


@attrs.frozen
class _Broke:
    problem: Exception


def make_engine(name: str, target: Target, seed: str) -> Engine:
    """The engine of that name; Hypothesis is imported only for the machine."""
    if name == RandomEngine.name:
        return RandomEngine(target, seed)
    from fuzz.engines.machine import MachineEngine  # noqa: PLC0415

    return MachineEngine(target, seed)


class _Worker:
    """One process's search."""

    def __init__(self, plan: Plan, index: int, connection: Connection, deadline: float) -> None:
        self._plan = plan
        self._connection = connection
        self._deadline = deadline
        self._engine = make_engine(plan.engine, plan.finder.make_target(), f"{plan.seed}/{index}")
        self._actions_left = _share(plan.actions, plan.workers, index)
        self._totals = Totals()
        self._probes = ProbeCounter()
        self._identities: set[tuple[str, ...]] = set()

    def search(self) -> None:
        """Run slices until the budget is used up or the parent says stop."""
        number, sent = 0, 0.0
        while self._actions_left > 0 and not self._is_over():
            done = self._engine.run_slice(number, self._actions_left, self._probes)
            number += 1
            self._actions_left -= done.actions
            self._totals.add(done)
            for failure in done.failures:
                self._found(failure)
            if time.monotonic() - sent > SEND_SECONDS:
                self._send_totals()
                sent = time.monotonic()
        self._send_totals()

    def _is_over(self) -> bool:
        return time.monotonic() > self._deadline or self._connection.poll()

    def _send_totals(self) -> None:
        self._totals.probes = self._probes.counts
        self._connection.send(_Done(self._totals))

    def _found(self, failure: Failure) -> None:
        """Save a failure, unless this worker has found one of its identity."""
        if failure.identity in self._identities:
            return
        self._identities.add(failure.identity)
        raw = corpus.save_raw(self._plan.finder, failure)
        self._connection.send(_Raw(raw, failure))
        self._connection.send(_Reduced(raw, _reduce(self._plan, raw, failure)))


def _reduce(plan: Plan, raw: Path, failure: Failure, seconds: float = SECONDS_MAX) -> Find:
    """Reduce a failure; the raw trace goes once the reduced one is there and has failed again."""
    find = corpus.save_reduced(plan.finder, raw, failure, seconds)
    if find.reproduced:
        raw.unlink(missing_ok=True)
    return find


def _share(actions: int | None, workers: int, index: int) -> int:
    """The worker's share of a budget of actions."""
    if actions is None:
        return UNLIMITED
    return actions // workers + (index < actions % workers)


def _work(plan: Plan, index: int, connection: Connection, deadline: float) -> None:
    """A worker process's main function."""
    # Ctrl-C reaches the whole process group, but it is the parent that decides what becomes of
    # it: the worker was started with that signal held back.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The programs under test belong to the worker's session, and go with it.
    os.setsid()
    prepare_worker()
    try:
        _Worker(plan, index, connection, deadline).search()
    except BadInputError as problem:
        connection.send(_Broke(problem))
    except OSError as problem:
        connection.send(_Broke(BadInputError(f"worker {index} cannot go on: {problem}")))
    except Exception:  # noqa: BLE001 - a bug of the harness, told by the parent
        connection.send(_Broke(HarnessError(f"worker {index} failed\n{traceback.format_exc()}")))


def prepare_worker() -> None:
    """What every process needs that fuzzes for another."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    # Every action makes objects of a moment; looking for cycles among them so often is a waste.
    gc.set_threshold(CYCLE_COLLECTION_THRESHOLD)


def _die_with_parent() -> None:
    """Wait for the parent's end, however it comes, and follow it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    if os.getsid(0) == os.getpid():
        _end_session(os.getpid())
    os._exit(1)


def _end_session(leader: int) -> None:
    """End the processes of a POSIX session, but not its leader."""
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if pid != leader and os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)


def _end(process: BaseProcess) -> None:
    """Wait for a worker's end, and end whatever it leaves behind."""
    process.join()
    assert process.pid is not None
    _end_session(process.pid)


class Session:
    """The parent's side of a session."""

    def __init__(self, plan: Plan, listeners: Sequence[Listener]) -> None:
        self._plan = plan
        self._listeners = listeners
        self._totals: list[Totals] = [Totals() for _ in range(plan.workers)]
        self._raws: dict[Path, Failure] = {}
        self._finds: list[Find] = []
        self._problem: Exception | None = None
        self._workers_left = plan.workers
        self._heard = [time.monotonic()] * plan.workers
        self._probes_reached = 0
        self._stop_reason = TIME if plan.actions is None else ACTIONS
        self._started = self._last_new = time.monotonic()

    def run(self) -> Finished:
        """Run to the end. Ctrl-C and SIGTERM end it early, with everything found in hand."""
        deadline = (
            UNLIMITED if self._plan.seconds is None else time.monotonic() + self._plan.seconds
        )
        with _interruptible() as interrupted:
            with _signals_held():
                workers = self._start_workers(deadline)
            while workers:
                self._listen(workers)
                self._end_silent(workers)
                self._tell_progress()
                if interrupted.is_set():
                    break
            self._stop(workers)
            if interrupted.is_set():
                self._stop_reason = INTERRUPTED
            self._reduce_leftovers(INTERRUPTED_SECONDS if interrupted.is_set() else SECONDS_MAX)
        return self._finish()

    def _start_workers(self, deadline: float) -> dict[Connection, tuple[int, BaseProcess]]:
        context = multiprocessing.get_context("spawn")
        workers: dict[Connection, tuple[int, BaseProcess]] = {}
        for index in range(self._plan.workers):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(self._plan, index, theirs, deadline), daemon=True
            )
            process.start()
            theirs.close()
            workers[ours] = (index, process)
        return workers

    def _listen(self, workers: dict[Connection, tuple[int, BaseProcess]]) -> None:
        """Take what the workers send, and let go of those that have ended."""
        for ready in wait(list(workers), timeout=POLL_SECONDS):
            assert isinstance(ready, Connection)
            index, process = workers[ready]
            try:
                message = ready.recv()
            except (EOFError, OSError):  # OSError: it died in the middle of a message.
                del workers[ready]
                _end(process)
                if process.exitcode != 0:
                    self._died(index, f"exit code {process.exitcode}")
                continue
            self._heard[index] = time.monotonic()
            self._take(index, message)

    def _end_silent(self, workers: dict[Connection, tuple[int, BaseProcess]]) -> None:
        """End a worker that has said nothing for so long that it can only hang."""
        for connection, (index, process) in list(workers.items()):
            if time.monotonic() - self._heard[index] > SILENCE_SECONDS:
                process.kill()
                _end(process)
                del workers[connection]
                self._died(index, f"silent for {SILENCE_SECONDS:.0f} s, and ended")

    def _take(self, index: int, message: _Done | _Raw | _Reduced | _Broke) -> None:
        if isinstance(message, _Done):
            self._totals[index] = message.totals
        elif isinstance(message, _Raw):
            self._raws[message.path] = message.failure
        elif isinstance(message, _Broke):
            self._problem = message.problem
            self._died(index, type(message.problem).__name__)
        else:
            self._raws.pop(message.raw, None)  # Two workers may have saved the same trace.
            self._finds.append(message.find)
            self._last_new = time.monotonic()

    def _died(self, index: int, how: str) -> None:
        """Without a worker its share of a budget of actions stays undone."""
        self._workers_left -= 1
        if not self._workers_left or self._stop_reason == ACTIONS:
            self._stop_reason = WORKERS_DIED
        self._tell(WorkerDied(index, how))

    def _stop(self, workers: dict[Connection, tuple[int, BaseProcess]]) -> None:
        """Ask the workers to end; those that do not are ended."""
        for connection in workers:
            try:
                connection.send("stop")
            except OSError:
                continue
        until = time.monotonic() + STOP_SECONDS
        while workers and time.monotonic() < until:
            self._listen(workers)
        for _, process in workers.values():
            process.kill()
            _end(process)

    def _reduce_leftovers(self, seconds: float) -> None:
        """Finish what a worker that died, or was ended, had found."""
        for raw, failure in self._raws.items():
            self._finds.append(_reduce(self._plan, raw, failure, seconds))

    def _sum(self) -> Totals:
        total = Totals()
        for each in self._totals:
            total.traces += each.traces
            total.actions += each.actions
            total.samples += each.samples
            total.minor_collections += each.minor_collections
            total.probes.update(
                {name: each.probes[name] for name in self._plan.probes if each.probes[name]}
            )
        return total

    def _tell_progress(self) -> None:
        now, totals = time.monotonic(), self._sum()
        reached = len(totals.probes)
        if reached > self._probes_reached:
            self._probes_reached, self._last_new = reached, now
        identities = {find.failure.identity for find in self._finds}
        since_new = now - self._last_new
        probes = len(self._plan.probes)
        self._tell(Progress(now - self._started, totals, len(identities), since_new, probes))

    def _finish(self) -> Finished:
        totals = self._sum()
        totals.probes = Counter({name: totals.probes[name] for name in self._plan.probes})
        finished = Finished(
            plan=self._plan,
            seconds=time.monotonic() - self._started,
            totals=totals,
            finds=self._keep_shortest(),
            stop_reason=self._stop_reason,
            problem=self._problem,
        )
        self._tell(finished)
        return finished

    def _keep_shortest(self) -> tuple[Find, ...]:
        """One find an identity, whichever worker was first; the others' new files go.

        Where two workers reduced to the same actions, the kept one's file says how it was found.
        """
        kept: dict[tuple[str, ...], Find] = {}
        for find in sorted(self._finds, key=lambda find: find.sort_key):
            kept.setdefault(find.failure.identity, find)
        paths = {find.path for find in kept.values()}
        ours = {find.path for find in self._finds if find.is_new}
        for path in ours - paths:
            path.unlink(missing_ok=True)
        for find in kept.values():
            if find.path in ours:
                traces.write_to(find.trace, find.path)
        return tuple(kept[identity] for identity in sorted(kept))

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back Ctrl-C while this lasts, and in all processes that are started meanwhile."""
    # Started later, multiprocessing's own helper would let go of the signal that is held here.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """While this lasts, Ctrl-C and SIGTERM set the event instead of killing the process."""
    interrupted = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.set()

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
