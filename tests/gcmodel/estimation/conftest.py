"""Ten thousand simulated runs, and how far from the truth their mean may be.

The runs are the same every time, so that no test fails by chance. Had the seed been drawn afresh,
a right estimator would miss four standard errors with a probability of 2 (1 - Phi(4)) = 0.000063
in each comparison (test_false_alarms.py).
"""

import math
import random
from collections.abc import Callable

import pytest

from gcmodel.estimation.samples import Sample

PERIOD_BYTES = 1000
RUNS = 10_000
STREAM = [
    *[("small", ("leaf", "main"), 24, 32)] * 30,
    *[("small", ("other", "main"), 30, 32)] * 10,
    *[("text", ("leaf", "main"), 500, 512)] * 4,
    *[("large", ("other", "main"), 3000, 3072)] * 2,
]
"""Type, site, requested and allocated bytes of each allocation of a run."""

MakeSample = Callable[..., Sample]


@pytest.fixture(scope="session")
def make_sample() -> MakeSample:
    """A sample of an object of 16 bytes whose first byte was hit, but for what is given."""

    def make(size_bytes: int = 16, **figures: object) -> Sample:
        given: dict[str, object] = {
            "type": "node",
            "site": ("leaf", "main"),
            "requested_bytes": size_bytes,
            "allocated_bytes": size_bytes,
            "counted_bytes": size_bytes,
            "offset_bytes": 0,
            "period_bytes": PERIOD_BYTES,
        }
        return Sample(**{**given, **figures})  # type: ignore[arg-type]

    return make


def run_of(source: random.Random) -> list[Sample]:
    """One run: every allocated byte is hit with one chance in a thousand, until one is."""
    samples = []
    for kind, site, requested, allocated in STREAM:
        offset = int(math.log(1 - source.random()) / math.log1p(-1 / PERIOD_BYTES))
        if offset < allocated:
            samples.append(
                Sample(
                    type=kind,
                    site=site,
                    requested_bytes=requested,
                    allocated_bytes=allocated,
                    counted_bytes=allocated,
                    offset_bytes=offset,
                    period_bytes=PERIOD_BYTES,
                )
            )
    return samples


@pytest.fixture(scope="session")
def runs() -> list[list[Sample]]:
    """The samples of each run of the same stream."""
    source = random.Random("runs")
    return [run_of(source) for _ in range(RUNS)]
