"""Known bugs of samplers with random distances, and of samplers of several threads.

Like those of known_bugs, each is a small change to one part of gcmodel.
"""

from __future__ import annotations

from fuzz.targets.bugs.known_bug import Host
from gcmodel import CONTEXTS, SHIPPED_CONTEXTS, TLABS, TLABS_CHARGED_AHEAD, Parts
from gcmodel.memory.configuration import Configuration
from gcmodel.memory.events import Events
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import Object
from gcmodel.sampling.contexts import ContextSampling
from gcmodel.sampling.distances import Hotspot
from gcmodel.sampling.sample_point import Sampling
from gcmodel.sampling.shipped_contexts import ShippedSampling
from gcmodel.sampling.tlab import ChargingAhead, CountingAllocated, Placed

GEOMETRIC = Host("reference-geometric", Parts())
RANDOM = Host("reference-random", Parts())
DOTNET = Host("reference-dotnet", SHIPPED_CONTEXTS)
DOTNET_DOCUMENT = Host("reference-dotnet-document", CONTEXTS)
HOTSPOT = Host("reference-hotspot", TLABS)
HOTSPOT_17 = Host("reference-hotspot-17", TLABS_CHARGED_AHEAD)

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
        # Correct: the drawn distance, rounded to a word at most.
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
    """The sample point is the limit even if the nursery ends before it."""

    def set_limit(self, sample_point: int | None) -> None:
        super().set_limit(sample_point)
        if sample_point is not None and not self.is_collection_due:
            self.nursery_limit = sample_point  # Correct: only if it is in the nursery.


@GEOMETRIC.bug("off-bytes-charged", "libdatadog at 9d6b2ffb, measured", ("sampling", "pointers"), 2)
class OffBytesCharged(Sampling):
    """Bytes allocated outside while sampling is off are charged to the first object after it."""

    _off_bytes = 0

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        if not self.period_bytes:
            self._off_bytes += counted_bytes  # Correct: nothing.
        super().allocated_outside(obj, counted_bytes)

    def begin(self) -> None:
        super().begin()
        self.sample_point -= min(self._off_bytes, self.sample_point - self._nursery.nursery_free)
        self._off_bytes = 0
        self.set_limit()


@RANDOM.bug(
    "fixed-stride-bias",
    ".NET's AllocationTick; Nasarre and Falk, Randomized Allocation Sampling",
    ("estimate",),
    9,
)
class FixedStride(Sampling):
    """Samples are a fixed stride apart: a program in step with it shows only one of its sites."""

    def next_distance(self) -> int:
        return self.period_bytes  # Correct: a random distance.


# Allocation contexts.


@DOTNET_DOCUMENT.bug("flush-only-at-refill", "OpenJ9 issue 7740, fixed by 9745", ("sampling",), 3)
class FlushOnlyAtRefill(ContextSampling):
    """A thread samples only when its buffer is refilled."""

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._sampling_limits = [0] * len(self._distances)

    def draw_limit(self, thread: int) -> None:
        if self.period_bytes:
            context = self._threads.contexts[thread]
            # Correct: the combined limit is at most that.
            self._sampling_limits[thread] = context.alloc_ptr + self._draw(thread)

    def judge(self, size_bytes: int) -> int:
        thread = self._threads.thread
        context = self._threads.contexts[thread]
        if self.period_bytes and self._sampling_limits[thread] < context.alloc_ptr:
            return self.succeed(size_bytes, 0)
        return super().judge(size_bytes)


@DOTNET_DOCUMENT.bug("only-starting-thread", "memray, review of pull request 94", ("sampling",), 3)
class OnlyStartingThread(ContextSampling):
    """Only the thread that enables sampling draws a distance; that of all others is 0."""

    def begin(self) -> None:
        super().begin()
        for thread, context in enumerate(self._threads.contexts):
            if thread != self._threads.thread:
                context.combined_limit = context.alloc_ptr  # Correct: the distance of each.


# Allocation contexts, as .NET 10 ships them.


@DOTNET.bug("outside-drawn-apart", ".NET's design document", ("sampling",), 3)
class OutsideDrawnApart(ShippedSampling):
    """An object outside its context is judged by a fresh distance, not by the context's rest."""

    def judge_outside(self, size_bytes: int) -> None:
        # Correct: the rest of the context's distance comes first.
        drawn = self._draw(self._threads.thread) if self.period_bytes else size_bytes
        self.samples_outside = self.succeed(size_bytes, drawn)


@DOTNET.bug("enabling-draws", ".NET's design document", ("sampling",), 2)
class EnablingDraws(ShippedSampling):
    """Enabling draws a distance for each thread, in the middle of its context."""

    def begin(self) -> None:
        super().begin()
        for thread in range(len(self._distances)):
            self.draw_limit(thread)  # Correct: nothing.


# TLABs. Bugs of version 17, which version 25 has fixed, are planted in 25, and the reverse.


@HOTSPOT.bug(
    "outside-tlab-desync", "OpenJDK JDK-8356372, pull request 25114", ("sampling", "places"), 3
)
class OutsideDesync(CountingAllocated):
    """An object outside the TLAB charges the free bytes up to the sample point too early."""

    def notify(self, size_bytes: int, placed: Placed) -> int:
        if self.period_bytes and placed == "outside":
            # Correct: nothing. Bytes count when they are allocated.
            self._allocated[self._eden.thread].outside_bytes += self._eden.tlab.free_bytes
        return super().notify(size_bytes, placed)


@HOTSPOT.bug(
    "deaf-after-enable",
    "HotSpot 17 and 21, measured; OpenJDK JDK-8264411",
    ("sampling", "places"),
    3,
)
class DeafAfterEnable(CountingAllocated):
    """After sampling is enabled, nothing is sampled until the thread's TLAB is used up."""

    def is_looked_at(self, placed: Placed) -> bool:
        return (
            placed != "before the end"
        )  # Correct: always. While sampling was off, no end was set.


@HOTSPOT.bug("retired-buffer-charged", "HotSpot 17 and 21, measured", ("sampling", "places"), 3)
class RetiredBufferCharged(CountingAllocated):
    """A retired TLAB charges its rest up to its end to the next object."""

    def retire(self, thread: int) -> None:
        # Correct: nothing. These bytes were not allocated.
        self._allocated[thread].outside_bytes += self._eden.tlabs[thread].free_bytes
        super().retire(thread)


@HOTSPOT.bug("shared-generator-reseeded", "HotSpot 17 to 25, measured", ("sampling", "places"), 2)
class SharedGeneratorReseeded(CountingAllocated):
    """A thread that starts seeds the generator of all threads again: distances repeat."""

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._started = {0}

    def notify(self, size_bytes: int, placed: Placed) -> int:
        thread = self._eden.thread
        if thread not in self._started:
            self._started.add(thread)
            self._distances = Hotspot(thread)  # Correct: nothing. It is seeded once.
        return super().notify(size_bytes, placed)


@HOTSPOT_17.bug("stale-bytes-after-enable", "HotSpot 25.0.2, measured", ("sampling", "places"), 3)
class StaleBytesAfterEnable(ChargingAhead):
    """Bytes allocated while sampling was off are charged to the first object after it."""

    def notify(self, size_bytes: int, placed: Placed) -> int:
        if not self.period_bytes:
            self._charged_bytes[self._eden.thread] += size_bytes  # Correct: nothing.
        return super().notify(size_bytes, placed)
