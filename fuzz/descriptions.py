"""Descriptions of mismatches for people: where it is, what was expected there, and what was found.

An object is named by its kind and the number of the action that made it, since its row in a walk of
the heap changes. Any answer of a target has a description: a walk that cannot be understood is
described by its rows. The identity of a failure never depends on these texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile, zip_longest
from typing import Any, TypeAlias

import attrs

from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Mismatch
from fuzz.oracles.heap import AFTER_ALL, WHILE_PERFORMING, WHILE_STARTING
from fuzz.plain import counted, cut
from fuzz.protocol.actions import Action, Read, ReadNumber, ReadWeakref, TakeIdentity
from fuzz.protocol.layout import KindLayout
from fuzz.protocol.lines import unstructured
from fuzz.protocol.observation import (
    HANG,
    MAJOR_STATES,
    MEMORY,
    OUTSIDE,
    SILENT,
    SURVIVED,
    TYPE_SHIFT,
    Observation,
    Report,
)

Graph: TypeAlias = list[list[int]]
Kinds: TypeAlias = Mapping[str, KindLayout]
STATES = ("state", "major_state")
NUMBERS = 2
"""A row of a walk has the object's type and its number before its references."""
UNITS = {"memory": ("byte", "arena byte"), "profile": ("object", "byte")}
"""What the figures of an observation count."""
FIGURES_OF_MEMORY = {
    "memory_used_bytes": "memory, bytes in use outside the nursery",
    "arena_bytes": "memory, bytes of all arenas",
}
"""Identities of failures have these names, but an observation has both figures in `memory`."""
EXPECTED_ANSWERS = {
    WHILE_PERFORMING: "this action",
    WHILE_STARTING: "the header",
    AFTER_ALL: "the end of its input",
}
"""What a target that failed should have answered."""


@attrs.frozen
class Description:
    """A mismatch as text. If `where` is empty, the name of the field belongs before the others."""

    where: str
    expected: str
    got: str


def describe(
    mismatch: Mismatch, action: Action, seen: Observation, shadow: Shadow, kinds: Kinds
) -> Description:
    """A mismatch in `seen`, the answer to `action`, which the shadow has followed."""
    field, values = mismatch.field, (mismatch.expected, mismatch.got)
    if field == "graph" and None not in values:
        return _of_graphs(values, seen, shadow, kinds)
    if isinstance(action, Read | ReadNumber | ReadWeakref | TakeIdentity):
        obj = shadow.roots[action.root]
        if field == "value" and isinstance(action, Read):
            where = f"{obj.label}, {_field_of(obj.kind)} {action.field}"
            return Description(where, *(_root(value, shadow) for value in values))
        if field in {"value", "alive", "identity"}:
            return Description(obj.label, *(f"{field} {_text(value)}" for value in values))
    if field in FIGURES_OF_MEMORY:
        return Description(FIGURES_OF_MEMORY[field], *map(str, values))
    if field == "finalized":
        return Description("", *(_finalized(value, shadow) for value in values))
    return Description("", *(describe_value(field, value, kinds) for value in values))


def _finalized(value: object, shadow: Shadow) -> str:
    return describe_finalizers(value, shadow) if isinstance(value, list) else _text(value)


def _root(slot: object, shadow: Shadow) -> str:
    if slot is None:
        return "null"
    if isinstance(slot, int) and slot in range(len(shadow.roots)):
        return f"root {slot}, {shadow.roots[slot].label}"
    return f"root {slot}, which does not exist"


def _text(value: object) -> str:
    """A value as in a trace."""
    return cut(value if isinstance(value, str) else json.dumps(unstructured(value)))


def describe_error(error: str, when: str) -> str:
    """What a target did instead of answering. `error` is `KIND: what happened`.

    `when` says during what. The part after a semicolon in `when` ends the sentence.
    """
    kind, _, what = error.partition(": ")
    for place in (" at start", " at end"):
        kind = kind.removesuffix(place)
    when, _, more = when.partition("; ")
    answer = EXPECTED_ANSWERS.get(when, "this action")
    crash = kind.removeprefix("crash").strip()
    ended = f"ended with {crash}" if crash.startswith("exit code") else f"crashed with {crash}"
    texts = {
        HANG: f"did not answer {answer} {what.removeprefix('no answer ')}",
        MEMORY: f"took {what} memory {when}",
        "garbage": f"answered {answer} with a line that gcfuzz cannot read: {what}",
        "garbage after the last answer": f"wrote a line after its last answer: {what}",
        "refused": f"refused {answer}: {what}",
        "crash": f"crashed {when}: {what}",
    }
    reported = f"reported an error {when}: {error}"
    text = texts.get(kind, f"{ended} {when}: {what}" if kind.startswith("crash") else reported)
    text = f"the target {text}".removesuffix(f": {SILENT}")
    return f"{text}; {more}" if more else text


def describe_value(field: str, value: Any, kinds: Kinds) -> str:  # noqa: ANN401 - any field's
    """The value of a field of an observation."""
    text = _text(value)
    match value:
        case []:
            text = "none"
        case [Report(), *_]:
            text = "; ".join(_report(each, kinds) for each in value)
        case int() if field in STATES:
            text = describe_state(value)
        case [*_] if field in STATES:
            text = " or ".join(map(describe_state, value))
        case [_, _] if field in UNITS:
            text = describe_figures(field, value)
        case [kind, place, fate] if field == "entry":
            text = f"{kind if isinstance(kind, str) else f'type {kind}'} {place}, {fate}"
        case [*_] if field in {"offsets", "weights"}:
            text = listed(value)
    return cut(text)


def describe_finalizers(numbers: Sequence[int], shadow: Shadow) -> str:
    """The numbers of finalizers, each with its object, which is named by its allocation."""
    return cut(listed(_finalizer(number, shadow) for number in numbers) or "none")


def _finalizer(number: int, shadow: Shadow) -> str:
    """The numbers are a target's, so any number may be there."""
    table = shadow.finalizers
    obj = table.registered.get(number) or table.destructors.get(number)
    return f"{number} (never registered)" if obj is None else f"{number} (of {obj.label})"


def listed(numbers: Iterable[object]) -> str:
    """Some things, joined by `and`."""
    return " and ".join(map(str, numbers))


def describe_state(state: int) -> str:
    """A state of the major collection."""
    return MAJOR_STATES[state] if state in range(len(MAJOR_STATES)) else f"in state {state}"


def describe_figures(field: str, figures: Sequence[int]) -> str:
    """The figures in a field, each with its unit."""
    return listed(counted(*each) for each in zip(figures, UNITS[field], strict=False))


def _report(report: Report, kinds: Kinds) -> str:
    memory = describe_figures("memory", (report.memory_used_bytes, report.arena_bytes))
    return f"{describe_entries(report, kinds)}, {memory}, {describe_state(report.major_state)}"


def describe_entries(report: Report, kinds: Kinds) -> str:
    """The sampled objects in a report."""
    names = _names_of(kinds)
    return "reported " + (listed(_entry(entry, names) for entry in report.entries) or "nothing")


def _entry(entry: int, names: Mapping[int, str]) -> str:
    place = " outside" if entry & OUTSIDE else ""
    kind = names.get(entry >> TYPE_SHIFT, f"type {entry >> TYPE_SHIFT}")
    return f"{kind}{place} {'survived' if entry & SURVIVED else 'died'}"


def _names_of(kinds: Kinds) -> dict[int, str]:
    return {layout.type_index: name for name, layout in kinds.items()}


# Walks of the heap.


def _of_graphs(
    values: tuple[Any, Any], seen: Observation, shadow: Shadow, kinds: Kinds
) -> Description:
    """The first difference of two walks. A mismatch may contain only their numbers of objects."""
    if isinstance(values[0], list):
        return _first_difference(*values, shadow, kinds)
    assert seen.graph is not None
    first = _first_difference(shadow.graph(), seen.graph, shadow, kinds)
    expected, got = (f"; {counted(value, 'object')} in all" for value in values)
    return Description(first.where, first.expected + expected, first.got + got)


def _first_difference(expected: Graph, got: Graph, shadow: Shadow, kinds: Kinds) -> Description:
    pairs = zip_longest(expected, got)
    row, pair = next((row, pair) for row, pair in enumerate(pairs) if pair[0] != pair[1])
    both = zip(*(each or [] for each in pair), strict=False)
    same = [one for one, _ in takewhile(lambda each: each[0] == each[1], both)]
    names = _names_up_to(row, same, expected, shadow)
    one, other = (
        _Walk(graph, shadow.names() if graph == shadow.graph() else names, _names_of(kinds))
        for graph in (expected, got)
    )
    if None in pair:
        return Description(f"object {row} of the walk", one.object(row), other.object(row))
    if not all(map(_is_whole, pair)):
        return Description(f"row {row} of the walk", *map(_text, pair))
    if not same:
        name = one.names[row] if row < len(one.names) else f"{row} of the walk"
        return Description(f"object {name}", one.object(row), other.object(row))
    if len(same) < NUMBERS:
        return Description(one.label(row), one.number(row), other.number(row))
    references = [dict(zip(each[NUMBERS::2], each[NUMBERS + 1 :: 2], strict=True)) for each in pair]
    field = min(field for field, _ in {*references[0].items()} ^ {*references[1].items()})
    where = f"{one.label(row)}, {_field_of(one.kind(row))} {field}"
    found = (
        walk.object(each.get(field)) for walk, each in zip((one, other), references, strict=True)
    )
    return Description(where, *found)


def _names_up_to(row: int, same: list[int], graph: Graph, shadow: Shadow) -> list[str]:
    """The names of the objects that both walks have found, if the mutator's walk has them too."""
    if shadow.graph()[:row] != graph[:row]:
        return []
    found = [to for each in (*graph[:row], same) for to in each[NUMBERS + 1 :: 2]]
    roots = len({*shadow.roots, *shadow.prebuilt})
    return shadow.names()[: max([roots, *(to + 1 for to in found)])]


def _is_whole(row: Sequence[int]) -> bool:
    """Whether it has a type, a number, and references of different fields, in their order."""
    fields = row[NUMBERS::2]
    return len(row) >= NUMBERS and len(row) % 2 == 0 and fields == sorted({*fields})


def _field_of(kind: str) -> str:
    return "item" if kind == "array" else "field"


@attrs.frozen
class _Walk:
    """A walk of the heap, and the names of the objects in its first rows."""

    rows: Graph
    names: Sequence[str]
    kinds: Mapping[int, str]

    def kind(self, row: int) -> str:
        kind = self.rows[row][0]
        return self.kinds.get(kind, f"type {kind}")

    def label(self, row: int) -> str:
        name = f" {self.names[row]}" if row in range(len(self.names)) else ""
        return self.kind(row) + name

    def object(self, row: int | None) -> str:
        """The object of that row, which may not exist."""
        if row is None:
            return "null"
        if row not in range(len(self.rows)):
            return "nothing"
        kind = self.kind(row)
        return self.label(row) + ("" if kind == "weakref" else f" ({self.number(row)})")

    def number(self, row: int) -> str:
        """Its number, or its length."""
        what = "number" if self.kind(row) in {"node", "weakref"} else "length"
        return f"{what} {listed(self.rows[row][1:NUMBERS])}"
