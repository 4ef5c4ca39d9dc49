"""What the recorder writes: every sample with its place and fate, collections, and moments."""

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, count, pairwise, repeat
from pathlib import Path

import pytest

from gcmodel import Configuration, Heap
from gcmodel.profiling.profile import Fate, Profile
from gcmodel.profiling.recorder import Recorder
from gcmodel.profiling.recording import RecordingWriter, read
from gcmodel.profiling.sampled_run import PROFILED
from gcmodel.profiling.stacks import PythonStacks

Recorded = Callable[..., Profile]
TINY = Configuration(prebuilt_nodes=0, prebuilt_arrays=0)
"""Its nursery has 256 bytes."""


def make_node(heap: Heap) -> None:
    heap.allocate_node(7)


def make_nodes(heap: Heap, count: int = 100) -> None:
    for _ in range(count):
        make_node(heap)


# Samples.


def test_every_sample_has_the_stack_and_the_weight_of_its_allocation(recorded: Recorded) -> None:
    profile = recorded(make_nodes, 64)
    functions = [frame.function for frame in profile.frames_of(profile.samples[0].stack)]
    assert functions == ["make_node", "make_nodes", "a program"]
    # The last sample point is reached and not passed.
    assert profile.weight_bytes == 100 * 32 - 64


def test_a_sample_has_the_bytes_that_the_sampler_counts(recorded: Recorded) -> None:
    profile = recorded(lambda heap: heap.allocate_string(9001), 1024)
    (sample,) = profile.samples
    assert (sample.counted_bytes, sample.hits, sample.period_bytes) == (9026, 8, 1024)


def test_a_sample_has_its_type_its_place_and_its_fate(recorded: Recorded) -> None:
    def program(heap: Heap) -> None:
        heap.allocate_array(6)
        heap.allocate_string(39)
        heap.free(1)
        heap.allocate_array(2000)

    profile = recorded(program, 8)
    assert [(each.type, each.fate, each.is_outside) for each in profile.samples] == [
        ("array", Fate.SURVIVED, False),
        ("string", Fate.DIED_YOUNG, False),
        ("array", Fate.SURVIVED, True),
    ]


def test_a_sample_beside_a_collection_has_its_own_fate(recorded: Recorded) -> None:
    def collect_while_allocating(heap: Heap) -> None:
        for number in range(100):
            heap.allocate_string(number % 30)
            heap.allocate_node(number)
            heap.free(0)

    # Every fifth allocation or so collects and is sampled.
    profile = recorded(collect_while_allocating, 8, configuration=TINY)
    assert [sample.type for sample in profile.samples] == ["string", "node"] * 100


def test_a_callback_s_allocations_have_their_own_type(recorded: Recorded) -> None:
    def with_a_callback(heap: Heap) -> None:
        heap.set_callback(30)
        for number in range(100):
            heap.allocate_node(number)
            heap.free(0)

    profile = recorded(with_a_callback, 8, configuration=TINY)
    types = {(each.type, each.counted_bytes) for each in profile.samples}
    assert types == {("node", 32), ("string", 56)}


def test_dropped_samples_have_no_fate(recorded: Recorded) -> None:
    def stop_in_the_middle(heap: Heap) -> None:
        heap.allocate_node(1)
        heap.disable_sampling(report=False)
        heap.enable_sampling(8)
        heap.allocate_string(3)

    profile = recorded(stop_in_the_middle, 8)
    assert [(each.type, each.fate) for each in profile.samples] == [
        ("unknown type", Fate.UNKNOWN),
        ("string", Fate.SURVIVED),
    ]


def test_another_period_is_another_weight(recorded: Recorded) -> None:
    def change_the_period(heap: Heap) -> None:
        heap.allocate_string(1000)
        heap.enable_sampling(256)
        heap.allocate_string(1000)

    profile = recorded(change_the_period, 512)
    assert [each.weight_bytes for each in profile.samples] == [2 * 512, 4 * 256]


# Collections.


def test_each_minor_collection_has_the_heap_that_it_left(recorded: Recorded) -> None:
    def grow(heap: Heap) -> None:
        make_nodes(heap)
        heap.collect_minor()
        make_nodes(heap)

    profile = recorded(grow, 4096)
    used = [each.memory_used_bytes for each in profile.minor_collections]
    assert used == [3200, 6400]  # The second one is the recorder's, at the end.
    assert all(each.arena_bytes >= each.memory_used_bytes for each in profile.minor_collections)
    assert all(each.resident_bytes > 10**6 for each in profile.minor_collections)


def test_a_major_collection_has_a_span_for_each_phase(recorded: Recorded) -> None:
    def mark_step_by_step(heap: Heap) -> None:
        make_nodes(heap)
        heap.collect_full()

    configuration = Configuration(nursery_bytes=256)
    scanning, marking, *others = recorded(
        mark_step_by_step, 4096, configuration=configuration
    ).states[-4:]
    names = [phase.name for phase in (scanning, marking, *others)]
    assert names == ["scanning", "marking", "sweeping", "finalizing"]
    assert all(a.ended_us <= b.began_us for a, b in pairwise((scanning, marking, *others)))
    assert marking.steps > 1
    assert marking.collecting_us <= marking.ended_us - marking.began_us


# Failures and interrupts.


def test_a_failed_program_leaves_a_file_without_an_end(recorded: Recorded, tmp_path: Path) -> None:
    def fail(heap: Heap) -> None:
        make_nodes(heap)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        recorded(fail, 64)
    profile = read(tmp_path / "recording.jsonl")
    assert (profile.is_complete, profile.weight_bytes) == (False, 49 * 64)


def test_out_of_memory_ends_writing(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    stacks: Iterator[type[Exception] | int] = chain([MemoryError], repeat(0))

    def fail_once(_stacks: PythonStacks) -> int:
        stack = next(stacks)
        if isinstance(stack, int):
            return stack
        raise stack

    monkeypatch.setattr(PythonStacks, "of_allocation", fail_once)
    profile = recorded(make_nodes, 64)  # The program continues.
    assert (profile.is_complete, profile.samples) == (False, [])


def test_events_before_a_collection_are_safe_after_it(recorded: Recorded, tmp_path: Path) -> None:
    safe = []

    def look_at_the_file(heap: Heap) -> None:
        make_nodes(heap)
        heap.collect_minor()
        safe.append(read(tmp_path / "recording.jsonl"))

    profile = recorded(look_at_the_file, 64)
    assert safe[0].samples == profile.samples
    assert safe[0].minor_collections == profile.minor_collections[:1]


class Timeout(Exception):  # noqa: N818 - what a program may call it
    pass


@pytest.mark.parametrize("call", range(1, 200, 7))
def test_an_interrupt_leaves_a_recording(recorded: Recorded, tmp_path: Path, call: int) -> None:
    """The interrupt comes with the n-th call of a function."""
    calls = count(1)

    def interrupt(_frame: object, event: str, _argument: object) -> None:
        if event == "call" and next(calls) == call:
            raise Timeout

    def be_interrupted(heap: Heap) -> None:
        gc.disable()  # Hypothesis is called in a collection, and cannot pass an exception on.
        sys.setprofile(interrupt)
        try:
            make_nodes(heap)
            heap.collect_minor()
        finally:
            sys.setprofile(None)
            gc.enable()

    with suppress(Timeout):
        recorded(be_interrupted, 8)
    profile = read(tmp_path / "recording.jsonl")
    assert not profile.is_complete
    assert profile.weight_bytes < 100 * 32 - 8


# Samples by time.


def test_writing_takes_no_timed_sample(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    flush = RecordingWriter.flush

    def interrupted_flush(writer: RecordingWriter) -> None:
        # The recorder's own collection at the end is not timed any more.
        if callable(signal.getsignal(signal.SIGALRM)):
            signal.raise_signal(signal.SIGALRM)
        flush(writer)

    monkeypatch.setattr(RecordingWriter, "flush", interrupted_flush)
    profile = recorded(lambda heap: heap.collect_minor(), 64, time_period_us=10_000_000)
    assert profile.minor_collections
    assert profile.time_samples == []


def wait_for_a_sample() -> None:
    signal.pause()


def test_the_stack_is_sampled_by_time_beside_allocations(recorded: Recorded) -> None:
    def program(heap: Heap) -> None:
        for number in range(20):
            wait_for_a_sample()
            heap.allocate_node(number)

    profile = recorded(program, 64, time_period_us=1000)
    stacks = [profile.frames_of(each.stack) for each in profile.time_samples]
    assert [stack[0].function for stack in stacks].count("wait_for_a_sample") >= 20
    assert {stack[-1].function for stack in stacks} == {"a program"}
    assert len(profile.samples) == 9
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_without_a_time_period_there_is_no_timer(recorded: Recorded) -> None:
    timers = []
    profile = recorded(lambda heap: timers.append(signal.getitimer(signal.ITIMER_REAL)), 64)
    assert (timers, profile.time_samples) == ([(0.0, 0.0)], [])


# The heap.


def test_the_recorder_has_no_heap() -> None:
    parameters = Recorder.__init__.__annotations__
    assert set(parameters) == {"writer", "site", "listener", "return"}


def test_the_heap_is_the_same_with_and_without_a_recorder(recorded: Recorded) -> None:
    graphs = []

    def remember_the_graph(heap: Heap) -> None:
        make_nodes(heap)
        for number in range(200):
            heap.free(number % 90)
            heap.allocate_string(number)
        heap.collect_step()
        graphs.append((heap.walk(), heap.nursery.nursery_free, heap.memory_used_bytes()))

    recorded(remember_the_graph, 4096)
    remember_the_graph(Heap(PROFILED))
    assert graphs[0] == graphs[1]
