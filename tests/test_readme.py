"""CI runs the README's commands, and the failure report there is real."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz

ROOT = Path(__file__).parents[1]
MISMATCH = 1
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
def test_the_readme_s_failure_report_is_what_its_command_prints(tmp_path: Path) -> None:
    command = re.search(r"^gcfuzz (run .*forgotten-remembered-entry)$", README, re.MULTILINE)
    report = re.search(r"```text\n(FAILURE 1.*?)```", README, re.DOTALL)
    assert command
    assert report
    ran = subprocess.run(
        [sys.executable, "-m", "fuzz", *command[1].split()],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(fuzz.__file__).parents[1])},
    )
    assert ran.returncode == MISMATCH
    assert report[1] in ran.stdout
