"""The room oracle: what lies in the nursery has room there, and overlaps nothing that is pinned."""

from typing import Any

import attrs
import pytest

from fuzz.oracles import Bench, Mismatch
from fuzz.protocol.actions import (
    Action,
    AllocateNode,
    AllocateString,
    CollectFull,
    CollectMinor,
    Free,
    Pin,
    Unpin,
)
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation

Step = tuple[Action, dict[str, Any]]
NODE, STRING = AllocateNode(0), AllocateString(0)
MINOR: Step = CollectMinor(), {"minors": 1}
PINNED: tuple[Step, ...] = ((STRING, {"at": 64}), (Pin(0), {}), MINOR)
"""A string of 32 bytes stays at 64."""
FULL: tuple[Step, ...] = ((NODE, {}),) * 8
"""Eight nodes fill the nursery of 256 bytes."""


@pytest.fixture
def bench(contract: Contract) -> Bench:
    """Pointers are not observed, as where each thread has its own."""
    return Bench(attrs.evolve(contract, observes=("minors", "at"), promises=("collections",)))


def judge(bench: Bench, *steps: Step) -> None:
    for action, observed in steps:
        size: dict[str, Any] = {"size": 32, "outside": False} if action.allocates else {}
        bench.judge(action, Observation(**size, **observed))


@pytest.mark.parametrize("at", [0, 32, 96, 224])
def test_an_object_may_lie_beside_a_pinned_one(bench: Bench, at: int) -> None:
    judge(bench, *PINNED, (NODE, {"at": at}))


@pytest.mark.parametrize("at", [40, 64, 88])
def test_no_object_overlaps_a_pinned_one(bench: Bench, at: int) -> None:
    judge(bench, *PINNED)
    with pytest.raises(Mismatch, match=r"room: at: .*string #1 was pinned at 64, and has 32 bytes"):
        judge(bench, (NODE, {"at": at}))


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([(Unpin(0), {}), MINOR], id="unpinned, it moved"),
        pytest.param([(Free(0), {}), (CollectFull(), {"minors": 1})], id="it died"),
    ],
)
def test_where_no_object_is_pinned_any_more_another_may_lie(
    bench: Bench, steps: list[Step]
) -> None:
    judge(bench, *PINNED, *steps, (NODE, {"at": 64}))


def test_an_unpinned_object_stays_until_it_is_collected(bench: Bench) -> None:
    judge(bench, *PINNED, (Unpin(0), {}))
    with pytest.raises(Mismatch, match="was pinned at 64"):
        judge(bench, (NODE, {"at": 64}))


@pytest.mark.parametrize("at", [-8, 232, 256])
def test_no_object_lies_beyond_the_nursery(bench: Bench, at: int) -> None:
    with pytest.raises(Mismatch, match="room: at: expected from 0 to 224"):
        judge(bench, (NODE, {"at": at}))


def test_too_many_bytes_since_the_last_minor_collection(bench: Bench) -> None:
    judge(bench, *FULL)
    with pytest.raises(Mismatch, match=r"room: minors: .*288 bytes lie in the nursery of 256"):
        judge(bench, (NODE, {}))


def test_pinned_bytes_take_room_too(bench: Bench) -> None:
    judge(bench, *PINNED, *FULL[1:])
    with pytest.raises(Mismatch, match="288 bytes lie in the nursery of 256"):
        judge(bench, (NODE, {}))


def test_a_collection_makes_room(bench: Bench) -> None:
    judge(bench, *FULL, (NODE, {"minors": 1}), *FULL[1:])


def test_without_a_promise_about_collections_the_nursery_may_grow(contract: Contract) -> None:
    judge(Bench(contract), *FULL, (NODE, {}))
