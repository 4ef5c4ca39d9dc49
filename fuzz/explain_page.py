"""A trace as one HTML page to step through: the data that the page draws.

The page itself is `explain_page.html`: its script draws one step after another from the JSON that
stands in its midst, and loads nothing from anywhere. What happened is said in the words of
`explain` and `report`.

The objects of a step are those of the shadow, the mutator's own view, since a target shows its
heap only now and then. Where it did and its heap is another, the page has both. Invariant: an
object has the same name in every step, since a row of a graph means another object in each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

import attrs
import cattrs

from fuzz.actions import ALLOCATIONS
from fuzz.contract import KindLayout
from fuzz.explain import POINTERS, facts_of, shows_pointers
from fuzz.observation import Observation
from fuzz.report import describe_action, describe_failure
from fuzz.run import Failure, Step
from fuzz.shadow import Age, Shadow, ShadowObject

PLACE_OF_DATA = "{{page}}"
"""What the template has where the data belongs."""
BLOCK = "block"
"""The kind of what the mutator frees itself: it has no age, and refers to nothing."""


@attrs.frozen
class Box:
    """An object as the page draws it; `references` are fields, each with an index of a box."""

    label: str
    """Its kind and number."""
    name: str = ""
    """What made it: `#3` for the third action. The target's own objects have none."""
    note: str = ""
    slots: tuple[int, ...] = ()
    references: tuple[tuple[int, int], ...] = ()
    weak: int | None = None
    """The box that it refers to weakly."""
    differs: bool = False
    """Whether it is why the target's heap is not the mutator's."""


@attrs.frozen
class Nursery:
    """The pointers as offsets, in bytes, and where the right one belongs if one is wrong."""

    free: int
    limit: int
    top: int
    sample_point: int | None
    expected: tuple[str, int] | None


@attrs.frozen
class PageStep:
    """One step: the action, what came of it in words, and what there is to draw."""

    number: int
    action: str
    facts: str
    mismatch: tuple[tuple[str, str], ...]
    """What was expected, what came instead and why; empty if all was right."""
    nursery: Nursery | None
    """None where the target did not show its pointers."""
    minors: int
    placed: tuple[int, int] | None
    """Where in the nursery an object was placed, and its size in bytes."""
    walked: bool
    """Whether the target walked its heap."""
    heap: tuple[Box, ...]
    found: tuple[Box, ...] | None
    """The heap that the target walked, if it is another."""


@attrs.frozen
class Page:
    """All that the page shows."""

    title: str
    configuration: str
    steps: tuple[PageStep, ...]
    draws_nursery: bool = True
    """Whether the target has a nursery, and shows its pointers."""
    has_collector: bool = True
    """Whether there are ages and references; if not, there are blocks that the mutator frees."""

    @property
    def fails(self) -> bool:
        """Whether a step is a mismatch. It can only be the last."""
        return bool(self.steps and self.steps[-1].mismatch)


def make_page(title: str, configuration: str, steps: Iterable[Step]) -> Page:
    """Replay `steps` into a page."""
    names: dict[ShadowObject, str] = {}
    contract = None
    page_steps = []
    for step in steps:
        contract = step.contract
        page_steps.append(_page_step(step, names))
    return Page(
        title,
        configuration,
        tuple(page_steps),
        draws_nursery=contract is None or shows_pointers(contract),
        has_collector=contract is None or contract.nursery_bytes > 0,
    )


def render(page: Page) -> str:
    """The page as HTML. No text in the data can end the script element that it stands in."""
    template = (files("fuzz") / "explain_page.html").read_text(encoding="utf-8")
    data = json.dumps(cattrs.unstructure(page), separators=(",", ":"))
    return template.replace(PLACE_OF_DATA, data.replace("<", "\\u003c"))


def _page_step(step: Step, names: dict[ShadowObject, str]) -> PageStep:
    """One step. `names` are those of the objects so far; a new object's is added."""
    seen, shadow, kinds = step.observation, step.shadow, step.contract.layout.kinds
    for number, obj in enumerate(shadow.prebuilt):
        names[obj] = f"prebuilt {number}"
    if type(step.action) in ALLOCATIONS:
        names[shadow.roots[-1]] = f"#{step.number}"
    heap = _boxes(shadow, names)
    found = None
    if seen.graph is not None:
        expected_graph = shadow.graph()
        if seen.graph != expected_graph:
            found = _boxes_of_graph(seen.graph, heap, kinds)
            heap, found = (
                _marked(heap, expected_graph, seen.graph),
                _marked(found, seen.graph, expected_graph),
            )
    return PageStep(
        number=step.number,
        action=describe_action(step.action),
        facts=", ".join(facts_of(seen, step.contract)),
        mismatch=describe_failure(step.failure) if step.failure else (),
        nursery=_nursery(seen, step.failure),
        minors=seen.minors,
        placed=None if seen.at is None or seen.size is None else (seen.at, seen.size),
        walked=seen.graph is not None,
        heap=heap,
        found=found,
    )


def _nursery(seen: Observation, failure: Failure | None) -> Nursery | None:
    if seen.free is None or seen.limit is None or not seen.top:
        return None
    expected = None
    if failure and failure.field in POINTERS and failure.expected.lstrip("-").isdecimal():
        expected = failure.field, int(failure.expected)
    return Nursery(seen.free, seen.limit, seen.top, seen.sample_point, expected)


def _boxes(shadow: Shadow, names: Mapping[ShadowObject, str]) -> tuple[Box, ...]:
    """The objects that the mutator can reach, in the order of the rows of `Shadow.graph`."""
    order = list(dict.fromkeys(shadow.roots + shadow.prebuilt))
    rows = {obj: row for row, obj in enumerate(order)}
    for obj in order:  # It grows meanwhile.
        for ref in obj.refs:
            if ref is not None and ref not in rows:
                rows[ref] = len(order)
                order.append(ref)
    return tuple(
        Box(
            label=_label(obj, rows),
            name=names[obj],
            note="" if obj in shadow.prebuilt else _note(obj),
            slots=tuple(slot for slot, root in enumerate(shadow.roots) if root is obj),
            references=tuple(
                (field, rows[ref]) for field, ref in enumerate(obj.refs) if ref is not None
            ),
            weak=None if obj.target is None else rows.get(obj.target),
        )
        for obj in order
    )


def _label(obj: ShadowObject, rows: Mapping[ShadowObject, int]) -> str:
    if obj.kind == BLOCK:
        return f"{obj.kind} of {obj.number}"
    if obj.target is None:
        return f"{obj.kind} {obj.number}"
    if obj.target in rows:
        return obj.kind
    return f"{obj.kind} → {'dead' if obj.target.age is Age.DEAD else 'garbage'}"


def _note(obj: ShadowObject) -> str:
    """How old it is, and for a young object whether it lies in the nursery; a block's room."""
    if obj.kind == BLOCK:
        return f"room {obj.size_bytes}"
    place = " outside" if obj.age is Age.YOUNG and obj.outside else ""
    return obj.age.name.lower() + place


def _boxes_of_graph(
    graph: Sequence[Sequence[int]], expected: Sequence[Box], kinds: Mapping[str, KindLayout]
) -> tuple[Box, ...]:
    """The objects that a target found. The roots come first, and they are the mutator's."""
    names = {layout.type_index: name for name, layout in kinds.items()}
    slots = [box.slots for box in expected] + [()] * len(graph)
    return tuple(
        Box(
            label=f"{names.get(kind, f'type {kind}')} {number}",
            slots=slots[row],
            references=tuple(
                (field, ref) for field, ref in zip(references[::2], references[1::2], strict=False)
            ),
        )
        for row, (kind, number, *references) in enumerate(graph)
    )


def _marked(
    boxes: Sequence[Box], graph: Sequence[Sequence[int]], other: Sequence[Sequence[int]]
) -> tuple[Box, ...]:
    """The boxes of one graph, with those marked whose rows the other graph does not have."""
    return tuple(
        attrs.evolve(box, differs=row >= len(other) or graph[row] != other[row])
        for row, box in enumerate(boxes)
    )
