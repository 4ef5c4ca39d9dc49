"""Sampling every n-th allocated byte: the owner of the sample point, and of the reports.

The sampler keeps no count of allocated bytes. It keeps the address at which they would reach the
period, and folds the comparison with it into the nursery's own limit check:

    nursery_start  nursery_free          sample_point          nursery_top
    |    objects    |<- bytes until sample ->|                     |
                                       == nursery_limit

Invariants, while sampling is on:

    sample_point - nursery_free == bytes until the next sample    (section 3.2)
    nursery_limit == min(sample_point, nursery_top)

An allocation in the nursery moves `nursery_free`; a minor collection, and a jump over a pinned
object, move `nursery_free` and the sample point by the same amount; an object outside moves the
sample point. A sample is due when an object's end lies strictly beyond the sample point, and an
object is sampled as often as it passes one. (Jung and Bolz-Tereick, Low Overhead Allocation
Sampling in a Garbage Collected Virtual Machine, sections 3.2 to 3.5; several samples for one
object, which their listings 4 and 5 leave out, after their footnotes 10 and 11.)
"""

from __future__ import annotations

from collections.abc import Callable

from gcmodel.configuration import check_period
from gcmodel.events import Events, Report
from gcmodel.nursery import Nursery
from gcmodel.objects import OUTSIDE, VISITED_YOUNG, YOUNG, Object

REPORT_SURVIVED = 1
REPORT_OUTSIDE = 2
REPORT_KIND_SHIFT = 2


class Sampling:
    """The sampler. `period_bytes` is 0 while it is off, and `sample_point` has no meaning then.

    `paused_period_bytes` is what resuming enables again, or 0.
    """

    def __init__(self, nursery: Nursery, events: Events) -> None:
        self.period_bytes = 0
        self.paused_period_bytes = 0
        self.sample_point = 0
        self._bytes_until_sample = 0  # while a minor collection moves `nursery_free`
        # The sampled objects of which no minor collection has said yet whether they survive: the
        # nursery address, since the object's header does not exist when it is sampled, or the
        # object itself if it lies outside.
        self.pending: list[int | Object] = []
        self._nursery = nursery
        self._events = events

    def enable(self, period_bytes: int) -> None:
        """Sample every `period_bytes` from here on. Pending samples stay pending.

        The count starts anew, also if sampling was on. Raises ConfigurationError for a period
        that is not a whole number of words in range.
        """
        check_period(period_bytes)
        self.period_bytes = period_bytes
        self.paused_period_bytes = 0
        self.sample_point = self._nursery.nursery_free + period_bytes
        self.set_limit()

    def disable(self) -> None:
        """Stop sampling, and drop the pending samples unreported. Harmless if it was off."""
        self.pending.clear()
        self.period_bytes = 0
        self.paused_period_bytes = 0
        self.set_limit()

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

    def set_limit(self) -> None:
        """The fast path must stop at the sample point too, while there is one."""
        self._nursery.set_limit(self.sample_point if self.period_bytes else None)

    def is_due(self, end: int) -> bool:
        """Whether an object that ends at `end` passes the sample point. Reaching it does not."""
        return self.sample_point < end

    def pass_sample_points(self, end: int) -> int:
        """Sample for every sample point that an object passes which ends at `end`; how often."""
        count = 0
        while self.is_due(end):
            self._events.sample()
            self.sample_point += self.period_bytes
            count += 1
        return count

    def passed_in_nursery(self, end: int) -> int:
        """An object that ends at `end` may pass the limit: sample if that is the sample point.

        A sample point beyond the end of the room is not passed here: the nursery is collected
        first, or the pinned object jumped, and the sample point moves with it. (Listing 4.)
        """
        if not self.period_bytes or self._nursery.nursery_limit != self.sample_point:
            return 0
        count = self.pass_sample_points(end)
        self.set_limit()
        return count

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        """An object outside counts `counted_bytes`, unrounded. (Listing 5.)

        `nursery_free` does not move for it, so the sample point comes nearer by its size.
        """
        if self.period_bytes:
            self.sample_point -= counted_bytes
            self.record(obj, self.pass_sample_points(self._nursery.nursery_free))
            self.set_limit()

    def record(self, sampled: int | Object, count: int) -> None:
        """Remember for the next report an object that was sampled `count` times."""
        self.pending.extend([sampled] * count)

    def jumped(self, jump_bytes: int) -> None:
        """`nursery_free` jumped a pinned object without allocating; so does the sample point."""
        if self.period_bytes:
            self.sample_point += jump_bytes
        self.set_limit()

    def before_minor_collection(self) -> None:
        """`nursery_free` is about to return to the nursery's start, wherever that will be."""
        if self.period_bytes:
            self._bytes_until_sample = self.sample_point - self._nursery.nursery_free

    def after_minor_collection(self) -> None:
        """The sample point moves with `nursery_free`. (Figure 6.)"""
        if self.period_bytes:
            self.sample_point = self._nursery.nursery_free + self._bytes_until_sample
            self.set_limit()

    def report(self, statistics: Callable[[], tuple[int, int, int]]) -> None:
        """Say of each pending sample which kind of object it was, where, and if it survived.

        To call in a minor collection when all survivors are known and none of the dead is freed.
        The newest sample comes first. (Section 3.5.)
        """
        if not self.pending:
            return
        entries = [self._entry(sampled) for sampled in reversed(self.pending)]
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
