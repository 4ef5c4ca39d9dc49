"""A session: a budget, a seed, and workers that run its chunks until the budget is used up.

The session gives chunks and reductions to its pool of workers, passes their results to its cases,
and reports events to listeners. Invariants: a failure is on disk before it is reported, if it can
be saved. The record has no chunk before all its failures are in the corpus. A signal ends a session
within twice STOP_SECONDS.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import attrs

from fuzz.failure import BROKE
from fuzz.failures import corpus
from fuzz.failures.corpus import RERUN_SECONDS_MAX, SavedFailure
from fuzz.problems import BadInputError, HarnessError
from fuzz.sessions import record
from fuzz.sessions.cases import Cases
from fuzz.sessions.local_worker import LocalWorker
from fuzz.sessions.plan import UNLIMITED, Plan, SessionTotals
from fuzz.sessions.pool import Lost, StartWorker, Worker, WorkerPool
from fuzz.sessions.record import BEYOND, Point, Reason, SessionRecord, Timing
from fuzz.sessions.session_events import Event, FailureReported, Finished, Listener, Progress
from fuzz.sessions.worker import Canary, CanaryResult, Reduced, Reduction, Search, Searched, Task
from fuzz.signals import not_ignored

STOP_SECONDS = 8.0
INTERRUPTED_SECONDS = 3.0
"""After an interrupt, the time to reduce one failure, and to reproduce it; less if more failures
wait than fit into STOP_SECONDS."""
RECORD_SECONDS = 2.0
HISTORY_MAX = 100


class Session:
    """A session, which may continue from the record of an earlier one."""

    def __init__(
        self,
        plan: Plan,
        listeners: Sequence[Listener],
        earlier: SessionRecord | None = None,
        start_worker: StartWorker = LocalWorker,
    ) -> None:
        self._plan, self._listeners, self._earlier = plan, listeners, earlier
        self._cases = Cases(plan, self._report, earlier)
        beyond = earlier.beyond if earlier is not None else ()
        self._beyond = [each.read_in(plan.corpus).shown for each in beyond]
        """What the earlier session found in chunks that were not whole."""
        self._pool = WorkerPool(plan, start_worker, self._report)
        self._done = SessionTotals()
        """The totals of the chunks that were searched, whole or not."""
        self._done.add_all(self._cases.totals)
        self._canaries = 0
        self._stop_reason: Reason | None = None
        self._reduce_seconds = plan.reduction_seconds
        """What is left for reductions that are not given yet."""
        self._deadline = self._reduced_by = self._stop_at = float(UNLIMITED)
        self._timeline = Timeline()
        self._started = self._last_new = self._recorded = time.monotonic()
        self._started_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._versions = record.versions_of(plan)

    def run(self) -> Finished:
        """Run to the end. A signal ends it early, and it keeps all that was found."""
        if self._plan.seconds is not None:
            self._deadline = time.monotonic() + self._plan.seconds
            self._reduced_by = self._deadline + self._plan.overtime_seconds
        with _interruptible() as interrupted, self._pool:
            for saved in self._cases.saved:  # Those of the earlier session.
                self._report(FailureReported(self._plan, saved))
            chunks_left = len(self._cases.share) - self._cases.settled
            self._pool.start(min(self._plan.workers, chunks_left))
            while self._stop_reason is None:
                self._pool.give(self._next_task)
                self._take_messages()
                if self._cases.settle() and time.monotonic() - self._recorded > RECORD_SECONDS:
                    with suppress(BadInputError, OSError):  # The end reports it if it persists.
                        self._write(self._record(record.INTERRUPTED))
                self._report_progress()
                self._stop_reason = self._why_to_stop(interrupted.is_set())
            self._wind_up(interrupted)
        return self._finish()

    def _why_to_stop(self, is_interrupted: bool) -> Reason | None:
        cases, pool = self._cases, self._pool
        if is_interrupted:
            return record.INTERRUPTED
        known = self._plan.known
        certain = {each.failure.identity for each in cases.saved if each.is_certain}
        has_enough = len(certain - known) >= (self._plan.failures_max or UNLIMITED)
        if has_enough or (cases.first is not None and not self._is_busy):
            return record.FAILURES
        if pool.is_broken:
            return record.WORKERS_DIED
        if time.monotonic() > self._deadline:
            return record.TIME
        is_idle = not cases.to_reduce and not pool.tasks
        return record.ACTIONS if is_idle and cases.settled == len(cases.share) else None

    def _next_task(self, worker: Worker) -> Task | None:
        """The next task. Reductions come before chunks, since a chunk may wait for one."""
        if worker.is_new and self._plan.has_canary and self._stop_reason is None:
            return Canary()
        while self._cases.to_reduce:
            waiting = self._cases.to_reduce.popleft()
            found = waiting.read()
            if found.lost is None:
                return self._next_reduction(found)
            self._cases.give_up(found)  # Another program removed its file.
        return self._cases.next_search() if self._stop_reason is None else None

    def _next_reduction(self, found: SavedFailure) -> Reduction:
        # Another case may have given this one its result, also if nothing is a program.
        is_alone = self._plan.origin(found.chunk).shares_processes
        is_alone &= self._cases.by_identity[found.failure.identity].best is not None
        if self._is_hurried:
            # Each failure takes its share twice: it is reduced, and has to fail again.
            share = (self._stop_at - time.monotonic()) / (2 + 2 * len(self._cases.to_reduce))
            seconds = min(INTERRUPTED_SECONDS, max(share, 0.0))
            return Reduction(found, seconds, seconds, seconds, is_alone)
        seconds = max(self._reduced_by - time.monotonic(), 0.0)
        # One failure that no candidate reduces must not take the time of the others.
        parts = 1 if self._cases.first is not None else 1 + self._plan.workers
        share = self._reduce_seconds / parts
        self._reduce_seconds -= share
        return Reduction(found, seconds, share, RERUN_SECONDS_MAX, is_alone)

    def _take_messages(self) -> None:
        cases = self._cases
        for worker, task, message in self._pool.receive():
            match task, message:
                case _, SavedFailure():
                    cases.found(message)
                    if cases.first is not None or cases.last_chunk < UNLIMITED:
                        self._pool.cut_searches(0 if cases.first else cases.last_chunk)
                case Search(chunk), Searched():
                    self._done.add_all(message.totals)
                    cases.searched(chunk, message)
                case Reduction(failure), Reduced(saved, is_whole):
                    self._reduce_seconds += max(task.reduce_seconds - message.seconds, 0.0)
                    cases.reduced(failure, saved, is_whole)
                case _, CanaryResult(found):
                    self._canaries += found
                    if not found:
                        problem = f"worker {worker.number}: did not find its planted bug"
                        self._pool.problem = HarnessError(problem)
                case Search(chunk), Lost(done):
                    cases.search_lost(chunk, done)
                case Reduction(failure), Lost():
                    cases.reduction_lost(failure)

    # The end.

    def _wind_up(self, interrupted: threading.Event) -> None:
        """Cut off the chunks, reduce what was found while there is time, and end the workers."""
        self._cases.is_stopping = True
        self._cut()
        while self._is_busy:
            if interrupted.is_set() and not self._is_hurried:
                self._stop_reason = record.INTERRUPTED
                self._cut()
            if time.monotonic() > self._stop_at:
                for worker in self._pool.kill(only_searches=not self._is_hurried):
                    if isinstance(worker.task, Reduction):
                        self._cases.give_up(worker.task.found)
                    elif isinstance(worker.task, Search):
                        self._cases.search_cut(worker.task.chunk, worker.done)
            if not any(isinstance(task, Search) for task in self._pool.tasks):
                self._cases.decide_rest()
            if not self._is_hurried or time.monotonic() < self._stop_at:
                self._pool.give(self._next_task)
            self._take_messages()
            self._report_progress()
        self._cases.decide_rest()
        while self._cases.to_reduce:
            self._cases.give_up(self._cases.to_reduce.popleft().read())
        self._cases.settle()
        self._cases.count_rest()
        self._pool.dismiss(STOP_SECONDS)

    @property
    def _is_busy(self) -> bool:
        return bool(self._pool.tasks or (self._cases.to_reduce and self._pool.workers))

    @property
    def _is_hurried(self) -> bool:
        """Whether the session ends without waiting for its reductions."""
        return self._stop_reason in {record.INTERRUPTED, record.FAILURES, record.WORKERS_DIED}

    def _cut(self) -> None:
        self._stop_at = time.monotonic() + STOP_SECONDS
        if self._is_hurried:
            self._pool.cut_all()
        else:
            self._pool.cut_searches()

    def _finish(self) -> Finished:
        assert self._stop_reason is not None
        cases, problem = self._cases, self._pool.problem
        # With -x the failure belongs to the result, although its chunk was cut off.
        is_x = self._stop_reason == record.FAILURES
        cases.publish_rest(None if is_x else self._plan.corpus / BEYOND)
        for saved in self._not_found_again:
            self._report(FailureReported(self._plan, saved))
        failures = (*cases.saved, *self._not_found_again)
        self._remove_unreported(failures)
        if any(each.unsaved for each in failures):
            problem = problem or BadInputError(
                f"{self._plan.corpus}: not all failures could be saved there; they are printed"
            )
        session = self._record(self._stop_reason)
        try:
            self._write(session)
        except (BadInputError, OSError) as error:
            problem = problem or BadInputError(str(error))
        finished = Finished(
            plan=self._plan,
            seconds=time.monotonic() - self._started,
            totals=self._totals,
            failures=failures,
            stop_reason=self._stop_reason,
            problem=problem,
            record=session,
        )
        self._report(finished)
        return finished

    def _remove_unreported(self, failures: Sequence[SavedFailure]) -> None:
        """Remove reduced traces of workers that were killed before they reported them.

        A trace as it was found stays, if it was not reported.
        """
        reported = {each.path for each in failures}
        for path in self._plan.corpus.rglob(f"*.{self._plan.token}-*"):
            if path not in reported and corpus.RAW not in path.name:
                corpus.remove(path)

    # Reports.

    def _report(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def _report_progress(self) -> None:
        now, cases = time.monotonic(), self._cases
        totals, reducing, tries = self._pool.progress()
        totals.add_all(self._totals)
        reached = sum(totals.probes[name] > 0 for name in self._plan.probes)
        if reached > self._timeline.probes:
            self._last_new = now
        seconds = now - self._started
        found = [*cases.by_identity.values()]
        self._timeline.add(Point(round(seconds, 1), totals.actions, reached, len(found)))
        self._report(
            Progress(
                seconds=seconds,
                totals=totals,
                failures=sum(each.change == BROKE for each in found),
                reducing=reducing + len(cases.to_reduce),
                tries=tries,
                seconds_since_new=now - max(self._last_new, cases.last_new),
                reached=reached,
                probes=len(self._plan.probes),
            )
        )

    @property
    def _totals(self) -> SessionTotals:
        """The totals of all chunks, also of those that are lost."""
        totals = SessionTotals()
        totals.add_all(self._done)
        totals.add_all(self._cases.partial)
        return self._cases.by_verdict(totals)

    def _record(self, stop_reason: Reason) -> SessionRecord:
        """The record of the settled chunks."""
        reported = (*self._cases.reported, *self._not_found_again)
        failures = [each.without_trace(self._plan.corpus) for each in reported]
        beyond = [each for each in failures if each.path and each.path.parts[0] == BEYOND]
        seconds = time.monotonic() - self._started
        timing = Timing(
            started=self._started_at,
            seconds=round(seconds, 3),
            workers=self._plan.workers,
            actions=self._totals.actions,
            actions_per_second=round(self._totals.actions / seconds),
            chunks=self._cases.settled,
            canaries=self._canaries,
            history=tuple(self._timeline.points),
            versions=self._versions,
        )
        return SessionRecord(
            plan=self._plan.key,
            pieces=(self._cases.piece,),
            failures=record.least(each for each in failures if each not in beyond),
            stop_reason=stop_reason,
            beyond=record.least(beyond),
            timing=(*(self._earlier.timing if self._earlier else ()), timing),
        )

    @property
    def _not_found_again(self) -> list[SavedFailure]:
        """What the earlier session found beyond its whole chunks, and this one has not.

        A flaky target may not fail again in the same chunk.
        """
        found = self._cases.by_identity
        return [each for each in self._beyond if each.failure.identity not in found]

    def _write(self, session: SessionRecord) -> None:
        self._recorded = time.monotonic()
        path = record.path_for(self._plan)
        path.parent.mkdir(exist_ok=True)
        record.save(session, path)


@attrs.define
class Timeline:
    """At most HISTORY_MAX points: when there are more, every other one is dropped."""

    points: list[Point] = attrs.Factory(list)
    probes: int = 0
    """The most probes that were reached."""
    _step_seconds: float = 0.1

    def add(self, point: Point) -> None:
        """Add a point, unless the last one is not old enough."""
        self.probes = max(self.probes, point.probes)
        if not self.points or point.seconds - self.points[-1].seconds >= self._step_seconds:
            self.points.append(point)
        if len(self.points) > HISTORY_MAX:
            del self.points[1::2]
            self._step_seconds *= 2


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that the signals set which would end the process."""
    interrupted = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.set()

    before = {number: signal.signal(number, interrupt) for number in not_ignored()}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
