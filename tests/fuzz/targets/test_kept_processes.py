"""Settings of the process: each of their values has a process, which is kept."""

import sys
from itertools import count
from pathlib import Path

import psutil
import pytest

from fuzz.engines.random import PROCESSES
from fuzz.failure import Failure
from fuzz.protocol.actions import AllocateString
from fuzz.protocol.target import FullTarget, full
from fuzz.sessions.plan import PROCESS_ACTIONS, Chunk, Plan, SessionTotals, actions_before
from fuzz.sessions.worker import run_chunk
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.process import program

ADAPTER = Path(__file__).parents[2] / "helpers" / "settling_adapter.py"


@pytest.fixture
def target() -> FullTarget:
    command = (sys.executable, "-E", "-S", str(ADAPTER))
    return full(make_target("process", TargetOptions(command, timeout_seconds=600)))


def process_of(target: FullTarget, heap: int, trace: int = 0) -> str:
    """The process that carries out a trace; its second answer is not read."""
    target.start({"heap": heap, "trace": trace})
    strings = [AllocateString(0), AllocateString(0)]
    target.announce(strings)
    return str(target.perform(strings[0]).error)


def test_a_process_serves_all_traces_with_its_setting(target: FullTarget) -> None:
    processes = [process_of(target, heap, trace) for trace in range(3) for heap in range(2)]
    assert processes == processes[:2] * 3
    assert len({*processes}) == 2


def test_a_process_that_has_served_enough_is_replaced(
    target: FullTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "HEADERS_MAX", 2)
    before = {*psutil.Process().children()}
    processes = [process_of(target, 0, trace) for trace in range(4)]
    assert processes == [processes[0], processes[0], processes[2], processes[2]]
    assert processes[0] != processes[2]
    assert len({*psutil.Process().children()} - before) == 1


def test_the_oldest_of_too_many_processes_is_ended(
    target: FullTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PROCESSES_MAX", 3)
    before = {*psutil.Process().children()}
    processes = [process_of(target, heap) for heap in range(3)]
    assert process_of(target, 3) not in processes
    assert process_of(target, 1) == processes[1]
    assert process_of(target, 0) != processes[0]
    assert len({*psutil.Process().children()} - before) == 3


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["random", pytest.param("stateful", marks=pytest.mark.slow)])
def test_chunks_share_processes(engine: str, target: FullTarget, tmp_path: Path) -> None:
    """Each trace is a failure, whose configuration has the setting of its process."""
    plan = Plan("process", engine, 1, 1, tmp_path)

    def settled(chunks: range) -> set[int]:
        found: list[Failure] = []
        for index in chunks:
            run_chunk(plan, Chunk(index, 8), target, SessionTotals(), found.append)
        return {failure.configuration["heap"] for failure in found}

    others = next(index for index in count() if actions_before(index) >= PROCESS_ACTIONS)
    first, later = (settled(range(start, start + 10)) for start in (0, others))
    assert 2 <= len(first) <= PROCESSES
    assert later - first
