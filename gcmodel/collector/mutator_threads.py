"""The collector with several threads, each of which records its writes in a log of its own.

So the write barrier needs no lock. Invariant: what the barrier has recorded is in the lists of the
thread that runs, or in the log of another living thread. The minor collection takes over all logs
before it starts, and the first thread takes over that of a thread that ends. A log that is dropped
is worse than a missing barrier: its objects have the flags of remembered ones, so that no later
write records them. (MMTk's modification buffers; HotSpot's dirty card queues.)
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from typing_extensions import override

from gcmodel.collector.barrier import Barrier
from gcmodel.collector.finalizing import FinalizingHeap, FinalizingMinor, FinalizingParts
from gcmodel.memory.configuration import Configuration
from gcmodel.memory.objects import Object
from gcmodel.sampling.contexts import ContextNursery
from gcmodel.sampling.shipped_contexts import ShippedAllocation, ShippedSampling


@attrs.define
class Log:
    """What a thread that does not run has recorded: see the barrier's lists of these names."""

    remembered: list[Object] = attrs.Factory(list)
    dirty_arrays: list[Object] = attrs.Factory(list)


class LoggingBarrier(Barrier):
    """Its lists are those of the thread that runs; the logs are those of the others."""

    def __init__(self, configuration: Configuration, is_marking: Callable[[], bool]) -> None:
        super().__init__(configuration, is_marking)
        self._running = 0
        self.logs: dict[int, Log] = {}

    def run(self, thread: int) -> None:
        """Let another thread record from now on."""
        if thread != self._running:
            self.logs[self._running] = Log(self.remembered, self.dirty_arrays)
            log = self.logs.pop(thread, Log())
            self.remembered, self.dirty_arrays = log.remembered, log.dirty_arrays
            self._running = thread

    def take_over(self) -> None:
        """Add all logs to the lists of the thread that runs. No other thread may run meanwhile."""
        for thread in [*self.logs]:
            self._take_over(thread)

    def end(self, thread: int) -> None:
        """The thread, which runs, ends: the first one takes over what it has recorded."""
        self.run(0)
        self._take_over(thread)

    def _take_over(self, thread: int) -> None:
        log = self.logs.pop(thread)
        self.remembered += log.remembered
        self.dirty_arrays += log.dirty_arrays


class ThreadedMinor(FinalizingMinor):
    """It stops all threads, and looks at what each of them has recorded."""

    _heap: ThreadedHeap

    @override
    def collect(self, is_anything_new: bool = True) -> None:
        self._heap.barrier.take_over()
        super().collect(is_anything_new)


@attrs.frozen
class ThreadedParts(FinalizingParts):
    """The classes of which a heap with threads is composed. They sample as in .NET 10."""

    nursery: type[ContextNursery] = ContextNursery
    allocation: type[ShippedAllocation] = ShippedAllocation
    sampling: type[ShippedSampling] = ShippedSampling
    barrier: type[LoggingBarrier] = LoggingBarrier
    minor: type[ThreadedMinor] = ThreadedMinor


class ThreadedHeap(FinalizingHeap):
    """A heap for several mutators, one of which runs at a time. All see the same roots."""

    barrier: LoggingBarrier

    @override
    def run(self, thread: int) -> None:
        super().run(thread)
        self.barrier.run(thread)

    def end_thread(self, thread: int) -> None:
        """The thread, which runs and is not the first, ends. A collection drops its context."""
        self.barrier.end(thread)

    def begin_thread(self) -> None:
        """A thread begins, and collects. It has no context, so nothing is left of a distance."""
        self.collect_full()
