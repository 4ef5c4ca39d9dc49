"""Signals: at any time they end the command with one line and no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Gcfuzz
from waiting import PATIENCE_SECONDS, completed

INCONCLUSIVE = 3
WHILE_IMPORTING = """
import os, signal, sys
import fuzz.__main__

signal.signal({number}, {before})

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == "fuzz.terminal.commands.cli":
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Signalling())
sys.argv[1:] = ["--version"]
fuzz.__main__.main()
"""


def signalled(
    number: int, unmeasured: dict[str, str], before: str
) -> subprocess.CompletedProcess[str]:
    """Run the command, with a signal during its imports."""
    program = WHILE_IMPORTING.format(number=int(number), before=before)
    return completed([sys.executable, "-c", program], env=unmeasured, check=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_imports_gets_one_line(number: int, unmeasured: dict[str, str]) -> None:
    ended = signalled(number, unmeasured, "signal.default_int_handler")
    assert ended.stderr == "gcfuzz: interrupted\n"
    assert ended.returncode == INCONCLUSIVE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_ignored_signal_stays_ignored(number: int, unmeasured: dict[str, str]) -> None:
    ended = signalled(number, unmeasured, "signal.SIG_IGN")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.slow
def test_a_session_without_actions_is_inconclusive(tmp_path: Path, gcfuzz: Gcfuzz) -> None:
    budget = ("run", "--time", "0.001ms", "--corpus", str(tmp_path))
    assert "the time is up before anything was done" in gcfuzz(INCONCLUSIVE, *budget).out


LOSES_AN_INTERRUPT = """
import time
from fuzz.__main__ import keep_interrupts

class Freed:
    def __del__(self):
        raise KeyboardInterrupt

keep_interrupts()
Freed()
# Python sleeps through a signal that comes just before the call, so no sleep is long.
for _ in range(6000):
    time.sleep(0.1)
"""


# The time is up while the first timer starts, as on a busy machine.
ON_A_BUSY_MACHINE = """
import threading, time

class Late(threading.Timer):
    late = [True]

    def start(self):
        super().start()
        if self.late:
            self.late.pop()
            self.join()
            time.sleep(0.1)

threading.Timer = Late
"""


@pytest.mark.parametrize("machine", ["", ON_A_BUSY_MACHINE], ids=["idle", "busy"])
def test_an_interrupt_while_an_object_is_freed_is_not_lost(
    machine: str, unmeasured: dict[str, str]
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", machine + LOSES_AN_INTERRUPT],
        check=False,
        stderr=subprocess.DEVNULL,
        env=unmeasured,
        timeout=PATIENCE_SECONDS,
    )
    assert ran.returncode == -signal.SIGINT
