"""The heap oracle: what a target says of its heap is what the mutator made of it."""

import attrs
import pytest

from fuzz.mutator.shadow import Age
from fuzz.oracles import Bench, Mismatch
from fuzz.protocol.actions import (
    Action,
    AddMemoryPressure,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectProgress,
    CollectStep,
    DisableSampling,
    EnableSampling,
    Fork,
    Free,
    PauseSampling,
    Pin,
    Read,
    ReadNumber,
    ReadWeakref,
    ResumeSampling,
    RunAtOnce,
    SetCallback,
    TakeIdentity,
    Unpin,
    Write,
    WriteNumber,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation, Report

MINOR = Observation(minors=1)


@pytest.fixture
def bench(contract: Contract) -> Bench:
    """Only the heap oracle, and no walks."""
    return Bench(attrs.evolve(contract, promises=("collections",)))


@pytest.fixture
def walking_bench(contract: Contract) -> Bench:
    """The same with walks; nothing is prebuilt."""
    return Bench(attrs.evolve(contract, observes=("graph",), prebuilt=()))


def hear(bench: Bench, *actions: Action) -> None:
    """Actions that went well and told nothing; collections collect once."""
    collections = CollectMinor | CollectStep | CollectProgress | CollectFull
    for action in actions:
        bench.judge(action, Observation(minors=int(isinstance(action, collections))))


def mismatch_of(bench: Bench, action: Action, observation: Observation) -> Mismatch:
    with pytest.raises(Mismatch, match=r"^heap: ") as raised:
        bench.judge(action, observation)
    return raised.value


# Errors and collections.


@pytest.mark.parametrize(
    "observation",
    [
        Observation(minors=1, order="s"),
        Observation(minors=1, order="MM"),
        Observation(minors=1, order=""),
        Observation(minors=1, order="RM", reports=[Report([], 0, 0, 0)]),
        Observation(minors=1, order="MR"),
    ],
    ids=lambda observation: observation.order,
)
def test_an_order_of_other_events_than_are_counted_is_wrong(
    contract: Contract, observation: Observation
) -> None:
    bench = Bench(attrs.evolve(contract, observes=("order",)))
    assert mismatch_of(bench, CollectMinor(), observation).field == "order"


def test_a_report_right_after_its_minor_collection_is_in_order(contract: Contract) -> None:
    bench = Bench(attrs.evolve(contract, observes=("order",)))
    seen = Observation(minors=2, order="MRM", reports=[Report([], 0, 0, 0)])
    bench.judge(CollectProgress(), seen)


@pytest.mark.parametrize(
    ("error", "direction"),
    [
        ("DanglingReferenceError: a reference leads to", "DanglingReferenceError"),
        ("crash IndexError: list index", "crash IndexError"),
    ],
)
def test_an_error_is_wrong_whatever_it_is(bench: Bench, error: str, direction: str) -> None:
    mismatch = mismatch_of(bench, AllocateNode(0), Observation(error=error))
    assert (mismatch.field, mismatch.got, mismatch.direction) == ("error", error, direction)


@pytest.mark.parametrize(
    "action", [CollectMinor(), CollectStep(), DisableSampling(report=True)], ids=str
)
@pytest.mark.parametrize(("minors", "direction"), [(0, "less"), (2, "more")])
def test_one_minor_collection_is_part_of_the_action(
    bench: Bench, action: Action, minors: int, direction: str
) -> None:
    bench.judge(action, MINOR)
    mismatch = mismatch_of(bench, action, Observation(minors=minors))
    assert (mismatch.field, mismatch.expected, mismatch.direction) == ("minors", 1, direction)


@pytest.mark.parametrize("action", [CollectProgress(), CollectFull()], ids=str)
def test_at_least_one_minor_collection_is_part_of_the_action(bench: Bench, action: Action) -> None:
    bench.judge(action, MINOR)
    bench.judge(action, Observation(minors=7))
    assert mismatch_of(bench, action, Observation()).direction == "less"


@pytest.mark.parametrize(
    "action", [DisableSampling(), EnableSampling(8), CheckHeap(), ReadNumber(0)], ids=str
)
def test_no_other_action_collects(bench: Bench, action: Action) -> None:
    hear(bench, AllocateNode(0))
    mismatch = mismatch_of(bench, action, MINOR)
    assert (mismatch.field, mismatch.expected, mismatch.got) == ("minors", 0, 1)


@pytest.mark.parametrize(
    "action",
    [
        *(PauseSampling(), ResumeSampling(), Fork(), SetCallback(0), SetCallback(None)),
        *(AddMemoryPressure(2**40), Pin(0)),
    ],
    ids=str,
)
def test_what_bears_on_collections_does_not_collect_by_itself(bench: Bench, action: Action) -> None:
    hear(bench, AllocateString(0))
    mismatch = mismatch_of(bench, action, MINOR)
    assert (mismatch.field, mismatch.expected, mismatch.got) == ("minors", 0, 1)


def test_unpinning_does_not_collect(bench: Bench) -> None:
    hear(bench, AllocateString(0), Pin(0))
    assert mismatch_of(bench, Unpin(0), MINOR).field == "minors"


@pytest.mark.parametrize("action", [CollectMinor(), CollectFull(), ReadNumber(0)], ids=str)
def test_more_collections_may_come_unless_the_contract_promises_when(
    contract: Contract, action: Action
) -> None:
    bench = Bench(contract)
    hear(bench, AllocateNode(0))
    bench.judge(action, Observation(minors=3, value=0))


def test_one_that_is_asked_for_comes_whatever_the_contract_promises(contract: Contract) -> None:
    mismatch = mismatch_of(Bench(contract), CollectMinor(), Observation())
    assert (mismatch.field, mismatch.expected, mismatch.got) == ("minors", 1, 0)


@pytest.mark.parametrize("action", [AllocateNode(0), AllocateOldString(0)], ids=str)
@pytest.mark.parametrize("minors", [0, 1, 3])
def test_an_allocation_may_collect(bench: Bench, action: Action, minors: int) -> None:
    bench.judge(action, Observation(minors=minors))
    assert len(bench.shadow.roots) == 1


# Reads.


def test_a_read_finds_what_was_written_in_its_lowest_slot(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateNode(1), Write(0, 0, 1))
    bench.judge(Read(0, 0), Observation(value=1))
    assert len(bench.shadow.roots) == 3


def test_a_read_that_finds_a_freed_root_finds_it_in_the_new_slot(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateNode(1), Write(0, 0, 1), Free(1))
    assert mismatch_of(bench, Read(0, 0), Observation(value=0)).expected == 1


def test_a_read_that_finds_another_object_is_wrong(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateNode(1), Write(0, 0, 1))
    mismatch = mismatch_of(bench, Read(0, 0), Observation(value=0))
    assert (mismatch.field, mismatch.expected, mismatch.direction) == ("value", 1, "less")


def test_a_read_that_finds_nothing_where_something_was_written_is_wrong(bench: Bench) -> None:
    hear(bench, AllocateNode(0), Write(0, 1, 0))
    mismatch = mismatch_of(bench, Read(0, 1), Observation())
    assert (mismatch.expected, mismatch.got, mismatch.direction) == (0, None, "different")
    assert mismatch.why == "what was last written to field 1 of root 0"


def test_a_read_that_finds_something_where_nothing_was_written_is_wrong(bench: Bench) -> None:
    hear(bench, AllocateArray(1))
    bench.judge(Read(0, 0), Observation(value=None))
    assert mismatch_of(bench, Read(0, 0), Observation(value=0)).expected is None


@pytest.mark.parametrize("action", [AllocateNode(5), AllocateString(5), AllocateArray(5)], ids=str)
@pytest.mark.parametrize(("got", "direction"), [(4, "less"), (6, "more"), (None, "different")])
def test_a_number_that_was_not_written_is_wrong(
    bench: Bench, action: Action, got: int | None, direction: str
) -> None:
    hear(bench, action)
    bench.judge(ReadNumber(0), Observation(value=5))
    mismatch = mismatch_of(bench, ReadNumber(0), Observation(value=got))
    assert (mismatch.field, mismatch.expected, mismatch.direction) == ("value", 5, direction)


def test_the_number_last_written_counts(bench: Bench) -> None:
    hear(bench, AllocateNode(5), WriteNumber(0, 6))
    assert mismatch_of(bench, ReadNumber(0), Observation(value=5)).expected == 6


# Weak references.


def test_a_weak_reference_that_says_nothing_is_wrong(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateWeakref(0))
    mismatch = mismatch_of(bench, ReadWeakref(1), Observation())
    assert (mismatch.field, mismatch.got) == ("alive", None)


def test_a_weak_reference_to_a_young_object_is_alive_even_if_nothing_holds_it(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateWeakref(0), Free(0))
    bench.judge(ReadWeakref(0), Observation(alive=True))
    mismatch = mismatch_of(bench, ReadWeakref(0), Observation(alive=False))
    assert (mismatch.field, mismatch.why) == ("alive", "its object is young")


def test_a_weak_reference_to_a_reachable_object_is_alive(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateWeakref(0), CollectFull())
    bench.judge(ReadWeakref(1), Observation(alive=True))
    mismatch = mismatch_of(bench, ReadWeakref(1), Observation(alive=False))
    assert (mismatch.expected, mismatch.why) == (True, "its object is reachable")


def test_a_weak_reference_dies_with_a_young_object(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateWeakref(0), Free(0), CollectMinor())
    bench.judge(ReadWeakref(0), Observation(alive=False))
    mismatch = mismatch_of(bench, ReadWeakref(0), Observation(alive=True))
    assert (mismatch.expected, mismatch.got) == (False, True)


def test_a_weak_reference_to_an_unreachable_old_object_may_be_alive(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateWeakref(0), CollectMinor(), Free(0), CollectStep())
    bench.judge(ReadWeakref(0), Observation(alive=True))
    assert bench.shadow.roots[0].target is not None


def test_a_weak_reference_to_an_unreachable_old_object_is_dead_after_a_full_collection(
    bench: Bench,
) -> None:
    hear(bench, AllocateNode(0), AllocateWeakref(0), CollectMinor(), Free(0), CollectFull())
    mismatch = mismatch_of(bench, ReadWeakref(0), Observation(alive=True))
    assert mismatch.why == "its object did not survive"


TO_DEAD_NODE = [AllocateNode(0), AllocateWeakref(0), Free(0)]
"""Of these the weak reference survives, with 16 bytes."""


def with_survivor_bytes(contract: Contract, survivor_bytes: int) -> Bench:
    return Bench(attrs.evolve(contract, observes=("alive",), survivor_bytes=survivor_bytes))


@pytest.mark.parametrize("alive", [True, False])
def test_beyond_the_survivor_bytes_a_weak_reference_may_keep_its_object_until_a_full_collection(
    contract: Contract, alive: bool
) -> None:
    bench = with_survivor_bytes(contract, 16 + 15)
    hear(bench, *TO_DEAD_NODE, CollectMinor(), *TO_DEAD_NODE[:1], AllocateWeakref(1), Free(1))
    hear(bench, CollectMinor())
    bench.judge(ReadWeakref(1), Observation(alive=alive))
    hear(bench, CollectFull())
    assert mismatch_of(bench, ReadWeakref(1), Observation(alive=True)).expected is False


@pytest.mark.parametrize("collection", [CollectMinor(), CollectFull()])
def test_within_the_survivor_bytes_a_weak_reference_dies_with_its_object(
    contract: Contract, collection: Action
) -> None:
    """A full collection begins the count again."""
    survivor_bytes = 16 * (1 + isinstance(collection, CollectMinor))
    bench = with_survivor_bytes(contract, survivor_bytes)
    hear(bench, *TO_DEAD_NODE, collection, *TO_DEAD_NODE[:1], AllocateWeakref(1), Free(1))
    hear(bench, CollectMinor())
    assert mismatch_of(bench, ReadWeakref(1), Observation(alive=True)).expected is False


def test_threads_at_once_may_fill_the_survivor_bytes_if_they_collect(contract: Contract) -> None:
    bench = with_survivor_bytes(contract, 1000)
    hear(bench, *TO_DEAD_NODE)
    bench.judge(RunAtOnce(1, 0), Observation(minors=1))
    bench.judge(ReadWeakref(0), Observation(alive=True))


def test_a_weak_reference_that_died_stays_dead(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateWeakref(0), CollectMinor(), Free(0), CollectStep())
    bench.judge(ReadWeakref(0), Observation(alive=False))
    assert mismatch_of(bench, ReadWeakref(0), Observation(alive=True)).expected is False


def test_all_weak_references_to_an_object_die_together(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateWeakref(0), AllocateWeakref(0), CollectMinor(), Free(0))
    bench.judge(ReadWeakref(0), Observation(alive=False))
    assert mismatch_of(bench, ReadWeakref(1), Observation(alive=True)).expected is False


def test_a_weak_reference_to_a_pinned_object_that_the_roots_hold_is_alive(bench: Bench) -> None:
    hear(bench, AllocateString(0), AllocateWeakref(0), Pin(0), CollectMinor())
    mismatch = mismatch_of(bench, ReadWeakref(1), Observation(alive=False))
    assert (mismatch.expected, mismatch.why) == (True, "its object is young")


def test_a_weak_reference_to_a_pinned_object_that_nothing_held_at_once_is_dead(
    bench: Bench,
) -> None:
    hear(bench, AllocateString(0), AllocateWeakref(0), Pin(0), Free(0), CollectMinor())
    assert mismatch_of(bench, ReadWeakref(0), Observation(alive=True)).expected is False


@pytest.mark.parametrize("alive", [True, False])
def test_a_weak_reference_to_a_pinned_object_that_a_dead_one_may_hold_may_be_either(
    bench: Bench, alive: bool
) -> None:
    hear(bench, AllocateNode(0), CollectMinor(), AllocateString(0), AllocateWeakref(1), Pin(1))
    hear(bench, Write(0, 0, 1), Free(1), CollectMinor(), Free(0), CollectMinor())
    bench.judge(ReadWeakref(0), Observation(alive=alive))
    hear(bench, CollectFull())
    assert mismatch_of(bench, ReadWeakref(0), Observation(alive=True)).expected is False


# Identities.


def test_an_identity_that_is_missing_is_wrong(bench: Bench) -> None:
    hear(bench, AllocateNode(0))
    mismatch = mismatch_of(bench, TakeIdentity(0), Observation())
    assert (mismatch.field, mismatch.got, mismatch.why) == ("identity", None, "of root 0")


@pytest.mark.parametrize(("got", "direction"), [(6, "less"), (8, "more")])
def test_an_identity_that_changes_is_wrong(bench: Bench, got: int, direction: str) -> None:
    hear(bench, AllocateNode(0))
    bench.judge(TakeIdentity(0), Observation(identity=7))
    hear(bench, CollectMinor())
    bench.judge(TakeIdentity(0), Observation(identity=7))
    mismatch = mismatch_of(bench, TakeIdentity(0), Observation(identity=got))
    assert (mismatch.field, mismatch.expected, mismatch.direction) == ("identity", 7, direction)


def test_two_living_objects_with_one_identity_are_wrong(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateNode(1))
    bench.judge(TakeIdentity(0), Observation(identity=7))
    mismatch = mismatch_of(bench, TakeIdentity(1), Observation(identity=7))
    assert (mismatch.field, mismatch.why) == ("identity", "another living object has it")


def test_the_identity_of_an_unreachable_object_may_be_given_again(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateNode(1))
    bench.judge(TakeIdentity(0), Observation(identity=7))
    hear(bench, Free(0))
    bench.judge(TakeIdentity(0), Observation(identity=7))
    assert bench.shadow.roots[0].number == 1


def test_an_identity_given_again_is_its_new_owners(bench: Bench) -> None:
    hear(bench, AllocateNode(0), AllocateNode(1))
    bench.judge(TakeIdentity(0), Observation(identity=7))
    hear(bench, Free(0))
    bench.judge(TakeIdentity(0), Observation(identity=7))
    hear(bench, AllocateNode(2))
    assert mismatch_of(bench, TakeIdentity(1), Observation(identity=7)).field == "identity"


# Walks.


def test_a_walk_that_finds_the_mutators_graph_is_right(walking_bench: Bench) -> None:
    hear(walking_bench, AllocateNode(3), AllocateString(4), Write(0, 1, 1))
    walking_bench.judge(CheckHeap(), Observation(graph=[[1, 3, 1, 1], [4, 4]]))
    walking_bench.judge(CollectMinor(), Observation(minors=1, graph=[[1, 3, 1, 1], [4, 4]]))
    assert {obj.age for obj in walking_bench.shadow.roots} == {Age.OLD}


@pytest.mark.parametrize("action", [CheckHeap(), CollectMinor()], ids=str)
def test_a_walk_that_is_missing_is_wrong(walking_bench: Bench, action: Action) -> None:
    minors = int(isinstance(action, CollectMinor))
    mismatch = mismatch_of(walking_bench, action, Observation(minors=minors))
    assert (mismatch.field, mismatch.got) == ("graph", None)


@pytest.mark.parametrize(
    ("graph", "direction"), [([[1, 3]], "less"), ([[1, 3], [1, 4], [1, 5]], "more")]
)
def test_a_walk_that_finds_another_number_of_objects_is_wrong(
    walking_bench: Bench, graph: list[list[int]], direction: str
) -> None:
    hear(walking_bench, AllocateNode(3), AllocateNode(4))
    mismatch = mismatch_of(walking_bench, CheckHeap(), Observation(graph=graph))
    assert (mismatch.field, mismatch.expected, mismatch.direction) == ("graph", 2, direction)


def test_a_walk_that_finds_another_object_is_wrong(walking_bench: Bench) -> None:
    hear(walking_bench, AllocateNode(3), AllocateNode(4))
    graph = [[1, 3], [1, 4, 0, 0]]
    mismatch = mismatch_of(walking_bench, CheckHeap(), Observation(graph=graph))
    assert (mismatch.expected, mismatch.got) == ([[1, 3], [1, 4]], graph)


def test_no_walk_is_asked_of_actions_that_do_not_collect(walking_bench: Bench) -> None:
    walking_bench.judge(AllocateNode(0), Observation())
    assert len(walking_bench.shadow.roots) == 1


def test_a_target_that_does_not_observe_walks_need_not_walk(bench: Bench) -> None:
    bench.judge(CheckHeap(), Observation())
    with pytest.raises(Mismatch, match=r"^heap: "):
        bench.judge(CheckHeap(), Observation(error="HeapError: none"))
