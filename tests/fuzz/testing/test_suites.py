"""`machine_for` and the pytest plugin in a suite of a user's, in a process of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import fuzz
from fuzz.protocol import trace as traces

pytestmark = pytest.mark.slow

PASSED, FAILED, USAGE_ERROR = 0, 1, 4
CLEAN, MISMATCH = 0, 1
STEPS_MAX = 6
PLUGIN = [] if entry_points(group="pytest11", name="gcfuzz") else ["-p", "pytest_gcfuzz"]
"""Where it is installed pytest loads it by itself."""
SUITE = """
from hypothesis import Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from fuzz import machine_for
from fuzz.targets import make_target


def my_target():
    with open("examples", "a") as examples:
        examples.write(".")
    target = make_target({target!r})
    target.name = "mine"
    return target


TestMine = machine_for(my_target).TestCase
"""
SETTINGS = """
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
REPLAYING = """

def test_a_trace(gcfuzz_corpus):
    gcfuzz_corpus.replay(my_target)
"""
BROKEN = """
from fuzz import machine_for
from fuzz.targets import make_target


class MyTarget:
    name = "mine"

    def __init__(self):
        self.start = make_target("reference").start

    def perform(self, action):
        raise KeyError("a bug of the adapter")


TestMine = machine_for(MyTarget).TestCase
"""
GENERATE = "[Phase.generate]"
SHRINK = "[Phase.generate, Phase.shrink]"
REUSE = "[Phase.reuse]"
PLANTED = "reference+disable-before-enable"
README_S = "reference+stale-limit-after-large"
SEEDED = "--hypothesis-seed=2"
"""Reproducible; but with a seed given, Hypothesis keeps no examples."""
TRACE = '{"gcfuzz": 1, "target": "mine"}\n{"do": "disable_sampling"}\n'

Ran = subprocess.CompletedProcess[str]


class Project:
    """A folder with tests, and what they leave there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write_suite(
        self,
        target: str,
        max_examples: int = 100,
        phases: str = GENERATE,
        several: bool = False,
        name: str = "test_mine.py",
    ) -> None:
        options = SETTINGS.format(max_examples=max_examples, phases=phases, several=several)
        self.write(name, SUITE.format(target=target) + options)

    def run(self, *words: str) -> Ran:
        """Run a module of Python there."""
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        packages = {"PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
        return subprocess.run(
            [sys.executable, "-m", *words],
            cwd=self.folder,
            env={**os.environ, **path, **packages},
            check=False,
            capture_output=True,
            text=True,
        )

    def test(self, *options: str) -> Ran:
        """Run its tests."""
        return self.run("pytest", *PLUGIN, "--color=no", "-rN", "-p", "no:cacheprovider", *options)

    @property
    def examples(self) -> int:
        """How many targets were made."""
        return (self.folder / "examples").stat().st_size

    @property
    def finds(self) -> list[Path]:
        return sorted((self.folder / "corpus").glob("*.jsonl"))

    @property
    def find(self) -> traces.Trace:
        """The only one."""
        (path,) = self.finds
        return traces.read(path)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="module")
def finding(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One whose target has a planted bug."""
    project = Project(tmp_path_factory.mktemp("finding"))
    project.write_suite(PLANTED)
    return project


@pytest.fixture(scope="module")
def found(finding: Project) -> Ran:
    """It is found."""
    return finding.test(SEEDED, "--junitxml=junit.xml")


def replayed(project: Project, output: str) -> Ran:
    """What comes of the command that a failure shows."""
    (line,) = [line for line in output.splitlines() if " gcfuzz replay " in line]
    command = shlex.split(line.partition("replay  ")[2])
    return project.run("fuzz", *command[1:])


# The machine.


def test_it_passes_for_the_reference(project: Project) -> None:
    project.write_suite("reference", max_examples=5)
    assert project.test().returncode == PASSED
    assert project.finds == []


def test_the_user_s_settings_are_respected(project: Project) -> None:
    project.write_suite("reference", max_examples=15)
    project.test(SEEDED)
    # Hypothesis may try some more, which it does not count; left alone it tries a hundred.
    assert 15 <= project.examples <= 30


def test_a_failure_is_a_session_s_report_and_neither_draws_nor_a_traceback(found: Ran) -> None:
    assert found.returncode == FAILED
    assert "E   AssertionError: FAILURE 1: " in found.stdout
    assert "← the culprit" in found.stdout
    for noise in ("Draw ", "state.", "Mismatch", "pointers.py", "runTest(self)"):
        assert noise not in found.stdout


def test_what_is_found_is_reduced_and_saved(found: Ran, finding: Project) -> None:
    assert found.returncode == FAILED
    assert 1 <= len(finding.find.actions) <= STEPS_MAX
    assert finding.find.header.target == "mine"


def test_the_command_in_the_failure_replays_it(found: Ran, finding: Project) -> None:
    again = replayed(finding, found.stdout)
    assert again.returncode == MISMATCH, again.stderr
    assert "0 passed, 1 failed" in again.stdout


def test_junit_s_report_has_the_find(found: Ran, finding: Project) -> None:
    assert found.returncode == FAILED
    failure = ET.parse(finding.folder / "junit.xml").find(".//failure")
    assert failure is not None
    assert "← the culprit" in str(failure.text)
    assert "FAILURE 1: " in failure.attrib["message"]


def test_the_command_says_where_the_tests_are(project: Project) -> None:
    project.write_suite(PLANTED, name="tests/test_mine.py")
    assert replayed(project, project.test(SEEDED).stdout).returncode == MISMATCH


def test_a_target_without_a_name_is_left_to_be_filled_in(project: Project) -> None:
    suite = SUITE.format(target=PLANTED).replace("for(my_target)", "for(lambda: my_target())")
    project.write("test_mine.py", suite)
    assert "--command 'python -m fuzz.targets MODULE:TARGET'" in project.test(SEEDED).stdout


def test_what_cannot_be_saved_is_shown(project: Project) -> None:
    project.write_suite(PLANTED)
    project.write("corpus", "no folder")
    output = project.test(SEEDED).stdout
    assert "save these lines to replay it" in output
    assert '{"do": "disable_sampling"' in output


def test_unittest_shows_the_same(project: Project) -> None:
    project.write_suite(PLANTED)
    ran = project.run("unittest", "test_mine.TestMine")
    assert ran.returncode == FAILED
    assert "AssertionError: FAILURE 1: " in ran.stderr


def test_default_settings_find_the_readme_s_bug(project: Project) -> None:
    project.write("test_mine.py", SUITE.format(target=README_S))
    ran = project.test(SEEDED)
    assert ran.returncode == FAILED
    assert "FAILURE 1: pointers / limit / " in ran.stdout


def test_a_failure_comes_again_from_the_user_s_database(project: Project) -> None:
    project.write_suite(PLANTED)
    assert project.test().returncode == FAILED
    found = project.finds
    project.write_suite(PLANTED, phases=REUSE)
    assert project.test().returncode == FAILED
    assert project.finds == found


def test_where_hypothesis_shrinks_each_of_several_failures_is_shown(project: Project) -> None:
    project.write_suite("reference+large-objects-uncounted", 200, SHRINK, several=True)
    output = project.test(SEEDED).stdout
    assert "FAILURE 2: " in output
    assert len(project.finds) == output.count("← the culprit") > 1


def test_an_exception_of_the_target_shows_where_it_is_and_the_trace(project: Project) -> None:
    project.write("test_mine.py", BROKEN)
    output = project.test(SEEDED).stdout
    assert 'raise KeyError("a bug of the adapter")' in output
    assert '{"gcfuzz": 1, "target": "mine", ' in output
    assert "Draw " not in output


def test_hypothesis_s_statistics_can_be_read(project: Project) -> None:
    project.write_suite("reference", max_examples=10)
    output = project.test("--hypothesis-show-statistics").stdout
    assert "10 passing, 0 failing" in output
    assert max(map(len, output.splitlines())) < 100


# The plugin.


def test_each_trace_of_the_corpus_is_a_test(project: Project) -> None:
    project.write("test_mine.py", SUITE.format(target=PLANTED) + REPLAYING)
    project.write("corpus/first.jsonl", TRACE)
    project.write("corpus/second.jsonl", TRACE.replace("disable_sampling", "collect_full"))
    output = project.test("-v", "-k", "test_a_trace").stdout
    assert "test_a_trace[first] FAILED" in output
    assert "test_a_trace[second] PASSED" in output
    assert "1  disable_sampling   ← the culprit" in output
    assert replayed(project, output).returncode == MISMATCH


def test_an_empty_corpus_is_a_test_that_skips(project: Project) -> None:
    project.write("test_mine.py", SUITE.format(target=PLANTED) + REPLAYING)
    assert "1 skipped" in project.test("-k", "test_a_trace").stdout


def test_pytest_s_own_configuration_names_the_corpus(project: Project) -> None:
    project.write_suite(PLANTED, name="tests/test_mine.py")
    project.write("pytest.ini", "[pytest]\ngcfuzz_corpus = tests/finds\n")
    project.test(SEEDED)
    assert [each.suffix for each in (project.folder / "tests/finds").iterdir()] == [".jsonl"]


def test_with_a_time_the_random_engine_searches(project: Project) -> None:
    project.write_suite(PLANTED, max_examples=1)
    output = project.test("--gcfuzz-time", "20s").stdout
    assert "found     by the random engine" in output
    assert len(project.finds) == 1


def test_a_session_that_finds_nothing_passes(project: Project) -> None:
    project.write_suite("reference")
    assert project.test("--gcfuzz-time", "200ms").returncode == PASSED


def test_what_is_no_time_is_a_usage_error(project: Project) -> None:
    ran = project.test("--gcfuzz-time", "soon")
    assert ran.returncode == USAGE_ERROR
    assert "'soon' is no time; write 500ms, 30s, 10m or 2h" in ran.stderr


def test_the_plugin_loads_nothing_before_it_is_needed(project: Project) -> None:
    statement = "import sys, pytest, pytest_gcfuzz; print(*sys.modules)"
    project.write("loaded.py", statement)
    assert {"fuzz", "hypothesis", "click", "attr"} & set(
        project.run("loaded").stdout.split()
    ) == set()


def test_a_project_may_have_a_folder_fuzz_of_its_own(project: Project) -> None:
    project.write("fuzz/__init__.py", "")
    project.write("test_mine.py", "from fuzz import __path__\ndef test_mine(): pass\n")
    ran = project.test()
    assert ran.returncode == PASSED, ran.stderr
