"""The coverage of a target by a session: the commands in docs/ci.md work as they are there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from scripts import shell_script
from waiting import PATIENCE_SECONDS, completed, killed_at_end, wait_for_line

import fuzz

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "ci.md").read_text().partition("## Coverage\n")[2]
IN_C, IN_PYTHON = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
(CONFIGURATION,) = re.findall(r"```ini \.coveragerc\n(.*?)```", SECTION, re.DOTALL)
NATIVE = ROOT / "examples" / "native"
HEADER = '{"gcfuzz": 2, "target": "process"}\n'
ALLOCATION = '{"do": "allocate_node", "number": 1}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the smallest targets of both languages."""
    for name in ("smallest.c", "gcfuzz_adapter.c", "gcfuzz_adapter.h"):
        shutil.copy(NATIVE / name, tmp_path)
    shutil.copy(ROOT / "examples" / "starters" / "python" / "my_collector.py", tmp_path)
    (tmp_path / ".coveragerc").write_text(CONFIGURATION)
    return tmp_path


def run(folder: Path, commands: str) -> None:
    """Run lines of the page with a small budget. The rule that the smallest.c states is wrong."""
    programs = folder / "bin"
    programs.mkdir()
    for name, module in (("gcfuzz", "fuzz"), ("coverage", "coverage")):
        shell_script(programs / name, f'exec "{sys.executable}" -m {module} "$@"')
    environment = {
        **{name: os.environ[name] for name in os.environ if not name.startswith("COV")},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(fuzz.__file__).parents[1]),
    }
    script = commands.replace("--time 1m", "--actions 2000 --seed 1")
    completed(["sh", "-e", "-c", script], cwd=folder, env=environment)


@pytest.mark.slow
def test_a_session_on_a_c_program_ends_in_a_report_of_lcov(
    folder: Path, need: Callable[..., None]
) -> None:
    need("gcc", "lcov")
    rule = ".drops_when_disabled = true}"
    stated = f'.crosses = "at", .surplus = "dropped", .samples_per_allocation = "one", {rule}'
    source = folder / "smallest.c"
    source.write_text(source.read_text().replace(rule, stated))
    run(folder, IN_C)
    report = (folder / "coverage.info").read_text()
    assert f"SF:{source}" in report
    calls = re.findall(r"^FNDA:(\d+),enable_sampling$", report, re.MULTILINE)
    assert sum(map(int, calls)) > 0


@pytest.mark.slow
def test_the_kit_keeps_the_counts_of_a_program_that_is_killed(
    folder: Path, need: Callable[..., None]
) -> None:
    need("gcc", "gcov")
    build = IN_C.splitlines()[0].replace("*.c", "smallest.c gcfuzz_adapter.c")
    completed(["sh", "-c", build], cwd=folder)
    started = subprocess.Popen(
        ["./my-adapter"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with killed_at_end(started) as program:
        assert program.stdin
        for line in (HEADER, ALLOCATION, ALLOCATION, HEADER):
            program.stdin.write(line)
            program.stdin.flush()
            wait_for_line(program.stdout, "{")
        program.send_signal(signal.SIGKILL)
        program.wait(PATIENCE_SECONDS)
    completed(["sh", "-c", "gcov *.gcda"], cwd=folder)
    counted = (folder / "smallest.c.gcov").read_text()
    assert re.search(r"^ +2: +\d+:    return allocate\(NODE", counted, re.MULTILINE)


@pytest.mark.slow
def test_a_session_on_a_class_ends_in_a_report_of_cobertura(folder: Path) -> None:
    run(folder, IN_PYTHON)
    lines = ET.parse(folder / "coverage.xml").findall(".//line")
    assert lines
    assert [line.get("number") for line in lines if line.get("hits") == "0"] == []
