"""What a program costs, and whether its recording takes no more than the forecast."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from night import rest_at_night

from gcmodel import Heap
from gcmodel.profiling import cost as cost_module
from gcmodel.profiling.cost import STACKS_BYTES, TIME_BYTES, Cost, cost_of
from gcmodel.profiling.profile import Profile
from gcmodel.workloads import WORKLOADS
from gcmodel.workloads.allocate import run as allocate

Recorded = Callable[..., Profile]


def small_and_large(heap: Heap) -> None:
    """A megabyte, of nodes and of strings that are larger than most periods."""
    for number in range(5_000):
        heap.allocate_node(number)
        heap.free(0)
    for _ in range(100):
        heap.allocate_string(9_000)
        heap.free(0)


ALLOCATED_BYTES = 5_000 * 32 + 100 * 9_025


@pytest.mark.parametrize(
    ("program", "allocated_bytes"),
    [
        (small_and_large, ALLOCATED_BYTES),
        # Less than one sparse period, in the nursery and outside.
        (lambda heap: heap.allocate_node(1), 32),
        (lambda heap: heap.allocate_string(9_000), 9_025),
    ],
)
def test_all_bytes_are_counted(program: Callable[[Heap], object], allocated_bytes: int) -> None:
    assert cost_of(program).allocated_bytes == allocated_bytes


def test_collections_are_counted() -> None:
    def collect_often(heap: Heap) -> None:
        for _ in range(7):
            heap.collect_minor()

    assert cost_of(collect_often).collections == 7


def test_bytes_that_a_program_does_not_sample_are_not_counted() -> None:
    def stop(heap: Heap) -> None:
        heap.enable_sampling(8)
        heap.allocate_string(1000)
        heap.disable_sampling(report=True)
        heap.allocate_node(1)

    # 128 samples; nothing after them is counted.
    assert cost_of(stop).allocated_bytes == 128 * 8


def test_three_runs_cost_three_times_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_module, "time", SimpleNamespace(perf_counter=count().__next__))
    once, three = cost_of(small_and_large), cost_of(small_and_large, repeat=3)
    assert (once.seconds, three.seconds) == (1, 3)
    assert three.allocated_bytes == 3 * ALLOCATED_BYTES
    assert three.collections == 3 * once.collections
    assert three.bytes_by_size == {k: 3 * v for k, v in once.bytes_by_size.items()}


# The forecast.


def a_few_nodes(heap: Heap) -> None:
    """Less than one sparse period."""
    for number in range(1_500):
        heap.allocate_node(number)


def ever_new_stacks(heap: Heap) -> None:
    def either(heap: Heap, turns: list[int]) -> None:
        if not turns:
            heap.allocate_string(2000)
            heap.free(0)
        elif turns[0]:
            either(heap, turns[1:])
        else:
            either(heap, turns[1:])

    random = Random(1)
    for _ in range(300):
        either(heap, random.choices((0, 1), k=50))


@pytest.mark.parametrize(
    ("program", "period_bytes", "most"),
    [
        *[(small_and_large, period_bytes, (2, 100_000)) for period_bytes in (16, 4096, 32768)],
        (a_few_nodes, 8, (2, 300_000)),
        *[pytest.param(each, 128, (2, 0), marks=pytest.mark.night) for each in WORKLOADS.values()],
        pytest.param(ever_new_stacks, 512, (3, 0), marks=pytest.mark.slow),
    ],
)
def test_the_recording_takes_no_more_than_the_forecast(
    recorded: Recorded,
    tmp_path: Path,
    program: Callable[[Heap], object],
    period_bytes: int,
    most: tuple[int, int],
) -> None:
    """The forecast is at most that many times the size, and that many bytes more."""
    recorded(program, period_bytes)
    taken_bytes = (tmp_path / "recording.jsonl").stat().st_size
    forecast_bytes = cost_of(program).recording_bytes(period_bytes, None)
    assert taken_bytes <= forecast_bytes < most[0] * taken_bytes + most[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_at_night(WORKLOADS))
def test_a_timed_recording_fits_the_forecast(recorded: Recorded, tmp_path: Path, name: str) -> None:
    recorded(WORKLOADS[name], 4096, time_period_us=5000)
    taken_bytes = (tmp_path / "recording.jsonl").stat().st_size
    assert taken_bytes <= cost_of(WORKLOADS[name]).recording_bytes(4096, 5000)


def test_samples_by_time_are_forecast() -> None:
    cost = Cost(seconds=2, allocated_bytes=0, collections=0, bytes_by_size={})
    more = cost.recording_bytes(4096, 1000) - cost.recording_bytes(4096, None)
    assert more == 2000 * TIME_BYTES + STACKS_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("max_bytes", [100_000, 200_000, 1_000_000])
def test_the_period_that_fits_is_the_shortest(max_bytes: int) -> None:
    cost = cost_of(lambda heap: allocate(heap, rounds=3000), repeat=10)
    period_bytes = cost.period_that_fits(max_bytes, None)
    assert period_bytes is not None
    assert period_bytes % 8 == 0
    assert cost.recording_bytes(period_bytes, None) <= max_bytes
    assert cost.recording_bytes(period_bytes - 8, None) > max_bytes


@pytest.mark.parametrize(
    ("collections", "max_bytes", "period_bytes"), [(0, 10**9, 8), (10**6, 10**6, None)]
)
def test_every_period_may_fit_or_none(
    collections: int, max_bytes: int, period_bytes: int | None
) -> None:
    cost = Cost(seconds=1, allocated_bytes=10**6, collections=collections, bytes_by_size={})
    assert cost.period_that_fits(max_bytes, None) == period_bytes
