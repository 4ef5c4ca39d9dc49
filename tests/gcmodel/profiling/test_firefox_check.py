"""The checker of the Firefox Profiler's format: each fault in an otherwise good file is told."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from firefox_check import problems

from gcmodel.profiling.firefox import write
from gcmodel.profiling.profile import Profile

Json = Any
Fault = Callable[[Json], None]


@pytest.fixture
def data(profile: Profile, tmp_path: Path) -> Json:
    """A file with all that is known."""
    write(profile, tmp_path / "profile.json")
    return json.loads((tmp_path / "profile.json").read_text())


def place(data: Json, path: str) -> tuple[Json, Json]:
    """What holds the thing at a path of names and numbers, and its key there."""
    *outer, last = (int(name) if name.isdigit() else name for name in path.split("."))
    for name in outer:
        data = data[name]
    return data, last


def put(path: str, value: object) -> Fault:
    def fault(data: Json) -> None:
        holder, key = place(data, path)
        holder[key] = copy.deepcopy(value)

    return fault


def leave_out(path: str) -> Fault:
    def fault(data: Json) -> None:
        holder, key = place(data, path)
        del holder[key]

    return fault


def append(path: str, value: object) -> Fault:
    def fault(data: Json) -> None:
        holder, key = place(data, path)
        holder[key].append(value)

    return fault


def reverse(path: str) -> Fault:
    def fault(data: Json) -> None:
        holder, key = place(data, path)
        holder[key].reverse()

    return fault


SHAPES = [
    (leave_out("libs"), "libs: is missing"),
    (leave_out("meta.interval"), "meta.interval: is missing"),
    (put("meta.interval", 0), "meta.interval: 0 is not a number above 0"),
    (put("meta.preprocessedProfileVersion", 62), "meta.preprocessedProfileVersion: 62 is not 63"),
    (put("meta.stackwalk", True), "meta.stackwalk: True is not 0 or 1"),
    (put("meta.symbolicated", 0), "meta.symbolicated: 0 is not true or false"),
    (put("meta.colour", "red"), "meta.colour: is no field of version 63"),
    (put("meta.categories.1.color", "pink"), "meta.categories[1].color: 'pink' is not "),
    (put("meta.markerSchema.0.display.0", "chart"), "meta.markerSchema[0].display[0]: 'chart'"),
    (put("meta.markerSchema.0.fields.0.format", "byte"), "meta.markerSchema[0].fields[0].format"),
    (put("meta.markerSchema.0.fields.3.hidden", 1), "meta.markerSchema[0].fields[3].hidden: 1 is"),
    (put("meta.markerSchema.1.colorField", None), "meta.markerSchema[1].colorField: null is not"),
    (leave_out("shared.frameTable.column"), "shared.frameTable.column: is missing"),
    (put("shared.frameTable.column", 1), "shared.frameTable.column: 1 is not a list"),
    (put("shared.frameTable.line.0", 0), "shared.frameTable.line[0]: 0 is not a whole number"),
    (put("shared.funcTable.isJS.2", None), "shared.funcTable.isJS[2]: null is not true or false"),
    (put("shared.funcTable.resource.0", -2), "shared.funcTable.resource[0]: -2 is not an index"),
    (put("shared.stringArray.0", 7), "shared.stringArray[0]: 7 is not a text"),
    (append("shared.stackTable.frame", 0), "shared.stackTable.frame: has 9 rows, and the table"),
    (put("shared.stackTable.length", 7), "shared.stackTable.length: is 7, and no column"),
    (leave_out("shared.sources.length"), "shared.sources.length: is missing"),
    (put("threads", {}), "threads: {} is not a list"),
    (put("threads.0", None), "threads[0]: null is not an object"),
    (put("threads.0.pid", 4711), "threads[0].pid: 4711 is not a text"),
    (put("threads.0.samples.weightType", "byte"), "threads[0].samples.weightType: 'byte' is not"),
    (put("threads.0.samples.weight.3", math.inf), "threads[0].samples.weight[3]: inf is not"),
    (put("threads.0.samples.time.1", math.nan), "threads[0].samples.time[1]: nan is not a time"),
    (put("threads.0.samples.time.0", -0.1), "threads[0].samples.time[0]: -0.1 is not a time"),
    (put("threads.0.samples.stack.0", 1.0), "threads[0].samples.stack[0]: 1.0 is not an index"),
    (put("threads.0.markers.phase.0", 4), "threads[0].markers.phase[0]: 4 is not 0 or 1"),
    (put("threads.0.markers.data.0", {}), "threads[0].markers.data[0]: {} is not an object with"),
    (put("threads.0.jsAllocations", {}), "threads[0].jsAllocations: is no field of version 63"),
    (leave_out("threads.0.nativeAllocations.weightType"), "threads[0].nativeAllocations.weightTyp"),
    (put("counters.0.display.graphType", "line"), "counters[0].display.graphType: 'line' is not"),
    (leave_out("counters.1.display.tooltipRows"), "counters[1].display.tooltipRows: is missing"),
]
"""A fault in a good file, and how the line begins that tells it."""

INDICES = [
    (put("meta.initialSelectedThreads.0", 2), "meta.initialSelectedThreads[0]: 2 leads nowhere"),
    (put("shared.stackTable.frame.0", 99), "shared.stackTable.frame[0]: 99 leads nowhere"),
    (put("shared.frameTable.func.1", 99), "shared.frameTable.func[1]: 99 leads nowhere"),
    (put("shared.frameTable.category.1", 9), "shared.frameTable.category[1]: 9 leads nowhere"),
    (put("shared.funcTable.name.0", 99), "shared.funcTable.name[0]: 99 leads nowhere"),
    (put("shared.funcTable.source.1", 2), "shared.funcTable.source[1]: 2 leads nowhere"),
    (put("shared.funcTable.resource.0", 4), "shared.funcTable.resource[0]: 4 leads nowhere"),
    (put("shared.resourceTable.lib.0", 0), "shared.resourceTable.lib[0]: 0 leads nowhere"),
    (put("shared.sources.filename.0", 99), "shared.sources.filename[0]: 99 leads nowhere"),
    (put("threads.1.samples.stack.1", 8), "threads[1].samples.stack[1]: 8 leads nowhere"),
    (put("threads.0.markers.name.0", 99), "threads[0].markers.name[0]: 99 leads nowhere"),
    (put("threads.0.markers.category.0", 9), "threads[0].markers.category[0]: 9 leads nowhere"),
    (put("counters.0.mainThreadIndex", 2), "counters[0].mainThreadIndex: there is no such thread"),
]

CONTRADICTIONS = [
    (put("meta.profilingEndTime", 0), "meta.profilingEndTime: is not after"),
    (put("threads.1.samples.time.1", 3.001), "threads[1].samples.time[1]: 3.001 is outside"),
    (put("meta.extra.0.entries.1.value", "4 KB"), "meta.extra[0].entries[1].value: '4 KB' is not"),
    (put("meta.categories.0.color", "blue"), "meta.categories: one is the default"),
    (put("meta.categories.1.color", "grey"), "meta.categories: one is the default"),
    (put("meta.categories.2.name", "Python"), "meta.categories: 2 have the name Python"),
    (
        put("meta.categories.1.subcategories.0", "All"),
        "meta.categories[1].subcategories: the first",
    ),
    (
        put("meta.markerSchema.0.tableLabel", "{marker.data.size}"),
        "meta.markerSchema[0].tableLabel",
    ),
    (put("meta.markerSchema.1.colorField", "hue"), "meta.markerSchema[1].colorField: there is no"),
    (put("shared.stackTable.prefix.1", 2), "shared.stackTable.prefix[1]: 2 is not before"),
    (put("shared.stackTable.prefix.1", 1), "shared.stackTable.prefix[1]: 1 is not before"),
    (put("shared.frameTable.subcategory.0", 1), "shared.frameTable.subcategory[0]: 1 is no"),
    (put("shared.frameTable.subcategory.0", None), "shared.frameTable.subcategory[0]: null is no"),
    (reverse("threads.0.samples.time"), "threads[0].samples.time[1]: 1.6 is before 2.5"),
    (put("threads.0.nativeAllocations.time.0", 1), "threads[0].nativeAllocations.time[1]: 0.2"),
    (reverse("counters.2.samples.time"), "counters[2].samples.time[1]: 1.1 is before 2.1"),
    (put("threads.1.tid", 0), "threads: 2 have the tid 0"),
    (put("threads.0.samples.weight", None), "threads[0].samples.weight: bytes have weights"),
    (put("threads.0.markers.startTime.3", 1), "threads[0].markers.startTime[3]: 1 is before 1.9"),
    (put("threads.0.markers.endTime.0", 0.5), "threads[0].markers.endTime[0]: 0.5 is before 0.9"),
    (put("threads.0.markers.endTime.0", None), "threads[0].markers.endTime[0]: null is before 0.9"),
    (put("threads.0.markers.data.0.type", "GC"), "threads[0].markers.data[0]: the type GC has no"),
    (put("threads.0.markers.data.0.bytes", 7), "threads[0].markers.data[0].bytes: is no field"),
    (put("threads.0.markers.data.0.arenas", "7"), "threads[0].markers.data[0].arenas: '7' is not"),
    (
        put("threads.0.markers.data.1.colour", "pink"),
        "threads[0].markers.data[1].colour: 'pink' is",
    ),
    (put("threads.0.nativeAllocations.weight.2", -1), "threads[0].nativeAllocations.weight[2]: -1"),
    (
        put("threads.0.nativeAllocations.memoryAddress.2", 0),
        "threads[0].nativeAllocations.weight[2",
    ),
    (put("counters.0.pid", "4712"), "counters[0].pid: 4712 is not that of its thread"),
    (put("counters.0.samples.count.0", 1), "counters[0].samples.count[0]: is 1, and the viewer"),
]


def test_some_of_what_is_known_may_be_missing(data: Json) -> None:
    del data["threads"][0]["nativeAllocations"]
    for schema in data["meta"]["markerSchema"]:
        del schema["colorField"], schema["fields"][-1]["hidden"]
    assert problems(data) == []


def test_a_good_file_has_no_problems(data: Json) -> None:
    assert problems(data) == []


@pytest.mark.parametrize("data", [None, [], "profile"])
def test_what_is_no_object_is_no_profile(data: Json) -> None:
    (problem,) = problems(data)
    assert problem.startswith("the file: ")


@pytest.mark.parametrize(
    ("fault", "told"),
    [pytest.param(*each, id=each[1]) for each in SHAPES + INDICES + CONTRADICTIONS],
)
def test_a_fault_is_told_once_and_where_it_is(fault: Fault, told: str, data: Json) -> None:
    fault(data)
    (problem,) = problems(data)
    assert problem.startswith(told)


def test_many_faults_in_a_column_are_one_line_that_counts_them(data: Json) -> None:
    data["threads"][0]["samples"]["time"] = [None] * 5
    assert problems(data) == [
        "threads[0].samples.time[0]: null is not a time of 0 ms or more (and 4 more)"
    ]


def test_a_schema_must_not_have_a_name_of_firefox_s_own(data: Json) -> None:
    markers = data["threads"][0]["markers"]["data"]
    data["meta"]["markerSchema"][0]["name"] = "GCMinor"
    for number in (0, 2):
        markers[number]["type"] = "GCMinor"
    assert problems(data) == ["meta.markerSchema[0].name: GCMinor is Firefox's own"]


def test_two_schemas_of_one_name_are_told_apart_by_nobody(data: Json) -> None:
    data["meta"]["markerSchema"].append(data["meta"]["markerSchema"][0])
    assert problems(data) == ["meta.markerSchema: 2 have the name MinorCollection"]


def test_a_profile_has_a_thread(data: Json) -> None:
    data["threads"] = data["counters"] = []
    data["meta"] |= {"initialVisibleThreads": [], "initialSelectedThreads": []}
    assert problems(data) == ["threads: there is none"]


def test_allocations_are_left_out_rather_than_empty(data: Json) -> None:
    """The viewer's time range became NaN."""
    table = data["threads"][0]["nativeAllocations"]
    columns: Json = {key: [] for key, column in table.items() if isinstance(column, list)}
    data["threads"][0]["nativeAllocations"] = table | columns | {"length": 0}
    (problem,) = problems(data)
    assert problem.startswith("threads[0].nativeAllocations: is empty")


def test_an_object_dies_once(data: Json) -> None:
    allocations = data["threads"][0]["nativeAllocations"]
    for column in allocations.values():
        if isinstance(column, list):
            column.append(column[-1])
    allocations["length"] += 1
    allocations["weight"][-1] = -4096
    assert problems(data) == []
    allocations["memoryAddress"][-1] = 1
    (problem,) = problems(data)
    assert problem.startswith("threads[0].nativeAllocations.weight[8]: -4096 at address 1")


def test_an_address_has_one_object_at_a_time(data: Json) -> None:
    data["threads"][0]["nativeAllocations"]["memoryAddress"][1] = 0
    (problem,) = problems(data)
    assert problem.startswith("threads[0].nativeAllocations.weight[1]: 8192 at address 0")
