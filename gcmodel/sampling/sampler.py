"""The common part of all samplers: a switch, a period, and the samples to be reported.

Invariant: no minor collection has judged the object of a pending sample yet. The subclasses decide
where the next sample is due: `sample_point` has one point for the whole nursery, `contexts` and
`tlab` have one for each thread.
"""

from collections.abc import Callable

from gcmodel.memory.configuration import Configuration, check_period
from gcmodel.memory.events import Events, Report
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import OUTSIDE, VISITED_YOUNG, YOUNG, Object

REPORT_SURVIVED = 1
REPORT_OUTSIDE = 2
REPORT_KIND_SHIFT = 2


class Sampler:
    """A sampler. `period_bytes` is 0 while it is off.

    `paused_period_bytes` is the period that `resume` enables, or 0. Methods about an allocation act
    for the thread that allocates. A subclass overrides the first five methods as it needs.
    """

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        self.period_bytes = 0
        self.paused_period_bytes = 0
        # The sampled objects that no minor collection has judged. An object in the nursery is its
        # address, since its header does not exist yet when it is sampled.
        self.pending: list[int | Object] = []
        self._nursery = nursery
        self._events = events

    def begin(self) -> None:
        """Sampling was enabled: make the fast path stop where the next sample is due."""

    def end(self) -> None:
        """Sampling was disabled: no sample is due anywhere."""

    def before_minor_collection(self) -> None:
        """`nursery_free` is about to return to the nursery's start, which may move."""

    def after_minor_collection(self) -> None:
        """The nursery is empty, except for pinned objects."""

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        """An object was allocated outside. `counted_bytes` is its unrounded size."""

    def enable(self, period_bytes: int) -> None:
        """Sample every `period_bytes`, exactly or on average, from now on.

        The count restarts, even if sampling was on. Pending samples stay pending. Raises
        ConfigurationError for a period that is not a whole number of words in range.
        """
        check_period(period_bytes)
        self.period_bytes = period_bytes
        self.paused_period_bytes = 0
        self.begin()

    def disable(self) -> None:
        """Stop sampling if it is on, and drop the pending samples without a report."""
        self.pending.clear()
        self._events.dropped()
        self.period_bytes = 0
        self.paused_period_bytes = 0
        self.end()

    def pause(self) -> None:
        """Stop sampling like `disable`, but keep the period for `resume`."""
        paused_period_bytes = self.period_bytes or self.paused_period_bytes
        self.disable()
        self.paused_period_bytes = paused_period_bytes

    def resume(self) -> None:
        """Enable sampling with the paused period, if there is one."""
        if self.paused_period_bytes:
            self.enable(self.paused_period_bytes)

    def after_fork(self) -> None:
        """Stop sampling in a forked child; the pending samples belong to its parent."""
        self.disable()

    def record(self, sampled: int | Object, count: int, counted_bytes: int) -> None:
        """Add an object that was sampled `count` times, 0 or more, to the next report."""
        if count:
            self.pending.extend([sampled] * count)
            self._events.pending(count, counted_bytes, self.period_bytes)

    def report(self, statistics: Callable[[], tuple[int, int, int]]) -> None:
        """Report the kind, place and survival of each pending sample, the newest first.

        A minor collection calls this when all survivors are known and no dead object is freed yet.
        (Section 3.5.)
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
        """Whether the minor collection in progress keeps `obj`, moved or in place."""
        if obj.place == OUTSIDE and not obj.flags & YOUNG:
            return True  # It was allocated old.
        return obj.forwarded_to is not None or bool(obj.flags & VISITED_YOUNG)
