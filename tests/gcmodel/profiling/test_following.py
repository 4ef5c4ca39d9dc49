"""What was live, and how much at most: as much as the heap had, where every word is sampled."""

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from heap_v2_reading import read as read_dump

from gcmodel import Heap
from gcmodel.memory.layout import WORD_BYTES
from gcmodel.profiling.estimates import estimates
from gcmodel.profiling.firefox import processed
from gcmodel.profiling.pprof import KINDS
from gcmodel.profiling.profile import Fate, Profile, ProfileSample
from gcmodel.profiling.recording import RecordingWriter, read
from gcmodel.profiling.sampled_run import PROFILED
from gcmodel.profiling.text_formats import write_heap_dump

Recorded = Callable[..., Profile]


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
    """What is live right after a full collection, when nothing is young."""
    return sum(obj.size_bytes for obj in heap.roots)


def test_what_is_live_at_the_end_is_what_the_heap_holds(recorded: Recorded) -> None:
    heaps: list[Heap] = []
    profile = recorded(lambda heap: (heaps.append(heap), come_and_go(heap)), WORD_BYTES)
    (heap,) = heaps
    live = profile.live(profile.ended_us)
    assert len(live) == len(heap.roots) == 36
    assert bytes_of(live) == pytest.approx(old_bytes(heap), abs=2 * WORD_BYTES)


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


def test_peak_and_live_have_bounds_that_hold(recorded: Recorded) -> None:
    """With one seed nothing is left to chance."""
    heaps: list[Heap] = []
    configuration = attrs.evolve(PROFILED, random_periods=True, sampler_seeds=(1,))
    profile = recorded(
        lambda heap: (heaps.append(heap), come_and_go(heap)), 512, configuration=configuration
    )
    live = [((), each) for each in profile.live(profile.ended_us)]
    bounds = estimates(profile, live)[()].bounds
    assert bounds is not None
    assert bounds.low_bytes <= old_bytes(heaps[0]) <= bounds.high_bytes


def test_what_is_freed_had_survived(recorded: Recorded) -> None:
    profile = recorded(come_and_go, WORD_BYTES)
    freed = [each for each in profile.samples if each.freed_at_us is not None]
    assert len(freed) == 74
    assert {each.fate for each in freed} == {Fate.SURVIVED}
    assert all(each.at_us <= (each.judged_at_us or 0) <= (each.died_at_us or 0) for each in freed)


def test_what_is_freed_is_no_longer_in_use(recorded: Recorded) -> None:
    profile = recorded(come_and_go, WORD_BYTES)
    in_use = [each for each in profile.samples if KINDS["inuse"](each)]
    assert in_use == profile.live(profile.ended_us)


def test_every_format_has_the_same_live_bytes(recorded: Recorded, tmp_path: Path) -> None:
    configuration = attrs.evolve(PROFILED, random_periods=True, sampler_seeds=(1,))
    profile = recorded(come_and_go, 512, configuration=configuration)
    live_bytes = bytes_of(profile.live(profile.ended_us))
    write_heap_dump(profile, tmp_path / "live.heap")
    dump = read_dump((tmp_path / "live.heap").read_text().partition("--- heap\n")[2])
    retained = processed(profile)["threads"][0]["nativeAllocations"]["weight"]
    assert dump.head.live.bytes == sum(retained) == live_bytes > 0


@pytest.mark.parametrize("line", ['["freed", 9, [1]]', '["freed", 9, [0, 0]]', '["freed", 9, [2]]'])
def test_a_recording_in_which_something_else_is_freed_is_refused(
    profile: Profile, tmp_path: Path, line: str
) -> None:
    # Of two nodes the older one has survived.
    told = ['["frame", "", "", 0, 0]', '["stack", null, 0]', *['["sample", 0, 0, 1, 8, 32]'] * 2]
    with RecordingWriter(tmp_path / "recording", profile.header, 10**6) as writer:
        for each in [*told, '["report", 1, [4, 5]]', line]:
            writer.line(each)
    with pytest.raises(ValueError, match="is of no object that survived and may live"):
        read(tmp_path / "recording")
