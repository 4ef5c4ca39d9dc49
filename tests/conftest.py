"""For all tests: no time limits, nothing left behind, and no unexpected skips."""

import gc
import math
import os
import signal
import statistics
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pytest
from command_line import Gcfuzz, Printed
from hypothesis import HealthCheck, settings

from fuzz.targets.process.conversation import end_programs_of
from fuzz.terminal.commands.cli import run_command_line

# The time of an example depends on the machine.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# Tests send SIGINT, which a shell ignores for tests in the background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MAY_SKIP = ("tests/test_findings.py::test_the_fork_fails_as_its_page_says",)
"""These tests may skip although GCFUZZ_NOTHING_SKIPS is set."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)


def process_state() -> dict[str, object]:
    """The state of the process, which a test must not change."""
    return {
        "folder": Path.cwd(),
        "sys.path": [*sys.path],
        "sys.argv": [*sys.argv],
        # pytest itself changes this variable.
        "environment": {**os.environ, "PYTEST_CURRENT_TEST": ""},
        "recursion limit": sys.getrecursionlimit(),
        "cycle collection": (gc.isenabled(), gc.get_threshold()),
        "signal handlers": [signal.getsignal(each) for each in SIGNALS],
        "timer": signal.getitimer(signal.ITIMER_REAL),
    }


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What only the night runs is slow, too: an edit runs what is not slow."""
    for item in items:
        if item.get_closest_marker("night"):
            item.add_marker("slow")


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


@pytest.fixture
def gcfuzz(capsys: pytest.CaptureFixture[str]) -> Gcfuzz:
    """Run a command, which must exit with this code; returns what it printed."""

    def run(code: int, *arguments: str | Path) -> Printed:
        capsys.readouterr()
        exit_code = run_command_line([*map(str, arguments)])
        printed = Printed(*capsys.readouterr())
        assert exit_code == code, printed
        return printed

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With GCFUZZ_NOTHING_SKIPS, as in CI, a test that skips unexpectedly fails.

    The programs of a failed test end: its traceback keeps its targets, which keep their programs.
    """
    report = yield
    if report.failed:
        end_programs_of(os.getpid())
    may_skip = item.nodeid.partition("[")[0] in MAY_SKIP
    if report.skipped and "GCFUZZ_NOTHING_SKIPS" in os.environ and not may_skip:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} skips unexpectedly: {report.longrepr}"
    return report
