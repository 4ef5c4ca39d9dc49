"""What fuzzing alone reaches of the references: their branches, measured in a session of their own.

The estimators, the history of blocks that they are made for, and profiles with their programs are
no part of what is fuzzed: no action of a session leads there. The invariants are another mode, and
a heap without a bug has no dangling reference.

Whatever a session cannot reach is listed in unreached_branches.toml with the reason why.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ACTIONS = {"reference": 250_000}
ACTIONS_OF_KIN = 20_000
ERRORS = ("raise ", "self._alive(obj)  # It raises the error.")
"""How the lines begin that raise an error, or prepare it."""
HERE = Path(__file__).parent
SETTINGS = """
[run]
branch = true
parallel = true
source_pkgs = gcmodel
omit =
    */gcmodel/estimation/*
    */gcmodel/blocks/history.py
    */gcmodel/collector/dangling.py
    */gcmodel/collector/invariants.py
    */gcmodel/profiling/*
    */gcmodel/workloads/*
"""
Branch = tuple[str, str, str]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Coverage of gcmodel by one session, as coverage.py reports it in JSON.

    Every session begins with planted bugs, which reach what a correct heap must not. The engine
    is therefore run without the session around it, in a process of its own.
    """
    folder = tmp_path_factory.mktemp("coverage")
    (folder / "settings").write_text(SETTINGS)
    (folder / "fuzz_reference.py").write_text(
        "from fuzz.engines.random import RandomEngine\n"
        "from fuzz.drawing.probes import ProbeCounter\n"
        "from fuzz.targets import make_target\n"
        "from fuzz.targets.references.kin import REFERENCES\n"
        "for name in REFERENCES:\n"
        "    engine, number = RandomEngine(make_target(name), '1'), 0\n"
        f"    left = {ACTIONS}.get(name, {ACTIONS_OF_KIN})\n"
        "    while left > 0:\n"
        "        done = engine.run_slice(number, left, ProbeCounter())\n"
        "        assert not done.failures\n"
        "        number, left = number + 1, left - done.actions\n"
    )
    for command in (
        ["run", "fuzz_reference.py"],
        ["combine", "-q"],
        ["json", "-q", "-o", "coverage.json"],
    ):
        arguments = [sys.executable, "-m", "coverage", command[0], "--rcfile=settings"]
        subprocess.run([*arguments, *command[1:]], cwd=folder, check=True)
    data: dict[str, Any] = json.loads((folder / "coverage.json").read_text())
    return data


def unreached(measured: dict[str, Any]) -> set[Branch]:
    """The branches that the session did not take, by the text of their lines."""
    branches = set()
    for name, data in measured["files"].items():
        lines = Path(name).read_text().splitlines()
        for start, end in data["missing_branches"]:
            target = lines[end - 1].strip() if end > 0 else "exit"
            branches.add((Path(name).name, lines[start - 1].strip(), target))
    return branches


def is_error(branch: Branch) -> bool:
    """Whether it leads to an error, which a correct heap never raises over a legal action."""
    return branch[2].startswith(ERRORS)


def listed() -> set[Branch]:
    """The branches in the list, each of which must have a reason."""
    entries = tomllib.loads((HERE / "unreached_branches.toml").read_text())["branch"]
    assert all(entry["reason"] for entry in entries)
    return {(entry["file"], entry["from"], entry["to"]) for entry in entries}


@pytest.mark.slow
def test_fuzzing_reaches_at_least_99_percent_of_the_branches_that_raise_no_error(
    measured: dict[str, Any],
) -> None:
    totals = measured["totals"]
    without_error = [each for each in unreached(measured) if not is_error(each)]
    errors = len(unreached(measured)) - len(without_error)
    assert len(without_error) <= 0.01 * (totals["num_branches"] - errors)


@pytest.mark.slow
def test_every_branch_not_reached_is_listed_with_its_reason(measured: dict[str, Any]) -> None:
    assert unreached(measured) - listed() == set()


@pytest.mark.slow
def test_no_branch_that_is_reached_is_listed(measured: dict[str, Any]) -> None:
    assert listed() - unreached(measured) == set()
