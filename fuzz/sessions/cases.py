"""What becomes of the failures of a session: which ones are reduced, and when one is reported.

A *case* is all failures of one identity. Chunks finish in any order, but their failures are looked
at in the order of the chunks: each is *decided* when all chunks before its own are there. The first
of a case is reduced, and reported when its chunk is *settled*: this chunk and all before it are
over, and all that was found in them is reduced. Invariants: what whole chunks leave depends on the
plan only, and not on the number of workers. Behind a chunk that takes long, only the sum of
those without failures is held, and of each case only the failures that may be needed. What waits
for its reduction is held without its trace, since thousands may wait: the file has the trace.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from pathlib import Path

import attrs

from fuzz.failure import BROKE
from fuzz.failures import corpus
from fuzz.failures.compare import counted_by_verdict, name_of_verdict
from fuzz.failures.corpus import SavedFailure
from fuzz.sessions.plan import UNLIMITED, Chunk, Plan, SessionTotals
from fuzz.sessions.record import Piece, SessionRecord, piece_of
from fuzz.sessions.session_events import ChunkLost, FailureFound, FailureReported, Listener
from fuzz.sessions.worker import TRIES_ALONE_MAX, Search, Searched

TRIES_MAX = 4
"""After this many workers died in a chunk it is lost, and after this many died in a reduction the
failure stays as it was found."""
JOINED_EVERY = 16
"""After this many chunks of the share, those without failures are joined: behind a chunk that takes
long, 16 kB were held for each."""


@attrs.define
class ChunkState:
    """A chunk that is not settled, or several in a row without failures."""

    chunk: Chunk
    """The first one."""
    count: int = 1
    found: list[SavedFailure] = attrs.Factory(list)
    decided: int = 0
    """How many of its failures are decided."""
    totals: SessionTotals | None = None
    """The totals if all are whole."""
    deaths: int = 0
    partial: SessionTotals = attrs.Factory(SessionTotals)
    """What the worker that came furthest did before it died, until another one is done."""
    unreduced: int = 0
    is_cut: bool = False
    """Whether a reduction of one of its failures was cut off."""
    is_kept: bool = False
    """Whether one of its failures may be reported."""

    @property
    def plain_totals(self) -> SessionTotals | None:
        """The totals if it is whole, and has no failures."""
        return None if self.found or self.is_kept else self.totals

    @property
    def is_lost(self) -> bool:
        """Whether each worker that tried it died."""
        return self.deaths >= TRIES_MAX


@attrs.define
class Case:
    """The failures of one identity."""

    change: str
    """What a change of the target did."""
    tries_left: int
    """How many others may be tried in a process of their own if none has reproduced."""
    waiting: deque[SavedFailure] = attrs.Factory(deque)
    is_being_reduced: bool = False
    deaths: int = 0
    best: SavedFailure | None = None
    is_reported: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether no other failure is needed."""
        return not self.tries_left and not self.is_being_reduced


class Cases:
    """The failures of a session, and the chunks in which they are found."""

    def __init__(self, plan: Plan, report: Listener, earlier: SessionRecord | None) -> None:
        self._plan, self._report = plan, report
        self.share = plan.share
        self.by_identity: dict[tuple[str, ...], Case] = {}
        self._chunks: dict[int, ChunkState] = {}
        self.to_reduce = deque[SavedFailure]()
        self._to_repeat = deque[Chunk]()
        self.totals = SessionTotals(probes=Counter(dict.fromkeys(plan.probes, 0)))
        """The totals of the settled chunks."""
        self.partial = SessionTotals()
        """What was done in lost chunks, as far as their workers reported it."""
        self._verdicts: dict[str, str] = {}
        """What more runs have shown of differences, by their names."""
        self._lost: list[int] = []
        self._decided = self.settled = 0
        """How many chunks of the share are decided, and how many are settled."""
        self.last_chunk = UNLIMITED
        """The last chunk that is needed: with -x, that of the first failure."""
        self.first: SavedFailure | None = None
        """With -x, the one failure that is reduced."""
        self.is_stopping = False
        self.last_new = time.monotonic()
        if earlier is not None:
            self._resume(earlier)
        self._todo = iter(self.share[self.settled :])

    def _resume(self, earlier: SessionRecord) -> None:
        [piece] = earlier.pieces
        self._decided = self.settled = len(piece.indices)
        self.totals.add_all(piece.totals)
        self._lost += piece.lost
        for each in earlier.failures:  # Also one whose file is gone: it was found.
            saved = each.read_in(self._plan.corpus).shown
            case = Case(saved.failure.change, 0, best=saved, is_reported=True)
            self.by_identity[saved.failure.identity] = case

    @property
    def saved(self) -> list[SavedFailure]:
        """The best failure of each case, ordered by identity."""
        cases = (case for _, case in sorted(self.by_identity.items()))
        return [case.best for case in cases if case.best is not None]

    @property
    def reported(self) -> list[SavedFailure]:
        cases = self.by_identity.values()
        return [case.best for case in cases if case.best is not None and case.is_reported]

    @property
    def piece(self) -> Piece:
        totals = self.by_verdict(self.totals)
        return piece_of(self.share[: self.settled], tuple(self._lost), totals)

    def by_verdict(self, totals: SessionTotals) -> SessionTotals:
        """Totals that count a difference as it is reported, and not as one run showed it."""
        return attrs.evolve(totals, changes=counted_by_verdict(totals.changes, self._verdicts))

    # Tasks.

    def next_search(self) -> Search | None:
        if self.first is not None:
            return None
        if self._to_repeat:
            chunk = self._to_repeat.popleft()
        else:
            index = next(self._todo, UNLIMITED + 1)
            if index > self.last_chunk:
                return None
            chunk = self._plan.chunk(index)
        if chunk.index > self.last_chunk:
            return None
        self._chunks.setdefault(chunk.index, ChunkState(chunk))
        known = [identity for identity, case in self.by_identity.items() if case.is_settled]
        return Search(chunk, frozenset(known))

    # What workers report.

    def found(self, found: SavedFailure) -> None:
        """A worker saved a failure. One that repeats a chunk saves the same failures again."""
        found, failures = found.waiting, self._chunks[found.chunk].found
        if self._is_superfluous(found):
            corpus.remove(found.path)
        elif found.path is None or all(found.path != each.path for each in failures):
            failures.append(found)
            self._limit_chunks(found)
        self._decide()

    def _is_superfluous(self, found: SavedFailure) -> bool:
        """Whether earlier chunks have all failures of its case that may be needed."""
        identity = found.failure.identity
        states = (state for index, state in self._chunks.items() if index < found.chunk)
        earlier = (each for state in states for each in state.found[state.decided :])
        return sum(each.failure.identity == identity for each in earlier) > self._tries(found)

    def _limit_chunks(self, found: SavedFailure) -> None:
        """With -x, drop chunks that cannot have the first failure any more.

        With a budget of time the failure that is seen first is the first one. With a budget of
        actions it is the first in the order of chunks, so earlier chunks are finished.
        """
        if self._stops_at(found) and self.first is None:
            if self._plan.seconds is not None:
                self._take_first(found)
            self.last_chunk = min(self.last_chunk, found.chunk)

    def _stops_at(self, found: SavedFailure) -> bool:
        is_counted = found.failure.identity not in self._plan.known
        return self._plan.failures_max == 1 and found.failure.change == BROKE and is_counted

    def _take_first(self, found: SavedFailure) -> None:
        self.first = found
        self._open(found)

    def searched(self, chunk: Chunk, result: Searched) -> None:
        state = self._chunks[chunk.index]
        state.partial = SessionTotals()
        if result.is_whole:
            state.totals = result.totals
        self._decide()
        if self.share.index(chunk.index) % JOINED_EVERY == 0:
            self._join()

    def search_cut(self, chunk: Chunk, done: SessionTotals) -> None:
        """A worker in a chunk is gone, which had done that."""
        state = self._chunks[chunk.index]
        if done.actions > state.partial.actions:
            probes = Counter({name: done.probes[name] for name in self._plan.probes})
            state.partial = attrs.evolve(done, probes=probes)

    def search_lost(self, chunk: Chunk, done: SessionTotals) -> None:
        """A worker died in a chunk. It is repeated, or lost after several deaths."""
        self.search_cut(chunk, done)
        state = self._chunks[chunk.index]
        state.deaths += 1
        if state.is_lost:
            self._report(ChunkLost(chunk))
            self._count_partial(state)
            self._decide()
        else:
            self._to_repeat.append(chunk)

    def _count_partial(self, state: ChunkState) -> None:
        self.partial.add_all(state.partial)
        state.partial = SessionTotals()

    def reduction_lost(self, found: SavedFailure) -> None:
        case = self.by_identity[found.failure.identity]
        case.deaths += 1
        if case.deaths < TRIES_MAX:
            self.to_reduce.appendleft(found.waiting)
        else:
            self.give_up(found)

    def give_up(self, found: SavedFailure) -> None:
        """A failure that cannot be reduced stays as it was found."""
        self.reduced(found, found, is_whole=not self.is_stopping)

    def reduced(self, found: SavedFailure, saved: SavedFailure, is_whole: bool) -> None:
        """A reduction is over. Its result is kept if it is better, or if the other is reported.

        It may have another identity, if that is what fails when the trace of `found` runs again.
        Then it is reported in place of `found`.
        """
        case, state = self.by_identity[found.failure.identity], self._chunks[saved.chunk]
        case.is_being_reduced = False
        state.unreduced -= 1
        state.is_cut |= not is_whole
        if saved.failure.change != found.failure.change:
            self._verdicts[name_of_verdict(found.failure)] = saved.failure.change
        if saved.failure.identity != found.failure.identity:
            case.tries_left = 0
            self._try_another(case)
            new = Case(saved.failure.change, tries_left=0)
            case = self.by_identity.setdefault(saved.failure.identity, new)
        self._keep_better(case, saved.shown)

    def _keep_better(self, case: Case, saved: SavedFailure) -> None:
        worse: SavedFailure | None = saved
        if case.best is None or saved.sort_key < case.best.sort_key:
            worse = None if case.is_reported else case.best
            case.best, case.is_reported = saved, False
        # Two failures of a chunk that end as the same trace share its file.
        if worse is not None and worse.path != case.best.path:
            corpus.remove(worse.path)
        if case.best.reproduced and not case.best.needs_earlier:
            case.tries_left = 0
        self._try_another(case)

    # Deciding.

    def _decide(self) -> None:
        """Decide the failures in the order of the chunks, as far as all before them are there."""
        while self._decided < len(self.share):
            state = self._chunks.get(self.share[self._decided])
            if state is None:
                return
            self._decide_in(state)
            if state.totals is None and not state.is_lost:
                return
            state.found.clear()
            state.decided = 0
            self._decided += state.count

    def _join(self) -> None:
        """Add up whole chunks in a row without failures, so that few states are held.

        The sum is in their order. A state has chunks that are decided, or others, and not both.
        """
        before: ChunkState | None = None
        stop = 0
        for index, state in sorted(self._chunks.items()):
            start, totals = self.share.index(index), state.plain_totals
            sums = None if before is None else before.plain_totals
            if before and sums and totals and stop == start != self._decided:
                sums.add_all(totals)
                before.count += state.count
                del self._chunks[index]
            else:
                before = state
            stop = start + state.count

    def decide_rest(self) -> None:
        """Decide the failures in chunks that are not whole, or after such a chunk."""
        for _, state in sorted(self._chunks.items()):
            self._decide_in(state)

    def count_rest(self) -> None:
        """Count what was done in chunks that no worker repeats any more."""
        for state in self._chunks.values():
            self._count_partial(state)

    def _decide_in(self, state: ChunkState) -> None:
        for found in state.found[state.decided :]:
            if self.first is None:
                self._decide_on(found)
            elif found is not self.first:
                corpus.remove(found.path)
        state.decided = len(state.found)

    def _decide_on(self, found: SavedFailure) -> None:
        """Reduce the first failure of a case, and others if that does not reproduce."""
        case = self.by_identity.get(found.failure.identity)
        if case is None:
            if self._stops_at(found):
                self._take_first(found)
            else:
                self._open(found)
        elif len(case.waiting) < case.tries_left:
            self._keep(found)
            case.waiting.append(found)
            self._try_another(case)
        elif case.is_being_reduced or (case.best is not None and found.path != case.best.path):
            corpus.remove(found.path)

    def _open(self, found: SavedFailure) -> None:
        case = Case(found.failure.change, self._tries(found))
        self.by_identity[found.failure.identity] = case
        self.last_new = time.monotonic()
        self._report(FailureFound(found.failure, found.length))
        self._keep(found)
        case.is_being_reduced = True
        self.to_reduce.append(found)

    def _keep(self, found: SavedFailure) -> None:
        state = self._chunks[found.chunk]
        state.unreduced += 1
        state.is_kept = True

    def _tries(self, found: SavedFailure) -> int:
        """How many others of its case may be tried."""
        return TRIES_ALONE_MAX * self._plan.origin(found.chunk).shares_processes

    def _try_another(self, case: Case) -> None:
        """Reduce another failure of a case, if none has reproduced; drop those not needed."""
        if case.is_being_reduced:
            return
        if case.waiting and case.tries_left:
            case.tries_left -= 1
            case.is_being_reduced = True
            self.to_reduce.append(case.waiting.popleft())
            return
        for found in case.waiting:
            self._chunks[found.chunk].unreduced -= 1
            corpus.remove(found.path)
        case.waiting.clear()

    # Settling.

    def settle(self) -> bool:
        """Add up chunks in their order, and report their failures. Returns whether one settled."""
        before = self.settled
        while self.settled < self._decided:
            index = self.share[self.settled]
            state = self._chunks[index]
            is_after_first = self.first is not None and index >= self.first.chunk
            if state.unreduced or state.is_cut or is_after_first:
                break
            for case in self.by_identity.values():
                if case.best is not None and case.best.chunk == index and not case.is_reported:
                    self._publish(case, None)
            if state.totals is None:
                self._lost.append(index)
            else:
                self.totals.add_all(state.totals)
            del self._chunks[index]
            self.settled += state.count
        return self.settled > before

    def publish_rest(self, folder: Path | None) -> None:
        """Report the failures of chunks that did not settle, with their files in that folder."""
        for _, case in sorted(self.by_identity.items()):
            if case.best is not None and not case.is_reported:
                self._publish(case, folder)

    def _publish(self, case: Case, folder: Path | None) -> None:
        assert case.best is not None
        case.best, case.is_reported = corpus.publish(case.best, folder), True
        self._report(FailureReported(self._plan, case.best))
