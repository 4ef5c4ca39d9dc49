"""What the Firefox Profiler's processed format is made of, field by field, as plain data.

Invariant: the shapes are those of version 63 of the viewer's `src/types/profile.ts`, less what
gcfuzz never writes: deltas instead of times, markers with an end only, libraries, pages, what
JavaScript allocates. So what is no field here is a mistake. They say nothing of what values have to
do with each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs

VERSION = 63
INSTANT, INTERVAL = 0, 1
"""The phases of a marker without and with an end."""
NONE = -1
"""What an index is that leads nowhere, in the columns where that is not null."""


@attrs.frozen
class Value:
    """A single value: what it is, in words, and whether it is that."""

    what: str
    is_so: Callable[[Any], bool]


@attrs.frozen
class Column:
    """A list of values."""

    value: Value
    may_be_missing: bool = False
    """Whether there may be null in place of the list."""


@attrs.frozen
class Table:
    """Columns that are all as long as the field `length` says, beside single values."""

    fields: dict[str, Value | Column]


@attrs.frozen
class Each:
    """A list of things that look alike."""

    shape: Shape


Shape = Value | Column | Table | Each | dict[str, Any]
"""A dictionary is an object with these fields; one whose name ends in `?` may be missing."""


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _or_null(value: Value) -> Value:
    return Value(f"{value.what}, or null", lambda given: given is None or value.is_so(given))


def _among(*values: object) -> Value:
    """One of some values; 1, 1.0 and True are three."""
    allowed = [(type(value), value) for value in values]
    what = " or ".join(map(repr, values))
    return Value(what, lambda given: (type(given), given) in allowed)


TEXT = Value("a text", lambda given: isinstance(given, str))
TRUTH = Value("true or false", lambda given: isinstance(given, bool))
NUMBER = Value("a finite number", _is_number)
TIME = Value("a time of 0 ms or more", lambda given: _is_number(given) and given >= 0)
POSITIVE = Value("a number above 0", lambda given: _is_number(given) and given > 0)
NOT_ZERO = Value("a number other than 0", lambda given: _is_number(given) and given != 0)
COUNT = Value("a whole number from 0", lambda given: type(given) is int and given >= 0)
FROM_ONE = Value("a whole number from 1", lambda given: type(given) is int and given >= 1)
INDEX = Value("an index", COUNT.is_so)
INDEX_OR_NONE = Value("an index or -1", lambda given: type(given) is int and given >= NONE)
ANYTHING = Value("anything", lambda given: True)
EMPTY = Value("an empty list", lambda given: given == [])
BYTES = _among("bytes")
CATEGORY_COLOUR = _among(
    *("transparent", "purple", "green", "orange", "yellow", "lightblue", "blue", "brown"),
    *("magenta", "red", "lightred", "darkgrey", "grey"),
)
GRAPH_COLOUR = _among(
    *("blue", "green", "grey", "ink", "magenta", "orange", "purple", "red", "teal", "yellow")
)
NUMBER_FORMATS = frozenset(
    {"duration", "time", "seconds", "milliseconds", "microseconds", "nanoseconds", "bytes"}
    | {"percentage", "integer", "decimal", "hexadecimal"}
)
TEXT_FORMATS = frozenset({"url", "file-path", "sanitized-string", "string", "pid", "tid"})
FORMAT = _among(*sorted(NUMBER_FORMATS | TEXT_FORMATS))
MARKER_PLACES = (
    *("marker-chart", "marker-table", "timeline-overview", "timeline-memory"),
    *("timeline-ipc", "timeline-fileio"),
)
MARKER_DATA = Value(
    "an object with a type",
    lambda given: isinstance(given, dict) and isinstance(given.get("type"), str),
)

META: dict[str, Shape] = {
    "interval": POSITIVE,
    "startTime": TIME,
    "profilingStartTime": TIME,
    "profilingEndTime": TIME,
    "processType": COUNT,
    "stackwalk": _among(0, 1),
    "version": COUNT,
    "preprocessedProfileVersion": _among(VERSION),
    "product": TEXT,
    "importedFrom": TEXT,
    "arguments": TEXT,
    "categories": Each({"name": TEXT, "color": CATEGORY_COLOUR, "subcategories": Each(TEXT)}),
    "markerSchema": Each(
        {
            "name": TEXT,
            "tooltipLabel": TEXT,
            "tableLabel": TEXT,
            "chartLabel": TEXT,
            "display": Each(_among(*MARKER_PLACES)),
            "description": TEXT,
            "colorField?": TEXT,
            "fields": Each({"key": TEXT, "label": TEXT, "format": FORMAT, "hidden?": TRUTH}),
        }
    ),
    "symbolicated": TRUTH,
    "symbolicationNotSupported": TRUTH,
    "usesOnlyOneStackType": TRUTH,
    "sourceCodeIsNotOnSearchfox": TRUTH,
    "initialVisibleThreads": Column(INDEX),
    "initialSelectedThreads": Column(INDEX),
    "keepProfileThreadOrder": TRUTH,
    "sampleUnits": {
        "time": _among("ms"),
        "eventDelay": _among("ms"),
        "threadCPUDelta": _among("ns", "µs", "variable CPU cycles"),
    },
    "extra": Each(
        {"label": TEXT, "entries": Each({"label": TEXT, "format": FORMAT, "value": ANYTHING})}
    ),
}

SHARED: dict[str, Shape] = {
    "stackTable": Table({"frame": Column(INDEX), "prefix": Column(_or_null(INDEX))}),
    "frameTable": Table(
        {
            "address": Column(INDEX_OR_NONE),
            "inlineDepth": Column(COUNT),
            "category": Column(_or_null(INDEX)),
            "subcategory": Column(_or_null(INDEX)),
            "func": Column(INDEX),
            "nativeSymbol": Column(_or_null(INDEX)),
            "innerWindowID": Column(_or_null(COUNT)),
            "line": Column(_or_null(FROM_ONE)),
            "column": Column(_or_null(FROM_ONE)),
        }
    ),
    "funcTable": Table(
        {
            "name": Column(INDEX),
            "isJS": Column(TRUTH),
            "relevantForJS": Column(TRUTH),
            "resource": Column(INDEX_OR_NONE),
            "source": Column(_or_null(INDEX)),
            "lineNumber": Column(_or_null(FROM_ONE)),
            "columnNumber": Column(_or_null(FROM_ONE)),
        }
    ),
    "resourceTable": Table(
        {
            "lib": Column(_or_null(INDEX)),
            "name": Column(INDEX),
            "host": Column(_or_null(INDEX)),
            "type": Column(_among(0, 1, 2, 3, 4, 5)),
        }
    ),
    "nativeSymbols": Table(
        {
            "libIndex": Column(INDEX),
            "address": Column(COUNT),
            "name": Column(INDEX),
            "functionSize": Column(_or_null(COUNT)),
        }
    ),
    "sources": Table(
        {
            "id": Column(_or_null(TEXT)),
            "filename": Column(INDEX),
            "startLine": Column(FROM_ONE),
            "startColumn": Column(FROM_ONE),
            "sourceMapURL": Column(_or_null(INDEX)),
        }
    ),
    "stringArray": Column(TEXT),
}

THREAD: dict[str, Shape] = {
    "processType": TEXT,
    "processName": TEXT,
    "processStartupTime": TIME,
    "processShutdownTime": _or_null(TIME),
    "registerTime": TIME,
    "unregisterTime": _or_null(TIME),
    "pausedRanges": EMPTY,
    "showMarkersInTimeline": TRUTH,
    "name": TEXT,
    "isMainThread": TRUTH,
    "pid": TEXT,
    "tid": COUNT,
    "samples": Table(
        {
            "stack": Column(_or_null(INDEX)),
            "time": Column(TIME),
            "weight": Column(NUMBER, may_be_missing=True),
            "weightType": _among("samples", "tracing-ms", "bytes"),
        }
    ),
    "markers": Table(
        {
            "data": Column(_or_null(MARKER_DATA)),
            "name": Column(INDEX),
            "startTime": Column(TIME),
            "endTime": Column(_or_null(TIME)),
            "phase": Column(_among(INSTANT, INTERVAL)),
            "category": Column(INDEX),
        }
    ),
    "nativeAllocations?": Table(
        {
            "time": Column(TIME),
            "weight": Column(NOT_ZERO),
            "weightType": BYTES,
            "stack": Column(_or_null(INDEX)),
            "memoryAddress": Column(COUNT),
            "threadId": Column(COUNT),
        }
    ),
}

COUNTER: dict[str, Shape] = {
    "name": TEXT,
    "category": TEXT,
    "description": TEXT,
    "pid": TEXT,
    "mainThreadIndex": INDEX,
    "samples": Table({"time": Column(TIME), "count": Column(NUMBER)}),
    "display": {
        "graphType": _among("line-accumulated"),
        "unit": _among("bytes"),
        "color": GRAPH_COLOUR,
        "markerSchemaLocation": _or_null(_among(*MARKER_PLACES)),
        "sortWeight": NUMBER,
        "label": TEXT,
        "tooltipRows": Each(
            {
                "type": _among("value"),
                "source": _among("count", "accumulated", "count-range"),
                "format": {"unit": _among("bytes", "number")},
                "label": TEXT,
            }
        ),
    },
}

PROFILE: dict[str, Shape] = {
    "meta": META,
    "libs": EMPTY,
    "pages": EMPTY,
    "profilerOverhead": EMPTY,
    "counters": Each(COUNTER),
    "shared": SHARED,
    "threads": Each(THREAD),
}
