"""A mismatch in words: where it is, what was expected there, and what came instead.

An object is called by its kind and by the number of the action that made it, as in reports and
pages, since its row in a walk of the heap is another after every action. Whatever a target says has
words: where a walk cannot be understood, they are its rows. What makes two failures the same is
asked of the mismatch itself, never of these words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile, zip_longest
from typing import Any, TypeAlias

import attrs

from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Mismatch
from fuzz.oracles.heap import AFTER_ALL, WHILE_PERFORMING, WHILE_STARTING
from fuzz.plain import counted, cut
from fuzz.protocol.actions import Action, Read, ReadNumber, ReadWeakref, TakeIdentity
from fuzz.protocol.contract import KindLayout
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
"""So many stand in a row of a walk before its references: the object's type and its number."""
UNITS = {"memory": ("byte", "arena byte"), "profile": ("object", "byte")}
"""What the figures of an observation count."""
ASKED = {
    WHILE_PERFORMING: "this action",
    WHILE_STARTING: "the header",
    AFTER_ALL: "the end of its input",
}
"""What a target that failed was to answer."""


@attrs.frozen
class Words:
    """A mismatch in words. Without `where`, the field's name belongs before the other two."""

    where: str
    expected: str
    got: str


def describe(
    mismatch: Mismatch, action: Action, seen: Observation, shadow: Shadow, kinds: Kinds
) -> Words:
    """What `seen`, the answer to `action`, is found wrong for; the shadow has followed it."""
    field, values = mismatch.field, (mismatch.expected, mismatch.got)
    if field == "graph" and None not in values:
        return _of_graphs(values, seen, shadow, kinds)
    if isinstance(action, Read | ReadNumber | ReadWeakref | TakeIdentity):
        where = shadow.roots[action.root].label
        if field == "value" and isinstance(action, Read):
            where += f", {_field_of(shadow.roots[action.root].kind)} {action.field}"
            return Words(where, *(_root(value, shadow) for value in values))
        if field in {"value", "alive", "identity"}:
            return Words(where, *(f"{field} {_text(value)}" for value in values))
    return Words("", *(describe_value(field, value, kinds) for value in values))


def _root(slot: object, shadow: Shadow) -> str:
    if slot is None:
        return "null"
    if isinstance(slot, int) and slot in range(len(shadow.roots)):
        return f"root {slot}, {shadow.roots[slot].label}"
    return f"root {slot}, which there is not"


def _text(value: object) -> str:
    """A value as a trace would write it."""
    return cut(value if isinstance(value, str) else json.dumps(unstructured(value)))


def describe_error(error: str, when: str) -> str:
    """What a target did instead of answering; `when` says during what.

    `error` is `KIND: what happened`. What follows a semicolon in `when` ends the sentence.
    """
    kind, _, what = error.partition(": ")
    for place in (" at start", " at end"):
        kind = kind.removesuffix(place)
    when, _, more = when.partition("; ")
    asked = ASKED.get(when, "this action")
    crash = kind.removeprefix("crash").strip()
    words = f"the target reported an error {when}: {error}"
    if kind == HANG:
        words = f"the target did not answer {asked} {what.removeprefix('no answer ')}"
    elif kind == MEMORY:
        words = f"the target took {what} memory {when}"
    elif kind == "garbage":
        words = f"the target answered {asked} with a line that gcfuzz cannot read: {what}"
    elif kind == "garbage after the last answer":
        words = f"the target wrote a line after its last answer: {what}"
    elif kind == "refused":
        words = f"the target refused {asked}: {what}"
    elif kind == "crash":
        words = f"the target crashed {when}: {what}"
    elif kind.startswith("crash exit code"):
        words = f"the target ended with {crash} {when}: {what}"
    elif kind.startswith("crash"):
        words = f"the target crashed with {crash} {when}: {what}"
    words = words.removesuffix(f": {SILENT}")
    return f"{words}; {more}" if more else words


def describe_value(field: str, value: Any, kinds: Kinds) -> str:  # noqa: ANN401 - any field's
    """What a field of an observation says."""
    words = _text(value)
    match value:
        case []:
            words = "none"
        case [Report(), *_]:
            words = "; ".join(_report(each, kinds) for each in value)
        case int() if field in STATES:
            words = describe_state(value)
        case [*_] if field in STATES:
            words = " or ".join(map(describe_state, value))
        case [_, _] if field in UNITS:
            words = describe_figures(field, value)
        case [kind, place, fate] if field == "entry":
            words = f"{kind if isinstance(kind, str) else f'type {kind}'} {place}, {fate}"
        case [*_] if field in {"offsets", "weights"}:
            words = listed(value)
    return cut(words)


def listed(numbers: Iterable[object]) -> str:
    """These, one after another."""
    return " and ".join(map(str, numbers))


def describe_state(state: int) -> str:
    """A major collection's state."""
    return MAJOR_STATES[state] if state in range(len(MAJOR_STATES)) else f"in state {state}"


def describe_figures(field: str, figures: Sequence[int]) -> str:
    """What an observation counts, each with its unit."""
    return listed(counted(*each) for each in zip(figures, UNITS[field], strict=False))


def _report(report: Report, kinds: Kinds) -> str:
    memory = describe_figures("memory", (report.memory_used_bytes, report.arena_bytes))
    return f"{describe_entries(report, kinds)}, {memory}, {describe_state(report.major_state)}"


def describe_entries(report: Report, kinds: Kinds) -> str:
    """What a report says of the objects that were sampled."""
    names = _names_of(kinds)
    return "reported " + (listed(_entry(entry, names) for entry in report.entries) or "nothing")


def _entry(entry: int, names: Mapping[int, str]) -> str:
    place = " outside" if entry & OUTSIDE else ""
    kind = names.get(entry >> TYPE_SHIFT, f"type {entry >> TYPE_SHIFT}")
    return f"{kind}{place} {'survived' if entry & SURVIVED else 'died'}"


def _names_of(kinds: Kinds) -> dict[int, str]:
    return {layout.type_index: name for name, layout in kinds.items()}


# Walks of the heap.


def _of_graphs(values: tuple[Any, Any], seen: Observation, shadow: Shadow, kinds: Kinds) -> Words:
    """The first difference of two walks; who counts objects has only their numbers."""
    if isinstance(values[0], list):
        return _first_difference(*values, shadow, kinds)
    assert seen.graph is not None
    words = _first_difference(shadow.graph(), seen.graph, shadow, kinds)
    expected, got = (f"; {counted(value, 'object')} in all" for value in values)
    return Words(words.where, words.expected + expected, words.got + got)


def _first_difference(expected: Graph, got: Graph, shadow: Shadow, kinds: Kinds) -> Words:
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
        return Words(f"object {row} of the walk", one.object(row), other.object(row))
    if not all(map(_is_whole, pair)):
        return Words(f"row {row} of the walk", *map(_text, pair))
    if not same:
        return Words(one.name(row), one.object(row), other.object(row))
    if len(same) < NUMBERS:
        return Words(one.label(row), one.number(row), other.number(row))
    references = [dict(_pairs(each)) for each in pair]
    field = min(field for field, _ in {*references[0].items()} ^ {*references[1].items()})
    where = f"{one.label(row)}, {_field_of(one.kind(row))} {field}"
    return Words(
        where, one.object(references[0].get(field)), other.object(references[1].get(field))
    )


def _names_up_to(row: int, same: list[int], graph: Graph, shadow: Shadow) -> list[str]:
    """The names of the objects that two walks have both found, if the mutator's has them too."""
    if shadow.graph()[:row] != graph[:row]:
        return []
    found = [to for each in (*graph[:row], same) for to in each[NUMBERS + 1 :: 2]]
    roots = len({*shadow.roots, *shadow.prebuilt})
    return shadow.names()[: max([roots, *(to + 1 for to in found)])]


def _pairs(row: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The references of an object: fields, each with the row of an object."""
    return zip(row[NUMBERS::2], row[NUMBERS + 1 :: 2], strict=False)


def _is_whole(row: Sequence[int]) -> bool:
    """Whether it has a type, a number, and references, each of one field, in their order."""
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

    def name(self, row: int) -> str:
        return f"object {self.names[row] if row < len(self.names) else f'{row} of the walk'}"

    def label(self, row: int) -> str:
        name = f" {self.names[row]}" if row in range(len(self.names)) else ""
        return self.kind(row) + name

    def object(self, row: int | None) -> str:
        """The object of that row; a reference may lead to none."""
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
