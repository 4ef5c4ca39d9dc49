"""The native collector, built in a folder of its own, sessions on it, and missing programs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuzz.terminal.cli import run_command_line

NATIVE = Path(__file__).parents[2] / "examples" / "native"

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def need() -> Callable[..., None]:
    """Skip unless the machine has these programs, which are Debian packages."""

    def check(*programs: str) -> None:
        missing = [program for program in programs if shutil.which(program) is None]
        if missing:
            pytest.skip(f"apt-get install {' '.join(missing)}")

    return check


@pytest.fixture(scope="session")
def native(need: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the collector's folder, so that building leaves nothing in the real one."""
    need("gcc", "make")
    folder = tmp_path_factory.mktemp("examples") / "native"
    shutil.copytree(NATIVE, folder, ignore=shutil.ignore_patterns("build"))
    return folder


@pytest.fixture(scope="session")
def build(native: Path) -> Build:
    """Build an adapter, with a bug in it, or with the sanitizers; returns the program."""

    def make(bug: str = "", *, sanitized: bool = False) -> Path:
        goal = ["sanitized"] if sanitized else []
        planted = [f"BUG={bug}"] if bug else []
        subprocess.run(["make", *goal, *planted], cwd=native, check=True)
        name = "-".join(["adapter", *[bug] * bool(bug), *goal])
        return native / "build" / name

    return make


Session = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Run a session on a program; returns its exit code and its failures."""

    def run(program: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
        summary = tmp_path / "summary.json"
        plan = ["--command", str(program), "--actions", "20000", "--seed", "1", *options]
        places = ["--corpus", str(tmp_path / "corpus"), "--summary", str(summary)]
        code = run_command_line(["run", *plan, *places])
        return code, json.loads(summary.read_text())["failures"]

    return run
