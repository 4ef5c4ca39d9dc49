"""What the collector says to whoever listens: samples, minor collections and reports, in order.

The collector only ever tells, and all that it tells is plain data: whoever listens has no heap to
allocate in or to change. These events are kept until they are taken, all at once; a listener that
hears them one by one is a subclass (the profile recorder is one).
"""

from __future__ import annotations

import attrs


@attrs.frozen
class ContextSample:
    """What a sampler with allocation contexts says of a sample. (AllocationSampled.)

    Byte `offset` of the object, the first being 0, is the one whose trial succeeded.
    """

    thread: int
    size_bytes: int
    offset: int


@attrs.define
class Report:
    """What a minor collection says of the samples since the one before it. (Section 3.5, 3.6.)

    An entry is `kind << 2 | (2 if outside the nursery) | (1 if it survived)`, the newest first.
    """

    entries: list[int]
    memory_used_bytes: int
    arena_bytes: int
    major_state: int


class Events:
    """The events since they were last taken. `order` has a letter each: s, M and R.

    `samples` are what the sampler said of its samples, if it says anything of them.
    """

    def __init__(self) -> None:
        self.order = ""
        self.reports: list[Report] = []
        self.samples: list[ContextSample] = []

    def sample(self, sample: ContextSample | None = None) -> None:
        """A sample is taken."""
        self.order += "s"
        if sample is not None:
            self.samples.append(sample)

    def minor_collection(self) -> None:
        """A minor collection begins."""
        self.order += "M"

    def report(self, report: Report) -> None:
        """A minor collection reports the pending samples."""
        self.order += "R"
        self.reports.append(report)

    # What follows is of no use to a mutator, and not kept.

    def pending(self, count: int, counted_bytes: int, period_bytes: int) -> None:
        """An object of `counted_bytes` was sampled `count` times, and awaits the next report."""

    def dropped(self) -> None:
        """Whatever is pending will never be reported."""

    def minor_collection_ended(
        self, memory_used_bytes: int, arena_bytes: int, major_state: int
    ) -> None:
        """A minor collection is over, and has left the heap in this state. (Section 3.6.)"""

    def major_step(self, state: int) -> None:
        """A step of the major collection begins, in the phase `state`."""

    def major_step_ended(self, state: int) -> None:
        """It is over, and the next one will be in the phase `state`."""

    def take(self) -> tuple[str, list[Report]]:
        """The events since the last call, which are then forgotten."""
        order, reports = self.order, self.reports
        self.order, self.reports = "", []
        return order, reports

    def take_samples(self) -> list[ContextSample]:
        """The samples since the last call, which are then forgotten."""
        samples, self.samples = self.samples, []
        return samples
