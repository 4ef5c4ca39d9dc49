"""Which configurations and sampling periods are legal, and how the others are refused."""

from typing import Any

import attrs
import pytest
from heap_steps import sample_point_of

from gcmodel import Configuration, ConfigurationError, Heap, HeapError, TlabSizes
from gcmodel.memory.configuration import SEED_MAX, check_period


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("nursery_bytes", value) for value in (0, 56, 260, 2**20 + 8)],
        *[("large_object_bytes", value) for value in (16, 257)],
        *[("card_items", value) for value in (-4, 1, 5, 64)],
        *[("context_bytes", value) for value in (0, 12, 264)],
        *[("prebuilt_nodes", value) for value in (-1, 9)],
        *[("prebuilt_arrays", value) for value in (-1, 9)],
        *[("sampler_seeds", value) for value in ((), (-1,), (SEED_MAX + 1,), (0,) * 65)],
        ("waste_bytes", 12),
    ],
)
def test_a_value_outside_its_range_is_refused(name: str, value: Any) -> None:
    make: type[Any] = TlabSizes if name == "waste_bytes" else Configuration
    with pytest.raises(ConfigurationError, match=name):
        make(**{name: value})


@pytest.mark.parametrize("nursery_bytes", [64, 2**20])
def test_the_smallest_and_the_largest_nursery_can_run(nursery_bytes: int) -> None:
    heap = Heap(Configuration(nursery_bytes=nursery_bytes))
    for number in range(nursery_bytes // 32 + 1):
        heap.allocate_node(number)
    assert heap.events.take()[0] == "M"


def test_with_the_smallest_large_object_a_weak_reference_still_lies_in_the_nursery() -> None:
    heap = Heap(Configuration(large_object_bytes=17))
    heap.allocate_node(1)
    assert heap.allocate_weakref(0) == (16, 0)


def test_with_the_largest_large_object_an_object_may_fill_the_nursery() -> None:
    heap = Heap(Configuration(nursery_bytes=256, large_object_bytes=256))
    assert heap.allocate_string(255 - 25) == (256, 0)


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Configuration().nursery_bytes = 512  # type: ignore[misc]  # It is frozen.


@pytest.mark.parametrize("period_bytes", [12, 7, 0, -8, 2**40 + 8, 2**64])
def test_a_period_that_is_not_whole_words_in_range_is_refused(period_bytes: int) -> None:
    with pytest.raises(ConfigurationError, match=f"period_bytes is {period_bytes};"):
        check_period(period_bytes)


@pytest.mark.parametrize("period_bytes", [8, 24, 2**40])
def test_the_shortest_and_the_longest_period_take_effect(period_bytes: int) -> None:
    heap = Heap(Configuration())
    heap.enable_sampling(period_bytes)
    assert sample_point_of(heap) == period_bytes


@pytest.mark.parametrize("base", [HeapError, ValueError])
def test_a_configuration_error_is_a_heap_error_and_a_value_error(base: type[Exception]) -> None:
    assert issubclass(ConfigurationError, base)
