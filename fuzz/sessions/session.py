"""A session: a budget, a seed, and workers that search until the budget is used up.

The parent starts the workers, each a process of its own, and turns what they send into events;
listeners format them and change nothing. Invariants: a failure is on disk before anybody hears of
it, if a disk takes it; a worker that dies takes nothing with it; no worker outlives its parent.
With a budget of actions a session is reproducible: each worker's share, seed and finds depend on
the plan alone. With a budget of time the search ends with it, in the middle of a trace if need be;
what is being reduced then has a bounded overtime.
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
from uuid import uuid4

import attrs
import psutil

from fuzz.cancellation import after, cancelled_when, checked_by
from fuzz.drawing.probes import PROBES, ProbeCounter
from fuzz.engines.engine import Engine, Slice
from fuzz.engines.random import RandomEngine
from fuzz.problems import BadInputError, HarnessError
from fuzz.run import Failure
from fuzz.sessions import corpus
from fuzz.sessions.corpus import RERUN_SECONDS_MAX, Find, Finder, Raw
from fuzz.sessions.reduce import SECONDS_MAX
from fuzz.targets import NO_OPTIONS, Target, TargetOptions
from fuzz.targets.process.conversation import end_programs_of

ENGINES = ("random", "machine")
TIME, ACTIONS, INTERRUPTED, WORKERS_DIED = "time", "actions", "interrupted", "workers died"
"""Why a session stopped."""
SEND_SECONDS = 0.2
POLL_SECONDS = 0.1
STOP_SECONDS = 10.0
OVERTIME_SECONDS_MIN = 10.0
"""When the time is up, a find may still be reduced for as long again: for ten seconds at least, and
at most for the two minutes that any reduction may take."""
INTERRUPTED_SECONDS = 3.0
"""Who interrupts a session does not want to wait for a find to be reduced, or to fail once more."""
CYCLE_COLLECTION_THRESHOLD = 50_000
SILENCE_SECONDS = 300.0
"""A worker that reaches no checkpoint for so long hangs: no wait for a program is as long."""
UNLIMITED = 2**62
TOKEN_LENGTH = 12


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
    token: str = attrs.field(factory=lambda: uuid4().hex[:TOKEN_LENGTH], eq=False)
    """Tells this session's files from those of others that save in the same corpus."""

    def finder(self, worker: int) -> Finder:
        """Who finds in this session."""
        token = f"{self.token}-{worker}"
        return Finder(self.corpus, self.target, self.engine, self.seed, self.options, token)

    @property
    def overtime_seconds(self) -> float:
        """How long a find may still be reduced when the time is up."""
        return min(max(self.seconds or SECONDS_MAX, OVERTIME_SECONDS_MIN), SECONDS_MAX)


@attrs.define
class SessionTotals:
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
    totals: SessionTotals
    failures: int
    reducing: int
    """Failures that are being reduced."""
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
    totals: SessionTotals
    finds: tuple[Find, ...]
    stop_reason: str
    problem: Exception | None
    """What a worker could not go on with: the session's result is not to be trusted."""


Event = Started | Progress | WorkerDied | Finished
Listener = Callable[[Event], None]


# Messages from a worker.


@attrs.frozen
class _Done:
    totals: SessionTotals


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
        self._finder = plan.finder(index)
        self._connection = connection
        self._deadline = deadline
        self._engine = make_engine(plan.engine, self._finder.make_target(), f"{plan.seed}/{index}")
        self._actions_left = _share(plan.actions, plan.workers, index)
        self._totals = SessionTotals()
        self._probes = ProbeCounter()
        self._identities: set[tuple[str, ...]] = set()
        self._sent = 0.0
        self._is_stopped = False

    def search(self) -> None:
        """Run slices until the budget is used up or the parent says stop."""
        number = 0
        with checked_by(self._report):
            while self._actions_left > 0 and not self._is_over():
                with cancelled_when(self._is_over):
                    done = self._engine.run_slice(number, self._actions_left, self._probes)
                number += 1
                self._actions_left -= done.actions
                self._totals.add(done)
                for failure in done.failures:
                    self._found(failure)
        self._send_totals()

    def _is_over(self) -> bool:
        return self._is_stopped or time.monotonic() > self._deadline

    def _report(self) -> None:
        """Tell the parent now and then that the work goes on, and hear whether it is to stop."""
        if time.monotonic() - self._sent > SEND_SECONDS:
            self._send_totals()
            self._is_stopped = self._connection.poll()
            self._sent = time.monotonic()

    def _send_totals(self) -> None:
        self._totals.probes = self._probes.counts
        self._connection.send(_Done(self._totals))

    def _found(self, failure: Failure) -> None:
        """Save a failure and reduce it, unless this worker has found one of its identity."""
        if failure.identity in self._identities:
            return
        self._identities.add(failure.identity)
        raw = corpus.save_raw(self._finder, failure)
        self._connection.send(raw)
        seconds_left = max(self._deadline - time.monotonic(), 0)
        takes_too_long = after(min(SECONDS_MAX, seconds_left + self._plan.overtime_seconds))
        find = _reduce(self._finder, raw, lambda: self._is_stopped or takes_too_long())
        self._connection.send(find)


def _reduce(
    finder: Finder,
    raw: Raw,
    is_over: Callable[[], bool],
    rerun_seconds: float = RERUN_SECONDS_MAX,
) -> Find:
    """Reduce a failure; the raw trace goes once the reduced one is there and has failed again."""
    find = corpus.save_reduced(finder, raw, is_over, rerun_seconds)
    if raw.path is not None and find.path != raw.path:
        corpus.take_back(raw.path)
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
    except BrokenPipeError:
        pass  # The parent is gone, and nobody else wants to hear of it.
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
    """End the processes of a POSIX session, but not its leader, and what its programs started."""
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if pid != leader and os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)
    end_programs_of(leader)


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
        self._totals: list[SessionTotals] = [SessionTotals() for _ in range(plan.workers)]
        self._raws: dict[int, Raw] = {}
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
            self._reduce_leftovers()
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

    def _take(self, index: int, message: _Done | Raw | Find | _Broke) -> None:
        if isinstance(message, _Done):
            self._totals[index] = message.totals
        elif isinstance(message, Raw):
            self._raws[index] = message
            self._last_new = time.monotonic()
        elif isinstance(message, _Broke):
            self._problem = message.problem
            self._died(index, type(message.problem).__name__)
        else:
            del self._raws[index]
            self._finds.append(message)

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

    def _reduce_leftovers(self) -> None:
        """Finish what a worker that died, or was ended, had found."""
        seconds, rerun_seconds = SECONDS_MAX, RERUN_SECONDS_MAX
        if self._stop_reason == INTERRUPTED:
            seconds = rerun_seconds = INTERRUPTED_SECONDS
        for index, raw in self._raws.items():
            find = _reduce(self._plan.finder(index), raw, after(seconds), rerun_seconds)
            self._finds.append(find)
        self._raws.clear()

    def _sum(self) -> SessionTotals:
        total = SessionTotals()
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
        identities |= {raw.failure.identity for raw in self._raws.values()}
        self._tell(
            Progress(
                seconds=now - self._started,
                totals=totals,
                failures=len(identities),
                reducing=len(self._raws),
                seconds_since_new=now - self._last_new,
                probes=len(self._plan.probes),
            )
        )

    def _finish(self) -> Finished:
        totals = self._sum()
        totals.probes = Counter({name: totals.probes[name] for name in self._plan.probes})
        finds = self._publish()
        if any(find.unsaved for find in finds):
            self._problem = self._problem or BadInputError(
                f"{self._plan.corpus}: not all finds could be saved there; they are printed above"
            )
        finished = Finished(
            plan=self._plan,
            seconds=time.monotonic() - self._started,
            totals=totals,
            finds=finds,
            stop_reason=self._stop_reason,
            problem=self._problem,
        )
        self._tell(finished)
        return finished

    def _publish(self) -> tuple[Find, ...]:
        """One find an identity, whichever worker was first; the others' files go."""
        kept: dict[tuple[str, ...], Find] = {}
        for find in sorted(self._finds, key=lambda find: find.sort_key):
            if kept.setdefault(find.failure.identity, find) is not find and find.path is not None:
                corpus.take_back(find.path)
        return tuple(_published(kept[identity]) for identity in sorted(kept))

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)


def _published(find: Find) -> Find:
    """A find whose file has its final name."""
    if find.path is None:
        return find
    try:
        return attrs.evolve(find, path=corpus.publish(find.path))
    except OSError as problem:
        return attrs.evolve(find, unsaved=problem.strerror)


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
        number: signal.signal(number, interrupt)
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number)
        is not signal.SIG_IGN  # As for a script's job in its background.
    }
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
