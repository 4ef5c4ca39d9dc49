"""The page on estimators: its Python lines are run, and its tables are what its command prints."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "estimators.md"


def test_its_python_lines_print_the_page_s_output() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False)
    assert results.attempted > 20
    assert results.failed == 0


def tables(text: str) -> list[str]:
    """The tables with figures, each as one text."""
    paragraphs = [paragraph.strip() for paragraph in text.split("\n\n")]
    return [each for each in paragraphs if each.startswith("|") and "---:" in each]


@pytest.mark.slow
def test_its_tables_are_what_the_command_prints() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "strategies.py")]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert len(tables(ran.stdout)) == 4
    assert tables(PAGE.read_text()) == tables(ran.stdout)
