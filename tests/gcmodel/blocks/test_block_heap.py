"""Blocks that the mutator frees itself: their room, their samples, and errors."""

import itertools
import random
import statistics
from collections.abc import Callable

import pytest

from gcmodel import ConfigurationError, DanglingReferenceError, DoubleFreeError
from gcmodel.blocks.block_heap import GPERFTOOLS, JEMALLOC, TCMALLOC, Block, BlockHeap, BlockParts

NEVER = 2**40
"""A period with which nothing is sampled here."""
EACH = [JEMALLOC, TCMALLOC, GPERFTOOLS]


def make_heap(parts: BlockParts, period_bytes: int = NEVER, threads: int = 2) -> BlockHeap:
    return BlockHeap(parts, period_bytes, tuple(range(1, threads + 1)))


@pytest.fixture(params=EACH)
def heap(request: pytest.FixtureRequest) -> BlockHeap:
    return make_heap(request.param)


def samples(heap: BlockHeap) -> int:
    count = len(heap.hits)
    heap.hits.clear()
    return count


# Rooms.


def test_a_block_has_room_even_for_nothing_and_calloc_multiplies(heap: BlockHeap) -> None:
    assert heap.malloc(0).usable_bytes == 8
    assert heap.calloc(3, 30).usable_bytes == heap.malloc(90).usable_bytes


def test_living_blocks_do_not_overlap(heap: BlockHeap) -> None:
    source = random.Random(1)
    alive: list[Block] = []
    for _ in range(2000):
        heap.thread = source.randrange(2)
        if alive and source.random() < 0.4:
            heap.free(alive.pop(source.randrange(len(alive))))
        else:
            alive.append(heap.malloc(source.choice((1, 8, 30, 300, 300_000))))
    places = sorted((block.address, block.address + block.usable_bytes) for block in alive)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))


def test_a_freed_small_block_is_used_again_by_its_thread_only(heap: BlockHeap) -> None:
    block = heap.malloc(20)
    heap.free(block)
    heap.thread = 1
    assert heap.malloc(20).address != block.address
    heap.thread = 0
    assert heap.malloc(17).address == block.address


def test_a_sampled_block_of_gperftools_has_the_room_of_its_class() -> None:
    heap = make_heap(GPERFTOOLS, period_bytes=1)
    block = heap.malloc(8)
    assert (block.usable_bytes, samples(heap)) == (8, 1)


# Errors.


def free(heap: BlockHeap, block: Block) -> None:
    heap.free(block)


def free_and_allocate(heap: BlockHeap, block: Block) -> None:
    heap.free(block)
    assert heap.malloc(20).address == block.address


def resize(heap: BlockHeap, block: Block) -> None:
    assert heap.realloc(block, 40) is not block


@pytest.mark.parametrize("release", [free, free_and_allocate, resize])
def test_freeing_or_resizing_a_freed_block_is_an_error(
    heap: BlockHeap, release: Callable[[BlockHeap, Block], None]
) -> None:
    block = heap.malloc(20)
    release(heap, block)
    with pytest.raises(DoubleFreeError):
        heap.free(block)
    with pytest.raises(DanglingReferenceError):
        heap.realloc(block, 40)


@pytest.mark.parametrize("period_bytes", [0, -1])
def test_an_illegal_period_or_no_thread_is_refused(heap: BlockHeap, period_bytes: int) -> None:
    with pytest.raises(ConfigurationError, match=f"period_bytes is {period_bytes};"):
        heap.set_period(period_bytes)
    with pytest.raises(ConfigurationError, match=f"period_bytes is {period_bytes};"):
        BlockHeap(JEMALLOC, period_bytes, (0,))
    with pytest.raises(ConfigurationError, match="sampler_seeds is empty"):
        BlockHeap(JEMALLOC, 64, ())


# Samples.


@pytest.mark.parametrize("parts", EACH)
def test_another_thread_s_allocations_make_no_difference(parts: BlockParts) -> None:
    alone, beside = make_heap(parts, 512), make_heap(parts, 512)
    taken: list[list[int]] = [[], []]
    for _ in range(200):
        alone.malloc(64)
        taken[0].append(samples(alone))
        beside.thread = 1
        beside.malloc(1000)
        beside.hits.clear()
        beside.thread = 0
        beside.malloc(64)
        taken[1].append(samples(beside))
    assert taken[0] == taken[1]
    assert 0 < sum(taken[0]) < 100


def test_in_jemalloc_a_block_that_is_resized_to_its_own_size_counts_again() -> None:
    heap = make_heap(JEMALLOC, period_bytes=1)
    block = heap.malloc(8)
    heap.realloc(block, 8)
    assert samples(heap) == 2


@pytest.mark.parametrize("parts", [TCMALLOC, GPERFTOOLS])
def test_a_block_that_stays_counts_nothing_and_growth_is_a_quarter(parts: BlockParts) -> None:
    heap = make_heap(parts, period_bytes=1)
    block = heap.malloc(8192)
    assert heap.realloc(block, 4096) is block
    assert samples(heap) == 1
    assert heap.realloc(block, 8193).usable_bytes == 10240
    assert samples(heap) == 1


def test_while_paused_nothing_is_sampled_and_resuming_ends_that() -> None:
    heap = make_heap(JEMALLOC, period_bytes=1)
    heap.pause_sampling()
    heap.malloc(8)
    assert samples(heap) == 0
    heap.resume_sampling()
    heap.malloc(8)
    assert samples(heap) == 1


def test_a_new_period_concerns_every_thread_from_its_next_distance_on() -> None:
    heap = make_heap(JEMALLOC, period_bytes=1)
    heap.set_period(NEVER)
    for thread in (0, 1):
        heap.thread = thread
        heap.malloc(8)
        assert samples(heap) == 1
        heap.malloc(8)
        assert samples(heap) == 0


# Profiles.


@pytest.mark.parametrize("parts", EACH)
def test_a_freed_block_leaves_the_profile(parts: BlockParts) -> None:
    heap = make_heap(parts, period_bytes=1)
    block = heap.malloc(4096)
    assert heap.profile()[0] == 1
    heap.free(block)
    assert heap.profile() == (0, 0)


def test_a_block_that_is_resized_and_sampled_again_is_one_object() -> None:
    heap = make_heap(JEMALLOC, period_bytes=1)
    heap.realloc(heap.malloc(4096), 8192)
    assert heap.profile() == (1, 8192)


@pytest.mark.parametrize(("parts", "left"), [(JEMALLOC, 0), (GPERFTOOLS, 1)])
def test_setting_the_period_forgets_samples_in_jemalloc(parts: BlockParts, left: int) -> None:
    heap = make_heap(parts, period_bytes=1)
    heap.malloc(4096)
    heap.set_period(2)
    assert heap.profile()[0] == left


@pytest.mark.slow
@pytest.mark.parametrize("parts", EACH)
@pytest.mark.parametrize("requested", [1, 20, 500])
def test_a_profile_is_on_average_what_is_alive(parts: BlockParts, requested: int) -> None:
    estimates = []
    usable_bytes = 0
    for seed in range(300):
        heap = BlockHeap(parts, 256, (seed,))
        blocks = [heap.malloc(requested) for _ in range(40)]
        usable_bytes = make_heap(parts).malloc(requested).usable_bytes
        assert len(blocks) == 40
        estimates.append(heap.profile()[1])
    error = statistics.stdev(estimates) / 300**0.5
    # Rounding a distance down to whole bytes takes half a byte of a period of 256.
    expected = 40 * usable_bytes
    assert abs(statistics.mean(estimates) - expected) < 5 * error + 0.004 * expected
