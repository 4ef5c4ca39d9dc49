"""A profile small enough to be checked by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from gcmodel import Heap
from gcmodel.profiling.profile import (
    CollectionMark,
    Fate,
    Frame,
    Phase,
    Profile,
    ProfileHeader,
    ProfileSample,
    Stack,
    TimeSample,
)
from gcmodel.profiling.recording import RecordingWriter, read
from gcmodel.profiling.sampled_run import PROFILED, Program, record

PERIOD_BYTES = 4096


@pytest.fixture
def profile() -> Profile:
    """Three functions, four nodes and strings of any fate and one unknown, two collections."""
    return Profile(
        header=ProfileHeader(
            program="gcbench",
            period_bytes=PERIOD_BYTES,
            is_random=False,
            time_period_us=1500,
            began_unix_ms=1_700_000_000_000,
            pid=4711,
            python="3.11",
            nursery_bytes=65536,
            types=("", "node", "weakref", "array", "string"),
        ),
        frames=[
            Frame("gcbench", "", 0, 0),
            Frame("build", "/src/tree.py", 10, 12),
            Frame("build", "/src/tree.py", 10, 14),
            Frame("name", "/src/names.py", 3, 4),
        ],
        stacks=[Stack(None, 0), Stack(0, 1), Stack(1, 2), Stack(1, 3)],
        samples=[
            ProfileSample(100, 1, 1, PERIOD_BYTES, 24, "node", False, Fate.SURVIVED, 1000),
            ProfileSample(200, 2, 2, PERIOD_BYTES, 5000, "node", False, Fate.DIED_YOUNG, 1000),
            ProfileSample(1500, 2, 1, PERIOD_BYTES, 24, "node", False, Fate.DIED_YOUNG, 2000),
            ProfileSample(1600, 3, 3, PERIOD_BYTES, 9000, "string", True, Fate.DIED_YOUNG, 2000),
            ProfileSample(2500, 3, 1, PERIOD_BYTES, 24),
        ],
        time_samples=[TimeSample(50, 1), TimeSample(1550, 3)],
        minor_collections=[
            CollectionMark(900, 1100, 1000, 4096, 50_000),
            CollectionMark(1900, 2100, 700, 8192, 60_000),
        ],
        phases=[Phase("marking", 1200, 2300, 2, 150), Phase("sweeping", 2310, 2400, 1, 90)],
        ended_us=3000,
        is_complete=True,
    )


Recorded = Callable[..., Profile]


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """Records a program and reads the recording; the options are those of `record`."""

    def record_and_read(
        program: Program,
        period_bytes: int,
        max_bytes: int = 10**9,
        time_period_us: int | None = None,
        **options: Any,
    ) -> Profile:
        header = ProfileHeader.of_now(
            "a program",
            period_bytes=period_bytes,
            is_random=options.get("configuration", PROFILED).random_periods,
            nursery_bytes=PROFILED.nursery_bytes,
            time_period_us=time_period_us,
        )
        path = tmp_path / "recording.jsonl"
        with RecordingWriter(path, header, max_bytes) as writer:
            record(program, writer, **options)
        return read(path)

    return record_and_read


def leave_some(heap: Heap) -> None:
    """Strings die young, nodes stay, and of ten arrays outside of the nursery four die later."""
    for number in range(3000):
        heap.allocate_node(number)
        heap.allocate_string(number % 500)
        heap.free(len(heap.roots) - 1)
    for _ in range(10):
        heap.allocate_array(2000)
    heap.collect_full()
    del heap.roots[-4:]
    heap.collect_full()


@pytest.fixture
def real(recorded: Recorded) -> Profile:
    """What `leave_some` allocates, sampled at random."""
    configuration = attrs.evolve(PROFILED, random_periods=True, sampler_seeds=(1,))
    return recorded(leave_some, 200, configuration=configuration)


@pytest.fixture
def counted(real: Profile) -> dict[str, int]:
    """The bytes that every format must have, of all samples, of survivors and of what is live."""
    dead = Fate.DIED_YOUNG, Fate.DIED_OLD
    return {
        kind: sum(each.weight_bytes for each in real.samples if counts(each))
        for kind, counts in {
            "alloc": lambda _: True,
            "survived": lambda each: each.fate is not Fate.DIED_YOUNG,
            "live": lambda each: each.fate not in dead,
        }.items()
    }
