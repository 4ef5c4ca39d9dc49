"""What a program costs, and whether the forecast of its recording is what it then takes."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

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


def test_the_bytes_are_counted_to_the_last(recorded: Recorded) -> None:
    assert cost_of(small_and_large).allocated_bytes == ALLOCATED_BYTES


def test_less_than_one_sparse_period_is_counted_too() -> None:
    assert cost_of(lambda heap: heap.allocate_node(1)).allocated_bytes == 32


def test_an_object_outside_is_counted_as_the_sampler_does() -> None:
    assert cost_of(lambda heap: heap.allocate_string(9_000)).allocated_bytes == 9_025


def test_collections_are_counted() -> None:
    assert cost_of(lambda heap: [heap.collect_minor() for _ in range(7)]).collections == 7


def test_the_cost_of_several_times_is_so_many_times_the_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cost_module, "time", SimpleNamespace(perf_counter=count().__next__))
    cost = cost_of(small_and_large)
    assert cost.seconds == 1
    thrice = cost_of(small_and_large, repeat=3)
    assert thrice.allocated_bytes == 3 * ALLOCATED_BYTES
    assert thrice.seconds == 3
    assert thrice.collections == 3 * cost.collections
    assert thrice.bytes_by_size == {k: 3 * v for k, v in cost.bytes_by_size.items()}


@pytest.mark.parametrize("period_bytes", [16, 4096, 32768])
def test_the_forecast_is_not_exceeded(
    recorded: Recorded, tmp_path: Path, period_bytes: int
) -> None:
    recorded(small_and_large, period_bytes)
    taken_bytes = (tmp_path / "recording.jsonl").stat().st_size
    forecast_bytes = cost_of(small_and_large).recording_bytes(period_bytes, None)
    assert taken_bytes <= forecast_bytes < 2 * taken_bytes + 100_000


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_forecast_of_a_workload_is_not_exceeded(
    recorded: Recorded, tmp_path: Path, name: str
) -> None:
    program = WORKLOADS[name]
    recorded(program, 128)
    taken_bytes = (tmp_path / "recording.jsonl").stat().st_size
    forecast_bytes = cost_of(program).recording_bytes(128, None)
    assert taken_bytes <= forecast_bytes < 2 * taken_bytes


def test_the_forecast_of_a_short_program_is_not_exceeded(
    recorded: Recorded, tmp_path: Path
) -> None:
    def a_few_nodes(heap: Heap) -> None:
        for number in range(1_500):  # Less than one sparse period.
            heap.allocate_node(number)

    recorded(a_few_nodes, 8)
    taken_bytes = (tmp_path / "recording.jsonl").stat().st_size
    assert taken_bytes <= cost_of(a_few_nodes).recording_bytes(8, None)


@pytest.mark.slow
def test_the_forecast_of_ever_new_stacks_is_not_exceeded(
    recorded: Recorded, tmp_path: Path
) -> None:
    def either(heap: Heap, turns: list[int]) -> None:
        if not turns:
            heap.allocate_string(2000)
            heap.free(0)
        elif turns[0]:
            either(heap, turns[1:])
        else:
            either(heap, turns[1:])

    def wander(heap: Heap) -> None:
        random = Random(1)
        for _ in range(300):
            either(heap, random.choices((0, 1), k=50))

    recorded(wander, 512)
    taken_bytes = (tmp_path / "recording.jsonl").stat().st_size
    assert taken_bytes <= cost_of(wander).recording_bytes(512, None) < 3 * taken_bytes


def test_what_a_program_does_not_sample_is_not_counted() -> None:
    def stop(heap: Heap) -> None:
        heap.enable_sampling(8)
        heap.allocate_string(1000)
        heap.disable_sampling(report=True)
        heap.allocate_node(1)

    # 128 samples; nothing after them is counted.
    assert cost_of(stop).allocated_bytes == 128 * 8


def test_samples_by_time_are_forecast_too() -> None:
    cost = Cost(seconds=2, allocated_bytes=0, collections=0, bytes_by_size={})
    more = cost.recording_bytes(4096, 1000) - cost.recording_bytes(4096, None)
    assert more == 2000 * TIME_BYTES + STACKS_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_forecast_with_samples_by_time_is_not_exceeded(
    recorded: Recorded, tmp_path: Path, name: str
) -> None:
    program = WORKLOADS[name]
    recorded(program, 4096, time_period_us=5000)
    taken_bytes = (tmp_path / "recording.jsonl").stat().st_size
    assert taken_bytes <= cost_of(program).recording_bytes(4096, 5000)


@pytest.mark.parametrize("max_bytes", [100_000, 200_000, 1_000_000])
def test_the_period_that_fits_is_the_shortest(max_bytes: int) -> None:
    cost = cost_of(lambda heap: allocate(heap, rounds=3000), repeat=10)
    period_bytes = cost.period_that_fits(max_bytes, None)
    assert period_bytes is not None
    assert period_bytes % 8 == 0
    assert cost.recording_bytes(period_bytes, None) <= max_bytes
    assert cost.recording_bytes(period_bytes - 8, None) > max_bytes


def test_if_all_fits_the_period_is_the_shortest_there_is() -> None:
    assert cost_of(small_and_large).period_that_fits(10**9, None) == 8


def test_if_collections_alone_are_too_many_no_period_fits() -> None:
    cost = Cost(seconds=1, allocated_bytes=10**6, collections=10**6, bytes_by_size={})
    assert cost.period_that_fits(10**6, None) is None
