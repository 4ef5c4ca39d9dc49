"""Runs modules as a user does, in a folder of the user."""

import os
import subprocess
import sys
from pathlib import Path

from waiting import PATIENCE_SECONDS

import fuzz


def ran_module(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of `python -m ARGUMENTS`, with gcfuzz as it is tested."""
    path = os.pathsep.join([str(Path(fuzz.__file__).parents[1]), str(folder)])
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=PATIENCE_SECONDS,
    )
