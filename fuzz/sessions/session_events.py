"""What a session tells while it runs: plain data, in the order in which it comes.

Whoever listens formats it, copies it or counts it, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from fuzz.run import Failure
from fuzz.sessions.corpus import Find
from fuzz.sessions.plan import Chunk, Plan, SessionTotals
from fuzz.sessions.record import ACTIONS, TIME, SessionRecord


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
    reached: int
    """How many probes were."""
    probes: int
    """How many can be reached."""


@attrs.frozen
class WorkerDied:
    """A worker's process ended before its time. Another takes its place."""

    worker: int
    how: str


@attrs.frozen
class ChunkLost:
    """A chunk in which each worker died that tried it."""

    chunk: Chunk


@attrs.frozen
class FailureFound:
    """A failure, the first of its identity, as it was found. It is to be reduced."""

    failure: Failure


@attrs.frozen
class Told:
    """A find, reduced, in a file that stays."""

    plan: Plan
    find: Find


@attrs.frozen
class Finished:
    """The session is over."""

    plan: Plan
    seconds: float
    totals: SessionTotals
    """Of all that was done, in whole chunks or not."""
    finds: tuple[Find, ...]
    """In whole chunks or not."""
    stop_reason: str
    problem: Exception | None
    """What a worker could not go on with: the session's result is not to be trusted."""
    record: SessionRecord

    @property
    def lost(self) -> tuple[int, ...]:
        """The chunks that are not done, though others after them are."""
        return self.record.pieces[0].lost

    @property
    def is_done(self) -> bool:
        """Whether it came to the end of its budget, and did anything."""
        return self.stop_reason in {TIME, ACTIONS} and self.totals.actions > 0 and not self.lost


Event = Started | Progress | WorkerDied | ChunkLost | FailureFound | Told | Finished
Listener = Callable[[Event], None]
