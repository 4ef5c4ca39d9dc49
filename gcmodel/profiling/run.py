"""A program on a heap: once without sampling, to know what it costs, and once being recorded.

Invariant: whatever the program does, its end is recorded: the samples that are pending then are
reported by a last minor collection. So only a kill leaves a recording without its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext

import attrs

from gcmodel.configuration import PERIOD_BYTES_MAX, Configuration
from gcmodel.events import Events
from gcmodel.heap import Heap
from gcmodel.profiling.recorder import Recorder
from gcmodel.profiling.stacks import PythonStacks
from gcmodel.profiling.time_sampling import sampling_time
from gcmodel.sampling import Sampling

Program = Callable[[Heap], object]
"""What allocates in a heap."""

PROFILED = Configuration(nursery_bytes=65536, large_object_bytes=8192, card_items=32)
"""The heap of a profile: as large a nursery as there is, and objects outside it as in PyPy."""


@attrs.frozen(kw_only=True)
class SamplingPlan:
    """How a program is sampled."""

    period_bytes: int
    time_period_us: int | None = None
    """How often the stack is sampled by time; None for never."""
    configuration: Configuration = PROFILED


@attrs.frozen(kw_only=True)
class Cost:
    """What a program took without being sampled."""

    seconds: float
    allocated_bytes: int
    minor_collections: int


class _Counted(Events):
    """Counts minor collections, and keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.minor_collections = 0

    def minor_collection(self) -> None:
        self.minor_collections += 1


def cost_of(program: Program, configuration: Configuration = PROFILED) -> Cost:
    """Run a program without sampling it.

    The bytes are counted for nothing, by a sample point that is too far away to be reached.
    """
    events = _Counted()
    heap = Heap(attrs.evolve(configuration, random_periods=False), events=events)
    heap.enable_sampling(PERIOD_BYTES_MAX)
    began = time.perf_counter()
    program(heap)
    seconds = time.perf_counter() - began
    assert isinstance(heap.sampling, Sampling)
    left_bytes = heap.sampling.sample_point - heap.nursery.nursery_free
    return Cost(
        seconds=seconds,
        allocated_bytes=PERIOD_BYTES_MAX - left_bytes,
        minor_collections=events.minor_collections,
    )


def record(
    program: Program,
    recorder: Recorder,
    stacks: PythonStacks,
    sampling: SamplingPlan,
) -> float:
    """Run a program with a recorder attached; returns the seconds that it took.

    Raises ConfigurationError for a period that cannot be, and whatever the program raises.
    """
    heap = Heap(sampling.configuration, events=recorder)
    heap.enable_sampling(sampling.period_bytes)
    period_us = sampling.time_period_us
    timed = nullcontext() if period_us is None else sampling_time(recorder, period_us)
    began = time.perf_counter()
    try:
        with timed:
            stacks.run(lambda: program(heap))
        return time.perf_counter() - began
    finally:
        heap.disable_sampling(report=True)
        recorder.end()
