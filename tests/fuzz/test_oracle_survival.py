"""The survival oracle: each sampled object is reported once, at the next minor collection."""

import attrs
import pytest

from fuzz.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    DisableSampling,
    EnableSampling,
    Free,
    Write,
)
from fuzz.contract import Contract
from fuzz.observation import Observation, Report
from fuzz.oracles.survival import SurvivalMismatch, SurvivalOracle
from fuzz.shadow import Shadow

SURVIVED, OUTSIDE = 1, 2
NODE, WEAKREF, ARRAY, STRING = 1 << 2, 2 << 2, 3 << 2, 4 << 2


class Judge:
    """A survival oracle over a shadow heap that follows what it is told."""

    def __init__(self, contract: Contract) -> None:
        self.shadow = Shadow(contract)
        self.oracle = SurvivalOracle(contract, self.shadow)

    def hear(self, action: Action, *reported: int, samples: int = 0, minors: int = 0) -> None:
        reports = [Report([*reported], 0, 0, 0)] if reported else []
        self.shadow.follow(action, minors)
        self.oracle.check(action, Observation(samples, minors, reports=reports))

    def collect(self, *reported: int) -> None:
        self.hear(CollectMinor(), *reported, minors=1)

    def mismatch(self, *reported: int) -> SurvivalMismatch:
        with pytest.raises(SurvivalMismatch) as raised:
            self.collect(*reported)
        return raised.value


@pytest.fixture
def judge(contract: Contract) -> Judge:
    return Judge(contract)


# What is right.


def test_an_object_that_survives_and_is_freed_by_the_same_full_collection_has_survived(
    judge: Judge,
) -> None:
    # An old object that nobody reaches any more keeps a sampled young one alive in the minor
    # collection with which a full one begins. A session of nine million actions found the oracle
    # to expect its death.
    judge.hear(AllocateNode(0))
    judge.hear(CollectMinor(), minors=1)
    judge.hear(AllocateNode(0), samples=1)
    judge.hear(AllocateWeakref(1))
    for action in (Write(0, 0, 1), Free(0), Free(0)):
        judge.hear(action)
    judge.hear(CollectFull(), NODE | SURVIVED, minors=5)


def test_a_sampled_object_that_survives_is_reported_so(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    judge.collect(NODE | SURVIVED)


def test_a_sampled_object_that_dies_is_reported_so(judge: Judge) -> None:
    judge.hear(AllocateString(0), samples=1)
    judge.hear(Free(0))
    judge.collect(STRING)


@pytest.mark.parametrize(
    "action", [AllocateArray(6), AllocateArray(0, nonmovable=True)], ids=["large", "nonmovable"]
)
def test_an_object_outside_is_reported_so(judge: Judge, action: Action) -> None:
    judge.hear(action, samples=1)
    judge.collect(ARRAY | OUTSIDE | SURVIVED)


def test_an_object_sampled_twice_is_reported_twice(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=2)
    judge.collect(NODE | SURVIVED, NODE | SURVIVED)


def test_the_order_of_the_entries_means_nothing(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    judge.hear(AllocateString(0), samples=1)
    judge.collect(STRING | SURVIVED, NODE | SURVIVED)


def test_entries_may_be_spread_over_several_reports(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=2)
    reports = [Report([NODE | SURVIVED], 0, 0, 0), Report([NODE | SURVIVED], 0, 0, 0)]
    judge.shadow.follow(CollectFull(), minors=2)
    judge.oracle.check(CollectFull(), Observation(minors=2, reports=reports))
    assert judge.oracle.pending == []


def test_an_object_that_was_not_sampled_is_not_reported(judge: Judge) -> None:
    judge.hear(AllocateNode(0))
    judge.collect()
    assert judge.mismatch(NODE | SURVIVED).expected == 0


def test_a_collection_inside_an_allocation_reports_earlier_objects_only(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    judge.hear(AllocateString(0), NODE | SURVIVED, samples=1, minors=1)
    judge.collect(STRING | SURVIVED)


def test_samples_that_were_dropped_are_never_reported(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    judge.hear(DisableSampling())
    judge.collect()


def test_disabling_with_a_report_reports_and_forgets(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    judge.hear(DisableSampling(report=True), NODE | SURVIVED, minors=1)
    judge.collect()


def test_enabling_again_keeps_the_pending_samples(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    judge.hear(EnableSampling(8))
    judge.collect(NODE | SURVIVED)


# What is wrong.


def test_an_object_reported_by_no_collection_is_missing(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    mismatch = judge.mismatch()
    assert (mismatch.oracle, mismatch.field, mismatch.direction) == ("survival", "reported", "less")


def test_an_object_reported_twice_is_too_many(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    mismatch = judge.mismatch(NODE | SURVIVED, NODE | SURVIVED)
    assert (mismatch.expected, mismatch.got, mismatch.direction) == (1, 2, "more")


def test_an_object_reported_by_two_collections_is_too_many(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    judge.collect(NODE | SURVIVED)
    assert judge.mismatch(NODE | SURVIVED).direction == "more"


def test_a_report_without_a_collection_is_too_many(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    with pytest.raises(SurvivalMismatch, match="reported: expected 0, got 1"):
        judge.hear(CheckHeap(), NODE | SURVIVED)


@pytest.mark.parametrize(
    ("entry", "described"),
    [
        (NODE, ["node", "in the nursery", "died"]),
        (NODE | OUTSIDE | SURVIVED, ["node", "outside", "survived"]),
        (WEAKREF | SURVIVED, ["weakref", "in the nursery", "survived"]),
        (9 << 2 | SURVIVED, [9, "in the nursery", "survived"]),
    ],
)
def test_an_entry_that_is_wrong_is_described(
    judge: Judge, entry: int, described: list[object]
) -> None:
    judge.hear(AllocateNode(0), samples=1)
    mismatch = judge.mismatch(entry)
    assert (mismatch.field, mismatch.got, mismatch.direction) == ("entry", described, "different")
    assert mismatch.expected == ["node", "in the nursery", "survived"]


def test_the_reports_other_figures_are_not_this_oracles(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    judge.shadow.follow(CollectMinor(), minors=1)
    report = Report([NODE | SURVIVED], memory_used_bytes=-1, arena_bytes=-1, major_state=9)
    judge.oracle.check(CollectMinor(), attrs.evolve(Observation(minors=1), reports=[report]))
    assert judge.oracle.pending == []
