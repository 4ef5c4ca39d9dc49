"""A collector that collects whenever it likes: only a contract that promises more is broken."""

from collections.abc import Mapping, Sequence

import attrs
import pytest

from fuzz.engines.engine import Slice, slices_of
from fuzz.oracles import RERUN_ORACLES
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Promise
from fuzz.protocol.observation import Observation
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.sessions.plan import make_engine
from fuzz.targets import make_target

ACTIONS = 1_000
UNSUPPORTED = ("pin", "unpin", "set_callback", "fork")
OBSERVES = ("samples", "minors", "size", "outside", "value", "alive", "graph", "contents")
TWICE = (do.AllocateNode(0), do.EnableSampling(8), do.ReadNumber(0), do.CheckHeap())


class Whimsical:
    """The reference, which also collects before each fifth action of its whole life."""

    name = "whimsical"

    def __init__(self, *promises: Promise) -> None:
        self._target = make_target("reference")
        self._promises = promises
        self._life = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = self._target.start(configuration).without(UNSUPPORTED)
        return attrs.evolve(contract, promises=self._promises, observes=OBSERVES)

    def perform(self, action: Action) -> Observation:
        self._life += 1
        minors = 0 if self._life % 5 else self._target.perform(do.CollectMinor()).minors
        seen = self._target.perform(action)
        seen.minors += minors
        if minors:
            seen.graph = self._target.perform(do.CheckHeap()).graph
        return seen


def failures_of(slices: Sequence[Slice]) -> set[str]:
    return {failure.message for each in slices for failure in each.failures}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["random", "stateful"])
def test_a_session_is_clean(engine: str) -> None:
    slices = [*slices_of(make_engine(engine, Whimsical(), "1"), ACTIONS, ProbeCounter())]
    assert failures_of(slices) == set()
    assert sum(each.minor_collections for each in slices) > ACTIONS / 10


def test_a_promise_is_judged() -> None:
    slices = slices_of(make_engine("random", Whimsical("collections"), "1"), 200, ProbeCounter())
    assert any("minors" in message for message in failures_of([*slices]))


@pytest.mark.parametrize("name", ["determinism", "transparency"])
def test_a_second_run_may_collect_elsewhere(name: str) -> None:
    assert run_actions(Whimsical(), {}, TWICE, [RERUN_ORACLES[name]]) is None


class CountsTraces(Whimsical):
    """And it counts its traces, to be wrong in some."""

    _traces = 0

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self._traces += 1
        return super().start(configuration)


class Forgetful(CountsTraces):
    """Each second trace finds another number in its nodes."""

    def perform(self, action: Action) -> Observation:
        seen = super().perform(action)
        if self._traces % 2 == 0 and seen.graph is not None:
            seen.graph[0][1] += 1
        return seen


@pytest.mark.parametrize("name", ["determinism", "transparency"])
def test_two_heaps_that_are_both_shown_must_be_equal_all_the_same(name: str) -> None:
    failure = run_actions(Forgetful(), {}, TWICE, [RERUN_ORACLES[name]])
    assert failure is not None
    assert (failure.oracle, failure.field) == (name, "graph")


DIES_IN_ONE_RUN = (
    *(do.AllocateNode(0), do.AllocateWeakref(0), do.CheckHeap(), do.Free(0)),
    *(do.ReadWeakref(0, keep=True), *[do.CheckHeap()] * 3),
)
"""In the first run, a collection comes before the fifth action, in the other before two others."""


def test_a_second_run_is_judged_until_it_keeps_another_object() -> None:
    oracles = [RERUN_ORACLES["determinism"]]
    assert run_actions(Whimsical(), {}, DIES_IN_ONE_RUN, oracles) is None
    failure = run_actions(Forgetful(), {}, DIES_IN_ONE_RUN, oracles)
    assert failure is not None
    assert (failure.field, len(failure.actions)) == ("graph", 3)


class CrashesAgain(CountsTraces):
    """Its second trace crashes when it reads a weak reference."""

    def perform(self, action: Action) -> Observation:
        seen = super().perform(action)
        crashes = self._traces > 1 and isinstance(action, do.ReadWeakref)
        return Observation(error="crash: segfault") if crashes else seen


def test_a_second_run_that_crashes_at_a_kept_read_is_judged() -> None:
    steps = do.AllocateNode(0), do.AllocateWeakref(0), do.ReadWeakref(1, keep=True)
    failure = run_actions(CrashesAgain(), {}, steps, [RERUN_ORACLES["determinism"]])
    assert failure is not None
    assert (failure.field, failure.action) == ("error", "read_weakref")


def test_a_second_run_in_a_larger_nursery_may_keep_another_object() -> None:
    """Promised collections come later there, so the object may still be alive, or dead already."""
    steps = (
        *(do.AllocateNode(0), do.AllocateWeakref(0), *map(do.AllocateNode, range(1, 9))),
        *(do.Free(0), do.CollectMinor(), do.ReadWeakref(0, keep=True)),
        *(do.WriteNumber(9, 5), do.Write(9, 0, None)),
    )
    oracles = [RERUN_ORACLES["invariance"]]
    assert run_actions(make_target("reference"), {"nursery_bytes": 256}, steps, oracles) is None
