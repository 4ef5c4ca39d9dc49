"""The pointers oracle: sample point, limit, top and free, and nothing else."""

import attrs
import pytest

from fuzz.actions import Action, AllocateNode, CheckHeap, DisableSampling, EnableSampling
from fuzz.contract import Contract
from fuzz.observation import Observation
from fuzz.oracles import Bench
from fuzz.oracles.pointers import PointersMismatch

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
        action,
        attrs.evolve(place, free=free, limit=limit, top=top, sample_point=sample_point),
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
    with pytest.raises(PointersMismatch, match="at: expected 32"):
        bench.judge(AllocateNode(0), misplaced)


def test_an_object_outside_has_no_place_in_the_nursery(bench: Bench) -> None:
    outside = attrs.evolve(NODE, outside=True, at=0, free=0, limit=TOP, top=TOP)
    with pytest.raises(PointersMismatch, match="at: expected None, got 0"):
        bench.judge(AllocateNode(0, nonmovable=True), outside)


@pytest.mark.parametrize("sample_point", [56, 72, None])
def test_a_sample_point_elsewhere_is_wrong(bench: Bench, sample_point: int | None) -> None:
    with pytest.raises(PointersMismatch) as raised:
        judge(bench, EnableSampling(64), free=0, limit=64, sample_point=sample_point)
    assert (raised.value.field, raised.value.expected) == ("sample_point", 64)
    assert raised.value.got == sample_point
    assert raised.value.why == "free 0 + 64 bytes until the sample"


def test_a_sample_point_while_sampling_is_off_is_wrong(bench: Bench) -> None:
    with pytest.raises(PointersMismatch) as raised:
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
    with pytest.raises(PointersMismatch) as raised:
        judge(bench, EnableSampling(period_bytes), 0, limit, sample_point=period_bytes)
    assert (raised.value.field, raised.value.expected) == ("limit", expected)
    assert raised.value.direction == direction


def test_a_limit_below_the_top_while_sampling_is_off_is_wrong(bench: Bench) -> None:
    with pytest.raises(PointersMismatch, match="limit: expected 256, got 248"):
        judge(bench, CheckHeap(), free=0, limit=TOP - 8)


@pytest.mark.parametrize(("top", "direction"), [(248, "less"), (264, "more")])
def test_a_top_that_is_not_the_end_of_the_nursery_is_wrong(
    bench: Bench, top: int, direction: str
) -> None:
    with pytest.raises(PointersMismatch) as raised:
        judge(bench, CheckHeap(), free=0, limit=top, top=top)
    assert (raised.value.field, raised.value.direction) == ("top", direction)


@pytest.mark.parametrize("free", [-8, 8, TOP + 8])
def test_free_that_moved_by_itself_is_wrong(bench: Bench, free: int) -> None:
    with pytest.raises(PointersMismatch) as raised:
        judge(bench, CheckHeap(), free=free, limit=TOP)
    assert (raised.value.field, raised.value.expected) == ("free", 0)


def test_free_beyond_the_limit_is_wrong(bench: Bench) -> None:
    for number in range(1, 9):
        judge(bench, AllocateNode(0), free=32 * number, limit=TOP)
    with pytest.raises(PointersMismatch, match="free: expected at most 256, got 288"):
        judge(bench, AllocateNode(0), free=288, limit=TOP)


@pytest.mark.parametrize("name", ["free", "limit", "top"])
def test_a_pointer_that_is_missing_is_wrong(bench: Bench, name: str) -> None:
    shown = {"free": 0, "limit": TOP, "top": TOP} | {name: None}
    with pytest.raises(PointersMismatch) as raised:
        bench.judge(CheckHeap(), Observation(**shown))  # type: ignore[arg-type]
    assert (raised.value.field, raised.value.got) == (name, None)
    assert raised.value.oracle == "pointers"
