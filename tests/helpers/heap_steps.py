"""Steps that many tests of the collector and the sampler share."""

from gcmodel import Heap
from gcmodel.collector.major import State
from gcmodel.sampling.sample_point import Sampling

SURVIVED, OUTSIDE_NURSERY = 1, 2
"""The flags of a report's entries."""
SHORT = 7
"""The characters of a string of 32 bytes."""
STEPS_MAX = 1000


def allocate_dead_nodes(heap: Heap, count: int) -> None:
    for number in range(count):
        heap.allocate_node(number)
        heap.free(len(heap.roots) - 1)


def allocate_pinned(heap: Heap) -> None:
    """The last root is a pinned string of 32 bytes."""
    heap.allocate_string(SHORT)
    heap.pin(len(heap.roots) - 1)


def letters(heap: Heap) -> str:
    """The letters of the events since the last call."""
    return heap.events.take()[0]


def samples(heap: Heap) -> int:
    return letters(heap).count("s")


def reported(heap: Heap) -> list[int]:
    """The entries of the one report since the last call."""
    [report] = heap.events.take()[1]
    return report.entries


def sample_point_of(heap: Heap) -> int:
    assert isinstance(heap.sampling, Sampling)
    return heap.sampling.sample_point


def step_until(heap: Heap, state: State) -> None:
    for _ in range(STEPS_MAX):
        if heap.major.state is state:
            return
        heap.collect_step()
    raise AssertionError(f"{heap.major.state} after {STEPS_MAX} steps")


def finish_cycle(heap: Heap) -> None:
    step_until(heap, State.SCANNING)
