"""The README's commands are those that CI runs."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "command",
    ["pip install . && gcfuzz run --time 30s", "pip install '.[tests]' && pytest -m 'not slow'"],
)
def test_the_readme_s_command_is_run_by_ci(command: str) -> None:
    assert f"```sh\n{command}\n```" in README
    assert f"    {command}" in (ROOT / ".ci" / "run").read_text()


def test_the_readme_s_failure_report_is_in_the_words_of_today() -> None:
    report = (ROOT / "fuzz" / "report.py").read_text()
    for words in ("FAILURE", "← the culprit", "by the {", "reduced from"):
        assert words in report
    for words in ("FAILURE 1: pointers / limit", "← the culprit", "by the random engine, reduced"):
        assert words in README
