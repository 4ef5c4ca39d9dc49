"""What every sampler of a collector has: a switch, a period, and the samples to be reported.

Invariant: a sample that is pending is of an object that no minor collection has judged yet. Where
the next sample is due is the subclass's: `sampling` has one point for the whole nursery, `contexts`
one for each thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from gcmodel.memory.configuration import Configuration, check_period
from gcmodel.memory.events import Events, Report
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import OUTSIDE, VISITED_YOUNG, YOUNG, Object

REPORT_SURVIVED = 1
REPORT_OUTSIDE = 2
REPORT_KIND_SHIFT = 2


class Sampler(ABC):
    """`period_bytes` is 0 while it is off; `paused_period_bytes` is what resuming enables, or 0.

    Every method that concerns an allocation means the thread that allocates.
    """

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        self.period_bytes = 0
        self.paused_period_bytes = 0
        # The sampled objects of which no minor collection has said yet whether they survive: the
        # nursery address, since the object's header does not exist when it is sampled, or the
        # object itself if it lies outside.
        self.pending: list[int | Object] = []
        self._nursery = nursery
        self._events = events

    @abstractmethod
    def begin(self) -> None:
        """Sampling was just enabled: the fast path must stop where the next sample is due."""

    @abstractmethod
    def end(self) -> None:
        """Sampling was just disabled: no sample is due anywhere."""

    @abstractmethod
    def before_minor_collection(self) -> None:
        """`nursery_free` is about to return to the nursery's start, wherever that will be."""

    @abstractmethod
    def after_minor_collection(self) -> None:
        """The nursery is empty, but for pinned objects."""

    @abstractmethod
    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        """An object outside counts `counted_bytes`, unrounded."""

    def enable(self, period_bytes: int) -> None:
        """Sample every `period_bytes`, or so many on average, from here on.

        The count starts anew, also if sampling was on; pending samples stay pending. Raises
        ConfigurationError for a period that is not a whole number of words in range.
        """
        check_period(period_bytes)
        self.period_bytes = period_bytes
        self.paused_period_bytes = 0
        self.begin()

    def disable(self) -> None:
        """Stop sampling, and drop the pending samples unreported. Harmless if it was off."""
        self.pending.clear()
        self._events.dropped()
        self.period_bytes = 0
        self.paused_period_bytes = 0
        self.end()

    def pause(self) -> None:
        """The same, but the period is kept for resuming. Harmless if it was off."""
        paused_period_bytes = self.period_bytes or self.paused_period_bytes
        self.disable()
        self.paused_period_bytes = paused_period_bytes

    def resume(self) -> None:
        """Enable with the period that pausing kept. Harmless if it was not paused."""
        if self.paused_period_bytes:
            self.enable(self.paused_period_bytes)

    def after_fork(self) -> None:
        """A forked process is not sampled, and the samples that are pending are its parent's."""
        self.disable()

    def record(self, sampled: int | Object, count: int, counted_bytes: int) -> None:
        """Remember for the next report an object that was sampled `count` times, 0 or more."""
        if count:
            self.pending.extend([sampled] * count)
            self._events.pending(count, counted_bytes, self.period_bytes)

    def report(self, statistics: Callable[[], tuple[int, int, int]]) -> None:
        """Say of each pending sample which kind of object it was, where, and if it survived.

        To call in a minor collection when all survivors are known and none of the dead is freed.
        The newest sample comes first. (Section 3.5.)
        """
        if not self.pending:
            return
        entry_of = {sampled: self._entry(sampled) for sampled in set(self.pending)}
        entries = [entry_of[sampled] for sampled in reversed(self.pending)]
        self.pending.clear()
        self._events.report(Report(entries, *statistics()))

    def _entry(self, sampled: int | Object) -> int:
        obj = self._nursery.memory[sampled] if isinstance(sampled, int) else sampled
        entry = obj.kind << REPORT_KIND_SHIFT
        if obj.place == OUTSIDE:
            entry |= REPORT_OUTSIDE
        return entry | REPORT_SURVIVED if self.has_survived(obj) else entry

    def has_survived(self, obj: Object) -> bool:
        """Whether the minor collection in progress keeps `obj`: in a new place, or where it is."""
        if obj.place == OUTSIDE and not obj.flags & YOUNG:
            return True  # It was allocated old.
        return obj.forwarded_to is not None or bool(obj.flags & VISITED_YOUNG)
