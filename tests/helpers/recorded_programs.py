"""Programs for tests of profiles, and how they are recorded."""

from pathlib import Path
from typing import Any

import attrs

from gcmodel import Configuration, Heap
from gcmodel.profiling.profile import Profile, ProfileHeader
from gcmodel.profiling.recording import RecordingWriter, read
from gcmodel.profiling.sampled_run import PROFILED, Program, record


def at_random(seed: int, configuration: Configuration = PROFILED) -> Configuration:
    """The same heap with random distances between samples."""
    return attrs.evolve(configuration, random_periods=True, sampler_seeds=(seed,))


def recorded_in(
    path: Path,
    program: Program,
    period_bytes: int,
    *,
    configuration: Configuration = PROFILED,
    time_period_us: int | None = None,
    **options: Any,
) -> Profile:
    """Record a program and read the recording; other options are those of `record`."""
    header = ProfileHeader.of_now(
        "a program",
        period_bytes=period_bytes,
        is_random=configuration.random_periods,
        nursery_bytes=configuration.nursery_bytes,
        time_period_us=time_period_us,
    )
    with RecordingWriter(path, header, options.pop("max_bytes", 10**9)) as writer:
        record(program, writer, configuration=configuration, **options)
    return read(path)


def leave_some(heap: Heap) -> None:
    """Strings die young, nodes survive, and four of ten arrays outside die later."""
    for number in range(3000):
        heap.allocate_node(number)
        heap.allocate_string(number % 500)
        heap.free(len(heap.roots) - 1)
    for _ in range(10):
        heap.allocate_array(2000)
    heap.collect_full()
    del heap.roots[-4:]
    heap.collect_full()


SOURCE = """
def answer(heap): heap.allocate_string(200)
def remember(heap): heap.allocate_node(1)
def main(heap):
    for _ in range(500): answer(heap); remember(heap)
"""
CHANGED = SOURCE.replace("heap.allocate_string(200)", "also(heap); heap.allocate_string(200)")
MORE_BYTES = 500 * 88


def _main_of(source: str) -> Program:
    names: dict[str, Program] = {}
    exec(compile(source, "server.py", "exec"), names)
    return names["main"]


BEFORE = _main_of(SOURCE)
AFTER = _main_of(CHANGED + "def also(heap): heap.allocate_array(9)\n")
"""The next version of the program, which also calls a new function."""
AFTER_MOVED = _main_of("def also(heap): heap.allocate_array(9)\n" + CHANGED)
"""The same with every line moved."""
