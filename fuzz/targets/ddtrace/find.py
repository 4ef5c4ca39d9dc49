"""The command line of ddtrace's driver."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from fuzz.problems import BadInputError
from fuzz.targets.options import TargetOptions
from fuzz.targets.registration import python_driver


def driver_command(name: str, options: TargetOptions) -> tuple[str, ...]:
    """Raises BadInputError if this Python cannot read what ddtrace writes."""
    parent, module = ("compression" if sys.version_info >= (3, 14) else "backports"), "zstd"
    if find_spec(parent) is None or find_spec(f"{parent}.{module}") is None:
        raise BadInputError(
            "what ddtrace writes cannot be read without backports.zstd: "
            "pip install 'gcfuzz[python-profilers]', or backports.zstd alone"
        )
    return python_driver(__package__, name, options.paths.get("python", sys.executable))
