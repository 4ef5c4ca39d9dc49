"""`gcfuzz explain --html`: the data of the page, and what a real browser shows of it."""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from fuzz.mutator.shadow import Shadow
from fuzz.protocol.contract import Contract
from fuzz.protocol.lines import action_from_data
from fuzz.protocol.observation import Observation
from fuzz.protocol.trace import Trace, loads
from fuzz.replay import Step, replay_steps
from fuzz.sessions.corpus import shipped_traces
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.cli import run_command_line
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
NUMBER_LOST = (
    '{"do": "allocate_node", "number": 0}',
    '{"do": "take_identity", "root": 0}',
    '{"do": "write_number", "root": 0, "number": 1}',
    '{"do": "collect_step"}',
)
"""Where shadow-keeps-number is planted, the node is 0 again after the collection."""
STALE_LIMIT = (
    '{"do": "enable_sampling", "period_bytes": 264}',
    '{"do": "allocate_string", "length": 208}',
    '{"do": "allocate_node", "number": 0, "nonmovable": true}',
)

OF_PLANTED_BUGS = {name: trace for name, trace in shipped_traces().items() if trace.header.kills}


def write(root: int, field: int, value: int | None) -> str:
    return json.dumps({"do": "write", "root": root, "field": field, "value": value})


DEAF = (
    '{"do": "allocate_array", "length": 1}',
    '{"do": "enable_sampling", "period_bytes": 8}',
    '{"do": "allocate_array", "length": 0}',
)
"""Where deaf-after-enable is planted, the end is not put where the sample is due."""
MALLOC = '{"do": "malloc", "size_bytes": 10, "thread": 1}'
BLOCKS = "reference-jemalloc"


def page_of(*actions: str, target: str = "reference", title: str = "a trace") -> Page:
    trace = loads(HEADER + "".join(action + "\n" for action in actions), "trace.jsonl")
    steps = replay_steps(make_target(target), trace, "trace.jsonl")
    return make_page(title, {}, steps)


@attrs.frozen
class Drawn:
    """An object of a step, as the page's script makes it of what became different."""

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
    for name in order:  # It grows meanwhile.
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


def names(page: Page, step: int) -> list[str]:
    return [each.name for each in heap_at(page, step)]


# The data.


def test_an_object_keeps_its_name_when_its_row_changes() -> None:
    page = page_of(NODE, ARRAY, FREE)
    assert names(page, 1) == ["#1", "#2", "prebuilt 0", "prebuilt 1"]
    assert names(page, 2) == ["#2", "prebuilt 0", "prebuilt 1"]


def test_an_object_says_its_kind_number_and_age() -> None:
    page = page_of(NODE, COLLECT)
    before, after = heap_at(page, 0)[0], heap_at(page, 1)[0]
    assert (before.label, before.note) == ("node 7", "young")
    assert (after.label, after.note) == ("node 7", "old")


def test_a_young_object_outside_the_nursery_says_so() -> None:
    assert heap_at(page_of(OUTSIDE), 0)[0].note == "young outside"


def test_an_object_knows_all_its_slots() -> None:
    load = '{"do": "load_prebuilt", "index": 0}'
    assert heap_at(page_of(load, NODE, load), -1)[0].slots == (0, 2)


def test_a_reference_has_its_field_and_its_object() -> None:
    heap = heap_at(page_of(NODE, ARRAY, write(1, 1, 0)), -1)
    assert heap[1].references == ((1, 0),)


def test_an_object_without_a_slot_is_there_as_long_as_a_reference_leads_to_it() -> None:
    page = page_of(NODE, ARRAY, write(1, 1, 0), FREE, write(0, 1, None))
    assert "#1" in names(page, 3)
    assert "#1" not in names(page, 4)


def test_a_weak_reference_leads_to_its_object() -> None:
    weakref = heap_at(page_of(NODE, WEAKREF), -1)[1]
    assert (weakref.label, weakref.weak) == ("weakref", 0)


def test_a_weak_reference_says_what_became_of_its_object() -> None:
    page = page_of(NODE, WEAKREF, FREE, COLLECT)
    labels = [heap_at(page, step)[0].label for step in (2, 3)]
    assert labels == ["weakref → garbage", "weakref → dead"]


def test_what_happened_is_in_the_words_of_the_terminal() -> None:
    step = page_of(ENABLE, NODE, ARRAY)["steps"][-1]
    assert (step["action"], step["facts"]) == (
        "allocate_array length=2",
        "32 bytes in the nursery at 32",
    )


def test_a_step_has_the_pointers_and_where_the_object_lies() -> None:
    step = page_of(ENABLE, NODE, ARRAY)["steps"][-1]
    assert step["nursery"]
    pointers = (
        step["nursery"]["free"],
        step["nursery"]["limit"],
        step["nursery"]["top"],
        step["nursery"]["sample_point"],
    )
    assert pointers == (64, 128, TOP, 128)
    assert step["placed"] == (32, 32)


def test_a_tlab_has_its_pointers_and_where_the_wrong_one_belongs() -> None:
    page = page_of(*DEAF, target="reference-hotspot+deaf-after-enable")
    assert page["draws_tlabs"]
    pointers = {"start": 0, "free": 40, "limit": 136, "top": 136, "sample_point": None}
    assert page["steps"][-1]["nursery"] == {**pointers, "expected": ("limit", 64)}


def test_a_target_without_pointers_has_no_nursery_to_draw(contract: Contract) -> None:
    action = action_from_data({"do": "check_heap"})
    step = Step(1, action, Observation(), contract, None, Shadow(contract))
    assert make_page("a trace", {}, [step])["steps"][0]["nursery"] is None


@pytest.mark.parametrize(
    ("target", "action", "draws"),
    [("reference", NODE, True), ("reference-dotnet", NODE, False), (BLOCKS, MALLOC, False)],
)
def test_a_page_says_whether_there_is_a_nursery_to_draw(
    target: str, action: str, draws: bool
) -> None:
    assert page_of(action, target=target)["draws_nursery"] is draws


def test_a_block_says_what_was_asked_for_and_its_room() -> None:
    (block,) = heap_at(page_of(MALLOC, target=BLOCKS), 0)
    assert (block.label, block.note) == ("block of 10", "room 16")


def test_a_block_says_its_room_after_it_was_made_another_size() -> None:
    realloc = '{"do": "realloc", "root": 0, "size_bytes": 17}'
    (block,) = heap_at(page_of(MALLOC, realloc, target=BLOCKS), 1)
    assert (block.label, block.note) == ("block of 17", "room 32")


def test_a_step_says_which_thread_it_was() -> None:
    assert (
        page_of(MALLOC, target=BLOCKS)["steps"][0]["action"] == "malloc by thread 1 size_bytes=10"
    )


def test_a_step_says_whether_the_target_walked_its_heap() -> None:
    assert [step["walked"] for step in page_of(NODE, COLLECT)["steps"]] == [False, True]


def test_a_wrong_pointer_has_the_place_where_it_belongs() -> None:
    step = page_of(*STALE_LIMIT, target="reference+stale-limit-after-large")["steps"][-1]
    assert step["nursery"]
    assert step["nursery"]["limit"] == 31
    assert step["nursery"]["expected"] == ("limit", TOP)


def test_a_mismatch_says_what_was_expected_what_came_and_why() -> None:
    step = page_of(*STALE_LIMIT, target="reference+stale-limit-after-large")["steps"][-1]
    assert step["mismatch"] == [
        ("oracle", "pointers"),
        ("expected", "limit 256"),
        ("got", "limit 31"),
        ("because", "sample_point 263, top 256"),
    ]


def test_a_heap_that_is_not_the_mutator_s_is_there_beside_it() -> None:
    page = page_of(*NUMBER_LOST, target="reference+shadow-keeps-number")
    found = page["steps"][-1]["found"]
    assert found
    assert (heap_at(page, -1)[0].label, found[0]["label"]) == ("node 1", "node 0")


def test_only_the_objects_that_differ_are_marked() -> None:
    step = page_of(*NUMBER_LOST, target="reference+shadow-keeps-number")["steps"][-1]
    assert step["found"]
    assert step["differs"] == [0]
    assert [box["differs"] for box in step["found"]] == [True, False, False]


def test_a_heap_with_an_object_too_many_and_of_no_known_kind_can_be_drawn(
    contract: Contract,
) -> None:
    graph = [[1, 0, 0, 2], [3, 4], [9, 5]]
    action = action_from_data({"do": "check_heap"})
    step = Step(1, action, Observation(graph=graph), contract, None, Shadow(contract))
    found = make_page("a trace", {}, [step])["steps"][0]["found"]
    assert found
    assert [box["label"] for box in found] == ["node 0", "array 4", "type 9 5"]
    assert [box["references"] for box in found] == [[(0, 2)], [], []]
    assert [box["differs"] for box in found] == [True, False, True]


def test_a_row_that_says_too_little_can_be_drawn(contract: Contract) -> None:
    action = action_from_data({"do": "check_heap"})
    seen = Observation(graph=[[], [1], [1, 2, 3]])
    step = Step(1, action, seen, contract, None, Shadow(contract))
    found = make_page("a trace", {}, [step])["steps"][0]["found"]
    assert found
    assert [box["label"] for box in found] == ["an empty row", "node", "node 2"]


def seen(trace: Trace, walks: list[list[list[int]]], ages: list[list[str]]) -> Iterator[Step]:
    """The steps of a planted bug's trace; the heap after each is noted as the shadow has it."""
    target = make_target(KNOWN_BUGS[trace.header.kills[0]].target)
    for step in replay_steps(target, trace, "a trace"):
        walks.append(step.shadow.graph())
        ages.append([obj.age.name.lower() for obj in step.shadow.roots])
        yield step


def test_what_became_different_up_to_a_step_makes_up_its_heap() -> None:
    for name, trace in OF_PLANTED_BUGS.items():
        walks: list[Any] = []
        ages: list[Any] = []
        page = make_page("a trace", {}, seen(trace, walks, ages))
        for number, (walk, slots) in enumerate(zip(walks, ages, strict=True)):
            heap = heap_at(page, number)
            rows = [list(itertools.chain(*each.references)) for each in heap]
            assert rows == [row[2:] for row in walk], name
            notes = {slot: each.note for each in heap if each.note for slot in each.slots}
            assert {
                slot: note.split()[0] for slot, note in notes.items() if "room" not in note
            } == {slot: slots[slot] for slot, note in notes.items() if "room" not in note}, name


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
def test_a_page_of_many_live_objects_is_no_larger_than_can_be_mailed(actions: list[str]) -> None:
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


def test_the_page_names_nothing_to_load() -> None:
    page = render(page_of(NODE))
    assert re.findall(r"\b(?:src|href)\s*=|\burl\((?!#)|@import|\bfetch\(", page) == []
    assert re.findall(r"https?://[^\"' ]*", page) == ["http://www.w3.org/2000/svg"]


# The command.


@pytest.fixture
def trace_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "trace.jsonl"
    path.write_text(HEADER + '{"do": "disable_sampling"}\n')
    return path.name


@pytest.mark.parametrize(
    ("target", "code"), [("reference", CLEAN), ("reference+disable-before-enable", MISMATCH)]
)
def test_writing_a_page_exits_like_replay_and_says_where_it_is(
    target: str, code: int, trace_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["explain", trace_path, "--target", target, "--html", "page.html"]
    assert run_command_line(arguments) == code
    printed = capsys.readouterr().out
    assert printed.startswith("page.html: ")
    assert printed.count("\n") == 1
    assert "disable_sampling" in Path("page.html").read_text(encoding="utf-8")


def test_a_page_on_standard_output_is_all_that_is_printed(
    trace_path: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = ["explain", trace_path, "--target", "reference", "--html"]
    assert run_command_line([*words, "page.html"]) == CLEAN
    capsysbinary.readouterr()
    assert run_command_line([*words, "-"]) == CLEAN
    assert capsysbinary.readouterr().out == Path("page.html").read_bytes()
    assert not Path("-").exists()


@pytest.mark.parametrize("place", ["missing/page.html", "."])
def test_a_page_that_cannot_be_written_is_bad_input(
    place: str, trace_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["explain", trace_path, "--html", place]) == BAD_INPUT
    complaint = capsys.readouterr().err
    assert complaint.startswith("gcfuzz: ")
    assert place in complaint
    assert complaint.count("\n") == 1


def test_a_page_never_replaces_the_trace(
    trace_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path(trace_path).read_text()
    assert run_command_line(["explain", trace_path, "--html", trace_path]) == BAD_INPUT
    assert "is the trace itself" in capsys.readouterr().err
    assert Path(trace_path).read_text() == before


def test_a_trace_that_cannot_be_replayed_leaves_no_page(trace_path: str) -> None:
    Path(trace_path).write_text(HEADER + FREE + "\n")
    assert run_command_line(["explain", trace_path, "--html", "page.html"]) == BAD_INPUT
    assert not Path("page.html").exists()


# What a browser shows.


class Viewer:
    """A browser that looks at a page, and what it shows."""

    def __init__(self, chrome: Chrome, folder: Path) -> None:
        self._chrome = chrome
        self._folder = folder

    def open(self, page: Page, fragment: str = "") -> None:
        path = self._folder / "page.html"
        path.write_text(render(page), encoding="utf-8")
        self._chrome.get(path.as_uri() + fragment)

    def address(self, fragment: str) -> None:
        self._chrome.execute_script(f"location.hash = '{fragment}'")

    def fragment(self) -> str:
        return self._chrome.current_url.partition("#")[2]

    def press(self, *keys: str) -> None:
        self._chrome.find_element(By.TAG_NAME, "body").send_keys(*keys)

    def find(self, selector: str) -> WebElement:
        return self._chrome.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [each.text for each in self._chrome.find_elements(By.CSS_SELECTOR, selector)]

    def current(self) -> str:
        return self.find("#actions [aria-current] .words").text

    def span(self, kind: str) -> tuple[float, float]:
        """From where to where in the nursery a rectangle goes, in bytes of its scale."""
        start, bytes_per_pixel = self._scale()
        x, width = self._numbers(f".nursery rect.{kind}", "x", "width")
        return (x - start) * bytes_per_pixel, (x - start + width) * bytes_per_pixel

    def marked(self, pointer: str) -> float:
        """Where in the nursery a pointer's marker stands, in bytes of its scale."""
        start, bytes_per_pixel = self._scale()
        (x,) = self._numbers(f".nursery .marker.{pointer} line", "x1")
        return (x - start) * bytes_per_pixel

    def _scale(self) -> tuple[float, float]:
        start, width = self._numbers(".nursery rect.frame", "x", "width")
        return start, TOP / width

    def _numbers(self, selector: str, *names: str) -> list[float]:
        element = self.find(selector)
        return [float(element.get_dom_attribute(name)) for name in names]

    def heap(self, step: int) -> list[tuple[object, ...]]:
        """The objects of a step, as the script makes them."""
        script = f"return heapAt({step})"
        return [
            (
                *(box["name"], box["label"], box["note"], tuple(box["slots"])),
                tuple((int(field), row) for field, row in box["references"]),
                box["weak"],
            )
            for box in self._chrome.execute_script(script)
        ]

    def prefer(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def look_through(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 800}
        self._chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def tell(self, function: str) -> Any:
        """What a function of the browser says of the page: its body."""
        return self._chrome.execute_script(function)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self._chrome.get_log("browser")]  # type: ignore[no-untyped-call]


@pytest.fixture
def viewer(chrome: Chrome, tmp_path: Path) -> Iterator[Viewer]:
    viewer = Viewer(chrome, tmp_path)
    yield viewer
    assert viewer.complaints() == []
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
def test_the_page_begins_with_the_trace_and_its_first_action(viewer: Viewer) -> None:
    viewer.open(page_of(ENABLE, NODE, title="some.jsonl on reference"))
    assert viewer.find("#title").text == "some.jsonl on reference"
    assert viewer.find("#configuration").text == "all defaults"
    assert viewer.texts("#actions .number") == ["1", "2"]
    assert viewer.current() == viewer.find("#action").text == "enable_sampling period_bytes=128"


@pytest.mark.slow
def test_a_page_of_a_failure_begins_with_the_mismatch(viewer: Viewer) -> None:
    viewer.open(page_of(*STALE_LIMIT, target="reference+stale-limit-after-large"))
    assert viewer.find("#position").text == "step 3 of 3"
    assert viewer.find("#mismatch").is_displayed()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fragment", "step"), [("#2", 2), ("#99", 3), ("#0", 1), ("#nonsense", 3), ("", 3)]
)
def test_the_address_says_which_step_is_shown_first(
    fragment: str, step: int, viewer: Viewer
) -> None:
    viewer.open(page_of(*STALE_LIMIT, target="reference+stale-limit-after-large"), fragment)
    assert viewer.find("#position").text == f"step {step} of 3"
    assert viewer.fragment() == str(step)


@pytest.mark.slow
def test_the_address_and_the_step_follow_each_other(viewer: Viewer) -> None:
    viewer.open(page_of(ENABLE, NODE, ARRAY))
    viewer.press(Keys.ARROW_RIGHT)
    assert viewer.fragment() == "2"
    viewer.address("#3")
    assert viewer.current() == "allocate_array length=2"


@pytest.mark.slow
def test_what_a_step_made_is_drawn_as_new_from_the_first_step_on(viewer: Viewer) -> None:
    viewer.open(page_of(NODE, ARRAY))
    assert viewer.texts(".box.placed .label") == ["node 7"]
    viewer.press(Keys.ARROW_RIGHT)
    assert viewer.texts(".box.placed .label") == ["array 2"]
    assert viewer.texts(".box.young:not(.placed) .label") == ["node 7"]


@pytest.mark.slow
def test_what_does_not_differ_is_named_in_both_heaps(viewer: Viewer) -> None:
    viewer.open(page_of(*NUMBER_LOST, target="reference+shadow-keeps-number"))
    notes = [
        viewer.texts(f"#heaps > div:{side}-child .box:not(.differs) text.quiet")
        for side in ("first", "last")
    ]
    assert notes[0] == notes[1] == ["row 1 · prebuilt 0", "row 2 · prebuilt 1"]


@pytest.mark.slow
def test_the_arrow_keys_step_and_stop_at_the_ends(viewer: Viewer) -> None:
    viewer.open(page_of(ENABLE, NODE, ARRAY))
    shown = []
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT):
        viewer.press(key)
        shown.append(viewer.current().split()[0])
    assert shown == ["allocate_node", "allocate_array", "allocate_array", "allocate_node"]


@pytest.mark.slow
def test_home_and_end_jump(viewer: Viewer) -> None:
    viewer.open(page_of(ENABLE, NODE, ARRAY))
    viewer.press(Keys.END)
    assert viewer.current() == "allocate_array length=2"
    viewer.press(Keys.HOME)
    assert viewer.current() == "enable_sampling period_bytes=128"


@pytest.mark.slow
def test_the_buttons_and_the_actions_can_be_clicked(viewer: Viewer) -> None:
    viewer.open(page_of(ENABLE, NODE, ARRAY))
    shown = []
    for selector in ("#next", "#last", "#back", "#first", "#actions li:last-child button"):
        viewer.find(selector).click()
        shown.append(viewer.find("#position").text)
    assert shown == [f"step {number} of 3" for number in (2, 3, 2, 1, 3)]


@pytest.mark.slow
def test_the_nursery_is_drawn_to_scale(viewer: Viewer) -> None:
    viewer.open(page_of(NODE, NODE, ARRAY))
    viewer.press(Keys.END)
    assert viewer.span("allocated") == pytest.approx((0, 96))
    assert viewer.span("placed") == pytest.approx((64, 96))
    assert viewer.span("free") == pytest.approx((96, TOP))


@pytest.mark.slow
def test_a_tlab_is_drawn_with_the_machines_pointers(viewer: Viewer) -> None:
    viewer.open(page_of(*DEAF, target="reference-hotspot+deaf-after-enable"))
    assert viewer.find("#place").text.lower() == "tlab"
    assert viewer.span("placed") == pytest.approx((TOP * 24 / 136, TOP * 40 / 136))
    words = viewer.texts(".nursery .marker text")
    assert words == ["allocation end 136", "end 136", "top 40", "expected end 64"]


@pytest.mark.slow
def test_the_pointers_stand_where_they_point(viewer: Viewer) -> None:
    viewer.open(page_of(ENABLE, NODE))
    viewer.press(Keys.END)
    where = [viewer.marked(name) for name in ("free", "limit", "sample_point", "top")]
    assert where == pytest.approx([32, 128, 128, TOP])


@pytest.mark.slow
def test_a_sample_point_beyond_the_top_is_shown_beyond_it(viewer: Viewer) -> None:
    viewer.open(page_of(ENABLE_BEYOND))
    assert viewer.marked("sample_point") > TOP
    assert viewer.texts(".marker.sample_point text") == ["sample point 512", "256 beyond the top"]


@pytest.mark.slow
def test_the_nursery_names_its_objects_until_they_are_collected(viewer: Viewer) -> None:
    viewer.open(page_of(NODE, ARRAY, FREE, COLLECT))
    viewer.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert viewer.texts(".nursery .inside") == ["#1", "#2"]
    viewer.press(Keys.ARROW_RIGHT)
    assert viewer.texts(".nursery .inside") == []


@pytest.mark.slow
def test_the_objects_are_shown_with_their_slots(viewer: Viewer) -> None:
    viewer.open(page_of(NODE, ARRAY))
    viewer.press(Keys.END)
    assert viewer.texts(".box .label") == ["node 7", "array 2", "node 0", "array 4"]
    assert viewer.texts(".box text.slot") == ["root 0", "root 1"]


@pytest.mark.slow
def test_a_reference_is_an_arrow_with_its_field(viewer: Viewer) -> None:
    viewer.open(page_of(NODE, ARRAY, write(1, 1, 0), WEAKREF))
    assert viewer.texts(".edge") == []
    viewer.press(Keys.END)
    assert viewer.texts(".edge text") == ["1", "weak"]


@pytest.mark.slow
def test_what_is_new_in_a_step_stands_out(viewer: Viewer) -> None:
    viewer.open(page_of(NODE, ARRAY, write(1, 1, 0)))
    viewer.press(Keys.ARROW_RIGHT)
    assert viewer.texts(".box.placed .label") == ["array 2"]
    viewer.press(Keys.ARROW_RIGHT)
    assert viewer.texts(".box.placed .label") == []
    assert viewer.texts(".edge.new text") == ["1"]


@pytest.mark.slow
def test_the_script_makes_each_step_s_heap_whichever_way_one_steps(viewer: Viewer) -> None:
    page = page_of(
        *(NODE, ARRAY, WEAKREF, write(1, 1, 0), write(1, 0, 1), COLLECT, OUTSIDE),
        *(write(1, 1, 3), FREE, write(0, 1, None), FREE, COLLECT, '{"do": "collect_full"}'),
    )
    viewer.open(page)
    steps = range(len(page["steps"]))
    for step in (*steps, *reversed(steps)):
        assert viewer.heap(step) == [attrs.astuple(each) for each in heap_at(page, step)]


@pytest.mark.slow
def test_the_first_wrong_answer_is_marked_and_what_it_did_told(viewer: Viewer) -> None:
    viewer.open(page_of(*STALE_LIMIT, target="reference+stale-limit-after-large"))
    assert viewer.texts("#actions .first-wrong .words") == ["allocate_node number=0 nonmovable"]
    assert viewer.find("#verdict").text == "mismatch at action 3"
    viewer.press(Keys.HOME)
    assert not viewer.find("#mismatch").is_displayed()
    viewer.press(Keys.END)
    assert viewer.texts("#mismatch dd")[:3] == ["pointers", "limit 256", "limit 31"]


@pytest.mark.slow
def test_a_wrong_pointer_is_shown_with_where_it_belongs(viewer: Viewer) -> None:
    viewer.open(page_of(*STALE_LIMIT, target="reference+stale-limit-after-large"))
    viewer.press(Keys.END)
    assert viewer.marked("limit.wrong") == pytest.approx(31)
    assert viewer.marked("expected") == pytest.approx(TOP)


@pytest.mark.slow
def test_the_expected_heap_and_the_one_found_are_both_shown(viewer: Viewer) -> None:
    viewer.open(page_of(*NUMBER_LOST, target="reference+shadow-keeps-number"))
    viewer.press(Keys.END)
    assert viewer.texts("#heaps h3") == ["Expected", "Got"]
    assert viewer.texts(".box.differs .label") == ["node 1", "node 0"]


@pytest.mark.slow
def test_a_trace_that_passes_marks_no_answer(viewer: Viewer) -> None:
    viewer.open(page_of(NODE))
    assert viewer.texts(".first-wrong") == []
    assert viewer.find("#verdict").text == "no mismatch"


@pytest.mark.slow
def test_blocks_are_shown_without_nursery_ages_and_references(viewer: Viewer) -> None:
    viewer.open(page_of(MALLOC, target=BLOCKS))
    assert viewer.current() == "malloc by thread 1 size_bytes=10"
    assert viewer.texts(".box text:not(.slot)") == ["block of 10", "#1 · room 16"]
    shown = viewer.find("main").text.lower()
    assert "room: those it can hold" in shown
    assert [word for word in ("nursery", "young", "arrow", "weak") if word in shown] == []


@pytest.mark.slow
def test_a_collector_that_shows_no_pointers_has_references_and_no_nursery(viewer: Viewer) -> None:
    viewer.open(page_of(NODE, target="reference-dotnet"))
    assert not viewer.find("#nursery").is_displayed()
    assert viewer.find("#objects").text.lower() == "objects and references"
    assert "room:" not in viewer.find("main").text


@pytest.mark.slow
def test_a_trace_without_actions_says_so(viewer: Viewer) -> None:
    viewer.open(page_of())
    viewer.press(Keys.ARROW_RIGHT)
    assert viewer.find("#action").text == "The trace has no actions."


@pytest.mark.slow
def test_there_is_a_light_and_a_dark_scheme(viewer: Viewer) -> None:
    viewer.open(page_of(NODE))
    seen = []
    for scheme in ("light", "dark"):
        viewer.prefer(scheme)
        color = viewer.find("body").value_of_css_property("background-color")
        seen.append(max(map(int, re.findall(r"\d+", color)[:3])))
    assert seen[0] > 200
    assert seen[1] < 60


# At the width of a desk and of a phone.

WIDTHS = pytest.mark.parametrize(("width", "height"), [(1280, 720), (400, 800)])
TOO_WIDE = """
return [...document.querySelectorAll("html, body, body *:not(svg *)")]
  .filter((each) => each.clientWidth && each.scrollWidth > each.clientWidth)
  .map((each) => each.outerHTML.slice(0, 200));
"""
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
def test_a_mismatch_is_seen_at_once_and_nothing_is_wider_than_the_page(
    oracle: str, width: int, height: int, viewer: Viewer
) -> None:
    name = OF_EACH_ORACLE[oracle]
    trace = OF_PLANTED_BUGS[name]
    target = KNOWN_BUGS[trace.header.kills[0]].target
    viewer.look_through(width, height)
    viewer.open(make_page(f"{name} on {target}", {}, replay_steps(make_target(target), trace, "")))
    assert viewer.texts("#mismatch dd")[0] == oracle
    seen = "const {top, bottom} = document.querySelector('#mismatch').getBoundingClientRect();"
    assert viewer.tell(f"{seen} return [top >= 0, bottom <= innerHeight]") == [True, True]
    assert viewer.tell(TOO_WIDE) == []


@pytest.mark.slow
@WIDTHS
@pytest.mark.parametrize("actions", [TANGLE, HELD_BY_ONE[:100]], ids=["tangle", "array"])
def test_no_arrow_runs_behind_an_object(
    actions: Sequence[str], width: int, height: int, viewer: Viewer
) -> None:
    viewer.look_through(width, height)
    viewer.open(page_of_live_objects(*actions))
    viewer.press(Keys.END)
    assert len(viewer.texts(".edge")) > 10
    assert viewer.tell(BEHIND_A_BOX) == []
    assert viewer.tell(TOO_WIDE) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_objects_have_the_colors_of_the_legend(scheme: str, viewer: Viewer) -> None:
    viewer.open(page_of(OUTSIDE, NODE, ARRAY))
    viewer.prefer(scheme)
    viewer.press(Keys.END)
    legend = [
        viewer.find(f"#heaps + .legend .{kind}").value_of_css_property("background-color")
        for kind in ("old", "allocated", "placed")
    ]
    boxes = viewer.tell(
        "return [...document.querySelectorAll('.box rect:not(.slot)')]"
        ".map((rect) => getComputedStyle(rect).fill)"
    )
    assert [re.findall(r"\d+", color)[:3] for color in boxes[:3]] == [
        re.findall(r"\d+", color)[:3] for color in legend
    ]
