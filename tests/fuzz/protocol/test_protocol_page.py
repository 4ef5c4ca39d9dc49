"""The tables of docs/protocol.md are what the classes declare, and its examples are real."""

import json
import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import pytest
from waiting import completed

from fuzz.protocol import actions as do
from fuzz.protocol.actions import ACTIONS, Action
from fuzz.protocol.contract import AtOnce, Contract, Distances, OldSpace, SamplingRule, Setting
from fuzz.protocol.exhaustion import Exhaustion
from fuzz.protocol.finalizers import Finalizers
from fuzz.protocol.groups import Groups
from fuzz.protocol.layout import Layout
from fuzz.protocol.lines import (
    action_from_data,
    contract_from_data,
    observation_from_data,
    unstructured,
)
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.protocol.trace import Header
from fuzz.run import run_actions

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
RULES_PAGE = (ROOT / "docs" / "sampling-rules.md").read_text(encoding="utf-8")
COUNTER = ROOT / "examples" / "python" / "counter.py"
COLUMNS = "| key | type | meaning | default |"
FOR_FILES = {each.name for each in attrs.fields(Header)} - {"gcfuzz", "target", "config"}
"""The keys of a header that no program gets."""


def tables_of(page: str) -> list[list[list[str]]]:
    """The cells of each table of keys."""
    _, *parts = page.split(f"{COLUMNS}\n|---|---|---|---|\n")
    return [
        [line.strip("| ").split(" | ") for line in part.partition("\n\n")[0].splitlines()]
        for part in parts
    ]


def type_named(annotation: Any) -> str:
    """How a table names the type of a field."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (UnionType, Union) and NoneType in arguments:
        [other] = (each for each in arguments if each is not NoneType)
        return f"{type_named(other)} or null"
    if annotation == Distances:
        return "string"  # Another table lists them.
    if origin is Literal:
        return ", ".join(f'`"{each}"`' for each in arguments)
    if origin in (tuple, list):
        item, *rest = type_named(arguments[0]).split(" ", 1)
        return " ".join(["list of", item if "`" in item else f"{item}s", *rest])
    return {int: "integer", str: "string", bool: "boolean"}.get(annotation, "object")


def default_named(field: Any) -> str | None:
    """How a table names the default of a field; None if the default is an object."""
    default = field.default
    if default is attrs.NOTHING:
        return "required"
    is_made = type(default) is attrs.Factory
    if attrs.has(type(default)) and not is_made:
        return None
    if is_made:
        default = default.factory()
    text = json.dumps(default)
    return text if isinstance(default, int | None) else f"`{text}`"


def check_table(table: list[list[str]], of: type, left_out: Collection[str] = ()) -> None:
    """A row may have several fields. Each field of the class must be in one row."""
    hints = get_type_hints(of)
    rows = {key: row for row in table for key in re.findall(r"`(\w+)`", row[0])}
    fields = {field.name: field for field in attrs.fields(of) if field.name not in left_out}
    assert rows.keys() == fields.keys()
    for name, field in fields.items():
        _, kind, meaning, default = rows[name]
        assert kind == type_named(hints[name]), name
        assert meaning, name
        assert default_named(field) in (default, None), name


@pytest.mark.parametrize(
    ("index", "of"),
    [
        *((1, Contract), (2, Layout), (3, Setting), (4, OldSpace), (5, AtOnce), (6, Finalizers)),
        *((7, Exhaustion), (8, Groups), (9, Action), (10, Observation)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_table_of_the_page_has_the_fields_of_a_class(index: int, of: type) -> None:
    table = tables_of(PAGE)[index]
    if of is Action:
        assert table.pop(0)[0] == "`do`"  # Its class is its name.
    check_table(table, of)


def test_the_first_table_has_the_keys_of_a_header_that_a_program_gets() -> None:
    check_table(tables_of(PAGE)[0], Header, FOR_FILES)


def test_the_page_of_sampling_rules_has_the_keys_of_all_rules() -> None:
    [table] = tables_of(RULES_PAGE)
    check_table(table, SamplingRule)


def test_the_page_of_sampling_rules_has_a_row_for_each_way_to_draw_distances() -> None:
    section = RULES_PAGE.partition("\n## Distances\n")[2].partition("\n## ")[0]
    assert {*re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)} == {*get_args(Distances)}


def test_the_page_has_a_row_for_each_action_as_it_is_declared(
    row_of: Callable[[type[Action]], str],
) -> None:
    lines = PAGE.splitlines()
    start = lines.index("| line | what to do | observed |")
    table = lines[start + 2 : lines.index("", start)]
    assert table == [row_of(action) for action in ACTIONS.values()]


def test_the_page_s_graph_is_what_the_reference_answers(reference: Target) -> None:
    shown = re.search(r'"collect_minor"}\nprogram   (.*)', PAGE)
    assert shown
    reference.start({})
    for action in (do.AllocateNode(7), do.AllocateArray(2), do.Write(1, 0, 0)):
        reference.perform(action)
    answer = unstructured(reference.perform(do.CollectMinor()))
    assert answer | json.loads(shown[1]) == answer


@pytest.mark.parametrize(
    ("field", "actions"),
    [
        ("outside", [do.AllocateNode(0)]),
        ("at", [do.AllocateNode(0)]),
        ("value", [do.AllocateNode(0), do.ReadNumber(0)]),
        (
            "alive",
            [
                *(do.AllocateNode(0), do.AllocateWeakref(0), do.Free(0), do.CollectFull()),
                do.ReadWeakref(0),
            ],
        ),
        ("graph", [do.CheckHeap()]),
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


def lines_of_session(side: str) -> list[str]:
    session = re.search(r"```text\n(gcfuzz .*?)```", PAGE, re.DOTALL)
    assert session
    return re.findall(rf"^{side} +(.*)$", session[1], re.MULTILINE)


def test_the_page_s_session_is_what_the_counter_answers() -> None:
    sent = "".join(f"{line}\n" for line in lines_of_session("gcfuzz"))
    ran = completed([sys.executable, str(COUNTER)], input=sent)
    assert ran.stdout.splitlines() == lines_of_session("program")


def test_the_page_s_session_is_right() -> None:
    header, *sent = map(json.loads, lines_of_session("gcfuzz"))
    promise, *answers = map(json.loads, lines_of_session("program"))
    contract = contract_from_data(promise["contract"])
    seen = iter(map(observation_from_data, answers))
    canned = SimpleNamespace(
        name="canned", start=lambda configuration: contract, perform=lambda action: next(seen)
    )
    assert run_actions(canned, header["config"], [*map(action_from_data, sent)]) is None
    assert next(seen, None) is None
