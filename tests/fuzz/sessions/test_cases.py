"""What is held of chunks whose turn has not come, and what becomes of it."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import attrs
import pytest

from fuzz.failure import Failure
from fuzz.failures import corpus
from fuzz.failures.corpus import SavedFailure
from fuzz.protocol.actions import AllocateNode
from fuzz.protocol.trace import EarlierTrace
from fuzz.sessions.cases import Cases
from fuzz.sessions.plan import Chunk, Plan, SessionTotals, actions_before
from fuzz.sessions.session_events import Event, FailureFound
from fuzz.sessions.worker import Reduction, Search, Searched

CHUNKS = 400
HELD_BYTES_MAX = 100_000
WAITING_BYTES_MAX, REPORTED_BYTES_MAX = 2_000, 6_000
FAILURE = Failure(
    oracle="heap",
    field="graph",
    action="allocate_node",
    expected="0",
    got="1",
    why="made up",
    direction="different",
    configuration={},
    actions=tuple(AllocateNode(number) for number in range(100)),
)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan("reference", "random", 1, 1, tmp_path, actions=actions_before(CHUNKS))


def searches(cases: Cases) -> list[Search]:
    return [search for _ in range(CHUNKS) if (search := cases.next_search()) is not None]


def held_bytes(cases: Cases) -> int:
    """The size of all that is held, as a pickle. Memory as such is that of other tests, too."""
    held = {name: value for name, value in vars(cases).items() if name != "_report"}
    return len(pickle.dumps(held))


def end(cases: Cases, chunks: Iterable[Chunk]) -> None:
    """The chunks are searched, in that order."""
    for chunk in chunks:
        probes = Counter({f"probe {number}": chunk.index for number in range(144)})
        cases.searched(chunk, Searched(SessionTotals(1, chunk.actions, probes=probes), True))


def test_chunks_behind_one_that_takes_long_are_held_as_their_sum(plan: Plan) -> None:
    cases = Cases(plan, lambda _: None, None)
    first, *others = (search.chunk for search in searches(cases))
    end(cases, others[:10])
    before = held_bytes(cases)
    end(cases, others[10:])
    after = held_bytes(cases)
    assert after - before < HELD_BYTES_MAX
    assert not cases.settle()
    end(cases, [first])
    assert cases.settle()
    assert cases.settled == CHUNKS


@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_which_chunks_end_changes_nothing(plan: Plan, seed: int) -> None:
    pieces = []
    for is_shuffled in (False, True):
        cases = Cases(plan, lambda _: None, None)
        chunks = [search.chunk for search in searches(cases)]
        if is_shuffled:
            random.Random(seed).shuffle(chunks)
        for chunk in chunks:
            end(cases, [chunk])
            if chunk.index % 7 == 0:
                cases.settle()
        cases.settle()
        pieces.append(cases.piece)
    assert pieces[0] == pieces[1]
    assert [*pieces[0].totals.probes] == [*pieces[1].totals.probes]
    assert pieces[0].totals.actions == plan.actions


def test_of_a_lost_chunk_counts_what_the_worker_did_that_came_furthest(plan: Plan) -> None:
    cases = Cases(plan, lambda _: None, None)
    chunk = searches(cases)[0].chunk
    for actions in (10, 40, 20, 0):
        cases.search_lost(chunk, SessionTotals(actions=actions))
    assert cases.partial.actions == 40
    cases.count_rest()
    assert cases.partial.actions == 40


@pytest.mark.parametrize(("is_repeated", "counted"), [(False, 40), (True, 0)])
def test_a_repeated_chunk_counts_once(is_repeated: bool, counted: int, plan: Plan) -> None:
    cases = Cases(plan, lambda _: None, None)
    chunk = searches(cases)[0].chunk
    cases.search_lost(chunk, SessionTotals(actions=40))
    if is_repeated:
        end(cases, [chunk])
    cases.count_rest()
    assert cases.partial.actions == counted


def find(cases: Cases, plan: Plan, chunks: Iterable[Chunk]) -> None:
    """A failure of the same case is found in each of these chunks."""
    for chunk in chunks:
        cases.found(corpus.save_found(plan.origin(chunk.index), FAILURE, chunk.index))


@pytest.mark.slow
def test_one_failure_of_a_case_is_held_behind_a_chunk_that_takes_long(plan: Plan) -> None:
    cases = Cases(plan, lambda _: None, None)
    first, *others = (search.chunk for search in searches(cases))
    find(cases, plan, others)
    end(cases, others)
    [held] = plan.corpus.glob("*.jsonl")
    end(cases, [first])
    assert [found.path for found in cases.to_reduce] == [held]


def distinct(plan: Plan, number: int) -> SavedFailure:
    """A failure of an identity of its own, which a program showed after many traces."""
    earlier = tuple(EarlierTrace({}, FAILURE.actions[:40]) for _ in range(256))
    failure = attrs.evolve(FAILURE, direction=f"error {number}", earlier=earlier)
    # What a worker sends shares nothing with what it sent before.
    return cast(
        SavedFailure, pickle.loads(pickle.dumps(corpus.save_found(plan.origin(0), failure)))
    )


def test_failures_that_wait_for_their_reductions_are_held_without_their_traces(plan: Plan) -> None:
    cases = Cases(plan, lambda _: None, None)
    searches(cases)
    cases.found(distinct(plan, 0))
    before = held_bytes(cases)
    for number in range(1, 11):
        cases.found(distinct(plan, number))
    assert held_bytes(cases) - before < 10 * WAITING_BYTES_MAX
    assert cases.to_reduce[-1].read() == distinct(plan, 10)


def test_a_found_failure_is_reported_with_the_length_of_its_trace(plan: Plan) -> None:
    events: list[Event] = []
    cases = Cases(plan, events.append, None)
    searches(cases)
    cases.found(distinct(plan, 0))
    assert [each.length for each in events if isinstance(each, FailureFound)] == [100]


@pytest.mark.parametrize("is_reduced", [False, True])
def test_reported_failures_drop_their_earlier_traces(is_reduced: bool, plan: Plan) -> None:
    cases = Cases(plan, lambda _: None, None)
    first, *_ = (search.chunk for search in searches(cases))
    before = held_bytes(cases)
    failures = [distinct(plan, number) for number in range(11)]
    for each in failures:
        cases.found(each)
    end(cases, [first])
    for each in failures:
        cases.to_reduce.popleft()
        cases.reduced(each, attrs.evolve(each, needs_earlier=is_reduced), is_whole=True)
    assert cases.settle()
    assert len(cases.reported) == 11
    assert held_bytes(cases) - before < 11 * REPORTED_BYTES_MAX


def test_what_fails_in_place_of_a_found_failure_is_reported_once(plan: Plan) -> None:
    cases = Cases(plan, lambda _: None, None)
    first, *_ = (search.chunk for search in searches(cases))
    find(cases, plan, [first])
    end(cases, [first])
    [found] = cases.to_reduce
    seen = attrs.evolve(found, failure=attrs.evolve(found.failure, field="other"), reproduced=True)
    cases.reduced(found, seen, is_whole=True)
    assert cases.settle()
    assert [each.failure.field for each in cases.reported] == ["other"]


def test_a_trace_in_which_two_failures_end_keeps_its_file(plan: Plan) -> None:
    cases = Cases(plan, lambda _: None, None)
    first, *_ = (search.chunk for search in searches(cases))
    find(cases, plan, [first])
    [found] = cases.to_reduce
    other = attrs.evolve(found, failure=attrs.evolve(found.failure, field="other"), path=None)
    cases.found(other)
    end(cases, [first])
    shown = attrs.evolve(found, reproduced=True)
    cases.reduced(found, shown, is_whole=True)
    cases.reduced(other, shown, is_whole=True)
    assert found.path is not None
    assert found.path.exists()


@pytest.mark.slow
def test_chunks_behind_a_reduction_that_takes_long_are_held_as_their_sum(plan: Plan) -> None:
    cases = Cases(plan, lambda _: None, None)
    first, *others = (search.chunk for search in searches(cases))
    find(cases, plan, [first])
    end(cases, [first])
    [reduction] = map(Reduction, cases.to_reduce)
    before = held_bytes(cases)
    find(cases, plan, others)
    end(cases, others)
    after = held_bytes(cases)
    assert after - before < HELD_BYTES_MAX
    assert cases.settled == 0
    found = reduction.found
    cases.reduced(found, attrs.evolve(found, reproduced=True), is_whole=True)
    assert cases.settle()
    assert (cases.settled, len(cases.reported)) == (CHUNKS, 1)
