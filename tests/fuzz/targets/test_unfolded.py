"""Allocations of several blocks, each with a check of its own: the parts of arrays, and members."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
from night import fresh, part_of
from target_helpers import Changed, changed, first_failure

from fuzz.engines.engine import slices_of
from fuzz.engines.stateful import StatefulEngine
from fuzz.protocol.actions import AllocateArray, AllocateGroup, AllocateNode, EnableSampling, Member
from fuzz.protocol.contract import Contract
from fuzz.protocol.groups import Groups, MemberKind
from fuzz.protocol.layout import KindLayout
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, full
from fuzz.reached.probes import ProbeCounter
from fuzz.run import Run
from fuzz.targets import make_target

NAME = "reference-unfolded"
LOCAL = ("reference-dotnet", "reference-dotnet-document", "reference-hotspot-17")
"""The other references whose threads have parts of the nursery."""
GROUP = AllocateGroup((Member("node", 3), Member("array", length=4), Member("string", length=9)))


def of_groups(contract: Contract) -> Contract:
    """The contract of a reference, which carries out the members of a group one by one."""
    bytes_max = min(contract.layout.large_object_bytes, contract.nursery_bytes) - 1
    kinds: tuple[MemberKind, ...] = ("node", "array", "string") if bytes_max >= 32 else ("array",)
    return attrs.evolve(
        contract,
        groups=Groups(bytes_max, 3, kinds, counted="each"),
        actions=(*contract.actions, "allocate_group"),
        observes=(*contract.observes, "members", "samples_by_member"),
    )


def with_array(contract: Contract, change: Callable[[KindLayout], KindLayout]) -> Contract:
    kinds = contract.layout.kinds
    return changed(contract, kinds={**kinds, "array": change(kinds["array"])})


def stateful_failure(target: FullTarget, actions: int) -> object:
    slices = slices_of(StatefulEngine(target, "unfolded"), actions, ProbeCounter())
    return next((each for done in slices for each in done.failures), None)


def test_each_member_has_the_answer_of_a_single_object() -> None:
    of_group, singly = (Run(make_target(NAME), {}) for _ in range(2))
    for run in (of_group, singly):
        run.step(EnableSampling(64))
    group = of_group.step(GROUP)
    each = [singly.step(action) for action in (AllocateNode(3), AllocateArray(4))]
    assert group.members is not None
    assert group.members[:2] == each
    assert group.samples_by_member == [member.samples for member in group.members]
    assert group.size == sum(member.size or 0 for member in group.members)


def test_an_array_is_two_blocks() -> None:
    run = Run(make_target(NAME), {"desired_bytes": 32})
    assert run.contract.layout.cost("array", 4, nonmovable=False) == (88, False)
    first = run.step(AllocateArray(0))
    # The items of 24 bytes and the array of 32 do not fit in one buffer.
    assert (first.size, first.at) == (56, 56)


def test_a_session_has_no_failure() -> None:
    assert first_failure(make_target(NAME), 2000) is None


@pytest.mark.slow
def test_sessions_of_both_engines_have_no_failure() -> None:
    assert first_failure(make_target(NAME), part_of(20_000), fresh("1")) is None
    assert stateful_failure(full(make_target(NAME)), part_of(5000)) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCAL)
def test_members_that_are_allocated_one_by_one_are_predicted_in_local_buffers(name: str) -> None:
    assert first_failure(Changed(make_target(name), of_groups), part_of(6000), "2") is None
    assert stateful_failure(Changed(make_target(name), of_groups), part_of(2000)) is None


ONE_BLOCK = partial(with_array, change=lambda array: attrs.evolve(array, parts=()))
SWAPPED = partial(with_array, change=lambda array: attrs.evolve(array, parts=array.parts[::-1]))


@pytest.mark.parametrize("wrong", [ONE_BLOCK, SWAPPED])
def test_a_wrong_contract_of_parts_is_caught(wrong: Callable[[Contract], Contract]) -> None:
    failure = first_failure(Changed(make_target(NAME), wrong), 2000)
    assert failure is not None
    assert failure.action == "allocate_array"


class Merging(Changed):
    """A target that counts the samples of a group for its first member."""

    def perform(self, action: Any) -> Observation:
        observation = super().perform(action)
        if observation.members:
            first, *others = observation.members
            first.samples += sum(member.samples for member in others)
            for member in others:
                member.samples = 0
        return observation


def test_samples_that_name_another_member_are_caught() -> None:
    failure = first_failure(Merging(make_target(NAME)), 2000)
    assert failure is not None
    assert (failure.action, failure.field) == ("allocate_group", "samples")
