"""The events that the collector reports: samples, minor collections and reports, in order.

`Events` keeps them until they are taken. A listener that handles them one by one, such as the
profile recorder, is a subclass. Events are plain data, so a listener cannot allocate in the heap or
change it.
"""

from collections.abc import Callable

import attrs


@attrs.frozen
class ContextSample:
    """A sample of a sampler with allocation contexts. (.NET, AllocationSampled.)

    `offset` is the byte of the object whose trial succeeded, counted from 0.
    """

    thread: int
    size_bytes: int
    offset: int


@attrs.define
class Report:
    """What a minor collection reports of the samples since the last one. (Sections 3.5 and 3.6.)

    An entry is `kind << 2 | (2 if outside the nursery) | (1 if it survived)`, the newest first.
    """

    entries: list[int]
    memory_used_bytes: int
    arena_bytes: int
    major_state: int


class Events:
    """The events since they were last taken. `order` has one letter for each: s, M or R.

    `samples` has the samples of samplers that describe theirs.
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
        """A minor collection starts."""
        self.order += "M"

    def report(self, report: Report) -> None:
        """A minor collection reports the pending samples."""
        self.order += "R"
        self.reports.append(report)

    # Only the profile recorder uses the following events. They are not kept.

    def pending(self, count: int, counted_bytes: int, period_bytes: int) -> None:
        """An object of `counted_bytes` was sampled `count` times, and awaits the next report."""

    def dropped(self) -> None:
        """The pending samples are dropped and will not be reported."""

    def minor_collection_ended(self, statistics: Callable[[], tuple[int, int, int]]) -> None:
        """A minor collection has ended. `statistics` are those of the heap. (Section 3.6.)"""

    def major_step(self, state: int) -> None:
        """A step of the major collection starts, in `state`."""

    def major_step_ended(self, state: int) -> None:
        """A step of the major collection has ended. The next one is in `state`."""

    def take(self) -> tuple[str, list[Report]]:
        """Return the events since the last call, and forget them."""
        order, reports = self.order, self.reports
        self.order, self.reports = "", []
        return order, reports

    def take_samples(self) -> list[ContextSample]:
        """Return the samples since the last call, and forget them."""
        samples, self.samples = self.samples, []
        return samples
