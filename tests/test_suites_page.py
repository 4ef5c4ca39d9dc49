"""The target and the suite in docs/test-suites.md work."""

import re
from pathlib import Path

import pytest
from modules import ran_module

CLEAN, MISMATCH = 0, 1
PAGE = (Path(__file__).parents[1] / "docs" / "test-suites.md").read_text()
TARGET, SUITE, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "my_collector.py").write_text(TARGET)
    return tmp_path


@pytest.mark.slow
def test_the_page_s_target_passes_its_check(project: Path) -> None:
    (command,) = re.findall(r"^gcfuzz (check .*)$", PAGE, re.MULTILINE)
    assert ran_module(project, "fuzz", *command.split()).returncode == CLEAN


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["random", pytest.param("stateful", marks=pytest.mark.slow)])
def test_a_session_on_the_page_s_target_is_clean(project: Path, engine: str) -> None:
    (command,) = re.findall(r"^gcfuzz (run .*) --time 10s$", PAGE, re.MULTILINE)
    options = "--actions", "500", "--engine", engine
    assert ran_module(project, "fuzz", *command.split(), *options).returncode == CLEAN


@pytest.mark.slow
def test_the_mistake_that_the_page_suggests_is_found(project: Path) -> None:
    broken = TARGET.replace("counted_bytes > self", "counted_bytes >= self")
    assert broken != TARGET
    (project / "my_collector.py").write_text(broken)
    options = ["--target", "my_collector:MyCollector", "--actions", "5000", "--seed", "1", "-x"]
    found = ran_module(project, "fuzz", "run", *options)
    assert found.returncode == MISMATCH, found.stderr
    assert "FAILURE 1: sampling / samples / allocate_string / more" in found.stdout


@pytest.mark.night
def test_the_page_s_suite_passes(project: Path) -> None:
    (project / "test_mine.py").write_text(SUITE)
    passed = ran_module(project, "pytest", "-p", "no:cacheprovider", "test_mine.py")
    assert passed.returncode == CLEAN, passed.stdout


def test_the_target_is_about_forty_lines() -> None:
    assert 30 <= len(TARGET.splitlines()) <= 48


@pytest.mark.slow
def test_an_assert_that_fails_in_the_target_is_a_failure_with_its_traceback(project: Path) -> None:
    line = "        match action:\n"
    fails = f'        assert not isinstance(action, actions.DisableSampling), "mine"\n{line}'
    (project / "my_collector.py").write_text(TARGET.replace(line, fails))
    target = "--target", "my_collector:MyCollector"
    found = ran_module(project, "fuzz", "run", *target, "--actions", "5000", "--seed", "1", "-x")
    assert found.returncode == MISMATCH, found.stderr
    assert "AssertionError: mine" in found.stdout
    assert "my_collector.py" in found.stdout
    (saved,) = (project / "gcfuzz-failures").glob("*.jsonl")
    assert ran_module(project, "fuzz", "replay", str(saved), *target).returncode == MISMATCH
