"""The exhaustion oracle: an action is exhausted if and only if there is no room."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.mutator.legality import may_be_sent_ahead, why_illegal
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.exhaustion import Exhaustion

BY_ALLOCATIONS = Exhaustion(1000, 100)
BY_MAJORS = attrs.evolve(BY_ALLOCATIONS, found_by="major_collections", survivable=1)
HUNDRED, TWO_HUNDRED, NINE_HUNDRED = (do.AllocateString(each - 25) for each in (104, 200, 896))
FULL, MINOR = do.CollectFull(), do.CollectMinor()
COLLECTED = {"minors": 1, "order": "M"}
OUT = {**COLLECTED, "exhausted": True}
"""The fields of an action that is exhausted."""


def limited(contract: Contract, exhaustion: Exhaustion) -> Contract:
    """The contract, which observes no more than the mutator needs."""
    observes = ("minors", "samples", "alive", "order", "exhausted")
    return attrs.evolve(contract, observes=observes, promises=(), exhaustion=exhaustion).without(
        ("pin", "unpin")
    )


def usual(action: Action) -> dict[str, Any]:
    return COLLECTED if action.collects != "never" else {}


def verdict(contract: Contract, *steps: Step) -> str | None:
    """What is wrong with the last answer, if anything; the others must be right, and all legal."""
    judge, mismatch = Judge(contract, usual=usual), None
    for step in steps:
        assert mismatch is None
        action = step[0] if isinstance(step, tuple) else step
        assert why_illegal(action, contract, judge.shadow) is None
        mismatch = judge.verdict(step)
    return f"{mismatch.oracle}: {mismatch.why}" if mismatch else None


@pytest.mark.parametrize(
    ("exhaustion", "steps"),
    [
        (BY_ALLOCATIONS, [NINE_HUNDRED, (TWO_HUNDRED, OUT), do.Free(0), TWO_HUNDRED]),
        (BY_ALLOCATIONS, [NINE_HUNDRED, TWO_HUNDRED, FULL]),
        (BY_ALLOCATIONS, [NINE_HUNDRED, *[(TWO_HUNDRED, OUT)] * 9]),
        (BY_MAJORS, [NINE_HUNDRED, (TWO_HUNDRED, OUT), do.Free(0), FULL]),
        (BY_MAJORS, [NINE_HUNDRED, TWO_HUNDRED, HUNDRED, (FULL, OUT)]),
        (BY_MAJORS, [NINE_HUNDRED, TWO_HUNDRED, HUNDRED, (do.CollectStep(), OUT)]),
        # Dead objects may be there if a collection was in progress.
        (BY_MAJORS, [NINE_HUNDRED, do.Free(0), do.CollectStep(), (TWO_HUNDRED, OUT)]),
        (BY_MAJORS, [NINE_HUNDRED, TWO_HUNDRED, HUNDRED, do.Free(0), FULL]),
    ],
)
def test_a_right_answer_is_right(
    exhaustion: Exhaustion, steps: list[Step], contract: Contract
) -> None:
    assert verdict(limited(contract, exhaustion), *steps) is None


ROOM = "exhaustion: at most {} bytes are taken, of which {} are asked for; there is room for 1000"


@pytest.mark.parametrize(
    ("exhaustion", "steps", "why"),
    [
        (BY_ALLOCATIONS, [HUNDRED, (NINE_HUNDRED, OUT)], ROOM.format(1000, 896)),
        (BY_ALLOCATIONS, [NINE_HUNDRED, do.Free(0), (TWO_HUNDRED, OUT)], ROOM.format(200, 200)),
        (BY_MAJORS, [NINE_HUNDRED, FULL, do.Free(0), (TWO_HUNDRED, OUT)], ROOM.format(200, 200)),
        (
            BY_MAJORS,
            [NINE_HUNDRED, (FULL, OUT)],
            "exhaustion: at most 896 bytes are taken; there is room for 1000",
        ),
        (
            BY_ALLOCATIONS,
            [NINE_HUNDRED, TWO_HUNDRED, HUNDRED],
            "exhaustion: living objects take 1200 bytes; there is room for 1100",
        ),
        (
            BY_MAJORS,
            [NINE_HUNDRED, TWO_HUNDRED, HUNDRED, FULL],
            "exhaustion: living objects take 1200 bytes; there is room for 1100",
        ),
        (BY_ALLOCATIONS, [(FULL, OUT)], "heap: the contract does not allow it here"),
        (BY_ALLOCATIONS, [HUNDRED, (do.Free(0), OUT)], "heap: the contract does not allow it here"),
        (BY_MAJORS, [(MINOR, OUT)], "heap: the contract does not allow it here"),
    ],
)
def test_a_wrong_answer_is_found(
    exhaustion: Exhaustion, steps: list[Step], why: str, contract: Contract
) -> None:
    assert verdict(limited(contract, exhaustion), *steps) == why


@pytest.mark.parametrize("field", ["size", "outside", "at"])
def test_an_exhausted_action_allocates_nothing(field: str, contract: Contract) -> None:
    judge = Judge(limited(contract, BY_ALLOCATIONS))
    why = judge.mismatch(NINE_HUNDRED, (TWO_HUNDRED, {**OUT, field: 8})).why
    assert f"{field} is 8, but an action that is exhausted allocates" in why


def test_without_a_promise_no_action_may_be_exhausted(contract: Contract) -> None:
    assert verdict(contract, (HUNDRED, OUT)) == "heap: the contract does not allow it here"


def test_while_a_finalizer_waits_nothing_must_be_exhausted(finalizing: Contract) -> None:
    """What finalizers keep alive does not count for PyPy's limit."""
    full = [do.AllocateNode(0), NINE_HUNDRED, TWO_HUNDRED, FULL]
    contract = limited(finalizing, BY_MAJORS).without(("run_finalizers", "resurrect"))
    assert verdict(contract, *full) is not None
    assert verdict(contract, full[0], do.RegisterFinalizer(0, 0), *full[1:]) is None


def test_an_exhausted_action_appends_no_slot_and_clears_weakrefs(contract: Contract) -> None:
    judge = Judge(limited(contract, BY_ALLOCATIONS))
    judge(do.AllocateNode(0), do.AllocateWeakref(0), do.Free(0), NINE_HUNDRED, (TWO_HUNDRED, OUT))
    assert [obj.kind for obj in judge.shadow.roots] == ["weakref", "string"]
    assert "did not survive" in judge.mismatch(do.ReadWeakref(0), alive=True).why


@pytest.mark.parametrize(
    ("soft", "before", "after"), [(True, True, False), (True, False, False), (False, False, False)]
)
def test_a_soft_reference_may_keep_its_object_until_memory_is_exhausted(
    soft: bool, before: bool, after: bool, contract: Contract
) -> None:
    judge = Judge(limited(contract, attrs.evolve(BY_ALLOCATIONS, soft=soft)), usual=usual)
    judge(do.AllocateNode(0), do.AllocateWeakref(0), do.Free(0), NINE_HUNDRED, FULL)
    judge(answer(do.ReadWeakref(0), alive=before), (TWO_HUNDRED, OUT))
    judge(answer(do.ReadWeakref(0), alive=after))
    assert "did not survive" in judge.mismatch(do.ReadWeakref(0), alive=True).why


@pytest.mark.parametrize(("order", "until_bytes"), [("M", 56), ("sM", 112)])
def test_an_exhausted_object_does_not_count_but_it_may_be_sampled_before(
    order: str, until_bytes: int, contract: Contract
) -> None:
    """It passes the sample point in the nursery, and then there is no room."""
    judge = Judge(limited(contract, BY_MAJORS))
    judge(NINE_HUNDRED, *[do.AllocateString(31)] * 2, do.EnableSampling(56))
    seen = {**OUT, "order": order, "samples": order.count("s")}
    judge((do.AllocateString(38), seen))
    assert judge.state.bytes_until_sample() == until_bytes


def test_after_the_last_exhaustion_nothing_may_need_room(contract: Contract) -> None:
    stated = limited(contract, BY_MAJORS)
    judge = Judge(stated, usual=usual)
    judge(HUNDRED, NINE_HUNDRED, (TWO_HUNDRED, OUT))

    def legal() -> list[Action]:
        asked: list[Action] = [
            *(HUNDRED, do.AllocateNode(0), FULL, do.CollectProgress(), MINOR, do.Free(0))
        ]
        return [each for each in asked if why_illegal(each, stated, judge.shadow) is None]

    assert legal() == [FULL, do.CollectProgress(), MINOR, do.Free(0)]  # 1000 bytes live.
    judge(do.Free(0))
    assert legal() == [HUNDRED, do.AllocateNode(0), FULL, do.CollectProgress(), MINOR, do.Free(0)]
    judge(MINOR)
    # The string may not be found dead.
    assert legal() == [FULL, do.CollectProgress(), MINOR, do.Free(0)]


def test_actions_are_not_sent_ahead_of_an_exhaustion(contract: Contract) -> None:
    assert not may_be_sent_ahead(limited(contract, BY_ALLOCATIONS))
    assert may_be_sent_ahead(contract.without(("pin",)))
