"""What every workload has in common: it repeats itself, and leaves nothing alive."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from night import rest_at_night

from gcmodel import Configuration, Heap, Kind
from gcmodel.workloads import WORKLOADS, allocate, expressions, gcbench, interpreter
from gcmodel.workloads.gcbench import Size

Run = Callable[[Heap], object]

TREES = Size(
    stretch_depth=7,
    long_lived_depth=5,
    min_depth=2,
    max_depth=6,
    nodes_per_depth=600,
    array_length=60,
)
SMALL: dict[str, Run] = {
    "gcbench": partial(gcbench.run, size=TREES),
    "expressions": partial(expressions.run, rounds=5),
    "interpreter": partial(interpreter.run, sieve_limit=60, fibonacci_of=9),
    "allocate": partial(allocate.run, rounds=100),
}
CONFIGURATIONS = {
    "a nursery of 256 bytes": Configuration(nursery_bytes=256, large_object_bytes=64),
    "a listed old space": Configuration(paged_arenas=False, card_items=0),
    "a nursery that moves": Configuration(nursery_bytes=1024, moving_nursery=True),
    "marking one by one": Configuration(single_step_marking=True, card_items=32),
}
LARGE = Configuration(nursery_bytes=65536, large_object_bytes=8192)


class RecordingHeap(Heap):
    """A heap that records its allocations."""

    def __init__(self, configuration: Configuration) -> None:
        self.allocated: list[tuple[Kind, int, int]] = []
        super().__init__(configuration)

    def _allocate(
        self, kind: Kind, raw_bytes: int, number: int, length: int, nonmovable: bool
    ) -> tuple[int, int | None]:
        self.allocated.append((kind, raw_bytes, number))
        return super()._allocate(kind, raw_bytes, number, length, nonmovable)


def recorded(
    run: Run, configuration: Configuration, period_bytes: int = 0
) -> list[tuple[Kind, int, int]]:
    heap = RecordingHeap(configuration)
    if period_bytes:
        heap.enable_sampling(period_bytes)
    run(heap)
    return heap.allocated


@pytest.fixture(params=SMALL)
def small_run(request: pytest.FixtureRequest) -> Run:
    return SMALL[request.param]


def test_every_workload_is_known_by_its_name_and_has_a_small_run() -> None:
    assert WORKLOADS.keys() == SMALL.keys()


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_run_leaves_nothing_new_alive(small_run: Run, configuration: Configuration) -> None:
    heap = Heap(configuration)
    heap.allocate_node(7)
    heap.allocate_array(3)
    heap.write(1, 2, 0)
    heap.collect_full()
    before = heap.memory_used_bytes(), heap.walk()
    small_run(heap)
    heap.collect_full()
    assert (heap.memory_used_bytes(), heap.walk()) == before


def test_two_runs_make_the_same_allocations(small_run: Run) -> None:
    heap = RecordingHeap(LARGE)
    small_run(heap)
    first, heap.allocated = heap.allocated, []
    small_run(heap)
    assert heap.allocated == first


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_no_configuration_changes_allocations(small_run: Run, configuration: Configuration) -> None:
    assert recorded(small_run, configuration) == recorded(small_run, LARGE)


def test_the_allocations_do_not_depend_on_sampling(small_run: Run) -> None:
    assert recorded(small_run, LARGE, period_bytes=64) == recorded(small_run, LARGE)


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("name", sorted(SMALL.keys() - {"allocate"}))
def test_no_configuration_changes_the_result(name: str, configuration: Configuration) -> None:
    # What the loop returns is what the sampler counts, and that is unrounded outside the nursery.
    assert SMALL[name](Heap(configuration)) == SMALL[name](Heap(LARGE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kinds"),
    rest_at_night(
        [
            ("gcbench", {Kind.NODE, Kind.ARRAY}),
            ("expressions", {Kind.NODE, Kind.ARRAY, Kind.STRING}),
            ("interpreter", {Kind.NODE, Kind.ARRAY, Kind.STRING}),
            ("allocate", {Kind.NODE, Kind.ARRAY, Kind.STRING, Kind.WEAKREF}),
        ]
    ),
)
def test_a_usual_run_allocates_some_hundred_thousand_objects(name: str, kinds: set[Kind]) -> None:
    counts = Counter(kind for kind, _, _ in recorded(WORKLOADS[name], LARGE))
    assert 250_000 <= counts.total() <= 600_000
    assert counts.keys() == kinds
