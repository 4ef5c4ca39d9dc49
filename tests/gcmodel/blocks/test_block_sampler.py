"""Which blocks each allocator's sampler samples."""

from typing import Any

import pytest

from gcmodel.blocks.block_sampler import (
    BlockSample,
    BlockSampler,
    GperftoolsSampler,
    JemallocSampler,
    TcmallocSampler,
)
from gcmodel.sampling.distances import Gperftools, Jemalloc, Tcmalloc

PERIOD = 4096


def sampled(sampler: BlockSampler, sizes: list[int]) -> list[int]:
    """Which of these blocks are sampled."""
    return [number for number, size in enumerate(sizes) if sampler.count(size) is not None]


def test_tcmallocs_first_samples_and_weights_with_seed_1() -> None:
    sampler = TcmallocSampler(1, PERIOD)
    found = []
    for number in range(110):
        hit = sampler.count(number % 300 + 1)
        if hit is not None:
            found.append((number, hit.weight_bytes))
    assert found == [(47, 4115), (53, 4111), (76, 4163), (92, 4142), (109, 4147)]


def test_tcmallocs_mean_weight_is_what_a_block_stands_for() -> None:
    sampler = TcmallocSampler(1, 256)
    weights: list[Any] = [
        hit.weight_bytes for _ in range(20_000) if (hit := sampler.count(100)) is not None
    ]
    # 100 / (1 - exp(-100/256)), of which a draw of a whole number takes a half.
    assert sum(weights) / len(weights) == pytest.approx(309.2, abs=1.5)


def test_a_weight_is_computed_with_the_period_of_the_draw() -> None:
    sampler = TcmallocSampler(1, PERIOD)
    left_bytes = sampler.left_bytes
    sampler.period_bytes = 8
    assert sampler.count(left_bytes + 1) == BlockSample(PERIOD, PERIOD)


@pytest.mark.parametrize(
    ("kind", "distances"), [(TcmallocSampler, Tcmalloc), (GperftoolsSampler, Gperftools)]
)
def test_a_countdown_samples_beyond_what_is_left_and_restarts_behind_the_block(
    kind: type[GperftoolsSampler], distances: type[Gperftools]
) -> None:
    sampler, expected = kind(1, PERIOD), distances(1)
    assert sampler.left_bytes == expected.draw(PERIOD)
    assert sampler.count(sampler.left_bytes) is None
    assert sampler.left_bytes == 0
    assert sampler.count(1000) is not None
    assert sampler.left_bytes == expected.draw(PERIOD)


def test_jemalloc_samples_the_block_that_reaches_the_wait_and_restarts_behind_it() -> None:
    expected = Jemalloc(1)
    sampler = JemallocSampler(1, PERIOD)
    assert sampler.count(expected.draw(PERIOD) - 1) is None
    assert sampler.count(1000) == BlockSample(PERIOD)
    assert sampler.count(expected.draw(PERIOD) - 1) is None
    assert sampler.count(1) == BlockSample(PERIOD)


def test_with_period_1_jemalloc_samples_every_block() -> None:
    assert sampled(JemallocSampler(1, 1), [8] * 5) == [0, 1, 2, 3, 4]


def test_a_pause_changes_nothing_but_that_nothing_is_sampled_in_it() -> None:
    sizes = [128] * 2000
    paused, other = JemallocSampler(1, PERIOD), JemallocSampler(1, PERIOD)
    expected = sampled(other, sizes)
    paused.is_paused = True
    assert sampled(paused, sizes[:1000]) == []
    paused.is_paused = False
    after = [1000 + number for number in sampled(paused, sizes[1000:])]
    assert after == [number for number in expected if number >= 1000]


def test_a_new_period_leaves_jemallocs_current_wait() -> None:
    wait = Jemalloc(1).draw(PERIOD)
    sampler = JemallocSampler(1, PERIOD)
    sampler.period_bytes = 8
    assert sampler.count(wait - 1) is None
    assert sampler.count(1) == BlockSample(8)
