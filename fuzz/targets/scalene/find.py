"""The Python that has Scalene."""

from __future__ import annotations

import sys
from pathlib import Path

from fuzz.targets.options import TargetOptions


def interpreter(options: TargetOptions) -> tuple[str | Path]:
    """It does not load Scalene: its driver says whether the interpreter has it."""
    return (options.paths.get("python", sys.executable),)
