"""Allocation contexts as in .NET 10, where they differ from its design document."""

from random import Random

import pytest

from gcmodel import SHIPPED_CONTEXTS, Configuration, Heap
from gcmodel.memory.events import ContextSample
from gcmodel.sampling.contexts import Context, ContextNursery
from gcmodel.sampling.distances import Dotnet

PERIOD_BYTES = 64


def make_heap(seed: int) -> Heap:
    """Contexts of 128 bytes, that is of four nodes, for one thread."""
    configuration = Configuration(
        nursery_bytes=1024,
        context_bytes=128,
        sampler_seeds=(seed,),
        prebuilt_nodes=0,
        prebuilt_arrays=0,
    )
    return Heap(configuration, SHIPPED_CONTEXTS)


def draws(seed: int, count: int) -> list[int]:
    distances = Dotnet(seed)
    return [distances.draw(PERIOD_BYTES) for _ in range(count)]


def heap_drawing(*wanted: range) -> tuple[Heap, list[int]]:
    """A heap whose first distances lie there, and these distances."""
    random = Random(1)
    for _ in range(10_000):
        seed = random.getrandbits(64)
        drawn = draws(seed, len(wanted))
        if all(distance in each for distance, each in zip(drawn, wanted, strict=True)):
            return make_heap(seed), drawn
    raise AssertionError("there is no such seed")


def context_of(heap: Heap) -> Context:
    assert isinstance(heap.nursery, ContextNursery)
    return heap.nursery.contexts[0]


ANY = range(2**31)


def test_enabling_in_mid_context_draws_nothing() -> None:
    heap, drawn = heap_drawing(range(32), ANY)
    heap.allocate_node(0)
    heap.enable_sampling(PERIOD_BYTES)
    for _ in range(3):
        heap.allocate_node(0)
    assert heap.events.take_samples() == []
    heap.allocate_node(0)
    assert heap.events.take_samples() == [ContextSample(0, 32, drawn[0])]


def test_a_drawn_limit_is_kept_until_sampling_is_enabled_again() -> None:
    heap, drawn = heap_drawing(range(32, 1000), range(40, 60))
    heap.enable_sampling(PERIOD_BYTES)
    heap.allocate_node(0)
    heap.disable_sampling(report=False)
    heap.allocate_node(0)
    heap.enable_sampling(PERIOD_BYTES)
    heap.allocate_node(0)
    assert heap.events.take_samples() == [ContextSample(0, 32, drawn[1] - 32)]


def test_a_limit_passed_while_sampling_was_off_is_forgotten() -> None:
    heap, _ = heap_drawing(range(32, 1000), range(20))
    heap.enable_sampling(PERIOD_BYTES)
    heap.allocate_node(0)
    heap.disable_sampling(report=False)
    heap.allocate_node(0)
    assert context_of(heap).combined_limit == context_of(heap).alloc_limit


@pytest.mark.parametrize(
    ("second", "offset"), [(range(20), None), (range(96, 1000), 96)], ids=["in it", "behind it"]
)
def test_a_context_judges_its_thread_s_objects_outside(second: range, offset: int | None) -> None:
    heap, drawn = heap_drawing(range(32, 1000), second, range(20), ANY)
    heap.enable_sampling(PERIOD_BYTES)
    heap.allocate_node(0)
    heap.allocate_string(200 - 25)
    expected = drawn[1] if offset is None else offset + drawn[2]
    assert heap.events.take_samples() == [ContextSample(0, 200, expected)]
    left_bytes = drawn[2 if offset is None else 3]
    assert context_of(heap).combined_limit == min(32 + left_bytes, 128)


def test_an_object_outside_that_its_context_has_room_for_draws_once() -> None:
    heap, drawn = heap_drawing(range(32, 1000), range(96, 1000), range(20))
    heap.enable_sampling(PERIOD_BYTES)
    heap.allocate_node(0)
    heap.allocate_node(0, nonmovable=True)
    assert heap.events.take_samples() == []
    assert context_of(heap).combined_limit == 32 + drawn[2]
