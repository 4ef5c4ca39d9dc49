"""The events of a session: plain data, in the order in which they happen.

Listeners format, copy or count them, and do not change anything.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from fuzz.failure import Failure
from fuzz.failures.corpus import SavedFailure
from fuzz.sessions.plan import Chunk, Plan, SessionTotals
from fuzz.sessions.record import ACTIONS, TIME, Reason, SessionRecord


@attrs.frozen
class Started:
    """The session starts."""

    plan: Plan
    bugs_checked: int


@attrs.frozen
class Progress:
    """The totals of all workers, several times a second."""

    seconds: float
    totals: SessionTotals
    failures: int
    reducing: int
    """How many failures are being reduced, or wait for it."""
    tries: int
    """How many candidates were run to reduce them."""
    seconds_since_new: float
    """The time since a probe was reached, or a failure found, for the first time."""
    reached: int
    """How many probes were reached."""
    probes: int
    """How many probes can be reached."""


@attrs.frozen
class WorkerDied:
    """A worker ended unexpectedly. Another one replaces it."""

    worker: int
    how: str


@attrs.frozen
class ChunkLost:
    """Each worker that tried this chunk died."""

    chunk: Chunk


@attrs.frozen
class FailureFound:
    """The first failure of an identity, as it was found. It is reduced next."""

    failure: Failure
    """Without its trace, if its file has that."""
    length: int
    """The number of actions of the trace."""


@attrs.frozen
class FailureReported:
    """A failure that was reduced, in its final file."""

    plan: Plan
    saved: SavedFailure


@attrs.frozen
class Finished:
    """The session is over."""

    plan: Plan
    seconds: float
    totals: SessionTotals
    """Of all chunks, whole or not."""
    failures: tuple[SavedFailure, ...]
    """In all chunks, whole or not."""
    stop_reason: Reason
    problem: Exception | None
    """Why the workers could not continue; then the result of the session is not to be trusted."""
    record: SessionRecord

    @property
    def lost(self) -> tuple[int, ...]:
        """The chunks that no worker finished, although later ones are finished."""
        return self.record.pieces[0].lost

    @property
    def is_done(self) -> bool:
        """Whether the session used up its budget, and did anything."""
        return self.stop_reason in {TIME, ACTIONS} and self.totals.actions > 0 and not self.lost


Event = Started | Progress | WorkerDied | ChunkLost | FailureFound | FailureReported | Finished
Listener = Callable[[Event], None]
