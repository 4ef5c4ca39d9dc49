"""The table of actions in docs/protocol.md is what their classes declare; the rest is true."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from fuzz.protocol.actions import (
    ACTIONS,
    Action,
    AllocateArray,
    AllocateNode,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    Free,
    ReadNumber,
    ReadWeakref,
    Write,
)
from fuzz.protocol.lines import (
    action_from_data,
    contract_from_data,
    observation_from_data,
    unstructured,
)
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.run import run_actions

PAGE = Path(__file__).parents[3] / "docs" / "protocol.md"


def test_the_page_has_a_row_for_each_action_as_it_is_declared(
    row_of: Callable[[type[Action]], str],
) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index("| line | what to do | observed |")
    table = lines[start + 2 : lines.index("", start)]
    assert table == [row_of(action) for action in ACTIONS.values()]


def test_the_page_s_graph_is_what_the_reference_answers(reference: Target) -> None:
    shown = re.search(r'"collect_minor"}\nprogram   (.*)', PAGE.read_text(encoding="utf-8"))
    assert shown
    reference.start({})
    for action in (AllocateNode(7), AllocateArray(2), Write(1, 0, 0)):
        reference.perform(action)
    answer = unstructured(reference.perform(CollectMinor()))
    assert answer | json.loads(shown[1]) == answer


@pytest.mark.parametrize(
    ("field", "actions"),
    [
        ("outside", [AllocateNode(0)]),
        ("at", [AllocateNode(0)]),
        ("value", [AllocateNode(0), ReadNumber(0)]),
        ("alive", [AllocateNode(0), AllocateWeakref(0), Free(0), CollectFull(), ReadWeakref(0)]),
        ("graph", [CheckHeap()]),
    ],
)
def test_what_is_false_or_0_or_an_empty_graph_may_not_be_left_out(
    field: str, actions: list[Action], reference: Target
) -> None:
    def perform(action: Action) -> Observation:
        observation = reference.perform(action)
        if not getattr(observation, field):
            setattr(observation, field, None)
        return observation

    terse = SimpleNamespace(name="terse", start=reference.start, perform=perform)
    nothing_prebuilt = {"prebuilt_nodes": 0, "prebuilt_arrays": 0}
    failure = run_actions(terse, nothing_prebuilt, actions)
    assert failure is not None
    assert (failure.field, failure.actions) == (field, tuple(actions))
    assert run_actions(reference, nothing_prebuilt, actions) is None


SESSION = re.search(r"```text\n(gcfuzz .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def said_in_session(by: str) -> list[dict[str, object]]:
    assert SESSION
    return [json.loads(line) for line in re.findall(rf"^{by} +(.*)$", SESSION[1], re.MULTILINE)]


def test_the_page_s_contract_is_complete_and_the_same_in_several_lines() -> None:
    answer, *_ = said_in_session("program")
    shown = re.search(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown
    assert answer == {"contract": json.loads(shown[1])}


def test_the_page_s_session_is_right() -> None:
    header, *lines_sent = said_in_session("gcfuzz")
    promise, *answers = said_in_session("program")
    contract = contract_from_data(promise["contract"])
    seen = iter([observation_from_data(answer) for answer in answers])
    canned = SimpleNamespace(
        name="canned", start=lambda configuration: contract, perform=lambda action: next(seen)
    )
    actions = [action_from_data(line) for line in lines_sent]
    assert header["config"] == {"nursery_bytes": contract.nursery_bytes}
    assert run_actions(canned, {"nursery_bytes": 512}, actions) is None
    assert next(seen, None) is None
