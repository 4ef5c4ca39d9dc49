"""How the targets that are profilers of Python are started. Nothing of theirs is loaded here."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from fuzz.problems import BadInputError

SCALENE, SCALENE_AS_DOCUMENTED = "scalene", "scalene-as-documented"
DDTRACE, DDTRACE_AS_DOCUMENTED = "ddtrace", "ddtrace-as-documented"
HOW_TO_INSTALL = (
    "pip install 'gcfuzz[python-profilers]', or name a Python that has it with --python"
)
PROFILERS = (SCALENE, SCALENE_AS_DOCUMENTED, DDTRACE, DDTRACE_AS_DOCUMENTED)


def driver_command(name: str, python: Path | None = None) -> tuple[str, ...]:
    """The command line of the driver that is the target of that name.

    `python` is the interpreter that has the profiler, by default this one. Raises BadInputError
    where this one cannot read what ddtrace writes.
    """
    if name in (DDTRACE, DDTRACE_AS_DOCUMENTED) and not _can_decompress():
        raise BadInputError(
            "what ddtrace writes cannot be read without backports.zstd: "
            "pip install 'gcfuzz[python-profilers]', or backports.zstd alone"
        )
    profiler = name.removesuffix("-as-documented")
    interpreter = sys.executable if python is None else str(python)
    return sys.executable, "-m", f"{__package__}.{profiler}_driver", name, interpreter


def _can_decompress() -> bool:
    parent, name = ("compression", "zstd") if sys.version_info >= (3, 14) else ("backports", "zstd")
    return find_spec(parent) is not None and find_spec(f"{parent}.{name}") is not None
