"""The Python lines of the page on estimators are run."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "estimators.md"


def test_the_python_lines_print_what_the_page_shows() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False)
    assert results.attempted >= 20
    assert results.failed == 0
