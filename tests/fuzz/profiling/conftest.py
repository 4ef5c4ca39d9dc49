"""A folder with a script, and the command that profiles it."""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Gcfuzz
from firefox_check import check
from profiled import SCRIPT, Profiled

from fuzz.profiling import profile_report
from fuzz.terminal.exit_codes import CLEAN


@pytest.fixture
def script_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with a script.

    Modules that scripts import from the folder, and their changes to the path, are removed.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(profile_report, "PLAIN_SECONDS", math.inf)  # No progress is printed.
    Path("nodes.py").write_text(SCRIPT)
    yield
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def profiled(gcfuzz: Gcfuzz) -> Profiled:
    """Profile something; returns the output. The Firefox Profiler could open the files."""

    def run(*arguments: str) -> str:
        printed = gcfuzz(CLEAN, "profile", *arguments).out
        for name in arguments:
            if name.endswith((".json", ".json.gz")):
                opened = gzip.open if name.endswith(".gz") else open
                with opened(name, "rt", encoding="utf-8") as file:
                    check(json.load(file))
        return printed

    return run
