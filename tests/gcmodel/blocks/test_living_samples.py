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


def test_jemalloc_counts_objects_in_eighths() -> None:
    found = JemallocLivingSamples().stands_for(jemalloc_sample(1024, 19))
    assert found == (4100 / 8, 524800)


def test_a_profile_unbiases_before_it_sums() -> None:
    profile = JemallocLivingSamples()
    for usable_bytes in (16, 33554432):
        profile.add(jemalloc_sample(usable_bytes, 19))
    # Summed first these would be 2 objects of 33554448 bytes.
    assert profile.read() == (round(262148 / 8 + 1), 524296 + 33554432)


def test_a_freed_block_leaves_the_profile_even_after_its_sample_was_dropped() -> None:
    profile = JemallocLivingSamples()
    freed, alive = jemalloc_sample(16, 12), jemalloc_sample(16, 12)
    profile.add(freed)
    profile.add(alive)
    profile.remove(freed)
    assert profile.read() == (round(2052 / 8), 4104)
    profile.drop()
    profile.remove(alive)
    assert profile.read() == (0, 0)


@pytest.mark.parametrize(
    "profile", [JemallocLivingSamples(), GperftoolsLivingSamples(), TcmallocLivingSamples()]
)
def test_a_profile_without_samples_is_empty(profile: LivingSamples) -> None:
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
