"""Sampling at random distances in the collector: the same rule, with random sample points."""

import pytest
from heap_steps import sample_point_of

from gcmodel import Configuration, Heap
from gcmodel.sampling.distances import Geometric

PERIOD_BYTES = 64


@pytest.fixture
def random_heap() -> Heap:
    return Heap(Configuration(random_periods=True, sampler_seeds=(7,)))


def distances(count: int) -> list[int]:
    geometric = Geometric(7)
    return [geometric.draw(PERIOD_BYTES) for _ in range(count)]


def sampled_nodes(heap: Heap, count: int) -> list[int]:
    """How often each of `count` nodes of 32 bytes is sampled."""
    found = []
    for number in range(count):
        heap.allocate_node(number)
        heap.free(len(heap.roots) - 1)
        found.append(heap.events.take()[0].count("s"))
    return found


def test_each_sample_draws_the_next_distance_from_the_sample_point(random_heap: Heap) -> None:
    random_heap.enable_sampling(PERIOD_BYTES)
    taken = sampled_nodes(random_heap, 100)
    points = [sum(distances(count)) for count in range(1, 200)]
    expected = [sum(32 * i < point + 1 <= 32 * (i + 1) for point in points) for i in range(100)]
    assert taken == expected
    assert max(taken) > 1


def test_collections_make_no_difference() -> None:
    counts = []
    for nursery_bytes in (64, 4096):
        configuration = Configuration(
            nursery_bytes=nursery_bytes, random_periods=True, sampler_seeds=(7,)
        )
        heap = Heap(configuration)
        heap.enable_sampling(PERIOD_BYTES)
        counts.append(sampled_nodes(heap, 100))
    assert counts[0] == counts[1]


def test_an_object_outside_brings_the_drawn_point_nearer(random_heap: Heap) -> None:
    random_heap.enable_sampling(PERIOD_BYTES)
    random_heap.allocate_string(2**12)
    points = [sum(distances(count)) for count in range(1, 300)]
    expected = sum(point < 2**12 + 25 for point in points)
    assert random_heap.events.take()[0].count("s") == expected


def test_enabling_again_draws_the_next_distance(random_heap: Heap) -> None:
    random_heap.enable_sampling(PERIOD_BYTES)
    random_heap.enable_sampling(PERIOD_BYTES)
    assert sample_point_of(random_heap) == distances(2)[1]


def test_nothing_is_drawn_while_sampling_is_off(random_heap: Heap) -> None:
    sampled_nodes(random_heap, 100)
    random_heap.enable_sampling(PERIOD_BYTES)
    expected = random_heap.nursery.nursery_free + distances(1)[0]
    assert sample_point_of(random_heap) == expected
