"""The adapter kit passes each action to its callback, and returns each answer.

`every_callback.c` beside this file has all callbacks, and prints each call on standard error.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from waiting import PATIENCE_SECONDS, completed

from fuzz.protocol.actions import ACTIONS
from fuzz.protocol.contract import Contract, OldSpace, Prebuilt, Range, SamplingRule, Setting
from fuzz.protocol.finalizers import Finalizers
from fuzz.protocol.layout import KindLayout, Layout
from fuzz.protocol.observation import FIELDS
from fuzz.protocol.written import contents_of

pytestmark = pytest.mark.slow  # It has to be compiled first.

HEADER = '{"gcfuzz": 2, "target": "process"}'
STRING = '{"do": "allocate_string", "length": 7}'
ARRAY = '{"do": "allocate_array", "length": 3}'
NODE = '{"do": "allocate_node", "number": 5}'
COPY = (
    '{"do": "copy_array", "source": 1, "dest": 2, "source_start": 0, "dest_start": 1, "length": 2}'
)

Talk = Callable[..., tuple[list[dict[str, Any]], list[str]]]


@pytest.fixture(scope="module")
def program(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("every_callback") / "adapter"
    sources = [Path(__file__).parent / "every_callback.c", native / "gcfuzz_adapter.c"]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    checked = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(
        ["gcc", "-std=c11", *warnings, *checked, f"-I{native}", "-o", built, *sources],
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    return built


@pytest.fixture
def talk_fully(program: Path) -> Talk:
    """The answers to lines after a header, and the calls of the callbacks."""

    def run(*lines: str) -> tuple[list[dict[str, Any]], list[str]]:
        # The callbacks never free anything.
        text = "".join(f"{line}\n" for line in (HEADER, *lines))
        ran = completed([program], input=text, env={"ASAN_OPTIONS": "detect_leaks=0"})
        return [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr.splitlines()

    return run


@pytest.fixture
def talk(talk_fully: Talk) -> Talk:
    """The same without what is in each answer."""

    def run(*lines: str) -> tuple[list[dict[str, Any]], list[str]]:
        (contract, *answers), calls = talk_fully(*lines)
        return [contract, *({k: a[k] for k in a if k not in IN_EACH} for a in answers)], calls

    return run


IN_EACH = {"free", "limit", "top", "state"}
OF_BLOCKS = {"malloc", "calloc", "realloc", "set_period", "read_profile"}
"""The kit is for collectors; these are actions for allocators whose mutator frees."""
OF_GROUPS = {"allocate_group"}
"""What a compiler folds; the kit allocates one object for an action."""
OF_THREADS = {"begin_thread", "end_thread", "run_at_once"}
"""The kit has only one thread."""


OF_SYSTEMS = {"buffer", "ended", "seed", "tlab", "profile", "offsets", "weights"}
"""Fields that answer for the samplers of systems that have a target of their own."""
FIELDS_OF_GROUPS_AND_THREADS = {"samples_by_member", "members", "shares"}
OF_FULL_HEAPS = {"exhausted"}
"""The kit has no key for a limit of the heap."""
OMITTED = {
    Contract: {"at_once", "exhaustion", "groups", "tier_setting", "boundary_bytes", "batch"}
    # The first is the command line of a program; the harness knows it.
    | {"started_with"},
    Layout: {"size_classes", "page_bytes", "shared_bytes", "shared_rounded"},
    KindLayout: {"parts"},
    SamplingRule: {"counting", "periods", "counts", "realloc", "weights", "paused", "own_bytes"}
    | {"setting_period", "enabling", "seeds", "initial_period_bytes", "first_bytes", "estimates"},
    Finalizers: {"destructors"},
    OldSpace: set[str](),
    Setting: {"choices", "of_process"},
    Range: set[str](),
    Prebuilt: set[str](),
}
"""The keys that the kit cannot state: of allocators, of systems with a target of their own, of
groups, threads and full heaps. An adapter that needs one speaks the protocol by itself."""


def test_an_adapter_with_all_callbacks_carries_out_all_actions(talk: Talk) -> None:
    (answer,), _ = talk()
    assert {*answer["contract"]["actions"]} == {*ACTIONS} - OF_BLOCKS - OF_GROUPS - OF_THREADS


def test_an_adapter_with_all_callbacks_observes_all_fields(talk: Talk) -> None:
    (answer,), _ = talk()
    omitted = OF_SYSTEMS | FIELDS_OF_GROUPS_AND_THREADS | OF_FULL_HEAPS | {"error"}
    assert {*answer["contract"]["observes"]} == {*FIELDS} - omitted


@pytest.mark.parametrize(
    ("part", "place"),
    [
        (Contract, ()),
        (Layout, ("layout",)),
        (KindLayout, ("layout", "kinds", "node")),
        (SamplingRule, ("sampling",)),
        (Range, ("sampling", "period_bytes")),
        (Finalizers, ("finalizers",)),
        (OldSpace, ("old_space",)),
        (Setting, ("settings", 1)),
        (Prebuilt, ("prebuilt", 1)),
    ],
)
def test_the_kit_states_all_keys_of_a_contract(
    talk: Talk, part: type[Any], place: tuple[Any, ...]
) -> None:
    (answer,), _ = talk()
    stated = answer["contract"]
    for key in place:
        stated = stated[key]
    assert {*stated} == {*attrs.fields_dict(part)} - OMITTED[part]


def test_each_answer_has_the_state_and_the_pointers(talk_fully: Talk) -> None:
    answers, _ = talk_fully(NODE)
    assert {key: answers[-1].get(key) for key in sorted(IN_EACH)} == {
        "free": 1,
        "limit": 2,
        "state": 2,
        "top": 3,
    }


def test_the_contract_has_promises_and_finalizers_and_immortal_objects(talk: Talk) -> None:
    (answer,), _ = talk()
    contract = answer["contract"]
    assert contract["promises"] == ["collections", "memory", "progress", "pressure"]
    assert contract["survivor_bytes"] == 32
    assert contract["fresh_process"] is True
    promised = contract["finalizers"]
    assert (promised["within"], promised["within_collections"]) == (2, 3)
    assert promised["ephemerons"] == "attached"
    assert contract["prebuilt"] == [{"kind": "node"}, {"kind": "array", "length": 2}]


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ('{"do": "allocate_node", "number": -5, "nonmovable": true}', "allocate_node -5 1"),
        ('{"do": "allocate_string", "length": 0, "nonmovable": false}', "allocate_string 0 0"),
        ('{"do": "allocate_array", "length": 2, "nonmovable": true}', "allocate_array 2 1"),
        ('{"do": "allocate_weakref", "root": 1}', "allocate_weakref of 3"),
        ('{"do": "allocate_old_string", "length": 9}', "allocate_old_string 9"),
        ('{"do": "allocate_ephemeron", "key": 0, "value": 2}', "allocate_ephemeron of 7, 4"),
        (COPY, "copy_array 3 to 4, 0 to 1, 2"),
        ('{"do": "fill_array", "root": 1, "value": 0}', "fill_array 3 with 7"),
        ('{"do": "fill_array", "root": 1, "value": null}', "fill_array 3 with -1"),
        ('{"do": "move_array", "root": 2, "source_start": 0, "dest_start": 1, "length": 3}',
         "move_array 4, 0 to 1, 3"),
        ('{"do": "pin", "root": 0}', "pin 7"),
        ('{"do": "unpin", "root": 0}', "unpin 7"),
        ('{"do": "set_callback", "length": 0}', "set_callback 0"),
        ('{"do": "set_callback", "length": null}', "set_callback -1"),
        ('{"do": "add_memory_pressure", "extra_bytes": 1099511627776}',
         "add_memory_pressure 1099511627776"),
        ('{"do": "collect_minor"}', "collect_minor"),
        ('{"do": "collect_progress"}', "collect_progress"),
        ('{"do": "collect_step"}', "collect_step"),
        ('{"do": "enable_sampling", "period_bytes": 9}', "enable_sampling 9"),
        ('{"do": "disable_sampling", "report": true}', "disable_sampling 1"),
        ('{"do": "disable_sampling"}', "disable_sampling 0"),
        ('{"do": "pause_sampling"}', "pause_sampling"),
        ('{"do": "resume_sampling"}', "resume_sampling"),
        ('{"do": "fork"}', "fork"),
    ],
)  # fmt: skip
def test_an_action_reaches_its_callback(talk: Talk, line: str, call: str) -> None:
    answers, calls = talk(STRING, ARRAY, '{"do": "allocate_array", "length": 4}', line)
    assert "error" not in answers[-1]
    assert calls[-1] == call


def test_only_strings_reach_pin(talk: Talk) -> None:
    answers, _ = talk(NODE, '{"do": "pin", "root": 0}')
    assert "only strings" in answers[-1]["error"]


def test_an_immortal_object_is_loaded_into_a_root_if_it_exists(talk: Talk) -> None:
    loads = ['{"do": "load_prebuilt", "index": 1}', '{"do": "load_prebuilt", "index": 2}']
    answers, _ = talk(*loads, '{"do": "read_number", "root": 0}')
    assert "no such immortal object" in answers[-2]["error"]
    assert answers[-1] == {"value": 2}


def test_an_object_that_is_read_is_named_by_its_lowest_slot(talk: Talk) -> None:
    write = '{"do": "write", "root": 0, "field": 1, "value": 1}'
    read = '{"do": "read", "root": 0, "field": 1}'
    answers, _ = talk(NODE, STRING, write, read, read)
    assert [answer["value"] for answer in answers[-2:]] == [1, 1]


def test_nothing_is_read_from_a_field_that_is_null(talk: Talk) -> None:
    answers, _ = talk(NODE, '{"do": "read", "root": 0, "field": 1}')
    assert answers[-1] == {}


def test_a_freed_slot_is_closed_by_those_above_it(talk: Talk) -> None:
    answers, _ = talk(NODE, STRING, '{"do": "free", "root": 0}', '{"do": "read_number", "root": 0}')
    assert answers[-1] == {"value": 7}


def test_the_walk_is_breadth_first_and_ends_with_the_immortal_objects(talk: Talk) -> None:
    writes = [
        '{"do": "write", "root": 0, "field": 1, "value": 2}',
        '{"do": "write", "root": 1, "field": 0, "value": 0}',
        '{"do": "write", "root": 1, "field": 2, "value": 2}',
        '{"do": "free", "root": 2}',
    ]
    answers, _ = talk(NODE, ARRAY, STRING, *writes, '{"do": "check_heap"}')
    assert answers[-1]["graph"] == [[1, 5, 1, 4], [3, 3, 0, 0, 2, 4], [1, 0], [3, 2], [4, 7]]


def test_a_collection_reports_its_events_in_order_and_the_heap(talk: Talk) -> None:
    answers, _ = talk('{"do": "collect_full"}')
    report = {"memory_used_bytes": 1, "arena_bytes": 2, "major_state": 3, "entries": [18, 5]}
    assert answers[-1] == {
        "minors": 2,
        "order": "MRMR",
        "reports": [report, report],
        "graph": [[1, 0], [3, 2]],
        "memory": [5, 6],
    }


def test_identities_and_weak_references_are_answered(talk: Talk) -> None:
    weakref = ['{"do": "allocate_weakref", "root": 0}', '{"do": "read_weakref", "root": 1}']
    answers, _ = talk(NODE, *weakref, '{"do": "take_identity", "root": 0}')
    assert answers[-2:] == [{"alive": True}, {"identity": 105}]


def test_the_object_of_a_weak_reference_becomes_a_root_if_it_is_kept(talk: Talk) -> None:
    weakref = ['{"do": "allocate_weakref", "root": 0}'] * 2
    reads = [f'{{"do": "read_weakref", "root": {root}, "keep": true}}' for root in (1, 2)]
    answers, _ = talk(NODE, *weakref, *reads, '{"do": "check_heap"}')
    assert [answer["alive"] for answer in answers[-3:-1]] == [False, True]
    # The dead one's weak reference is a root once more, and so is the node.
    assert answers[-1]["graph"] == [[1, 5], [2, 0], [2, 0], [1, 0], [3, 2]]


def test_an_ephemeron_has_a_value(talk: Talk) -> None:
    pair = '{"do": "allocate_ephemeron", "key": 0, "value": 1}'
    answers, _ = talk(NODE, STRING, pair, '{"do": "read_ephemeron", "root": 2}')
    assert answers[-1] == {"value": 7}


CHECK = '{"do": "check_contents"}'
WIDE = '{"do": "allocate_string", "length": 5}'
LONG, OLD = '{"do": "allocate_string", "length": 12}', '{"do": "allocate_old_string", "length": 9}'


def test_the_kit_writes_into_each_string_and_compares_it(talk: Talk) -> None:
    answers, _ = talk(NODE, LONG, OLD, '{"do": "allocate_string", "length": 0}', CHECK)
    assert answers[-1] == {"contents": [[1], [2], [0]]}


def test_the_kit_shows_the_bytes_from_the_first_wrong_one_on(talk: Talk) -> None:
    answers, _ = talk(LONG, LONG, '{"do": "unpin", "root": 0}', CHECK)
    assert answers[-1] == {"contents": [[1, 9, 0, *contents_of(1, 24)[10:]], [2]]}


def test_the_kit_compares_all_bytes_of_a_wide_character(talk: Talk) -> None:
    answers, _ = talk(WIDE, '{"do": "unpin", "root": 0}', CHECK)
    assert answers[-1] == {"contents": [[1, 9, 0]]}


def test_the_kit_compares_a_string_that_only_an_array_refers_to(talk: Talk) -> None:
    write = '{"do": "write", "root": 0, "field": 0, "value": 1}'
    answers, _ = talk(ARRAY, LONG, write, '{"do": "free", "root": 1}', OLD, CHECK)
    assert answers[-1] == {"contents": [[2], [1]]}


REGISTER = '{"do": "register_finalizer", "root": 0, "number": 10}'
RESURRECT = '{"do": "resurrect", "number": 10}'


def test_finalizers_of_nodes_are_registered_and_taken_back(talk: Talk) -> None:
    _, calls = talk(NODE, REGISTER, '{"do": "unregister_finalizer", "root": 0}')
    assert calls[-2:] == ["register_finalizer 10 of 5", "unregister_finalizer of 5"]


def test_a_string_has_no_finalizer(talk: Talk) -> None:
    answers, _ = talk(STRING, REGISTER)
    assert "only nodes" in answers[-1]["error"]


def test_an_object_that_was_finalized_is_resurrected_if_it_was_kept(talk: Talk) -> None:
    run = '{"do": "run_finalizers", "keep": true}'
    free, number = '{"do": "free", "root": 0}', '{"do": "read_number", "root": 0}'
    answers, _ = talk(NODE, REGISTER, free, run, RESURRECT, number)
    assert answers[-3:] == [{"finalized": [11, 10]}, {}, {"value": 5}]


def test_an_object_that_was_not_kept_is_not_resurrected(talk: Talk) -> None:
    kept, dropped = '{"do": "run_finalizers", "keep": true}', '{"do": "run_finalizers"}'
    answers, _ = talk(NODE, REGISTER, kept, dropped, RESURRECT)
    assert "no object is kept" in answers[-1]["error"]
