"""A worker: the process in which a session searches, and what it tells its parent.

Invariants: a failure is on disk before anybody hears of it, if a disk takes it; no worker outlives
its parent, and no program its worker.
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

from fuzz.cancellation import after, cancelled_when, checked_by
from fuzz.drawing.draw import check_beginning
from fuzz.drawing.probes import PROBES, ProbeCounter, probes_for
from fuzz.drawing.rules import Situation
from fuzz.engines.engine import Engine, Tally
from fuzz.engines.random import RandomEngine
from fuzz.oracles import Bench
from fuzz.problems import BadInputError, HarnessError
from fuzz.protocol.target import Target, contract_of
from fuzz.run import Failure
from fuzz.sessions import corpus
from fuzz.sessions.compare import Before, ComparingEngine, ComparingFinder, Pair, counted_as
from fuzz.sessions.corpus import RERUN_SECONDS_MAX, Find, Finder, Raw
from fuzz.sessions.reduce import SECONDS_MAX
from fuzz.targets import NO_OPTIONS, TargetOptions, make_target

ENGINES = ("random", "machine")
SEND_SECONDS = 0.2
OVERTIME_SECONDS_MIN = 10.0
"""When the time is up, a find may still be reduced for as long again: for ten seconds at least, and
at most for the two minutes that any reduction may take."""
CYCLE_COLLECTION_THRESHOLD = 50_000
TRIES_ALONE_MAX = 8
"""Each takes a process of its own."""
UNLIMITED = 2**62
TOKEN_BYTES = 6


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
    failures_max: int | None = None
    """So many failures that can be reproduced are enough."""
    before: Before | None = None
    """What the target is compared with, if it is: what it was before a change."""
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
    def tells_at_once(self) -> bool:
        """Whether a find is told when it is reduced; or else at the end, when all are there.

        Which of several workers is first is chance, of which a session of actions has none.
        """
        return self.workers == 1 or self.actions is None

    def finder(self, worker: int) -> Finder:
        """Who finds in this session."""
        token = f"{self.token}-{worker}"
        who = self.corpus, self.target, self.engine, self.seed, self.options, token
        return Finder(*who) if self.before is None else ComparingFinder(*who, before=self.before)

    @property
    def overtime_seconds(self) -> float:
        """How long a find may still be reduced when the time is up."""
        return min(max(self.seconds or SECONDS_MAX, OVERTIME_SECONDS_MIN), SECONDS_MAX)


@attrs.define
class SessionTotals(Tally):
    """What was done so far. Probes are counted by those who have them."""

    probes: Counter[str] = attrs.Factory(Counter)
    changes: Counter[str] = attrs.Factory(Counter)
    """In so many traces what a change did was seen: by what it was, and the action."""


@attrs.frozen
class Tries:
    """How many candidates were run for the failure that is being reduced."""

    number: int


def make_engine(name: str, target: Target, seed: str) -> Engine:
    """The engine of that name; Hypothesis is imported only for the machine."""
    if isinstance(target, Pair):
        return ComparingEngine(target, seed)
    if name == RandomEngine.name:
        return RandomEngine(target, seed)
    from fuzz.engines.machine import MachineEngine

    return MachineEngine(target, seed)


class Worker:
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
        self._tries_left: dict[tuple[str, ...], int] = {}
        """Of the identities found, how many more may be tried of those of which none came back."""
        self._failures_left = plan.failures_max or UNLIMITED
        self._sent = 0.0
        self._tries: Tries | None = None
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
        is_stopped = self._is_stopped or not self._failures_left
        return is_stopped or time.monotonic() > self._deadline

    def _report(self) -> None:
        """Tell the parent now and then that the work goes on, and hear whether it is to stop."""
        if time.monotonic() - self._sent > SEND_SECONDS:
            self._send_totals()
            if self._tries is not None:
                self._connection.send(self._tries)
            self._is_stopped = self._connection.poll()
            self._sent = time.monotonic()

    def _send_totals(self) -> None:
        self._totals.probes = self._probes.counts
        self._connection.send(self._totals)

    def _found(self, failure: Failure) -> None:
        """Save a failure and reduce it, unless this worker has found one of its identity."""
        if self._plan.before is not None:
            self._totals.changes[counted_as(failure)] += 1
        finder = self._finder_for(failure)
        if finder is None:
            return
        raw = corpus.save_raw(finder, failure)
        self._connection.send(raw)
        seconds_left = max(self._deadline - time.monotonic(), 0)
        takes_too_long = after(min(SECONDS_MAX, seconds_left + self._plan.overtime_seconds))
        find = reduce_raw(
            finder, raw, lambda: self._is_stopped or takes_too_long(), tell=self._tried
        )
        self._tries = None
        self._failures_left -= find.is_sure
        is_settled = find.reproduced or not self._finder.may_be_alone
        tries_left = 0 if is_settled else TRIES_ALONE_MAX
        self._tries_left[failure.identity] = min(
            tries_left, self._tries_left.get(failure.identity, tries_left)
        )
        self._connection.send(find)

    def _tried(self, attempts: int) -> None:
        self._tries = Tries(attempts)

    def _finder_for(self, failure: Failure) -> Finder | None:
        """Who reduces a failure; None if it is known.

        Where one of its identity did not come back, another may, in a process of its own.
        """
        left = self._tries_left.get(failure.identity)
        if left is None:
            return self._finder
        if left:
            self._tries_left[failure.identity] = left - 1
            alone = self._finder.alone()
            if corpus.comes_back(alone, failure, RERUN_SECONDS_MAX):
                return alone
        return None


def reduce_raw(
    finder: Finder,
    raw: Raw,
    is_over: Callable[[], bool],
    rerun_seconds: float = RERUN_SECONDS_MAX,
    tell: Callable[[int], None] | None = None,
) -> Find:
    """Reduce a failure; the raw trace goes once the reduced one is there and has failed again."""
    find = corpus.save_reduced(finder, raw, is_over, rerun_seconds, tell)
    if raw.path is not None and find.path != raw.path:
        corpus.take_back(raw.path)
    return find


def _share(actions: int | None, workers: int, index: int) -> int:
    """The worker's share of a budget of actions."""
    if actions is None:
        return UNLIMITED
    return actions // workers + (index < actions % workers)


def work(plan: Plan, index: int, connection: Connection, deadline: float) -> None:
    """A worker process's main function."""
    # Ctrl-C reaches the whole process group, but it is the parent that decides what becomes of
    # it: the worker was started with that signal held back.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The programs under test belong to the worker's session, and go with it.
    os.setsid()
    prepare_worker()
    try:
        Worker(plan, index, connection, deadline).search()
    except BadInputError as problem:
        connection.send(problem)
    except BrokenPipeError:
        pass  # The parent is gone, and nobody else wants to hear of it.
    except OSError as problem:
        connection.send(BadInputError(f"worker {index} cannot go on: {problem}"))
    except Exception:  # noqa: BLE001 - a bug of the harness, told by the parent
        import traceback

        connection.send(HarnessError(f"worker {index} failed\n{traceback.format_exc()}"))


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
