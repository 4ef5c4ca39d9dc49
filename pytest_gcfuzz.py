"""The pytest plugin `gcfuzz`: saved traces as tests, and sessions in place of examples.

Every run of pytest loads it, also in a project with its own folder `fuzz`. So it is beside the
packages, and imports them only when a test needs it.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from gcfuzz import hidden_by

if TYPE_CHECKING:
    from fuzz.testing.suites import SavedTrace

CORPUS = "gcfuzz_corpus"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    help_ = "the folder where state_machine_for saves failures, and whose traces are tests"
    parser.addini(CORPUS, help_, default="gcfuzz-failures")
    group = parser.getgroup("gcfuzz")
    help_ = "search this long in each state_machine_for test, with the random engine: 30s, 10m"
    group.addoption("--gcfuzz-time", metavar="TIME", type=_seconds, help=help_)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """If tests cannot be imported, report whether another `fuzz` is the reason."""
    report = yield
    problem = hidden_by() if report.failed else None
    if problem is not None:
        report.sections.append(("gcfuzz", problem))
    return report


def _require_package() -> None:
    problem = hidden_by()
    if problem is not None:
        raise pytest.UsageError(problem)


def _seconds(text: str) -> float:
    _require_package()
    import click

    from fuzz.terminal.target_options import duration

    try:
        return duration(text)
    except click.BadParameter as problem:
        raise ArgumentTypeError(problem.message) from problem


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give a state machine its corpus, and the time of its session."""
    test_case: Any = getattr(item, "cls", None)
    if hasattr(test_case, "session_seconds") and hasattr(test_case, "corpus_folder"):
        test_case.session_seconds = item.config.getoption("gcfuzz_time")
        test_case.corpus_folder = item.config.rootpath / item.config.getini(CORPUS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each trace of the corpus, or a skipped test."""
    if CORPUS in metafunc.fixturenames:
        folder = metafunc.config.rootpath / metafunc.config.getini(CORPUS)
        paths = sorted(folder.glob("*.jsonl"))
        metafunc.parametrize(CORPUS, paths, ids=[path.stem for path in paths], indirect=True)


@pytest.fixture
def gcfuzz_corpus(request: pytest.FixtureRequest) -> SavedTrace:
    """A trace of the corpus: `gcfuzz_corpus.replay(MyTarget)` fails if it does.

    For a program it is `gcfuzz_corpus.replay(command="./adapter")`.
    """
    _require_package()
    from fuzz.testing.suites import SavedTrace

    return SavedTrace(request.param)
