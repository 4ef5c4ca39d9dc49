"""TCMalloc's four profiles of the size-class allocator's own samples."""

import math
from random import Random

import pytest

from gcmodel.blocks.block_heap import TCMALLOC, Block, BlockHeap, ThreadCache
from gcmodel.blocks.history import BlockHistory
from gcmodel.estimation import profiles
from gcmodel.estimation.samples import Site
from gcmodel.estimation.tcmalloc import reported
from gcmodel.estimation.unbiased import Totals
from gcmodel.memory.errors import DoubleFreeError

HERE: Site = ("here",)
THERE: Site = ("there",)
SPAN_BLOCKS = ThreadCache.FILL_COUNT
LARGE_BYTES = 2**20
NO_MORE_THAN_STANDARD_ERRORS = 4
"""A false alarm once in 16,000 seeds; the seed is fixed."""


def history_of(period_bytes: int, seed: int = 1) -> BlockHistory:
    return BlockHistory(BlockHeap(TCMALLOC, period_bytes, (seed,)))


@pytest.fixture
def every_byte() -> BlockHistory:
    """Every block is sampled."""
    return history_of(period_bytes=1)


def test_a_sample_is_the_allocator_s(every_byte: BlockHistory) -> None:
    every_byte.malloc(20, "node", HERE, at_ns=5)
    [sampled] = every_byte.objects
    sample = sampled.sample
    assert (sample.type, sample.site, sampled.allocated_at_ns) == ("node", HERE, 5)
    assert (sample.requested_bytes, sample.counted_bytes, sample.allocated_bytes) == (20, 21, 32)
    assert (sample.offset_bytes, sample.period_bytes) == (0, 1)


def test_a_history_changes_nothing_in_what_is_sampled() -> None:
    sizes = [Random(1).randrange(3000) for _ in range(2000)]
    alone, noted = BlockHeap(TCMALLOC, 4096, (1,)), BlockHeap(TCMALLOC, 4096, (1,))
    history = BlockHistory(noted)
    blocks = [(alone.malloc(size), history.malloc(size, "", HERE, 0)) for size in sizes]
    assert alone.hits == noted.hits
    assert [bool(one.sample) for one, _ in blocks] == [bool(other.sample) for _, other in blocks]


def test_profiles_are_of_living_allocated_and_freed_bytes(every_byte: BlockHistory) -> None:
    freed = every_byte.malloc(9, "node", HERE, at_ns=1)
    every_byte.malloc(9, "node", THERE, at_ns=2)
    every_byte.free(freed, THERE, at_ns=6)
    with pytest.raises(DoubleFreeError):
        every_byte.free(freed, HERE, at_ns=7)
    objects = every_byte.objects
    assert set(profiles.heap(objects, at_ns=5)) == {HERE, THERE}
    assert set(profiles.heap(objects, at_ns=6)) == {THERE}
    assert set(profiles.allocation(objects, start_ns=2, stop_ns=3)) == {THERE}
    [pair] = profiles.lifetime(objects, start_ns=0, stop_ns=20)
    assert (pair.site, pair.freeing_site, pair.lifetime_ns) == (HERE, THERE, 5)


# Fragmentation.


def test_a_proxy_in_a_full_span_keeps_nothing(every_byte: BlockHistory) -> None:
    for _ in range(SPAN_BLOCKS):
        every_byte.malloc(9, "node", HERE, 0)
    assert every_byte.fragmentation() == {}


@pytest.mark.parametrize("freed", [0, SPAN_BLOCKS - 1])
def test_a_proxy_keeps_the_others_of_its_span(every_byte: BlockHistory, freed: int) -> None:
    blocks = [every_byte.malloc(9, "node", HERE, 0) for _ in range(1 + freed)]
    for block in blocks[1:]:
        every_byte.free(block, HERE, 1)
    charged = reported(every_byte.objects[0].sample, SPAN_BLOCKS - 1)
    assert every_byte.fragmentation() == {HERE: charged}


def test_a_proxy_goes_with_its_block(every_byte: BlockHistory) -> None:
    every_byte.free(every_byte.malloc(9, "node", HERE, 0), HERE, 1)
    assert every_byte.fragmentation() == {}


def test_a_large_block_has_no_proxy(every_byte: BlockHistory) -> None:
    every_byte.malloc(LARGE_BYTES, "buffer", HERE, 0)
    assert every_byte.fragmentation() == {}


# Without bias.


@pytest.mark.slow
def test_the_heap_profile_is_near_what_is_alive() -> None:
    period_bytes = 4096
    history, random = history_of(period_bytes), Random(2)
    alive: list[Block] = []
    true_bytes = 0
    for _ in range(50_000):
        block = history.malloc(random.choice((16, 100, 1000)), "node", HERE, 0)
        alive.append(block)
        true_bytes += block.usable_bytes
        if len(alive) > 20_000:
            gone = alive.pop(random.randrange(len(alive)))
            history.free(gone, HERE, 1)
            true_bytes -= gone.usable_bytes
    found = profiles.heap(history.objects, at_ns=1).get(HERE, Totals())
    # A sample stands for about a period, and as many are due as there are periods.
    standard_error = math.sqrt(true_bytes * period_bytes)
    assert abs(found.bytes - true_bytes) < NO_MORE_THAN_STANDARD_ERRORS * standard_error
