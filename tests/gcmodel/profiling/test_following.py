"""What was live, at most and at the end: the heap's own figures if every word is sampled."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from recorded_programs import at_random

from gcmodel import Configuration, Heap
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.memory.objects import OUTSIDE, Object
from gcmodel.profiling.estimates import estimates, peak_estimate
from gcmodel.profiling.pprof import KINDS
from gcmodel.profiling.profile import LIFETIMES, NOT_FREED, Fate, Profile, ProfileSample
from gcmodel.profiling.recorder import Recorder
from gcmodel.profiling.recording import RecordingWriter, read
from gcmodel.profiling.sampled_run import PROFILED

Recorded = Callable[..., Profile]
SMALL = attrs.evolve(PROFILED, nursery_bytes=4096, large_object_bytes=1024)


def bytes_of(samples: list[ProfileSample]) -> int:
    return sum(each.weight_bytes for each in samples)


def come_and_go(heap: Heap) -> None:
    """A hundred strings, of which a major collection frees seventy; then ten arrays outside."""
    for _ in range(100):
        heap.allocate_string(300)
    heap.collect_full()
    del heap.roots[:70]
    heap.collect_full()
    for _ in range(10):
        heap.allocate_array(2000)
    heap.collect_full()
    del heap.roots[-4:]
    heap.collect_full()


def old_bytes(heap: Heap) -> int:
    """The live bytes right after a full collection, when nothing is young."""
    return sum(obj.size_bytes for obj in heap.roots)


def test_live_samples_at_the_end_are_what_the_heap_holds(recorded: Recorded) -> None:
    heaps: list[Heap] = []

    def program(heap: Heap) -> None:
        heaps.append(heap)
        come_and_go(heap)

    profile = recorded(program, WORD_BYTES)
    (heap,) = heaps
    live = profile.live(profile.ended_us)
    assert len(live) == len(heap.roots) == 36
    assert bytes_of(live) == pytest.approx(old_bytes(heap), abs=2 * WORD_BYTES)
    assert [each for each in profile.samples if KINDS["inuse"](each)] == live


def test_the_peak_is_the_most_that_the_heap_has_held(recorded: Recorded) -> None:
    held: list[int] = []

    def program(heap: Heap) -> None:
        for count in (50, 200, 100):
            for _ in range(count):
                heap.allocate_string(300)
            heap.collect_minor()
            held.append(old_bytes(heap))
            heap.roots.clear()
            heap.collect_full()

    profile = recorded(program, WORD_BYTES)
    peak = profile.live(profile.peak_us())
    assert bytes_of(peak) == pytest.approx(max(held), abs=2 * WORD_BYTES)
    assert len(peak) == 200
    assert profile.live(profile.ended_us) == []


class Exact:
    """Counts the fate of every object: `a_queue` is the program, `judge` the listener."""

    def __init__(self) -> None:
        self.collections = self.peak_bytes = self.live_bytes = 0
        self.by_lifetime: Counter[int | None] = Counter()
        """The bytes by the number of collections that they lived through; None if they live."""
        self._followed: list[tuple[Object, int]] = []

    def a_queue(self, heap: Heap) -> None:
        """Strings that wait for their turn, longer and longer, and others that die at once."""
        for number in range(3000):
            for length in (40, 8 * (number % 5)):
                heap.allocate_string(length)
                self._followed.append((heap.roots[-1], self.collections))
                self.live_bytes += heap.roots[-1].size_bytes
                self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            heap.free(len(heap.roots) - 1)
            if number >= 100 + number // 10:
                heap.free(0)

    def judge(self, _recorder: Recorder) -> None:
        followed, self._followed = self._followed, []
        for obj, born in followed:
            now = obj.forwarded_to or obj
            if now.place == OUTSIDE:
                self._followed.append((now, born))
            else:
                self.by_lifetime[self.collections - born] += obj.size_bytes
                self.live_bytes -= obj.size_bytes
        self.collections += 1


def counted_and_recorded(
    recorded: Recorded, period_bytes: int, configuration: Configuration
) -> tuple[Exact, Profile]:
    exact = Exact()
    profile = recorded(
        exact.a_queue, period_bytes, listener=exact.judge, configuration=configuration
    )
    exact.by_lifetime[None] = exact.live_bytes
    return exact, profile


@pytest.mark.slow
def test_lifetimes_live_and_peak_are_exact_if_every_word_is_sampled(recorded: Recorded) -> None:
    exact, profile = counted_and_recorded(recorded, WORD_BYTES, SMALL)
    lifetimes: Counter[int | None] = Counter()
    for each in profile.samples:
        is_dead = each.died_at_us is not None
        lifetimes[(each.lived_collections or 0) if is_dead else None] += each.weight_bytes
    assert len(exact.by_lifetime) > 10
    # The last sample point may not have been passed.
    assert lifetimes.total() == pytest.approx(exact.by_lifetime.total(), abs=WORD_BYTES)
    assert lifetimes == {name: pytest.approx(n, abs=8) for name, n in exact.by_lifetime.items()}
    assert peak_estimate(profile).bytes == pytest.approx(exact.peak_bytes, abs=WORD_BYTES)
    assert bytes_of(profile.live(profile.ended_us)) == pytest.approx(exact.live_bytes, abs=8)


@pytest.mark.slow
def test_lifetimes_live_and_peak_have_bounds_that_hold(recorded: Recorded) -> None:
    """A figure may miss its bounds with three of twenty seeds, which are always the same."""
    missed: Counter[str] = Counter()
    for seed in range(20):
        exact, profile = counted_and_recorded(recorded, 1024, at_random(seed, SMALL))
        truth = Counter({"peak": exact.peak_bytes})
        for lived, size_bytes in exact.by_lifetime.items():
            truth[NOT_FREED if lived is None else LIFETIMES[lived.bit_length()]] += size_bytes
        found = estimates(profile, ((each.lifetime, each) for each in profile.samples), keys=truth)
        for name, estimate in {**found, "peak": peak_estimate(profile)}.items():
            assert estimate.bounds is not None
            low_bytes, high_bytes = attrs.astuple(estimate.bounds)
            missed[name] += not low_bytes <= truth[name] <= high_bytes
    assert len(missed) > 5
    assert max(missed.values()) <= 3
    assert missed.total() <= 0.05 * 20 * len(missed)


def test_a_lifetime_is_named_by_powers_of_two() -> None:
    sample = ProfileSample(0, 0, 1, 8, 8, fate=Fate.DIED_OLD, freed_at_us=9, lived_collections=5)
    assert sample.lifetime == "4 to 7 collections"


def test_freed_objects_had_survived(recorded: Recorded) -> None:
    profile = recorded(come_and_go, WORD_BYTES)
    freed = [each for each in profile.samples if each.fate is Fate.DIED_OLD]
    assert len(freed) == 74
    assert all(each.freed_at_us is not None for each in freed)
    assert all(each.at_us <= (each.judged_at_us or 0) <= (each.died_at_us or 0) for each in freed)


@pytest.mark.parametrize("line", ['["freed", 9, [1]]', '["freed", 9, [0, 0]]', '["freed", 9, [2]]'])
def test_freeing_another_object_is_refused(profile: Profile, tmp_path: Path, line: str) -> None:
    # The older one of two nodes has survived.
    lines = ['["frame", "", "", 0, 0]', '["stack", null, 0]', *['["sample", 0, 0, 1, 8, 32]'] * 2]
    with RecordingWriter(tmp_path / "recording", profile.header, 10**6) as writer:
        for each in [*lines, '["report", 1, [4, 5]]', line]:
            writer.line(each)
    with pytest.raises(ValueError, match="did not survive, or is freed already"):
        read(tmp_path / "recording")
