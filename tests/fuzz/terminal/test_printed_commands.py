"""A command that gcfuzz prints can be pasted, although a path in it begins with a dash."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from command_line import Gcfuzz

from fuzz.nights import failure_history

CLEAN, MISMATCH, BAD_INPUT = range(3)
BUG = "one-sample-per-object"
FOLDER = Path("-found or not")
HEADER = f'{{"gcfuzz": 2, "target": "reference", "kills": ["{BUG}"]}}\n'
ACTIONS = '{"do": "enable_sampling", "period_bytes": 8}\n{"do": "allocate_node", "number": 0}\n'


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize(
    ("command", "codes"),
    [
        (f"reduce ./FOLDER/trace.jsonl --target reference+{BUG}", (MISMATCH, MISMATCH)),
        (f"replay ./FOLDER/trace.jsonl --target reference+{BUG}", (MISMATCH, MISMATCH)),
        ("explain ./FOLDER/trace.jsonl", (CLEAN, MISMATCH)),
        ("triage ./FOLDER 00000000 --flaky 3/20", (BAD_INPUT, CLEAN)),
        ("run --corpus ./FOLDER --known 00000000", (BAD_INPUT, CLEAN)),
    ],
)
def test_a_printed_command_runs_in_a_folder_that_begins_with_a_dash(
    command: str, codes: tuple[int, int], gcfuzz: Gcfuzz
) -> None:
    FOLDER.mkdir()
    (FOLDER / "trace.jsonl").write_text(HEADER + ACTIONS)
    (FOLDER / failure_history.NAME).touch()
    arguments = [each.replace("FOLDER", str(FOLDER)) for each in shlex.split(command)]
    printed = "".join(gcfuzz(codes[0], *arguments))
    found = re.search(r"`gcfuzz (.*)`|replay +gcfuzz (.*)", printed)
    assert found is not None, printed
    gcfuzz(codes[1], *shlex.split(found[1] or found[2]))
