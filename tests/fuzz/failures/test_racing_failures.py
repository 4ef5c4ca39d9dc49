"""A failure of threads that race is tried twenty times, and may not reproduce."""

import shlex
import sys
from pathlib import Path

import pytest

from fuzz.failures.corpus import Origin, SavedFailure, reduce_saved, save_found
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import RunAtOnce
from fuzz.protocol.target import contract_of
from fuzz.protocol.trace import VERSION, Found, Header, Trace
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.terminal.commands.cli import run_command_line

INCONCLUSIVE = 3
ADAPTER = Path(__file__).parents[2] / "helpers" / "racing_adapter.py"
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


def failure(started: Path, every: int) -> SavedFailure:
    """A failure that is seen in the second process, and in every n-th after it."""
    options = TargetOptions(adapter(started, every))
    target = make_target("process", options)
    found = run_actions(target, {}, [RunAtOnce(1, 0)])
    assert found is not None
    options = TargetOptions(options.command, contract=contract_of(target))
    origin = Origin(started.parent, "process", "random", 1, options)
    return reduce_saved(origin, save_found(origin, found))


def test_a_failure_that_does_not_reproduce_is_tried_twenty_times(started: Path) -> None:
    assert not failure(started, NEVER).reproduced
    assert started.stat().st_size == FIRST + 20


def test_a_failure_that_reproduces_once_in_twenty_times_is_kept(started: Path) -> None:
    saved = failure(started, 15)
    assert started.stat().st_size == FIRST + 13 + REDUCING
    assert saved.path is not None
    found = traces.read(saved.path).header.found
    assert found is not None
    assert found.started_with == ("--racing",)
    assert found.message.startswith("concurrency: read: expected 0, got -1 (thread 0 makes 1 nodes")


def test_a_failure_that_passes_in_a_replay_is_inconclusive(started: Path) -> None:
    header = Header(VERSION, "process", found=Found("concurrency", "read", "random"))
    path = started.with_name("failure.jsonl")
    traces.write_to(Trace(header, (RunAtOnce(1, 0),)), path)
    started.write_text("x" * 10)
    arguments = ["replay", str(path), "--command", shlex.join(adapter(started, NEVER))]
    assert run_command_line(arguments) == INCONCLUSIVE
