"""The heap that most of these tests use."""

import pytest

from gcmodel import Configuration, Heap


@pytest.fixture
def heap() -> Heap:
    """256 bytes of nursery, objects of 64 bytes or more outside, cards of 4, nothing prebuilt."""
    return Heap(Configuration(prebuilt_nodes=0, prebuilt_arrays=0))


@pytest.fixture
def heap_with_prebuilt() -> Heap:
    """The same with two prebuilt nodes and two prebuilt arrays of four items, in that order."""
    return Heap(Configuration(prebuilt_nodes=2, prebuilt_arrays=2))


@pytest.fixture
def heap_for_pins() -> Heap:
    """512 bytes of nursery, so that three objects may be pinned, also while sampling is on."""
    return Heap(
        Configuration(
            nursery_bytes=512, pin_while_sampling=True, prebuilt_nodes=0, prebuilt_arrays=0
        )
    )
