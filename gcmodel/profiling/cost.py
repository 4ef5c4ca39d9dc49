"""What a program costs without a recorder, and how large its recording will be.

The program is run once. Its bytes follow from the distance to a sample point. Its sizes and stacks
are estimated from sparse samples, which cost almost nothing. So a period that would fill the disk
is refused before it does.
"""

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
"""The distance of the sparse samples: not a power of two, which loops would fall in step with."""
HEADER_BYTES = 512
STACK_BYTES = 1024
"""The most that the first sample at a site writes, with all frames of its stack."""
STACKS_BYTES = 2**16
"""About the most that a bounded number of stacks takes."""
# The most that each of these takes in most recordings. A sample has a line, and its number again
# when it is freed. A hit has an entry. A minor collection has its line and that of a major step. A
# sample by time has a line.
SAMPLE_BYTES, ENTRY_BYTES, COLLECTION_BYTES, TIME_BYTES = 48, 3, 96, 24
PERIODS_BYTES = range(PERIOD_BYTES_MIN, PERIOD_BYTES_MAX + WORD_BYTES, WORD_BYTES)


@attrs.frozen(kw_only=True)
class Cost:
    """What a program took. `seconds` is 0 if they do not show the collector's time.

    `bytes_by_size` estimates the bytes of all objects of each size, and `new_stack_bytes` what an
    average sample writes for a stack that no sample before it had.
    """

    seconds: float
    allocated_bytes: int
    collections: int
    bytes_by_size: dict[int, int]
    new_stack_bytes: float = 0

    def recording_bytes(self, period_bytes: int, time_period_us: int | None) -> int:
        """About how large the recording may become."""
        # An object larger than the period is one sample with several hits.
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
        """The shortest period whose recording takes at most `max_bytes`, if there is one."""
        index = bisect_left(
            PERIODS_BYTES,
            -max_bytes,
            key=lambda period_bytes: -self.recording_bytes(period_bytes, time_period_us),
        )
        return PERIODS_BYTES[index] if index < len(PERIODS_BYTES) else None


class _Sparse(Events):
    """Counts collections, the sizes of the sparse samples, and the bytes of their stacks."""

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

        In the first half, the stacks of every program are new.
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
    """The cost of `repeat` runs, from one without a recorder. Raises what the program raises."""
    events = _Sparse()
    heap = Heap(PROFILED, events=events)
    heap.enable_sampling(SPARSE_PERIOD_BYTES)
    began = time.perf_counter()
    with headroom():
        events.stacks.run(program, heap)
    seconds = time.perf_counter() - began
    sizes, sampling = events.bytes_by_size, heap.sampling
    assert isinstance(sampling, Sampling)
    since_sample_bytes = 0
    if sampling.period_bytes:  # The program has not disabled sampling.
        until_sample_bytes = sampling.sample_point - heap.nursery.nursery_free
        since_sample_bytes = sampling.period_bytes - until_sample_bytes
    return Cost(
        seconds=repeat * seconds,
        allocated_bytes=repeat * (sizes.total() + since_sample_bytes),
        collections=repeat * events.collections,
        bytes_by_size={size: repeat * total for size, total in sizes.items()},
        new_stack_bytes=events.new_stack_bytes,
    )
