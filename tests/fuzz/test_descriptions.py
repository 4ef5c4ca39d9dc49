"""A mismatch in description: which object, which field, and what stands there instead."""

from __future__ import annotations

import pytest

from fuzz.descriptions import Description, describe
from fuzz.failure import Failure
from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Mismatch
from fuzz.oracles.heap import AFTER_ALL, WHILE_PERFORMING, WHILE_STARTING
from fuzz.protocol import actions as do
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation, Report
from fuzz.targets import make_target
from fuzz.terminal.report import describe_failure

NODE, ARRAY, STRING = 1, 3, 4
PREBUILT = [[NODE, 0], [ARRAY, 4]]
HELD = (do.AllocateNode(7), do.AllocateNode(9), do.AllocateArray(2), do.Write(2, 1, 0))
"""The array #3 refers from its item 1 to the node #1; the node #2 is another."""


def said(
    contract: Contract,
    actions: tuple[Action, ...],
    mismatch: Mismatch,
    graph: list[list[int]] | None = None,
) -> Description:
    shadow = Shadow(contract)
    for action in actions:
        shadow.follow(action, 0)
    seen = Observation(graph=graph)
    return describe(mismatch, actions[-1], seen, shadow, contract.layout.kinds)


def said_of_walks(
    contract: Contract, actions: tuple[Action, ...], *rows: list[int], prebuilt: bool = True
) -> Description:
    """Of a walk that finds these objects, and what is prebuilt, where the mutator's are others."""
    shadow = Shadow(contract)
    for action in actions:
        shadow.follow(action, 0)
    got = [*rows, *(PREBUILT if prebuilt else [])]
    return said(contract, actions, Mismatch("heap", "graph", shadow.graph(), got, ""), got)


# Walks.


def test_a_reference_to_another_object_names_all_three(contract: Contract) -> None:
    description = said_of_walks(contract, HELD, [NODE, 7], [NODE, 9], [ARRAY, 2, 1, 1])
    assert description == Description(
        "array #3, item 1", "node #1 (number 7)", "node #2 (number 9)"
    )


def test_a_reference_that_is_lost_leads_to_null(contract: Contract) -> None:
    description = said_of_walks(contract, HELD, [NODE, 7], [NODE, 9], [ARRAY, 2])
    assert description == Description("array #3, item 1", "node #1 (number 7)", "null")


def test_a_reference_that_was_never_written_is_named_by_its_field(contract: Contract) -> None:
    description = said_of_walks(contract, HELD, [NODE, 7, 0, 2], [NODE, 9], [ARRAY, 2, 1, 0])
    assert description == Description("node #1, field 0", "null", "array #3 (length 2)")


def test_a_number_that_is_another_names_its_object(contract: Contract) -> None:
    description = said_of_walks(contract, HELD, [NODE, 7], [NODE, 8], [ARRAY, 2, 1, 0])
    assert description == Description("node #2", "number 9", "number 8")


def test_an_object_keeps_its_name_when_its_row_changes(contract: Contract) -> None:
    description = said_of_walks(contract, (*HELD, do.Free(1)), [NODE, 7], [ARRAY, 2])
    assert description == Description("array #3, item 1", "node #1 (number 7)", "null")


def test_an_object_that_the_mutator_does_not_know_has_no_name(contract: Contract) -> None:
    actions = (do.AllocateArray(2), do.AllocateNode(5), do.Write(0, 0, 1), do.Free(1))
    graph = [[ARRAY, 2, 0, 3], *PREBUILT, [NODE, 5]]
    assert said_of_walks(contract, actions, *graph, [NODE, 6], prebuilt=False).where == (
        "object 4 of the walk"
    )
    graph = [[ARRAY, 2, 0, 3, 1, 4], *PREBUILT, [NODE, 5], [NODE, 6]]
    description = said_of_walks(contract, actions, *graph, prebuilt=False)
    assert description == Description("array #1, item 1", "null", "node (number 6)")


def test_a_prebuilt_object_is_called_so(contract: Contract) -> None:
    graph = [[NODE, 0, 0, 1], [ARRAY, 4]]
    description = said_of_walks(contract, (do.LoadPrebuilt(0),), *graph, prebuilt=False)
    assert description.where == "node prebuilt 0, field 0"


def test_objects_that_are_missing_are_counted_too(contract: Contract) -> None:
    actions = (do.AllocateNode(7), do.AllocateArray(2), do.Write(1, 1, 0), do.Free(0))
    got = [[ARRAY, 2], *PREBUILT]
    description = said(contract, actions, Mismatch("heap", "graph", 4, 3, ""), got)
    assert description == Description(
        "array #2, item 1", "node #1 (number 7); 4 objects in all", "null; 3 objects in all"
    )


@pytest.mark.parametrize(
    "row", [[], [ARRAY], [ARRAY, 2, 1], [ARRAY, 2, 1, 0, 1, 0], [ARRAY, 2, 1, 0, 0, 0]], ids=str
)
def test_a_row_that_cannot_be_understood_is_shown(contract: Contract, row: list[int]) -> None:
    description = said_of_walks(contract, HELD, [NODE, 7], [NODE, 9], row)
    assert description == Description("row 2 of the walk", "[3, 2, 1, 0]", str(row))


@pytest.mark.parametrize("row", [-1, 99])
def test_a_reference_to_no_row_leads_to_nothing(contract: Contract, row: int) -> None:
    description = said_of_walks(contract, HELD, [NODE, 7], [NODE, 9], [ARRAY, 2, 1, row])
    assert description.got == "nothing"


def test_an_unknown_type_is_described_by_its_index(contract: Contract) -> None:
    description = said_of_walks(contract, (do.AllocateNode(7),), [9, 7])
    assert description == Description("object #1", "node #1 (number 7)", "type 9 #1 (length 7)")


def test_a_second_run_s_walk_is_compared_with_the_first(contract: Contract) -> None:
    first = [[NODE, 7], [NODE, 9], [ARRAY, 2, 1, 0], *PREBUILT]
    second = [[NODE, 7], [NODE, 9], [ARRAY, 2, 1, 1], *PREBUILT]
    description = said(contract, HELD, Mismatch("transparency", "graph", second, first, ""))
    assert description == Description(
        "array #3, item 1", "node #2 (number 9)", "node #1 (number 7)"
    )


def test_a_walk_that_is_missing_is_null(contract: Contract) -> None:
    description = said(contract, HELD, Mismatch("heap", "graph", "a walk of the heap", None, ""))
    assert description == Description("", "a walk of the heap", "null")


# What is read.


def test_a_slot_is_described_with_its_object(contract: Contract) -> None:
    description = said(contract, (*HELD, do.Read(2, 1)), Mismatch("heap", "value", 0, 1, ""))
    assert description == Description("array #3, item 1", "root 0, node #1", "root 1, node #2")


def test_a_slot_that_does_not_exist_is_described(contract: Contract) -> None:
    description = said(contract, (*HELD, do.Read(2, 1)), Mismatch("heap", "value", 0, 17, ""))
    assert description.got == "root 17, which does not exist"


def test_a_weak_reference_that_is_cleared_is_named(contract: Contract) -> None:
    actions = (do.AllocateNode(0), do.AllocateWeakref(0), do.ReadWeakref(1))
    description = said(contract, actions, Mismatch("heap", "alive", True, False, ""))
    assert description == Description("weakref #2", "alive true", "alive false")


# What is no object's.


@pytest.mark.parametrize(
    ("field", "value", "description"),
    [
        ("state", 1, "marking"),
        ("state", 9, "in state 9"),
        ("state", [1, 2], "marking or sweeping"),
        ("entry", ["node", "outside", "died"], "node outside, died"),
        ("offsets", [0, 8], "0 and 8"),
        ("offsets", [], "none"),
        ("memory", [64, 512], "64 bytes and 512 arena bytes"),
        ("memory", [64], "[64]"),
        (
            "reports",
            [Report([5], 1, 2, 1)],
            "reported node survived, 1 byte and 2 arena bytes, marking",
        ),
        ("samples", 3, "3"),
        ("sample_point", None, "null"),
    ],
)
def test_a_value_is_described(
    contract: Contract, field: str, value: object, description: str
) -> None:
    mismatch = Mismatch("heap", field, value, "nothing", "")
    assert said(contract, (do.CollectMinor(),), mismatch) == Description("", description, "nothing")


# A failure.


def test_a_failure_with_a_place_says_it_in_the_field_s_place() -> None:
    failure = Failure(
        *("heap", "graph", "check_heap", "different", "null", "node #1", "found"),
        where="node #2, field 0",
    )
    assert failure.message == "heap: node #2, field 0: expected null, got node #1 (found)"
    assert describe_failure(failure)[1:4] == (
        ("where", "node #2, field 0"),
        ("expected", "null"),
        ("got", "node #1"),
    )


def test_the_names_are_those_of_the_graph_s_rows() -> None:
    contract = make_target("reference").start({})
    shadow = Shadow(contract)
    for action in (*HELD, do.Free(0), do.Free(0)):
        shadow.follow(action, 0)
    assert shadow.names() == ["#3", "prebuilt 0", "prebuilt 1", "#1"]
    assert len(shadow.names()) == len(shadow.graph())


# A target that fails to answer.


@pytest.mark.parametrize(
    ("error", "when", "sentence"),
    [
        (
            "crash SIGSEGV: it ended without a word",
            WHILE_PERFORMING,
            "the target crashed with SIGSEGV while executing this action",
        ),
        (
            "crash exit code 3: last line",
            WHILE_PERFORMING,
            "the target ended with exit code 3 while executing this action: last line",
        ),
        (
            "crash: it closed its output, and did not end",
            WHILE_PERFORMING,
            "the target crashed while executing this action: it closed its output, and did not end",
        ),
        (
            "hang: no answer within 10 s",
            WHILE_PERFORMING,
            "the target did not answer this action within 10 s",
        ),
        (
            "hang at start: no answer within 30 s",
            WHILE_STARTING,
            "the target did not answer the header within 30 s",
        ),
        (
            "garbage: not JSON: 'x'",
            WHILE_PERFORMING,
            "the target answered this action with a line that gcfuzz cannot read: not JSON: 'x'",
        ),
        (
            "garbage after the last answer: '{}'",
            AFTER_ALL,
            "the target wrote a line after its last answer: '{}'",
        ),
        (
            "crash SIGABRT at end: SUMMARY: leak",
            AFTER_ALL,
            "the target crashed with SIGABRT after the last action: SUMMARY: leak",
        ),
        (
            "MemoryError: no room",
            WHILE_PERFORMING,
            "the target reported an error while executing this action: MemoryError: no room",
        ),
        (
            "crash SIGSEGV: oops",
            f"{WHILE_PERFORMING}; so it was before",
            "the target crashed with SIGSEGV while executing this action: oops; so it was before",
        ),
    ],
)
def test_a_target_that_fails_to_answer_is_a_sentence(error: str, when: str, sentence: str) -> None:
    failure = Failure("heap", "error", "check_heap", "crash", "null", error, when)
    assert failure.message == f"heap: {sentence}"
    assert describe_failure(failure) == (("oracle", "heap"), ("got", sentence))
