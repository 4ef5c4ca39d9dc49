"""How the targets that are profilers of Python are started. Nothing of theirs is loaded here."""

from __future__ import annotations

import sys
from pathlib import Path

SCALENE, SCALENE_AS_DOCUMENTED = "scalene", "scalene-as-documented"
PROFILERS = (SCALENE, SCALENE_AS_DOCUMENTED)


def driver_command(name: str, python: Path | None = None) -> tuple[str, ...]:
    """The command line of the driver that is the target of that name.

    `python` is the interpreter that has the profiler, by default this one.
    """
    profiler = name.removesuffix("-as-documented")
    interpreter = sys.executable if python is None else str(python)
    return sys.executable, "-m", f"{__package__}.{profiler}_driver", name, interpreter
