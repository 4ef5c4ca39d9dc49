"""Time-based sampling beside the allocations': a signal at regular intervals of real time.

Invariant: the handler runs between two instructions of the main thread. A moment at which the
recorder was writing is left out, since it is not the program's. (Jung and Bolz-Tereick, Low
Overhead Allocation Sampling in a Garbage Collected Virtual Machine, section 2.4: VMProf.)
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

from gcmodel.profiling.recorder import Recorder
from gcmodel.profiling.stacks import PythonStacks

MICROSECONDS = 1e-6


@contextmanager
def sampling_time(recorder: Recorder, stacks: PythonStacks, period_us: int) -> Iterator[None]:
    """Let the recorder sample the stack every `period_us` microseconds, in the main thread.

    It uses SIGALRM and its timer, which the program must leave alone.
    """

    def interrupted(_signal: int, frame: FrameType | None) -> None:
        recorder.moment(partial(stacks.of_moment, frame))

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, period_us * MICROSECONDS, period_us * MICROSECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
