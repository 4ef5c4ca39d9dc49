"""The major collection: what it frees, its steps, the mutator in between, and its pace."""

from collections.abc import Callable

import pytest
from heap_steps import finish_cycle, letters, step_until

from gcmodel import Configuration, DanglingReferenceError, Heap, Parts
from gcmodel.collector.major import State
from gcmodel.collector.minor import MinorCollection


@pytest.fixture
def stepwise() -> Heap:
    """A marking step visits one object, so that the mutator can act between any two."""
    return Heap(Configuration(single_step_marking=True))


def build_black_array_and_hidden_node(heap: Heap, length: int) -> None:
    """Root 0 becomes a black array; white node 7 hangs on root 1 only, a node still gray."""
    heap.allocate_array(length)
    heap.allocate_node(1)
    heap.allocate_node(7)
    heap.write(1, 0, 2)
    heap.free(2)
    heap.collect_minor()
    heap.roots.reverse()
    heap.collect_step()
    heap.collect_step()
    heap.roots.reverse()


def hide_node_behind_black_array(heap: Heap) -> None:
    """The node moves from the gray object into the black one, which is not visited again."""
    heap.read(1, 0)
    heap.write(0, 0, 2)
    heap.free(2)
    heap.write(1, 0, None)


# What is freed.


def test_a_full_collection_frees_an_unreachable_old_cycle_and_objects_outside(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_node(2)
    heap.write(0, 0, 1)
    heap.write(1, 0, 0)
    heap.allocate_string(1000)
    heap.collect_minor()
    heap.roots.clear()
    heap.collect_full()
    assert heap.memory_used_bytes() == 0


def test_full_collections_keep_everything_reachable(heap: Heap) -> None:
    heap.allocate_array(20)
    heap.allocate_string(1000)
    for index in range(20):
        heap.allocate_node(index)
        heap.write(0, index, 2)
        heap.free(2)
    before = heap.walk()
    for _ in range(2):
        heap.collect_full()
        assert heap.walk() == before


def test_a_full_collection_within_a_cycle_frees_what_the_cycle_missed(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_step()
    heap.free(0)
    heap.collect_full()
    assert heap.memory_used_bytes() == 0


def test_an_object_that_dies_after_its_root_was_scanned_waits_a_cycle(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_step()
    heap.free(0)
    finish_cycle(heap)
    assert heap.memory_used_bytes() == 32
    heap.collect_step()
    finish_cycle(heap)
    assert heap.memory_used_bytes() == 0


# Steps.


def test_a_cycle_over_an_empty_heap_takes_one_step_a_state(heap: Heap) -> None:
    states = []
    for _ in range(4):
        heap.collect_step()
        states.append(heap.major.state)
    assert states == [State.MARKING, State.SWEEPING, State.FINALIZING, State.SCANNING]


def test_a_step_collects_the_nursery_first_and_once(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_step()
    assert (letters(heap), heap.nursery.nursery_free) == ("M", 0)


def test_a_marking_step_visits_four_nurseries_of_bytes(heap: Heap) -> None:
    for _ in range(10):
        heap.allocate_string(256 - 25)
    heap.collect_full()
    heap.collect_step()
    heap.collect_step()
    assert len(heap.major.to_trace) == 10 - 5


class CountingLooks(MinorCollection):
    """Counts how often the roots are looked at."""

    looks = 0

    def _rescan_roots(self) -> None:
        self.looks += 1
        super()._rescan_roots()


@pytest.mark.parametrize("count", [10, 40])
@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_full_collection_looks_at_the_roots_once_a_state(count: int, is_pinned: bool) -> None:
    heap = Heap(Configuration(single_step_marking=True), Parts(minor=CountingLooks))
    for number in range(count):
        heap.allocate_node(number)
    if is_pinned:
        heap.allocate_string(0)
        heap.pin(count)
    heap.collect_full()
    heap.events.take()
    minor = heap.minor
    assert isinstance(minor, CountingLooks)
    minor.looks = 0
    heap.collect_full()
    assert letters(heap).count("M") > count
    assert minor.looks == len(State)


def test_a_single_marking_step_visits_one_object(stepwise: Heap) -> None:
    stepwise.allocate_node(1)
    stepwise.allocate_node(2)
    stepwise.collect_step()
    stepwise.collect_step()
    assert stepwise.major.to_trace == [stepwise.roots[0]]


def test_a_sweeping_step_meets_19_objects_outside(heap: Heap) -> None:
    for _ in range(20):
        heap.allocate_string(0, nonmovable=True)
    step_until(heap, State.SWEEPING)
    heap.collect_step()
    assert len(heap.large_objects.to_sweep) == 20 - 3 * 256 // 40


def test_a_step_that_sweeps_objects_outside_sweeps_no_arena(heap: Heap) -> None:
    heap.allocate_string(100)
    heap.allocate_node(1)
    heap.collect_minor()
    heap.free(1)
    heap.free(0)
    for _ in range(3):
        heap.collect_step()
    assert (heap.large_objects.used_bytes, heap.arenas.used_bytes) == (0, 32)


def test_an_object_that_becomes_old_during_the_sweep_is_not_swept(heap: Heap) -> None:
    heap.allocate_string(100)
    step_until(heap, State.SWEEPING)
    heap.allocate_node(5)
    finish_cycle(heap)
    assert heap.read_number(1) == 5
    assert heap.memory_used_bytes() == 128 + 32


# The mutator while marking.


@pytest.mark.parametrize("length", [2, 20])
def test_a_white_object_hidden_behind_a_black_array_is_not_lost(length: int) -> None:
    heap = Heap(Configuration(single_step_marking=True, prebuilt_nodes=0, prebuilt_arrays=0))
    build_black_array_and_hidden_node(heap, length)
    hide_node_behind_black_array(heap)
    finish_cycle(heap)
    heap.read(0, 0)
    assert heap.read_number(2) == 7


def test_an_object_allocated_while_marking_is_not_lost(stepwise: Heap) -> None:
    stepwise.collect_step()
    stepwise.allocate_node(5)
    finish_cycle(stepwise)
    assert stepwise.read_number(0) == 5


def test_a_white_object_that_became_a_root_while_marking_is_not_lost(stepwise: Heap) -> None:
    stepwise.allocate_node(1)
    stepwise.allocate_node(7)
    stepwise.write(0, 0, 1)
    stepwise.free(1)
    stepwise.collect_step()
    stepwise.read(0, 0)
    stepwise.write(0, 0, None)
    finish_cycle(stepwise)
    assert stepwise.read_number(1) == 7


def test_marking_ends_though_the_mutator_writes_before_every_step(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.collect_step()
    steps = 0
    while heap.major.is_marking() and steps < 9:
        heap.allocate_node(2)
        heap.write(0, 0, 1)
        heap.free(1)
        heap.collect_step()
        steps += 1
    assert steps == 1


def test_little_left_of_the_budget_leaves_the_written_objects_for_the_next_step(heap: Heap) -> None:
    heap.allocate_string(700)
    heap.collect_step()
    heap.allocate_node(5)
    heap.collect_step()
    assert heap.major.is_marking()
    assert heap.major.to_rescan == heap.roots


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Heap.collect_step, finish_cycle),
        (Heap.collect_full, Heap.collect_full),
        (lambda heap: None, lambda heap: [heap.collect_full() for _ in range(3)]),
    ],
    ids=["while marking", "after a cycle", "in every cycle"],
)
def test_a_prebuilt_object_keeps_its_object_alive(
    heap_with_prebuilt: Heap, before: Callable[[Heap], None], after: Callable[[Heap], None]
) -> None:
    heap = heap_with_prebuilt
    before(heap)
    heap.load_prebuilt(0)
    heap.allocate_node(5)
    heap.write(0, 0, 1)
    heap.roots.clear()
    after(heap)
    heap.load_prebuilt(0)
    heap.read(0, 0)
    assert heap.read_number(1) == 5


def test_written_prebuilt_objects_are_scanned_before_roots(heap_with_prebuilt: Heap) -> None:
    heap = heap_with_prebuilt
    heap.load_prebuilt(0)
    heap.write(0, 0, None)
    heap.free(0)
    heap.allocate_node(1)
    heap.collect_step()
    assert heap.major.to_trace == [heap.prebuilt[0], heap.roots[0]]


def test_a_reference_to_a_freed_object_is_found_by_marking(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.allocate_string(100)
    freed = heap.roots[1]
    heap.free(1)
    heap.collect_minor()
    heap.roots[0].refs[0] = freed
    with pytest.raises(DanglingReferenceError, match=r"marking found .*, freed"):
        heap.collect_full()


# When a cycle starts, and how fast it goes.


@pytest.mark.parametrize(("extra_bytes", "reached"), [(40, False), (41, True)])
def test_a_threshold_is_reached_above_it(heap: Heap, extra_bytes: int, reached: bool) -> None:
    heap.allocate_string(600 - 25)
    assert heap.major.threshold_reached(extra_bytes) is reached


@pytest.mark.parametrize(("size_bytes", "state"), [(608, State.SCANNING), (609, State.MARKING)])
def test_progress_starts_above_the_threshold(heap: Heap, size_bytes: int, state: State) -> None:
    heap.allocate_string(size_bytes - 25)
    heap.allocate_node(1)
    heap.collect_progress()
    assert (letters(heap), heap.major.state) == ("M", state)


def test_progress_in_a_started_cycle_is_a_step_also_below_the_threshold(heap: Heap) -> None:
    heap.collect_step()
    heap.collect_progress()
    assert heap.major.state is State.SWEEPING


@pytest.mark.parametrize(("raw_bytes", "order"), [(256, "M"), (257, "MM"), (513, "MMMM")])
def test_progress_steps_on_while_much_becomes_old(heap: Heap, raw_bytes: int, order: str) -> None:
    heap.collect_step()
    heap.allocate_string(raw_bytes - 25)
    heap.events.take()
    heap.collect_progress()
    assert letters(heap) == order


def test_a_full_nursery_starts_a_cycle_past_the_threshold(heap: Heap) -> None:
    heap.allocate_string(640 - 25)
    for number in range(9):
        heap.allocate_node(number)
    assert heap.major.state is not State.SCANNING


def test_an_object_outside_collects_before_it_passes_the_threshold(heap: Heap) -> None:
    heap.allocate_string(600 - 25)
    heap.free(0)
    heap.allocate_string(600 - 25)
    assert letters(heap).startswith("M")
    assert heap.memory_used_bytes() == 600


def test_the_threshold_becomes_two_and_a_half_times_what_is_left(heap: Heap) -> None:
    heap.allocate_string(400 - 25)
    heap.collect_full()
    assert heap.major.threshold_bytes == 1000


def test_the_threshold_grows_by_two_and_a_half_a_cycle_at_most(heap: Heap) -> None:
    heap.allocate_string(640 - 25)
    for number in range(7):
        heap.allocate_node(number)
    for threshold_bytes in (640 * 2.5, 864 * 2.5):
        heap.collect_full()
        assert (heap.memory_used_bytes(), heap.major.threshold_bytes) == (864, threshold_bytes)


def test_the_threshold_does_not_fall_below_its_first_value(heap: Heap) -> None:
    heap.allocate_string(5000)
    heap.collect_full()
    heap.free(0)
    heap.collect_full()
    assert heap.major.threshold_bytes == 640


def test_the_bytes_about_to_be_allocated_are_reserved_above_the_threshold(heap: Heap) -> None:
    heap.allocate_string(2000 - 25)
    # A cycle over an empty heap ran first; half a nursery is reserved beside the object.
    assert heap.major.threshold_bytes == 2000 + 128
