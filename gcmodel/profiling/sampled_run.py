"""A program on a heap, being recorded: its allocations, and beside them its stack by real time.

Invariant: a program that ends has all of its samples judged, by a last minor collection. One that
fails or is interrupted may do so anywhere, in the middle of a collection or of a line, so nothing
more is asked of the heap or written then: the recording has no end, as after a kill.

The handler of a signal runs between two instructions of the main thread; a moment at which the
recorder was writing is left out, since it is not the program's.
(Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine,
section 2.4: VMProf.)
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import FrameType

from gcmodel.collector.heap import Heap
from gcmodel.memory.configuration import Configuration
from gcmodel.profiling.following import followed_heap
from gcmodel.profiling.recorder import Listener, Recorder
from gcmodel.profiling.recording import RecordingWriter
from gcmodel.profiling.stacks import PythonStacks

Program = Callable[[Heap], object]
"""What allocates in a heap."""

PROFILED = Configuration(nursery_bytes=65536, large_object_bytes=8192, card_items=32)
"""The heap of a profile: as large a nursery as there is, and cards and large objects to match."""

HEADROOM_FRAMES = 200
"""What a recorder and its listener may need above the deepest frame of a program."""
SECONDS_PER_MICROSECOND = 1e-6


@contextmanager
def headroom() -> Iterator[None]:
    """A program that ends without a recorder does not reach the recursion limit with one."""
    frames = sys.getrecursionlimit()
    sys.setrecursionlimit(frames + HEADROOM_FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(frames)


@contextmanager
def sampling_time(recorder: Recorder, stacks: PythonStacks, period_us: int) -> Iterator[None]:
    """Let the recorder sample the stack every `period_us` microseconds, in the main thread.

    It uses SIGALRM and its timer, which the program must leave alone.
    """

    def interrupted(_signal: int, frame: FrameType | None) -> None:
        recorder.moment(partial(stacks.of_moment, frame))

    before = signal.signal(signal.SIGALRM, interrupted)
    seconds = period_us * SECONDS_PER_MICROSECOND
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def record(
    program: Program,
    writer: RecordingWriter,
    listener: Listener = lambda _: None,
    *,
    repeat: int = 1,
    configuration: Configuration = PROFILED,
) -> None:
    """Run a program so many times, recorded as the header says.

    Raises ConfigurationError for a period that cannot be, and whatever program and listener raise.
    """
    header = writer.header
    stacks = PythonStacks(writer.line, header.program)
    recorder = Recorder(writer, stacks.of_allocation, listener)
    heap = followed_heap(recorder, configuration)
    heap.enable_sampling(header.period_bytes)
    period_us = header.time_period_us
    timed = nullcontext() if period_us is None else sampling_time(recorder, stacks, period_us)
    with headroom(), timed:
        for _ in range(repeat):
            # What one run keeps is no cost of the next.
            del heap.roots[:]
            stacks.run(program, heap)
    heap.disable_sampling(report=True)
    recorder.end()
