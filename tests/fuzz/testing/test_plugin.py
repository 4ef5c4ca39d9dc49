"""The pytest plugin, and `state_machine_for`, in a separate project and process."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from waiting import LONG_SECONDS, completed

import fuzz
import gcfuzz

pytestmark = pytest.mark.slow

PASSED, FAILED, INTERRUPTED, USAGE_ERROR = 0, 1, 2, 4
MISMATCH = 1
PLUGIN = [] if entry_points(group="pytest11", name="gcfuzz") else ["-p", "pytest_gcfuzz"]
"""Pytest loads an installed plugin by itself."""
SUITE = """
from fuzz import state_machine_for
from fuzz.targets import make_target


def my_target():
    target = make_target({!r})
    target.name = "mine"
    return target


TestMine = state_machine_for(my_target).TestCase
"""
REPLAYING = """

def test_a_trace(gcfuzz_corpus):
    gcfuzz_corpus.replay(my_target)
"""
PLANTED = SUITE.format("reference+disable-before-enable")
SEEDED = "--hypothesis-seed=2"
TRACE = '{"gcfuzz": 2, "target": "mine"}\n{"do": "disable_sampling"}\n'

Ran = subprocess.CompletedProcess[str]


class Project:
    """A folder with tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, *arguments: str) -> Ran:
        """Run a module of Python in it."""
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        packages = {"PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
        return completed(
            [sys.executable, "-m", *arguments],
            cwd=self.folder,
            env={**os.environ, **path, **packages},
            check=False,
            timeout=LONG_SECONDS,
        )

    def test(self, *options: str) -> Ran:
        """Run its tests."""
        return self.run("pytest", *PLUGIN, "--color=no", "-rN", "-p", "no:cacheprovider", *options)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="module")
def finding(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose target has a planted bug."""
    project = Project(tmp_path_factory.mktemp("finding"))
    project.write("test_mine.py", PLANTED)
    return project


@pytest.fixture(scope="module")
def found(finding: Project) -> Ran:
    """The run that finds the bug."""
    return finding.test(SEEDED, "--junitxml=junit.xml", "--hypothesis-show-statistics")


def replayed(project: Project, output: str) -> Ran:
    """Run the command in the output."""
    (line,) = [line for line in output.splitlines() if " gcfuzz replay " in line]
    command = shlex.split(line.partition("replay  ")[2])
    return project.run("fuzz", *command[1:])


def test_a_failure_is_a_session_s_report_without_draws_or_a_traceback(found: Ran) -> None:
    assert found.returncode == FAILED
    assert "E   AssertionError: FAILURE 1: " in found.stdout
    assert "← first wrong answer" in found.stdout
    noise = ("Draw ", "state.", "Mismatch", "pointers.py", "runTest(self)")
    assert [each for each in noise if each in found.stdout] == []


def test_the_command_in_the_failure_replays_it(found: Ran, finding: Project) -> None:
    again = replayed(finding, found.stdout)
    assert again.returncode == MISMATCH, again.stderr
    assert "0 passed, 1 failed" in again.stdout


def test_junit_and_hypothesis_report_the_failure(found: Ran, finding: Project) -> None:
    failure = ET.parse(finding.folder / "junit.xml").find(".//failure")
    assert failure is not None
    assert "← first wrong answer" in str(failure.text)
    assert "FAILURE 1: " in failure.attrib["message"]
    statistics = found.stdout.partition("Hypothesis Statistics")[2]
    assert ", 1 failing, and " in statistics
    assert max(map(len, statistics.splitlines())) < 100


def test_the_configuration_names_the_corpus_and_the_command_a_folder(project: Project) -> None:
    project.write("tests/test_mine.py", PLANTED)
    project.write("pytest.ini", "[pytest]\ngcfuzz_corpus = tests/failures\n")
    ran = project.test(SEEDED)
    assert " gcfuzz replay tests/failures/" in ran.stdout
    assert replayed(project, ran.stdout).returncode == MISMATCH


def test_each_trace_of_the_corpus_is_a_test(project: Project) -> None:
    project.write("test_mine.py", PLANTED + REPLAYING)
    project.write("gcfuzz-failures/first.jsonl", TRACE)
    project.write("gcfuzz-failures/second.jsonl", TRACE.replace("disable_sampling", "collect_full"))
    output = project.test("-v", "-k", "test_a_trace").stdout
    assert "test_a_trace[first] FAILED" in output
    assert "test_a_trace[second] PASSED" in output
    assert "1  disable_sampling   ← first wrong answer" in output
    assert replayed(project, output).returncode == MISMATCH


def test_with_a_time_there_is_a_search_and_an_empty_corpus_is_skipped(project: Project) -> None:
    project.write("test_mine.py", PLANTED + REPLAYING)
    output = project.test("--gcfuzz-time", "10m").stdout
    assert "found     by the random engine" in output
    assert "1 failed, 1 skipped" in output


def test_a_session_that_finds_nothing_passes(project: Project) -> None:
    project.write("test_mine.py", SUITE.format("reference"))
    assert project.test("--gcfuzz-time", "200ms").returncode == PASSED


def test_an_illegal_time_is_a_usage_error(project: Project) -> None:
    ran = project.test("--gcfuzz-time", "soon")
    assert ran.returncode == USAGE_ERROR
    assert "'soon' is no time; write 500ms, 30s, 10m or 2h" in ran.stderr


def test_the_plugin_loads_nothing_before_it_is_needed(project: Project) -> None:
    project.write("loaded.py", "import sys, pytest, pytest_gcfuzz; print(*sys.modules)")
    loaded = set(project.run("loaded").stdout.split())
    assert "pytest_gcfuzz" in loaded
    assert loaded & {"fuzz", "hypothesis", "click", "attr"} == set()


def test_a_project_may_have_a_folder_fuzz_of_its_own(project: Project) -> None:
    project.write("fuzz/__init__.py", "")
    project.write("test_mine.py", "from fuzz import __path__\ndef test_mine(): pass\n")
    ran = project.test()
    assert ran.returncode == PASSED, ran.stderr


HIDES = "fuzz hides gcfuzz's own package `fuzz`; rename it"


@pytest.fixture
def hiding(project: Project) -> Project:
    """A project whose own `fuzz` Python finds first."""
    project.write("fuzz/__init__.py", "")
    project.write("test_mine.py", PLANTED)
    return project


@pytest.mark.parametrize(
    ("options", "code"), [([], INTERRUPTED), (["--gcfuzz-time", "1s"], USAGE_ERROR)]
)
def test_the_plugin_names_a_hiding_folder(options: list[str], code: int, hiding: Project) -> None:
    ran = hiding.test(*options)
    assert ran.returncode == code
    assert f"{hiding.folder}/{HIDES}" in ran.stdout + ran.stderr
    assert not options or "Traceback" not in ran.stderr


def test_the_command_names_a_folder_that_hides_the_package(hiding: Project) -> None:
    command = "import gcfuzz; gcfuzz.main()"
    ran = completed(
        [sys.executable, "-c", command],
        cwd=hiding.folder,
        env={**os.environ, "PYTHONPATH": str(Path(gcfuzz.__file__).parent)},
        check=False,
        timeout=LONG_SECONDS,
    )
    assert ran.returncode == gcfuzz.BAD_INPUT
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith(f"gcfuzz: {hiding.folder}/{HIDES}")
