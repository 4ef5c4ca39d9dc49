"""The invariance oracle: the size of the nursery makes no difference to what is sampled."""

import random
from collections.abc import Mapping

import attrs
import pytest
from changed_contracts import with_rule

from fuzz.engines.random import RandomEngine
from fuzz.oracles import RERUN_ORACLES
from fuzz.oracles.invariance import InvarianceOracle
from fuzz.oracles.oracle import Mismatch
from fuzz.protocol.actions import (
    Action,
    AddMemoryPressure,
    AllocateNode,
    AllocateString,
    CheckHeap,
    CollectMinor,
    DisableSampling,
    EnableSampling,
    Fork,
    PauseSampling,
    Pin,
    ResumeSampling,
    SetCallback,
    Unpin,
)
from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.counting import Contexts
from fuzz.protocol.exhaustion import Exhaustion
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.reached.probes import ProbeCounter
from fuzz.run import run_actions
from fuzz.targets.references.collector import ReferenceTarget
from gcmodel import Configuration, Parts
from gcmodel.memory.events import Events
from gcmodel.memory.nursery import Nursery
from gcmodel.sampling.sample_point import Sampling

ORACLE = InvarianceOracle()
ACTIONS = 20_000
NURSERY = Setting("nursery_bytes", 256, Range(64, 65536, 8))


# Judged directly.


@pytest.mark.parametrize(("first", "second", "direction"), [(2, 3, "less"), (1, 0, "more")])
def test_a_larger_nursery_takes_the_same_samples(first: int, second: int, direction: str) -> None:
    with pytest.raises(Mismatch, match=r"^invariance: ") as raised:
        ORACLE.check(Observation(first), Observation(second))
    mismatch = raised.value
    assert (mismatch.oracle, mismatch.field) == ("invariance", "samples")
    assert (mismatch.expected, mismatch.got) == (second, first)
    assert mismatch.direction == direction


def test_the_samples_of_a_group_name_the_same_members() -> None:
    with pytest.raises(Mismatch, match=r"^invariance: samples_by_member: "):
        ORACLE.check(
            Observation(1, samples_by_member=[1, 0]), Observation(1, samples_by_member=[0, 1])
        )


def test_where_a_collection_ends_allocation_contexts_nothing_is_said(contract: Contract) -> None:
    assert ORACLE.configuration(contract, {}, [AllocateNode(0)]) is not None
    in_contexts = with_rule(contract, counting=Contexts(64))
    assert ORACLE.configuration(in_contexts, {}, [AllocateNode(0)]) is None


def test_where_memory_may_be_exhausted_nothing_is_said(contract: Contract) -> None:
    limited = attrs.evolve(contract, exhaustion=Exhaustion(1024))
    assert ORACLE.configuration(limited, {}, [AllocateNode(0)]) is None


def test_everything_but_the_samples_may_differ() -> None:
    first = Observation(2, 1, "sMs", alive=False, free=0, limit=8, top=64, sample_point=8)
    second = Observation(2, 0, "ss", alive=True, free=80, limit=88, top=128, sample_point=88)
    ORACLE.check(first, second)
    with pytest.raises(Mismatch, match=r"^invariance: "):
        ORACLE.check(first, attrs.evolve(second, samples=1))


@pytest.mark.parametrize(
    "actions", [(), (AddMemoryPressure(8), Unpin(0), Fork(), SetCallback(None))], ids=str
)
def test_a_second_run_doubles_the_nursery(contract: Contract, actions: tuple[Action, ...]) -> None:
    configuration = ORACLE.configuration(contract, {"nursery_bytes": 256}, actions)
    assert configuration == {"nursery_bytes": 512}


def test_without_a_setting_the_contract_s_nursery_is_doubled(contract: Contract) -> None:
    assert ORACLE.configuration(contract, {}, ()) == {"nursery_bytes": 512}


def test_the_other_settings_stay(contract: Contract) -> None:
    cards = Setting("cards", 4, Range(0, 32))
    other = attrs.evolve(contract, settings=(NURSERY, cards))
    assert ORACLE.configuration(other, {"cards": 0}, ()) == {"cards": 0, "nursery_bytes": 512}


@pytest.mark.parametrize(
    "settings",
    [
        (),
        (Setting("heap_bytes", 256, Range(64, 65536)),),
        (attrs.evolve(NURSERY, range=Range(64, 504, 8)),),
        (attrs.evolve(NURSERY, range=Range(64, 65536, 24)),),
        (attrs.evolve(NURSERY, choices=(256, 1024)),),
        (attrs.evolve(NURSERY, at_most="heap"), Setting("heap", 500, Range(0, 65536))),
    ],
    ids=["none", "another", "too-large", "no-multiple", "no-choice", "more-than-the-heap"],
)
def test_without_twice_the_nursery_nothing_can_be_said(
    contract: Contract, settings: tuple[Setting, ...]
) -> None:
    assert ORACLE.configuration(attrs.evolve(contract, settings=settings), {}, ()) is None


@pytest.mark.parametrize("action", [Pin(0), SetCallback(0)], ids=str)
def test_traces_that_depend_on_collections_are_left_out(contract: Contract, action: Action) -> None:
    assert ORACLE.configuration(contract, {}, [CheckHeap(), action]) is None


@pytest.mark.parametrize("action", [AllocateNode(0), EnableSampling(8), CollectMinor()], ids=str)
def test_all_actions_stay(action: Action) -> None:
    assert ORACLE.instead(action) == action


# On targets.


class DrawnDistances(Sampling):
    """Samples are as far apart as a generator draws, from a word to twice the period."""

    def __init__(self, configuration: Configuration, nursery: Nursery, events: Events) -> None:
        super().__init__(configuration, nursery, events)
        self._random = random.Random(1)

    def next_distance(self) -> int:
        return 8 * self._random.randint(1, self.period_bytes // 4)


class RedrawnByCollections(DrawnDistances):
    """A minor collection draws a new distance to the next sample."""

    def after_minor_collection(self) -> None:
        if self.period_bytes:
            self.begin()


class UnstatedTarget(ReferenceTarget):
    """The reference with other sampling, whose contract leaves the distances unstated."""

    def __init__(self, sampling: type[Sampling]) -> None:
        super().__init__("unstated", Parts(sampling=sampling))

    def start(self, configuration: Mapping[str, int]) -> Contract:
        contract = super().start(configuration)
        return with_rule(contract, distances="unstated")


def oracles_that_fail(target: Target, actions: int) -> set[str]:
    """The oracles of all failures in a fuzz run of this number of actions."""
    engine, probes = RandomEngine(target, "invariance"), ProbeCounter()
    number = done = 0
    failing = set()
    while done < actions:
        slice_ = engine.run_slice(number, actions, probes)
        number += 1
        done += slice_.actions
        failing |= {failure.oracle for failure in slice_.failures}
    return failing


@pytest.mark.parametrize(
    "actions",
    [
        (EnableSampling(40), *[AllocateNode(0)] * 20),
        (EnableSampling(72), *[AllocateNode(0), AllocateString(100)] * 9, DisableSampling()),
        (EnableSampling(40), AllocateNode(0), AddMemoryPressure(2**40), *[AllocateNode(0)] * 9),
        (EnableSampling(40), *[AllocateNode(0)] * 7, PauseSampling(), ResumeSampling(), Fork()),
    ],
    ids=range(4),
)
@pytest.mark.parametrize("sampling", [Sampling, DrawnDistances])
def test_a_correct_target_samples_the_same_under_twice_the_nursery(
    sampling: type[Sampling], actions: tuple[Action, ...]
) -> None:
    failure = run_actions(UnstatedTarget(sampling), {}, actions, RERUN_ORACLES.values())
    assert failure is None


def test_where_the_distances_are_unstated_a_distance_that_a_collection_changes_is_found() -> None:
    actions = (EnableSampling(64), *[AllocateNode(0)] * 60)
    target = UnstatedTarget(RedrawnByCollections)
    assert run_actions(target, {}, actions) is None
    failure = run_actions(target, {}, actions, RERUN_ORACLES.values())
    assert failure is not None
    assert (failure.oracle, failure.field) == ("invariance", "samples")


@pytest.mark.slow
def test_a_fuzz_run_finds_nothing_in_a_target_that_draws_its_distances() -> None:
    assert oracles_that_fail(UnstatedTarget(DrawnDistances), ACTIONS) == set()


@pytest.mark.slow
def test_a_fuzz_run_finds_by_invariance_alone_that_a_collection_changes_a_drawn_distance() -> None:
    assert oracles_that_fail(UnstatedTarget(RedrawnByCollections), ACTIONS) == {"invariance"}


class HalfIsLarge(ReferenceTarget):
    """The reference, but half a nursery makes an object large."""

    def __init__(self) -> None:
        super().__init__("half", Parts())

    def start(self, configuration: Mapping[str, int]) -> Contract:
        half = configuration.get("nursery_bytes", 256) // 2
        return super().start({**configuration, "large_object_bytes": half})


def test_where_a_larger_nursery_changes_what_objects_cost_nothing_is_said() -> None:
    # Outside the nursery 129 bytes count as they are, and within as 136.
    actions = (EnableSampling(8), *[AllocateString(104)] * 20)
    assert run_actions(HalfIsLarge(), {}, actions, RERUN_ORACLES.values()) is None


def test_an_error_under_twice_the_nursery_is_found() -> None:
    seen, failed = Observation(), Observation(error="Error: there is no room")
    with pytest.raises(Mismatch, match=r"^invariance: error: expected None, got Error"):
        InvarianceOracle().check(seen, failed)
