"""Targets `v8` with a changed mutator."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fuzz.protocol.target import FullTarget
from fuzz.targets import TargetOptions
from fuzz.targets.process.program import ProcessTarget
from fuzz.targets.v8 import TARGETS
from fuzz.targets.v8.find import HOW_TO_INSTALL, MUTATOR


def node_program() -> str:
    """Node; the test is skipped without it."""
    program = shutil.which("node")
    if program is None:
        pytest.skip(HOW_TO_INSTALL)
    return program


def command_of(node: str, before: str, after: str) -> tuple[str, ...]:
    """The mutator's command line with one argument changed."""
    command = TARGETS[0].command_line(TargetOptions(paths={"node": Path(node)}))
    assert command.count(before) == 1
    return tuple(after if each == before else each for each in command)


def changed_target(folder: Path, node: str, before: str, after: str) -> FullTarget:
    """The target with a change in one of the mutator's files, which are copied to the folder."""
    sources = {path.name: path.read_text("utf-8") for path in MUTATOR.parent.glob("*.js")}
    assert sum(source.count(before) for source in sources.values()) == 1
    for name, source in sources.items():
        (folder / name).write_text(source.replace(before, after), "utf-8")
    program = folder / MUTATOR.name
    return ProcessTarget("process", command_of(node, str(MUTATOR), str(program)), 60)
