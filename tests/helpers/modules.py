"""Runs modules as a user does, in a folder of the user."""

import os
import subprocess
import sys
from pathlib import Path

from waiting import completed

import fuzz


def ran_module(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of `python -m ARGUMENTS`, with gcfuzz as it is tested."""
    path = os.pathsep.join([str(Path(fuzz.__file__).parents[1]), str(folder)])
    return completed(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
