"""What the samples of living blocks stand for."""

import pytest

from gcmodel.blocks.block_sampler import BlockSample
from gcmodel.blocks.living_samples import (
    GperftoolsLivingSamples,
    JemallocLivingSamples,
    LivingSamples,
    SampledBlock,
    TcmallocLivingSamples,
)


def jemalloc_sample(usable_bytes: int, period_lg: int) -> SampledBlock:
    return SampledBlock(BlockSample(2**period_lg), usable_bytes, usable_bytes, usable_bytes)


@pytest.mark.parametrize(
    ("usable", "period_lg", "stands_for_bytes", "eighths"),
    [
        *[(8, 0, 8, 8), (8, 12, 4100, 4100), (8, 19, 524292, 524292)],
        *[(16, 0, 16, 8), (16, 12, 4104, 2052), (16, 19, 524296, 262148)],
        *[(1024, 0, 1024, 8), (1024, 12, 4629, 36), (1024, 19, 524800, 4100)],
        *[(4096, 0, 4096, 8), (4096, 12, 6480, 13), (4096, 19, 526339, 1028)],
        *[(16384, 0, 16384, 8), (16384, 12, 16690, 8), (16384, 19, 532523, 260)],
        *[(524288, 12, 524288, 8), (524288, 19, 829411, 13), (1048576, 19, 1212697, 9)],
    ],
)
def test_jemallocs_unbiased_bytes_and_eighths_of_objects(
    usable: int, period_lg: int, stands_for_bytes: int, eighths: int
) -> None:
    found = JemallocLivingSamples().stands_for(jemalloc_sample(usable, period_lg))
    assert found == (eighths / 8, stands_for_bytes)


def test_a_profile_unbiases_before_it_sums() -> None:
    profile = JemallocLivingSamples()
    for usable_bytes in (16, 33554432):
        profile.add(jemalloc_sample(usable_bytes, 19))
    # Summed first these would be 2 objects of 33554448 bytes.
    assert profile.read() == (round(262148 / 8 + 1), 524296 + 33554432)


def test_a_freed_block_leaves_the_profile() -> None:
    profile = JemallocLivingSamples()
    freed, alive = jemalloc_sample(16, 12), jemalloc_sample(16, 12)
    profile.add(freed)
    profile.add(alive)
    profile.remove(freed)
    assert profile.read() == (round(2052 / 8), 4104)


@pytest.mark.parametrize(
    "profile", [JemallocLivingSamples(), GperftoolsLivingSamples(), TcmallocLivingSamples()]
)
def test_a_profile_without_samples_is_empty(profile: LivingSamples) -> None:
    assert profile.read() == (0, 0)


def test_a_block_freed_after_its_sample_was_dropped_changes_nothing() -> None:
    profile = JemallocLivingSamples()
    sample = jemalloc_sample(16, 12)
    profile.add(sample)
    profile.drop()
    profile.remove(sample)
    assert profile.read() == (0, 0)


def test_tcmalloc_spreads_the_weight_over_what_was_asked_for_and_one_byte_more() -> None:
    # One byte asked for, so two counted of eight allocated: four times the weight.
    sample = SampledBlock(
        BlockSample(4096, 5000), requested_bytes=1, counted_bytes=2, usable_bytes=8
    )
    assert TcmallocLivingSamples().stands_for(sample) == (2500, 20000)


def test_gperftools_unbiases_by_what_it_counts() -> None:
    # Eight bytes of 4096 are sampled with a probability of 1 in 512.5.
    sample = SampledBlock(BlockSample(4096), requested_bytes=1, counted_bytes=8, usable_bytes=8)
    objects, size_bytes = GperftoolsLivingSamples().stands_for(sample)
    assert objects == pytest.approx(512.5, abs=0.01)
    assert size_bytes == 4100
