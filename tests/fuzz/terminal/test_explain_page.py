"""`gcfuzz explain --html`: the data of the page, and the command."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Complaint
from explained import (
    ARRAY,
    BLOCKS,
    COLLECT,
    DEAF,
    ENABLE,
    FREE,
    HAS_STALE_LIMIT,
    HEADER,
    HELD_BY_ONE,
    IS_DEAF,
    LIVE,
    LOAD,
    LOSES_NUMBER,
    MALLOC,
    NODE,
    NUMBER_LOST,
    OF_PLANTED_BUGS,
    OUTSIDE,
    REALLOC,
    STALE_LIMIT,
    TOP,
    WEAKREF,
    heap_at,
    page_of,
    page_of_live_objects,
    write,
)

from fuzz.mutator.shadow import Shadow
from fuzz.protocol.actions import CheckHeap
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.trace import Trace
from fuzz.replay import Step, replay_steps
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.commands.cli import run_command_line
from fuzz.terminal.explain_page import make_page, render

CLEAN, MISMATCH, BAD_INPUT = 0, 1, 2


# The data.


def test_an_object_keeps_its_name_when_its_row_changes() -> None:
    page = page_of(NODE, ARRAY, FREE)
    names = [[each.name for each in heap_at(page, step)] for step in (1, 2)]
    assert names == [["#1", "#2", "prebuilt 0", "prebuilt 1"], ["#2", "prebuilt 0", "prebuilt 1"]]


@pytest.mark.parametrize(
    ("actions", "target", "label", "note"),
    [
        ((NODE,), "reference", "node 7", "young"),
        ((NODE, COLLECT), "reference", "node 7", "old"),
        ((OUTSIDE,), "reference", "string 100", "young outside"),
        ((NODE, WEAKREF, FREE), "reference", "weakref → garbage", "young"),
        ((NODE, WEAKREF, FREE, COLLECT), "reference", "weakref → dead", "old"),
        ((MALLOC,), BLOCKS, "block of 10", "room 16"),
        ((MALLOC, REALLOC), BLOCKS, "block of 17", "room 32"),
    ],
)
def test_an_object_has_its_kind_number_and_age(
    actions: Sequence[str], target: str, label: str, note: str
) -> None:
    first = heap_at(page_of(*actions, target=target), -1)[0]
    assert (first.label, first.note) == (label, note)


def test_an_object_has_its_slots_references_and_weak_reference() -> None:
    heap = heap_at(page_of(NODE, ARRAY, write(1, 1, 0), WEAKREF, LOAD, NODE, LOAD), -1)
    assert heap[1].references == ((1, 0),)
    assert (heap[2].label, heap[2].weak) == ("weakref", 0)
    assert heap[3].slots == (3, 5)


def test_an_object_without_a_slot_is_there_while_a_reference_leads_to_it() -> None:
    page = page_of(NODE, ARRAY, write(1, 1, 0), FREE, write(0, 1, None))
    has_node = ["#1" in {each.name for each in heap_at(page, step)} for step in (3, 4)]
    assert has_node == [True, False]


def test_a_step_has_its_words_its_pointers_and_the_place_of_its_object() -> None:
    step = page_of(ENABLE, NODE, ARRAY)["steps"][-1]
    assert step["action"] == "allocate_array length=2"
    assert step["answers"] == "32 bytes in the nursery at 32"
    pointers = {"free": 64, "limit": 128, "top": TOP, "sample_point": 128, "expected": None}
    assert step["nursery"] == pointers
    assert step["placed"] == (32, 32)


def test_a_step_names_its_thread() -> None:
    [step] = page_of(MALLOC, target=BLOCKS)["steps"]
    assert step["action"] == "malloc by thread 1 size_bytes=10"


def test_a_step_has_whether_the_target_walked_its_heap() -> None:
    assert [step["walked"] for step in page_of(NODE, COLLECT)["steps"]] == [False, True]


def test_a_wrong_pointer_has_the_right_value_and_the_mismatch() -> None:
    step = page_of(*STALE_LIMIT, target=HAS_STALE_LIMIT)["steps"][-1]
    assert (step["nursery"]["limit"], step["nursery"]["expected"]) == (31, ("limit", TOP))
    assert step["mismatch"] == [
        ("oracle", "pointers"),
        ("expected", "limit 256"),
        ("got", "limit 31"),
        ("because", "the limit is the lower of sample_point 263 and top 256"),
    ]


def test_a_tlab_has_its_pointers_and_the_right_value_of_the_wrong_one() -> None:
    page = page_of(*DEAF, target=IS_DEAF)
    assert page["draws_tlabs"]
    pointers = {"start": 0, "free": 40, "limit": 136, "top": 136, "sample_point": None}
    assert page["steps"][-1]["nursery"] == {**pointers, "expected": ("limit", 64)}


@pytest.mark.parametrize(
    ("target", "action", "draws"),
    [("reference", NODE, True), ("reference-dotnet", NODE, False), (BLOCKS, MALLOC, False)],
)
def test_a_nursery_is_drawn_if_there_is_one(target: str, action: str, draws: bool) -> None:
    assert page_of(action, target=target)["draws_nursery"] is draws


def test_a_heap_that_differs_is_there_beside_the_mutator_s() -> None:
    page = page_of(*NUMBER_LOST, target=LOSES_NUMBER)
    step = page["steps"][-1]
    assert (heap_at(page, -1)[0].label, step["found"][0]["label"]) == ("node 1", "node 0")
    assert step["differs"] == [0]
    assert [box["differs"] for box in step["found"]] == [True, False, False]


@pytest.mark.parametrize(
    ("graph", "labels", "references"),
    [
        (None, None, None),
        ([[1, 0, 0, 2], [3, 4], [9, 5]], ["node 0", "array 4", "type 9 5"], [[(0, 2)], [], []]),
        ([[], [1], [1, 2, 3]], ["no object", "node", "node 2"], [[], [], []]),
    ],
)
def test_any_heap_of_a_target_can_be_drawn(
    graph: list[list[int]] | None,
    labels: list[str] | None,
    references: list[list[tuple[int, int]]] | None,
    contract: Contract,
) -> None:
    step = Step(1, CheckHeap(), Observation(graph=graph), contract, None, Shadow(contract))
    [shown] = make_page("a trace", {}, [step])["steps"]
    assert shown["nursery"] is None
    assert (shown["found"] and [box["label"] for box in shown["found"]]) == labels
    assert (shown["found"] and [box["references"] for box in shown["found"]]) == references


def noted(trace: Trace, walks: list[list[list[int]]], ages: list[list[str]]) -> Iterator[Step]:
    """The steps of a planted bug's trace; notes the heap of the shadow after each."""
    target = make_target(KNOWN_BUGS[trace.header.kills[0]].target)
    for step in replay_steps(target, trace, "a trace"):
        walks.append(step.shadow.graph())
        ages.append([obj.age.name.lower() for obj in step.shadow.roots])
        yield step


def test_the_changes_up_to_a_step_make_its_heap() -> None:
    for name, trace in OF_PLANTED_BUGS.items():
        walks: list[Any] = []
        ages: list[Any] = []
        page = make_page("a trace", {}, noted(trace, walks, ages))
        for number, (walk, slots) in enumerate(zip(walks, ages, strict=True)):
            heap = heap_at(page, number)
            rows = [list(itertools.chain(*each.references)) for each in heap]
            assert rows == [row[2:] for row in walk], name
            notes = [(slot, each.note) for each in heap if each.note for slot in each.slots]
            shown = {slot: note.split()[0] for slot, note in notes if "room" not in note}
            assert shown == {slot: slots[slot] for slot in shown}, name


ROOTED = [NODE] * LIVE + [FREE] * LIVE


@pytest.mark.slow
@pytest.mark.parametrize("actions", [ROOTED, HELD_BY_ONE], ids=["roots", "array"])
def test_a_page_of_many_live_objects_can_be_mailed(actions: list[str]) -> None:
    assert len(render(page_of_live_objects(*actions))) < 5_000_000


def test_a_page_grows_with_the_trace_and_not_with_the_trace_times_the_heap() -> None:
    short, long = (len(render(page_of_live_objects(*[NODE] * live))) for live in (1, 200))
    assert long - short < 200 * 600


def test_no_text_ends_the_data_early() -> None:
    title = "</script><!--<script>{{page}}"
    data = re.search(
        r'<script type="application/json" id="page">(.*?)</script>',
        render(page_of(title=title)),
        re.DOTALL,
    )
    assert data
    assert json.loads(data[1])["title"] == title


def test_the_page_loads_nothing() -> None:
    page = render(page_of(NODE))
    assert re.findall(r"\b(?:src|href)\s*=|\burl\((?!#)|@import|\bfetch\(", page) == []
    assert re.findall(r"https?://[^\"' ]*", page) == ["http://www.w3.org/2000/svg"]


# The command.


@pytest.fixture
def explain(empty_folder: Path) -> Callable[..., int]:
    """Explain a trace of one action."""
    (empty_folder / "trace.jsonl").write_text(HEADER + '{"do": "disable_sampling"}\n')
    return lambda *options: run_command_line(["explain", "trace.jsonl", *options])


@pytest.mark.parametrize(
    ("target", "code"), [("reference", CLEAN), ("reference+disable-before-enable", MISMATCH)]
)
def test_the_command_exits_like_replay_and_names_the_page(
    target: str, code: int, explain: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain("--target", target, "--html", "page.html") == code
    printed = capsys.readouterr().out
    assert printed.startswith("page.html: ")
    assert printed.count("\n") == 1
    assert "disable_sampling" in Path("page.html").read_text(encoding="utf-8")


def test_a_page_on_standard_output_is_the_only_output(
    explain: Callable[..., int], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert explain("--html", "page.html") == CLEAN
    capsysbinary.readouterr()
    assert explain("--html", "-") == CLEAN
    assert capsysbinary.readouterr().out == Path("page.html").read_bytes()
    assert not Path("-").exists()


@pytest.mark.usefixtures("explain")
@pytest.mark.parametrize("place", ["missing/page.html", ".", "trace.jsonl"])
def test_an_unwritable_page_is_bad_input(place: str, complaint: Complaint) -> None:
    before = Path("trace.jsonl").read_text()
    assert place in complaint("explain", "trace.jsonl", "--html", place)
    assert Path("trace.jsonl").read_text() == before


def test_a_trace_that_cannot_be_replayed_leaves_no_page(explain: Callable[..., int]) -> None:
    Path("trace.jsonl").write_text(HEADER + FREE + "\n")
    assert explain("--html", "page.html") == BAD_INPUT
    assert not Path("page.html").exists()
