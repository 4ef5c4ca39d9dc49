"""Work that is cancelled in the middle of a trace, of a wait, or of a reduction."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fuzz.cancellation import Cancelled, cancelled_when, checkpoint
from fuzz.failure import Failure
from fuzz.failures.reduce import reduce_failure
from fuzz.protocol.actions import Action, AllocateNode, CheckHeap, EnableSampling
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.sessions.plan import ENGINES, make_engine
from fuzz.targets import make_target
from fuzz.targets.process.conversation import Conversation
from fuzz.targets.process.program import ProcessTarget

ACTIONS = (*[AllocateNode(9)] * 16, EnableSampling(8), AllocateNode(900))


def after_checkpoints(number: int) -> Callable[[], bool]:
    """A function that returns true after that many calls."""
    asked = Counter[str]()

    def is_over() -> bool:
        asked["times"] += 1
        return asked["times"] > number

    return is_over


class Counting:
    """A reference that counts its actions."""

    name = "counting"

    def __init__(self, target: str = "reference") -> None:
        self._target = make_target(target)
        self.actions = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        self.actions += 1
        return self._target.perform(action)


def test_without_a_bound_nothing_is_cancelled() -> None:
    checkpoint()


def test_an_inner_bound_does_not_lift_the_outer_one() -> None:
    with pytest.raises(Cancelled), cancelled_when(lambda: True), cancelled_when(lambda: False):
        checkpoint()


def test_a_bound_ends_with_its_block() -> None:
    with cancelled_when(lambda: True):
        pass
    checkpoint()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cancelled_slice_has_what_was_done(engine: str) -> None:
    target = Counting()
    with cancelled_when(after_checkpoints(5)):
        done = make_engine(engine, target, "7").run_slice(3, 1000, ProbeCounter())
    assert done.failures == []
    assert target.actions == done.actions == 5


def test_a_wait_for_an_answer_is_cancelled() -> None:
    silent = Conversation([sys.executable, "-c", "import time; time.sleep(1000)"], 1000.0)
    with pytest.raises(Cancelled), cancelled_when(after_checkpoints(3)):
        silent.receive()
    silent.close()


HANGING = """
import sys
from fuzz.protocol.lines import to_line, unstructured
from fuzz.targets import make_target

open(sys.argv[1], "a").write("started\\n")
contract = make_target("reference").start({}).without(("pin",))
for line in sys.stdin:
    if "gcfuzz" in line:
        print(to_line({"contract": unstructured(contract)}), flush=True)
"""


@pytest.mark.slow
def test_a_broken_program_is_a_failure_even_if_no_time_is_left_to_see_where(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    starts.touch()
    command = (sys.executable, "-c", HANGING, str(starts))
    target = ProcessTarget("hanging", command, timeout_seconds=1.0)
    actions = [AllocateNode(number) for number in range(3)]
    # The first process states its contract; the second and the third get the trace.
    with cancelled_when(lambda: starts.read_text().count("started") > 2):
        failure = run_actions(target, {}, actions)
    assert failure is not None
    assert failure.identity == ("heap", "error", "allocate_node", "hang")


SLOW_TO_START = """
import sys, time
from fuzz import serve
from fuzz.targets import make_target

class Slow:
    name, starts = "slow", 0
    def __init__(self):
        self.target = make_target("reference")
    def start(self, configuration):
        self.starts += 1
        if self.starts == 4:  # The third ends the first trace.
            open(sys.argv[1], "w").close()
            time.sleep(1000)
        return self.target.start(configuration)
    def perform(self, action):
        return self.target.perform(action)

serve(Slow(), sys.stdin, sys.stdout)
"""


@pytest.fixture
def slow(tmp_path: Path) -> tuple[ProcessTarget, Callable[[], bool]]:
    """A target, and whether it is starting a trace without an end."""
    starts = tmp_path / "starts"
    command = (sys.executable, "-c", SLOW_TO_START, str(starts))
    return ProcessTarget("slow", command, timeout_seconds=1000), starts.exists


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_slice_that_is_cancelled_while_a_program_starts_has_no_failures(
    engine: str, slow: tuple[ProcessTarget, Callable[[], bool]]
) -> None:
    target, is_starting = slow
    slices = make_engine(engine, target, "7")
    with cancelled_when(is_starting):
        done = [slices.run_slice(number, 1000, ProbeCounter()) for number in range(2)]
    assert is_starting()
    assert [each.failures for each in done] == [[], []]


@pytest.mark.slow
def test_a_cancelled_start_breaks_no_trace(slow: tuple[ProcessTarget, Callable[[], bool]]) -> None:
    target, is_starting = slow
    assert run_actions(target, {}, [CheckHeap()]) is None
    with pytest.raises(Cancelled), cancelled_when(is_starting):
        run_actions(target, {}, [CheckHeap()])
    assert run_actions(target, {}, [AllocateNode(7), CheckHeap()]) is None


@pytest.fixture
def failure() -> Failure:
    failure = run_actions(make_target("reference+one-sample-per-object"), {}, ACTIONS)
    assert failure is not None
    return failure


@pytest.mark.parametrize("checkpoints", [0, 1, 20, 40, 60, 80])
def test_a_reduction_can_be_cut_off_in_all_its_parts(failure: Failure, checkpoints: int) -> None:
    target = Counting("reference+one-sample-per-object")
    reduced = reduce_failure(target, failure, after_checkpoints(checkpoints))
    assert target.actions <= checkpoints
    assert reduced.identity == failure.identity


def test_a_whole_reduction_has_more_checkpoints(failure: Failure) -> None:
    target = Counting("reference+one-sample-per-object")
    reduce_failure(target, failure)
    assert target.actions > 80


def test_a_reduction_that_is_cut_off_keeps_the_best_so_far(failure: Failure) -> None:
    lengths = [
        len(reduce_failure(Counting("reference+one-sample-per-object"), failure, is_over).actions)
        for is_over in map(after_checkpoints, (0, 20, 10_000))
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == len(ACTIONS)
    assert lengths[1] < len(ACTIONS)


def test_a_cancelled_run_is_not_a_failure() -> None:
    with pytest.raises(Cancelled), cancelled_when(lambda: True):
        run_actions(make_target("reference"), {}, [CheckHeap()])
