"""Settings that a process settles: each of their values has a process, which is kept."""

import sys
from pathlib import Path

import psutil
import pytest

from fuzz.protocol.actions import AllocateString
from fuzz.protocol.target import FullTarget, full
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.process.program import PROCESSES_MAX

ADAPTER = Path(__file__).with_name("settling_adapter.py")


@pytest.fixture
def target() -> FullTarget:
    command = (sys.executable, "-E", "-S", str(ADAPTER))
    return full(make_target("process", TargetOptions(command, timeout_seconds=600)))


def process_of(target: FullTarget, heap: int, trace: int = 0) -> str:
    """Who carries out a trace, whose second action is answered unread."""
    target.start({"heap": heap, "trace": trace})
    strings = [AllocateString(0), AllocateString(0)]
    target.announce(strings)
    return str(target.perform(strings[0]).error)


def test_a_process_serves_all_traces_that_want_what_it_has_settled(target: FullTarget) -> None:
    processes = [process_of(target, heap, trace) for trace in range(3) for heap in range(2)]
    assert processes == processes[:2] * 3
    assert len({*processes}) == 2


def test_beyond_so_many_the_oldest_is_ended(target: FullTarget) -> None:
    before = {*psutil.Process().children()}
    processes = [process_of(target, heap) for heap in range(PROCESSES_MAX)]
    assert process_of(target, PROCESSES_MAX) not in processes
    assert process_of(target, 1) == processes[1]
    assert process_of(target, 0) != processes[0]
    assert len({*psutil.Process().children()} - before) == PROCESSES_MAX
