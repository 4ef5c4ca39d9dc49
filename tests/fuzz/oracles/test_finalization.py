"""The finalization oracle: finalizers are called for unreachable objects, once, in order, soon."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from judging import Judge, Step, answer

from fuzz.protocol.actions import (
    Action,
    AllocateEphemeron,
    AllocateNode,
    AllocateWeakref,
    CollectFull,
    CollectMinor,
    CollectStep,
    EnableSampling,
    Free,
    ReadEphemeron,
    ReadWeakref,
    RegisterFinalizer,
    Resurrect,
    RunFinalizers,
    UnregisterFinalizer,
    Write,
)
from fuzz.protocol.contract import Contract
from fuzz.run import run_actions
from fuzz.targets import make_target

NODE, FULL, MINOR, RUN = AllocateNode(0), CollectFull(), CollectMinor(), RunFinalizers()
KEEP = RunFinalizers(keep=True)
Seen = Action | tuple[Action, Any]
"""An action, with its answer if it has one: finalizers, a value, or whether something is alive."""


def step_of(answered: Seen) -> Step:
    """A collecting action has one minor collection."""
    action, value = answered if isinstance(answered, tuple) else (answered, None)
    if value is None and action is RUN:
        value = []
    fields = {action.answer: value} if action.answer else {}
    return answer(action, minors=int(action.collects != "never"), **fields)


def verdict(contract: Contract, *answered: Seen) -> str | None:
    """What is wrong with the last answer, if anything; the others must be right."""
    mismatch = Judge(contract).verdict(*map(step_of, answered))
    return mismatch.why if mismatch else None


HELD: list[Seen] = [
    *(AllocateNode(0, destructor=5), NODE, RegisterFinalizer(1, 0), Write(1, 0, 0)),
    *(Free(0), Free(0)),
]
"""A dead node with a finalizer refers to one with a destructor."""


@pytest.mark.parametrize("collection", [MINOR, FULL])
def test_a_dead_object_s_destructor_runs_once(collection: Action, finalizing: Contract) -> None:
    steps: list[Seen] = [AllocateNode(0, destructor=5), Free(0)]
    assert "was alive" in (verdict(finalizing, *steps, (RUN, [5])) or "")
    assert verdict(finalizing, *steps, collection, (RUN, [5])) is None
    why = verdict(finalizing, *steps, collection, (RUN, [5]), collection, (RUN, [5]))
    assert why == "5 (of node #1) has run before"
    assert "has run" in (verdict(finalizing, *steps, collection, (RUN, [5, 5])) or "")


def test_a_destructor_is_called_within_the_promised_collections(finalizing: Contract) -> None:
    steps: list[Seen] = [AllocateNode(0, destructor=5), MINOR, Free(0), MINOR, FULL]
    assert verdict(finalizing, *steps, (RUN, [])) == "after 1 full collection"
    for within, why in ((2, None), (0, None)):
        assert verdict(promising(finalizing, within=within), *steps, (RUN, [])) is why
    later = promising(finalizing, within=2)
    assert verdict(later, *steps, (RUN, []), FULL, (RUN, [])) == "after 2 full collections"


def test_a_destructor_is_not_called_while_its_object_is_alive(finalizing: Contract) -> None:
    steps: list[Seen] = [AllocateNode(0, destructor=5), FULL]
    assert verdict(finalizing, *steps, (RUN, [])) is None
    assert verdict(finalizing, *steps, (RUN, [5])) == "node #1 was alive at each collection"


def test_a_destructor_waits_for_the_finalizers_that_keep_its_object(finalizing: Contract) -> None:
    assert verdict(finalizing, *HELD, FULL, (RUN, [0])) is None
    assert verdict(finalizing, *HELD, FULL, (RUN, [5, 0])) == "node #1 was alive at each collection"
    run = [*HELD, FULL, (RUN, [0]), FULL]
    assert verdict(finalizing, *run, (RUN, [5])) is None
    assert verdict(finalizing, *run, (RUN, [])) == "after 1 full collection"
    kept = [*HELD, FULL, (KEEP, [0]), FULL]
    assert verdict(finalizing, *kept, (RUN, [])) is None
    assert verdict(finalizing, *kept, (RUN, [5])) == "node #1 was alive at each collection"


def test_a_destructor_waits_for_no_dead_object_with_a_finalizer(finalizing: Contract) -> None:
    contract = promising(finalizing, order="none", cycles="any", objects="dead")
    assert verdict(contract, *HELD, FULL, (RUN, [5, 0])) is None
    assert verdict(contract, *HELD, FULL, (RUN, [0])) == "after 1 full collection"


def test_taking_finalizers_back_leaves_the_destructor(finalizing: Contract) -> None:
    steps = [AllocateNode(0, destructor=5), UnregisterFinalizer(0), Free(0), FULL]
    assert verdict(finalizing, *steps, (RUN, [5])) is None
    assert verdict(finalizing, *steps, (RUN, [])) == "after 1 full collection"


def test_a_weak_reference_is_cleared_before_the_destructor_is_called(finalizing: Contract) -> None:
    steps: list[Seen] = [AllocateNode(0, destructor=5), MINOR, AllocateWeakref(0), Free(0)]
    called = [*steps, CollectStep(), (RUN, [5])]
    assert verdict(finalizing, *called, (ReadWeakref(0), False)) is None
    assert verdict(finalizing, *called, (ReadWeakref(0), True)) == "its object did not survive"


def promising(contract: Contract, **promises: Any) -> Contract:
    assert contract.finalizers is not None
    return attrs.evolve(contract, finalizers=attrs.evolve(contract.finalizers, **promises))


def dead(*writes: Write, nodes: int = 2) -> list[Seen]:
    """Nodes with finalizers 0, 1 and so on, in slots of these numbers, and then dropped."""
    made: list[Seen] = [NODE] * nodes
    made += [RegisterFinalizer(each, each) for each in range(nodes)]
    return [*made, *writes, *[Free(0)] * nodes]


ONE_REFERS_TO_ZERO = Write(1, 0, 0)
CYCLE = (Write(1, 0, 0), Write(0, 0, 1))
AGAIN = [*dead(nodes=1), FULL, (KEEP, [0]), Resurrect(0), RegisterFinalizer(0, 1)]
"""An object is resurrected, and has a second finalizer."""


@pytest.mark.parametrize(
    "steps",
    [
        [*dead(nodes=1), FULL, (RUN, [0])],
        [*dead(nodes=1), MINOR, (RUN, [0])],
        [*dead(nodes=1), (RUN, []), FULL, (RUN, [0]), FULL, (RUN, [])],
        [*dead(), FULL, (RUN, [0, 1])],
        [*dead(), FULL, (RUN, [1, 0])],
        [*dead(ONE_REFERS_TO_ZERO), FULL, (RUN, [1]), FULL, (RUN, [0])],
        [*dead(ONE_REFERS_TO_ZERO), FULL, FULL, (RUN, [1])],
        [*dead(*CYCLE), FULL, (RUN, [0]), FULL, (RUN, [1])],
        [NODE, RegisterFinalizer(0, 0), RegisterFinalizer(0, 1), Free(0), FULL, (RUN, [0])],
        [NODE, RegisterFinalizer(0, 0), UnregisterFinalizer(0), Free(0), FULL, (RUN, [])],
        [*AGAIN, (RUN, [])],
        [*AGAIN, Free(0), FULL, (KEEP, []), FULL, (RUN, [1])],
    ],
)
def test_these_answers_are_right(steps: list[Seen], finalizing: Contract) -> None:
    assert verdict(finalizing, *steps) is None


def test_a_collection_in_a_registration_may_find_other_objects_dead(finalizing: Contract) -> None:
    collecting = answer(RegisterFinalizer(0, 1), minors=1)
    steps = (NODE, NODE, RegisterFinalizer(0, 0), Free(0), collecting)
    Judge(finalizing)(*steps, answer(RUN, finalized=[0]))


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([NODE, RegisterFinalizer(0, 0), FULL, (RUN, [0])], "reachable at each collection"),
        ([*dead(nodes=1), (RUN, [0])], "reachable at each collection"),
        ([*dead(nodes=1), FULL, (RUN, [])], "after 1 full collection"),
        ([*dead(nodes=1), FULL, (RUN, [0, 0])], "0 (of node #1) has run before"),
        ([*dead(nodes=1), FULL, (RUN, [0]), FULL, (RUN, [0])], "has run before"),
        ([*dead(nodes=1), FULL, (RUN, [0, 1])], "1 was never registered"),
        (
            [*dead(ONE_REFERS_TO_ZERO), FULL, (RUN, [0, 1])],
            "node #2 (finalizer 1) refers to node #1",
        ),
        ([*dead(ONE_REFERS_TO_ZERO), FULL, (RUN, [0])], "after 1 full"),
        ([*dead(*CYCLE), FULL, (RUN, [1])], "after 1 full"),
        ([*dead(*CYCLE), FULL, (RUN, [0, 1])], "refers to"),
        ([*dead(*CYCLE), FULL, (RUN, [])], "after 1 full"),
        ([*dead(*CYCLE), FULL, (RUN, [0]), FULL, (RUN, [])], "after 1 full"),
        (
            [NODE, RegisterFinalizer(0, 0), UnregisterFinalizer(0), Free(0), FULL, (RUN, [0])],
            "0 (of node #1) was taken back",
        ),
        ([NODE, (FULL, None), (MINOR, None), (RUN, [5])], "5 was never registered"),
    ],
)
def test_these_answers_are_wrong(steps: list[Seen], why: str, finalizing: Contract) -> None:
    assert why in (verdict(finalizing, *steps) or "")


def test_an_object_may_wait_for_a_referrer_that_may_be_queued(finalizing: Contract) -> None:
    steps: list[Seen] = [*dead(ONE_REFERS_TO_ZERO), MINOR, FULL, (RUN, [1]), MINOR, (RUN, [])]
    assert verdict(finalizing, *steps) is None


def test_an_object_that_waited_may_lose_its_place_in_its_cycle(finalizing: Contract) -> None:
    """Node 2 refers to nodes 0 and 1, which refer to each other."""
    steps = [*dead(*CYCLE, Write(2, 0, 0), nodes=3), FULL, (RUN, [2]), FULL]
    assert verdict(finalizing, *steps, (RUN, [1])) is None
    assert verdict(finalizing, *steps, (RUN, [0])) is None
    assert verdict(finalizing, *steps, (RUN, [0, 1])) is not None


@pytest.mark.parametrize(
    ("promise", "writes", "right", "wrong"),
    [
        ({"order": "none"}, [ONE_REFERS_TO_ZERO], [0, 1], [0]),
        ({"order": "none", "objects": "kept"}, [ONE_REFERS_TO_ZERO], [1], [0]),
        ({"order": "none", "objects": "dead"}, [ONE_REFERS_TO_ZERO], [0, 1], [1]),
        ({"order": "none", "within": 0}, [], [], [0, 0]),
        ({"order": "reverse_registration"}, [], [1, 0], [0, 1]),
        ({"order": "referrer_first", "cycles": "never"}, CYCLE, [], [0]),
        ({"order": "referrer_first", "cycles": "any"}, CYCLE, [1, 0], []),
        ({"within": 2}, [], [], [2]),
    ],
)
def test_contracts_promise_other_orders_and_bounds(
    promise: dict[str, Any],
    writes: list[Write],
    right: list[int],
    wrong: list[int],
    finalizing: Contract,
) -> None:
    contract = promising(finalizing, **{"order": "none", "cycles": "any"} | promise)
    steps = [FULL, *dead(*writes), FULL]
    assert verdict(contract, *steps, (RUN, right)) is None
    assert verdict(contract, *steps, (RUN, wrong)) is not None


@pytest.mark.parametrize("before", [[], [FULL], [MINOR], [FULL, MINOR]], ids=str)
def test_reverse_order_holds_if_nothing_precedes(before: list[Seen], finalizing: Contract) -> None:
    contract = promising(finalizing, order="reverse_registration", cycles="any")
    contract = attrs.evolve(contract, promises=("collections",))
    steps = [*before, *dead(), FULL]
    assert verdict(contract, *steps, (RUN, [1, 0])) is None
    assert verdict(contract, *steps, (RUN, [0, 1])) is not None


@pytest.mark.parametrize("promises", [("collections",), ()], ids=str)
def test_reverse_registration_is_not_judged_while_a_major_collection_may_be_in_progress(
    promises: tuple[Any, ...], finalizing: Contract
) -> None:
    """What it finds dead comes before what the full collection finds."""
    contract = promising(finalizing, order="reverse_registration", cycles="any")
    contract = attrs.evolve(contract, promises=promises)
    steps = [CollectStep() if promises else MINOR, *dead(), FULL]
    assert verdict(contract, *steps, (RUN, [0, 1])) is None


def test_a_weak_reference_is_cleared_before_the_finalizer_runs(finalizing: Contract) -> None:
    steps: list[Seen] = [NODE, AllocateWeakref(0), RegisterFinalizer(0, 0), Free(0), FULL]
    steps += [(KEEP, [0]), Resurrect(0)]
    assert verdict(finalizing, *steps, (ReadWeakref(0), False)) is None
    assert verdict(finalizing, *steps, (ReadWeakref(0), True)) == "its object did not survive"
    contract = promising(finalizing, weak="cleared_after")
    assert verdict(contract, *steps, (ReadWeakref(0), True)) is None
    assert verdict(contract, *steps, (ReadWeakref(0), False)) == "its object is reachable"


def test_a_new_weak_reference_to_a_resurrected_object_dies_with_it(finalizing: Contract) -> None:
    steps = [*dead(nodes=1), FULL, (KEEP, [0]), Resurrect(0), AllocateWeakref(0)]
    assert verdict(finalizing, *steps, FULL, (ReadWeakref(1), True)) is None
    steps += [Free(0), (RUN, []), FULL]
    assert verdict(finalizing, *steps, (ReadWeakref(0), False)) is None
    assert verdict(finalizing, *steps, (ReadWeakref(0), True)) is not None


def test_an_ephemeron_has_its_value_until_its_key_is_dead(finalizing: Contract) -> None:
    steps: list[Seen] = [NODE, AllocateNode(7), AllocateEphemeron(0, 1), Free(1), FULL]
    assert verdict(finalizing, *steps, (ReadEphemeron(1), 7)) is None
    assert verdict(finalizing, *steps, (ReadEphemeron(1), None)) == "its key is alive"
    assert verdict(finalizing, *steps, (ReadEphemeron(1), 8)) == "of a node"
    dropped = [*steps, Free(0), FULL]
    assert verdict(finalizing, *dropped, (ReadEphemeron(0), None)) is None
    assert verdict(finalizing, *dropped, (ReadEphemeron(0), 7)) == "its key is dead"


def test_a_chain_of_ephemerons_lives_and_dies_at_once(finalizing: Contract) -> None:
    """Slots: the key of the first one, then three ephemerons, the last one first."""
    steps: list[Seen] = [NODE, AllocateNode(1), AllocateNode(2), AllocateNode(3)]
    steps += [AllocateEphemeron(each, each + 1) for each in (2, 1, 0)]
    steps += [Free(1)] * 3
    for slot, value in ((1, 3), (2, 2), (3, 1)):
        assert verdict(finalizing, *steps, FULL, (ReadEphemeron(slot), value)) is None
        dropped = [*steps, Free(0), FULL]
        assert verdict(finalizing, *dropped, (ReadEphemeron(slot - 1), None)) is None
        assert verdict(finalizing, *dropped, (ReadEphemeron(slot - 1), value)) is not None


def test_a_dead_ephemeron_may_keep_its_value_until_a_full_collection(finalizing: Contract) -> None:
    steps: list[Seen] = [NODE, NODE, AllocateWeakref(1), AllocateEphemeron(0, 1), Free(3), Free(1)]
    assert verdict(finalizing, *steps, MINOR, (ReadWeakref(1), True)) is None
    assert verdict(finalizing, *steps, MINOR, (ReadWeakref(1), False)) is None
    assert verdict(finalizing, *steps, FULL, (ReadWeakref(1), True)) == "its object did not survive"


def test_the_value_of_a_dead_ephemeron_dies_in_the_reference() -> None:
    """A session with samples expected that it survived."""
    actions = [EnableSampling(8), NODE, AllocateEphemeron(0, 0), Free(0), Free(0), CollectStep()]
    assert run_actions(make_target("reference-finalizers"), {}, actions) is None


def test_a_key_that_a_finalizer_keeps_is_alive(finalizing: Contract) -> None:
    steps: list[Seen] = [NODE, AllocateNode(7), AllocateEphemeron(0, 1), Free(1)]
    steps += [RegisterFinalizer(0, 0), Free(0), FULL]
    assert verdict(finalizing, *steps, (ReadEphemeron(0), 7)) is None
    assert verdict(finalizing, *steps, (RUN, [0]), FULL, (ReadEphemeron(0), None)) is None
    assert verdict(finalizing, *steps, (ReadEphemeron(0), None)) == "its key is alive"


def test_an_object_dead_at_its_finalizer_keeps_nothing(finalizing: Contract) -> None:
    """Node 1 has a finalizer and refers to node 0, which has a weak reference."""
    steps: list[Seen] = [NODE, NODE, ONE_REFERS_TO_ZERO, AllocateWeakref(0)]
    steps += [RegisterFinalizer(1, 0), Free(0), Free(0), FULL]
    contract = promising(finalizing, weak="cleared_after")
    assert verdict(contract, *steps, (ReadWeakref(0), False)) == "its object is reachable"
    assert verdict(contract, *steps, (KEEP, [0]), FULL, (ReadWeakref(0), True)) is None
    contract = promising(contract, objects="dead")
    assert verdict(contract, *steps, (ReadWeakref(0), False)) is None
    assert verdict(contract, *steps, (ReadWeakref(0), True)) == "its object did not survive"
    assert verdict(contract, *steps, (KEEP, [0]), (ReadWeakref(0), True)) is not None


def test_a_finalized_object_is_dead_after_a_minor_collection_too(finalizing: Contract) -> None:
    contract = promising(finalizing, within=0, objects="dead", weak="cleared_before")
    steps: list[Seen] = [NODE, AllocateWeakref(0), RegisterFinalizer(0, 0), MINOR, Free(0), MINOR]
    assert verdict(contract, *steps, (RUN, [0]), (ReadWeakref(0), True)) is not None
    assert verdict(contract, *steps, (RUN, [0]), (ReadWeakref(0), False)) is None


@pytest.mark.parametrize("collection", [MINOR, FULL])
def test_an_attached_value_dies_with_its_key(collection: Action, finalizing: Contract) -> None:
    """Slots: the key, and a weak reference to the value. The ephemeron is dead."""
    steps: list[Seen] = [NODE, NODE, AllocateWeakref(1), AllocateEphemeron(0, 1)]
    steps += [Free(3), Free(1), collection]
    assert verdict(finalizing, *steps, (ReadWeakref(1), False)) is None
    contract = promising(finalizing, ephemerons="attached")
    assert verdict(contract, *steps, (ReadWeakref(1), True)) is None
    assert verdict(contract, *steps, (ReadWeakref(1), False)) == "its object is reachable"
    assert verdict(contract, *steps, Free(0), FULL, (ReadWeakref(0), True)) is not None
