"""A batch target answers a trace when it is over, and is judged action by action all the same."""

import sys
from pathlib import Path

import pytest

from fuzz.drawing.probes import ProbeCounter
from fuzz.engines.engine import Engine
from fuzz.engines.random import RandomEngine
from fuzz.engines.stateful import StatefulEngine
from fuzz.protocol.actions import AllocateString, CollectFull, Free
from fuzz.run import run_actions
from fuzz.targets.process.program import ProcessTarget

ADAPTER = Path(__file__).with_name("misbehaving_adapter.py")
STRING, FULL = AllocateString(1), CollectFull()
TRACE = [STRING, Free(0), STRING, FULL, AllocateString(2)]


def batch_target(misbehaviour: str = "nothing", *, fresh_process: bool = False) -> ProcessTarget:
    command = (sys.executable, "-E", "-S", str(ADAPTER), misbehaviour, "batch")
    return ProcessTarget("process", command, 600, fresh_process=fresh_process)


def test_a_trace_that_was_announced_is_answered_when_it_is_over() -> None:
    target = batch_target()
    assert [run_actions(target, {}, TRACE) for _ in range(2)] == [None, None]


@pytest.mark.parametrize("fresh_process", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_was_not_announced_is_answered_behind_all_before_it(fresh_process: bool) -> None:
    target = batch_target(fresh_process=fresh_process)
    target.start({})
    assert [target.perform(each).size for each in TRACE] == [9, None, 9, None, 10]
    assert target.finish() is None


@pytest.mark.parametrize("misbehaviour", ["signal", "lie"])
def test_of_a_trace_that_is_answered_as_a_whole_the_right_action_is_blamed(
    misbehaviour: str,
) -> None:
    failure = run_actions(batch_target(misbehaviour), {}, TRACE)
    assert failure is not None
    assert failure.actions == (STRING, Free(0), STRING, FULL)


@pytest.mark.parametrize(
    "engine", [RandomEngine, pytest.param(StatefulEngine, marks=pytest.mark.slow)]
)
def test_either_engine_drives_a_batch_target(engine: type[RandomEngine | StatefulEngine]) -> None:
    driven: Engine = engine(batch_target(), "7")
    done = driven.run_slice(0, 40, ProbeCounter())
    assert done.actions
    assert done.failures == []
