"""The pointers oracle: sample point, limit, top and free, and nothing else."""

import attrs
import pytest

from fuzz.oracles import Bench
from fuzz.oracles.oracle import Mismatch
from fuzz.protocol.actions import (
    Action,
    AddMemoryPressure,
    AllocateNode,
    AllocateString,
    CheckHeap,
    CollectMinor,
    DisableSampling,
    EnableSampling,
    Pin,
    SetCallback,
    Unpin,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

NODE = Observation(size=32, outside=False)
TOP = 256


@pytest.fixture
def bench(contract: Contract) -> Bench:
    return Bench(attrs.evolve(contract, observes=("samples", "limit")))


def judge(  # noqa: PLR0913 - it has four pointers
    bench: Bench,
    action: Action,
    free: int | None,
    limit: int | None,
    sample_point: int | None = None,
    top: int | None = TOP,
) -> None:
    """Judge `action`; an allocation is that of a node in the nursery."""
    is_node = isinstance(action, AllocateNode) and free is not None
    place = attrs.evolve(NODE, at=free - 32) if is_node and free else Observation()
    bench.judge(
        action, attrs.evolve(place, free=free, limit=limit, top=top, sample_point=sample_point)
    )


def test_while_sampling_is_off_the_limit_is_the_top(bench: Bench) -> None:
    judge(bench, AllocateNode(0), free=32, limit=TOP)


def test_the_sample_point_is_as_far_from_free_as_the_next_sample(bench: Bench) -> None:
    judge(bench, AllocateNode(0), free=32, limit=TOP)
    judge(bench, EnableSampling(64), free=32, limit=96, sample_point=96)
    judge(bench, AllocateNode(0), free=64, limit=96, sample_point=96)


def test_a_sample_point_beyond_the_top_leaves_the_limit_at_the_top(bench: Bench) -> None:
    judge(bench, EnableSampling(512), free=0, limit=TOP, sample_point=512)


def test_after_disabling_the_limit_is_the_top_again(bench: Bench) -> None:
    judge(bench, EnableSampling(64), free=0, limit=64, sample_point=64)
    judge(bench, DisableSampling(), free=0, limit=TOP)


def test_free_moves_by_what_is_allocated_in_the_nursery(bench: Bench) -> None:
    judge(bench, AllocateNode(0), free=32, limit=TOP)
    judge(bench, AllocateNode(0), free=64, limit=TOP)


@pytest.mark.parametrize("at", [0, 40, None])
def test_an_object_that_does_not_end_at_free_is_wrong(bench: Bench, at: int | None) -> None:
    judge(bench, AllocateNode(0), free=32, limit=TOP)
    misplaced = attrs.evolve(NODE, at=at, free=64, limit=TOP, top=TOP)
    with pytest.raises(Mismatch, match=r"^pointers: at: expected 32"):
        bench.judge(AllocateNode(0), misplaced)


def test_an_object_outside_has_no_place_in_the_nursery(bench: Bench) -> None:
    outside = attrs.evolve(NODE, outside=True, at=0, free=0, limit=TOP, top=TOP)
    with pytest.raises(Mismatch, match=r"^pointers: at: expected None, got 0"):
        bench.judge(AllocateNode(0, nonmovable=True), outside)


@pytest.mark.parametrize("sample_point", [56, 72, None])
def test_a_sample_point_elsewhere_is_wrong(bench: Bench, sample_point: int | None) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: ") as raised:
        judge(bench, EnableSampling(64), free=0, limit=64, sample_point=sample_point)
    assert (raised.value.field, raised.value.expected) == ("sample_point", 64)
    assert raised.value.got == sample_point
    assert raised.value.why == "free 0 + 64 bytes until the sample"


def test_a_sample_point_while_sampling_is_off_is_wrong(bench: Bench) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: ") as raised:
        judge(bench, CheckHeap(), free=0, limit=TOP, sample_point=64)
    assert (raised.value.field, raised.value.expected, raised.value.got) == (
        "sample_point",
        None,
        64,
    )


@pytest.mark.parametrize(
    ("period_bytes", "limit", "expected", "direction"),
    [(64, TOP, 64, "more"), (64, 56, 64, "less"), (512, 512, TOP, "more"), (512, 0, TOP, "less")],
)
def test_a_limit_that_is_not_the_smaller_of_sample_point_and_top_is_wrong(
    bench: Bench, period_bytes: int, limit: int, expected: int, direction: str
) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: ") as raised:
        judge(bench, EnableSampling(period_bytes), 0, limit, sample_point=period_bytes)
    assert (raised.value.field, raised.value.expected) == ("limit", expected)
    assert raised.value.direction == direction


def test_a_limit_below_the_top_while_sampling_is_off_is_wrong(bench: Bench) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: limit: expected 256, got 248"):
        judge(bench, CheckHeap(), free=0, limit=TOP - 8)


@pytest.mark.parametrize(("top", "direction"), [(248, "less"), (264, "more")])
def test_a_top_that_is_not_the_end_of_the_nursery_is_wrong(
    bench: Bench, top: int, direction: str
) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: ") as raised:
        judge(bench, CheckHeap(), free=0, limit=top, top=top)
    assert (raised.value.field, raised.value.direction) == ("top", direction)


@pytest.mark.parametrize("free", [-8, 8, TOP + 8])
def test_free_that_moved_by_itself_is_wrong(bench: Bench, free: int) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: ") as raised:
        judge(bench, CheckHeap(), free=free, limit=TOP)
    assert (raised.value.field, raised.value.expected) == ("free", 0)


def test_free_beyond_the_limit_is_wrong(bench: Bench) -> None:
    for number in range(1, 9):
        judge(bench, AllocateNode(0), free=32 * number, limit=TOP)
    with pytest.raises(Mismatch, match=r"^pointers: free: expected at most 256, got 288"):
        judge(bench, AllocateNode(0), free=288, limit=TOP)


@pytest.mark.parametrize("name", ["free", "limit", "top"])
def test_a_pointer_that_is_missing_is_wrong(bench: Bench, name: str) -> None:
    shown = {"free": 0, "limit": TOP, "top": TOP} | {name: None}
    with pytest.raises(Mismatch, match=r"^pointers: ") as raised:
        bench.judge(CheckHeap(), Observation(**shown))  # type: ignore[arg-type]
    assert (raised.value.field, raised.value.got) == (name, None)
    assert raised.value.oracle == "pointers"


# Rooms, where an object may be pinned.


@pytest.fixture
def rooms(bench: Bench) -> Bench:
    """A string is pinned that outlived a minor collection."""
    pinned(bench)
    collect(bench, free=0, limit=32, top=32)
    return bench


def pinned(bench: Bench) -> None:
    string = Observation(size=32, outside=False, at=0, free=32, limit=TOP, top=TOP)
    bench.judge(AllocateString(0), string)
    judge(bench, Pin(0), free=32, limit=TOP)


def collect(
    bench: Bench, free: int, limit: int, top: int = TOP, sample_point: int | None = None
) -> None:
    told = Observation(minors=1, free=free, limit=limit, top=top, sample_point=sample_point)
    bench.judge(CollectMinor(), told)


@pytest.mark.parametrize(
    ("free", "top"), [(0, 32), (0, 0), (32, 32), (64, 96), (64, TOP), (TOP, TOP)]
)
def test_beside_a_pinned_object_free_lies_in_some_room(rooms: Bench, free: int, top: int) -> None:
    judge(rooms, CheckHeap(), free, limit=top, top=top)


@pytest.mark.parametrize(
    ("free", "top", "field"),
    [(0, TOP + 8, "top"), (-8, 32, "free"), (40, 32, "free"), (TOP + 8, TOP, "free")],
)
def test_a_room_does_not_leave_the_nursery_nor_free_its_room(
    rooms: Bench, free: int, top: int, field: str
) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: ") as raised:
        judge(rooms, CheckHeap(), free, limit=top, top=top)
    assert raised.value.field == field


@pytest.mark.parametrize("limit", [24, 40, 0, TOP])
def test_the_limit_of_a_room_is_its_top(rooms: Bench, limit: int) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: limit: expected 32"):
        judge(rooms, CheckHeap(), free=0, limit=limit, top=32)


def test_an_object_ends_at_free_in_a_room_too(rooms: Bench) -> None:
    told = attrs.evolve(NODE, at=64, free=96, limit=TOP, top=TOP)
    rooms.judge(AllocateNode(0), told)
    with pytest.raises(Mismatch, match=r"^pointers: at: expected 96, got 64"):
        rooms.judge(AllocateNode(0), attrs.evolve(told, free=128))


def test_in_a_room_the_sample_point_is_as_far_from_free_as_the_next_sample(rooms: Bench) -> None:
    judge(rooms, EnableSampling(16), free=0, limit=16, top=32, sample_point=16)
    judge(rooms, EnableSampling(64), free=0, limit=32, top=32, sample_point=64)
    with pytest.raises(Mismatch, match=r"^pointers: sample_point: expected 128, got 64"):
        judge(rooms, CheckHeap(), free=64, limit=64, top=TOP, sample_point=64)


def test_in_a_room_a_limit_that_forgets_the_sample_point_is_wrong(rooms: Bench) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: limit: expected 16, got 32"):
        judge(rooms, EnableSampling(16), free=0, limit=32, top=32, sample_point=16)


def test_an_object_that_was_just_pinned_divides_nothing_yet(bench: Bench) -> None:
    pinned(bench)
    with pytest.raises(Mismatch, match=r"^pointers: top: expected 256, got 32"):
        judge(bench, CheckHeap(), free=32, limit=32, top=32)


def test_the_rooms_stay_until_the_next_collection(rooms: Bench) -> None:
    judge(rooms, Unpin(0), free=0, limit=32, top=32)
    judge(rooms, CheckHeap(), free=0, limit=32, top=32)
    with pytest.raises(Mismatch, match=r"^pointers: top: expected 256, got 32"):
        collect(rooms, free=0, limit=32, top=32)


def test_once_nothing_is_pinned_the_nursery_is_one_room_again(rooms: Bench) -> None:
    judge(rooms, Unpin(0), free=0, limit=32, top=32)
    collect(rooms, free=0, limit=TOP)
    with pytest.raises(Mismatch, match=r"^pointers: free: expected 0, got 8"):
        judge(rooms, CheckHeap(), free=8, limit=TOP)


# A collection that may be due.


@pytest.mark.parametrize("free", [32, TOP, 0])
def test_after_memory_pressure_the_limit_may_be_free_wherever_that_is(
    bench: Bench, free: int
) -> None:
    judge(bench, AllocateNode(0), free=32, limit=TOP)
    judge(bench, AddMemoryPressure(8), free, limit=free)
    judge(bench, CheckHeap(), free, limit=free)


def test_memory_pressure_need_not_make_a_collection_due(bench: Bench) -> None:
    judge(bench, AllocateNode(0), free=32, limit=TOP)
    judge(bench, AddMemoryPressure(8), free=32, limit=TOP)
    judge(bench, AllocateNode(0), free=64, limit=TOP)


def test_a_collection_may_be_due_while_sampling_is_on(bench: Bench) -> None:
    judge(bench, EnableSampling(64), free=0, limit=64, sample_point=64)
    judge(bench, AddMemoryPressure(8), free=0, limit=0, sample_point=64)


@pytest.mark.parametrize(
    ("free", "limit", "field"), [(0, 8, "limit"), (0, TOP - 8, "limit"), (8, TOP, "free")]
)
def test_after_memory_pressure_nothing_else_is_allowed(
    bench: Bench, free: int, limit: int, field: str
) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: ") as raised:
        judge(bench, AddMemoryPressure(8), free, limit)
    assert raised.value.field == field


def test_after_memory_pressure_free_is_within_the_limit(bench: Bench) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: free: expected 0, got 264"):
        judge(bench, AddMemoryPressure(8), free=264, limit=TOP)


def test_a_limit_at_free_without_memory_pressure_is_wrong(bench: Bench) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: limit: expected 256, got 0"):
        judge(bench, CheckHeap(), free=0, limit=0)


def test_once_a_collection_has_come_none_is_due_any_more(bench: Bench) -> None:
    judge(bench, AddMemoryPressure(8), free=0, limit=0)
    with pytest.raises(Mismatch, match=r"^pointers: limit: expected 256, got 0"):
        collect(bench, free=0, limit=0)


def test_beside_a_pinned_object_a_collection_may_be_due_too(rooms: Bench) -> None:
    judge(rooms, AddMemoryPressure(8), free=0, limit=0, top=32)
    with pytest.raises(Mismatch, match=r"^pointers: limit: expected 32, got 8"):
        judge(rooms, CheckHeap(), free=0, limit=8, top=32)


# Callbacks.


def test_what_a_callback_allocated_lies_before_the_object(bench: Bench) -> None:
    judge(bench, SetCallback(7), free=0, limit=TOP)
    told = attrs.evolve(NODE, minors=1, at=32, free=64, limit=TOP, top=TOP)
    bench.judge(AllocateNode(0), told)


def test_a_callback_that_left_no_trace_is_wrong(bench: Bench) -> None:
    judge(bench, SetCallback(7), free=0, limit=TOP)
    told = attrs.evolve(NODE, minors=1, at=0, free=32, limit=TOP, top=TOP)
    with pytest.raises(Mismatch, match=r"^pointers: free: expected 64, got 32"):
        bench.judge(AllocateNode(0), told)


# Where the contract does not state how far samples are apart.


@pytest.fixture
def unstated(contract: Contract) -> Bench:
    rule = attrs.evolve(contract.sampling, distances="unstated")
    return Bench(attrs.evolve(contract, sampling=rule, observes=("samples", "limit")))


@pytest.mark.parametrize(("sample_point", "limit"), [(8, 8), (TOP, TOP), (2**30, TOP)])
def test_where_the_distances_are_unstated_the_sample_point_may_be_anywhere(
    unstated: Bench, sample_point: int, limit: int
) -> None:
    judge(unstated, EnableSampling(64), free=0, limit=limit, sample_point=sample_point)


def test_where_the_distances_are_unstated_the_limit_still_follows(unstated: Bench) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: limit: expected 8, got 64"):
        judge(unstated, EnableSampling(64), free=0, limit=64, sample_point=8)


def test_where_the_distances_are_unstated_a_sample_point_is_still_shown(unstated: Bench) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: sample_point: expected an offset, got None"):
        judge(unstated, EnableSampling(64), free=0, limit=64, sample_point=None)


def test_where_the_distances_are_unstated_it_is_not_shown_while_sampling_is_off(
    unstated: Bench,
) -> None:
    with pytest.raises(Mismatch, match=r"^pointers: sample_point: expected None, got 64"):
        judge(unstated, CheckHeap(), free=0, limit=TOP, sample_point=64)


def test_pointers_are_known_where_samples_are_not_observed(contract: Contract) -> None:
    bench = Bench(attrs.evolve(contract, observes=("limit",)))
    bench.judge(AllocateNode(0), Observation(free=32, limit=256, top=256))
    with pytest.raises(Mismatch, match=r"^pointers: "):
        bench.judge(AllocateNode(0), Observation(free=32, limit=256, top=256))
