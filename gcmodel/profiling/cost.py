"""What a program costs without being recorded, and how large its recording will be.

The program is run once. Its bytes are counted for nothing, by the distance to a sample point; its
sizes and stacks are estimated from samples that are so far apart that they cost next to nothing. So
a period that would fill the disk is known before it does.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import Counter

import attrs

from gcmodel.collector.heap import Heap
from gcmodel.memory.configuration import PERIOD_BYTES_MAX, PERIOD_BYTES_MIN
from gcmodel.memory.events import Events
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.profiling.sampled_run import PROFILED, Program, headroom
from gcmodel.profiling.stacks import PythonStacks
from gcmodel.sampling.sample_point import Sampling

SPARSE_PERIOD_BYTES = 65_544
"""How far apart the samples of sizes are: no power of two, with which loops would fall in step."""
HEADER_BYTES = 512
STACK_BYTES = 1024
"""What the first sample at a site, or of a moment, may take, with all frames of its stack."""
STACKS_BYTES = 2**16
"""What the stacks of a program that has only so many may take, about."""
# What is taken at most, in most recordings, by the line of a sample with its number when it is
# freed, by the entry of each hit, by the lines of a minor collection with a step of a major one,
# and by that of a moment.
SAMPLE_BYTES, ENTRY_BYTES, COLLECTION_BYTES, TIME_BYTES = 48, 3, 96, 24
PERIODS_BYTES = range(PERIOD_BYTES_MIN, PERIOD_BYTES_MAX + WORD_BYTES, WORD_BYTES)


@attrs.frozen(kw_only=True)
class Cost:
    """What a program took; no `seconds` if these would say nothing of its collector.

    `bytes_by_size` is an estimate of what objects of each size take, and `new_stack_bytes` of what
    each sample writes for a stack that no sample before it had.
    """

    seconds: float
    allocated_bytes: int
    collections: int
    bytes_by_size: dict[int, int]
    new_stack_bytes: float = 0

    def recording_bytes(self, period_bytes: int, time_period_us: int | None) -> int:
        """How large the recording may become, about."""
        # An object that is larger than the period is one sample with several hits.
        samples = sum(
            size_bytes / max(counted_bytes, period_bytes)
            for counted_bytes, size_bytes in self.bytes_by_size.items()
        )
        samples += (self.allocated_bytes - sum(self.bytes_by_size.values())) / period_bytes
        hits = self.allocated_bytes / period_bytes
        moments = 0 if time_period_us is None else self.seconds * 1e6 / time_period_us
        return math.ceil(
            HEADER_BYTES
            + min((samples + moments) * STACK_BYTES, STACKS_BYTES)
            + (samples + moments) * self.new_stack_bytes
            + self.collections * COLLECTION_BYTES
            + samples * SAMPLE_BYTES
            + hits * ENTRY_BYTES
            + moments * TIME_BYTES
        )

    def period_that_fits(self, max_bytes: int, time_period_us: int | None) -> int | None:
        """The shortest period whose recording takes at most so many bytes, if there is one."""
        index = bisect_left(
            PERIODS_BYTES,
            -max_bytes,
            key=lambda period_bytes: -self.recording_bytes(period_bytes, time_period_us),
        )
        return PERIODS_BYTES[index] if index < len(PERIODS_BYTES) else None


class _Sparse(Events):
    """Counts collections, and of the sparse samples their sizes and what their stacks take."""

    def __init__(self) -> None:
        super().__init__()
        self.collections = 0
        self.bytes_by_size: Counter[int] = Counter()
        self._written_bytes = 0
        self.stacks = PythonStacks(self._write, "")
        self._stack_bytes: list[int] = []

    def _write(self, line: str) -> None:
        self._written_bytes += len(line) + 1

    @property
    def new_stack_bytes(self) -> float:
        """What a sample of the second half wrote for new stacks, on average.

        The first half does not count: in it, every program's stacks are new.
        """
        half = self._stack_bytes[(len(self._stack_bytes) - 1) // 2 :]
        return (half[-1] - half[0]) / (len(half) - 1) if half[1:] else 0

    def sample(self, sample: object = None) -> None:
        pass

    def pending(self, count: int, counted_bytes: int, period_bytes: int) -> None:
        self.bytes_by_size[counted_bytes] += count * period_bytes
        self.stacks.of_allocation()
        self._stack_bytes.append(self._written_bytes)

    def minor_collection(self) -> None:
        self.collections += 1

    def report(self, report: object) -> None:
        pass


def cost_of(program: Program, repeat: int = 1) -> Cost:
    """What so many runs cost, of one without a recorder. Raises whatever the program raises."""
    events = _Sparse()
    heap = Heap(PROFILED, events=events)
    heap.enable_sampling(SPARSE_PERIOD_BYTES)
    began = time.perf_counter()
    with headroom():
        events.stacks.run(program, heap)
    seconds = time.perf_counter() - began
    sizes = events.bytes_by_size
    return Cost(
        seconds=repeat * seconds,
        allocated_bytes=repeat * (sizes.total() + _bytes_since_sample(heap)),
        collections=repeat * events.collections,
        bytes_by_size={size: repeat * total for size, total in sizes.items()},
        new_stack_bytes=events.new_stack_bytes,
    )


def _bytes_since_sample(heap: Heap) -> int:
    """What was allocated since the last sample; nothing, where a program has left sampling off."""
    assert isinstance(heap.sampling, Sampling)
    if not heap.sampling.period_bytes:
        return 0
    until_sample_bytes = heap.sampling.sample_point - heap.nursery.nursery_free
    return heap.sampling.period_bytes - until_sample_bytes
