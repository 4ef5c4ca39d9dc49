"""A session: a budget, a seed, and workers that search until the budget is used up.

The parent starts the workers, each a process of its own, and turns what they send into events;
listeners format them and change nothing. Invariants: a failure is on disk before anybody hears of
it, if a disk takes it; a worker that dies takes nothing with it; no worker outlives its parent.
With a budget of actions a session is reproducible: each worker's share, seed and finds depend on
the plan alone. With a budget of time the search ends with it, in the middle of a trace if need be;
what is being reduced then has a bounded overtime.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

import attrs

from fuzz.cancellation import after
from fuzz.problems import BadInputError
from fuzz.run import BROKE, Failure
from fuzz.sessions import corpus, worker
from fuzz.sessions.corpus import RERUN_SECONDS_MAX, Find, Raw
from fuzz.sessions.reduce import SECONDS_MAX
from fuzz.sessions.worker import Plan, SessionTotals, Tries
from fuzz.targets import PROGRAMS

TIME, ACTIONS, FAILURES = "time", "actions", "failures"
INTERRUPTED, WORKERS_DIED = "interrupted", "workers died"
"""Why a session stopped."""
POLL_SECONDS = 0.1
STOP_SECONDS = 10.0
INTERRUPTED_SECONDS = 3.0
"""Who interrupts a session does not want to wait for a find to be reduced, or to fail once more."""
SILENCE_SECONDS = 300.0
"""A worker that reaches no checkpoint for so long hangs: no wait for a program is as long."""


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
    tries: int
    """Candidates that were run for these."""
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
class FailureFound:
    """A failure, the first of its identity, as it was found. It is being reduced."""

    failure: Failure


@attrs.frozen
class Told:
    """A find, reduced, in a file that stays; a shorter one of the same identity may follow."""

    plan: Plan
    find: Find


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

    @property
    def is_done(self) -> bool:
        """Whether it came to the end of its budget, and did anything."""
        return self.stop_reason in {TIME, ACTIONS} and self.totals.actions > 0


Event = Started | Progress | WorkerDied | FailureFound | Told | Finished
Listener = Callable[[Event], None]


class Session:
    """The parent's side of a session."""

    def __init__(self, plan: Plan, listeners: Sequence[Listener]) -> None:
        self._plan = plan
        self._listeners = listeners
        self._totals: list[SessionTotals] = [SessionTotals() for _ in range(plan.workers)]
        self._raws: dict[int, Raw] = {}
        self._tries: dict[int, int] = {}
        self._finds: dict[tuple[str, ...], Find] = {}
        self._problem: Exception | None = None
        self._workers_left = plan.workers
        self._heard = [time.monotonic()] * plan.workers
        self._probes_reached = 0
        self._stop_reason = TIME if plan.actions is None else ACTIONS
        self._started = self._last_new = time.monotonic()

    def run(self) -> Finished:
        """Run to the end. Ctrl-C and SIGTERM end it early, with everything found in hand."""
        deadline = time.monotonic() + (self._plan.seconds or worker.UNLIMITED)
        with _interruptible() as interrupted:
            with _signals_held():
                workers = self._start_workers(deadline)
            while workers:
                self._listen(workers)
                self._end_silent(workers)
                self._tell_progress()
                if interrupted.is_set() or self._has_enough():
                    break
            self._stop(workers)
            if self._has_enough():
                self._stop_reason = FAILURES
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
                target=worker.work, args=(self._plan, index, theirs, deadline), daemon=True
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
                self._end(process)
                if process.exitcode != 0:
                    self._died(index, f"exit code {process.exitcode}")
                continue
            self._heard[index] = time.monotonic()
            self._take(index, message)

    def _end(self, process: BaseProcess) -> None:
        """Wait for a worker's end, and end whatever it leaves behind."""
        process.join()
        assert process.pid is not None
        if self._plan.target in PROGRAMS or self._plan.before is not None:
            worker.end_session(process.pid)

    def _end_silent(self, workers: dict[Connection, tuple[int, BaseProcess]]) -> None:
        """End a worker that has said nothing for so long that it can only hang."""
        for connection, (index, process) in list(workers.items()):
            if time.monotonic() - self._heard[index] > SILENCE_SECONDS:
                process.kill()
                self._end(process)
                del workers[connection]
                self._died(index, f"silent for {SILENCE_SECONDS:.0f} s, and ended")

    def _take(self, index: int, message: SessionTotals | Raw | Tries | Find | Exception) -> None:
        if isinstance(message, SessionTotals):
            self._totals[index] = message
        elif isinstance(message, Raw):
            is_new = message.failure.identity not in {each.identity for each in self._failures()}
            self._raws[index] = message
            self._last_new = time.monotonic()
            if is_new and self._plan.tells_at_once:
                self._tell(FailureFound(message.failure))
        elif isinstance(message, Tries):
            self._tries[index] = message.number
        elif isinstance(message, Exception):
            self._problem = message
            self._died(index, type(message).__name__)
        else:
            del self._raws[index]
            self._tries.pop(index, None)
            self._found(message)

    def _found(self, find: Find) -> None:
        """Keep one find an identity, the best, whichever worker was first. What was told stays."""
        identity = find.failure.identity
        known = self._finds.get(identity)
        if known is not None and known.sort_key <= find.sort_key:
            _drop(find)
            return
        self._finds[identity] = find
        if self._plan.tells_at_once:
            self._publish(identity)
        elif known is not None:
            _drop(known)

    def _publish(self, identity: tuple[str, ...]) -> None:
        find = self._finds[identity] = _published(self._finds[identity])
        self._tell(Told(self._plan, find))

    def _has_enough(self) -> bool:
        sure = sum(find.is_sure for find in self._finds.values())
        return sure >= (self._plan.failures_max or worker.UNLIMITED)

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
            self._end(process)

    def _reduce_leftovers(self) -> None:
        """Finish what a worker that died, or was ended, had found."""
        seconds, rerun_seconds = SECONDS_MAX, RERUN_SECONDS_MAX
        if self._stop_reason == INTERRUPTED:
            seconds = rerun_seconds = INTERRUPTED_SECONDS
        for index, raw in self._raws.items():
            find = worker.reduce_raw(self._plan.finder(index), raw, after(seconds), rerun_seconds)
            self._found(find)
        self._raws.clear()

    def _sum(self) -> SessionTotals:
        total = SessionTotals()
        for each in self._totals:
            total.add(each)
            total.changes.update(each.changes)
            total.probes.update(
                {name: each.probes[name] for name in self._plan.probes if each.probes[name]}
            )
        return total

    def _failures(self) -> list[Failure]:
        """All that were found, before they are reduced or after."""
        finds: list[Raw | Find] = [*self._raws.values(), *self._finds.values()]
        return [each.failure for each in finds]

    def _tell_progress(self) -> None:
        now, totals = time.monotonic(), self._sum()
        reached = len(totals.probes)
        if reached > self._probes_reached:
            self._probes_reached, self._last_new = reached, now
        self._tell(
            Progress(
                seconds=now - self._started,
                totals=totals,
                failures=len({each.identity for each in self._failures() if each.change == BROKE}),
                reducing=len(self._raws),
                tries=sum(self._tries.values()),
                seconds_since_new=now - self._last_new,
                probes=len(self._plan.probes),
            )
        )

    def _finish(self) -> Finished:
        totals = self._sum()
        totals.probes = Counter({name: totals.probes[name] for name in self._plan.probes})
        identities = sorted(self._finds)
        for identity in identities if not self._plan.tells_at_once else ():
            self._publish(identity)
        finds = tuple(self._finds[identity] for identity in identities)
        self._take_back_untold({find.path for find in finds})
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

    def _take_back_untold(self, told: Container[Path | None]) -> None:
        """A worker may be killed when it has saved a find, and before it tells of it.

        What it had told of, the raw trace, is reduced by then. One of which it told nothing stays.
        """
        for path in self._plan.corpus.rglob(f"*.{self._plan.token}-*"):
            if path not in told and corpus.RAW not in path.name:
                corpus.take_back(path)

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)


def _drop(find: Find) -> None:
    if find.path is not None:
        corpus.take_back(find.path)


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
