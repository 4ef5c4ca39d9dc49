"""Estimates by type: their sums and bounds, and how often these hold what was really allocated."""

import math
from functools import partial
from pathlib import Path

import attrs
import pytest
from estimates_by_type import bytes_by_type
from exact_heap import ExactHeap
from scipy.stats import binom

from gcmodel.profiling.profile import Profile, ProfileHeader, ProfileSample
from gcmodel.profiling.recording import RecordingWriter, read
from gcmodel.profiling.sampled_run import PROFILED, Program, record
from gcmodel.workloads import allocate, gcbench

CONFIDENCE = 0.95
GCBENCH_SIZE = gcbench.Size(
    stretch_depth=8,
    long_lived_depth=7,
    min_depth=2,
    max_depth=6,
    nodes_per_depth=4000,
    array_length=400,
)


def header(period_bytes: int, *, is_random: bool) -> ProfileHeader:
    return ProfileHeader.of_now(
        "test", period_bytes=period_bytes, is_random=is_random, nursery_bytes=PROFILED.nursery_bytes
    )


def profile_of(hits: list[tuple[str, int]], *, is_random: bool = True) -> Profile:
    """A profile with a period of 1,000 bytes and a sample for each type and number of hits."""
    return Profile(
        header=header(1000, is_random=is_random),
        frames=[],
        stacks=[],
        samples=[ProfileSample(0, 0, count, 1000, 5000, type=name) for name, count in hits],
        time_samples=[],
        minor_collections=[],
        phases=[],
        ended_us=0,
        is_complete=True,
    )


def test_the_hits_of_all_samples_of_a_type_are_summed() -> None:
    estimates = bytes_by_type(profile_of([("node", 1), ("string", 3), ("node", 1)]), CONFIDENCE)
    assert (estimates["string"].bytes, estimates["node"].bytes) == (3000, 2000)


def test_the_largest_type_comes_first() -> None:
    estimates = bytes_by_type(profile_of([("node", 1), ("string", 3)]), CONFIDENCE)
    assert list(estimates)[:2] == ["string", "node"]


def test_a_type_that_no_sample_hit_may_have_had_some_bytes() -> None:
    estimate = bytes_by_type(profile_of([]), CONFIDENCE)["array"]
    assert estimate.bytes == estimate.bounds.low_bytes == 0
    # With a chance of 0.025, no byte of so many is hit.
    assert estimate.bounds.high_bytes == pytest.approx(math.log(0.025) / math.log(0.999), abs=2)


def test_a_type_has_an_estimate_once() -> None:
    estimates = bytes_by_type(profile_of([("node", 1)]), CONFIDENCE)
    assert sorted(estimates) == ["array", "node", "string", "weakref"]


@pytest.mark.parametrize("hits", [1, 2, 10, 1000])
def test_the_estimate_lies_between_its_bounds(hits: int) -> None:
    estimate = bytes_by_type(profile_of([("node", hits)]), CONFIDENCE)["node"]
    assert estimate.bounds.low_bytes <= estimate.bytes <= estimate.bounds.high_bytes


def test_more_hits_give_bounds_that_are_nearer_to_each_other() -> None:
    few, many = (
        bytes_by_type(profile_of([("node", hits)]), CONFIDENCE)["node"] for hits in (10, 1000)
    )
    widths = [(each.bounds.high_bytes - each.bounds.low_bytes) / each.bytes for each in (few, many)]
    assert widths[1] < widths[0] / 5


def test_samples_of_another_period_have_no_bounds() -> None:
    profile = profile_of([("node", 1)])
    profile.samples.append(ProfileSample(0, 0, 1, 64, 32, type="node"))
    with pytest.raises(ValueError, match="a sample has the period 64, and not the profile's 1000"):
        bytes_by_type(profile, CONFIDENCE)


def test_fixed_distances_have_no_bounds() -> None:
    with pytest.raises(ValueError, match="no matter of chance"):
        bytes_by_type(profile_of([("node", 1)], is_random=False), CONFIDENCE)


@pytest.mark.parametrize("confidence", [0, 1])
def test_a_confidence_is_between_0_and_1(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        bytes_by_type(profile_of([("node", 1)]), confidence)


# What was really allocated.


def recorded(program: Program, path: Path, period_bytes: int, seed: int) -> Profile:
    """The profile of a program with random distances."""
    with RecordingWriter(path, header(period_bytes, is_random=True), 10**9) as writer:
        configuration = attrs.evolve(PROFILED, random_periods=True, sampler_seeds=(seed,))
        record(program, writer, configuration=configuration)
    return read(path)


def true_bytes_by_type(program: Program) -> dict[str, int]:
    heap = ExactHeap(PROFILED)
    program(heap)
    return heap.bytes_by_type


def types_held(profile: Profile, truth: dict[str, int]) -> list[bool]:
    """For each type that was allocated, whether its bytes lie within the bounds."""
    bounds = {name: each.bounds for name, each in bytes_by_type(profile, CONFIDENCE).items()}
    return [bounds[name].low_bytes <= truth[name] <= bounds[name].high_bytes for name in truth]


@pytest.mark.slow
@pytest.mark.parametrize("period_bytes", [64, 256, 1024, 4096, 16_384])
def test_what_gcbench_allocates_lies_within_the_bounds(tmp_path: Path, period_bytes: int) -> None:
    """With one seed nothing is left to chance; see the next test for that."""
    program = partial(gcbench.run, size=GCBENCH_SIZE)
    profile = recorded(program, tmp_path / "recording", period_bytes, seed=1)
    held = types_held(profile, true_bytes_by_type(program))
    assert len(held) == 2
    assert all(held)


@pytest.mark.slow
def test_the_bounds_hold_the_truth_at_least_as_often_as_they_promise(tmp_path: Path) -> None:
    """If each is missed with a probability of 0.05, the test fails with one of 0.000001.

    Four types in 300 runs have 1,200 bounds, which are independent of each other: no two runs have
    a seed in common, and no two types a byte.
    """
    program = partial(allocate.run, rounds=200)
    truth = true_bytes_by_type(program)
    held: list[bool] = []
    for index, period_bytes in enumerate((64, 256, 1024, 4096, 16_384)):
        for seed in range(index * 60, (index + 1) * 60):
            profile = recorded(program, tmp_path / "recording", period_bytes, seed)
            held += types_held(profile, truth)
    assert len(held) == 1200
    assert held.count(False) <= binom.ppf(1 - 1e-6, len(held), 1 - CONFIDENCE)
