"""The native collector, built in a folder of its own, sessions on it, and missing programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from scripts import shell_script
from waiting import PATIENCE_SECONDS

import fuzz
from fuzz.protocol.schema import schema
from fuzz.terminal.commands.cli import run_command_line

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
def need_header(need: Callable[..., None]) -> Callable[[str, str], None]:
    """Skip unless the machine has a header, which is in a Debian package."""
    need("gcc")

    def check(header: str, package: str) -> None:
        compiled = ["gcc", "-fsyntax-only", "-include", header, "-x", "c", os.devnull]
        if subprocess.run(
            compiled, stderr=subprocess.DEVNULL, check=False, timeout=PATIENCE_SECONDS
        ).returncode:
            pytest.skip(f"apt-get install {package}")

    return check


@pytest.fixture
def with_command(tmp_path: Path) -> Mapping[str, str]:
    """An environment with the command of this very installation, also where none is on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    shell_script(programs / "gcfuzz", f'exec "{sys.executable}" -m fuzz "$@"')
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(fuzz.__file__).parents[1]),
    }


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
        subprocess.run(["make", *goal, *planted], cwd=native, check=True, timeout=PATIENCE_SECONDS)
        name = "-".join(["adapter", *[bug] * bool(bug), *goal])
        return native / "build" / name

    return make


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str], list[str]]:
    """Run a session on a program; returns the lines of it that the JSON Schema refuses."""
    validator = Draft202012Validator(schema())

    def run(command: str) -> list[str]:
        listener = tmp_path / "listener.sh"
        # One file for each process: one that is killed may leave half a line at the end.
        listener.write_text(f'tee "$0.$$.sent" | {command} | tee "$0.$$.answers"\n')
        plan = ["--actions", "500", "--seed", "1", "--corpus", str(tmp_path / "corpus")]
        assert run_command_line(["run", "--command", f"sh {listener}", *plan]) == 0
        files = tmp_path.glob("listener.sh.*")
        lines = [line for each in files for line in each.read_text().split("\n")[:-1]]
        assert len(lines) > 2 * 500
        return [line for line in lines if not validator.is_valid(json.loads(line))]

    return run


Session = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Run a session on a program; returns its exit code and its failures."""

    def run(program: Path | str, *options: str) -> tuple[int, list[dict[str, Any]]]:
        summary = tmp_path / "summary.json"
        plan = ["--command", str(program), "--actions", "20000", "--seed", "1", *options]
        places = ["--corpus", str(tmp_path / "corpus"), "--summary", str(summary)]
        code = run_command_line(["run", *plan, *places])
        return code, json.loads(summary.read_text())["failures"]

    return run
