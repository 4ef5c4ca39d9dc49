"""The Python that has ddtrace."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from fuzz.problems import BadInputError
from fuzz.targets.options import TargetOptions


def interpreter(options: TargetOptions) -> tuple[str | Path]:
    """Raises BadInputError if this Python cannot read what ddtrace writes."""
    parent, module = ("compression" if sys.version_info >= (3, 14) else "backports"), "zstd"
    if find_spec(parent) is None or find_spec(f"{parent}.{module}") is None:
        raise BadInputError(
            "what ddtrace writes cannot be read without backports.zstd: "
            "pip install 'gcfuzz[python-profilers]', or backports.zstd alone"
        )
    return (options.paths.get("python", sys.executable),)
