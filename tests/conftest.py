"""What holds for all tests: no clock, nothing left behind, and no skip that nobody expects."""

import gc
import math
import os
import signal
import statistics
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is the machine's business.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# Tests send it, and a shell that runs them in the background has it ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MAY_SKIP = (
    "tests/test_recordings.py::test_the_shipped_recordings_are_complete",
    "tests/test_findings.py::test_the_fork_fails_as_its_page_says",
)
"""What may skip also where nothing else may."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)


def process_state() -> dict[str, object]:
    """What a test may change of the process that all of them share."""
    return {
        "folder": Path.cwd(),
        "sys.path": [*sys.path],
        "sys.argv": [*sys.argv],
        # pytest itself says there what it runs.
        "environment": {**os.environ, "PYTEST_CURRENT_TEST": ""},
        "recursion limit": sys.getrecursionlimit(),
        "cycle collection": (gc.isenabled(), gc.get_threshold()),
        "signal handlers": [signal.getsignal(each) for each in SIGNALS],
        "timer": signal.getitimer(signal.ITIMER_REAL),
    }


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    before = process_state()
    yield
    assert process_state() == before


@pytest.fixture(scope="session")
def standard_errors_off() -> Callable[[Sequence[float], float], float]:
    """How many standard errors the mean of the estimates is away from the truth."""

    def off(estimates: Sequence[float], truth: float) -> float:
        standard_error = statistics.stdev(estimates) / math.sqrt(len(estimates))
        return abs(statistics.fmean(estimates) - truth) / standard_error

    return off


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With GCFUZZ_NOTHING_SKIPS, as in CI, a skip is a failure unless it is one that may."""
    report = yield
    may_skip = item.nodeid.partition("[")[0] in MAY_SKIP
    if report.skipped and "GCFUZZ_NOTHING_SKIPS" in os.environ and not may_skip:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} skips, which nobody expects: {report.longrepr}"
    return report
