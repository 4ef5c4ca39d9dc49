"""CI runs the README's commands, and the failure report there is real."""

import re
import sys
from pathlib import Path

import pytest
from modules import ran_module

ROOT = Path(__file__).parents[1]
CLEAN, MISMATCH = 0, 1
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "command",
    [
        "pip install . && gcfuzz run --time 30s",
        "pip install '.[tests]' && pytest -n auto -m 'not slow' -rs",
    ],
)
def test_the_readme_s_command_is_run_by_ci(command: str) -> None:
    assert f"```sh\n{command}\n```" in README
    assert f"    {command}" in (ROOT / ".ci" / "run").read_text()


def test_the_workflow_runs_the_readme_s_tests_on_every_python() -> None:
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert "- run: pip install '.[tests]' && pytest -n auto -m 'not slow' -rs" in workflow
    minors = re.search(r"py3\{([\d,]+)\}", (ROOT / "tox.ini").read_text())
    assert minors
    assert re.findall(r'"3\.(\d+)"', workflow) == minors[1].split(",")


SUITE = """
from hypothesis import settings

from fuzz import run_session, state_machine_for
from my_collector import MyCollector

TestMine = state_machine_for(MyCollector).TestCase
TestMine.settings = settings(max_examples=20, stateful_step_count=20)


def test_a_session():
    assert run_session(MyCollector, actions=500) == []


def test_saved(gcfuzz_corpus):
    gcfuzz_corpus.replay(MyCollector)
"""
"""All ways in which docs/test-suites.md uses a target."""
each_judgement = pytest.mark.parametrize(
    ("mistake", "code"), [("counted_bytes > self", CLEAN), ("counted_bytes >= self", MISMATCH)]
)


def save_collector(folder: Path, mistake: str) -> None:
    """The README's class, with a mistake in place of one comparison."""
    target = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert target
    source = target[1].replace("counted_bytes > self", mistake)
    (folder / "my_collector.py").write_text(source)


@pytest.mark.slow
@each_judgement
def test_the_readme_s_collector_is_judged(mistake: str, code: int, tmp_path: Path) -> None:
    save_collector(tmp_path, mistake)
    for command in re.findall(r"^gcfuzz (.*my_collector:MyCollector)", README, re.MULTILINE):
        budget = ["--actions", "500", "--seed", "1"] if command.startswith("run") else []
        assert ran_module(tmp_path, "fuzz", *command.split(), *budget).returncode == code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "code", "options"),
    [
        ("counted_bytes > self", CLEAN, []),
        ("counted_bytes >= self", MISMATCH, []),
        ("counted_bytes >= self", MISMATCH, ["--gcfuzz-time", "1m"]),
    ],
)
def test_the_readme_s_collector_is_judged_in_a_test_suite(
    mistake: str, code: int, options: list[str], tmp_path: Path
) -> None:
    save_collector(tmp_path, mistake)
    (tmp_path / "test_mine.py").write_text(SUITE)
    ran = ran_module(tmp_path, "pytest", "-p", "no:cacheprovider", "test_mine.py", *options)
    assert ran.returncode == code, ran.stdout
    assert ("sampling / samples / allocate_string / more" in ran.stdout) == (code == MISMATCH)


@pytest.mark.slow
@each_judgement
def test_the_readme_s_collector_runs_as_a_program(mistake: str, code: int, tmp_path: Path) -> None:
    save_collector(tmp_path, mistake)
    command = f"{sys.executable} -m fuzz.targets my_collector:MyCollector"
    options = ["--command", command, "--actions", "500", "--seed", "1", "-x"]
    assert ran_module(tmp_path, "fuzz", "run", *options).returncode == code


@pytest.mark.slow
def test_the_readme_s_failure_report_is_what_its_command_prints(tmp_path: Path) -> None:
    command = re.search(r"^gcfuzz (run .*forgotten-remembered-entry)$", README, re.MULTILINE)
    report = re.search(r"```text\n(FAILURE 1.*?)```", README, re.DOTALL)
    assert command
    assert report
    session = ran_module(tmp_path, "fuzz", *command[1].split())
    assert session.returncode == MISMATCH
    assert report[1] in session.stdout
