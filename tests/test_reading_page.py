"""The page on reading failures: each command prints the output below it."""

import re
from pathlib import Path

import pytest
from command_line import Gcfuzz

from fuzz.oracles.bench import ORACLES, RERUN_ORACLES
from fuzz.oracles.recorded import RecordingOracle

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reading-a-failure.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sh\ngcfuzz (replay [^\n]*)\n```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
MISMATCH = 1


@pytest.mark.parametrize(("command", "report"), EXAMPLES)
def test_an_example_is_what_its_command_prints(
    command: str, report: str, gcfuzz: Gcfuzz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert report in gcfuzz(MISMATCH, *command.split()).out


def test_each_oracle_has_its_row() -> None:
    section = PAGE.partition("\n## Oracles\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)
    names = [*(oracle.name for oracle in ORACLES), *RERUN_ORACLES, RecordingOracle.name]
    assert sorted(rows) == sorted(names)
