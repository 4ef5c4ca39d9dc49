"""A reduction knows which action appended each slot, although it follows no collection."""

import pytest

from fuzz.failures.named_slots import name_slots, number_slots
from fuzz.protocol import actions as do
from fuzz.protocol.contract import Contract
from fuzz.protocol.target import full
from fuzz.targets import make_target

TWICE_DEAD = [
    *(do.AllocateNode(0), do.RegisterFinalizer(0, 1), do.AllocateWeakref(0), do.Free(0)),
    *(do.CollectFull(), do.RunFinalizers(), do.CollectFull()),
    *(do.ReadWeakref(0, keep=True), do.ReadWeakref(1, keep=True), do.Free(2)),
]
"""The object is dead, so that each reading keeps the weak reference once more."""


@pytest.fixture
def finalizing() -> Contract:
    return full(make_target("reference-finalizers")).default_contract()


def test_a_dead_weak_reference_that_was_kept_is_kept_once_more(finalizing: Contract) -> None:
    assert name_slots(finalizing, TWICE_DEAD)[-1].slots == {"root": (8, 0)}


def test_actions_on_a_dead_weak_reference_keep_their_numbers(finalizing: Contract) -> None:
    assert number_slots(finalizing, name_slots(finalizing, TWICE_DEAD)) == TWICE_DEAD
