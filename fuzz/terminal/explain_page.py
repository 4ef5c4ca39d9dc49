"""A trace as one HTML page to step through: the data that the page draws.

The page is made from `explain_page.html`: its script draws the steps from the JSON in its middle,
and loads nothing.

The objects of a step are those of the shadow, the mutator's own view, because a target shows its
heap only sometimes. A step has the changes since the one before, so that a page grows with the
trace, and not with the trace times the heap. The target's own heap is there as a whole, if it is
different. Invariant: an object has the same name in every step; its row in a graph changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeAlias

from fuzz.failure import Failure
from fuzz.mutator.objects import Age, ShadowObject
from fuzz.plain import plain
from fuzz.protocol.actions import SLOT_FIELDS, Free, ReadWeakref, RunFinalizers
from fuzz.protocol.layout import KindLayout
from fuzz.protocol.observation import Observation
from fuzz.replay import Step
from fuzz.terminal.explain import POINTERS, answers_of_step, shows_pointers
from fuzz.terminal.explain_finalizers import waiting_after
from fuzz.terminal.report import describe_action, describe_configuration, describe_failure

PLACE_OF_DATA = "{{page}}"
BLOCK = "block"
"""The kind of objects that the mutator frees: they have no age and no references."""
Page: TypeAlias = dict[str, Any]
"""JSON: the page, and the parts of it."""


def make_page(title: str, configuration: dict[str, int], steps: Iterable[Step]) -> Page:
    """Replay `steps`; returns the data of the page."""
    changes = _Changes()
    contract, prebuilt = None, []
    page_steps = []
    for step in steps:
        contract, prebuilt = step.contract, [obj.name for obj in step.shadow.prebuilt]
        page_steps.append(_page_step(step, changes))
    return {
        "title": plain(title),
        "configuration": plain(describe_configuration(configuration)),
        "steps": page_steps,
        # The names of the objects that exist from the start.
        "prebuilt": prebuilt,
        "draws_nursery": contract is None or shows_pointers(contract),
        # Whether the nursery is a thread's buffer.
        "draws_tlabs": contract is not None and "tlab" in contract.observes,
        # Whether there are ages and references, or blocks that the mutator frees.
        "has_collector": contract is None or contract.nursery_bytes > 0,
    }


def fails(page: Page) -> bool:
    """Whether a step is a mismatch. It can only be the last."""
    return bool(page["steps"] and page["steps"][-1]["mismatch"])


def render(page: Page) -> str:
    """The page as HTML. No text in the data can end its script element."""
    template = (files("fuzz.terminal") / "explain_page.html").read_text(encoding="utf-8")
    data = json.dumps(page, separators=(",", ":"))
    return template.replace(PLACE_OF_DATA, data.replace("<", "\\u003c"))


class _Changes:
    """Finds what each step changed.

    An object's look depends on its age, which collections change, and on actions that name it.
    """

    def __init__(self) -> None:
        self._boxes: dict[ShadowObject, tuple[Age, Page]] = {}
        self._refs: dict[ShadowObject, list[ShadowObject | None]] = {}
        self._roots: list[ShadowObject] = []

    def of(self, step: Step) -> Page:
        """The changes of the next step to objects that the mutator can reach."""
        touched = dict.fromkeys(self._touched(step))
        changes = {
            # The objects that are new, or look different, without their references.
            "boxes": [*self._changed_boxes(touched)],
            # Changed references: names of the object, its field, and the object referred to.
            "references": [*self._changed_references(touched)],
            # The first changed slot, how many slots are gone, and the objects in the new ones.
            "roots": self._changed_roots(step.shadow.roots),
        }
        self._roots = [*step.shadow.roots]
        return changes

    def _touched(self, step: Step) -> Iterator[ShadowObject]:
        """The objects that may look different, or have different references."""
        shadow, action = step.shadow, step.action
        if step.number == 1:
            yield from shadow.prebuilt
        if action.allocates and shadow.roots:
            yield from shadow.members(action)
        # Reading a dead weak reference, or running the finalizer of its object, shows that all
        # references to that object are dead.
        if step.observation.minors or isinstance(action, ReadWeakref | RunFinalizers):
            # What nothing keeps is dropped.
            live = shadow.living()
            self._boxes = {obj: known for obj, known in self._boxes.items() if obj in live}
            self._refs = {obj: refs for obj, refs in self._refs.items() if obj in live}
            boxes = self._boxes.items()
            yield from [obj for obj, (age, _) in boxes if obj.target or obj.age is not age]
        if not isinstance(action, Free):  # It moves the slots.
            slots = (getattr(action, field) for field in SLOT_FIELDS[type(action)])
            yield from (shadow.roots[slot] for slot in slots if slot in range(len(shadow.roots)))

    def _changed_boxes(self, touched: Iterable[ShadowObject]) -> Iterator[Page]:
        for obj in touched:
            box = {
                "name": obj.name,
                "label": _label(obj),
                "note": "" if obj.name.startswith("prebuilt") else _note(obj),
                # The object of a weak reference, and whether it is known to be dead.
                "weak": None if obj.target is None else obj.target.name,
                "weak_is_dead": obj.target is not None and obj.target.age is Age.DEAD,
            }
            if self._boxes.get(obj) != (obj.age, box):
                self._boxes[obj] = obj.age, box
                yield box

    def _changed_references(
        self, touched: Iterable[ShadowObject]
    ) -> Iterator[tuple[str, int, str | None]]:
        for obj in touched:
            before = self._refs.get(obj, [None] * len(obj.refs))
            for field, (old, new) in enumerate(zip(before, obj.refs, strict=True)):
                if new is not old:
                    yield obj.name, field, None if new is None else new.name
            self._refs[obj] = [*obj.refs]

    def _changed_roots(self, roots: Sequence[ShadowObject]) -> tuple[int, int, tuple[str, ...]]:
        """An action removes one slot, or appends some."""
        pairs = enumerate(zip(self._roots, roots, strict=False))
        start = next(
            (slot for slot, (old, new) in pairs if new is not old),
            min(len(self._roots), len(roots)),
        )
        gone = max(len(self._roots) - len(roots), 0)
        come = gone + len(roots) - len(self._roots)
        return start, gone, tuple(obj.name for obj in roots[start : start + come])


def _page_step(step: Step, changes: _Changes) -> Page:
    seen = step.observation
    differs: list[int] = []
    found = None
    if seen.graph is not None:
        expected_graph = step.shadow.graph()
        if seen.graph != expected_graph:
            differs = [*_differing(expected_graph, seen.graph)]
            found = _found(seen.graph, expected_graph, step.contract.layout.kinds)
    failure = describe_failure(step.failure) if step.failure else ()
    return {
        "number": step.number,
        "action": describe_action(step.action),
        "answers": plain(answers_of_step(step)),
        "mismatch": [(label, plain(text)) for label, text in failure],
        "nursery": _nursery(seen, step.failure),
        "minors": seen.minors,
        # Where in the nursery an object was placed, and its size in bytes.
        "placed": None if seen.at is None or seen.size is None else (seen.at, seen.size),
        # Whether the target walked its heap.
        "walked": seen.graph is not None,
        "changes": changes.of(step),
        # The objects of finalizers, each with words. They are drawn although the mutator may not
        # reach them. A wrong walk is drawn as it is, without them.
        "finalizers": [] if found is not None else [*_finalizers(step)],
        # The rows of the mutator's heap that the target does not have, and the target's own heap.
        "differs": differs,
        "found": found,
    }


def _nursery(seen: Observation, failure: Failure | None) -> Page | None:
    """The pointers as offsets in bytes, and the right value if one is wrong.

    For a TLAB, `free` is the VM's top, `limit` its end, and `top` its allocation_end.
    """
    if seen.tlab:
        start, *pointers = seen.tlab
        page = dict(zip(POINTERS, (*pointers, None), strict=True))
        wrong = None
        if failure and failure.field == "tlab" and failure.expected != str(None):
            pairs = zip(POINTERS, json.loads(failure.expected)[1:], pointers, strict=False)
            wrong = next(((name, right) for name, right, got in pairs if right != got), None)
        return {**page, "start": start, "expected": wrong}
    if seen.free is None or seen.limit is None or not seen.top:
        return None
    expected = None
    if failure and failure.field in POINTERS and failure.expected.lstrip("-").isdecimal():
        expected = failure.field, int(failure.expected)
    return {pointer: getattr(seen, pointer) for pointer in POINTERS} | {"expected": expected}


def _label(obj: ShadowObject) -> str:
    if obj.kind == BLOCK:
        return f"{obj.kind} of {obj.number}"
    return obj.kind if obj.target else f"{obj.kind} {obj.number}"


def _note(obj: ShadowObject) -> str:
    """The age of an object, and whether a young one is outside the nursery; the room of a block."""
    if obj.kind == BLOCK:
        return f"room {obj.size_bytes}"
    place = " outside" if obj.age is Age.YOUNG and obj.outside else ""
    return obj.age.name.lower() + place


def _finalizers(step: Step) -> Iterator[tuple[str, str]]:
    """Name of the object, and words, of each finalizer that waits or has just run."""
    for waiting in waiting_after(step):
        yield waiting.obj.name, f"{waiting.what} {waiting.number}"
    table = step.shadow.finalizers
    known = {**table.registered, **table.destructors}
    for number in dict.fromkeys(step.observation.finalized):
        if number in known and number not in table.waiting:
            yield known[number].name, f"{number} has run"


def _found(
    graph: Sequence[Sequence[int]],
    expected: Sequence[Sequence[int]],
    kinds: Mapping[str, KindLayout],
) -> list[Page]:
    """The objects in the target's heap; references are fields, each with the row of an object."""
    names = {layout.type_index: name for name, layout in kinds.items()}
    differing = set(_differing(graph, expected))
    return [
        {
            "label": _label_of_row(row, names),
            "references": [*zip(row[2::2], row[3::2], strict=False)],
            "differs": number in differing,
        }
        for number, row in enumerate(graph)
    ]


def _label_of_row(row: Sequence[int], names: Mapping[int, str]) -> str:
    """Kind and number of an object, as far as the row has them."""
    if not row:
        return "no object"
    kind, *number = row[:2]
    return " ".join([names.get(kind, f"type {kind}"), *map(str, number)])


def _differing(graph: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> Iterator[int]:
    """The rows of one graph that the other does not have."""
    for number, row in enumerate(graph):
        if number >= len(other) or row != other[number]:
            yield number
