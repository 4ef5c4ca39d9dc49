"""A find of threads that run at once is tried twenty times, and may not come back."""

import shlex
import sys
from pathlib import Path

import pytest

from fuzz.protocol import trace as traces
from fuzz.protocol.actions import RunAtOnce
from fuzz.protocol.target import contract_of
from fuzz.protocol.trace import VERSION, Found, Header, Trace
from fuzz.run import run_actions
from fuzz.sessions.corpus import Find, Finder, save_raw, save_reduced
from fuzz.targets import TargetOptions, make_target
from fuzz.terminal.cli import run_command_line

INCONCLUSIVE = 3
ADAPTER = Path(__file__).parents[1] / "targets" / "racing_adapter.py"
NEVER = 10**6
FIRST = 2
"""One process is asked for its contract, and the next is seen to be wrong."""
REDUCING = 4
"""The processes that the reducer starts: one for the contract, the others for candidates."""

pytestmark = pytest.mark.slow


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A file that has a byte for each process."""
    return tmp_path / "started"


def adapter(started: Path, every: int) -> tuple[str, ...]:
    return sys.executable, str(ADAPTER), str(started), str(every)


def find(started: Path, every: int) -> Find:
    """What comes of a failure that is seen in the second process, and again after so many."""
    options = TargetOptions(adapter(started, every))
    target = make_target("process", options)
    failure = run_actions(target, {}, [RunAtOnce(1, 0)])
    assert failure is not None
    options = TargetOptions(options.command, contract=contract_of(target))
    finder = Finder(started.parent, "process", "random", 1, options)
    return save_reduced(finder, save_raw(finder, failure))


def test_one_that_does_not_come_back_is_tried_twenty_times(started: Path) -> None:
    assert not find(started, NEVER).reproduced
    assert started.stat().st_size == FIRST + 20


def test_one_that_comes_back_once_in_twenty_times_keeps_what_was_seen(started: Path) -> None:
    found = find(started, 15)
    assert started.stat().st_size == FIRST + 13 + REDUCING
    assert found.path is not None
    told = traces.read(found.path).header.found
    assert told is not None
    assert told.started_with == ("--racing",)
    assert told.message.startswith("at-once: read: expected 0, got -1 (thread 0 makes 1 nodes")


def test_one_that_does_not_come_back_in_a_replay_is_inconclusive(started: Path) -> None:
    header = Header(VERSION, "process", found=Found("at-once", "read", "random"))
    path = started.with_name("find.jsonl")
    traces.write_to(Trace(header, (RunAtOnce(1, 0),)), path)
    started.write_text("x" * 10)
    words = ["replay", str(path), "--command", shlex.join(adapter(started, NEVER))]
    assert run_command_line(words) == INCONCLUSIVE
