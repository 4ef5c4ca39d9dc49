"""The heap that most workloads are run on."""

import pytest

from gcmodel import Configuration, Heap


@pytest.fixture
def large_heap() -> Heap:
    """A nursery of 64 kB, objects of 8 kB or more outside, nothing prebuilt."""
    return Heap(
        Configuration(
            nursery_bytes=65536, large_object_bytes=8192, prebuilt_nodes=0, prebuilt_arrays=0
        )
    )
