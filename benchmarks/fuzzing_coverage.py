"""What fuzzing alone reaches of the references: their branches, measured by coverage.py.

    python benchmarks/fuzzing_coverage.py [ACTIONS]

The estimators, the history of blocks that they are made for, and profiles with their programs are
no part of what is fuzzed: no action of a session leads there. The invariants are another mode, and
a heap without a bug has no dangling reference.

Every session begins with planted bugs, which reach what a correct heap must not. The engine is
therefore run without the session around it, in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gcmodel

ACTIONS = 250_000
"""On `reference`; on each of its kin two of twenty-five of these."""
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
from fuzz.drawing.probes import ProbeCounter
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
    """Coverage by so many actions, as coverage.py has it in JSON; its data stays in `folder`."""
    (folder / "settings").write_text(SETTINGS)
    (folder / "search.py").write_text(SEARCH)
    coverage(folder, folder, "run", "search.py", str(actions))
    coverage(folder, folder, "combine", "-q")
    coverage(folder, folder, "json", "-q", "-o", "coverage.json")
    data: dict[str, Any] = json.loads((folder / "coverage.json").read_text())
    return data


def coverage(folder: Path, here: Path, command: str, *words: str) -> None:
    """Run a command of coverage.py on what is in `folder`. It names files as seen from `here`."""
    places = f"--rcfile={folder / 'settings'}", f"--data-file={folder / '.coverage'}"
    arguments = [sys.executable, "-m", "coverage", command, *places, *words]
    subprocess.run(arguments, cwd=here, check=True)  # noqa: S603 - ours


def main(actions: int = ACTIONS) -> None:
    """Print what is reached, and what is not."""
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), actions)
        print(f"What fuzzing alone reaches of gcmodel, in {actions:,} actions:", flush=True)
        installed = Path(gcmodel.__file__).parents[1]
        coverage(Path(name), installed, "report", "--show-missing")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
