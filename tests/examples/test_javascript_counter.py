"""The counter in JavaScript: right as it is, and its switch breaks it so that it is found."""

import shlex
import shutil
from pathlib import Path

import pytest

from fuzz.terminal.cli import run_command_line

COUNTER = Path(__file__).parents[2] / "examples" / "javascript" / "counter.js"
CLEAN, MISMATCH = 0, 1
pytestmark = pytest.mark.skipif(
    shutil.which("node") is None, reason="no node; apt-get install nodejs"
)


def fuzz(corpus: Path, *arguments: str, engine: str = "random") -> int:
    command = shlex.join(["node", str(COUNTER), *arguments])
    options = ["--actions", "2000", "--seed", "1", "--engine", engine, "--corpus", str(corpus)]
    return run_command_line(["run", "--command", command, *options])


def test_the_counter_is_of_the_size_that_an_afternoon_allows() -> None:
    assert 50 <= len(COUNTER.read_text(encoding="utf-8").splitlines()) <= 100


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["random", "machine"])
def test_the_counter_samples_as_it_promises(tmp_path: Path, engine: str) -> None:
    assert fuzz(tmp_path, engine=engine) == CLEAN


@pytest.mark.slow
def test_the_off_by_one_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz(tmp_path, "--off-by-one") == MISMATCH
    printed = capsys.readouterr().out
    assert "FAILURE 1: sampling / samples / allocate_string / more" in printed
    assert "→   2  allocate_string length=0   ← the culprit" in printed
