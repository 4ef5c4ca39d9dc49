"""Whether a file is what the Firefox Profiler takes for granted: it validates nothing itself.

Three steps, each only where the one before has found nothing: the shapes (what must be there, and
of which type), then whether indices lead somewhere, then what else values have to do with each
other (order, balance, names). So a fault is told once, where it is.

Invariant: nothing here comes from the exporter. All that is asked for is something with which the
viewer breaks or shows nonsense, or which would be a mistake of the exporter's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from firefox_shapes import (
    COUNT,
    GRAPH_COLOUR,
    INTERVAL,
    NUMBER,
    NUMBER_FORMATS,
    PROFILE,
    TEXT,
    VERSION,
    Column,
    Each,
    Shape,
    Table,
    Value,
)

SCHEMAS_OF_FIREFOX = frozenset({"GCMinor", "GCMajor", "GCSlice"})
"""The viewer shows markers of these types in its own way, whatever their schema says."""

Json = Any
"""Parsed JSON. After the first step it has its shape, which the type checker cannot know."""

INDICES = (
    ("meta.initialVisibleThreads", "threads"),
    ("meta.initialSelectedThreads", "threads"),
    ("shared.stackTable.frame", "shared.frameTable"),
    ("shared.stackTable.prefix", "shared.stackTable"),
    ("shared.frameTable.category", "meta.categories"),
    ("shared.frameTable.func", "shared.funcTable"),
    ("shared.frameTable.nativeSymbol", "shared.nativeSymbols"),
    ("shared.funcTable.name", "shared.stringArray"),
    ("shared.funcTable.resource", "shared.resourceTable"),
    ("shared.funcTable.source", "shared.sources"),
    ("shared.resourceTable.lib", "libs"),
    ("shared.resourceTable.name", "shared.stringArray"),
    ("shared.resourceTable.host", "shared.stringArray"),
    ("shared.nativeSymbols.libIndex", "libs"),
    ("shared.nativeSymbols.name", "shared.stringArray"),
    ("shared.sources.filename", "shared.stringArray"),
    ("shared.sources.sourceMapURL", "shared.stringArray"),
    ("threads[].samples.stack", "shared.stackTable"),
    ("threads[].nativeAllocations.stack", "shared.stackTable"),
    ("threads[].markers.name", "shared.stringArray"),
    ("threads[].markers.category", "meta.categories"),
)
"""Columns of indices, and where they lead."""

SORTED = (
    "threads[].samples.time",
    "threads[].nativeAllocations.time",
    "threads[].markers.startTime",
    "counters[].samples.time",
)


def problems(data: object) -> list[str]:
    """What is wrong with a file, as parsed from JSON: a line each, with the place and the fault.

    Of a column only the first fault is told, and how many values have one.
    """
    for step in (_misshapen_profile, _dangling, _contradictions):
        found = list(step(data))
        if found:
            return found
    return []


# The shapes.


def _misshapen_profile(data: object) -> Iterator[str]:
    yield from _misshapen("", data, PROFILE)


def _misshapen(where: str, given: Json, shape: Shape) -> Iterator[str]:
    match shape:
        case Value():
            if not shape.is_so(given):
                yield f"{where}: {_shown(given)} is not {shape.what}"
        case Column():
            yield from _misshapen_column(where, given, shape)
        case Each() if isinstance(given, list):
            for number, each in enumerate(given):
                yield from _misshapen(f"{where}[{number}]", each, shape.shape)
        case Each():
            yield f"{where}: {_shown(given)} is not a list"
        case Table():
            yield from _misshapen_object(where, given, {**shape.fields, "length": COUNT})
            yield from _uneven(where, given)
        case fields:
            yield from _misshapen_object(where, given, fields)


def _misshapen_column(where: str, given: object, column: Column) -> Iterator[str]:
    if given is None and column.may_be_missing:
        return
    if not isinstance(given, list):
        yield f"{where}: {_shown(given)} is not a list"
        return
    wrong = [number for number, each in enumerate(given) if not column.value.is_so(each)]
    yield from _first_of(
        where, wrong, lambda row: f"{_shown(given[row])} is not {column.value.what}"
    )


def _misshapen_object(where: str, given: object, fields: dict[str, Json]) -> Iterator[str]:
    if not isinstance(given, dict):
        yield f"{where or 'the file'}: {_shown(given)} is not an object"
        return
    known = {name.rstrip("?"): (shape, name.endswith("?")) for name, shape in fields.items()}
    for name, (shape, may_be_missing) in known.items():
        if name in given:
            yield from _misshapen(_inside(where, name), given[name], shape)
        elif not may_be_missing:
            yield f"{_inside(where, name)}: is missing"
    for name in sorted(given.keys() - known.keys()):
        yield f"{_inside(where, name)}: is no field of version {VERSION}"


def _uneven(where: str, table: object) -> Iterator[str]:
    """Columns that have another length than their table says."""
    if not isinstance(table, dict) or not COUNT.is_so(table.get("length")):
        return
    length = table["length"]
    rows = {name: len(column) for name, column in table.items() if isinstance(column, list)}
    uneven = {name: count for name, count in rows.items() if count != length}
    if uneven and uneven == rows:
        yield f"{where}.length: is {length}, and no column has as many rows"
        return
    for name, count in uneven.items():
        yield f"{where}.{name}: has {count} rows, and the table's length is {length}"


# Indices.


def _dangling(data: Json) -> Iterator[str]:
    for path, target in INDICES:
        ((_, table),) = _places(data, target)
        count = len(table) if isinstance(table, list) else table["length"]
        for where, column in _places(data, path):
            yield from _dangling_in(
                where, column, f"leads nowhere, {target} has {count} rows", count
            )
    for number, counter in enumerate(data["counters"]):
        if counter["mainThreadIndex"] >= len(data["threads"]):
            yield f"counters[{number}].mainThreadIndex: there is no such thread"


def _dangling_in(where: str, column: list[int | None], fault: str, count: int) -> Iterator[str]:
    wrong = [row for row, each in enumerate(column) if each is not None and each >= count]
    yield from _first_of(where, wrong, lambda row: f"{column[row]} {fault}")


def _places(data: Json, path: str) -> list[tuple[str, Json]]:
    """What is at a path that has `[]` for each thing in a list, and the path of each."""
    places = [("", data)]
    for name in path.replace("[]", ".[]").split("."):
        if name == "[]":
            places = [
                (f"{where}[{number}]", each)
                for where, things in places
                for number, each in enumerate(things)
            ]
        else:
            places = [
                (_inside(where, name), thing[name]) for where, thing in places if name in thing
            ]
    return places


# What values have to do with each other.


def _contradictions(data: Json) -> Iterator[str]:
    meta, shared = data["meta"], data["shared"]
    yield from _about_extra(meta["extra"])
    yield from _about_categories(meta["categories"])
    yield from _about_schemas(meta["markerSchema"])
    yield from _about_stacks(shared["stackTable"]["prefix"])
    yield from _about_frames(shared["frameTable"], meta["categories"])
    yield from _about_times(data, meta["profilingStartTime"], meta["profilingEndTime"])
    yield from _about_threads(data["threads"])
    schemas = {schema["name"]: schema for schema in meta["markerSchema"]}
    for number, thread in enumerate(data["threads"]):
        where = f"threads[{number}]"
        yield from _about_markers(f"{where}.markers", thread["markers"], schemas)
        yield from _about_allocations(where, thread)
    for number, counter in enumerate(data["counters"]):
        yield from _about_counter(f"counters[{number}]", counter, data["threads"])


def _about_extra(sections: list[Json]) -> Iterator[str]:
    for section, each in enumerate(sections):
        for number, entry in enumerate(each["entries"]):
            where = f"meta.extra[{section}].entries[{number}].value"
            yield from _misshapen(where, entry["value"], _of_format(entry["format"]))


def _about_categories(categories: list[Json]) -> Iterator[str]:
    yield from _repeated("meta.categories", [each["name"] for each in categories], "name")
    greys = sum(each["color"] == "grey" for each in categories)
    if greys != 1:
        yield f"meta.categories: one is the default and has the colour grey, and {greys} have it"
    for number, category in enumerate(categories):
        if category["subcategories"][:1] != ["Other"]:
            yield f"meta.categories[{number}].subcategories: the first one is not Other"


def _about_schemas(schemas: list[Json]) -> Iterator[str]:
    yield from _repeated("meta.markerSchema", [each["name"] for each in schemas], "name")
    for number, schema in enumerate(schemas):
        where = f"meta.markerSchema[{number}]"
        if schema["name"] in SCHEMAS_OF_FIREFOX:
            yield f"{where}.name: {schema['name']} is Firefox's own"
        keys = {field["key"] for field in schema["fields"]}
        for label in ("tooltipLabel", "tableLabel", "chartLabel"):
            named = set(re.findall(r"\{marker\.data\.(\w+)\}", schema[label]))
            for key in sorted(named - keys):
                yield f"{where}.{label}: there is no field {key}"
        if "colorField" in schema and schema["colorField"] not in keys:
            yield f"{where}.colorField: there is no field {schema['colorField']}"


def _about_stacks(prefixes: list[int | None]) -> Iterator[str]:
    late = [row for row, prefix in enumerate(prefixes) if prefix is not None and prefix >= row]
    yield from _first_of(
        "shared.stackTable.prefix", late, lambda row: f"{prefixes[row]} is not before its child"
    )


def _about_frames(frames: Json, categories: list[Json]) -> Iterator[str]:
    counts: dict[int | None, int] = {
        number: len(category["subcategories"]) for number, category in enumerate(categories)
    }
    pairs = list(zip(frames["category"], frames["subcategory"], strict=True))
    wrong = [
        row
        for row, (category, subcategory) in enumerate(pairs)
        if category is not None and (subcategory is None or subcategory >= counts[category])
    ]
    yield from _first_of(
        "shared.frameTable.subcategory",
        wrong,
        lambda row: f"{_shown(pairs[row][1])} is no subcategory of category {pairs[row][0]}",
    )


def _about_times(data: Json, start: float, end: float) -> Iterator[str]:
    if end <= start:
        yield "meta.profilingEndTime: is not after meta.profilingStartTime"
        return
    for path in SORTED:
        for where, times in _places(data, path):
            yield from _unsorted(where, times)
            yield from _outside(where, times, start, end)


def _outside(where: str, times: list[float], start: float, end: float) -> Iterator[str]:
    """Times that the viewer leaves out; its range begins with its start and ends before its end."""
    outside = [row for row, each in enumerate(times) if not start <= each < end]
    yield from _first_of(
        where, outside, lambda row: f"{times[row]} is outside of the range, {start} to {end}"
    )


def _unsorted(where: str, times: list[float]) -> Iterator[str]:
    early = [row for row, pair in enumerate(pairwise(times), 1) if pair[1] < pair[0]]
    yield from _first_of(
        where, early, lambda row: f"{times[row]} is before {times[row - 1]}, the row above"
    )


def _about_threads(threads: list[Json]) -> Iterator[str]:
    if not threads:
        yield "threads: there is none"
    yield from _repeated("threads", [each["tid"] for each in threads], "tid")
    for number, thread in enumerate(threads):
        samples = thread["samples"]
        if samples["weightType"] == "bytes" and samples["weight"] is None:
            yield f"threads[{number}].samples.weight: bytes have weights"


def _about_markers(where: str, markers: Json, schemas: dict[str, Json]) -> Iterator[str]:
    spans = list(zip(markers["phase"], markers["startTime"], markers["endTime"], strict=True))
    backwards = [
        row
        for row, (phase, began, ended) in enumerate(spans)
        if phase == INTERVAL and (ended is None or ended < began)
    ]
    yield from _first_of(
        f"{where}.endTime",
        backwards,
        lambda row: f"{_shown(spans[row][2])} is before {spans[row][1]}, its beginning",
    )
    data = markers["data"]
    strange = [row for row, each in enumerate(data) if each and each["type"] not in schemas]
    yield from _first_of(
        f"{where}.data", strange, lambda row: f"the type {data[row]['type']} has no schema"
    )
    for row, each in enumerate(data):
        if each and each["type"] in schemas:
            yield from _about_payload(f"{where}.data[{row}]", each, schemas[each["type"]])


def _about_payload(where: str, data: dict[str, Json], schema: Json) -> Iterator[str]:
    formats = {field["key"]: field["format"] for field in schema["fields"]}
    for key in sorted(data.keys() - formats.keys() - {"type"}):
        yield f"{where}.{key}: is no field of the schema {schema['name']}"
    for key in sorted(formats.keys() & data.keys()):
        is_colour = key == schema.get("colorField")
        shape = GRAPH_COLOUR if is_colour else _of_format(formats[key])
        yield from _misshapen(f"{where}.{key}", data[key], shape)


def _of_format(name: str) -> Value:
    return NUMBER if name in NUMBER_FORMATS else TEXT


def _about_allocations(where: str, thread: Json) -> Iterator[str]:
    if "nativeAllocations" not in thread:
        return
    allocations = thread["nativeAllocations"]
    if not allocations["length"]:
        yield f"{where}.nativeAllocations: is empty, where the viewer takes the times of its ends"
    yield from _unbalanced(f"{where}.nativeAllocations", allocations)


def _unbalanced(where: str, allocations: Json) -> Iterator[str]:
    """Deaths of what was not alive, or had another weight, and births where something lives."""
    alive: dict[int, float] = {}
    wrong = []
    addresses, weights = allocations["memoryAddress"], allocations["weight"]
    for row, (address, weight) in enumerate(zip(addresses, weights, strict=True)):
        if weight > 0:
            is_right = address not in alive
            alive[address] = weight
        else:
            is_right = alive.pop(address, None) == -weight
        if not is_right:
            wrong.append(row)
    yield from _first_of(
        f"{where}.weight",
        wrong,
        lambda row: f"{weights[row]} at address {addresses[row]} does not answer what is there",
    )


def _about_counter(where: str, counter: Json, threads: list[Json]) -> Iterator[str]:
    if counter["pid"] != threads[counter["mainThreadIndex"]]["pid"]:
        yield f"{where}.pid: {counter['pid']} is not that of its thread"
    counts = counter["samples"]["count"]
    if not counts:
        yield f"{where}.samples: is empty"
    elif counts[0] != 0:
        yield f"{where}.samples.count[0]: is {counts[0]}, and the viewer takes it for 0"


# How faults are told.


def _repeated(where: str, names: list[Json], what: str) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{where}: {count} have the {what} {name}"


def _first_of(where: str, rows: list[int], fault: Callable[[int], str]) -> Iterator[str]:
    if rows:
        more = f" (and {len(rows) - 1} more)" if rows[1:] else ""
        yield f"{where}[{rows[0]}]: {fault(rows[0])}{more}"


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _shown(value: object) -> str:
    return "null" if value is None else f"{value!r:.40}"
