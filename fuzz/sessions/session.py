"""A session: a budget, a seed, and workers that run its chunks until the budget is used up.

The parent hands out chunks and reductions, and turns what comes back into events; listeners format
them and change nothing. Of each identity it is the first failure, in the order of the chunks, that
is reduced, whichever worker was first; so what whole chunks leave depends on the plan alone.
Invariants: a failure is on disk before anybody hears of it, if a disk takes it; a worker that dies
takes nothing with it, since another runs its chunk again; no worker outlives its parent; the record
tells of no chunk before all its finds are in the corpus.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import attrs

from fuzz.problems import BadInputError, HarnessError
from fuzz.run import BROKE, Failure
from fuzz.sessions import corpus, record, worker
from fuzz.sessions.corpus import RERUN_SECONDS_MAX, Find, Raw
from fuzz.sessions.hands import Hand, hire_here
from fuzz.sessions.plan import UNLIMITED, Chunk, Plan, SessionTotals
from fuzz.sessions.record import (
    ACTIONS,
    FAILURES,
    INTERRUPTED,
    TIME,
    WORKERS_DIED,
    Piece,
    SessionRecord,
)
from fuzz.sessions.session_events import (
    ChunkLost,
    Event,
    FailureFound,
    Finished,
    Listener,
    Progress,
    Told,
    WorkerDied,
)
from fuzz.sessions.worker import (
    Canary,
    Message,
    Reduced,
    Reduction,
    Sang,
    Search,
    Searched,
    Task,
    Tries,
)
from fuzz.targets import is_program

if TYPE_CHECKING:
    from fuzz.sessions.cluster import Envoy

POLL_SECONDS = 0.1
STOP_SECONDS = 10.0
INTERRUPTED_SECONDS = 3.0
"""After an interrupt, the time for one failure to be reduced, and for it to fail once more; less if
more failures wait than fit into STOP_SECONDS."""
SILENCE_SECONDS = 300.0
"""A worker that reaches no checkpoint for so long hangs: no wait for a program is as long."""
RECORD_SECONDS = 2.0
TRIES_MAX = 4
"""A chunk that so many workers died in is lost, and a failure whose reduction so many died in stays
as it was found."""
DEATHS_MAX = 12
"""So many deaths, and nothing done in between, are the end."""
HISTORY_MAX = 100
BEYOND = "beyond"
"""The folder of what was found in no whole chunk, or after one that is not."""


@attrs.define
class _Work:
    """A chunk that is not settled: being run, or waiting for what was found in it to be reduced."""

    chunk: Chunk
    raws: list[Raw] = attrs.Factory(list)
    decided: int = 0
    """So many of these were looked at in the order of the chunks."""
    totals: SessionTotals | None = None
    """If it is whole."""
    deaths: int = 0
    unreduced: int = 0
    is_cut: bool = False
    """Whether the reduction of what was found in it was cut off."""

    @property
    def is_over(self) -> bool:
        """Whether nobody is to run it any more."""
        return self.totals is not None or self.is_lost

    @property
    def is_lost(self) -> bool:
        """Whether each worker died that tried it."""
        return self.deaths >= TRIES_MAX


@attrs.define
class _Case:
    """All that is known of the failures of one identity."""

    failure: Failure
    tries_left: int
    """If none came back so far, so many others may be tried in a process of their own."""
    waiting: deque[Raw] = attrs.Factory(deque)
    is_being_reduced: bool = False
    deaths: int = 0
    find: Find | None = None
    is_told: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether no further failure is wanted."""
        return not self.tries_left and not self.is_being_reduced


class Session:
    """The parent's side of a session, which may go on from the record of an earlier one."""

    def __init__(
        self,
        plan: Plan,
        listeners: Sequence[Listener],
        earlier: SessionRecord | None = None,
        hire: Callable[[Plan], tuple[Connection, BaseProcess | Envoy]] = hire_here,
    ) -> None:
        self._plan = plan
        self._hire = hire
        self._listeners = listeners
        self._share = plan.share
        self._cases: dict[tuple[str, ...], _Case] = {}
        self._works: dict[int, _Work] = {}
        self._hands: dict[Connection, Hand] = {}
        self._started_workers = 0
        self._reductions = deque[Raw]()
        self._again = deque[Chunk]()
        self._lost: list[int] = []
        self._whole = SessionTotals()
        self._earlier = earlier
        self._decided = self._settled = 0
        """So many chunks of the share had all their failures looked at; and have them reduced."""
        if earlier is not None:
            self._take_up(earlier)
        self._todo = iter(self._share[self._settled :])
        self._done = SessionTotals()
        self._done.add_all(self._whole)
        self._problem: Exception | None = None
        self._drawn_up_to = UNLIMITED
        """The last chunk that is drawn: with -x, none after the one of the first failure."""
        self._first: Raw | None = None
        """With -x, the one failure that is reduced."""
        self._deaths_in_a_row = self._canaries = 0
        self._stop_reason: str | None = None
        self._deadline = self._reduced_by = self._stop_at = float(UNLIMITED)
        self._probes_reached = 0
        self._history: list[tuple[float, int, int, int]] = []
        self._history_step_seconds = 0.1
        self._started = self._last_new = self._recorded = time.monotonic()
        self._started_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._versions = record.versions_of(plan)

    def _take_up(self, earlier: SessionRecord) -> None:
        """Go on where an earlier session stopped."""
        [piece] = earlier.pieces
        self._settled = self._decided = len(piece.chunks)
        self._whole.add_all(piece.totals)
        self._lost += piece.lost
        for find in record.finds_of(earlier, self._plan.corpus):
            failure = find.failure
            self._cases[failure.identity] = _Case(failure, 0, find=find, is_told=True)

    def run(self) -> Finished:
        """Run to the end. Ctrl-C and SIGTERM end it early, with everything found in hand."""
        if self._plan.seconds is not None:
            self._deadline = time.monotonic() + self._plan.seconds
            self._reduced_by = self._deadline + self._plan.overtime_seconds
        with _interruptible() as interrupted:
            for case in self._cases.values():
                assert case.find is not None
                self._tell(Told(self._plan, case.find))
            for _ in range(min(self._plan.workers, len(self._share) - self._settled)):
                self._start_worker()
            while self._stop_reason is None:
                self._hand_out()
                self._listen()
                self._end_silent()
                self._settle()
                self._tell_progress()
                self._stop_reason = self._why_to_stop(interrupted.is_set())
            self._wind_up(interrupted)
        return self._finish()

    def _why_to_stop(self, is_interrupted: bool) -> str | None:
        if is_interrupted:
            return INTERRUPTED
        if self._has_enough() or (self._first is not None and not self._is_busy()):
            return FAILURES
        if self._problem is not None or self._deaths_in_a_row >= DEATHS_MAX:
            return WORKERS_DIED
        if time.monotonic() > self._deadline:
            return TIME
        is_idle = not self._reductions and all(each.task is None for each in self._hands.values())
        return ACTIONS if is_idle and self._settled == len(self._share) else None

    def _has_enough(self) -> bool:
        finds = [case.find for case in self._cases.values() if case.find is not None]
        return sum(each.is_sure for each in finds) >= (self._plan.failures_max or UNLIMITED)

    # Tasks.

    def _start_worker(self) -> None:
        ours, process = self._hire(self._plan)
        self._hands[ours] = Hand(self._started_workers, ours, process)
        self._started_workers += 1

    def _hand_out(self) -> None:
        for hand in self._hands.values():
            if hand.task is None and (task := self._next_task(hand)) is not None:
                hand.give(task)

    def _next_task(self, hand: Hand) -> Task | None:
        """What was found comes first: it may be all that a chunk waits for."""
        if hand.is_new and self._plan.has_canary and self._stop_reason is None:
            hand.is_new = False
            return Canary()
        if self._reductions:
            return self._reduction_of(self._reductions.popleft())
        if self._stop_reason is not None:
            return None
        if self._first is not None:
            return None
        chunk = self._again.popleft() if self._again else self._next_chunk()
        if chunk is None or chunk.index > self._drawn_up_to:
            return None
        self._works.setdefault(chunk.index, _Work(chunk))
        known = [identity for identity, case in self._cases.items() if case.is_settled]
        return Search(chunk, frozenset(known))

    def _next_chunk(self) -> Chunk | None:
        index = next(self._todo, None)
        return None if index is None or index > self._drawn_up_to else self._plan.chunk(index)

    def _reduction_of(self, raw: Raw) -> Reduction:
        is_alone = self._cases[raw.failure.identity].find is not None
        if self._is_hurried:
            share = (self._stop_at - time.monotonic()) / (2 + 2 * len(self._reductions))
            seconds = min(INTERRUPTED_SECONDS, max(share, 0.0))
            return Reduction(raw, seconds, seconds, is_alone)
        seconds = max(self._reduced_by - time.monotonic(), 0.0)
        return Reduction(raw, seconds, RERUN_SECONDS_MAX, is_alone)

    # What the workers tell.

    def _listen(self) -> None:
        """Take what the workers send, and let go of those that have ended."""
        for ready in wait(list(self._hands), timeout=POLL_SECONDS):
            assert isinstance(ready, Connection)
            hand = self._hands[ready]
            try:
                message: Message = ready.recv()
            except (EOFError, OSError):  # OSError: it died in the middle of a message.
                self._end(hand)
                self._died(hand, hand.how_it_ended)
                continue
            hand.heard = time.monotonic()
            self._take(hand, message)

    def _take(self, hand: Hand, message: Message) -> None:
        match message:
            case SessionTotals() | Tries():
                hand.progress = message
            case Raw():
                raws = self._works[message.chunk].raws
                # Whoever does the work of one that died saves the same failures once more.
                if message.path is None or all(message.path != each.path for each in raws):
                    raws.append(message)
                    self._draw_no_further(message)
                self._decide()
            case Searched(totals, is_whole):
                assert isinstance(hand.task, Search)
                if is_whole:
                    self._works[hand.task.chunk.index].totals = totals
                self._done.add_all(totals)
                self._is_free(hand)
                self._decide()
            case Reduced():
                self._is_free(hand)
                self._take_find(message)
            case Sang(found):
                self._is_free(hand)
                if found:
                    self._canaries += 1
                else:
                    self._problem = HarnessError(f"worker {hand.number}: its canary was not found")
            case Exception():
                self._take_problem(hand, message)

    def _take_problem(self, hand: Hand, problem: Exception) -> None:
        """End the session. A worker whose search had the problem can still reduce failures."""
        self._problem = problem
        if isinstance(hand.task, Search):
            self._is_free(hand)

    def _draw_no_further(self, raw: Raw) -> None:
        """With -x, cut off what cannot have the first failure any more.

        Of a budget of time that is the failure seen first: all drawing ends. Of a budget of actions
        it is the first in the order of chunks, so that chunks before this one come to their end.
        """
        if self._plan.failures_max != 1 or raw.failure.change != BROKE or self._first is not None:
            return
        if self._plan.seconds is not None:
            self._take_first(raw)
        self._drawn_up_to = min(self._drawn_up_to, raw.chunk)
        for hand in self._hands.values():
            if isinstance(hand.task, Search) and (
                self._first is not None or hand.task.chunk.index >= self._drawn_up_to
            ):
                hand.cut()

    def _take_first(self, raw: Raw) -> None:
        """Have this failure reduced, and no other: -x asks for one."""
        self._first = raw
        self._open_case(raw)

    def _is_free(self, hand: Hand) -> None:
        hand.task, hand.progress = None, Tries(0)
        self._deaths_in_a_row = 0

    def _end(self, hand: Hand) -> None:
        """Wait for a worker's end, and end whatever it leaves behind."""
        hand.process.join()
        del self._hands[hand.connection]
        hand.connection.close()
        starts_programs = is_program(self._plan.target) or self._plan.before is not None
        if starts_programs and hand.process.pid is not None:
            worker.end_session(hand.process.pid)

    def _end_silent(self) -> None:
        """End a worker that has said nothing for so long that it can only hang."""
        for hand in list(self._hands.values()):
            if hand.task and time.monotonic() - hand.heard > SILENCE_SECONDS:
                hand.process.kill()
                self._end(hand)
                self._died(hand, f"silent for {SILENCE_SECONDS:.0f} s, and ended")

    def _died(self, hand: Hand, how: str) -> None:
        """Another worker takes its place, and does again what it was at."""
        if self._problem is None:  # It may be this one's, which has ended with it.
            self._tell(WorkerDied(hand.number, how))
        self._deaths_in_a_row += 1
        if isinstance(hand.task, Reduction):
            self._reduce_again(hand.task.raw)
        elif isinstance(hand.task, Search):
            self._run_again(self._works[hand.task.chunk.index])
        if self._problem is None and self._deaths_in_a_row < DEATHS_MAX:
            self._start_worker()

    def _run_again(self, work: _Work) -> None:
        work.deaths += 1
        if not work.is_lost:
            self._again.append(work.chunk)
        else:
            self._tell(ChunkLost(work.chunk))
            self._decide()

    def _reduce_again(self, raw: Raw) -> None:
        case = self._cases[raw.failure.identity]
        case.deaths += 1
        if case.deaths < TRIES_MAX:
            self._reductions.appendleft(raw)
        else:
            self._give_up(raw)

    def _give_up(self, raw: Raw) -> None:
        """A failure that nobody could reduce stays as it was found."""
        find = corpus.unreproduced(self._plan.finder(raw.chunk), raw, tries=0)
        self._take_find(Reduced(find, is_whole=self._stop_reason is None))

    # What becomes of a failure.

    def _decide(self) -> None:
        """Look at the failures in the order of the chunks, as far as all before them are there."""
        while self._decided < len(self._share):
            work = self._works.get(self._share[self._decided])
            if work is None:
                return
            self._decide_in(work)
            if not work.is_over:
                return
            self._decided += 1

    def _decide_in(self, work: _Work) -> None:
        for raw in work.raws[work.decided :]:
            if self._first is None:
                self._decide_of(raw)
            elif raw is not self._first and raw.path is not None:
                corpus.take_back(raw.path)
        work.decided = len(work.raws)

    def _decide_of(self, raw: Raw) -> None:
        """Have the first failure of an identity reduced, and others if that does not come back."""
        case = self._cases.get(raw.failure.identity)
        if case is None:
            if self._plan.failures_max == 1 and raw.failure.change == BROKE:
                self._take_first(raw)
            else:
                self._open_case(raw)
        elif not case.is_settled:
            self._works[raw.chunk].unreduced += 1
            case.waiting.append(raw)
            self._try_another(case)
        elif raw.path is not None and case.find is not None and raw.path != case.find.path:
            corpus.take_back(raw.path)

    def _open_case(self, raw: Raw) -> None:
        """Have the first failure of an identity reduced."""
        tries = worker.TRIES_ALONE_MAX * self._plan.finder(raw.chunk).may_be_alone
        self._cases[raw.failure.identity] = case = _Case(raw.failure, tries)
        self._last_new = time.monotonic()
        self._tell(FailureFound(raw.failure))
        self._works[raw.chunk].unreduced += 1
        self._reduce(case, raw)

    def _reduce(self, case: _Case, raw: Raw) -> None:
        case.is_being_reduced = True
        self._reductions.append(raw)

    def _try_another(self, case: _Case) -> None:
        """As long as none of its identity came back, another may, in a process of its own."""
        if case.is_being_reduced:
            return
        if case.waiting and case.tries_left:
            case.tries_left -= 1
            self._reduce(case, case.waiting.popleft())
            return
        for raw in case.waiting:
            self._works[raw.chunk].unreduced -= 1
            if raw.path is not None:
                corpus.take_back(raw.path)
        case.waiting.clear()

    def _take_find(self, reduced: Reduced) -> None:
        """Keep one find an identity, the least. What was told stays."""
        find = reduced.find
        case, work = self._cases[find.failure.identity], self._works[find.chunk]
        case.is_being_reduced = False
        work.unreduced -= 1
        work.is_cut |= not reduced.is_whole
        worse: Find | None = find
        if case.find is None or find.sort_key < case.find.sort_key:
            worse = None if case.is_told else case.find
            case.find, case.is_told = find, False
        if worse is not None and worse.path is not None:
            corpus.take_back(worse.path)
        if case.find.reproduced and not case.find.needs_earlier:
            case.tries_left = 0
        self._try_another(case)

    def _settle(self) -> None:
        """Add up the chunks in their order, as far as all that was found in them is reduced."""
        before = self._settled
        while self._settled < self._decided:
            index = self._share[self._settled]
            work = self._works[index]
            is_cut_short = self._first is not None and index >= self._first.chunk
            if work.unreduced or work.is_cut or is_cut_short:
                break
            for case in self._cases.values():
                if case.find is not None and case.find.chunk == index and not case.is_told:
                    self._publish(case)
            if work.totals is None:
                self._lost.append(index)
            else:
                self._whole.add_all(work.totals)
            del self._works[index]
            self._settled += 1
        if self._settled > before and time.monotonic() - self._recorded > RECORD_SECONDS:
            with suppress(BadInputError, OSError):  # What stays so is told at the end.
                self._write(self._record(INTERRUPTED))

    def _publish(self, case: _Case, folder: Path | None = None) -> None:
        assert case.find is not None
        case.find, case.is_told = _published(case.find, folder), True
        self._tell(Told(self._plan, case.find))

    # The end.

    def _wind_up(self, interrupted: threading.Event) -> None:
        """Cut off the chunks, reduce what was found while there is time, and end the workers."""
        self._stop_at = time.monotonic() + STOP_SECONDS
        self._cut()
        while self._is_busy():
            if interrupted.is_set() and not self._is_hurried:
                self._stop_reason = INTERRUPTED
                self._stop_at = time.monotonic() + STOP_SECONDS
                self._cut()
            if time.monotonic() > self._stop_at:
                self._kill()
            if not any(isinstance(each.task, Search) for each in self._hands.values()):
                self._decide_rest()
            if not self._is_hurried or time.monotonic() < self._stop_at:
                self._hand_out()
            self._listen()
            self._end_silent()
            self._tell_progress()
        self._decide_rest()
        while self._reductions:
            self._give_up(self._reductions.popleft())
        self._settle()
        self._dismiss()

    def _is_busy(self) -> bool:
        hands = self._hands.values()
        return any(each.task is not None for each in hands) or bool(self._reductions and hands)

    @property
    def _is_hurried(self) -> bool:
        """Whether nobody wants to wait for what is being reduced."""
        return self._stop_reason in {INTERRUPTED, FAILURES, WORKERS_DIED}

    def _cut(self) -> None:
        for hand in self._hands.values():
            if isinstance(hand.task, Search) or (self._is_hurried and hand.task is not None):
                hand.cut()

    def _kill(self) -> None:
        """End those that should have ended what they were at by now."""
        for hand in list(self._hands.values()):
            if isinstance(hand.task, Search) or self._is_hurried:
                hand.process.kill()
                self._end(hand)
                if isinstance(hand.task, Reduction):
                    self._give_up(hand.task.raw)

    def _decide_rest(self) -> None:
        """Look at what was found in chunks that are not whole, or come after one that is not."""
        for _, work in sorted(self._works.items()):
            self._decide_in(work)

    def _dismiss(self) -> None:
        """Let the workers end by themselves; those that do not are ended."""
        for hand in self._hands.values():
            hand.dismiss()
        until = time.monotonic() + STOP_SECONDS
        for hand in list(self._hands.values()):
            hand.process.join(max(until - time.monotonic(), 0))
            hand.process.kill()
            self._end(hand)

    def _tell_progress(self) -> None:
        now, totals = time.monotonic(), SessionTotals()
        totals.add_all(self._done)
        tries = reducing = 0
        for hand in self._hands.values():
            reducing += isinstance(hand.task, Reduction)
            if isinstance(hand.progress, Tries):
                tries += hand.progress.number
            else:
                totals.add_all(hand.progress)
        reached = sum(totals.probes[name] > 0 for name in self._plan.probes)
        if reached > self._probes_reached:
            self._probes_reached, self._last_new = reached, now
        seconds = now - self._started
        failures = sum(case.failure.change == BROKE for case in self._cases.values())
        self._note((round(seconds, 1), totals.actions, reached, len(self._cases)))
        self._tell(
            Progress(
                seconds=seconds,
                totals=totals,
                failures=failures,
                reducing=reducing + len(self._reductions),
                tries=tries,
                seconds_since_new=now - self._last_new,
                reached=reached,
                probes=len(self._plan.probes),
            )
        )

    def _note(self, point: tuple[float, int, int, int]) -> None:
        """A point of the history; when there are many, every other one goes."""
        if not self._history or point[0] - self._history[-1][0] >= self._history_step_seconds:
            self._history.append(point)
        if len(self._history) > HISTORY_MAX:
            del self._history[1::2]
            self._history_step_seconds *= 2

    def _record(self, stop_reason: str) -> SessionRecord:
        """What whole chunks came to, as far as they are settled."""
        told = [case.find for case in self._cases.values() if case.find and case.is_told]
        data = [record.failure_data(find, self._plan.corpus) for find in told]
        apart = [each for each in data if (each["trace"] or "").startswith(f"{BEYOND}/")]
        failures = record.least(each for each in data if each not in apart)
        seconds = time.monotonic() - self._started
        timing = {
            "started": self._started_at,
            "seconds": round(seconds, 3),
            "workers": self._plan.workers,
            "actions": self._done.actions,
            "actions_per_second": round(self._done.actions / seconds),
            "chunks": self._settled,
            "canaries": self._canaries,
            "history": self._history,
            "versions": self._versions,
        }
        return SessionRecord(
            plan=record.plan_data(self._plan),
            probes=self._plan.probes,
            pieces=(Piece(self._share[: self._settled], self._whole, tuple(self._lost)),),
            failures=failures,
            stop_reason=stop_reason,
            beyond=record.least(apart),
            timing=(*(self._earlier.timing if self._earlier else ()), timing),
        )

    def _write(self, what: SessionRecord) -> None:
        """Raises BadInputError, or OSError."""
        self._recorded = time.monotonic()
        path = record.path_for(self._plan)
        path.parent.mkdir(exist_ok=True)
        record.write(what, path)

    def _finish(self) -> Finished:
        assert self._stop_reason is not None
        # What was asked for is in the corpus, also if its chunk was cut off for it.
        folder = None if self._stop_reason == FAILURES else self._plan.corpus / BEYOND
        for _, case in sorted(self._cases.items()):
            if case.find is not None and not case.is_told:
                self._publish(case, folder)
        finds = tuple(case.find for _, case in sorted(self._cases.items()) if case.find)
        self._take_back_untold({find.path for find in finds})
        if any(find.unsaved for find in finds):
            self._problem = self._problem or BadInputError(
                f"{self._plan.corpus}: not all finds could be saved there; they are printed above"
            )
        what = self._record(self._stop_reason)
        try:
            self._write(what)
        except (BadInputError, OSError) as problem:
            self._problem = self._problem or BadInputError(str(problem))
        finished = Finished(
            plan=self._plan,
            seconds=time.monotonic() - self._started,
            totals=self._done,
            finds=finds,
            stop_reason=self._stop_reason,
            problem=self._problem,
            record=what,
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


def _published(find: Find, folder: Path | None) -> Find:
    """A find whose file has its final name."""
    if find.path is None:
        return find
    try:
        return attrs.evolve(find, path=corpus.publish(find.path, folder))
    except OSError as problem:
        return attrs.evolve(find, unsaved=problem.strerror)


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
