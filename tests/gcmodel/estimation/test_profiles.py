"""TCMalloc's four profiles: which sampled objects each is made of."""

from collections.abc import Callable

import pytest

from gcmodel.estimation.profiles import (
    Lifetime,
    ProxySpan,
    SampledObject,
    allocation,
    fragmentation,
    heap,
    lifetime,
)
from gcmodel.estimation.samples import Sample
from gcmodel.estimation.unbiased import Totals

MakeObject = Callable[..., SampledObject]
MakeSample = Callable[..., Sample]
START, STOP = 100, 200


@pytest.fixture
def hundred(make_sample: MakeSample) -> Sample:
    """A sample that stands for 100 objects of 8 bytes, from the site f."""
    return make_sample(7, allocated_bytes=8, counted_bytes=8, period_bytes=793, site=("f",))


@pytest.fixture
def make_object(hundred: Sample) -> MakeObject:
    def make(allocated_at_ns: int, freed_at_ns: int | None = None) -> SampledObject:
        return SampledObject(
            sample=hundred,
            allocated_at_ns=allocated_at_ns,
            freed_at_ns=freed_at_ns,
            freeing_site=("g",),
        )

    return make


@pytest.mark.parametrize(
    ("allocated_at", "freed_at", "count"),
    [(100, None, 100), (101, None, 0), (0, 100, 0), (0, 101, 100)],
)
def test_a_heap_profile_has_what_is_live(
    make_object: MakeObject, allocated_at: int, freed_at: int | None, count: int
) -> None:
    found = heap([make_object(0), make_object(allocated_at, freed_at)], at_ns=100)
    assert found == {("f",): Totals(100 + count, 800 + 8 * count)}


@pytest.mark.parametrize(
    ("allocated_at", "freed_at", "is_in"),
    [(99, None, False), (100, None, True), (199, None, True), (200, None, False), (120, 121, True)],
)
def test_an_allocation_profile_has_what_is_allocated_between_start_and_stop(
    make_object: MakeObject, allocated_at: int, freed_at: int | None, is_in: bool
) -> None:
    found = allocation([make_object(allocated_at, freed_at)], START, STOP)
    assert found == ({("f",): Totals(100, 800)} if is_in else {})


def test_a_lifetime_profile_has_where_a_life_started_and_ended(make_object: MakeObject) -> None:
    assert lifetime([make_object(120, 150)], START, STOP) == [
        Lifetime(("f",), ("g",), 30, Totals(100, 800))
    ]


@pytest.mark.parametrize(
    ("allocated_at", "freed_at", "is_in"),
    [(99, 150, False), (150, None, False), (150, 200, False), (100, 199, True)],
)
def test_a_lifetime_profile_needs_both_ends_within_it(
    make_object: MakeObject, allocated_at: int, freed_at: int | None, is_in: bool
) -> None:
    assert bool(lifetime([make_object(allocated_at, freed_at)], START, STOP)) == is_in


@pytest.mark.parametrize(
    ("proxy", "charged"),
    [*[(ProxySpan(10, live), n) for live, n in ((1, 900), (5, 100), (8, 25), (10, 0))], (None, 0)],
)
def test_a_live_object_is_charged_its_share_of_the_free_ones_in_its_proxy_s_span(
    hundred: Sample, proxy: ProxySpan | None, charged: int
) -> None:
    sums = fragmentation([(hundred, proxy)])
    assert sums == ({("f",): Totals(charged, charged * 8)} if charged else {})


def test_fragmentation_is_added_up_by_site(hundred: Sample) -> None:
    spans = [(hundred, ProxySpan(4, 2)), (hundred, ProxySpan(4, 1))]
    assert fragmentation(spans) == {("f",): Totals(400, 3200)}


@pytest.mark.parametrize("live", [0, 5])
def test_a_span_holds_its_proxy_and_no_more_than_fits(live: int) -> None:
    with pytest.raises(ValueError, match="live_objects is"):
        ProxySpan(4, live)


def test_nothing_is_freed_before_it_is_allocated(make_object: MakeObject) -> None:
    with pytest.raises(ValueError, match="freed_at_ns is 9"):
        make_object(10, 9)
