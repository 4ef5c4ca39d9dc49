"""Known bugs of samplers: of those with distances at random, and of those of several threads.

Like those of known_bugs, each is a small change to one part of gcmodel.
"""

from __future__ import annotations

from fuzz.targets.bugs.known_bug import Host
from gcmodel import CONTEXTS, SHIPPED_CONTEXTS, Parts
from gcmodel.memory.configuration import Configuration
from gcmodel.memory.events import Events
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import Object
from gcmodel.sampling.contexts import ContextSampling
from gcmodel.sampling.distances import DotnetDocument
from gcmodel.sampling.sample_point import Sampling
from gcmodel.sampling.shipped_contexts import ShippedSampling

GEOMETRIC = Host("reference-geometric", Parts())
RANDOM = Host("reference-random", Parts())
DOTNET = Host("reference-dotnet", SHIPPED_CONTEXTS)
DOTNET_DOCUMENT = Host("reference-dotnet-document", CONTEXTS)

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


@DOTNET_DOCUMENT.bug(
    "outside-tlab-desync", "OpenJDK JDK-8356372, pull request 25114", ("sampling",), 4
)
class OutsideDesync(ContextSampling):
    """An object outside the thread's buffer moves one of two variables that say when to sample."""

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        super().allocated_outside(obj, counted_bytes)
        context = self._threads.contexts[self._threads.thread]
        if self.period_bytes and context.combined_limit < context.alloc_limit:
            # Correct: nothing. A distance of its own has judged the object.
            limit = max(context.combined_limit - counted_bytes, context.alloc_ptr)
            context.combined_limit = limit


@DOTNET_DOCUMENT.bug("flush-only-at-refill", "OpenJ9 issue 7740, fixed by 9745", ("sampling",), 3)
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


@DOTNET_DOCUMENT.bug("deaf-after-enable", "HotSpot 17 and 21, measured", ("sampling",), 3)
class DeafAfterEnable(ContextSampling):
    """After sampling is enabled nothing is sampled until the thread's buffer is used up."""

    def begin(self) -> None:
        super().begin()
        self.end()  # Correct: nothing more. What was drawn ends in the middle of a context.


@DOTNET_DOCUMENT.bug("stale-bytes-after-enable", "HotSpot 25.0.2, measured", ("sampling",), 4)
class StaleBytesAfterEnable(ContextSampling):
    """What was allocated while sampling was off is charged to the first object after it."""

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._counted_from = [0] * len(self._distances)

    def begin(self) -> None:
        for thread, context in enumerate(self._threads.contexts):
            # Correct: from alloc_ptr on.
            sampling_limit = max(self._counted_from[thread] + self._draw(thread), context.alloc_ptr)
            context.combined_limit = min(sampling_limit, context.alloc_limit)

    def draw_limit(self, thread: int) -> None:
        super().draw_limit(thread)
        self._counted_from[thread] = self._threads.contexts[thread].alloc_ptr


@DOTNET_DOCUMENT.bug("retired-buffer-charged", "HotSpot 17 and 21, measured", ("sampling",), 4)
class RetiredBufferCharged(ContextSampling):
    """A collection retires a thread's buffer and charges what was left of it to the next object."""

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._charged_bytes = [0] * len(self._distances)

    def before_minor_collection(self) -> None:
        # Correct: nothing. Nobody has allocated these bytes.
        self._charged_bytes = [context.left_bytes for context in self._threads.contexts]

    def _draw(self, thread: int) -> int:
        charged_bytes, self._charged_bytes[thread] = self._charged_bytes[thread], 0
        return max(super()._draw(thread) - charged_bytes, 0)


@DOTNET_DOCUMENT.bug("shared-generator-reseeded", "HotSpot 17 to 25, measured", ("sampling",), 2)
class SharedGeneratorReseeded(ContextSampling):
    """A thread that begins seeds the one generator of all threads anew: distances repeat."""

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._seeds = configuration.sampler_seeds
        self._begun: set[int] = set()

    def judge(self, size_bytes: int) -> int:
        thread = self._threads.thread
        if thread not in self._begun:
            self._begun.add(thread)
            # Correct: nothing. Each thread has a generator of its own, seeded once.
            self._distances = [DotnetDocument(self._seeds[thread])] * len(self._seeds)
        return super().judge(size_bytes)


@DOTNET_DOCUMENT.bug("only-starting-thread", "memray, review of pull request 94", ("sampling",), 3)
class OnlyStartingThread(ContextSampling):
    """Only the thread that enables sampling draws a distance, that of all others is 0."""

    def begin(self) -> None:
        super().begin()
        for thread, context in enumerate(self._threads.contexts):
            if thread != self._threads.thread:
                context.combined_limit = context.alloc_ptr  # Correct: what each has drawn.


# Allocation contexts, as they ship.


@DOTNET.bug("outside-drawn-apart", ".NET's design document", ("sampling",), 3)
class OutsideDrawnApart(ShippedSampling):
    """An object outside is judged by a distance of its own, whatever its context has left."""

    def judge_outside(self, size_bytes: int) -> None:
        # Correct: the distance of the context judges what that has left first.
        drawn = self._draw(self._threads.thread) if self.period_bytes else size_bytes
        self.samples_outside = self.succeed(size_bytes, drawn)


@DOTNET.bug("enabling-draws", ".NET's design document", ("sampling",), 3)
class EnablingDraws(ShippedSampling):
    """Enabling draws a distance for each thread, in the middle of its context."""

    def begin(self) -> None:
        super().begin()
        for thread in range(len(self._distances)):
            self.draw_limit(thread)  # Correct: nothing.
