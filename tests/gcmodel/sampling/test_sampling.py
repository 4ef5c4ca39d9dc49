"""Which allocations are sampled, where the sample point is, and what is reported of samples."""

import pytest

from gcmodel import Configuration, ConfigurationError, Heap, Kind

ILLEGAL_PERIODS = [12, 0, -8, 2**64]
OUTSIDE, SURVIVED = 2, 1


def samples(heap: Heap) -> int:
    return heap.events.take()[0].count("s")


def allocate_dead_nodes(heap: Heap, count: int) -> None:
    for number in range(count):
        heap.allocate_node(number)
        heap.free(len(heap.roots) - 1)


def sample_the_next_node(heap: Heap) -> None:
    """Once: its 32 bytes pass one sample point, 24 bytes away. Pending samples stay pending."""
    heap.enable_sampling(24)


# When a sample is due.


def test_the_first_sample_is_one_period_after_enabling(heap: Heap) -> None:
    allocate_dead_nodes(heap, 3)
    heap.enable_sampling(64)
    assert heap.sampling.sample_point - heap.nursery.nursery_free == 64


def test_an_object_that_ends_exactly_at_the_sample_point_is_not_sampled(heap: Heap) -> None:
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 2)
    assert (samples(heap), heap.sampling.sample_point) == (0, heap.nursery.nursery_free)


def test_the_object_after_one_that_ended_exactly_at_the_sample_point_is_sampled(heap: Heap) -> None:
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 2)
    heap.allocate_array(0)
    assert (samples(heap), heap.sampling.sample_point) == (1, 128)


def test_an_object_outside_that_uses_up_the_distance_exactly_is_not_sampled(heap: Heap) -> None:
    heap.enable_sampling(104)
    heap.allocate_string(104 - 25)
    assert (samples(heap), heap.sampling.sample_point) == (0, heap.nursery.nursery_free)


def test_a_period_larger_than_the_nursery_is_counted_over_collections(heap: Heap) -> None:
    heap.enable_sampling(1024)
    allocate_dead_nodes(heap, 32)
    assert heap.events.take()[0] == "MMM"
    allocate_dead_nodes(heap, 1)
    assert samples(heap) == 1


def test_an_object_larger_than_the_period_is_sampled_as_often_as_it_passes_a_sample_point(
    heap: Heap,
) -> None:
    heap.enable_sampling(8)
    heap.allocate_node(1)
    assert (samples(heap), heap.sampling.pending) == (3, [0, 0, 0])


def test_an_object_outside_is_sampled_as_often_as_it_passes_a_sample_point(heap: Heap) -> None:
    heap.enable_sampling(16)
    heap.allocate_string(100 - 25)
    assert (samples(heap), heap.sampling.pending) == (6, heap.roots * 6)


def test_the_surplus_of_an_object_counts_towards_the_next_sample(heap: Heap) -> None:
    heap.enable_sampling(40)
    taken = []
    for _ in range(5):
        allocate_dead_nodes(heap, 1)
        taken.append(samples(heap))
    assert taken == [0, 1, 1, 1, 0]


def test_nothing_is_sampled_before_sampling_is_enabled(heap: Heap) -> None:
    allocate_dead_nodes(heap, 100)
    heap.allocate_string(1000)
    assert samples(heap) == 0


@pytest.mark.parametrize("period_bytes", [8, 40, 104, 256, 264, 1000])
def test_n_bytes_take_as_many_samples_as_there_are_whole_periods_before_the_last_byte(
    heap: Heap, period_bytes: int
) -> None:
    heap.enable_sampling(period_bytes)
    allocate_dead_nodes(heap, 200)
    assert samples(heap) == (200 * 32 - 1) // period_bytes


# Objects outside move the sample point, not the free pointer.


def test_an_object_outside_counts_unrounded(heap: Heap) -> None:
    heap.enable_sampling(1024)
    heap.allocate_string(101 - 25)
    assert heap.sampling.sample_point == 1024 - 101


def test_a_small_object_that_may_not_move_counts_unrounded_too(heap: Heap) -> None:
    heap.enable_sampling(1024)
    heap.allocate_string(1, nonmovable=True)
    assert heap.sampling.sample_point == 1024 - 26


def test_an_object_outside_may_bring_the_sample_point_into_the_nursery(heap: Heap) -> None:
    heap.enable_sampling(1024)
    heap.allocate_string(1000 - 25)
    assert heap.nursery.nursery_limit == heap.sampling.sample_point == 24


def test_an_object_outside_may_push_the_sample_point_out_of_the_nursery_again(heap: Heap) -> None:
    heap.enable_sampling(1024)
    heap.allocate_string(1000 - 25)
    heap.allocate_string(93 - 25)
    assert (heap.sampling.sample_point, heap.nursery.nursery_limit) == (1024 - 69, 256)


def test_after_an_object_outside_a_node_that_fits_collects_nothing(heap: Heap) -> None:
    heap.enable_sampling(1024)
    heap.allocate_string(1000 - 25)
    heap.allocate_string(93 - 25)
    heap.events.take()
    heap.allocate_node(1)
    assert heap.events.take()[0] == ""


def test_an_object_outside_moves_no_sample_point_while_sampling_is_off(heap: Heap) -> None:
    heap.allocate_string(1000)
    heap.enable_sampling(512)
    assert heap.sampling.sample_point == 512


# A sample and a minor collection in one allocation.


def test_a_sample_point_in_the_full_nursery_is_passed_before_the_collection(heap: Heap) -> None:
    heap.enable_sampling(240)
    allocate_dead_nodes(heap, 7)
    heap.allocate_array(3)
    assert heap.events.take()[0] == "sM"


def test_a_sample_point_at_the_nurserys_very_end_is_passed_before_the_collection(
    heap: Heap,
) -> None:
    heap.enable_sampling(256)
    allocate_dead_nodes(heap, 7)
    heap.allocate_array(3)
    assert heap.events.take()[0] == "sM"


def test_a_sample_point_beyond_the_full_nursery_is_passed_after_the_collection(heap: Heap) -> None:
    heap.enable_sampling(264)
    allocate_dead_nodes(heap, 7)
    heap.allocate_array(4)
    assert heap.events.take()[0] == "Ms"


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


def test_a_minor_collection_leaves_the_distance_to_the_next_sample(heap: Heap) -> None:
    heap.enable_sampling(512)
    allocate_dead_nodes(heap, 3)
    heap.collect_minor()
    assert (heap.nursery.nursery_free, heap.sampling.sample_point) == (0, 512 - 96)


def test_a_minor_collection_lowers_the_limit_to_a_sample_point_now_in_the_nursery(
    heap: Heap,
) -> None:
    heap.enable_sampling(264)
    allocate_dead_nodes(heap, 7)
    assert heap.nursery.nursery_limit == 256
    heap.collect_minor()
    assert heap.nursery.nursery_limit == 40


# Enabling and disabling.


def test_enabling_again_starts_the_count_anew_with_the_new_period(heap: Heap) -> None:
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 1)
    heap.enable_sampling(128)
    assert (heap.sampling.sample_point, heap.nursery.nursery_limit) == (160, 160)


def test_enabling_again_keeps_the_pending_samples(heap: Heap) -> None:
    heap.enable_sampling(24)
    heap.allocate_node(1)
    heap.enable_sampling(1024)
    heap.collect_minor()
    _, [report] = heap.events.take()
    assert report.entries == [Kind.NODE << 2 | SURVIVED]


def test_disabling_raises_the_limit_to_the_nurserys_end(heap: Heap) -> None:
    heap.enable_sampling(64)
    heap.disable_sampling(report=False)
    assert heap.nursery.nursery_limit == heap.nursery.nursery_top


@pytest.mark.parametrize("report", [False, True])
def test_after_disabling_nothing_is_sampled(heap: Heap, report: bool) -> None:
    heap.enable_sampling(8)
    heap.disable_sampling(report)
    allocate_dead_nodes(heap, 20)
    heap.allocate_string(1000)
    assert samples(heap) == 0


def test_disabling_by_dropping_collects_nothing_and_drops_the_pending_samples(heap: Heap) -> None:
    heap.enable_sampling(24)
    heap.allocate_node(1)
    heap.disable_sampling(report=False)
    assert heap.events.take()[0] == "s"
    heap.collect_minor()
    assert heap.events.take() == ("M", [])


def test_dropped_samples_stay_dropped_when_sampling_is_enabled_again(heap: Heap) -> None:
    heap.enable_sampling(24)
    heap.allocate_node(1)
    heap.disable_sampling(report=False)
    heap.enable_sampling(1024)
    heap.collect_minor()
    assert heap.events.take()[1] == []


def test_disabling_by_collecting_reports_the_pending_samples(heap: Heap) -> None:
    heap.enable_sampling(24)
    heap.allocate_node(1)
    heap.disable_sampling(report=True)
    order, [report] = heap.events.take()
    assert (order, report.entries) == ("sMR", [Kind.NODE << 2 | SURVIVED])


@pytest.mark.parametrize(("report", "order"), [(False, ""), (True, "M")])
def test_disabling_what_was_never_enabled_changes_nothing_else(
    heap: Heap, report: bool, order: str
) -> None:
    heap.disable_sampling(report)
    assert heap.events.take() == (order, [])
    allocate_dead_nodes(heap, 8)
    assert heap.events.take()[0] == ""


def test_the_count_starts_anew_when_enabled_after_disabling(heap: Heap) -> None:
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 2)
    heap.disable_sampling(report=False)
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 2)
    assert samples(heap) == 0


@pytest.mark.parametrize("period_bytes", ILLEGAL_PERIODS)
def test_an_illegal_period_is_refused_and_sampling_stays_off(heap: Heap, period_bytes: int) -> None:
    with pytest.raises(ConfigurationError):
        heap.enable_sampling(period_bytes)
    allocate_dead_nodes(heap, 8)
    assert heap.events.take()[0] == ""


@pytest.mark.parametrize("period_bytes", ILLEGAL_PERIODS)
def test_an_illegal_period_leaves_sampling_on_as_it_was(heap: Heap, period_bytes: int) -> None:
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 1)
    with pytest.raises(ConfigurationError):
        heap.enable_sampling(period_bytes)
    allocate_dead_nodes(heap, 2)
    assert (heap.sampling.period_bytes, samples(heap)) == (64, 1)


# Pausing and resuming.


def test_while_paused_nothing_is_sampled(heap: Heap) -> None:
    heap.enable_sampling(8)
    heap.pause_sampling()
    allocate_dead_nodes(heap, 20)
    heap.allocate_string(1000)
    assert samples(heap) == 0
    assert heap.nursery.nursery_limit == heap.nursery.nursery_top


def test_pausing_collects_nothing_and_drops_the_pending_samples(heap: Heap) -> None:
    heap.enable_sampling(24)
    heap.allocate_node(1)
    heap.pause_sampling()
    assert heap.events.take()[0] == "s"
    heap.resume_sampling()
    heap.collect_minor()
    assert heap.events.take() == ("M", [])


def test_resuming_starts_the_count_anew_with_the_period_that_was_paused(heap: Heap) -> None:
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 1)
    heap.pause_sampling()
    allocate_dead_nodes(heap, 1)
    heap.resume_sampling()
    assert (heap.sampling.period_bytes, heap.sampling.sample_point) == (64, 64 + 64)
    assert heap.nursery.nursery_limit == 128


def test_pausing_while_paused_keeps_the_period(heap: Heap) -> None:
    heap.enable_sampling(64)
    heap.pause_sampling()
    heap.pause_sampling()
    heap.resume_sampling()
    assert heap.sampling.period_bytes == 64


def test_pausing_again_after_resuming_keeps_the_period(heap: Heap) -> None:
    heap.enable_sampling(64)
    for _ in range(2):
        heap.pause_sampling()
        heap.resume_sampling()
    assert heap.sampling.period_bytes == 64


def test_resuming_what_was_never_enabled_changes_nothing(heap: Heap) -> None:
    heap.pause_sampling()
    heap.resume_sampling()
    allocate_dead_nodes(heap, 8)
    assert heap.events.take()[0] == ""


@pytest.mark.parametrize("pauses", [0, 1])
def test_resuming_what_is_on_keeps_the_count(heap: Heap, pauses: int) -> None:
    heap.enable_sampling(64)
    for _ in range(pauses):
        heap.pause_sampling()
        heap.resume_sampling()
    allocate_dead_nodes(heap, 1)
    heap.resume_sampling()
    assert heap.sampling.sample_point == 64


@pytest.mark.parametrize("report", [False, True])
def test_disabling_forgets_what_was_paused(heap: Heap, report: bool) -> None:
    heap.enable_sampling(64)
    heap.pause_sampling()
    heap.disable_sampling(report)
    heap.resume_sampling()
    assert heap.sampling.period_bytes == 0


def test_enabling_forgets_what_was_paused(heap: Heap) -> None:
    heap.enable_sampling(64)
    heap.pause_sampling()
    heap.enable_sampling(128)
    heap.resume_sampling()
    assert (heap.sampling.period_bytes, heap.sampling.paused_period_bytes) == (128, 0)


def test_an_illegal_period_leaves_sampling_paused_as_it_was(heap: Heap) -> None:
    heap.enable_sampling(64)
    heap.pause_sampling()
    with pytest.raises(ConfigurationError):
        heap.enable_sampling(12)
    heap.resume_sampling()
    assert heap.sampling.period_bytes == 64


# Forking.


def test_a_forked_child_is_not_sampled(heap: Heap) -> None:
    heap.enable_sampling(8)
    heap.after_fork()
    allocate_dead_nodes(heap, 20)
    heap.allocate_string(1000)
    assert samples(heap) == 0


def test_a_fork_collects_nothing_and_leaves_the_pending_samples_to_the_parent(heap: Heap) -> None:
    heap.enable_sampling(24)
    heap.allocate_node(1)
    heap.after_fork()
    assert heap.events.take()[0] == "s"
    heap.collect_minor()
    assert heap.events.take() == ("M", [])


def test_a_forked_child_keeps_its_objects(heap: Heap) -> None:
    heap.enable_sampling(24)
    heap.allocate_node(1)
    heap.after_fork()
    assert (heap.read_number(0), heap.nursery.nursery_free) == (1, 32)


@pytest.mark.parametrize("paused", [False, True])
def test_a_forked_child_has_nothing_to_resume(heap: Heap, paused: bool) -> None:
    heap.enable_sampling(64)
    if paused:
        heap.pause_sampling()
    heap.after_fork()
    heap.resume_sampling()
    assert heap.sampling.period_bytes == 0


def test_a_forked_child_may_enable_sampling_for_itself(heap: Heap) -> None:
    heap.enable_sampling(64)
    allocate_dead_nodes(heap, 1)
    heap.after_fork()
    heap.enable_sampling(64)
    assert heap.sampling.sample_point == 96


# Reports.


def test_a_dead_object_is_reported_as_dead(heap: Heap) -> None:
    sample_the_next_node(heap)
    allocate_dead_nodes(heap, 1)
    heap.collect_minor()
    assert heap.events.take()[1][0].entries == [Kind.NODE << 2]


@pytest.mark.parametrize("kept", [False, True])
def test_an_object_outside_is_reported_as_outside_with_its_survival(heap: Heap, kept: bool) -> None:
    heap.enable_sampling(64)
    heap.allocate_string(100 - 25)
    if not kept:
        heap.free(0)
    heap.collect_minor()
    assert heap.events.take()[1][0].entries == [Kind.STRING << 2 | OUTSIDE | kept]


def test_an_object_reachable_from_an_old_one_only_is_reported_as_surviving(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_minor()
    sample_the_next_node(heap)
    heap.allocate_node(2)
    heap.write(0, 0, 1)
    heap.free(1)
    heap.collect_minor()
    assert heap.events.take()[1][0].entries == [Kind.NODE << 2 | SURVIVED]


def test_a_weak_reference_keeps_no_sampled_object_alive(heap: Heap) -> None:
    sample_the_next_node(heap)
    heap.allocate_node(1)
    heap.allocate_weakref(0)
    heap.free(0)
    heap.collect_minor()
    assert heap.events.take()[1][0].entries == [Kind.NODE << 2]


def test_an_object_whose_identity_was_taken_is_reported_as_surviving(heap: Heap) -> None:
    sample_the_next_node(heap)
    heap.allocate_node(1)
    heap.identity(0)
    heap.collect_minor()
    assert heap.events.take()[1][0].entries == [Kind.NODE << 2 | SURVIVED]


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
    kinds = [entry >> 2 for entry in heap.events.take()[1][0].entries]
    assert kinds == [Kind.STRING, Kind.NODE, Kind.WEAKREF, Kind.ARRAY]


def test_an_object_sampled_several_times_has_as_many_entries(heap: Heap) -> None:
    heap.enable_sampling(8)
    heap.allocate_node(1)
    heap.collect_minor()
    assert heap.events.take()[1][0].entries == [Kind.NODE << 2 | SURVIVED] * 3


def test_a_sample_is_reported_once(heap: Heap) -> None:
    sample_the_next_node(heap)
    heap.allocate_node(1)
    heap.collect_minor()
    heap.events.take()
    heap.collect_minor()
    assert heap.events.take()[1] == []


def test_a_report_says_the_memory_used_with_dead_objects_outside_still_in_it(heap: Heap) -> None:
    heap.allocate_string(100 - 25)
    heap.free(0)
    sample_the_next_node(heap)
    heap.allocate_node(1)
    heap.collect_minor()
    report = heap.events.take()[1][0]
    assert (report.memory_used_bytes, heap.memory_used_bytes()) == (104 + 32, 32)


@pytest.mark.parametrize(("paged_arenas", "arena_bytes"), [(True, 512), (False, 0)])
def test_a_report_says_the_bytes_of_all_arenas(paged_arenas: bool, arena_bytes: int) -> None:
    heap = Heap(Configuration(paged_arenas=paged_arenas))
    sample_the_next_node(heap)
    heap.allocate_node(1)
    heap.collect_minor()
    assert heap.events.take()[1][0].arena_bytes == arena_bytes


@pytest.mark.parametrize("major_state", [0, 1, 2, 3])
def test_a_report_says_the_state_of_the_major_collection(heap: Heap, major_state: int) -> None:
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
        distance = heap.sampling.sample_point - heap.nursery.nursery_free
        assert (taken, distance) == (0, period_bytes - counted_bytes)


@pytest.mark.parametrize("period_bytes", [8, 72, 256, 264, 2000])
def test_the_limit_is_the_nearer_of_sample_point_and_nursery_top(
    heap: Heap, period_bytes: int
) -> None:
    heap.enable_sampling(period_bytes)
    nursery = heap.nursery
    for step in range(150):
        script(heap, step)
        assert nursery.nursery_limit == min(heap.sampling.sample_point, nursery.nursery_top)
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
