"""The page on estimators: its Python lines are run, its tables are what the command prints."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "estimators.md"


def test_its_python_lines_print_what_it_says() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False)
    assert results.attempted > 20
    assert results.failed == 0


def tables(text: str) -> list[str]:
    """The runs of lines that are a table with figures, each as one text."""
    paragraphs = [paragraph.strip() for paragraph in text.split("\n\n")]
    return [each for each in paragraphs if each.startswith("|") and "---:" in each]


@pytest.mark.slow
def test_its_tables_are_what_the_command_prints() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "strategies.py")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert len(tables(ran.stdout)) == 4
    assert tables(PAGE.read_text()) == tables(ran.stdout)
