"""TLABs: the places of objects, the end, and the bytes that count, under either rule."""

import pytest

from gcmodel import TLABS, TLABS_CHARGED_AHEAD, Configuration, Heap, Parts, TlabSizes
from gcmodel.sampling.distances import Hotspot
from gcmodel.sampling.tlab import TlabNursery

SIZES = TlabSizes(
    desired_bytes=128, least_bytes=64, reserve_bytes=16, waste_bytes=32, waste_increment_bytes=8
)
NEVER = 2**20
FIXED_BYTES = 25
"""Of a string."""
EACH_RULE = pytest.mark.parametrize("parts", [TLABS, TLABS_CHARGED_AHEAD], ids=["25", "17"])


def make_heap(parts: Parts = TLABS, first_bytes: int = NEVER, threads: int = 1) -> Heap:
    return Heap(
        Configuration(
            nursery_bytes=1024,
            large_object_bytes=1024,
            tlab=SIZES,
            first_bytes=first_bytes,
            sampler_seeds=(1,) * threads,
            prebuilt_nodes=0,
            prebuilt_arrays=0,
        ),
        parts,
    )


def allocate(heap: Heap, *sizes: int, thread: int = 0) -> list[int | None]:
    """The places of strings of these sizes, at least 32 bytes, which are dropped at once."""
    heap.nursery.thread = thread
    places = []
    for size_bytes in sizes:
        places.append(heap.allocate_string(size_bytes - FIXED_BYTES)[1])
        heap.free(0)
    return places


def events(heap: Heap, *sizes: int) -> str:
    allocate(heap, *sizes)
    return heap.events.take()[0]


def tlab_of(heap: Heap, thread: int = 0) -> tuple[int, int, int, int]:
    assert isinstance(heap.nursery, TlabNursery)
    tlab = heap.nursery.tlabs[thread]
    return tlab.start, tlab.top, tlab.end, tlab.allocation_end


# The places of objects.


def test_the_first_object_starts_a_tlab_and_others_follow_it() -> None:
    heap = make_heap()
    assert allocate(heap, 32, 40, 32) == [0, 32, 72]
    assert tlab_of(heap) == (0, 104, 32 + 128 - 16, 32 + 128 - 16)


@pytest.mark.parametrize(("filled_bytes", "at"), [(80, 160), (72, 160), (64, 160)])
def test_an_object_that_does_not_fit_lies_behind_the_tlab(filled_bytes: int, at: int) -> None:
    assert allocate(make_heap(), 32, filled_bytes, 88)[-1] == at


@pytest.mark.parametrize(("filled_bytes", "follows_at"), [(80, 160 + 88), (72, 104)])
def test_a_tlab_with_more_left_than_its_limit_stays(filled_bytes: int, follows_at: int) -> None:
    assert allocate(make_heap(), 32, filled_bytes, 88, 32)[-1] == follows_at


def test_each_object_outside_raises_the_limit() -> None:
    heap = make_heap()
    assert allocate(heap, 32, 72, 88, 88) == [0, 32, 160, 248]
    assert tlab_of(heap)[0] == 248


def test_threads_have_tlabs_of_their_own() -> None:
    heap = make_heap(threads=2)
    places = [allocate(heap, 32, thread=thread) for thread in (0, 1, 0, 1)]
    assert places == [[0], [160], [32], [192]]


def test_a_full_eden_is_collected_and_all_tlabs_end() -> None:
    heap = make_heap(threads=2)
    allocate(heap, 32, thread=1)
    assert events(heap, 500, 400) == "M"
    assert (tlab_of(heap), tlab_of(heap, 1)) == ((0,) * 4, (0,) * 4)
    assert heap.nursery.nursery_free == 400


# The end of a TLAB.


@EACH_RULE
@pytest.mark.parametrize(("first_bytes", "end"), [(100, 32 + 64), (32 + 112, 144), (500, 144)])
def test_a_tlab_ends_in_whole_words(first_bytes: int, end: int, parts: Parts) -> None:
    heap = make_heap(parts, first_bytes)
    heap.enable_sampling(NEVER)
    allocate(heap, 32)
    assert tlab_of(heap) == (0, 32, end, 144)


@EACH_RULE
def test_an_object_that_passes_the_sample_point_stays_in_the_tlab(parts: Parts) -> None:
    heap = make_heap(parts, first_bytes=100)
    heap.enable_sampling(NEVER)
    assert allocate(heap, 32, 72) == [0, 32]
    assert heap.events.take()[0] == "s"


@EACH_RULE
def test_enabling_and_disabling_leave_the_end_and_the_distance(parts: Parts) -> None:
    heap = make_heap(parts, first_bytes=100)
    heap.enable_sampling(NEVER)
    allocate(heap, 32)
    heap.disable_sampling(report=False)
    heap.enable_sampling(NEVER)
    assert tlab_of(heap) == (0, 32, 96, 144)
    assert events(heap, 72) == "s"


def test_while_off_an_object_that_passes_an_old_sample_point_gives_up_the_tlab() -> None:
    heap = make_heap(first_bytes=64)
    heap.enable_sampling(NEVER)
    allocate(heap, 32)
    heap.disable_sampling(report=False)
    assert allocate(heap, 40) == [160]


# The bytes that count.


@pytest.mark.parametrize(("parts", "samples"), [(TLABS, "s"), (TLABS_CHARGED_AHEAD, "")])
def test_bytes_allocated_while_off_count_since_25(parts: Parts, samples: str) -> None:
    heap = make_heap(parts, first_bytes=64)
    allocate(heap, 32)
    heap.enable_sampling(NEVER)
    assert events(heap, 32) == samples


@pytest.mark.parametrize(("parts", "samples"), [(TLABS, "M"), (TLABS_CHARGED_AHEAD, "Ms")])
def test_bytes_dropped_by_a_collection_counted_before_25(parts: Parts, samples: str) -> None:
    heap = make_heap(parts, first_bytes=150)
    heap.enable_sampling(NEVER)
    allocate(heap, 32)
    heap.collect_minor()
    assert events(heap, 40) == samples


@pytest.mark.parametrize(("size_bytes", "samples"), [(536, "M"), (544, "Ms")])
def test_an_object_outside_charges_only_once_more(size_bytes: int, samples: str) -> None:
    heap = make_heap(TLABS_CHARGED_AHEAD, first_bytes=1000)
    heap.enable_sampling(NEVER)
    # The first object charges the 112 bytes behind it, and so does the second, which counts 200.
    allocate(heap, 32, 200)
    heap.collect_minor()
    assert events(heap, size_bytes) == samples


@EACH_RULE
def test_a_sample_is_due_when_its_distance_is_reached(parts: Parts) -> None:
    for first_bytes, samples in ((32, "s"), (33, "")):
        heap = make_heap(parts, first_bytes)
        heap.enable_sampling(NEVER)
        assert events(heap, 32) == samples


@EACH_RULE
def test_threads_draw_from_one_generator(parts: Parts) -> None:
    heap = make_heap(parts, first_bytes=32, threads=2)
    heap.enable_sampling(8)
    distances = Hotspot(1)
    for thread in (0, 1):
        allocate(heap, 32, thread=thread)
        until_bytes = distances.draw(8)
        _, top, end, allocation_end = tlab_of(heap, thread)
        assert end == min(top + until_bytes // 8 * 8, allocation_end)
