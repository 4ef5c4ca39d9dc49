"""CI runs the README's commands, and the failure report there is real."""

import re
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "code"), [("counted_bytes > self", CLEAN), ("counted_bytes >= self", MISMATCH)]
)
def test_the_readme_s_collector_is_judged(mistake: str, code: int, tmp_path: Path) -> None:
    target = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert target
    source = target[1].replace("counted_bytes > self", mistake)
    (tmp_path / "my_collector.py").write_text(source)
    for command in re.findall(r"^gcfuzz (.*my_collector:MyCollector)", README, re.MULTILINE):
        budget = ["--actions", "500", "--seed", "1"] if command.startswith("run") else []
        assert ran_module(tmp_path, "fuzz", *command.split(), *budget).returncode == code


@pytest.mark.slow
def test_the_readme_s_failure_report_is_what_its_command_prints(tmp_path: Path) -> None:
    command = re.search(r"^gcfuzz (run .*forgotten-remembered-entry)$", README, re.MULTILINE)
    report = re.search(r"```text\n(FAILURE 1.*?)```", README, re.DOTALL)
    assert command
    assert report
    session = ran_module(tmp_path, "fuzz", *command[1].split())
    assert session.returncode == MISMATCH
    assert report[1] in session.stdout
