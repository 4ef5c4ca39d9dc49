"""`machine_for` in a user's own test suite: a file of tests, run by pytest in its own process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

import fuzz
from fuzz.protocol import trace as traces
from fuzz.protocol.trace import Trace
from fuzz.terminal.cli import run_command_line

pytestmark = pytest.mark.slow

CLEAN, MISMATCH = 0, 1
PASSED, FAILED = 0, 1
STEPS_MAX = 6
SUITE = """
from hypothesis import Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from fuzz import machine_for
from fuzz.targets import make_target


def my_target():
    with open("examples", "a") as examples:
        examples.write(".")
    return make_target({target!r})


TestMine = machine_for(my_target).TestCase
TestMine.settings = settings(
    max_examples={max_examples},
    stateful_step_count=20,
    phases={phases},
    deadline=None,
    report_multiple_bugs={several},
    derandomize=False,
    database=DirectoryBasedExampleDatabase("mine"),
)
"""
FIND = "[Phase.generate, Phase.shrink]"
REUSE = "[Phase.reuse]"
PLANTED = "reference+disable-before-enable"
SEEDED = "--hypothesis-seed=2"
"""Reproducible; but with a seed given, Hypothesis keeps no examples."""


@attrs.frozen
class Ran:
    """What pytest said of the suite."""

    code: int
    output: str
    examples: int

    @property
    def traces(self) -> list[Trace]:
        """The traces in the output, one a failure; pytest puts an E or a | before each line."""
        lines = re.findall(r'^[E| ]*(\{"(?:gcfuzz|do)".*)$', self.output, re.MULTILINE)
        texts = re.split(r'(?=\{"gcfuzz")', "".join(line + "\n" for line in lines))
        return [traces.loads(text, "the output") for text in texts if text]

    @property
    def trace(self) -> Trace:
        """The one trace in the output."""
        (trace,) = self.traces
        return trace


def run_suite(
    folder: Path,
    target: str,
    max_examples: int,
    *options: str,
    phases: str = FIND,
    several: bool = False,
) -> Ran:
    """Run the suite in `folder`."""
    suite = SUITE.format(target=target, max_examples=max_examples, phases=phases, several=several)
    (folder / "test_mine.py").write_text(suite)
    (folder / "examples").write_text("")
    environment = {**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    command = [sys.executable, "-m", "pytest", "test_mine.py", "--color=no", "-rN", *options]
    ran = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    return Ran(ran.returncode, ran.stdout, (folder / "examples").stat().st_size)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The suite has found the planted bug."""
    return run_suite(tmp_path_factory.mktemp("suite"), PLANTED, 100, SEEDED)


def test_it_passes_for_the_reference(tmp_path: Path) -> None:
    assert run_suite(tmp_path, "reference", 5).code == PASSED


def test_the_user_s_settings_are_respected(tmp_path: Path) -> None:
    # Hypothesis may try some more, which it does not count; left alone it tries a hundred.
    assert 15 <= run_suite(tmp_path, "reference", 15, SEEDED).examples <= 30


def test_it_fails_for_a_planted_bug(found: Ran) -> None:
    assert found.code == FAILED
    assert "PointersMismatch" in found.output or "HeapMismatch" in found.output


def test_hypothesis_shrinks_the_failure_to_a_few_steps(found: Ran) -> None:
    assert 1 <= len(found.trace.actions) <= STEPS_MAX


def test_the_output_says_how_to_replay(found: Ran) -> None:
    assert "gcfuzz replay FILE" in found.output


def test_the_trace_in_the_output_reproduces_the_failure(found: Ran, tmp_path: Path) -> None:
    path = tmp_path / "saved.jsonl"
    path.write_text(traces.dumps(found.trace))
    assert run_command_line(["replay", str(path)]) == MISMATCH
    assert run_command_line(["replay", str(path), "--target", "reference"]) == CLEAN


def test_a_failure_is_replayed_from_the_user_s_database(tmp_path: Path) -> None:
    first = run_suite(tmp_path, PLANTED, 100)
    again = run_suite(tmp_path, PLANTED, 100, phases=REUSE)
    assert again.code == FAILED
    assert again.trace == first.trace


def test_a_sampling_bug_is_found_and_shrunk(tmp_path: Path) -> None:
    ran = run_suite(tmp_path, "reference+one-sample-per-object", 500, SEEDED)
    assert ran.code == FAILED
    assert len(ran.trace.actions) <= STEPS_MAX


def test_each_of_several_failures_shows_its_trace(tmp_path: Path) -> None:
    bug = "reference+large-objects-uncounted"
    ran = run_suite(tmp_path, bug, 500, SEEDED, several=True)
    assert ran.code == FAILED
    assert len(ran.traces) > 1
