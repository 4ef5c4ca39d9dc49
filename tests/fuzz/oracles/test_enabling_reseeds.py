"""Enabling may say what the generator begins from, and a sample stand for whole objects."""

import math

import attrs
import pytest

from fuzz.oracles import Bench, Mismatch
from fuzz.oracles.counting.distances.v8 import V8
from fuzz.protocol.actions import AllocateString, EnableSampling
from fuzz.protocol.contract import Contract, Range, SamplingRule
from fuzz.protocol.contract_problems import problems_of
from fuzz.protocol.layout import KindLayout, Layout
from fuzz.protocol.observation import Observation

PERIOD, STRING = 256, AllocateString(100)
CONTRACT = Contract(
    nursery_bytes=256,
    layout=Layout({"string": KindLayout(1, 20, 1)}, 1000, 8, 999, nonmovable="ignored"),
    actions=("allocate_string", "enable_sampling"),
    observes=("samples", "weights", "seed"),
    sampling=SamplingRule(
        period_bytes=Range(8, 4096, 8),
        crosses="at",
        surplus="dropped",
        samples_per_allocation="one",
        distances="v8",
        enabling="reseeds",
        weights="whole_objects",
        disabling=("drop",),
    ),
)


def seed_with(least_bytes: int, most_bytes: int) -> int:
    """One whose first distance is within these bounds."""
    places = range(1, 1000)
    return next(each for each in places if least_bytes <= V8(each).draw(PERIOD) <= most_bytes)


@pytest.mark.parametrize(("distance", "samples"), [((8, 120), 1), ((121, 4096), 0)])
def test_a_distance_begins_with_the_seed_s_first(distance: tuple[int, int], samples: int) -> None:
    bench = Bench(CONTRACT)
    for _ in range(2):
        bench.judge(EnableSampling(PERIOD), Observation(seed=seed_with(*distance)))
        weights = [3 * 120] * samples
        bench.judge(STRING, Observation(samples=samples, weights=weights))


def test_enabling_without_a_seed_is_a_mismatch() -> None:
    with pytest.raises(Mismatch, match="seed") as caught:
        Bench(CONTRACT).judge(EnableSampling(PERIOD), Observation())
    assert caught.value.field == "seed"


@pytest.mark.parametrize("length", [0, 12, 100, 180, 300, 900])
def test_a_sample_stands_for_the_nearest_number_of_objects_of_its_size(length: int) -> None:
    bench = Bench(CONTRACT)
    bench.judge(EnableSampling(PERIOD), Observation(seed=seed_with(8, 20)))
    size_bytes = (20 + length + 7) // 8 * 8
    objects = 1 / (1 - math.exp(-size_bytes / PERIOD))
    nearest = min(range(1, 100), key=lambda each: abs(each - objects))
    bench.judge(AllocateString(length), Observation(samples=1, weights=[nearest * size_bytes]))


@pytest.mark.parametrize("weight", [2 * 120, 4 * 120, 358])
def test_another_weight_is_a_mismatch(weight: int) -> None:
    bench = Bench(CONTRACT)
    bench.judge(EnableSampling(PERIOD), Observation(seed=seed_with(8, 120)))
    with pytest.raises(Mismatch) as caught:
        bench.judge(STRING, Observation(samples=1, weights=[weight]))
    assert (caught.value.field, caught.value.expected) == ("weights", [360])


def test_reseeding_needs_the_seed_in_observes() -> None:
    assert list(problems_of(CONTRACT)) == []
    [problem] = problems_of(attrs.evolve(CONTRACT, observes=("samples", "weights")))
    assert problem == "enabling reseeds needs seed in observes"
