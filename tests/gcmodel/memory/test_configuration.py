"""Which configurations and sampling periods are legal, and how the others are refused."""

import attrs
import pytest

from gcmodel import Configuration, ConfigurationError, Heap, HeapError
from gcmodel.memory.configuration import check_period


@pytest.mark.parametrize("nursery_bytes", [0, 56, 260, 2**20 + 8])
def test_a_nursery_that_is_too_small_too_large_or_no_whole_words_is_refused(
    nursery_bytes: int,
) -> None:
    with pytest.raises(ConfigurationError, match=f"nursery_bytes is {nursery_bytes};"):
        Configuration(nursery_bytes=nursery_bytes, large_object_bytes=17)


@pytest.mark.parametrize("nursery_bytes", [64, 2**20])
def test_the_smallest_and_the_largest_nursery_can_run(nursery_bytes: int) -> None:
    heap = Heap(Configuration(nursery_bytes=nursery_bytes))
    for number in range(nursery_bytes // 32 + 1):
        heap.allocate_node(number)
    assert heap.events.take()[0] == "M"


@pytest.mark.parametrize("large_object_bytes", [16, 257])
def test_large_objects_must_be_larger_than_a_weakref_and_not_larger_than_the_nursery(
    large_object_bytes: int,
) -> None:
    with pytest.raises(ConfigurationError, match=f"large_object_bytes is {large_object_bytes};"):
        Configuration(nursery_bytes=256, large_object_bytes=large_object_bytes)


def test_with_the_smallest_large_object_a_weak_reference_still_lies_in_the_nursery() -> None:
    heap = Heap(Configuration(large_object_bytes=17))
    heap.allocate_node(1)
    assert heap.allocate_weakref(0) == (16, 0)


def test_with_the_largest_large_object_an_object_may_fill_the_nursery() -> None:
    heap = Heap(Configuration(nursery_bytes=256, large_object_bytes=256))
    assert heap.allocate_string(255 - 25) == (256, 0)


@pytest.mark.parametrize("card_items", [-4, 1, 5, 64])
def test_cards_have_0_4_or_32_items(card_items: int) -> None:
    with pytest.raises(ConfigurationError, match=f"card_items is {card_items};"):
        Configuration(card_items=card_items)


@pytest.mark.parametrize("name", ["prebuilt_nodes", "prebuilt_arrays"])
@pytest.mark.parametrize("count", [-1, 9])
def test_there_are_from_0_to_8_prebuilt_objects_of_a_kind(name: str, count: int) -> None:
    with pytest.raises(ConfigurationError, match=name):
        Configuration(**{name: count})  # type: ignore[arg-type]


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Configuration().nursery_bytes = 512  # type: ignore[misc]


@pytest.mark.parametrize("period_bytes", [12, 7, 0, -8, 2**40 + 8, 2**64])
def test_a_period_that_is_no_whole_number_of_words_in_range_is_refused(period_bytes: int) -> None:
    with pytest.raises(ConfigurationError, match=f"period_bytes is {period_bytes};"):
        check_period(period_bytes)


@pytest.mark.parametrize("period_bytes", [8, 24, 2**40])
def test_the_shortest_and_the_longest_period_take_effect(period_bytes: int) -> None:
    heap = Heap(Configuration())
    heap.enable_sampling(period_bytes)
    assert heap.sampling.sample_point == period_bytes


@pytest.mark.parametrize("base", [HeapError, ValueError])
def test_a_configuration_error_is_a_heap_error_and_a_value_error(base: type[Exception]) -> None:
    assert issubclass(ConfigurationError, base)
