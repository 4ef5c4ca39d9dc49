"""Which allocations are sampled, where the sample point is, and what is reported of samples."""

from collections.abc import Callable

import pytest
from heap_steps import (
    OUTSIDE_NURSERY,
    SURVIVED,
    allocate_dead_nodes,
    letters,
    reported,
    sample_point_of,
    samples,
)

from gcmodel import Configuration, ConfigurationError, Heap, Kind

ILLEGAL_PERIODS = [12, 0, -8, 2**64]


def sample_the_next_node(heap: Heap) -> None:
    """Once: its 32 bytes pass one sample point, 24 bytes away. Pending samples stay pending."""
    heap.enable_sampling(24)


# When a sample is due.


def test_the_first_sample_is_one_period_after_enabling(heap: Heap) -> None:
    allocate_dead_nodes(heap, 3)
    heap.allocate_string(1000)
    assert samples(heap) == 0
    heap.enable_sampling(64)
    assert sample_point_of(heap) - heap.nursery.nursery_free == 64


def test_an_object_must_pass_the_sample_point_and_not_just_reach_it(heap: Heap) -> None:
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 2)
    assert (samples(heap), sample_point_of(heap)) == (0, heap.nursery.nursery_free)
    heap.allocate_array(0)
    assert (samples(heap), sample_point_of(heap)) == (1, 128)


def test_a_period_larger_than_the_nursery_is_counted_over_collections(heap: Heap) -> None:
    heap.enable_sampling(1024)
    allocate_dead_nodes(heap, 32)
    assert letters(heap) == "MMM"
    allocate_dead_nodes(heap, 1)
    assert samples(heap) == 1


def test_an_object_is_sampled_as_often_as_it_passes_a_sample_point(heap: Heap) -> None:
    heap.enable_sampling(8)
    heap.allocate_node(1)
    assert (samples(heap), heap.sampling.pending) == (3, [0, 0, 0])
    heap.collect_minor()
    assert reported(heap) == [Kind.NODE << 2 | SURVIVED] * 3


@pytest.mark.parametrize("period_bytes", [8, 40, 104, 256, 264, 1000])
def test_samples_are_the_whole_periods_before_the_last_byte(heap: Heap, period_bytes: int) -> None:
    heap.enable_sampling(period_bytes)
    allocate_dead_nodes(heap, 200)
    assert samples(heap) == (200 * 32 - 1) // period_bytes


# Objects outside move the sample point, not the free pointer.


@pytest.mark.parametrize(
    ("period_bytes", "size_bytes", "count", "sample_point"),
    [(1024, 101, 0, 1024 - 101), (1024, 26, 0, 1024 - 26), (104, 104, 0, 0), (16, 100, 6, 12)],
)
def test_an_object_outside_is_sampled_by_its_unrounded_size(
    heap: Heap, period_bytes: int, size_bytes: int, count: int, sample_point: int
) -> None:
    heap.enable_sampling(period_bytes)
    heap.allocate_string(size_bytes - 25, nonmovable=True)
    assert (samples(heap), heap.sampling.pending) == (count, heap.roots * count)
    assert sample_point_of(heap) == sample_point


def test_objects_outside_move_the_sample_point_into_the_nursery_and_out_again(heap: Heap) -> None:
    heap.enable_sampling(1024)
    heap.allocate_string(1000 - 25)
    assert heap.nursery.nursery_limit == sample_point_of(heap) == 24
    heap.allocate_string(93 - 25)
    assert (sample_point_of(heap), heap.nursery.nursery_limit) == (1024 - 69, 256)
    heap.events.take()
    heap.allocate_node(1)
    assert letters(heap) == ""


# A sample and a minor collection in one allocation.


@pytest.mark.parametrize(
    ("period_bytes", "length", "order"), [(240, 3, "sM"), (256, 3, "sM"), (264, 4, "Ms")]
)
def test_a_sample_point_in_the_full_nursery_is_passed_before_the_collection(
    heap: Heap, period_bytes: int, length: int, order: str
) -> None:
    """Also at the nursery's very end. One beyond it is passed after the collection."""
    heap.enable_sampling(period_bytes)
    allocate_dead_nodes(heap, 7)
    heap.allocate_array(length)
    assert letters(heap) == order


def test_a_sample_before_the_collection_is_not_in_that_collections_report(heap: Heap) -> None:
    heap.enable_sampling(240)
    allocate_dead_nodes(heap, 7)
    heap.allocate_array(3)
    assert heap.sampling.pending == [0]
    heap.collect_minor()
    _, [report] = heap.events.take()
    assert report.entries == [Kind.ARRAY << 2 | SURVIVED]


def test_a_large_object_is_not_in_the_report_of_the_collection_it_causes(heap: Heap) -> None:
    sample_the_next_node(heap)
    heap.allocate_node(1)
    heap.allocate_string(700)
    order, [report] = heap.events.take()
    assert (order.rstrip("s")[:3], report.entries) == ("sMR", [Kind.NODE << 2 | SURVIVED])


@pytest.mark.parametrize(
    ("period_bytes", "nodes", "sample_point", "limit"), [(512, 3, 416, 256), (264, 7, 40, 40)]
)
def test_a_minor_collection_leaves_the_distance_to_the_next_sample(
    heap: Heap, period_bytes: int, nodes: int, sample_point: int, limit: int
) -> None:
    heap.enable_sampling(period_bytes)
    allocate_dead_nodes(heap, nodes)
    assert heap.nursery.nursery_limit == 256
    heap.collect_minor()
    assert (sample_point_of(heap), heap.nursery.nursery_limit) == (sample_point, limit)


# Enabling, and the ways of switching it off.

STOPS = [
    lambda heap: heap.disable_sampling(report=False),
    lambda heap: heap.disable_sampling(report=True),
    Heap.pause_sampling,
    Heap.after_fork,
]
STOPPED = pytest.mark.parametrize("stop", STOPS, ids=["drop", "report", "pause", "fork"])
Stop = Callable[[Heap], None]


def test_enabling_again_restarts_the_count_and_keeps_the_pending_samples(heap: Heap) -> None:
    heap.enable_sampling(24)
    heap.allocate_node(1)
    heap.enable_sampling(128)
    assert sample_point_of(heap) == heap.nursery.nursery_limit == 32 + 128
    heap.collect_minor()
    assert reported(heap) == [Kind.NODE << 2 | SURVIVED]


@STOPPED
def test_after_sampling_is_stopped_nothing_is_sampled(heap: Heap, stop: Stop) -> None:
    heap.enable_sampling(8)
    stop(heap)
    assert heap.nursery.nursery_limit == heap.nursery.nursery_top
    allocate_dead_nodes(heap, 20)
    heap.allocate_string(1000)
    assert samples(heap) == 0


@STOPPED
def test_only_disabling_with_a_report_reports_pending_samples(heap: Heap, stop: Stop) -> None:
    heap.enable_sampling(24)
    heap.allocate_node(1)
    stop(heap)
    events, reports = heap.events.take()
    assert events == ("sMR" if stop is STOPS[1] else "s")
    assert [each.entries for each in reports] == [[Kind.NODE << 2 | SURVIVED]] * len(reports)
    assert heap.read_number(0) == 1
    # The others stay dropped when sampling is enabled again.
    heap.enable_sampling(1024)
    heap.collect_minor()
    assert heap.events.take() == ("M", [])


@STOPPED
def test_enabling_after_a_stop_restarts_the_count(heap: Heap, stop: Stop) -> None:
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 1)
    stop(heap)
    heap.enable_sampling(128)
    assert sample_point_of(heap) - heap.nursery.nursery_free == 128
    # And resuming does nothing then.
    heap.resume_sampling()
    assert (heap.sampling.period_bytes, heap.sampling.paused_period_bytes) == (128, 0)


@pytest.mark.parametrize(("report", "order"), [(False, ""), (True, "M")])
def test_disabling_what_was_off_changes_nothing(heap: Heap, report: bool, order: str) -> None:
    heap.disable_sampling(report)
    assert heap.events.take() == (order, [])
    allocate_dead_nodes(heap, 8)
    assert letters(heap) == ""


@pytest.mark.parametrize("period_bytes", ILLEGAL_PERIODS)
@pytest.mark.parametrize("before", ["off", "on", "paused"])
def test_an_illegal_period_changes_nothing(heap: Heap, before: str, period_bytes: int) -> None:
    if before != "off":
        heap.enable_sampling(64)
    if before == "paused":
        heap.pause_sampling()
    allocate_dead_nodes(heap, 1)
    with pytest.raises(ConfigurationError):
        heap.enable_sampling(period_bytes)
    heap.resume_sampling()
    allocate_dead_nodes(heap, 2)
    assert heap.sampling.period_bytes == (0 if before == "off" else 64)
    assert samples(heap) == (before == "on")


# Pausing and resuming.


def test_resuming_restarts_the_count_with_the_paused_period(heap: Heap) -> None:
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 1)
    heap.pause_sampling()
    allocate_dead_nodes(heap, 1)
    heap.resume_sampling()
    assert (heap.sampling.period_bytes, sample_point_of(heap)) == (64, 64 + 64)
    assert heap.nursery.nursery_limit == 128


@pytest.mark.parametrize("calls", ["pp", "pprr", "prpr", "prr"])
def test_pausing_and_resuming_any_number_of_times_keeps_the_period(heap: Heap, calls: str) -> None:
    heap.enable_sampling(64)
    for call in calls:
        (heap.pause_sampling if call == "p" else heap.resume_sampling)()
    heap.resume_sampling()
    assert heap.sampling.period_bytes == 64


def test_resuming_what_was_never_enabled_changes_nothing(heap: Heap) -> None:
    heap.pause_sampling()
    heap.resume_sampling()
    allocate_dead_nodes(heap, 8)
    assert letters(heap) == ""


@pytest.mark.parametrize("pauses", [0, 1])
def test_resuming_what_is_on_keeps_the_count(heap: Heap, pauses: int) -> None:
    heap.enable_sampling(64)
    for _ in range(pauses):
        heap.pause_sampling()
        heap.resume_sampling()
    allocate_dead_nodes(heap, 1)
    heap.resume_sampling()
    assert sample_point_of(heap) == 64


@pytest.mark.parametrize("paused", [False, True])
@STOPPED
def test_only_pausing_keeps_a_period_to_resume(heap: Heap, stop: Stop, paused: bool) -> None:
    heap.enable_sampling(64)
    if paused:
        heap.pause_sampling()
    stop(heap)
    heap.resume_sampling()
    assert heap.sampling.period_bytes == (64 if stop is STOPS[2] else 0)


# Reports.


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("allocate", "entry"),
    [
        (lambda heap: heap.allocate_node(1), Kind.NODE << 2),
        (lambda heap: (heap.allocate_node(1), heap.identity(0)), Kind.NODE << 2),
        (lambda heap: heap.allocate_string(24), Kind.STRING << 2 | OUTSIDE_NURSERY),
    ],
    ids=["nursery", "identity", "outside"],
)
def test_an_object_is_reported_with_its_place_and_its_survival(
    allocate: Callable[[Heap], object], entry: int, kept: bool
) -> None:
    heap = Heap(Configuration(large_object_bytes=49))
    heap.enable_sampling(24)
    allocate(heap)
    heap.enable_sampling(1024)
    if not kept:
        heap.free(0)
    heap.collect_minor()
    assert set(reported(heap)) == {entry | kept}
    # And only once.
    heap.collect_minor()
    assert heap.events.take()[1] == []


def test_an_object_reachable_from_an_old_one_only_is_reported_as_surviving(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    sample_the_next_node(heap)
    heap.allocate_node(2)
    heap.write(0, 0, 1)
    heap.free(1)
    heap.collect_minor()
    assert reported(heap) == [Kind.NODE << 2 | SURVIVED]


def test_a_weak_reference_keeps_no_sampled_object_alive(heap: Heap) -> None:
    sample_the_next_node(heap)
    heap.allocate_node(1)
    heap.allocate_weakref(0)
    heap.free(0)
    heap.collect_minor()
    assert reported(heap) == [Kind.NODE << 2]


def test_each_kind_is_reported_under_its_number_and_the_newest_first(heap: Heap) -> None:
    heap.enable_sampling(8)
    heap.allocate_array(0)
    heap.enable_sampling(8)
    heap.allocate_weakref(0)
    sample_the_next_node(heap)
    heap.allocate_node(1)
    sample_the_next_node(heap)
    heap.allocate_string(0)
    heap.collect_minor()
    kinds = [entry >> 2 for entry in reported(heap)]
    assert kinds == [Kind.STRING, Kind.NODE, Kind.WEAKREF, Kind.ARRAY]


def test_a_report_has_the_memory_used_with_dead_objects_outside_still_in_it(heap: Heap) -> None:
    heap.allocate_string(100 - 25)
    heap.free(0)
    sample_the_next_node(heap)
    heap.allocate_node(1)
    heap.collect_minor()
    report = heap.events.take()[1][0]
    assert (report.memory_used_bytes, heap.memory_used_bytes()) == (104 + 32, 32)


@pytest.mark.parametrize(("paged_arenas", "arena_bytes"), [(True, 512), (False, 0)])
def test_a_report_has_the_bytes_of_all_arenas(paged_arenas: bool, arena_bytes: int) -> None:
    heap = Heap(Configuration(paged_arenas=paged_arenas))
    sample_the_next_node(heap)
    heap.allocate_node(1)
    heap.collect_minor()
    assert heap.events.take()[1][0].arena_bytes == arena_bytes


@pytest.mark.parametrize("major_state", [0, 1, 2, 3])
def test_a_report_has_the_state_of_the_major_collection(heap: Heap, major_state: int) -> None:
    for _ in range(major_state):
        heap.collect_step()
    sample_the_next_node(heap)
    heap.allocate_node(1)
    heap.collect_minor()
    assert heap.events.take()[1][0].major_state == major_state


# The invariants, step by step.


def script(heap: Heap, step: int) -> int:
    """One step of a sequence that reaches all the ways of allocating; returns the bytes counted."""
    match step % 7:
        case 0 | 3:
            return heap.allocate_node(step)[0]
        case 1:
            return heap.allocate_array(step % 13)[0]
        case 2:
            return heap.allocate_string(step)[0]
        case 4:
            return heap.allocate_string(3, nonmovable=True)[0]
        case 5:
            heap.collect_step()
        case _:
            heap.free(0)
    return 0


@pytest.mark.parametrize("period_bytes", [8, 72, 256, 264, 2000])
def test_the_distance_to_the_sample_point_is_the_bytes_until_the_next_sample(
    heap: Heap, period_bytes: int
) -> None:
    heap.enable_sampling(period_bytes)
    counted_bytes = 0
    for step in range(150):
        counted_bytes += script(heap, step)
        taken = samples(heap)
        while counted_bytes > period_bytes:
            counted_bytes -= period_bytes
            taken -= 1
        distance = sample_point_of(heap) - heap.nursery.nursery_free
        assert (taken, distance) == (0, period_bytes - counted_bytes)


@pytest.mark.parametrize("period_bytes", [8, 72, 256, 264, 2000])
def test_the_limit_is_the_sample_point_or_the_top(heap: Heap, period_bytes: int) -> None:
    heap.enable_sampling(period_bytes)
    nursery = heap.nursery
    for step in range(150):
        script(heap, step)
        assert nursery.nursery_limit == min(sample_point_of(heap), nursery.nursery_top)
        assert 0 <= nursery.nursery_free <= nursery.nursery_limit


def test_the_limit_is_the_nursery_top_while_sampling_is_off(heap: Heap) -> None:
    heap.enable_sampling(72)
    script(heap, 0)
    heap.disable_sampling(report=False)
    for step in range(150):
        script(heap, step)
        assert heap.nursery.nursery_limit == heap.nursery.nursery_top


def test_sampling_changes_nothing_but_samples_and_reports() -> None:
    plain, sampled = Heap(Configuration()), Heap(Configuration())
    sampled.enable_sampling(72)
    for step in range(150):
        script(plain, step)
        script(sampled, step)
        order = sampled.events.take()[0]
        assert order.replace("s", "").replace("R", "") == plain.events.take()[0]
    assert sampled.walk() == plain.walk()
