"""What a real browser shows of the page of `gcfuzz explain --html`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from explained import (
    ARRAY,
    BLOCKS,
    COLLECT,
    DEAF,
    ENABLE,
    ENABLE_BEYOND,
    FREE,
    HAS_STALE_LIMIT,
    HELD_BY_ONE,
    IS_DEAF,
    LOSES_NUMBER,
    MALLOC,
    NODE,
    NUMBER_LOST,
    OF_PLANTED_BUGS,
    OUTSIDE,
    STALE_LIMIT,
    TOP,
    WEAKREF,
    Drawn,
    heap_at,
    page_of,
    page_of_live_objects,
    write,
)
from selenium.webdriver import Keys
from waiting import wait_until

from fuzz.replay import replay_steps
from fuzz.targets import make_target
from fuzz.targets.bugs.known_bugs import KNOWN_BUGS
from fuzz.terminal.explain_page import Page, make_page, render


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
