"""The command line of Scalene's driver."""

from __future__ import annotations

import sys

from fuzz.targets.options import TargetOptions
from fuzz.targets.registration import python_driver


def driver_command(name: str, options: TargetOptions) -> tuple[str, ...]:
    """It does not load Scalene: its driver says whether the interpreter has it."""
    return python_driver(__package__, name, options.paths.get("python", sys.executable))
