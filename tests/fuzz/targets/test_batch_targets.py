"""A batch target answers a trace at its end, and is still judged action by action."""

import sys
from pathlib import Path

import pytest
from typing_extensions import override

from fuzz.cancellation import Cancelled, cancelled_when
from fuzz.engines.engine import Engine
from fuzz.engines.random import RandomEngine
from fuzz.engines.stateful import StatefulEngine
from fuzz.protocol.actions import AllocateString, CollectFull, Free
from fuzz.protocol.lines import BATCH_END
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.targets.process.conversation import Conversation
from fuzz.targets.process.program import ProcessTarget

ADAPTER = Path(__file__).parents[2] / "helpers" / "misbehaving_adapter.py"
STRING, FULL = AllocateString(1), CollectFull()
TRACE = [STRING, Free(0), STRING, FULL, AllocateString(2)]


def batch_target(*misbehaviour: str, fresh_process: bool = False) -> ProcessTarget:
    arguments = misbehaviour or ("nothing",)
    command = (sys.executable, "-E", "-S", str(ADAPTER), *arguments, "batch")
    return ProcessTarget("process", command, 600, fresh_process=fresh_process)


def test_an_announced_trace_is_answered_at_its_end() -> None:
    target = batch_target()
    assert [run_actions(target, {}, TRACE) for _ in range(2)] == [None, None]


@pytest.mark.parametrize("fresh_process", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_unannounced_action_is_sent_after_the_trace_so_far(fresh_process: bool) -> None:
    target = batch_target(fresh_process=fresh_process)
    target.start({})
    assert [target.perform(each).size for each in TRACE] == [9, None, 9, None, 10]
    assert target.finish() is None


@pytest.mark.parametrize("misbehaviour", ["signal", "lie"])
def test_the_first_wrong_action_of_a_batch_is_blamed(misbehaviour: str) -> None:
    failure = run_actions(batch_target(misbehaviour), {}, TRACE)
    assert failure is not None
    assert failure.actions == (STRING, Free(0), STRING, FULL)


@pytest.mark.parametrize("before", [0, 1, 30, 63])
def test_the_action_that_breaks_a_long_batch_is_blamed(before: int) -> None:
    trace = [STRING, Free(0)] * 32
    trace.insert(before, FULL)
    failure = run_actions(batch_target("signal"), {}, trace)
    assert failure is not None
    assert failure.actions == tuple(trace[: before + 1])


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ends of the batches that programs got."""
    ends: list[str] = []

    class Recording(Conversation):
        @override
        def send(self, line: str) -> None:
            ends.extend([line] * (line == BATCH_END))
            super().send(line)

    monkeypatch.setattr("fuzz.targets.process.program.Conversation", Recording)
    return ends


LONG_TRACE = [*[STRING, Free(0)] * 31, FULL, STRING]


def test_what_breaks_a_batch_is_searched_by_halves(sent: list[str]) -> None:
    failure = run_actions(batch_target("signal"), {}, LONG_TRACE)
    assert failure is not None
    assert len(sent) == 1 + 6  # All 64, and then halves: 32, 48, 56, 60, 62, 63.


def test_a_program_that_breaks_twice_still_gets_a_batch_in_few_parts(
    sent: list[str], tmp_path: Path
) -> None:
    trace = [*[STRING, Free(0)] * 20, FULL, *[STRING, Free(0)] * 11, STRING]
    failure = run_actions(batch_target("breaks-twice", str(tmp_path / "times")), {}, trace)
    assert failure is not None
    assert failure.actions == tuple(trace)
    # All 64, 32 and 16, which break again; 8, 4, 2, 1, 1 of these, and the same of the last 16.
    assert len(sent) == 3 + 2 * 5


def test_a_cancelled_search_blames_no_action(sent: list[str]) -> None:
    with pytest.raises(Cancelled), cancelled_when(lambda: len(sent) > 1):
        run_actions(batch_target("signal"), {}, [FULL, *LONG_TRACE])


@pytest.mark.parametrize(
    "engine", [RandomEngine, pytest.param(StatefulEngine, marks=pytest.mark.slow)]
)
def test_either_engine_drives_a_batch_target(engine: type[RandomEngine | StatefulEngine]) -> None:
    driven: Engine = engine(batch_target(), "7")
    done = driven.run_slice(0, 40, ProbeCounter())
    assert done.actions
    assert done.failures == []
