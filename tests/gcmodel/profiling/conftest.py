"""Profiles: one small enough to check by hand, and recorded ones."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from recorded_programs import at_random, leave_some, recorded_in

from gcmodel.profiling.profile import (
    CollectionMark,
    Fate,
    Frame,
    Profile,
    ProfileHeader,
    ProfileSample,
    Stack,
    StateMark,
    TimeSample,
)

PERIOD_BYTES = 4096
Recorded = Callable[..., Profile]


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
        states=[StateMark("marking", 1200, 2300, 2, 150), StateMark("sweeping", 2310, 2400, 1, 90)],
        ended_us=3000,
        is_complete=True,
    )


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """Records a program and reads the recording."""
    return partial(recorded_in, tmp_path / "recording.jsonl")


@pytest.fixture
def real(recorded: Recorded) -> Profile:
    """What `leave_some` allocates, sampled at random."""
    return recorded(leave_some, 200, configuration=at_random(1))


@pytest.fixture
def counted(real: Profile) -> dict[str, int]:
    """The bytes of all samples, of survivors and of live objects, which every format must have."""
    dead = Fate.DIED_YOUNG, Fate.DIED_OLD
    return {
        "alloc": real.weight_bytes,
        "survived": sum(e.weight_bytes for e in real.samples if e.fate is not Fate.DIED_YOUNG),
        "live": sum(e.weight_bytes for e in real.samples if e.fate not in dead),
    }
