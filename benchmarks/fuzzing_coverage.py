"""Measures which branches of gcmodel fuzzing reaches.

    python benchmarks/fuzzing_coverage.py [ACTIONS]

What no action of a session calls is left out: the estimators, the history of blocks, profiles and
their programs. So are the invariants (another mode), and the search for a dangling reference (a
correct heap has none).

A session starts with planted bugs. They reach branches that a correct heap must not reach, so this
program runs the engine without a session, in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gcmodel

ACTIONS = 120_000
"""For `reference`. Each other reference gets 2/25 of this."""
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
[report]
skip_covered = true
"""
SEARCH = """
import sys
from fuzz.reached.probes import ProbeCounter
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.targets import make_target
from fuzz.targets.references import REFERENCES
for name in REFERENCES:
    actions = int(sys.argv[1])
    if name != "reference":
        actions = actions * 2 // 25
    for done in slices_of(RandomEngine(make_target(name), "1"), actions, ProbeCounter()):
        assert not done.failures
"""


def measure(folder: Path, actions: int = ACTIONS) -> dict[str, Any]:
    """Coverage by that many actions: the JSON of coverage.py, whose data stays in `folder`."""
    (folder / "settings").write_text(SETTINGS)
    (folder / "search.py").write_text(SEARCH)
    coverage(folder, folder, "run", "search.py", str(actions))
    coverage(folder, folder, "combine", "-q")
    coverage(folder, folder, "json", "-q", "-o", "coverage.json")
    data: dict[str, Any] = json.loads((folder / "coverage.json").read_text())
    return data


def coverage(folder: Path, here: Path, command: str, *options: str) -> None:
    """Run a command of coverage.py on the data in `folder`. File names are relative to `here`."""
    places = f"--rcfile={folder / 'settings'}", f"--data-file={folder / '.coverage'}"
    arguments = [sys.executable, "-m", "coverage", command, *places, *options]
    subprocess.run(arguments, cwd=here, check=True)  # noqa: S603 - ours


def main(actions: int = ACTIONS) -> None:
    """Print which branches are reached, and which are not."""
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), actions)
        print(f"Branches of gcmodel that {actions:,} actions reach:", flush=True)
        installed = Path(gcmodel.__file__).parents[1]
        coverage(Path(name), installed, "report", "--show-missing")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
