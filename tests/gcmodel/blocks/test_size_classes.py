"""What blocks occupy and count in each allocator."""

import pytest

from gcmodel.blocks.size_classes import GperftoolsSizes, JemallocSizes, Sizes, TcmallocSizes

JEMALLOC, GPERFTOOLS, TCMALLOC = JemallocSizes(), GperftoolsSizes(), TcmallocSizes()
EACH = [JEMALLOC, GPERFTOOLS, TCMALLOC]


@pytest.mark.parametrize(
    ("requested", "usable"),
    [
        *[(0, 8), (1, 8), (8, 8), (9, 16), (17, 32), (128, 128), (129, 160), (160, 160)],
        *[(161, 192), (1025, 1280), (14336, 14336), (14337, 16384), (16385, 20480)],
        *[(2**20, 2**20), (2**20 + 1, 2**20 + 2**18)],
    ],
)
def test_jemallocs_usable_sizes(requested: int, usable: int) -> None:
    assert JEMALLOC.usable_bytes(requested) == usable


@pytest.mark.parametrize(
    ("requested", "usable"),
    [
        *[(0, 8), (8, 8), (9, 16), (33, 48), (128, 128), (129, 144), (256, 256), (257, 288)],
        *[(65536, 65536), (65537, 73728), (131073, 139264), (262144, 262144)],
        *[(262145, 270336), (270337, 278528)],
    ],
)
def test_gperftools_size_classes_and_pages(requested: int, usable: int) -> None:
    assert GPERFTOOLS.usable_bytes(requested) == usable


@pytest.mark.parametrize("sizes", EACH)
def test_a_usable_size_is_enough_does_not_fall_and_is_a_size_of_its_own(sizes: Sizes) -> None:
    usable = [sizes.usable_bytes(requested) for requested in range(1, 2**12)]
    assert usable == sorted(usable)
    assert all(room >= requested for requested, room in enumerate(usable, 1))
    assert all(sizes.usable_bytes(room) == room for room in usable)


@pytest.mark.parametrize(
    ("sizes", "requested", "counted"),
    [
        *[(JEMALLOC, 0, 8), (JEMALLOC, 17, 32)],
        *[(TCMALLOC, 0, 1), (TCMALLOC, 17, 18)],
        *[(GPERFTOOLS, 0, 8), (GPERFTOOLS, 17, 32)],
        *[(GPERFTOOLS, 262144, 262144), (GPERFTOOLS, 262145, 262145)],
    ],
)
def test_the_bytes_that_an_allocation_counts(sizes: Sizes, requested: int, counted: int) -> None:
    assert sizes.counted_bytes(requested) == counted


@pytest.mark.parametrize("sizes", [GPERFTOOLS, TCMALLOC])
@pytest.mark.parametrize(
    ("requested", "asked"),
    [(63, 63), (64, None), (128, None), (129, 160), (159, 160), (160, 160), (161, 161)],
)
def test_a_block_of_128_bytes_may_move(sizes: Sizes, requested: int, asked: int | None) -> None:
    assert sizes.resizing_bytes(128, requested) == asked


def test_in_jemalloc_a_resized_block_counts_also_if_it_stays() -> None:
    assert JEMALLOC.resizing_bytes(128, 128) == 128
