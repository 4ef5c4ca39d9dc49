"""The recorder: it hears what the collector does and writes it down, with the caller's stack.

Invariants: it has no heap, only plain data, so it cannot allocate in it; and it keeps nothing but
the numbers of stacks, which are bounded, so it may go on for ever. The collector speaks to it on
its slow paths alone: an allocation that passes no limit does not know that it exists. While it
hears anything, no moment is sampled by time: a signal's handler must not write into a line, and
what the recorder does is not the program's time. If anything is raised meanwhile, it stops there.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

from gcmodel.collector.major import State
from gcmodel.memory.events import ContextSample, Events, Report
from gcmodel.profiling.recording import RecordingWriter

Listener = Callable[["Recorder"], None]
"""Who hears after each minor collection how far a recorder is, when all so far is safe."""


class Recorder(Events):
    """Writes what it hears. `hits`, `weight_bytes` and `time_samples` are the totals so far.

    `site` tells the number of the stack that has just called the collector.
    """

    def __init__(
        self, writer: RecordingWriter, site: Callable[[], int], listener: Listener = lambda _: None
    ) -> None:
        super().__init__()
        self.hits = 0
        self.weight_bytes = 0
        self.time_samples = 0
        self.writer = writer
        self._site = site
        self._listener = listener
        self._process = psutil.Process()
        self._hearing = _Hearing(writer)
        self._began_ns = time.perf_counter_ns()
        self._collection_began_us = 0
        self._step_began_us = 0
        self._phase = 0
        self.has_swept = False
        """Whether a major collection has freed objects of which `freed` may not have told yet."""

    @property
    def now_us(self) -> int:
        return (time.perf_counter_ns() - self._began_ns) // 1000

    def sample(self, sample: ContextSample | None = None) -> None:
        """Nothing: the object is not placed yet, and a collection may come before it is."""

    def pending(self, count: int, counted_bytes: int, period_bytes: int) -> None:
        with self._hearing:
            self._line("sample", self._site(), count, period_bytes, counted_bytes)
            self.hits += count
            self.weight_bytes += count * period_bytes

    def minor_collection(self) -> None:
        self._collection_began_us = self.now_us

    def report(self, report: Report) -> None:
        with self._hearing:
            entries = ",".join(map(str, report.entries))
            self.writer.line(f'["report",{self.now_us},[{entries}]]')

    def dropped(self) -> None:
        with self._hearing:
            self._line("dropped")

    def freed(self, numbers: list[int]) -> None:
        """Sampled objects are freed, each told by how many were sampled before it."""
        with self._hearing:
            self.writer.line(f'["freed",{self.now_us},[{",".join(map(str, numbers))}]]')

    def minor_collection_ended(
        self, memory_used_bytes: int, arena_bytes: int, major_state: int
    ) -> None:
        """What was written so far is safe from here on."""
        with self._hearing:
            resident_bytes = self._process.memory_info().rss
            figures = memory_used_bytes, arena_bytes, resident_bytes
            self._line("minor", self._collection_began_us, *figures)
            self.writer.flush()
            self._listener(self)

    def major_step(self, state: int) -> None:
        self._step_began_us, self._phase = self.now_us, state

    def major_step_ended(self, state: int) -> None:
        self.has_swept |= self._phase == State.SWEEPING
        with self._hearing:
            self._line("step", self._step_began_us, self._phase, state)

    def moment(self, stack: Callable[[], int | None]) -> None:
        """A moment to sample by time, in a signal's handler; `stack` tells where the program is.

        One at which the recorder itself was interrupted is left out.
        """
        if self._hearing.is_in_progress:
            return
        with self._hearing:
            number = stack()
            if number is not None:
                self._line("time", number)
                self.time_samples += 1

    def end(self) -> None:
        with self._hearing:
            self._line("end", self.hits, self.weight_bytes)

    def _line(self, name: str, *numbers: int) -> None:
        self.writer.line(f'["{name}",{",".join(map(str, (self.now_us, *numbers)))}]')


class _Hearing:
    """Something is being heard. What is raised meanwhile ends the recording: half of it is done.

    A program whose stack or memory is full goes on, as it would without a recorder. Everything
    else is somebody's who interrupts the program, and goes on to it.
    """

    def __init__(self, writer: RecordingWriter) -> None:
        self.is_in_progress = False
        self._writer = writer

    def __enter__(self) -> None:
        self.is_in_progress = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.is_in_progress = False
        if kind is None:
            return False
        self._writer.stop(f"{kind.__name__} was raised while it was written")
        return issubclass(kind, (RecursionError, MemoryError))
