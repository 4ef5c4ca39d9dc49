"""Novelty: of several drawn actions, the one that the trace has done least often."""

from collections.abc import Callable

import pytest

from fuzz.drawing.novelty import CANDIDATES
from fuzz.drawing.rules import Situation
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action


def drawing(*actions: Action) -> Callable[[], Action]:
    return iter(actions).__next__


@pytest.fixture
def nodes(situation: Situation) -> Situation:
    """Two nodes, and the trace has read the number of the first."""
    for number in range(2):
        situation.bench.shadow.follow(do.AllocateNode(number), minors=0)
    situation.novelty.note(situation, do.ReadNumber(0))
    return situation


def test_an_action_that_the_trace_has_not_done_is_taken_at_once(nodes: Situation) -> None:
    draw = drawing(do.Free(0))
    assert nodes.novelty.least_seen(nodes, draw) == do.Free(0)


def test_an_action_that_the_trace_has_done_gives_way(nodes: Situation) -> None:
    draw = drawing(do.ReadNumber(0), do.Free(0))
    assert nodes.novelty.least_seen(nodes, draw) == do.Free(0)


def test_of_equals_the_first_is_taken(nodes: Situation) -> None:
    draw = drawing(*[do.ReadNumber(0), do.ReadNumber(1)] * CANDIDATES)
    assert nodes.novelty.least_seen(nodes, draw) == do.ReadNumber(0)


def test_the_same_action_is_new_for_an_object_of_which_other_facts_are_true(
    nodes: Situation,
) -> None:
    nodes.novelty.note(nodes, do.TakeIdentity(1))
    draw = drawing(do.ReadNumber(0), do.ReadNumber(1))
    assert nodes.novelty.least_seen(nodes, draw) == do.ReadNumber(1)


def test_the_same_action_is_new_in_another_phase(nodes: Situation) -> None:
    nodes.phase = 1
    draw = drawing(do.ReadNumber(0))
    assert nodes.novelty.least_seen(nodes, draw) == do.ReadNumber(0)


def test_a_trace_has_a_table_of_its_own(nodes: Situation) -> None:
    assert Situation(nodes.contract, nodes.bench).novelty is not nodes.novelty
