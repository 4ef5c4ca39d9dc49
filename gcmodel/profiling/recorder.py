"""The recorder: it hears what the collector does and writes it down, with the caller's stack.

Invariant: it has no heap, only plain data, so it cannot allocate in it; and it keeps nothing but
the numbers of stacks, which are bounded, so it may go on for ever. The collector speaks to it on
its slow paths alone: an allocation that passes no limit does not know that it exists.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol

import psutil

from gcmodel.events import Events, Report, Sample
from gcmodel.profiling.recording import RecordingWriter


class Sites(Protocol):
    """Who tells where the program is."""

    def of_allocation(self) -> int:
        """The number of the stack that has just called the collector, which calls this."""

    def of_moment(self, interrupted: FrameType | None) -> int | None:
        """The number of the stack that a signal interrupted; None if it is not the program's."""


class Recorder(Events):
    """Writes what it hears. `hits`, `weight_bytes` and `time_samples` are the totals so far.

    `listener` is called after each minor collection, when all so far is safe from a kill.
    """

    def __init__(
        self,
        writer: RecordingWriter,
        sites: Sites,
        listener: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.hits = 0
        self.weight_bytes = 0
        self.time_samples = 0
        self.writer = writer
        self._sites = sites
        self._listener = listener
        self._process = psutil.Process()
        self._began_ns = time.perf_counter_ns()
        self._collection_began_us = 0
        self._step_began_us = 0
        self._phase = 0
        self._is_writing = False

    @property
    def now_us(self) -> int:
        """The time since the recording began."""
        return (time.perf_counter_ns() - self._began_ns) // 1000

    def sample(self, sample: Sample | None = None) -> None:
        """Nothing: the object is not placed yet, and a collection may come before it is."""

    def pending(self, count: int, counted_bytes: int, period_bytes: int) -> None:
        """See Events."""
        self._is_writing = True
        stack = self._sites.of_allocation()
        self.writer.line(f'["sample",{self.now_us},{stack},{count},{period_bytes},{counted_bytes}]')
        self.hits += count
        self.weight_bytes += count * period_bytes
        self._is_writing = False

    def minor_collection(self) -> None:
        """See Events."""
        self._collection_began_us = self.now_us

    def report(self, report: Report) -> None:
        """See Events."""
        self._line("report", report.entries)

    def dropped(self) -> None:
        """See Events."""
        self._line("dropped")

    def minor_collection_ended(
        self, memory_used_bytes: int, arena_bytes: int, major_state: int
    ) -> None:
        """See Events. What was written so far is safe from here on."""
        resident_bytes = self._process.memory_info().rss
        figures = memory_used_bytes, arena_bytes, resident_bytes
        self._line("minor", self._collection_began_us, *figures)
        self.writer.flush()
        self._listener()

    def major_step(self, state: int) -> None:
        """See Events."""
        self._step_began_us, self._phase = self.now_us, state

    def major_step_ended(self, state: int) -> None:
        """See Events."""
        self._line("step", self._step_began_us, self._phase, state)

    def moment(self, interrupted: FrameType | None) -> None:
        """A moment to sample by time, in a signal's handler.

        One in which the recorder itself was interrupted is no moment of the program's.
        """
        if not self._is_writing:
            self._is_writing = True
            stack = self._sites.of_moment(interrupted)
            if stack is not None:
                self.writer.line(f'["time",{self.now_us},{stack}]')
                self.time_samples += 1
            self._is_writing = False

    def end(self) -> None:
        """The recording is complete."""
        self._line("end", self.hits, self.weight_bytes)

    def _line(self, name: str, *fields: int | list[int]) -> None:
        self._is_writing = True
        self.writer.line(json.dumps([name, self.now_us, *fields], separators=(",", ":")))
        self._is_writing = False
