"""The heap oracle: the answers about the heap are what the mutator made of it."""

from typing import Any

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.mutator.objects import Age
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Report

COLLECTIONS = do.CollectMinor | do.CollectStep | do.CollectProgress | do.CollectFull
NODE, MINOR, STEP, FULL = do.AllocateNode(0), do.CollectMinor(), do.CollectStep(), do.CollectFull()
REPORT = Report([], 0, 0, 0)


def usual(action: Action) -> dict[str, Any]:
    """A collection collects once."""
    return {"minors": 1} if isinstance(action, COLLECTIONS) else {}


def problem_of(judge: Judge, *steps: Step) -> str:
    """What is wrong with the last of these steps."""
    mismatch = judge.mismatch(*steps)
    assert mismatch.oracle == "heap"
    return str(mismatch).removeprefix("heap: ")


@pytest.fixture
def judge(contract: Contract) -> Judge:
    """Only the heap oracle, and no walks."""
    return Judge(attrs.evolve(contract, promises=("collections",)), usual=usual)


def observing(contract: Contract, field: str, **changes: Any) -> Judge:
    return Judge(attrs.evolve(contract, observes=(field,), prebuilt=(), **changes), usual=usual)


# Errors and collections.


@pytest.mark.parametrize(
    "seen",
    [
        {"order": "s"},
        {"order": "MM"},
        {"order": ""},
        {"order": "RM", "reports": [REPORT]},
        {"order": "MR"},
    ],
    ids=lambda seen: str(seen["order"]),
)
def test_events_in_another_order_are_wrong(contract: Contract, seen: dict[str, Any]) -> None:
    problem = problem_of(observing(contract, "order"), (MINOR, seen))
    assert problem.startswith("order: ")


def test_a_report_right_after_its_minor_collection_is_in_order(contract: Contract) -> None:
    observing(contract, "order")(do.CollectProgress(), minors=2, order="MRM", reports=[REPORT])


def test_any_error_is_wrong(judge: Judge) -> None:
    problem = problem_of(judge, answer(NODE, error="crash IndexError: list index"))
    assert problem.startswith("error: expected None, got crash IndexError: list index")


def test_a_step_must_collect_if_collections_are_promised(judge: Judge, contract: Contract) -> None:
    assert "minors: expected 1, got 0" in problem_of(judge, answer(STEP, minors=0))
    Judge(attrs.evolve(contract, promises=()))(STEP, minors=0)


@pytest.mark.parametrize("action", [MINOR, STEP, do.DisableSampling(report=True)], ids=str)
@pytest.mark.parametrize("minors", [0, 2])
def test_the_action_has_one_minor_collection(judge: Judge, action: Action, minors: int) -> None:
    problem = problem_of(judge, answer(action, minors=1), answer(action, minors=minors))
    assert problem.startswith(f"minors: expected 1, got {minors}")


@pytest.mark.parametrize("action", [do.CollectProgress(), FULL], ids=str)
def test_at_least_one_minor_collection_is_part_of_the_action(judge: Judge, action: Action) -> None:
    problem = problem_of(judge, action, answer(action, minors=7), answer(action, minors=0))
    assert problem.startswith("minors: expected 1, got 0")


@pytest.mark.parametrize(
    "action",
    [
        *(do.DisableSampling(), do.EnableSampling(8), do.CheckHeap(), do.ReadNumber(0)),
        *(do.PauseSampling(), do.ResumeSampling(), do.Fork(), do.SetCallback(0)),
        *(do.SetCallback(None), do.AddMemoryPressure(2**40), do.Pin(0), do.Unpin(1)),
    ],
    ids=str,
)
def test_no_other_action_collects(judge: Judge, action: Action) -> None:
    strings = (do.AllocateString(0), do.AllocateString(0), do.Pin(1))
    problem = problem_of(judge, *strings, answer(action, minors=1))
    assert problem.startswith("minors: expected 0, got 1")


@pytest.mark.parametrize("action", [MINOR, FULL, do.ReadNumber(0)], ids=str)
def test_unpromised_collections_may_come_at_any_time(contract: Contract, action: Action) -> None:
    Judge(contract)(NODE, answer(action, minors=3, value=0))


def test_without_the_promise_a_requested_collection_still_comes(contract: Contract) -> None:
    assert problem_of(Judge(contract), MINOR).startswith("minors: expected 1, got 0")


@pytest.mark.parametrize("action", [NODE, do.AllocateOldString(0)], ids=str)
@pytest.mark.parametrize("minors", [0, 1, 3])
def test_an_allocation_may_collect(judge: Judge, action: Action, minors: int) -> None:
    judge(answer(action, minors=minors))
    assert len(judge.shadow.roots) == 1


# Reads, weak references and identities: the last step is wrong.

WEAK = (NODE, do.AllocateWeakref(0))
LOST = (*WEAK, do.Free(0))
"""A weak reference to a young object that nothing else holds."""
OLD = (*WEAK, MINOR, do.Free(0))
"""The same with an object that is old."""
PINNED = (do.AllocateString(0), do.AllocateWeakref(0), do.Pin(0))
MAYBE_HELD = (
    *(NODE, MINOR, do.AllocateString(0), do.AllocateWeakref(1), do.Pin(1)),
    *(do.Write(0, 0, 1), do.Free(1), MINOR, do.Free(0), MINOR),
)
"""A weak reference to a pinned object that only a dead one may hold."""
ALIVE, DEAD = (answer(do.ReadWeakref(0), alive=alive) for alive in (True, False))
ID = answer(do.TakeIdentity(0), identity=7)
OTHER_ID = answer(do.TakeIdentity(1), identity=7)

WRONG: dict[str, tuple[list[Step], str]] = {
    "a read finds another object": (
        [NODE, do.AllocateNode(1), do.Write(0, 0, 1), answer(do.Read(0, 0), value=0)],
        "value: expected 1, got 0",
    ),
    "a read finds an object in its old slot": (
        [NODE, do.AllocateNode(1), do.Write(0, 0, 1), do.Free(1), answer(do.Read(0, 0), value=0)],
        "value: expected 1, got 0",
    ),
    "a read finds nothing": (
        [NODE, do.Write(0, 1, 0), answer(do.Read(0, 1))],
        "value: expected 0, got None (what was last written to field 1 of root 0)",
    ),
    "a read finds what nothing has written": (
        [do.AllocateArray(1), answer(do.Read(0, 0)), answer(do.Read(0, 0), value=0)],
        "value: expected None, got 0",
    ),
    "an old number": (
        [do.AllocateNode(5), do.WriteNumber(0, 6), answer(do.ReadNumber(0), value=5)],
        "value: expected 6, got 5",
    ),
    "no answer about a weak reference": (
        [*WEAK, do.ReadWeakref(1)],
        "alive: expected true or false",
    ),
    "a young object that nothing holds is dead": (
        [*LOST, ALIVE, DEAD],
        "alive: expected True, got False (its object is young)",
    ),
    "a reachable object is dead": (
        [*WEAK, FULL, *(answer(do.ReadWeakref(1), alive=alive) for alive in (True, False))],
        "alive: expected True, got False (its object is reachable)",
    ),
    "a young object outlives a minor collection": (
        [*LOST, MINOR, DEAD, ALIVE],
        "alive: expected False, got True",
    ),
    "an old object outlives a full collection": (
        [*OLD, STEP, ALIVE, FULL, ALIVE],
        "alive: expected False, got True (its object did not survive)",
    ),
    "an old object lives again": ([*OLD, STEP, DEAD, ALIVE], "alive: expected False, got True"),
    "one of two weak references lives": (
        [
            *WEAK,
            do.AllocateWeakref(0),
            MINOR,
            do.Free(0),
            DEAD,
            answer(do.ReadWeakref(1), alive=True),
        ],
        "alive: expected False, got True",
    ),
    "a pinned object that the roots hold is dead": (
        [*PINNED, MINOR, answer(do.ReadWeakref(1), alive=False)],
        "alive: expected True, got False (its object is young)",
    ),
    "a pinned object that nothing held outlives a minor collection": (
        [*PINNED, do.Free(0), MINOR, ALIVE],
        "alive: expected False, got True",
    ),
    **{
        f"a pinned object that was {fate} outlives a full collection": (
            [*MAYBE_HELD, step, FULL, ALIVE],
            "alive: expected False, got True",
        )
        for fate, step in (("alive", ALIVE), ("dead", DEAD))
    },
    "no identity": (
        [NODE, do.TakeIdentity(0)],
        "identity: expected a number, got None (of root 0)",
    ),
    **{
        f"an identity changes to {got}": (
            [NODE, ID, MINOR, ID, answer(do.TakeIdentity(0), identity=got)],
            f"identity: expected 7, got {got}",
        )
        for got in (6, 8)
    },
    "two living objects have one identity": (
        [NODE, do.AllocateNode(1), ID, OTHER_ID],
        "identity: expected a new one, got 7 (another living object has it)",
    ),
    "an identity has a new owner": (
        [NODE, do.AllocateNode(1), ID, do.Free(0), ID, do.AllocateNode(2), OTHER_ID],
        "identity: expected a new one, got 7",
    ),
}


@pytest.mark.parametrize(("steps", "problem"), WRONG.values(), ids=WRONG)
def test_a_wrong_answer(judge: Judge, steps: list[Step], problem: str) -> None:
    assert problem_of(judge, *steps).startswith(problem)


@pytest.mark.parametrize(
    "action", [do.AllocateNode(5), do.AllocateString(5), do.AllocateArray(5)], ids=str
)
@pytest.mark.parametrize("got", [4, 6, None])
def test_an_unwritten_number_is_wrong(judge: Judge, action: Action, got: int | None) -> None:
    right, wrong = (answer(do.ReadNumber(0), value=value) for value in (5, got))
    assert problem_of(judge, action, right, wrong).startswith(f"value: expected 5, got {got}")


def test_a_read_finds_what_was_written_in_its_lowest_slot(judge: Judge) -> None:
    judge(NODE, do.AllocateNode(1), do.Write(0, 0, 1), answer(do.Read(0, 0), value=1))
    assert len(judge.shadow.roots) == 3


def weakly(contract: Contract, survivor_bytes: int) -> Judge:
    return observing(contract, "alive", survivor_bytes=survivor_bytes)


TWICE = (NODE, do.AllocateWeakref(1), do.Free(1), MINOR)
"""After LOST, another weak reference survives, with 16 bytes more."""
READ = do.ReadWeakref(1)


@pytest.mark.parametrize("alive", [True, False])
def test_beyond_the_survivor_bytes_a_weak_reference_may_keep_its_object_until_a_full_collection(
    contract: Contract, alive: bool
) -> None:
    steps = (*LOST, MINOR, *TWICE, answer(READ, alive=alive), FULL, answer(READ, alive=True))
    assert problem_of(weakly(contract, 16 + 15), *steps).startswith("alive: expected False")


@pytest.mark.parametrize(("collection", "survivor_bytes"), [(MINOR, 32), (FULL, 16)])
def test_within_the_survivor_bytes_a_weak_reference_dies_with_its_object(
    contract: Contract, collection: Action, survivor_bytes: int
) -> None:
    """A full collection begins the count again."""
    steps = (*LOST, collection, *TWICE, answer(READ, alive=True))
    assert problem_of(weakly(contract, survivor_bytes), *steps).startswith("alive: expected False")


def test_threads_at_once_may_fill_the_survivor_bytes_if_they_collect(contract: Contract) -> None:
    weakly(contract, 1000)(*LOST, answer(do.RunAtOnce(1, 0), minors=1), ALIVE)


# Walks.

THREE, FOUR = do.AllocateNode(3), do.AllocateNode(4)


def test_a_walk_that_finds_the_mutators_graph_is_right(contract: Contract) -> None:
    judge, graph = observing(contract, "graph"), [[1, 3, 1, 1], [4, 4]]
    judge(THREE, do.AllocateString(4), do.Write(0, 1, 1))
    judge(answer(do.CheckHeap(), graph=graph), answer(MINOR, minors=1, graph=graph))
    assert {obj.age for obj in judge.shadow.roots} == {Age.OLD}


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([do.CheckHeap()], "graph: expected a walk of the heap, got None"),
        ([MINOR], "graph: expected a walk of the heap, got None"),
        ([THREE, FOUR, answer(do.CheckHeap(), graph=[[1, 3]])], "graph: expected 2, got 1"),
        (
            [THREE, FOUR, answer(do.CheckHeap(), graph=[[1, 3], [1, 4], [1, 5]])],
            "graph: expected 2, got 3",
        ),
        (
            [THREE, FOUR, answer(do.CheckHeap(), graph=[[1, 3], [1, 4, 0, 0]])],
            "graph: expected [[1, 3], [1, 4]], got [[1, 3], [1, 4, 0, 0]]",
        ),
    ],
)
def test_a_wrong_walk(contract: Contract, steps: list[Step], problem: str) -> None:
    assert problem_of(observing(contract, "graph"), *steps).startswith(problem)


def test_actions_that_do_not_collect_need_no_walk(contract: Contract) -> None:
    judge = observing(contract, "graph")
    judge(NODE)
    assert len(judge.shadow.roots) == 1


def test_a_target_that_does_not_observe_walks_need_not_walk(judge: Judge) -> None:
    problem = problem_of(judge, do.CheckHeap(), answer(do.CheckHeap(), error="HeapError: none"))
    assert problem.startswith("error: ")


def test_hidden_collections_are_not_judged_but_each_reported_walk_is(contract: Contract) -> None:
    """A batch may leave `minors` out of what it observes."""
    hidden = observing(contract, "graph")
    hidden(answer(do.CollectFull(), minors=0))
    wrong = answer(do.CollectFull(), minors=0, graph=[[1, 7]])
    assert problem_of(hidden, wrong).startswith("graph: expected 0, got 1")
