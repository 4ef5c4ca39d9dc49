"""The survival oracle: each sampled object is reported once, at the next minor collection."""

import attrs
import pytest

from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Bench
from fuzz.oracles.oracle import Mismatch
from fuzz.oracles.sampling import SamplingOracle
from fuzz.oracles.survival import LISTED_MAX, SurvivalOracle
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    DisableSampling,
    EnableSampling,
    Fork,
    Free,
    PauseSampling,
    Pin,
    ResumeSampling,
    SetCallback,
    Write,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation, Report
from fuzz.protocol.target import Target
from fuzz.run import Run

SURVIVED, OUTSIDE = 1, 2
NODE, WEAKREF, ARRAY, STRING = 1 << 2, 2 << 2, 3 << 2, 4 << 2


class Judge:
    """A survival oracle over a shadow heap that follows what it is told."""

    def __init__(self, contract: Contract) -> None:
        self.shadow = Shadow(contract)
        self.sampling = SamplingOracle(contract, self.shadow)
        self.oracle = SurvivalOracle(contract, self.shadow)

    def hear(self, action: Action, *reported: int, samples: int = 0, minors: int = 0) -> None:
        reports = [Report([*reported], 0, 0, 0)] if reported else []
        self.shadow.follow(action, minors)
        observation = Observation(samples, minors, reports=reports)
        self.oracle.check(action, observation, self.sampling.facts)

    def collect(self, *reported: int) -> None:
        self.hear(CollectMinor(), *reported, minors=1)

    def mismatch(self, *reported: int) -> Mismatch:
        with pytest.raises(Mismatch, match=r"^survival: ") as raised:
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
    told = Observation(minors=2, reports=reports)
    judge.oracle.check(CollectFull(), told, judge.sampling.facts)
    assert judge.oracle.pending == {}


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


@pytest.mark.parametrize("action", [PauseSampling(), Fork()], ids=str)
def test_samples_that_pausing_or_forking_dropped_are_never_reported(
    judge: Judge, action: Action
) -> None:
    judge.hear(AllocateNode(0), samples=1)
    judge.hear(action)
    judge.hear(ResumeSampling())
    assert judge.mismatch(NODE | SURVIVED).expected == 0


def test_a_string_that_is_old_from_the_start_survives_also_if_nothing_holds_it(
    judge: Judge,
) -> None:
    judge.hear(AllocateOldString(0), samples=1)
    judge.hear(Free(0))
    judge.collect(STRING | OUTSIDE | SURVIVED)


def test_a_string_that_is_old_from_the_start_does_not_die_young(judge: Judge) -> None:
    judge.hear(AllocateOldString(0), samples=1)
    assert judge.mismatch(STRING | OUTSIDE).field == "entry"


def test_a_pinned_object_is_reported_once(judge: Judge) -> None:
    judge.hear(AllocateString(0), samples=1)
    judge.hear(Pin(0))
    judge.collect(STRING | SURVIVED)
    assert judge.mismatch(STRING | SURVIVED).expected == 0


def test_a_pinned_object_that_nothing_holds_dies(judge: Judge) -> None:
    judge.hear(AllocateString(0), samples=1)
    judge.hear(Pin(0))
    judge.hear(Free(0))
    judge.collect(STRING)


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


def test_a_report_without_an_entry_is_too_many(judge: Judge) -> None:
    judge.shadow.follow(CollectMinor(), minors=1)
    told = Observation(minors=1, reports=[Report([], 0, 0, 0)])
    with pytest.raises(Mismatch, match=r"^survival: reports: expected 0, got 1"):
        judge.oracle.check(CollectMinor(), told, judge.sampling.facts)


def test_a_minor_collection_makes_one_report_at_most(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=2)
    judge.shadow.follow(CollectMinor(), minors=1)
    told = Observation(minors=1, reports=[Report([NODE | SURVIVED], 0, 0, 0)] * 2)
    with pytest.raises(Mismatch, match=r"^survival: reports: expected 1, got 2"):
        judge.oracle.check(CollectMinor(), told, judge.sampling.facts)


def test_a_report_without_a_collection_is_too_many(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    with pytest.raises(Mismatch, match=r"^survival: reported: expected 0, got 1"):
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


def test_the_sampled_objects_are_named_with_how_often_each_was(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=2)
    judge.hear(AllocateString(0), samples=1)
    assert judge.mismatch(NODE).why == "sampled objects: node #1 (2 times), string #2"


def test_of_many_sampled_objects_only_some_are_named(judge: Judge) -> None:
    for _ in range(LISTED_MAX + 2):
        judge.hear(AllocateNode(0), samples=1)
    assert judge.mismatch(NODE).why.endswith(f"node #{LISTED_MAX} and 2 more")


def test_the_reports_other_figures_are_not_this_oracles(judge: Judge) -> None:
    judge.hear(AllocateNode(0), samples=1)
    judge.shadow.follow(CollectMinor(), minors=1)
    report = Report([NODE | SURVIVED], memory_used_bytes=-1, arena_bytes=-1, major_state=9)
    told = Observation(minors=1, reports=[report])
    judge.oracle.check(CollectMinor(), told, judge.sampling.facts)
    assert judge.oracle.pending == {}


# Callbacks.

CALLBACK = SetCallback(7)
"""Its string takes as many bytes as a node."""


@pytest.fixture
def bench(contract: Contract) -> Bench:
    """Sampling is on, 64 bytes were counted since the last sample, and there is a callback."""
    return bench_of(contract)


def bench_of(contract: Contract) -> Bench:
    bench = Bench(attrs.evolve(contract, observes=("samples", "reports")))
    bench.judge(CALLBACK, Observation())
    bench.judge(EnableSampling(64), Observation())
    for _ in range(2):
        bench.judge(AllocateNode(0), Observation(size=32, outside=False))
    return bench


def collecting(order: str, *reported: int) -> Observation:
    """What is said of a node whose allocation collects."""
    reports = [Report([*reported], 0, 0, 0)] if reported else []
    told = Observation(order.count("s"), order.count("M"), order, size=32, outside=False)
    return attrs.evolve(told, reports=reports)


def minor(*reported: int) -> Observation:
    reports = [Report([*reported], 0, 0, 0)] if reported else []
    return Observation(minors=1, order="M", reports=reports)


def test_a_callbacks_string_that_was_sampled_is_reported_dead_by_the_next_collection(
    bench: Bench,
) -> None:
    bench.judge(AllocateNode(0), collecting("Ms"))
    bench.judge(CollectMinor(), minor(STRING))
    assert bench.pending == {}


@pytest.mark.parametrize(
    "reported", [(), (STRING | SURVIVED,), (NODE | SURVIVED,), (STRING, NODE | SURVIVED)]
)
def test_anything_else_of_a_callbacks_string_is_wrong(
    bench: Bench, reported: tuple[int, ...]
) -> None:
    bench.judge(AllocateNode(0), collecting("Ms"))
    with pytest.raises(Mismatch, match=r"^survival: "):
        bench.judge(CollectMinor(), minor(*reported))


def test_an_object_that_was_sampled_before_it_was_found_not_to_fit_is_reported_itself(
    bench: Bench,
) -> None:
    bench.judge(AllocateNode(0), collecting("sM"))
    bench.judge(CollectMinor(), minor(NODE | SURVIVED))
    assert bench.pending == {}


def test_an_object_that_was_sampled_before_it_was_found_not_to_fit_is_no_callbacks_string(
    bench: Bench,
) -> None:
    bench.judge(AllocateNode(0), collecting("sM"))
    with pytest.raises(Mismatch, match=r"^survival: .*string"):
        bench.judge(CollectMinor(), minor(STRING))


def test_both_are_reported_if_both_were_sampled(bench: Bench) -> None:
    bench.judge(AllocateNode(0), Observation(1, size=32, outside=False))
    bench.judge(AllocateNode(0), Observation(size=32, outside=False))
    bench.judge(EnableSampling(24), Observation())
    bench.judge(AllocateNode(0), collecting("Mss", NODE | SURVIVED))
    bench.judge(CollectMinor(), minor(STRING, NODE | SURVIVED))
    assert bench.pending == {}


def test_a_string_that_a_second_collection_of_the_action_finds_dead_is_reported_in_it(
    contract: Contract,
) -> None:
    bench = bench_of(attrs.evolve(contract, nursery_bytes=56))
    bench.judge(AllocateNode(0), collecting("MsMR", STRING))
    bench.judge(CollectMinor(), minor())
    assert bench.pending == {}


@pytest.mark.parametrize("reported", [(), (STRING | SURVIVED,), (STRING, STRING)])
def test_anything_else_of_a_string_that_a_second_collection_finds_dead_is_wrong(
    contract: Contract, reported: tuple[int, ...]
) -> None:
    bench = bench_of(attrs.evolve(contract, nursery_bytes=56))
    with pytest.raises(Mismatch, match=r"^survival: "):
        bench.judge(AllocateNode(0), collecting("MsM", *reported))


def test_what_was_pending_before_is_reported_with_a_callbacks_string(contract: Contract) -> None:
    bench = bench_of(attrs.evolve(contract, nursery_bytes=56))
    bench.judge(AllocateNode(0), Observation(1, size=32, outside=False))
    bench.judge(EnableSampling(24), Observation())
    bench.judge(AllocateNode(0), collecting("MRsMRs", NODE | SURVIVED, STRING))
    bench.judge(CollectMinor(), minor(NODE | SURVIVED))
    assert bench.pending == {}


def test_the_reference_reports_a_callbacks_string_in_the_action_that_allocated_it(
    reference: Target,
) -> None:
    run = Run(reference, {"nursery_bytes": 64, "large_object_bytes": 64})
    for action in (CALLBACK, EnableSampling(72), AllocateString(31)):
        run.step(action)
    told = run.step(AllocateString(38))
    assert [report.entries for report in told.reports] == [[STRING]]
    told = run.step(CollectMinor())
    assert [report.entries for report in told.reports] == [[STRING | SURVIVED]]


# Where the contract does not state how far samples are apart.


@pytest.fixture
def unstated(contract: Contract) -> Bench:
    rule = attrs.evolve(contract.sampling, distances="unstated")
    return bench_of(attrs.evolve(contract, sampling=rule))


@pytest.mark.parametrize("entry", [STRING, NODE | SURVIVED])
def test_where_nobody_knows_what_a_callback_took_any_report_is_right(
    unstated: Bench, entry: int
) -> None:
    unstated.judge(AllocateNode(0), collecting("Ms"))
    unstated.judge(CollectMinor(), minor(entry))
    assert unstated.pending == {}


def test_the_next_collection_but_one_is_judged_again(unstated: Bench) -> None:
    unstated.judge(AllocateNode(0), collecting("Ms"))
    unstated.judge(AllocateNode(0), Observation(1, size=32, outside=False))
    unstated.judge(CollectMinor(), minor(STRING, NODE | SURVIVED))
    with pytest.raises(Mismatch, match=r"^survival: reported: expected 0, got 1"):
        unstated.judge(CollectMinor(), minor(NODE | SURVIVED))


@pytest.mark.parametrize("action", [DisableSampling(), PauseSampling(), Fork()], ids=str)
def test_what_nobody_knows_is_dropped_like_any_sample(unstated: Bench, action: Action) -> None:
    unstated.judge(AllocateNode(0), collecting("Ms"))
    unstated.judge(action, Observation())
    with pytest.raises(Mismatch, match=r"^survival: reported: expected 0, got 1"):
        unstated.judge(CollectMinor(), minor(STRING))


def test_a_report_without_a_collection_is_wrong_whatever_is_known(unstated: Bench) -> None:
    unstated.judge(AllocateNode(0), collecting("Ms"))
    with pytest.raises(Mismatch, match=r"^survival: reported: expected 0, got 1"):
        unstated.judge(CheckHeap(), Observation(reports=[Report([STRING], 0, 0, 0)]))


def test_an_object_may_be_sampled_more_often_than_there_is_memory(unstated: Bench) -> None:
    unstated.judge(AllocateNode(0), Observation(10**14, size=32, outside=False))
    with pytest.raises(Mismatch, match=r"^survival: reported: expected 100000000000000, got 1"):
        unstated.judge(CollectMinor(), minor(NODE | SURVIVED))
