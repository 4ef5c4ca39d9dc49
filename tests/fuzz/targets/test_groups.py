"""The reference that allocates several objects at once."""

from __future__ import annotations

import pytest
from night import fresh, part_of
from target_helpers import first_failure

from fuzz.protocol.actions import Action, AllocateGroup, AllocateNode, EnableSampling, Member
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.run import Run
from fuzz.targets import make_target
from fuzz.terminal.explain import answers_of

MEMBERS = Member("node", 3), Member("array", length=4), Member("string", length=9)
TRACE: list[Action] = [EnableSampling(24), *[AllocateNode(0), AllocateGroup(MEMBERS)] * 4]


def answers(fold: int) -> list[list[int] | None]:
    run = Run(make_target("reference-groups"), {"fold": fold})
    return [run.step(action).samples_by_member for action in TRACE]


def contract_with(**configuration: int) -> Contract:
    return make_target("reference-groups").start(configuration)


def test_a_group_that_is_folded_has_the_samples_of_its_members() -> None:
    assert answers(fold=1) == answers(fold=0)
    assert answers(fold=1)[2] == [1, 2, 2]


def test_a_group_is_below_the_size_of_a_large_object() -> None:
    groups = contract_with(nursery_bytes=512, large_object_bytes=100).groups
    assert groups is not None
    assert groups.bytes_max == 96


def test_a_session_has_no_failure() -> None:
    assert first_failure(make_target("reference-groups"), 2000) is None


@pytest.mark.slow
def test_a_longer_session_has_no_failure() -> None:
    assert first_failure(make_target("reference-groups"), part_of(100_000), fresh("1")) is None


def test_explain_shows_that_the_first_byte_was_sampled() -> None:
    observation = Observation(samples=1, offsets=[0])
    assert "offsets 0" in ", ".join(answers_of(observation, contract_with()))


def test_explain_says_which_members_were_sampled() -> None:
    run = Run(make_target("reference-groups"), {})
    for action in TRACE[:2]:
        run.step(action)
    observation = run.step(TRACE[2])
    said = ", ".join(answers_of(observation, run.contract))
    assert "samples_by_member 1 and 2 and 2" in said
