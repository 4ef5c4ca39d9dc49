"""The native collector, built in a folder of its own, and programs that a machine may lack."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "examples" / "native"

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def need() -> Callable[..., None]:
    """Skip unless the machine has these programs; each has a Debian package of its name."""

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
