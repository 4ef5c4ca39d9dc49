"""The checks for all tests, on tests that leave something behind or skip."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import completed

HERE = Path(__file__).parent
PASSED, FAILED = 0, 1
LEAVING = (
    "os.chdir('/')",
    "sys.path.insert(0, 'somewhere')",
    "sys.argv.append('more')",
    "os.environ['MORE'] = '1'",
    "sys.setrecursionlimit(5000)",
    "gc.disable()",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "signal.setitimer(signal.ITIMER_REAL, 3600)",
)
KEEPING = """
from fuzz.targets.process.conversation import Conversation

PROCESSES = []

def test_it():
    kept = Conversation(("sleep", "600"), 600.0)
    PROCESSES.append(kept._process)
    assert not kept

def test_its_program_has_ended():
    assert [each.wait(300) for each in PROCESSES] == [-9]
"""
SKIPPING = "import pytest\n\ndef test_it():\n    pytest.skip('no such program')\n"

Tested = Callable[..., tuple[int, str]]

pytestmark = pytest.mark.slow


@pytest.fixture
def tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tested:
    """Runs the tests of a file in another process; returns its exit code and output."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (HERE, HERE / "helpers"))))
    monkeypatch.delenv("GCFUZZ_NOTHING_SKIPS", raising=False)

    def run(code: str, **environment: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(code)
        command = [sys.executable, "-m", "pytest", "-p", "conftest", "--rootdir", str(tmp_path)]
        ran = completed([*command, str(tmp_path)], env={**os.environ, **environment}, check=False)
        return ran.returncode, ran.stdout

    return run


def test_what_a_test_leaves_behind_is_an_error(tested: Tested) -> None:
    tests = [f"def test_{number}():\n    {each}\n" for number, each in enumerate(LEAVING)]
    code, printed = tested("\n".join(["import gc, os, signal, sys", *tests]))
    assert code == FAILED
    assert f"{len(LEAVING)} passed, {len(LEAVING)} errors" in printed


def test_a_test_may_skip_unless_nothing_may(tested: Tested) -> None:
    code, printed = tested(SKIPPING)
    assert code == PASSED
    assert "1 skipped" in printed
    code, printed = tested(SKIPPING, GCFUZZ_NOTHING_SKIPS="1")
    assert code == FAILED
    assert "test_it.py::test_it skips unexpectedly" in printed
    assert "no such program" in printed


def test_an_expected_skip_is_no_failure(tested: Tested, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    skipping = SKIPPING.replace("test_it", "test_the_fork_fails_as_its_page_says")
    (tmp_path / "tests" / "test_findings.py").write_text(skipping)
    code, printed = tested("", GCFUZZ_NOTHING_SKIPS="1")
    assert code == PASSED
    assert "1 skipped" in printed


def test_a_failed_test_s_programs_end_although_its_traceback_keeps_them(tested: Tested) -> None:
    code, printed = tested(KEEPING)
    assert code == FAILED
    assert "1 failed, 1 passed" in printed


def test_tests_can_be_interrupted_although_a_shell_ignores_it(tested: Tested) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code, _ = tested(
            "import signal\n\ndef test_it():\n"
            "    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == PASSED
