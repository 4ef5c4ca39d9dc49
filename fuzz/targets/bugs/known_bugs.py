"""Known bugs: real bugs of products, and some of our own, planted in the reference.

Each is a small change to one part of gcmodel: a subclass that overrides the method with the
mistake. A comment states the correct behaviour at the wrong line. Bugs that need another host than
`reference` are in the other modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fuzz.targets.bugs import (  # noqa: F401
    block_bugs,
    exhaustion_bugs,
    finalizer_bugs,
    group_bugs,
    sampler_bugs,
    thread_bugs,
)
from fuzz.targets.bugs.known_bug import DECLARED, Host
from gcmodel import Configuration, Kind, Parts
from gcmodel.collector.barrier import Barrier
from gcmodel.collector.heap import Heap
from gcmodel.collector.identities import Identities
from gcmodel.collector.major import FINALIZING, MajorCollection, MajorHeap
from gcmodel.collector.minor import MinorCollection
from gcmodel.collector.pinning import Pinning
from gcmodel.collector.weakrefs import Weakrefs
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.nursery import Nursery
from gcmodel.memory.objects import CARDS_SET, NO_HEAP_REFERENCES, TRACK_YOUNG, VISITED_YOUNG, Object
from gcmodel.sampling.sample_point import Sampling
from gcmodel.sampling.sampler import REPORT_OUTSIDE, REPORT_SURVIVED
from gcmodel.sampling.slow_path import Allocation

REFERENCE = Host("reference", Parts())
FORK = "PyPy's sampling fork"
OURS = "our own"

# Sampling.


@REFERENCE.bug(
    "disable-before-enable", "PyPy; Jung and Bolz-Tereick, section 3.7", ("heap", "pointers"), 1
)
class DisableBeforeEnable(Sampling):
    """Disabling before the first enabling sets the limit from an uninitialised top."""

    _saved_top = 0

    def enable(self, period_bytes: int) -> None:
        self._saved_top = self._nursery.nursery_top - self._nursery.nursery_start
        super().enable(period_bytes)

    def disable(self) -> None:
        super().disable()
        # Correct: nursery_limit = nursery_top. Never enabled, the saved top is uninitialised.
        self._nursery.nursery_limit = self._nursery.nursery_start + self._saved_top


@REFERENCE.bug(
    "one-sample-per-object",
    "Jung and Bolz-Tereick, listings 4 and 5, as simplified in print",
    ("sampling",),
    2,
)
class OneSamplePerObject(Sampling):
    """An object that passes several sample points is sampled once."""

    def pass_sample_points(self, end: int) -> list[int]:
        passed = []
        while self.is_due(end):
            passed = [end - self.sample_point]  # Correct: add it, and an event for each.
            self.sample_point += self.next_distance()
        if passed:
            self._events.sample()
        return passed


@REFERENCE.bug(
    "stale-limit-after-large", f"{FORK}, external_malloc", ("pointers", "transparency"), 3
)
class StaleLimitAfterLarge(Sampling):
    """A large object moves the sample point past the nursery, but the limit stays."""

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        limit = self._nursery.nursery_limit
        super().allocated_outside(obj, counted_bytes)
        if self.period_bytes and self.sample_point > self._nursery.nursery_top:
            self._nursery.nursery_limit = limit  # Correct: nursery_top.


@REFERENCE.bug(
    "pressure-taken-for-sample",
    f"{FORK}, raw_malloc_memory_pressure",
    ("sampling", "transparency", "pointers"),
    3,
)
class PressureTakenForSample(Nursery):
    """Memory pressure fills the nursery up to the sample point: a sample, no collection."""

    def make_collection_due(self) -> None:
        # Correct: nursery_limit = nursery_free, and a collection is due. While sampling is on, the
        # limit is the sample point, so that the slow path takes a sample and does not collect.
        self.nursery_free = self.nursery_limit


@REFERENCE.bug("second-minor-reads-null", f"{FORK}, collect_and_reserve", ("heap",), 4)
class SecondMinorReadsNull(Allocation):
    """The second minor collection of one allocation reads the cleared free pointer."""

    def _collect(self, collections: int) -> int:
        if collections:
            cleared: Any = None
            self._heap.nursery.nursery_free = cleared  # Correct: where the object begins.
        return super()._collect(collections)


@REFERENCE.bug("fork-keeps-young-samples", f"{FORK}, after_fork", ("survival", "heap"), 5)
class ForkKeepsYoungSamples(Sampling):
    """A forked child that is sampled again reports the samples of its parent."""

    def after_fork(self) -> None:
        self.period_bytes = 0  # Correct: disable, which drops the pending samples.
        self.paused_period_bytes = 0
        self.set_limit()

    def report(self, statistics: Callable[[], tuple[int, int, int]]) -> None:
        if self.period_bytes:  # Correct as well: while it is off, nothing is pending.
            super().report(statistics)


@REFERENCE.bug(
    "rotating-nursery-old-limit", f"{FORK}, debug_rotate_nursery", ("pointers", "heap"), 2
)
class RotatingNurseryOldLimit(Sampling):
    """The nursery moves, but the limit and the sample point stay in the old one."""

    _old_start = 0

    def before_minor_collection(self) -> None:
        self._old_start = self._nursery.nursery_start
        super().before_minor_collection()

    def after_minor_collection(self) -> None:
        if self.period_bytes:
            # Correct: nursery_free, which is where the nursery starts now.
            self.sample_point = self._old_start + self._bytes_until_sample
            self.set_limit()


@REFERENCE.bug(
    "enable-beside-old-obstacle", f"{FORK}, collect_and_reserve", ("sampling", "pointers"), 5
)
class EnableBesideOldObstacle(Sampling):
    """Sampling is enabled before an old obstacle: no object behind it is sampled."""

    def jumped(self, jump_bytes: int) -> None:
        # Correct: the sample point moves by the jump, and the limit is not beyond it.
        self._nursery.set_limit(None)


@REFERENCE.bug("nonyoung-reported-dead", f"{FORK}, _vmprof_report_minor_gc", ("survival",), 3)
class NonyoungReportedDead(Sampling):
    """A sampled object that was allocated old is reported dead while it lives."""

    def has_survived(self, obj: Object) -> bool:
        # Correct: an object that was allocated old, which no minor collection visits, survives too.
        return obj.forwarded_to is not None or bool(obj.flags & VISITED_YOUNG)


@REFERENCE.bug(
    "restart-loses-period",
    f"{FORK}, rvmprof's stop_sampling and start_sampling",
    ("sampling", "pointers"),
    3,
)
class RestartLosesPeriod(Sampling):
    """Stopping zeroes the period that starting tests: nothing is sampled again."""

    def pause(self) -> None:
        self.disable()
        self.paused_period_bytes = self.period_bytes  # Correct: what it was before disabling.


class LimitAtFree(Nursery):
    """The fast path compares with `>=`, so that equality takes the slow path."""

    def allocate(self, size_bytes: int) -> int:
        result = self.nursery_free
        self.nursery_free = result + size_bytes
        if self.nursery_free >= self.nursery_limit:  # Correct: >.
            result = self._reserve(size_bytes)
        return result


@REFERENCE.bug("sample-on-equality", f"{OURS}: >= for >", ("sampling",), 2, LimitAtFree)
class SampleAtPoint(Sampling):
    """An object that ends exactly at the sample point is sampled."""

    def is_due(self, end: int) -> bool:
        return self.sample_point <= end  # Correct: <.


@REFERENCE.bug("sample-point-stays", OURS, ("sampling", "pointers"), 2)
class SamplePointStays(Sampling):
    """A minor collection does not move the sample point."""

    def after_minor_collection(self) -> None:
        self.set_limit()  # Correct: the sample point moves with nursery_free first.


@REFERENCE.bug("large-objects-uncounted", OURS, ("sampling", "pointers"), 2)
class LargeObjectsUncounted(Sampling):
    """Objects outside the nursery are not counted."""

    def allocated_outside(self, obj: Object, counted_bytes: int) -> None:
        pass  # Correct: sample_point -= counted_bytes, and sample.


@REFERENCE.bug("sampled-bytes-count-twice", OURS, ("transparency",), 3)
class SampledBytesCountTwice(Allocation):
    """A sampled object outside the nursery brings the next major collection forward."""

    def outside(self, kind: Kind, raw_bytes: int, number: int, length: int) -> Object:
        obj = super().outside(kind, raw_bytes, number, length)
        if obj in self._heap.sampling.pending:
            # Correct: sampling does not change the threshold.
            assert isinstance(self._heap, Heap)
            self._heap.major.threshold_bytes -= raw_bytes
        return obj


@REFERENCE.bug("sample-eats-guard-budget", "jemalloc issue 2975", ("transparency",), 3)
class SampleEatsGuardBudget(Allocation):
    """A sample in the nursery makes the next collection come sooner."""

    def collect_and_reserve(self, size_bytes: int) -> int:
        address = super().collect_and_reserve(size_bytes)
        if address in self._heap.sampling.pending:
            # Correct: a sample takes nothing from the budget of collections.
            assert isinstance(self._heap, Heap)
            self._heap.major.threshold_bytes -= 2 * self._heap.configuration.nursery_bytes
        return address


@REFERENCE.bug("recorded-type-unrooted", "Julia issue 62449", ("survival",), 4)
class RecordedTypeUnrooted(Sampling):
    """The type of a dead sampled object is freed before the report reads it."""

    def _entry(self, sampled: int | Object) -> int:
        entry = super()._entry(sampled)
        # Correct: the type is kept until it is reported.
        return entry if entry & REPORT_SURVIVED else entry & REPORT_OUTSIDE


# The collector.


@REFERENCE.bug(
    "arraycopy-skips-barrier-while-marking",
    "PyPy issue 4925; in the rpython 0.2.1 release, fixed in 2024",
    ("heap",),
    10,
)
class CopyTrustsFlagsWhileMarking(Barrier):
    """An array copy trusts the source's young flag while marking: a live object is freed."""

    def __init__(self, configuration: Configuration, is_marking: Callable[[], bool]) -> None:
        # Correct: is_marking. While marking, a source without young objects may have white ones,
        # and the destination may be black.
        super().__init__(configuration, lambda: False)


@REFERENCE.bug(
    "arraycopy-clean-cards",
    "PyPy, found with gcfuzz: `gcfuzz help findings/arraycopy-clean-cards`",
    ("heap",),
    11,
)
class CopyListsOnlyCopiedCards(Barrier):
    """A copy beside the source's dirty cards leaves a black array: a live object is freed."""

    def _before_copy_of_cards(
        self, source: Object, dest: Object, source_start: int, dest_start: int, length: int
    ) -> None:
        was_listed, has_dirty_cards = dest.flags & CARDS_SET, source.flags & CARDS_SET
        super()._before_copy_of_cards(source, dest, source_start, dest_start, length)
        # Correct: nothing more. While marking, a destination without dirty cards is listed too.
        if has_dirty_cards and dest.flags & CARDS_SET and not (was_listed or dest.cards):
            dest.flags &= ~CARDS_SET
            self.dirty_arrays.remove(dest)


@REFERENCE.bug("arraycopy-prebuilt", "PyPy, commit 3fb1b086", ("heap",), 7)
class CopyForgetsPrebuilt(Barrier):
    """A copy into a prebuilt array does not make it a root: a live object is freed."""

    def before_copy(
        self, source: Object, dest: Object, source_start: int, dest_start: int, length: int
    ) -> None:
        had_none = dest.flags & NO_HEAP_REFERENCES
        super().before_copy(source, dest, source_start, dest_start, length)
        if had_none and dest.flags & TRACK_YOUNG and dest in self.prebuilt_roots:
            # Correct: it stays a root even if no copied object is young.
            dest.flags |= NO_HEAP_REFERENCES
            self.prebuilt_roots.remove(dest)


@REFERENCE.bug("write-after-prebuilt-copy", "PyPy, commit 345aaf99", ("heap",), 7)
class CopyBetweenPrebuilt(Barrier):
    """A copy between prebuilt arrays hides the next write into one: a live object is freed."""

    def before_copy(
        self, source: Object, dest: Object, source_start: int, dest_start: int, length: int
    ) -> None:
        had_none = dest.flags & source.flags & NO_HEAP_REFERENCES
        super().before_copy(source, dest, source_start, dest_start, length)
        if had_none and dest in self.prebuilt_roots:
            # Correct: it is a root, since the next write into it has no barrier.
            dest.flags |= NO_HEAP_REFERENCES
            self.prebuilt_roots.remove(dest)


@REFERENCE.bug("arrayfill-skips-barrier", OURS, ("heap",), 4)
class FillSkipsBarrier(Barrier):
    """An old array that is filled with a young object is not remembered."""

    def before_fill(self, array: Object) -> None:
        pass  # Correct: remember an old array.


@REFERENCE.bug("arraymove-keeps-cards", OURS, ("heap",), 5)
class MoveKeepsCards(Barrier):
    """Young items are moved within an old array to cards that are not dirty."""

    def before_move(self, array: Object) -> None:
        pass  # Correct: remember an array with dirty cards, all of which the collection traces.


@REFERENCE.bug("pinned-shadow-visited", "PyPy, commit 96a224bd", ("heap",), 6)
class PinnedShadowWhite(Identities):
    """A major collection frees the place that is reserved for a pinned object's identity."""

    def after_minor_collection(self, pinned: Mapping[int, Object], is_marking: bool) -> None:
        super().after_minor_collection(pinned, is_marking=False)  # Correct: is_marking.


@REFERENCE.bug("pinned-white-object", "PyPy issues 4900 and 2363", ("heap",), 9)
class PinnedWhiteObject(Pinning):
    """Unpinning while marking leaves a black object that refers to a white one."""

    def losing_a_pin(self, parents: list[Object]) -> list[Object]:
        return []  # Correct: its parents, which become gray again.


@REFERENCE.bug("stale-nursery-pointer", "pyre issue 1199", ("heap",), 4)
class LastCardLeftOut(MinorCollection):
    """A minor collection leaves an old array's item pointing into the nursery."""

    def _drag_out_card(self, array: Object, card: int) -> None:
        items = self._heap.configuration.card_items
        if (card + 1) * items <= len(array.refs):  # Correct: up to the array's end.
            super()._drag_out_card(array, card)


# Published in 2025 and 2026.


@REFERENCE.bug("barrier-not-emitted", "Julia issue 59547", ("heap",), 4)
class BarrierNotEmitted(Barrier):
    """A compiler leaves out the write barrier for the first item of an old array."""

    def before_write(self, obj: Object, index: int) -> None:
        if obj.kind is not Kind.ARRAY or index:  # Correct: for each item.
            super().before_write(obj, index)


@REFERENCE.bug("frame-top-without-barrier", "SOM++ issue 97", ("heap",), 4)
class FrameTopWithoutBarrier(Barrier):
    """A store to the top of an old frame, here the end of an array, is not remembered."""

    def before_write(self, obj: Object, index: int) -> None:
        if obj.kind is not Kind.ARRAY or index + 1 < len(obj.refs):  # Correct: the end too.
            super().before_write(obj, index)


@REFERENCE.bug("visitor-skips-permanent", "CPython issue 156395", ("heap",), 6)
class VisitorSkipsPermanent(MajorCollection):
    """A major collection does not visit immortal objects: what only they refer to is freed."""

    def _scan_roots(self) -> None:
        super()._scan_roots()
        permanent = self._heap.barrier.prebuilt_roots
        self.to_trace = [obj for obj in self.to_trace if obj not in permanent]

    def _finish_marking(self) -> None:
        barrier = self._heap.barrier
        permanent, barrier.prebuilt_roots = barrier.prebuilt_roots, []
        super()._finish_marking()
        barrier.prebuilt_roots = permanent  # Correct: they are visited, too.


@REFERENCE.bug("collector-stops-starting", "OCaml issue 14073", ("memory",), 3)
class CollectorStopsStarting(MajorCollection):
    """After a number of full collections no allocation begins a major collection any more."""

    FULL_MAX = 2
    _full = 0

    def collect(self) -> None:
        super().collect()
        self._full += 1

    def threshold_reached(self, extra_bytes: int) -> bool:
        # Correct: regardless of their number.
        return self._full < self.FULL_MAX and super().threshold_reached(extra_bytes)


@REFERENCE.bug("process-size-defers", "CPython issue 148937", ("memory",), 1)
class ProcessSizeDefers(MajorCollection):
    """The threshold is compared with the size of the process: collections come 40 times later."""

    DEFERRED = 40

    def threshold_reached(self, extra_bytes: int) -> bool:
        used_bytes = self._heap.memory_used_bytes()
        # Correct: the bytes in use are compared with the threshold.
        return self.DEFERRED * self.threshold_bytes - used_bytes < extra_bytes


@REFERENCE.bug("expected-collection-missed", "CPython issue 142002", ("memory",), 2)
class ExpectedCollectionMissed(MajorCollection):
    """Right after one cycle of an incremental collector, the next one does not begin."""

    _is_missed = False

    def threshold_reached(self, extra_bytes: int) -> bool:
        is_reached = super().threshold_reached(extra_bytes)
        self._is_missed = is_reached and self.started > 0 and not self._is_missed
        return is_reached and not self._is_missed  # Correct: is_reached.


# All times.


@REFERENCE.bug("forgotten-remembered-entry", "every generational collector once", ("heap",), 4)
class ForgottenRememberedEntry(Barrier):
    """An old object that refers to a young one is not remembered."""

    def before_write(self, obj: Object, index: int) -> None:
        if obj.cards is not None:  # Correct: without cards, obj itself is remembered.
            super().before_write(obj, index)


@REFERENCE.bug("age-overflows", "our own: an age in four bits, as in HotSpot", ("heap",), 19)
class AgeOverflows(MajorCollection):
    """An identity is forgotten after 16 major collections, because its age has four bits."""

    _AGES = 16

    def __init__(self, heap: MajorHeap) -> None:
        super().__init__(heap)
        self._ages: dict[Object, int] = {}

    def step(self, reserve_bytes: int) -> bool:
        was_finalizing = self.state is FINALIZING
        has_changed = super().step(reserve_bytes)
        if was_finalizing:
            self._make_older()
        return has_changed

    def _make_older(self) -> None:
        for obj in self._heap.roots:
            if obj.identity:
                # Correct: min(age + 1, self._AGES - 1).
                self._ages[obj] = (self._ages.get(obj, 0) + 1) % self._AGES
                if not self._ages[obj]:
                    obj.identity = 0


@REFERENCE.bug(
    "shadow-keeps-number", f"{OURS}: gcmodel had it, and this harness found it", ("heap",), 4
)
class ShadowKeepsNumber(Identities):
    """A node that is written after its identity was taken moves with its old integer."""

    def move_to_shadow(self, obj: Object) -> Object:
        shadow = self._shadows[obj]
        reserved = shadow.number
        super().move_to_shadow(obj)
        shadow.number = reserved  # Correct: obj.number, which may be newer.
        return shadow


@REFERENCE.bug("word-lost-by-large", OURS, ("pointers",), 1)
class WordLostByLarge(Allocation):
    """An object outside the nursery takes a word of it too."""

    def outside(self, kind: Kind, raw_bytes: int, number: int, length: int) -> Object:
        obj = super().outside(kind, raw_bytes, number, length)
        nursery = self._heap.nursery
        if nursery.nursery_free + WORD_BYTES <= nursery.nursery_top:
            # Correct: nothing. The sample point moves too, so that only a pointer shows it.
            sampling = self._heap.sampling
            assert isinstance(sampling, Sampling)
            nursery.nursery_free += WORD_BYTES
            sampling.jumped(WORD_BYTES)
        return obj


@REFERENCE.bug("callback-runs-twice", OURS, ("minors", "transparency"), 3)
class CallbackRunsTwice(Allocation):
    """While sampling is off, a callback that fills a quarter of the nursery runs twice."""

    def _collect(self, collections: int) -> int:
        done = super()._collect(collections)
        heap, nursery = self._heap, self._heap.nursery
        size_bytes = nursery.nursery_free - nursery.nursery_start
        is_much = 4 * size_bytes > heap.configuration.nursery_bytes
        if not collections and is_much and not heap.sampling.period_bytes:
            # Correct: nothing. Here the second string gets an empty nursery.
            heap.collect_minor()
            nursery.allocate(size_bytes)
        return done


@REFERENCE.bug("move-cuts-string", OURS, ("contents",), 3)
class MoveCutsString(MinorCollection):
    """A string that moves keeps its first two words, and the others are zero."""

    KEPT_BYTES = 2 * WORD_BYTES

    def _move_out(self, obj: Object) -> Object:
        moved = super()._move_out(obj)
        # Correct: all of them.
        moved.contents = moved.contents[: self.KEPT_BYTES].ljust(len(moved.contents), b"\0")
        return moved


@REFERENCE.bug("weak-read-takes-neighbour", OURS, ("heap",), 6)
class WeakReadTakesNeighbour(Weakrefs):
    """A weak reference is read and kept, and the object of another one becomes the root."""

    def followed(self, weakref: Object) -> Object:
        # Correct: its own. Only the object shows that: both are alive.
        beside = [each for each in self.old if each is not weakref]
        return super().followed(beside[0] if beside else weakref)


KNOWN_BUGS = {bug.id: bug for bug in sorted(DECLARED, key=lambda bug: bug.host != REFERENCE.name)}
"""All known bugs, those of the plain reference first."""


def planted_parts(bugs: Sequence[str]) -> dict[str, type[Any]]:
    """The parts with these bugs. If bugs share a part, the first bug is outermost."""
    mistakes: dict[str, list[type[Any]]] = {}
    for bug in bugs:
        for part, mistake in KNOWN_BUGS[bug].parts.items():
            mistakes.setdefault(part, []).append(mistake)
    return {
        part: type("Planted", tuple(classes), {}) if len(classes) > 1 else classes[0]
        for part, classes in mistakes.items()
    }
