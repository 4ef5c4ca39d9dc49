"""`gcfuzz explain --html`: the data of the page, and what a real browser shows of it."""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from command_line import Complaint
from selenium.webdriver import Keys
from waiting import wait_until

from fuzz.failures.corpus import shipped_traces
from fuzz.mutator.shadow import Shadow
from fuzz.protocol.actions import CheckHeap
from fuzz.protocol.contract import Contract
from fuzz.protocol.observation import Observation
from fuzz.protocol.trace import Trace, loads
from fuzz.replay import Step, replay_steps
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.commands.cli import run_command_line
from fuzz.terminal.explain_page import Page, make_page, render

CLEAN, MISMATCH, BAD_INPUT = 0, 1, 2
TOP = 256
HEADER = '{"gcfuzz": 2, "target": "reference"}\n'
ENABLE = '{"do": "enable_sampling", "period_bytes": 128}'
ENABLE_BEYOND = '{"do": "enable_sampling", "period_bytes": 512}'
NODE = '{"do": "allocate_node", "number": 7}'
ARRAY = '{"do": "allocate_array", "length": 2}'
OUTSIDE = '{"do": "allocate_string", "length": 100}'
WEAKREF = '{"do": "allocate_weakref", "root": 0}'
FREE = '{"do": "free", "root": 0}'
COLLECT = '{"do": "collect_minor"}'
LOAD = '{"do": "load_prebuilt", "index": 0}'
NUMBER_LOST = (
    '{"do": "allocate_node", "number": 0}',
    '{"do": "take_identity", "root": 0}',
    '{"do": "write_number", "root": 0, "number": 1}',
    '{"do": "collect_step"}',
)
"""With shadow-keeps-number the node is 0 again after the collection."""
LOSES_NUMBER = "reference+shadow-keeps-number"
STALE_LIMIT = (
    '{"do": "enable_sampling", "period_bytes": 264}',
    '{"do": "allocate_string", "length": 208}',
    '{"do": "allocate_node", "number": 0, "nonmovable": true}',
)
HAS_STALE_LIMIT = "reference+stale-limit-after-large"
DEAF = (
    '{"do": "allocate_array", "length": 1}',
    '{"do": "enable_sampling", "period_bytes": 8}',
    '{"do": "allocate_array", "length": 0}',
)
"""With deaf-after-enable the end of the TLAB is not where the sample is due."""
IS_DEAF = "reference-hotspot+deaf-after-enable"
MALLOC = '{"do": "malloc", "size_bytes": 10, "thread": 1}'
REALLOC = '{"do": "realloc", "root": 0, "size_bytes": 17}'
BLOCKS = "reference-jemalloc"
OF_PLANTED_BUGS = {name: trace for name, trace in shipped_traces().items() if trace.header.kills}


def write(root: int, field: int, value: int | None) -> str:
    return json.dumps({"do": "write", "root": root, "field": field, "value": value})


def page_of(*actions: str, target: str = "reference", title: str = "a trace") -> Page:
    trace = loads(HEADER + "".join(action + "\n" for action in actions), "trace.jsonl")
    steps = replay_steps(make_target(target), trace, "trace.jsonl")
    return make_page(title, {}, steps)


@attrs.frozen
class Drawn:
    """An object of a step, as the page's script makes it from the changes."""

    name: str
    label: str
    note: str
    slots: tuple[int, ...]
    references: tuple[tuple[int, int], ...]
    weak: int | None


def heap_at(page: Page, step: int) -> list[Drawn]:
    """The objects that are drawn in a step, in the order of a walk."""
    boxes: dict[str, Page] = {}
    fields: defaultdict[str, dict[int, str]] = defaultdict(dict)
    roots: list[str] = []
    for each in page["steps"][: range(len(page["steps"]))[step] + 1]:
        boxes |= {box["name"]: box for box in each["changes"]["boxes"]}
        for name, field, to in each["changes"]["references"]:
            fields[name].pop(field, None)
            fields[name] |= {} if to is None else {field: to}
        start, gone, come = each["changes"]["roots"]
        roots[start : start + gone] = come
    order = list(dict.fromkeys([*roots, *page["prebuilt"]]))
    for name in order:  # The loop appends to it.
        for _, to in sorted(fields[name].items()):
            if to not in order:
                order.append(to)
    rows = {name: row for row, name in enumerate(order)}
    return [drawn(boxes[name], fields[name], roots, rows) for name in order]


def drawn(box: Page, fields: dict[int, str], roots: list[str], rows: dict[str, int]) -> Drawn:
    lost = ""
    if box["weak"] is not None and box["weak"] not in rows:
        lost = " → dead" if box["weak_is_dead"] else " → garbage"
    return Drawn(
        name=box["name"],
        label=box["label"] + lost,
        note=box["note"],
        slots=tuple(slot for slot, name in enumerate(roots) if name == box["name"]),
        references=tuple((field, rows[fields[field]]) for field in sorted(fields)),
        weak=None if box["weak"] is None else rows.get(box["weak"]),
    )


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


LIVE = 2000
ROOMY = HEADER.replace("}", ', "config": {"nursery_bytes": 65536}}')


def page_of_live_objects(*actions: str) -> Page:
    trace = loads(ROOMY + "".join(action + "\n" for action in actions), "trace.jsonl")
    return make_page("a trace", {}, replay_steps(make_target("reference"), trace, "trace.jsonl"))


ROOTED = [NODE] * LIVE + [FREE] * LIVE
HELD_BY_ONE = [
    f'{{"do": "allocate_array", "length": {LIVE}}}',
    *itertools.chain.from_iterable(
        (NODE, write(0, item, 1), '{"do": "free", "root": 1}') for item in range(LIVE)
    ),
]


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


# What a browser shows.


@pytest.fixture
def show(viewer: Any, tmp_path: Path) -> Callable[..., None]:
    """Open a page at a fragment, and press keys."""

    def show(page: Page, *keys: str, fragment: str = "") -> None:
        (tmp_path / "page.html").write_text(render(page), encoding="utf-8")
        viewer.open(tmp_path / "page.html", fragment)
        viewer.press(*keys)

    return show


Show = Callable[..., None]


def current(viewer: Any) -> str:
    text: str = viewer.find("#actions [aria-current] .words").text
    return text


def span(viewer: Any, kind: str) -> tuple[float, float]:
    """Start and end of a rectangle in the nursery, in bytes."""
    start, bytes_per_pixel = scale(viewer)
    x, width = viewer.numbers(f".nursery rect.{kind}", "x", "width")
    return (x - start) * bytes_per_pixel, (x - start + width) * bytes_per_pixel


def marked(viewer: Any, pointer: str) -> float:
    """The place of a pointer's marker in the nursery, in bytes."""
    start, bytes_per_pixel = scale(viewer)
    (x,) = viewer.numbers(f".nursery .marker.{pointer} line", "x1")
    return float(x - start) * bytes_per_pixel


def scale(viewer: Any) -> tuple[float, float]:
    start, width = viewer.numbers(".nursery rect.frame", "x", "width")
    return start, TOP / width


@pytest.mark.slow
def test_the_page_begins_with_the_trace_and_its_first_action(viewer: Any, show: Show) -> None:
    show(page_of(ENABLE, NODE, title="some.jsonl on reference"))
    assert viewer.find("#title").text == "some.jsonl on reference"
    assert viewer.find("#configuration").text == "all defaults"
    assert viewer.texts("#actions .number") == ["1", "2"]
    assert current(viewer) == viewer.find("#action").text == "enable_sampling period_bytes=128"
    assert viewer.texts(".first-wrong") == []
    assert viewer.find("#verdict").text == "no mismatch"


@pytest.mark.slow
def test_a_page_of_a_failure_begins_with_the_mismatch(viewer: Any, show: Show) -> None:
    show(page_of(*STALE_LIMIT, target=HAS_STALE_LIMIT))
    assert viewer.find("#position").text == "step 3 of 3"
    assert viewer.texts("#actions .first-wrong .words") == ["allocate_node number=0 nonmovable"]
    assert viewer.find("#verdict").text == "mismatch at action 3"
    assert viewer.texts("#mismatch dd")[:3] == ["pointers", "limit 256", "limit 31"]
    assert marked(viewer, "limit.wrong") == pytest.approx(31)
    assert marked(viewer, "expected") == pytest.approx(TOP)
    viewer.press(Keys.HOME)
    assert not viewer.find("#mismatch").is_displayed()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fragment", "step"), [("#2", 2), ("#99", 3), ("#0", 1), ("#nonsense", 3), ("", 3)]
)
def test_the_address_has_the_first_step(fragment: str, step: int, viewer: Any, show: Show) -> None:
    show(page_of(*STALE_LIMIT, target=HAS_STALE_LIMIT), fragment=fragment)
    assert viewer.find("#position").text == f"step {step} of 3"
    assert viewer.fragment() == str(step)


@pytest.mark.slow
def test_keys_buttons_actions_and_the_address_change_the_step(viewer: Any, show: Show) -> None:
    show(page_of(ENABLE, NODE, ARRAY))
    steps = []
    right, left = Keys.ARROW_RIGHT, Keys.ARROW_LEFT
    for key in (right, right, right, left, Keys.END, Keys.HOME):
        viewer.press(key)
        steps.append(viewer.fragment())
    assert steps == ["2", "3", "3", "2", "3", "1"]
    steps.clear()
    for selector in ("#next", "#last", "#back", "#first", "#actions li:last-child button"):
        viewer.find(selector).click()
        steps.append(viewer.find("#position").text)
    assert steps == [f"step {number} of 3" for number in (2, 3, 2, 1, 3)]
    viewer.address("#2")
    wait_until(lambda: current(viewer) == "allocate_node number=7", "the page to follow")


@pytest.mark.slow
def test_the_nursery_is_drawn_to_scale_with_its_objects(viewer: Any, show: Show) -> None:
    show(page_of(NODE, NODE, ARRAY, COLLECT), Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert span(viewer, "allocated") == pytest.approx((0, 96))
    assert span(viewer, "placed") == pytest.approx((64, 96))
    assert span(viewer, "free") == pytest.approx((96, TOP))
    assert viewer.texts(".nursery .inside") == ["#1", "#2", "#3"]
    viewer.press(Keys.END)
    assert viewer.texts(".nursery .inside") == []


@pytest.mark.slow
def test_the_pointers_are_drawn_to_scale(viewer: Any, show: Show) -> None:
    show(page_of(ENABLE, NODE), Keys.END)
    places = [marked(viewer, name) for name in ("free", "limit", "sample_point", "top")]
    assert places == pytest.approx([32, 128, 128, TOP])
    show(page_of(ENABLE_BEYOND))
    assert marked(viewer, "sample_point") > TOP
    assert viewer.texts(".marker.sample_point text") == ["sample point 512", "256 beyond the top"]


@pytest.mark.slow
def test_a_tlab_is_drawn_with_the_pointers_of_the_vm(viewer: Any, show: Show) -> None:
    show(page_of(*DEAF, target=IS_DEAF))
    assert viewer.find("#place").text.lower() == "tlab"
    assert span(viewer, "placed") == pytest.approx((TOP * 24 / 136, TOP * 40 / 136))
    texts = viewer.texts(".nursery .marker text")
    assert texts == ["allocation end 136", "end 136", "top 40", "expected end 64"]


@pytest.mark.slow
def test_objects_and_references_are_drawn_and_new_ones_stand_out(viewer: Any, show: Show) -> None:
    show(page_of(NODE, ARRAY, write(1, 1, 0), WEAKREF))
    assert viewer.texts(".box.placed .label") == ["node 7"]
    assert viewer.texts(".edge") == []
    viewer.press(Keys.ARROW_RIGHT)
    assert viewer.texts(".box .label") == ["node 7", "array 2", "node 0", "array 4"]
    assert viewer.texts(".box text.slot") == ["root 0", "root 1"]
    assert viewer.texts(".box.placed .label") == ["array 2"]
    assert viewer.texts(".box.young:not(.placed) .label") == ["node 7"]
    viewer.press(Keys.ARROW_RIGHT)
    assert viewer.texts(".box.placed .label") == []
    assert viewer.texts(".edge.new text") == ["1"]
    viewer.press(Keys.ARROW_RIGHT)
    assert viewer.texts(".edge text") == ["1", "weak"]


@pytest.mark.slow
def test_the_script_makes_each_step_s_heap_in_both_directions(viewer: Any, show: Show) -> None:
    page = page_of(
        *(NODE, ARRAY, WEAKREF, write(1, 1, 0), write(1, 0, 1), COLLECT, OUTSIDE),
        *(write(1, 1, 3), FREE, write(0, 1, None), FREE, COLLECT, '{"do": "collect_full"}'),
    )
    show(page)
    steps = range(len(page["steps"]))
    for step in (*steps, *reversed(steps)):
        boxes = viewer.run(f"return heapAt({step})")
        assert [
            Drawn(
                *(box["name"], box["label"], box["note"], tuple(box["slots"])),
                tuple((int(field), row) for field, row in box["references"]),
                box["weak"],
            )
            for box in boxes
        ] == heap_at(page, step)


@pytest.mark.slow
def test_the_expected_heap_and_the_one_found_are_both_drawn(viewer: Any, show: Show) -> None:
    show(page_of(*NUMBER_LOST, target=LOSES_NUMBER))
    assert viewer.texts("#heaps h3") == ["Expected", "Got"]
    assert viewer.texts(".box.differs .label") == ["node 1", "node 0"]
    for side in ("first", "last"):
        notes = viewer.texts(f"#heaps > div:{side}-child .box:not(.differs) text.quiet")
        assert notes == ["row 1 · prebuilt 0", "row 2 · prebuilt 1"]


@pytest.mark.slow
def test_blocks_are_drawn_without_nursery_ages_and_references(viewer: Any, show: Show) -> None:
    show(page_of(MALLOC, target=BLOCKS))
    assert current(viewer) == "malloc by thread 1 size_bytes=10"
    assert viewer.texts(".box text:not(.slot)") == ["block of 10", "#1 · room 16"]
    shown = viewer.find("main").text.lower()
    assert "room: those it can hold" in shown
    assert [word for word in ("nursery", "young", "arrow", "weak") if word in shown] == []


@pytest.mark.slow
def test_without_pointers_there_are_references_but_no_nursery(viewer: Any, show: Show) -> None:
    show(page_of(NODE, target="reference-dotnet"))
    assert not viewer.find("#nursery").is_displayed()
    assert viewer.find("#objects").text.lower() == "objects and references"
    assert "room:" not in viewer.find("main").text


@pytest.mark.slow
def test_a_trace_without_actions_has_a_page(viewer: Any, show: Show) -> None:
    show(page_of(), Keys.ARROW_RIGHT)
    assert viewer.find("#action").text == "The trace has no actions."


# On a desk and on a phone, in light and dark.

WIDTHS = pytest.mark.parametrize(("width", "height"), [(1280, 720), (400, 800)])
BEHIND_A_BOX = """
const inside = ({x, y}, {x: left, y: top, width, height}) =>
  x > left && x < left + width && y > top && y < top + height;
const boxes = [...document.querySelectorAll(".box rect")].map((rect) => rect.getBBox());
return [...document.querySelectorAll(".edge")].filter((edge) => {
  const path = edge.querySelector("path");
  for (let at = 0; at <= path.getTotalLength(); at += 2) {
    const point = path.getPointAtLength(at);
    if (boxes.some((box) => inside(point, box))) return true;
  }
}).map((edge) => edge.textContent);
"""
IS_VISIBLE = """
const {top, bottom} = document.querySelector("#mismatch").getBoundingClientRect();
return [top >= 0, bottom <= innerHeight];
"""
OF_EACH_ORACLE = {
    trace.header.found.oracle: name
    for name, trace in OF_PLANTED_BUGS.items()
    if trace.header.found is not None
}
TANGLE = (
    *(ARRAY, ARRAY, ARRAY, ARRAY, ARRAY, WEAKREF, NODE),
    *(write(0, 0, 1), write(0, 1, 4), write(1, 0, 2), write(1, 1, 1), write(2, 0, 3)),
    *(write(2, 1, 0), write(3, 0, 4), write(3, 1, 1), write(4, 0, 0), write(4, 1, 6)),
    *('{"do": "free", "root": 1}',) * 3,
)


@pytest.mark.slow
@WIDTHS
@pytest.mark.parametrize("oracle", OF_EACH_ORACLE)
def test_a_mismatch_is_visible_at_once_and_nothing_is_wider_than_the_page(
    oracle: str, width: int, height: int, viewer: Any, show: Show
) -> None:
    trace = OF_PLANTED_BUGS[OF_EACH_ORACLE[oracle]]
    target = KNOWN_BUGS[trace.header.kills[0]].target
    viewer.look_through(width, height)
    title = f"{OF_EACH_ORACLE[oracle]} on {target}"
    show(make_page(title, {}, replay_steps(make_target(target), trace, "")))
    assert viewer.texts("#mismatch dd")[0] == oracle
    assert viewer.run(IS_VISIBLE) == [True, True]
    assert viewer.too_wide() == []


@pytest.mark.slow
@WIDTHS
@pytest.mark.parametrize("actions", [TANGLE, HELD_BY_ONE[:100]], ids=["tangle", "array"])
def test_no_arrow_runs_behind_an_object(
    actions: Sequence[str], width: int, height: int, viewer: Any, show: Show
) -> None:
    viewer.look_through(width, height)
    show(page_of_live_objects(*actions), Keys.END)
    assert len(viewer.texts(".edge")) > 10
    assert viewer.run(BEHIND_A_BOX) == []
    assert viewer.too_wide() == []


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "is_bright"), [("light", True), ("dark", False)])
def test_a_scheme_has_its_colours_and_objects_those_of_the_legend(
    scheme: str, is_bright: bool, viewer: Any, show: Show
) -> None:
    viewer.look_through(1280, 720, scheme)
    show(page_of(OUTSIDE, NODE, ARRAY), Keys.END)
    [background] = viewer.colours("body", "background-color")
    assert (min(background) > 200, max(background) < 60) == (is_bright, not is_bright)
    legend = [
        viewer.colours(f"#heaps + .legend .{kind}", "background-color")[0]
        for kind in ("old", "allocated", "placed")
    ]
    assert viewer.colours(".box rect:not(.slot)", "fill")[:3] == legend
