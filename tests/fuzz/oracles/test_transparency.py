"""The transparency oracle: sampling changes nothing but the samples."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from fuzz.failure import Failure
from fuzz.oracles import RERUN_ORACLES
from fuzz.oracles.oracle import Mismatch
from fuzz.oracles.transparency import TransparencyOracle
from fuzz.protocol.actions import (
    Action,
    AddMemoryPressure,
    AllocateNode,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectStep,
    DisableSampling,
    EnableSampling,
    Fork,
    Free,
    PauseSampling,
    Pin,
    ReadWeakref,
    ResumeSampling,
    SetCallback,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation, Report
from fuzz.protocol.target import Target
from fuzz.run import run_actions
from fuzz.targets import make_target

ORACLE = TransparencyOracle()
SEEN = Observation(minors=1, alive=True, graph=[[1, 3]])
LARGE = AllocateString(300)
"""Some of these make the reference collect."""


# Judged directly.


@pytest.mark.parametrize(
    ("field", "other", "direction"),
    [
        *(("minors", 0, "more"), ("minors", 2, "less"), ("alive", False, "more")),
        *(("graph", [[1, 4]], "different"), ("graph", None, "different")),
        ("error", "HeapError: full", "different"),
    ],
)
def test_a_heap_that_differs_is_wrong(field: str, other: Any, direction: str) -> None:
    with pytest.raises(Mismatch, match=r"^transparency: ") as raised:
        ORACLE.check(SEEN, attrs.evolve(SEEN, **{field: other}))
    mismatch = raised.value
    assert (mismatch.oracle, mismatch.field) == ("transparency", field)
    assert (mismatch.expected, mismatch.got) == (other, getattr(SEEN, field))
    assert mismatch.direction == direction


def test_what_belongs_to_sampling_may_differ() -> None:
    sampled = attrs.evolve(
        SEEN, samples=3, order="sssMR", reports=[Report([5], 0, 0, 0)], limit=8, sample_point=8
    )
    ORACLE.check(sampled, SEEN)
    with pytest.raises(Mismatch, match=r"^transparency: "):
        ORACLE.check(attrs.evolve(sampled, minors=2), SEEN)


def test_collections_are_named_before_the_heap_that_they_leave() -> None:
    with pytest.raises(Mismatch, match=r"^transparency: ") as raised:
        ORACLE.check(SEEN, Observation())
    assert raised.value.field == "minors"


@pytest.mark.parametrize(
    "action",
    [EnableSampling(8), DisableSampling(), DisableSampling(report=True), PauseSampling()],
    ids=str,
)
def test_a_sampled_trace_runs_again_as_configured(contract: Contract, action: Action) -> None:
    configuration = ORACLE.configuration(contract, {"card_items": 0}, [CheckHeap(), action])
    assert configuration == {"card_items": 0}


@pytest.mark.parametrize("actions", [(), (CollectMinor(), Fork())], ids=str)
def test_no_second_run_without_sampling(contract: Contract, actions: tuple[Action, ...]) -> None:
    assert ORACLE.configuration(contract, {}, actions) is None


@pytest.mark.parametrize(
    "action", [EnableSampling(8), DisableSampling(), PauseSampling(), ResumeSampling()], ids=str
)
def test_what_only_bears_on_sampling_is_left_out(action: Action) -> None:
    assert ORACLE.instead(action) is None


def test_disabling_with_a_report_is_a_minor_collection_without_sampling() -> None:
    assert ORACLE.instead(DisableSampling(report=True)) == CollectMinor()


@pytest.mark.parametrize(
    "action",
    [AllocateNode(0), CollectFull(), Pin(0), SetCallback(0), AddMemoryPressure(8), Fork()],
    ids=str,
)
def test_everything_else_stays(action: Action) -> None:
    assert ORACLE.instead(action) == action


# On targets.


def failure_of(target: Target, *actions: Action) -> Failure | None:
    """What all oracles say of the actions, with all reruns."""
    return run_actions(target, {}, actions, RERUN_ORACLES.values())


@pytest.mark.parametrize(
    "actions",
    [
        (EnableSampling(8), *[LARGE] * 9, CollectFull()),
        (EnableSampling(24), *[AllocateNode(0)] * 9, DisableSampling(report=True), CheckHeap()),
        (EnableSampling(24), PauseSampling(), AllocateNode(0), ResumeSampling(), CollectMinor()),
        (SetCallback(30), EnableSampling(8), *[AllocateString(30)] * 9, SetCallback(None)),
        (EnableSampling(64), AddMemoryPressure(2**40), AllocateNode(0), Fork(), CollectMinor()),
        (AllocateString(0), Pin(0), CollectMinor(), *[AllocateNode(0)] * 9),
    ],
    ids=range(6),
)
def test_the_reference_is_transparent(reference: Target, actions: tuple[Action, ...]) -> None:
    assert failure_of(reference, *actions) is None


def test_sampling_that_hastens_a_collection_is_found() -> None:
    target = make_target("reference+sampled-bytes-count-twice")
    # 640 bytes make a major collection due, and those of a sampled object count twice.
    failure = failure_of(target, EnableSampling(8), LARGE, LARGE, LARGE)
    assert failure is not None
    assert failure.identity == ("transparency", "minors", "allocate_string", "more")
    assert failure_of(target, LARGE, LARGE, LARGE) is None


class ObservedWeakly:
    """A target that answers for weak references as if sampling kept an old object alive."""

    name = "observed-weakly"

    def __init__(self) -> None:
        self._target = make_target("reference")
        self._is_sampled = False

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self._is_sampled = False
        return self._target.start(configuration)

    def perform(self, action: Action) -> Observation:
        self._is_sampled |= isinstance(action, EnableSampling)
        observation = self._target.perform(action)
        if observation.alive is False and self._is_sampled:
            observation.alive = True
        return observation


def test_sampling_that_keeps_an_object_alive_is_found() -> None:
    # After the steps of a major collection the node may be dead or not: no other oracle can say.
    dying = (AllocateNode(0), AllocateWeakref(0), CollectMinor(), Free(0))
    steps = [CollectStep()] * 4
    failure = failure_of(ObservedWeakly(), EnableSampling(64), *dying, *steps, ReadWeakref(0))
    assert failure is not None
    assert failure.identity == ("transparency", "alive", "read_weakref", "more")
    assert failure_of(ObservedWeakly(), *dying, *steps, ReadWeakref(0)) is None


def test_where_nothing_can_stand_for_a_report_nothing_is_said(contract: Contract) -> None:
    actions = [EnableSampling(8), DisableSampling(report=True)]
    without = contract.without(("collect_minor",))
    assert TransparencyOracle().configuration(contract, {}, actions) == {}
    assert TransparencyOracle().configuration(without, {}, actions) is None
