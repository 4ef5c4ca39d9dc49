"""Fuzzing reaches nearly every branch of the references.

unreached_branches.toml lists the others, each with its reason.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from fuzzing_coverage import measure

ERRORS = ("raise ", "self._alive(obj)  # It raises the error.")
"""The starts of lines that raise an error, or prepare it."""
HERE = Path(__file__).parent
Branch = tuple[str, str, str]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Coverage of gcmodel by the random engine: the JSON of coverage.py."""
    return measure(tmp_path_factory.mktemp("coverage"))


def unreached(measured: dict[str, Any]) -> set[Branch]:
    """The branches that the engine did not take, by the text of their lines."""
    branches = set()
    for name, data in measured["files"].items():
        lines = Path(name).read_text().splitlines()
        for start, end in data["missing_branches"]:
            target = lines[end - 1].strip() if end > 0 else "exit"
            branches.add((Path(name).name, lines[start - 1].strip(), target))
    return branches


def is_error(branch: Branch) -> bool:
    """Whether it leads to an error, which no legal action raises in a correct heap."""
    return branch[2].startswith(ERRORS)


def listed() -> set[Branch]:
    """The branches in the list. Each must have a reason."""
    entries = tomllib.loads((HERE / "unreached_branches.toml").read_text())["branch"]
    assert all(entry["reason"] for entry in entries)
    return {(entry["file"], entry["from"], entry["to"]) for entry in entries}


@pytest.mark.night
def test_fuzzing_reaches_99_percent_of_branches_without_errors(measured: dict[str, Any]) -> None:
    totals = measured["totals"]
    without_error = [each for each in unreached(measured) if not is_error(each)]
    errors = len(unreached(measured)) - len(without_error)
    assert len(without_error) <= 0.01 * (totals["num_branches"] - errors)


@pytest.mark.night
def test_every_branch_not_reached_is_listed_with_its_reason(measured: dict[str, Any]) -> None:
    assert unreached(measured) - listed() == set()


@pytest.mark.night
def test_no_branch_that_is_reached_is_listed(measured: dict[str, Any]) -> None:
    assert listed() - unreached(measured) == set()
