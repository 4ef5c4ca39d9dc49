"""The placement oracle: what lies in the nursery fits, and overlaps nothing that is pinned."""

from typing import Any

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract

NODE, STRING = do.AllocateNode(0), do.AllocateString(0)
MINOR = answer(do.CollectMinor(), minors=1)
PINNED = (answer(STRING, at=64), do.Pin(0), MINOR)
"""A string of 32 bytes stays at 64."""
FULL = (NODE,) * 8
"""Eight nodes fill the nursery of 256 bytes."""


def sized(action: Action) -> dict[str, Any]:
    return {"size": 32, "outside": False} if action.allocates else {}


@pytest.fixture
def judge(contract: Contract) -> Judge:
    """Pointers are not observed, as where each thread has its own."""
    alone = attrs.evolve(contract, observes=("minors", "at"), promises=("collections",))
    return Judge(alone, usual=sized)


@pytest.mark.parametrize("at", [0, 32, 96, 224])
def test_an_object_may_lie_beside_a_pinned_one(judge: Judge, at: int) -> None:
    judge(*PINNED, answer(NODE, at=at))


@pytest.mark.parametrize("at", [40, 64, 88])
def test_no_object_overlaps_a_pinned_one(judge: Judge, at: int) -> None:
    mismatch = judge.mismatch(*PINNED, answer(NODE, at=at))
    assert (mismatch.oracle, mismatch.field) == ("placement", "at")
    assert "string #1 was pinned at 64, and has 32 bytes" in mismatch.why


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([do.Unpin(0), MINOR], id="unpinned, it moved"),
        pytest.param([do.Free(0), answer(do.CollectFull(), minors=1)], id="it died"),
    ],
)
def test_where_no_object_is_pinned_another_may_lie(judge: Judge, steps: list[Step]) -> None:
    judge(*PINNED, *steps, answer(NODE, at=64))


def test_an_unpinned_object_stays_until_it_is_collected(judge: Judge) -> None:
    assert "was pinned at 64" in judge.mismatch(*PINNED, do.Unpin(0), answer(NODE, at=64)).why


@pytest.mark.parametrize("at", [-8, 232, 256])
def test_no_object_lies_beyond_the_nursery(judge: Judge, at: int) -> None:
    problem = str(judge.mismatch(answer(NODE, at=at)))
    assert problem.startswith("placement: at: expected from 0 to 224")


def test_too_many_bytes_since_the_last_minor_collection(judge: Judge) -> None:
    mismatch = judge.mismatch(*FULL, NODE)
    assert (mismatch.oracle, mismatch.field) == ("placement", "minors")
    assert "288 bytes lie in the nursery of 256" in mismatch.why


def test_pinned_bytes_take_room_too(judge: Judge) -> None:
    assert "288 bytes lie in the nursery of 256" in judge.mismatch(*PINNED, *FULL).why


def test_a_collection_makes_room(judge: Judge) -> None:
    judge(*FULL, answer(NODE, minors=1), *FULL[1:])


def test_without_a_promise_about_collections_the_nursery_may_grow(contract: Contract) -> None:
    Judge(contract, usual=sized)(*FULL, NODE)
