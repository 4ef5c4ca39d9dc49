"""Checks that a file is valid for the Firefox Profiler, which validates nothing itself.

The shapes are those of version 63 of the viewer's `src/types/profile.ts`, without the parts that
gcfuzz never writes. Every other check is for something with which the viewer breaks or shows
nonsense. Nothing here comes from the exporter.
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

Json = Any
Shape = Any
"""A dict: an object with these fields; a name with `?` may be missing. A list: a list of such
things. A text: an index into that table; with `?`, or null. A function: a check of the value."""


Check = Callable[[Any], bool]


def number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def count(value: object) -> bool:
    return type(value) is int and value >= 0


def one_of(*values: object) -> Check:
    """One of these values; 1, 1.0 and True are three."""
    return lambda value: (type(value), value) in [(type(each), each) for each in values]


def null_or(check: Check) -> Check:
    return lambda value: value is None or check(value)


def each_of(names: str, check: Check) -> dict[str, Check]:
    return dict.fromkeys(names.split(), check)


def table(**columns: Shape) -> Shape:
    """Columns that are all as long as `length`."""
    return {**{name: [shape] for name, shape in columns.items()}, "length": count}


text: Check = lambda value: isinstance(value, str)  # noqa: E731
truth: Check = lambda value: isinstance(value, bool)  # noqa: E731
time: Check = lambda value: number(value) and value >= 0  # noqa: E731
from_1: Check = lambda value: count(value) and value > 0  # noqa: E731
count_or_none: Check = lambda value: count(value) or value == -1  # noqa: E731
anything: Check = lambda _: True  # noqa: E731
CATEGORY_COLOUR = one_of(
    *("transparent", "purple", "green", "orange", "yellow", "lightblue", "blue", "brown"),
    *("magenta", "red", "lightred", "darkgrey", "grey"),
)
GRAPH_COLOUR = one_of(
    *("blue", "green", "grey", "ink", "magenta", "orange", "purple", "red", "teal", "yellow")
)
VALUE_OF_FORMAT = {"string": text, "bytes": number, "integer": number, "duration": number}
FORMAT = one_of(*VALUE_OF_FORMAT)
PLACE = one_of("marker-chart", "marker-table", "timeline-overview", "timeline-memory")
BYTES = one_of("bytes")
META = {
    **each_of("product importedFrom arguments", text),
    **each_of("symbolicated symbolicationNotSupported usesOnlyOneStackType", truth),
    **each_of("sourceCodeIsNotOnSearchfox keepProfileThreadOrder", truth),
    **each_of("startTime profilingStartTime profilingEndTime", time),
    "interval": lambda value: time(value) and value != 0,
    "processType": count,
    "stackwalk": one_of(0, 1),
    "version": count,
    "preprocessedProfileVersion": one_of(63),
    "categories": [{"name": text, "color": CATEGORY_COLOUR, "subcategories": [text]}],
    "markerSchema": [
        {
            **each_of("name tooltipLabel tableLabel chartLabel description", text),
            "display": [PLACE],
            "colorField?": text,
            "fields": [{"key": text, "label": text, "format": FORMAT, "hidden?": truth}],
        }
    ],
    "initialVisibleThreads": ["threads"],
    "initialSelectedThreads": ["threads"],
    "sampleUnits": each_of("time eventDelay threadCPUDelta", one_of("ms", "ns")),
    "extra": [{"label": text, "entries": [{"label": text, "format": FORMAT, "value": anything}]}],
}
SHARED = {
    "stackTable": table(frame="frameTable", prefix="stackTable?"),
    "frameTable": table(
        address=count_or_none,
        inlineDepth=count,
        category="categories?",
        subcategory=one_of(0, None),
        func="funcTable",
        nativeSymbol="nativeSymbols?",
        innerWindowID=null_or(count),
        line=null_or(from_1),
        column=null_or(from_1),
    ),
    "funcTable": table(
        name="stringArray",
        isJS=truth,
        relevantForJS=truth,
        resource=count_or_none,
        source="sources?",
        lineNumber=null_or(from_1),
        columnNumber=null_or(from_1),
    ),
    "resourceTable": table(
        lib="libs?", name="stringArray", host="stringArray?", type=one_of(0, 1, 2, 3, 4, 5)
    ),
    "nativeSymbols": table(
        libIndex="libs", address=count, name="stringArray", functionSize=null_or(count)
    ),
    "sources": table(
        id=null_or(text),
        filename="stringArray",
        startLine=count,
        startColumn=count,
        sourceMapURL="stringArray?",
    ),
    "stringArray": [text],
}
THREAD = {
    **each_of("processType processName name pid", text),
    **each_of("processStartupTime processShutdownTime registerTime unregisterTime", time),
    **each_of("showMarkersInTimeline isMainThread", truth),
    "pausedRanges": one_of([]),
    "tid": count,
    "samples": {
        **table(stack="stackTable?", time=time),
        "weight": anything,
        "weightType": one_of("samples", "bytes"),
    },
    "markers": table(
        data={"type": text},
        name="stringArray",
        startTime=time,
        endTime=null_or(time),
        phase=one_of(0, 1),
        category="categories",
    ),
    "nativeAllocations?": {
        **table(time=time, weight=number, stack="stackTable?", memoryAddress=count, threadId=count),
        "weightType": BYTES,
    },
}
COUNTER = {
    **each_of("name category description pid", text),
    "mainThreadIndex": "threads",
    "samples": table(time=time, count=number),
    "display": {
        "graphType": one_of("line-accumulated"),
        "unit": BYTES,
        "color": GRAPH_COLOUR,
        "markerSchemaLocation": null_or(PLACE),
        "sortWeight": number,
        "label": text,
        "tooltipRows": [
            {
                "type": one_of("value"),
                "source": one_of("count", "accumulated", "count-range"),
                "format": {"unit": BYTES},
                "label": text,
            }
        ],
    },
}
PROFILE = {
    **each_of("libs pages profilerOverhead", one_of([])),
    "meta": META,
    "counters": [COUNTER],
    "shared": SHARED,
    "threads": [THREAD],
}


def check(data: Json) -> None:
    """Assert that parsed JSON is a valid profile. A message starts with the path of the fault."""
    Checker(data).check_shape("", data, PROFILE)
    meta, shared = data["meta"], data["shared"]
    check_meta(meta)
    prefixes = shared["stackTable"]["prefix"]
    assert all(each is None or each < row for row, each in enumerate(prefixes)), "prefix: too late"
    for thread in data["threads"]:
        check_thread(thread, meta)
    tids = [thread["tid"] for thread in data["threads"]]
    assert len({*tids}) == len(tids) > 0, "threads: none, or two of one tid"
    for counter in data["counters"]:
        check_times(counter["samples"]["time"], meta)
        assert counter["pid"] == data["threads"][counter["mainThreadIndex"]]["pid"], "pid"
        assert counter["samples"]["count"][:1] == [0], "count: the viewer takes the first one for 0"


class Checker:
    """Checks shapes and indices. An index needs the size of its table."""

    def __init__(self, data: Json) -> None:
        self._sizes = {"threads": len(data["threads"]), "libs": 0}
        self._sizes["categories"] = len(data["meta"]["categories"])
        for name, rows in data["shared"].items():
            self._sizes[name] = rows["length"] if isinstance(rows, dict) else len(rows)

    def check_shape(self, path: str, given: Json, shape: Shape) -> None:
        if isinstance(shape, dict):
            self._check_object(path, given, shape)
        elif isinstance(shape, list):
            assert isinstance(given, list), f"{path}: {given!r}"
            for row, each in enumerate(given):
                self.check_shape(f"{path}[{row}]", each, shape[0])
        elif isinstance(shape, str):
            is_null = given is None and shape.endswith("?")
            is_index = count(given) and given < self._sizes[shape.rstrip("?")]
            assert is_null or is_index, f"{path}: {given!r} is not an index"
        else:
            assert shape(given), f"{path}: {given!r}"

    def _check_object(self, path: str, given: Json, shape: Shape) -> None:
        assert isinstance(given, dict), f"{path}: {given!r}"
        known = {name.rstrip("?"): each for name, each in shape.items()}
        missing = {name for name in shape if not name.endswith("?")} - given.keys()
        is_data = [*shape] == ["type"]  # A marker's other fields are in its schema.
        unknown = set() if is_data else given.keys() - known.keys()
        assert not missing | unknown, f"{path}: {missing} is missing, {unknown} is unknown"
        for name in [name for name in known if name in given]:
            self.check_shape(f"{path}.{name}".lstrip("."), given[name], known[name])
            if "length" in known and isinstance(given[name], list):
                assert len(given[name]) == given["length"], f"{path}.{name}: rows"


def check_meta(meta: Json) -> None:
    colours = [each["color"] for each in meta["categories"]]
    assert colours.count("grey") == 1, "categories: exactly one, the default, is grey"
    for key in ("categories", "markerSchema"):
        names = Counter(each["name"] for each in meta[key])
        assert max(names.values()) == 1, f"{key}: two have one name"
    for schema in meta["markerSchema"]:
        keys = {field["key"] for field in schema["fields"]}
        labels = "".join(schema[name] for name in ("tooltipLabel", "tableLabel", "chartLabel"))
        used = {*re.findall(r"\{marker\.data\.(\w+)\}", labels), schema.get("colorField", "")}
        assert used - keys <= {""}, f"markerSchema: there is no field {used - keys}"
        assert not schema["name"].startswith(("GCM", "GCS")), "markerSchema: Firefox's own name"
    for entry in meta["extra"][0]["entries"]:
        assert VALUE_OF_FORMAT[entry["format"]](entry["value"]), f"extra: {entry}"
    assert meta["profilingStartTime"] < meta["profilingEndTime"], "profilingEndTime"


def check_times(times: list[float], meta: Json) -> None:
    """The viewer leaves out what is outside of its range, which does not include its end."""
    start, end = meta["profilingStartTime"], meta["profilingEndTime"]
    assert times == sorted(times), f"time: {times} are not in order"
    assert all(start <= each < end for each in times), f"time: {times} are outside of the range"


def check_thread(thread: Json, meta: Json) -> None:
    samples, markers = thread["samples"], thread["markers"]
    check_times(samples["time"], meta)
    if samples["weightType"] == "bytes":
        assert len(samples["weight"]) == samples["length"], "weight: rows"
        assert all(map(number, samples["weight"])), "weight: not numbers"
    check_times(markers["startTime"], meta)
    schemas = {schema["name"]: schema for schema in meta["markerSchema"]}
    for row, data in enumerate(markers["data"]):
        began, ended = markers["startTime"][row], markers["endTime"][row]
        assert markers["phase"][row] == 0 or (ended or -1) >= began, "endTime: before the start"
        fields = schemas[data["type"]]["fields"] if data["type"] in schemas else []
        formats = {field["key"]: VALUE_OF_FORMAT[field["format"]] for field in fields}
        assert data.keys() - {"type"} == formats.keys(), f"data: {data}"
        assert all(formats[key](data[key]) for key in formats), f"data: {data}"
        assert GRAPH_COLOUR(data[schemas[data["type"]]["colorField"]]), f"data: {data}"
    if "nativeAllocations" in thread:
        check_allocations(thread["nativeAllocations"], meta)


def check_allocations(allocations: Json, meta: Json) -> None:
    """The viewer needs a first row, and an object must not die before it lives, or twice."""
    assert allocations["length"], "nativeAllocations: empty"
    check_times(allocations["time"], meta)
    alive: dict[int, float] = {}
    rows = zip(allocations["memoryAddress"], allocations["weight"], strict=True)
    for address, weight in rows:
        before = alive.pop(address, 0)
        assert (before == 0) if weight > 0 else (before == -weight != 0), f"weight: {weight}"
        if weight > 0:
            alive[address] = weight
