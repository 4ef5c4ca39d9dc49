"""The recorder: it writes down the collector's events, with the stack of the allocation.

Invariants: it has no heap, only plain data, so it cannot allocate in it. It keeps only the numbers
of stacks, which are bounded, so it can run forever. The collector calls it on slow paths only.
While it writes, no sample by time is taken: a signal handler must not write into a line, and the
recorder's own time is not the program's. An exception while it writes ends the recording.
"""

import time
from collections.abc import Callable

import psutil

from gcmodel.collector.major import State
from gcmodel.memory.events import ContextSample, Events, Report
from gcmodel.profiling.recording import RecordingWriter

Listener = Callable[["Recorder"], None]
"""Called after each minor collection, when everything recorded so far is safe."""


class Recorder(Events):
    """Writes the events. `hits`, `weight_bytes` and `time_samples` are the totals so far.

    `site` returns the number of the stack that called the collector.
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
        self._writing = _Writing(writer)
        self._began_ns = time.perf_counter_ns()
        self._collection_began_us = 0
        self._step_began_us = 0
        self._state = 0
        self.has_swept = False
        """A major collection has freed objects that `freed` may not have reported yet."""

    @property
    def now_us(self) -> int:
        return (time.perf_counter_ns() - self._began_ns) // 1000

    def sample(self, sample: ContextSample | None = None) -> None:
        """Do nothing: the object is not placed yet, and a collection may come before it is."""

    def pending(self, count: int, counted_bytes: int, period_bytes: int) -> None:
        with self._writing:
            self._line("sample", self._site(), count, period_bytes, counted_bytes)
            self.hits += count
            self.weight_bytes += count * period_bytes

    def minor_collection(self) -> None:
        self._collection_began_us = self.now_us

    def report(self, report: Report) -> None:
        self._list("report", report.entries)

    def dropped(self) -> None:
        with self._writing:
            self._line("dropped")

    def freed(self, numbers: list[int]) -> None:
        """Sampled objects were freed. Each is the number of objects sampled before it."""
        self._list("freed", numbers)

    def minor_collection_ended(self, statistics: Callable[[], tuple[int, int, int]]) -> None:
        """Write the collection, and make everything written so far safe."""
        with self._writing:
            memory_used_bytes, arena_bytes, _ = statistics()
            resident_bytes = self._process.memory_info().rss
            figures = memory_used_bytes, arena_bytes, resident_bytes
            self._line("minor", self._collection_began_us, *figures)
            self.writer.flush()
            self._listener(self)

    def major_step(self, state: int) -> None:
        self._step_began_us, self._state = self.now_us, state

    def major_step_ended(self, state: int) -> None:
        self.has_swept |= self._state == State.SWEEPING
        with self._writing:
            self._line("step", self._step_began_us, self._state, state)

    def moment(self, stack: Callable[[], int | None]) -> None:
        """Take a sample by time, in a signal handler, unless the recorder was interrupted.

        `stack` returns the program's stack, or None if the program does not run.
        """
        if self._writing.is_in_progress:
            return
        with self._writing:
            number = stack()
            if number is not None:
                self._line("time", number)
                self.time_samples += 1

    def end(self) -> None:
        with self._writing:
            self._line("end", self.hits, self.weight_bytes)

    def _line(self, name: str, *numbers: int) -> None:
        self.writer.line(f'["{name}",{",".join(map(str, (self.now_us, *numbers)))}]')

    def _list(self, name: str, numbers: list[int]) -> None:
        with self._writing:
            self.writer.line(f'["{name}",{self.now_us},[{",".join(map(str, numbers))}]]')


class _Writing:
    """A context in which an event is written. An exception ends the recording, half written.

    A program that runs out of stack or memory continues, as it would without a recorder. Any other
    exception interrupts the program, and is raised again.
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
