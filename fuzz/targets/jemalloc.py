"""The target `jemalloc`: the stock library of a Linux distribution, in a process of its own.

That process is a program of this package, `jemalloc_driver`. Here is only how it is started: the
library can be loaded late, and be configured, in an environment made for it.
"""

from __future__ import annotations

import sys

from fuzz.targets.jemalloc_library import ENVIRONMENT

DRIVER = "fuzz.targets.jemalloc_driver"


def driver_command() -> tuple[str, ...]:
    """The driver's command line."""
    assignments = (f"{name}={value}" for name, value in ENVIRONMENT.items())
    return "env", *assignments, sys.executable, "-m", DRIVER
