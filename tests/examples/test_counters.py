"""The counter in each language is right, and the bug behind its switch is found.

The table in docs/your-own-collector.md has the commands that build and start them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Gcfuzz
from waiting import PATIENCE_SECONDS, completed

from fuzz.terminal.commands.cli import run_command_line

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-own-collector.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| \[\w+\]\(\.\./(\S+)\) \| (\S+) \| (?:`(.+)` )?\| `(.+)` \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE)
CLEAN, MISMATCH = 0, 1
NONSENSE = ("", "null", "{}", '{"do": "fly"}', '{"do": "enable_sampling", "period_bytes": 6')


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: Path(row[0]).parent.name)
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A folder with a counter in it, and the command that starts it there."""
    source, package, build, command = request.param
    if shutil.which(shlex.split(build or command)[0]) is None:
        pytest.skip(f"apt-get install {package}")
    folder = tmp_path_factory.mktemp("counter")
    shutil.copy(ROOT / source, folder)
    if build:
        environment = os.environ | {"GOCACHE": str(folder / "cache")}
        subprocess.run(
            shlex.split(build), cwd=folder, env=environment, check=True, timeout=PATIENCE_SECONDS
        )
    return folder, command


@pytest.fixture
def counter(built: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> str:
    folder, command = built
    monkeypatch.chdir(folder)
    return command


def fuzz(command: str, *options: str) -> int:
    plan = ["--actions", "5000", "--seed", "1", "--corpus", "finds"]
    return run_command_line(["run", "--command", command, *plan, *options])


def test_the_counters_are_of_the_size_that_an_afternoon_allows() -> None:
    lines = [(ROOT / row[0]).read_text(encoding="utf-8").splitlines() for row in ROWS]
    assert [50 <= len(each) <= 120 for each in lines] == [True] * 5


@pytest.mark.slow
def test_a_counter_is_as_it_promises(counter: str, gcfuzz: Gcfuzz) -> None:
    assert "promised, but" not in gcfuzz(CLEAN, "check", "--command", counter).out
    assert fuzz(counter) == CLEAN


@pytest.mark.slow
def test_the_schema_takes_each_line(counter: str, refused: Callable[[str], list[str]]) -> None:
    assert refused(counter) == []


@pytest.mark.slow
def test_the_off_by_one_is_found(counter: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz(f"{counter} --off-by-one", "-x") == MISMATCH
    printed = capsys.readouterr().out
    assert "FAILURE 1: sampling / samples / allocate_string / more" in printed
    assert "→   2  allocate_string length=0   ← first wrong answer" in printed


@pytest.mark.slow
def test_a_line_that_makes_no_sense_gets_an_error(counter: str) -> None:
    lines = "".join(f"{line}\n" for line in NONSENSE)
    ran = completed(shlex.split(counter), input=lines)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [list(answer) for answer in answers] == [["error"]] * len(NONSENSE)
