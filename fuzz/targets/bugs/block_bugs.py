"""Known bugs of allocators: which block is sampled, what a sample counts for, what blocks contain.

Like those of known_bugs, each is a small change to one part of gcmodel.
"""

from __future__ import annotations

import math

from fuzz.targets.bugs.known_bug import Host
from gcmodel.blocks import block_heap
from gcmodel.blocks.block_heap import Block, BlockHeap, BlockParts
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
    TcmallocLivingSamples,
    chance,
)
from gcmodel.blocks.size_classes import GperftoolsSizes, JemallocSizes
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.sampling.distances import Gperftools

JEMALLOC = Host("reference-jemalloc", block_heap.JEMALLOC)
TCMALLOC = Host("reference-tcmalloc", block_heap.TCMALLOC)
GPERFTOOLS = Host("reference-gperftools", block_heap.GPERFTOOLS)
OURS = "our own"
NEVER_BYTES = 2**62
"""A distance without an end."""

# jemalloc.


@JEMALLOC.bug("toggle-kills-sampling", "jemalloc issue 1605, fixed by 1604", ("sampling",), 4)
class ToggleKillsSampling(JemallocSampler):
    """Off, one slow-path allocation, on: the counter is at its maximum."""

    def fire(self) -> BlockSample | None:
        hit = super().fire()
        if self.is_paused:
            self.wait_bytes = NEVER_BYTES  # Correct: a fresh wait.
        return hit


@JEMALLOC.bug("samples-while-suspended", "OCaml issue 9628", ("sampling",), 2)
class SamplesWhileSuspended(JemallocSampler):
    """Blocks are sampled although sampling is suspended."""

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
            # Correct: not sampled. It is counted already.
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
    """A block as large as the period is always sampled, but unbiased as if by chance."""

    def count(self, counted_bytes: int) -> BlockSample | None:
        hit = super().count(counted_bytes)
        if hit is None and counted_bytes >= self.period_bytes:
            return self.fire()  # Correct: None.
        return hit


@JEMALLOC.bug("sum-then-unbias", "jemalloc issue 1897", ("estimate",), 3)
class SumThenUnbias(JemallocLivingSamples):
    """A profile sums, then unbiases: small sizes count for too little."""

    def read(self) -> tuple[int, int]:
        count = len(self._alive)
        if not count:
            return 0, 0
        # Correct: each is unbiased, then they are added.
        total_bytes = sum(sample.usable_bytes for sample in self._alive)
        period_bytes = next(iter(self._alive)).hit.period_bytes
        probability = chance(total_bytes // count, period_bytes)
        return round(count / probability), round(total_bytes / probability)


@JEMALLOC.bug("uninitialised-thread-sampled", "jemalloc issue 1351", ("sampling",), 1)
class UninitialisedThreadSampled(JemallocSampler):
    """A thread's first block overwrites its counter, and is sampled anyway."""

    _is_initialised = False

    def count(self, counted_bytes: int) -> BlockSample | None:
        hit = super().count(counted_bytes)
        if not self._is_initialised:
            self._is_initialised = True
            return BlockSample(self.period_bytes)  # Correct: sampled only if its wait is over.
        return hit


@JEMALLOC.bug("marker-size", "Scalene 2.4.0, measured", ("sampling",), 1)
class MarkerSize(JemallocSampler):
    """One size has a meaning inside the profiler: blocks of exactly that size are not counted."""

    MARKER_BYTES = 96
    """98,821 in Scalene, which is not a class here."""

    def count(self, counted_bytes: int) -> BlockSample | None:
        if counted_bytes == self.MARKER_BYTES:
            return None  # Correct: they count too.
        return super().count(counted_bytes)


@JEMALLOC.bug("realloc-keeps-old-sample", "jemalloc issue 557", ("estimate",), 3)
class ReallocKeepsOldSample(BlockHeap):
    """The old sample of a resized block stays: a freed block is reported alive."""

    def realloc(self, block: Block, requested_bytes: int) -> Block:
        block.sample = None  # Correct: it keeps its sample, which ends with it.
        return super().realloc(block, requested_bytes)


@JEMALLOC.bug(
    "realloc-frees-new-pointer", "jemalloc issue 1683, reverted by 1684", ("estimate",), 3
)
class ReallocFreesNewPointer(BlockHeap):
    """Resizing ends the sample of the wrong pointer: a live block is not reported."""

    def realloc(self, block: Block, requested_bytes: int) -> Block:
        resized = super().realloc(block, requested_bytes)
        if resized.sample is not None:
            self._profile.remove(resized.sample)  # Correct: only the old sample ends.
        return resized


@JEMALLOC.bug("resize-stale-context", "jemalloc issue 2806", ("estimate",), 3)
class ResizeStaleContext(BlockHeap):
    """A block that is resized in place keeps the sampling record that was read before."""

    def realloc(self, block: Block, requested_bytes: int) -> Block:
        before = block.sample
        resized = super().realloc(block, requested_bytes)
        if resized.usable_bytes == block.usable_bytes:
            # Correct: nothing. It has the record of the resized block.
            if resized.sample is not None:
                self._profile.remove(resized.sample)
            if before is not None:
                self._profile.add(before)
            resized.sample = before
        return resized


@JEMALLOC.bug("snapshot-counts-history", "pprof-nodejs issue 357", ("estimate",), 3)
class SnapshotCountsHistory(JemallocLivingSamples):
    """Each profile repeats the counts of all earlier profiles."""

    _reported_objects = 0
    _reported_bytes = 0

    def read(self) -> tuple[int, int]:
        objects, size_bytes = super().read()
        # Correct: only what is alive now.
        self._reported_objects += objects
        self._reported_bytes += size_bytes
        return self._reported_objects, self._reported_bytes


@JEMALLOC.bug("realloc-copies-a-word", OURS, ("contents",), 3)
class ReallocCopiesAWord(BlockHeap):
    """Of a resized block, only the first word is copied."""

    def copied(self, block: Block, resized: Block, requested_bytes: int) -> Block:
        copied = super().copied(block, resized, requested_bytes)
        # Correct: all that fits.
        copied.contents = copied.contents[:WORD_BYTES].ljust(len(copied.contents), b"\0")
        return copied


# gperftools.


@GPERFTOOLS.bug("zero-size-wraps", "gperftools issue 723", ("sampling",), 1)
class ZeroSizeWraps(GperftoolsSizes):
    """The page count of a huge request wraps to 0 before it is counted."""

    WIDTH_BYTES = 2**20
    """Stands for the width of an address, since no block is larger here."""

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
        self.left_bytes = self.PLACEHOLDER_BYTES  # Correct: the drawn one.


@GPERFTOOLS.bug("reseed-drops-sample", "gperftools 2.10, measured", ("sampling",), 1)
class ReseedDropsSample(GperftoolsSampler):
    """The first sample reseeds the generator and draws again, which may drop it."""

    _is_seeded = False
    OTHER_SEED = 2**47
    """Stands for the sampler's address."""

    def count(self, counted_bytes: int) -> BlockSample | None:
        if self.left_bytes < counted_bytes and not self._is_seeded:
            self._is_seeded = True
            # Correct: nothing. A sample is due.
            self.distances = Gperftools(self._seed + self.OTHER_SEED)
            self.pick()
        return super().count(counted_bytes)


@GPERFTOOLS.bug(
    "class-size-vs-request", "gperftools issue 273; gperftools 2.10, measured", ("estimate",), 2
)
class ClassSizeVersusRequest(GperftoolsLivingSamples):
    """Sampling counts size classes, but unbiasing uses requested sizes."""

    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        # Correct: by the counted bytes.
        probability = chance(max(sample.requested_bytes, 1), sample.hit.period_bytes)
        return 1 / probability, round(sample.usable_bytes / probability)


@GPERFTOOLS.bug("live-size-unweighted", "dd-trace-py issue 17002", ("estimate",), 2)
class LiveSizeUnweighted(GperftoolsLivingSamples):
    """The live bytes are the sizes of the sampled blocks, without unbiasing."""

    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        objects, _ = super().stands_for(sample)
        return objects, sample.usable_bytes  # Correct: the bytes of all these objects.


@GPERFTOOLS.bug(
    "crossings-as-weight",
    "OpenTelemetry's eBPF profiler, issue 1743; libdatadog issue 2344",
    ("estimate",),
    2,
)
class CrossingsAsWeight(GperftoolsLivingSamples):
    """A sample counts for as many objects as sample points are in its block."""

    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        # Correct: one over the probability of a sample.
        objects = max(1, sample.counted_bytes // sample.hit.period_bytes)
        return objects, objects * sample.usable_bytes


@GPERFTOOLS.bug("rate-change-mixes-weights", "Seastar issue 1904", ("estimate",), 4)
class RateChangeMixesWeights(GperftoolsLivingSamples):
    """Samples of different periods are all unbiased with the newest one."""

    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        # Correct: each with its own period.
        newest = next(reversed(self._alive))
        probability = chance(sample.counted_bytes, newest.hit.period_bytes)
        return 1 / probability, round(sample.usable_bytes / probability)


@GPERFTOOLS.bug("resize-in-place-clears-end", OURS, ("contents",), 3)
class ResizeInPlaceClearsEnd(BlockHeap):
    """A block that is resized in place loses the last byte that it keeps."""

    def copied(self, block: Block, resized: Block, requested_bytes: int) -> Block:
        copied = super().copied(block, resized, requested_bytes)
        if copied is block:
            copied.contents = copied.contents[:-1] + b"\0"  # Correct: nothing is written.
        return copied


# TCMalloc.


@TCMALLOC.bug("free-list-link-in-live-block", OURS, ("contents",), 3)
class FreeListLinkInLiveBlock(BlockHeap):
    """An allocation writes a link of its free list into the living block before."""

    _newest: Block | None = None

    def _take(self, class_bytes: int) -> Block:
        before, self._newest = self._newest, super()._take(class_bytes)
        if before is not None and before.class_bytes == class_bytes and before.contents:
            kept = before.contents[:-WORD_BYTES]
            before.contents = kept.ljust(len(before.contents), b"\0")  # Correct: nothing.
        return self._newest


@TCMALLOC.bug("dropped-sample-keeps-weight", "dd-trace-py issue 19293", ("sampling",), 4)
class DroppedSampleKeepsWeight(TcmallocSampler):
    """A sample that is dropped for lack of room passes its weight to the next one."""

    _samples = 0

    def pick(self) -> None:
        super().pick()
        self._samples += 1

    def count(self, counted_bytes: int) -> BlockSample | None:
        if self.left_bytes < counted_bytes and self._samples % 4 == 0:
            self._samples += 1
            self.left_bytes -= counted_bytes
            return None  # Correct: a fresh distance starts.
        return super().count(counted_bytes)


@TCMALLOC.bug(
    "first-event-wrong-weight",
    "OpenJDK JDK-8307488 and JDK-8362573, pull requests 14158 and 26900",
    ("sampling",),
    1,
)
class FirstEventWrongWeight(TcmallocSampler):
    """A thread's first sample has the weight of everything the thread has allocated."""

    _allocated_bytes = 0
    _is_first = True

    def count(self, counted_bytes: int) -> BlockSample | None:
        self._allocated_bytes += counted_bytes
        return super().count(counted_bytes)

    def hit(self) -> BlockSample:
        if self._is_first:
            self._is_first = False
            # Correct: as for every other.
            return BlockSample(self.picked_period_bytes, self._allocated_bytes)
        return super().hit()


@TCMALLOC.bug("weight-since-last-sample", "ddtrace 4.16.0, measured", ("sampling",), 1)
class WeightSinceLastSample(TcmallocSampler):
    """A sample's weight is all bytes since the last: small sites count for too little."""

    _since_last_bytes = 0

    def count(self, counted_bytes: int) -> BlockSample | None:
        self._since_last_bytes += counted_bytes
        return super().count(counted_bytes)

    def hit(self) -> BlockSample:
        # Correct: the period, and the bytes after the drawn one.
        weight_bytes, self._since_last_bytes = self._since_last_bytes, 0
        return BlockSample(self.picked_period_bytes, weight_bytes)


@TCMALLOC.bug("clamped-weight-vanishes", "dd-trace-rb issue 3760", ("sampling",), 1)
class ClampedWeightVanishes(TcmallocSampler):
    """A weight beyond its field's limit is cut, and the rest is lost."""

    WEIGHT_BYTES_MAX = 2**16 - 1

    def hit(self) -> BlockSample:
        hit = super().hit()
        assert hit.weight_bytes is not None
        # Correct: the whole weight.
        return BlockSample(hit.period_bytes, min(hit.weight_bytes, self.WEIGHT_BYTES_MAX))


@TCMALLOC.bug(
    "size-raised-to-interval",
    "async-profiler issues 873 and 876; Seastar issue 46",
    ("sampling",),
    1,
)
class SizeRaisedToInterval(TcmallocSampler):
    """A sample's weight is the larger of its block's size and the period."""

    def count(self, counted_bytes: int) -> BlockSample | None:
        hit = super().count(counted_bytes)
        if hit is None:
            return None
        # Correct: the period, and the bytes after the drawn one.
        return BlockSample(hit.period_bytes, max(counted_bytes, hit.period_bytes))


@TCMALLOC.bug("zero-draw-stops-sampling", "dd-trace-py issue 16893", ("sampling",), 1)
class ZeroDrawStopsSampling(TcmallocSampler):
    """A random number of 0 has no logarithm: nothing is sampled again."""

    NUMBER_BITS = 7
    """How many bits of a number are used: few, so that it is often 0."""

    def pick(self) -> None:
        super().pick()
        if self.left_bytes > self.NUMBER_BITS * math.log(2) * self.period_bytes:
            self.left_bytes = NEVER_BYTES  # Correct: the drawn one.


@TCMALLOC.bug("rate-one-samples-nothing", "mimalloc issue 1085", ("sampling",), 1)
class RateOneSamplesNothing(TcmallocSampler):
    """A period of one byte samples nothing instead of everything."""

    def pick(self) -> None:
        super().pick()
        if self.period_bytes == 1:
            self.left_bytes = NEVER_BYTES  # Correct: 0.


# Published in 2025 and 2026.


@JEMALLOC.bug("flush-advances-sampler", "pyroscope-rs issue 572", ("sampling",), 2)
class FlushAdvancesSampler(BlockHeap):
    """Reading the profile advances the sampler, as if a page had been allocated."""

    PAGE_BYTES = 4096

    def profile(self) -> tuple[int, int]:
        self._samplers[self.thread].count(self.PAGE_BYTES)  # Correct: nothing.
        return super().profile()


@JEMALLOC.bug("one-counter-for-all", "dd-trace-py issue 18657", ("sampling",), 1)
class OneCounterForAll(BlockHeap):
    """All threads count with one sampler: the blocks of one cause samples of another."""

    def __init__(
        self, parts: BlockParts, period_bytes: int, sampler_seeds: tuple[int, ...]
    ) -> None:
        super().__init__(parts, period_bytes, sampler_seeds)
        self._samplers = self._samplers[:1] * len(sampler_seeds)  # Correct: each has its own.


@JEMALLOC.bug("address-in-seed", "mimalloc-pprof issue 91", ("sampling",), 1)
class AddressInSeed(JemallocSampler):
    """The address of the sampler is mixed into the documented seed."""

    ADDRESS = 0x7F3A5C201400
    """Stands for that address."""

    def __init__(self, seed: int, period_bytes: int) -> None:
        super().__init__(seed ^ self.ADDRESS, period_bytes)  # Correct: the seed.


@JEMALLOC.bug("thread-slots-not-zeroed", "mimalloc-pprof issue 148", ("sampling",), 1)
class ThreadSlotsNotZeroed(BlockHeap):
    """The counters of later threads are in memory that is not zero when their table grows."""

    FIRST_SLOTS, GARBAGE = 2, 2**40

    def __init__(
        self, parts: BlockParts, period_bytes: int, sampler_seeds: tuple[int, ...]
    ) -> None:
        super().__init__(parts, period_bytes, sampler_seeds)
        for sampler in self._samplers[self.FIRST_SLOTS :]:
            assert isinstance(sampler, JemallocSampler)
            sampler.allocated_bytes = self.GARBAGE  # Correct: 0.


@JEMALLOC.bug("counted-in-two-domains", "NumPy issue 30902", ("sampling",), 1)
class CountedInTwoDomains(BlockHeap):
    """A block of zeros is counted by the library and, again, by the allocator below it."""

    def calloc(self, count: int, size_bytes: int) -> Block:
        counted_bytes = self._sizes.counted_bytes(count * size_bytes)
        self._samplers[self.thread].count(counted_bytes)  # Correct: malloc counts it, once.
        return super().calloc(count, size_bytes)


@GPERFTOOLS.bug("one-layer-corrected", "pyroscope-dotnet issue 246", ("estimate",), 2)
class OneLayerCorrected(GperftoolsLivingSamples):
    """Of two samplers, one behind the other, the profile corrects one: 10 times too low."""

    SECOND_LAYER = 10

    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        objects, size_bytes = super().stands_for(sample)
        # Correct: nothing is divided.
        return objects / self.SECOND_LAYER, size_bytes // self.SECOND_LAYER


@TCMALLOC.bug("reused-class-estimate", "tcmalloc issue 273", ("estimate",), 2)
class ReusedClassEstimate(TcmallocLivingSamples):
    """Where classes are reused, the bytes of a sample are those of another one: 20 % off."""

    def stands_for(self, sample: SampledBlock) -> tuple[float, int]:
        objects, represented_bytes = super().stands_for(sample)
        return objects, represented_bytes * 6 // 5  # Correct: represented_bytes.


@TCMALLOC.bug(
    "forced-sample-leaves-weight", "OpenJDK JDK-8381985, pull request 30661", ("sampling",), 3
)
class ForcedSampleLeavesWeight(TcmallocSampler):
    """The sample of a resized block leaves its weight for the next sample."""

    _left: BlockSample | None = None

    def count_resized(self, counted_bytes: int) -> BlockSample | None:
        hit = super().count_resized(counted_bytes)
        self._left = hit or self._left
        return hit

    def hit(self) -> BlockSample:
        left, self._left = self._left, None
        return left or super().hit()  # Correct: its own weight.


@TCMALLOC.bug("refused-sample-vanishes", "libdatadog at 9d6b2ffb, measured", ("sampling",), 1)
class RefusedSampleVanishes(TcmallocSampler):
    """The sample of a block of whole KiB is refused, and its bytes are lost."""

    REFUSED_MULTIPLE_BYTES = 1024
    """Stands for a large alignment."""

    def count(self, counted_bytes: int) -> BlockSample | None:
        hit = super().count(counted_bytes)
        if (counted_bytes - 1) % self.REFUSED_MULTIPLE_BYTES == 0 and counted_bytes > 1:
            return None  # Correct: its sample.
        return hit


@TCMALLOC.bug("absorbing-generator-state", "libdatadog at 9d6b2ffb, measured", ("sampling",), 2)
class AbsorbingGeneratorState(TcmallocSampler):
    """From one state on, the generator returns 0 forever, and each block is sampled."""

    ABSORBED_PERIODS = 3
    """A distance longer than these periods stands for that state."""
    _is_absorbed = False

    def pick(self) -> None:
        super().pick()
        if self._is_absorbed:
            self.left_bytes = 0  # Correct: the drawn one.
        self._is_absorbed |= self.left_bytes > self.ABSORBED_PERIODS * self.period_bytes
