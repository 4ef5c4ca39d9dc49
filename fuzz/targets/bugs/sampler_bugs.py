"""Known bugs of samplers: of random ones, of those of several threads, and of those of malloc.

Like those of known_bugs, each is a small change to one part of gcmodel.
"""

from __future__ import annotations

from fuzz.targets.bugs.known_bug import Host
from gcmodel import CONTEXTS, Parts
from gcmodel.blocks import block_heap
from gcmodel.blocks.block_heap import Block, BlockHeap
from gcmodel.blocks.block_sampler import (
    BlockSample,
    GperftoolsSampler,
    JemallocSampler,
    TcmallocSampler,
)
from gcmodel.blocks.living_samples import (
    GperftoolsLivingSamples,
    JemallocLivingSamples,
    SampledBlock,
    chance,
)
from gcmodel.blocks.size_classes import GperftoolsSizes, JemallocSizes
from gcmodel.memory.configuration import Configuration
from gcmodel.memory.events import Events
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import Object
from gcmodel.sampling.contexts import ContextSampling
from gcmodel.sampling.distances import Gperftools
from gcmodel.sampling.sample_point import Sampling

GEOMETRIC = Host("reference-geometric", Parts())
RANDOM = Host("reference-random", Parts())
DOTNET = Host("reference-dotnet", CONTEXTS)
JEMALLOC = Host("reference-jemalloc", block_heap.JEMALLOC)
TCMALLOC = Host("reference-tcmalloc", block_heap.TCMALLOC)
GPERFTOOLS = Host("reference-gperftools", block_heap.GPERFTOOLS)

# Distances at random.


@GEOMETRIC.bug(
    "first-offset-mask",
    "PyPy's sampling fork, the first sample's offset",
    ("sampling", "pointers"),
    1,
)
class FirstOffsetMask(Sampling):
    """The first distance is masked so that it is always a multiple of 256."""

    def begin(self) -> None:
        # Correct: the distance as it was drawn; at most a multiple of a word.
        self.sample_point = self._nursery.nursery_free + (self.next_distance() & ~0xFF)
        self.set_limit()


@GEOMETRIC.bug("first-word-never", "OCaml issue 10064", ("sampling", "pointers"), 1)
class FirstWordNever(Sampling):
    """Off by one at the start: the first word can never be sampled."""

    def begin(self) -> None:
        super().begin()
        self.sample_point += WORD_BYTES  # Correct: nothing more.
        self.set_limit()


@GEOMETRIC.bug(
    "trigger-below-start", "OCaml issue 10056, whose heap grows downwards", ("pointers",), 1
)
class TriggerOutsideArea(Nursery):
    """A missing else: the sample point is the limit where the nursery ends before it."""

    def set_limit(self, sample_point: int | None) -> None:
        super().set_limit(sample_point)
        if sample_point is not None and not self.is_collection_due:
            self.nursery_limit = sample_point  # Correct: only if the nursery does not end before.


@RANDOM.bug(
    "fixed-stride-bias",
    ".NET's AllocationTick; Nasarre and Falk, Randomized Allocation Sampling",
    ("estimate",),
    9,
)
class FixedStride(Sampling):
    """Samples are a fixed stride apart: a program in step with it shows one of its sites only."""

    def next_distance(self) -> int:
        return self.period_bytes  # Correct: a distance that is drawn.


# Allocation contexts.


@DOTNET.bug("outside-tlab-desync", "OpenJDK JDK-8356372, pull request 25114", ("sampling",), 4)
class OutsideDesync(ContextSampling):
    """An object outside the thread's buffer moves one of two variables that say when to sample."""

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        super().allocated_outside(obj, counted_bytes)
        context = self._threads.contexts[self._threads.thread]
        if self.period_bytes and context.combined_limit < context.alloc_limit:
            # Correct: nothing. A distance of its own has judged the object.
            limit = max(context.combined_limit - counted_bytes, context.alloc_ptr)
            context.combined_limit = limit


@DOTNET.bug("flush-only-at-refill", "OpenJ9 issue 7740, fixed by 9745", ("sampling",), 3)
class FlushOnlyAtRefill(ContextSampling):
    """A thread samples only when its buffer is refilled."""

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._sampling_limits = [0] * len(self._distances)

    def draw_limit(self, thread: int) -> None:
        if self.period_bytes:
            context = self._threads.contexts[thread]
            # Correct: the combined limit is not beyond it.
            self._sampling_limits[thread] = context.alloc_ptr + self._draw(thread)

    def judge(self, size_bytes: int) -> int:
        thread = self._threads.thread
        context = self._threads.contexts[thread]
        if self.period_bytes and self._sampling_limits[thread] < context.alloc_ptr:
            return self.succeed(size_bytes, 0)
        return super().judge(size_bytes)


# jemalloc.


@JEMALLOC.bug("toggle-kills-sampling", "jemalloc issue 1605, fixed by 1604", ("sampling",), 4)
class ToggleKillsSampling(JemallocSampler):
    """Off, one slow-path allocation, on: the counter was thrown to its maximum."""

    def fire(self) -> BlockSample | None:
        hit = super().fire()
        if self.is_paused:
            self.wait_bytes = 2**62  # Correct: a fresh wait, as ever.
        return hit


@JEMALLOC.bug("samples-while-suspended", "OCaml issue 9628", ("sampling",), 2)
class SamplesWhileSuspended(JemallocSampler):
    """What is allocated while sampling is suspended is sampled too."""

    def fire(self) -> BlockSample | None:
        super().fire()
        return BlockSample(self.period_bytes)  # Correct: None while paused.


@JEMALLOC.bug("rollback-keeps-threshold", "jemalloc issue 1779", ("sampling",), 3)
class RollbackKeepsThreshold(JemallocSampler):
    """A resized block leaves the threshold hit: the next block is always sampled."""

    def count_resized(self, counted_bytes: int) -> BlockSample | None:
        hit = super().count_resized(counted_bytes)
        if hit is not None:
            self.wait_bytes = 0  # Correct: the fresh wait.
        return hit


@JEMALLOC.bug("slow-path-counts-twice", "jemalloc issue 1616", ("sampling",), 1)
class SlowPathCountsTwice(BlockHeap):
    """The slow path of the small-block cache counts the same bytes again."""

    def _place(self, requested_bytes: int, counted_bytes: int, hit: BlockSample | None) -> Block:
        usable_bytes = self._sizes.usable_bytes(requested_bytes)
        is_small = usable_bytes <= self._sizes.SMALL_BYTES_MAX
        if hit is None and is_small and not self._caches[self.thread].has(usable_bytes):
            # Correct: it stays unsampled. It is counted already.
            hit = self._samplers[self.thread].count(counted_bytes)
        return super()._place(requested_bytes, counted_bytes, hit)


@JEMALLOC.bug("large-allocs-skew-counter", "Go issue 12620", ("sampling",), 2)
class LargeAllocsSkewCounter(JemallocSampler):
    """Large and small blocks are counted by counters that disagree."""

    def count(self, counted_bytes: int) -> BlockSample | None:
        before_bytes = self.allocated_bytes
        hit = super().count(counted_bytes)
        if hit is None and counted_bytes > JemallocSizes.SMALL_BYTES_MAX:
            self.allocated_bytes = before_bytes  # Correct: they stay counted.
        return hit


@JEMALLOC.bug("forced-large-sample", "Go issues 26618 and 29791", ("sampling",), 1)
class ForcedLargeSample(JemallocSampler):
    """A block as large as the period is sampled for certain, and unbiased as if by chance."""

    def count(self, counted_bytes: int) -> BlockSample | None:
        hit = super().count(counted_bytes)
        if hit is None and counted_bytes >= self.period_bytes:
            return self.fire()  # Correct: None. It is unbiased as one sampled by chance.
        return hit


@JEMALLOC.bug("sum-then-unbias", "jemalloc issue 1897", ("estimate",), 3)
class SumThenUnbias(JemallocLivingSamples):
    """A profile sums, then unbiases: small sizes drown."""

    def read(self) -> tuple[int, int]:
        count = len(self._alive)
        if not count:
            return 0, 0
        # Correct: unbiased one by one, and then added.
        total_bytes = sum(sample.usable_bytes for sample in self._alive)
        period_bytes = next(iter(self._alive)).hit.period_bytes
        probability = chance(total_bytes // count, period_bytes)
        return round(count / probability), round(total_bytes / probability)


# gperftools.


@GPERFTOOLS.bug("zero-size-wraps", "gperftools issue 723", ("sampling",), 1)
class ZeroSizeWraps(GperftoolsSizes):
    """The pages of a huge request wrap to 0 before it is sampled."""

    WIDTH_BYTES = 2**20
    """The width of an address, in proportion: no block is larger here."""

    def counted_bytes(self, requested_bytes: int) -> int:
        wraps = self.usable_bytes(requested_bytes) >= self.WIDTH_BYTES
        # Correct: never 0.
        return 0 if wraps else super().counted_bytes(requested_bytes)


@GPERFTOOLS.bug("placeholder-first-interval", "gperftools 2.10, measured", ("sampling",), 1)
class PlaceholderFirstInterval(GperftoolsSampler):
    """The first distance is a placeholder of 16 MiB, taken before the period is known."""

    PLACEHOLDER_BYTES = 16 * 2**20

    def __init__(self, seed: int, period_bytes: int) -> None:
        super().__init__(seed, period_bytes)
        self.left_bytes = self.PLACEHOLDER_BYTES  # Correct: what was drawn.


@GPERFTOOLS.bug("reseed-drops-sample", "gperftools 2.10, measured", ("sampling",), 1)
class ReseedDropsSample(GperftoolsSampler):
    """The first sample reseeds the generator, draws anew, and may be forgotten."""

    _is_seeded = False
    OTHER_SEED = 2**47
    """The sampler's address, in proportion."""

    def count(self, counted_bytes: int) -> BlockSample | None:
        if self.left_bytes < counted_bytes and not self._is_seeded:
            self._is_seeded = True
            # Correct: nothing. The generator has its seed, and a sample is due.
            self.distances = Gperftools(self._seed + self.OTHER_SEED)
            self.pick()
        return super().count(counted_bytes)


@GPERFTOOLS.bug(
    "class-size-vs-request", "gperftools issue 273; gperftools 2.10, measured", ("estimate",), 2
)
class ClassSizeVersusRequest(GperftoolsLivingSamples):
    """Size classes are sampled, and requested sizes unbiased."""

    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        # Correct: by the counted bytes.
        probability = chance(max(sample.requested_bytes, 1), sample.hit.period_bytes)
        return 1 / probability, round(sample.usable_bytes / probability)


# TCMalloc.


@TCMALLOC.bug("dropped-sample-keeps-weight", "dd-trace-py issue 19293", ("sampling",), 4)
class DroppedSampleKeepsWeight(TcmallocSampler):
    """A sample dropped for lack of room leaves its weight to the next one."""

    _samples = 0

    def pick(self) -> None:
        super().pick()
        self._samples += 1

    def count(self, counted_bytes: int) -> BlockSample | None:
        if self.left_bytes < counted_bytes and self._samples % 4 == 0:
            self._samples += 1
            self.left_bytes -= counted_bytes
            return None  # Correct: a fresh distance begins, whatever becomes of the sample.
        return super().count(counted_bytes)
