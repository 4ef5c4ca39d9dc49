"""A step of CI shows its output and what it took, and the night's parts are in the workflow."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
from waiting import PATIENCE_SECONDS, completed, wait_until

ROOT = Path(__file__).parents[1]
STEP = ROOT / ".ci" / "step.py"
BAD_INPUT, ENDED = 2, 128 + signal.SIGTERM

Step = Callable[..., subprocess.CompletedProcess[str]]


def command_of(table: Path, minutes: str, program: Sequence[str]) -> list[str]:
    return [sys.executable, str(STEP), str(table), "the name", minutes, *program]


@pytest.fixture
def step(tmp_path: Path) -> Step:
    """Run a program in Python as a step, or print the table."""

    def run(program: str | None, minutes: str = "5") -> subprocess.CompletedProcess[str]:
        table = tmp_path / "table"
        shown = [sys.executable, str(STEP), str(table), minutes]
        command = (
            shown
            if program is None
            else command_of(table, minutes, [sys.executable, "-c", program])
        )
        return completed(command, check=False)

    return run


def test_a_step_prints_both_outputs_of_its_command_when_it_ends(step: Step) -> None:
    ran = step("import os; os.write(1, b'one\\n'); os.write(2, b'two\\n')")
    started, *_, title, one, two = ran.stdout.splitlines()
    assert started == "started: the name"
    assert title.startswith("=== the name: exit code 0, ")
    assert (one, two) == ("one", "two")


@pytest.mark.parametrize(("code", "shown"), [("3", "3"), ("'a reason'", "1")])
def test_a_step_has_the_exit_code_of_its_command(step: Step, code: str, shown: str) -> None:
    ran = step(f"import sys; sys.exit({code})")
    assert ran.returncode == int(shown)
    assert f"exit code {shown}" in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("minutes", "exceeds"), [("0", True), ("60", False)])
def test_a_step_that_exceeds_its_minutes_is_named(step: Step, minutes: str, exceeds: bool) -> None:
    ran = step("pass", minutes)
    assert ("TOO LONG" in ran.stdout) == exceeds
    assert ("TOO LONG" in step(None).stdout) == exceeds


@pytest.mark.slow
def test_the_table_has_the_processor_time_of_all_processes_of_a_step(step: Step) -> None:
    busy = "import time\nwhile time.process_time() < 1: pass"
    step(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])")
    step("pass")
    rows = re.findall(
        r"^\| (.+?) \| \d+ \| \d+ \| (\d+) \| \d+ \|", step(None).stdout, re.MULTILINE
    )
    assert [name for name, _ in rows] == ["the name", "the name", "all"]
    first, _, everything = (int(seconds) for _, seconds in rows)
    assert 1 <= first <= everything


def test_a_step_that_is_ended_shows_its_output_and_leaves_no_process(tmp_path: Path) -> None:
    table, child = tmp_path / "table", tmp_path / "child"
    program = (
        "import os, time, sys; print('half', flush=True); "
        f"open({str(child) + '.new'!r}, 'w').write(str(os.getpid())); "
        f"os.rename({str(child) + '.new'!r}, {str(child)!r}); time.sleep({PATIENCE_SECONDS})"
    )
    ended = subprocess.Popen(
        command_of(table, "5", [sys.executable, "-c", program]), stdout=subprocess.PIPE, text=True
    )
    wait_until(child.exists, "the start of the step's command", ended)
    ended.terminate()
    printed, _ = ended.communicate(timeout=PATIENCE_SECONDS)
    assert ended.returncode == ENDED
    assert printed.endswith("half\n")
    assert not psutil.pid_exists(int(child.read_text()))
    assert json.loads(table.read_text())["name"] == "the name"


def test_the_night_has_no_other_parts() -> None:
    night = ["bash", str(ROOT / ".ci" / "night"), "9"]
    ran = completed(night, check=False)
    assert ran.returncode == BAD_INPUT
    assert ran.stderr == ".ci/night: there is no part 9; the parts are 1 2 3 4 5\n"


@pytest.mark.parametrize("place", [".github/workflows/tests.yml", "CONTRIBUTING.md"])
def test_each_part_of_the_night_is_run_by_the_workflow_and_listed(place: str) -> None:
    parts = re.findall(r"^part_(\d)\(\)", (ROOT / ".ci" / "night").read_text(), re.MULTILINE)
    named = re.findall(r"night (\d)", (ROOT / place).read_text())
    assert sorted({*named}) == parts


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "planned"), [(None, "20 7"), ("1000", "100 1007")])
def test_the_night_has_whole_sessions_and_seeds_of_its_own(seed: str | None, planned: str) -> None:
    environment = {name: os.environ[name] for name in os.environ.keys() - {"GCFUZZ_NIGHT_SEED"}}
    if seed is not None:
        environment["GCFUZZ_NIGHT_SEED"] = seed
    program = "from night import fresh, part_of; print(part_of(100), fresh('7'))"
    ran = completed(
        [sys.executable, "-c", program], cwd=ROOT / "tests" / "helpers", env=environment
    )
    assert ran.stdout.strip() == planned
