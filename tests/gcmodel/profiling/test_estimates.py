"""Estimates by type: sums and bounds, and how often these hold the truth."""

import math
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from recorded_programs import at_random, recorded_in
from scipy.stats import binom, gamma
from typing_extensions import override

from gcmodel.collector.heap import Heap
from gcmodel.memory.layout import Kind
from gcmodel.profiling.cost import cost_of
from gcmodel.profiling.estimates import CONFIDENCE, Bounds, Estimate, estimates
from gcmodel.profiling.profile import Profile, ProfileHeader, ProfileSample
from gcmodel.profiling.sampled_run import PROFILED, Program
from gcmodel.workloads import allocate, gcbench

GCBENCH_SIZE = gcbench.Size(
    stretch_depth=8,
    long_lived_depth=7,
    min_depth=2,
    max_depth=6,
    nodes_per_depth=4000,
    array_length=400,
)
SMALL = ProfileSample(0, 0, 1, 1000, 0, type="node")
"""So small that its chance is next to nothing."""


def by_type(
    profile: Profile, confidence: float = CONFIDENCE, keys: Iterable[str] = ()
) -> dict[str, Estimate]:
    return estimates(profile, ((each.type, each) for each in profile.samples), confidence, keys)


def bounds_of(estimate: Estimate) -> tuple[int, int]:
    assert estimate.bounds is not None
    return estimate.bounds.low_bytes, estimate.bounds.high_bytes


def profile_of(hits: list[tuple[str, int]], *, is_random: bool = True) -> Profile:
    """A profile with a period of 1,000 bytes and a sample for each type and number of periods."""
    header = ProfileHeader.of_now("", period_bytes=1000, is_random=is_random, nursery_bytes=65536)
    samples = [attrs.evolve(SMALL, type=name, weight_bytes=1000 * n) for name, n in hits]
    return Profile(header=header, samples=samples)


def test_samples_of_a_type_are_summed_and_the_largest_comes_first() -> None:
    found = by_type(profile_of([("node", 1), ("string", 3), ("node", 1)]))
    assert [(name, each.bytes) for name, each in found.items()] == [
        ("string", 3000),
        ("node", 2000),
    ]


def test_a_type_without_samples_may_have_had_some_bytes() -> None:
    estimate = by_type(profile_of([]), keys=["array"])["array"]
    # With a chance of 0.025, no byte of that many is hit.
    assert bounds_of(estimate) == pytest.approx((0, -math.log(0.025) * 1000), rel=0.01)


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_bounds_of_small_objects_are_those_of_a_count(count: int) -> None:
    """They are Garwood's. The approximation is good for a few samples, and low for one."""
    low, high = bounds_of(by_type(profile_of([("node", 1)] * count))["node"])
    exact = gamma.ppf(0.025, count), gamma.ppf(0.975, count + 1)
    assert high == pytest.approx(1000 * exact[1], rel=0.003)
    assert low == pytest.approx(1000 * exact[0], rel=0.003 if count > 2 else 0.5)
    assert low < 1000 * count < high


def test_an_object_that_is_certain_to_be_sampled_has_no_lower_bound_below_its_size() -> None:
    large = attrs.evolve(SMALL, counted_bytes=100_000, weight_bytes=100_000)
    profile = attrs.evolve(profile_of([]), samples=[large])
    low, high = bounds_of(by_type(profile)["node"])
    assert low == 100_000
    assert 100_000 < high < 104_000  # Small ones may have been missed.


def test_fixed_distances_have_no_bounds() -> None:
    assert by_type(profile_of([("node", 1)], is_random=False))["node"].bounds is None


@pytest.mark.parametrize("confidence", [0, 1])
def test_a_confidence_is_between_0_and_1(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        by_type(profile_of([("node", 1)]), confidence)


def test_a_difference_is_as_uncertain_as_both_are() -> None:
    after, before = Estimate(9000, Bounds(8997, 9004)), Estimate(1000, Bounds(997, 1004))
    assert after.minus(before) == Estimate(8000, Bounds(7995, 8005))
    assert after.minus(Estimate(1000, None)) == Estimate(8000, None)


# The truth.


class CountingHeap(Heap):
    def __init__(self) -> None:
        super().__init__(PROFILED)
        self.bytes_by_type: Counter[str] = Counter()

    @override
    def _allocate(self, kind: Kind, *arguments: Any) -> tuple[int, int | None]:
        placed = super()._allocate(kind, *arguments)
        self.bytes_by_type[kind.name.lower()] += placed[0]
        return placed


def true_bytes_by_type(program: Program) -> dict[str, int]:
    """Every byte that the program allocates is counted, and none is sampled."""
    heap = CountingHeap()
    program(heap)
    assert heap.bytes_by_type.total() == cost_of(program).allocated_bytes
    return heap.bytes_by_type


def types_held(profile: Profile, truth: dict[str, int]) -> list[bool]:
    """For each allocated type, whether its bytes lie within the bounds."""
    bounds = {name: bounds_of(each) for name, each in by_type(profile, keys=truth).items()}
    return [bounds[name][0] <= truth[name] <= bounds[name][1] for name in truth]


@pytest.mark.slow
@pytest.mark.parametrize("period_bytes", [64, 256, 1024, 4096, 16_384])
def test_the_bytes_of_gcbench_lie_within_the_bounds(tmp_path: Path, period_bytes: int) -> None:
    """One seed leaves nothing to chance; the next test has many."""
    program = partial(gcbench.run, size=GCBENCH_SIZE)
    path, configuration = tmp_path / "recording", at_random(1)
    profile = recorded_in(path, program, period_bytes, configuration=configuration)
    assert types_held(profile, true_bytes_by_type(program)) == [True, True]


@pytest.mark.slow
def test_the_bounds_hold_the_truth_at_least_as_often_as_they_promise(tmp_path: Path) -> None:
    """If each is missed with a probability of 0.05, the test fails with one of 0.000001.

    Four types in 300 runs have 1,200 bounds, which are independent: no two runs share a seed, and
    no two types share a byte.
    """
    program = partial(allocate.run, rounds=200)
    truth = true_bytes_by_type(program)
    held: list[bool] = []
    for index, period_bytes in enumerate((64, 256, 1024, 4096, 16_384)):
        for seed in range(index * 60, (index + 1) * 60):
            path, configuration = tmp_path / "recording", at_random(seed)
            profile = recorded_in(path, program, period_bytes, configuration=configuration)
            held += types_held(profile, truth)
    assert len(held) == 1200
    assert held.count(False) <= binom.ppf(1 - 1e-6, len(held), 1 - CONFIDENCE)
