"""Each step of the page "A collector in ten steps" is right, and its mistake is found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from page_reader import BLOCK, Reader

PAGE = (Path(__file__).parents[2] / "docs" / "ten-steps.md").read_text()
START, *STEPS, NEXT = re.split(r"^## ", PAGE, flags=re.MULTILINE)
COMMAND = re.compile(r"^gcfuzz run .*$", re.MULTILINE)
FOUND = re.compile(r"^FAILURE 1: ([\w ]+ / [\w ]+)", re.MULTILINE)


def with_mistake(step: str) -> str:
    """The step, in which the command is run again after the mistake, and fails."""
    (command,) = COMMAND.findall(step)
    return step.replace("```text", f"```sh\n{command}  # exit 1\n```\n\n```text")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 11))
def test_a_step_is_clean_and_its_mistake_is_found(
    number: int, with_command: Mapping[str, str], tmp_path: Path
) -> None:
    reader = Reader(tmp_path, with_command)
    for part in (START, *STEPS[: number - 1]):
        for language, name, block in BLOCK.findall(part):
            if language == "python":
                reader.add(name, block)
    reader.follow(with_mistake(STEPS[number - 1]))


def test_the_table_names_the_oracle_that_finds_each_mistake() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| ([\w /]+) \|$", START, re.MULTILINE)
    found = [FOUND.findall(step)[0] for step in STEPS]
    assert [int(number) for number, _ in rows] == [*range(1, 11)]
    for (_, oracle), its in zip(rows, found, strict=True):
        assert its.startswith(oracle)
