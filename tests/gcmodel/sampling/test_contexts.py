"""Allocation contexts: one check, every byte is a trial, and threads are independent."""

import math
import random

import pytest
from heap_steps import SURVIVED, letters, reported

from gcmodel import CONTEXTS, Configuration, Heap, Kind
from gcmodel.memory.events import ContextSample
from gcmodel.sampling.contexts import Context, ContextNursery
from gcmodel.sampling.distances import DotnetDocument

PERIOD_BYTES = 64


def make_heap(
    context_bytes: int = 128, nursery_bytes: int = 1024, seeds: tuple[int, ...] = (0, 1)
) -> Heap:
    return Heap(
        Configuration(
            nursery_bytes=nursery_bytes,
            context_bytes=context_bytes,
            sampler_seeds=seeds,
            prebuilt_nodes=0,
            prebuilt_arrays=0,
        ),
        CONTEXTS,
    )


@pytest.fixture
def heap() -> Heap:
    """Contexts of 128 bytes, that is of four nodes, for two threads with the seeds 0 and 1."""
    return make_heap()


def draws(seed: int, count: int) -> list[int]:
    distances = DotnetDocument(seed)
    return [distances.draw(PERIOD_BYTES) for _ in range(count)]


def heap_drawing(first: range, second: range = range(2**31)) -> tuple[Heap, list[int]]:
    """A heap of one thread whose first two distances lie there, and these distances."""
    for seed in range(5000):
        drawn = draws(seed, 2)
        if drawn[0] in first and drawn[1] in second:
            return make_heap(seeds=(seed,)), drawn
    raise AssertionError("there is no such seed")


def contexts_of(heap: Heap) -> list[Context]:
    assert isinstance(heap.nursery, ContextNursery)
    return heap.nursery.contexts


def allocate(heap: Heap, thread: int = 0, count: int = 1) -> str:
    """The events of `count` nodes that are dropped at once."""
    heap.nursery.thread = thread
    for number in range(count):
        heap.allocate_node(number)
        heap.free(len(heap.roots) - 1)
    return letters(heap)


# Contexts, while sampling is off.


def test_threads_allocate_in_contexts_of_their_own(heap: Heap) -> None:
    heap.allocate_node(1)
    assert contexts_of(heap) == [Context(32, 128, 128), Context()]
    assert heap.nursery.nursery_free == 128
    places = []
    for thread in (1, 0, 1):
        heap.nursery.thread = thread
        places.append(heap.allocate_node(thread)[1])
    assert places == [128, 32, 160]


@pytest.mark.parametrize(
    ("context_bytes", "context"),
    [(128, Context(128 + 40, 256, 256)), (16, Context(96 + 40, 136, 136))],
)
def test_an_object_without_room_gets_a_context(context_bytes: int, context: Context) -> None:
    heap = make_heap(context_bytes=context_bytes)
    allocate(heap, count=3)
    heap.allocate_string(40 - 25)
    assert contexts_of(heap)[0] == context


def test_a_full_nursery_is_collected_and_every_thread_loses_its_context(heap: Heap) -> None:
    assert allocate(heap, thread=1) == ""
    assert allocate(heap, count=28) == ""
    assert allocate(heap) == "M"
    assert contexts_of(heap) == [Context(32, 128, 128), Context()]


def test_the_objects_of_all_threads_survive_the_collection(heap: Heap) -> None:
    for number in range(40):
        heap.nursery.thread = number % 2
        heap.allocate_node(number)
    assert heap.events.take()[0] == "M"
    assert [heap.read_number(root) for root in range(40)] == list(range(40))


def test_a_context_may_fill_the_nursery() -> None:
    heap = make_heap(context_bytes=256, nursery_bytes=256)
    assert allocate(heap, count=9) == "M"


# The combined limit.


def test_enabling_in_mid_context_draws_at_once_for_every_thread(heap: Heap) -> None:
    allocate(heap, thread=0)
    allocate(heap, thread=1)
    heap.enable_sampling(PERIOD_BYTES)
    limits = [context.combined_limit for context in contexts_of(heap)]
    expected = [32 + draws(0, 1)[0], 128 + 32 + draws(1, 1)[0]]
    assert limits == [min(expected[0], 128), min(expected[1], 256)]


def test_a_distance_beyond_the_context_leaves_the_limit_at_its_end() -> None:
    heap, _ = heap_drawing(range(96, 300))
    allocate(heap)
    heap.enable_sampling(PERIOD_BYTES)
    assert contexts_of(heap)[0].combined_limit == 128


def test_disabling_raises_every_limit_to_the_contexts_end(heap: Heap) -> None:
    heap.enable_sampling(8)
    allocate(heap, thread=0)
    allocate(heap, thread=1)
    heap.disable_sampling(report=False)
    assert all(each.combined_limit == each.alloc_limit for each in contexts_of(heap))
    assert allocate(heap, count=20) == ""


# What is sampled.


def test_the_object_with_the_byte_that_succeeds_is_sampled() -> None:
    heap, drawn = heap_drawing(range(32 + 5, 32 + 20))
    allocate(heap)
    heap.enable_sampling(PERIOD_BYTES)
    assert allocate(heap) == ""
    assert allocate(heap) == "s"
    assert heap.events.take_samples() == [ContextSample(0, size_bytes=32, offset=drawn[0] - 32)]


@pytest.mark.parametrize(("failing", "events"), [(32, ""), (31, "s")])
def test_the_byte_behind_an_object_does_not_sample_it(failing: int, events: str) -> None:
    heap, _ = heap_drawing(range(failing, failing + 1))
    allocate(heap)
    heap.enable_sampling(PERIOD_BYTES)
    assert allocate(heap) == events


def test_after_a_sample_a_fresh_distance_begins_behind_the_object() -> None:
    heap, drawn = heap_drawing(range(32), range(20, 60))
    allocate(heap)
    heap.enable_sampling(PERIOD_BYTES)
    allocate(heap)
    assert contexts_of(heap)[0].combined_limit == 64 + drawn[1]


def test_an_object_is_sampled_once_however_many_bytes_succeed(heap: Heap) -> None:
    heap.enable_sampling(8)
    assert allocate(heap) == "s"


def test_an_object_that_overflows_is_sampled_by_a_byte_left_in_the_old_context() -> None:
    heap, drawn = heap_drawing(range(32))
    allocate(heap, count=3)
    heap.enable_sampling(PERIOD_BYTES)
    heap.allocate_string(40 - 25)
    assert heap.events.take_samples() == [ContextSample(0, 40, drawn[0])]


@pytest.mark.parametrize(("failing", "samples"), [(23, [ContextSample(0, 56, 32 + 23)]), (24, [])])
def test_an_overflow_starts_a_fresh_distance(failing: int, samples: list[ContextSample]) -> None:
    heap, _ = heap_drawing(range(32, 1000), range(failing, failing + 1))
    allocate(heap, count=3)
    heap.enable_sampling(PERIOD_BYTES)
    heap.allocate_string(56 - 25)
    assert heap.events.take_samples() == samples


def test_a_new_context_draws_behind_the_object_that_asked_for_it(heap: Heap) -> None:
    heap.enable_sampling(PERIOD_BYTES)
    heap.allocate_node(1)
    # One distance when enabled, one to judge the node by, and one for the new context.
    limit = contexts_of(heap)[0].combined_limit
    assert limit == min(32 + draws(0, 3)[2], 128)


def test_a_sample_precedes_the_collection_that_its_object_causes(heap: Heap) -> None:
    allocate(heap, count=32)
    heap.enable_sampling(8)
    assert allocate(heap) == "sM"


def test_an_object_outside_is_judged_by_a_distance_of_its_own() -> None:
    heap, drawn = heap_drawing(range(40, 90), range(100))
    allocate(heap)
    heap.enable_sampling(PERIOD_BYTES)
    heap.allocate_string(100 - 25)
    assert heap.events.take_samples() == [ContextSample(0, 100, drawn[1])]
    assert contexts_of(heap)[0].combined_limit == 32 + drawn[0]


def test_another_thread_s_allocations_make_no_difference(heap: Heap) -> None:
    alone = make_heap()
    taken = []
    for each, threads in ((alone, (0,)), (heap, (1, 0))):
        each.enable_sampling(PERIOD_BYTES)
        taken.append([[allocate(each, thread) for thread in threads][-1] for _ in range(16)])
    assert taken[0] == taken[1]
    assert "s" in taken[0]
    heap.events.take_samples()
    heap.enable_sampling(8)
    allocate(heap, thread=1)
    assert [sample.thread for sample in heap.events.take_samples()] == [1]


# Reports.


def test_a_sampled_object_is_reported_when_it_survives(heap: Heap) -> None:
    heap.enable_sampling(8)
    heap.allocate_node(1)
    heap.collect_minor()
    assert reported(heap) == [Kind.NODE << 2 | SURVIVED]


def test_a_sampled_object_is_not_in_the_report_of_the_collection_that_it_causes(heap: Heap) -> None:
    heap.allocate_node(1)
    heap.enable_sampling(8)
    while "M" not in heap.events.order and len(heap.roots) < 99:
        heap.allocate_node(1)
    order, [report] = heap.events.take()
    assert order.endswith("sMR")
    assert len(report.entries) == order.count("s") - 1
    assert len(heap.sampling.pending) == 1


# The probability of a sample.


@pytest.mark.slow
@pytest.mark.parametrize("context_bytes", [16, 64, 200, 1024])
def test_an_object_is_sampled_as_often_as_one_of_its_bytes_succeeds(context_bytes: int) -> None:
    heap = make_heap(context_bytes=context_bytes)
    heap.enable_sampling(PERIOD_BYTES)
    source = random.Random(1)
    allocated = {16: 0, 40: 0, 56: 0, 120: 0}
    sampled = dict.fromkeys(allocated, 0)
    for _ in range(20_000):
        size_bytes = source.choice(list(allocated))
        heap.nursery.thread = source.randrange(2)
        heap.allocate_array((size_bytes - 16) // 8)
        heap.free(0)
        allocated[size_bytes] += 1
        for sample in heap.events.take_samples():
            sampled[sample.size_bytes] += 1
        heap.events.take()
    for size_bytes, count in allocated.items():
        chance = 1 - (1 - 1 / PERIOD_BYTES) ** size_bytes
        sigma = math.sqrt(count * chance * (1 - chance))
        assert abs(sampled[size_bytes] - count * chance) < 5 * sigma
