"""The pytest plugin `gcfuzz`: saved traces as tests, and sessions in place of examples.

It lies beside the packages and imports nothing of them before it is asked for something: it is
loaded in every run of pytest, also where a project has a folder `fuzz` of its own.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fuzz.testing.cases import SavedTrace

CORPUS = "gcfuzz_corpus"


def pytest_addoption(parser: pytest.Parser) -> None:
    """What this plugin can be told."""
    help_ = "the folder where machine_for saves failures, and whose traces are tests"
    parser.addini(CORPUS, help_, default="gcfuzz-failures")
    group = parser.getgroup("gcfuzz")
    help_ = "search so long in each machine_for test, with gcfuzz's random engine: 30s, 10m"
    group.addoption("--gcfuzz-time", metavar="TIME", type=_seconds, help=help_)


def _seconds(text: str) -> float:
    import click

    from fuzz.terminal.target_options import duration

    try:
        return duration(text)
    except click.BadParameter as problem:
        raise ArgumentTypeError(problem.message) from problem


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tell a machine where finds go, and how long a session it is to be."""
    test_case: Any = getattr(item, "cls", None)
    if hasattr(test_case, "session_seconds") and hasattr(test_case, "corpus_folder"):
        test_case.session_seconds = item.config.getoption("gcfuzz_time")
        test_case.corpus_folder = item.config.rootpath / item.config.getini(CORPUS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each trace of the corpus; none is a skipped one."""
    if CORPUS in metafunc.fixturenames:
        folder = metafunc.config.rootpath / metafunc.config.getini(CORPUS)
        paths = sorted(folder.glob("*.jsonl"))
        metafunc.parametrize(CORPUS, paths, ids=[path.stem for path in paths], indirect=True)


@pytest.fixture
def gcfuzz_corpus(request: pytest.FixtureRequest) -> SavedTrace:
    """A trace of the corpus: `gcfuzz_corpus.replay(MyTarget)` fails if it does."""
    from fuzz.testing.cases import SavedTrace

    return SavedTrace(request.param)
