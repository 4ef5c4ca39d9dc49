"""Recording a program on a heap: its allocations, and its stack by real time.

Invariant: when a program ends, a last minor collection judges all of its samples. A program that
fails or is interrupted may stop in the middle of a collection or of a line. Then the heap is not
used any more, and the recording has no end, as after a kill.

Samples by time come from a signal, as in VMProf. (Jung and Bolz-Tereick, Low Overhead Allocation
Sampling in a Garbage Collected Virtual Machine, section 2.4.)
"""

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
"""A program that allocates in a heap."""

PROFILED = Configuration(nursery_bytes=65536, large_object_bytes=8192, card_items=32)
"""The heap of a profile, with a large nursery."""

HEADROOM_FRAMES = 200
"""The frames that a recorder and its listener may need above a program's deepest frame."""
SECONDS_PER_MICROSECOND = 1e-6


@contextmanager
def headroom() -> Iterator[None]:
    """Raise the recursion limit, so that the recorder does not make a program reach it."""
    frames = sys.getrecursionlimit()
    sys.setrecursionlimit(frames + HEADROOM_FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(frames)


@contextmanager
def sampling_time(recorder: Recorder, stacks: PythonStacks, period_us: int) -> Iterator[None]:
    """Sample the stack every `period_us` microseconds, in the main thread.

    It uses SIGALRM and its timer, which the program must not use.
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
    """Run a program `repeat` times, recorded as the writer's header defines.

    Raises ConfigurationError for an illegal period, and what the program and the listener raise.
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
            del heap.roots[:]  # What one run keeps is not a cost of the next.
            stacks.run(program, heap)
    heap.disable_sampling(report=True)
    recorder.end()
