"""The checker of the Firefox Profiler's format finds each fault in an otherwise valid file."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from firefox_check import check

from gcmodel.profiling.firefox import write
from gcmodel.profiling.profile import Profile

Json = Any


@pytest.fixture
def data(profile: Profile, tmp_path: Path) -> Json:
    write(profile, tmp_path / "profile.json")
    return json.loads((tmp_path / "profile.json").read_text())


def put(data: Json, path: str, value: object) -> None:
    """Replace the value at a path of names and rows."""
    *outer, last = (int(name) if name.isdigit() else name for name in path.split("."))
    for name in outer:
        data = data[name]
    data[last] = value


def test_a_valid_file_passes(data: Json) -> None:
    check(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        # Shapes.
        ("libs", [1], "libs"),
        ("meta.interval", 0, r"meta\.interval: 0"),
        ("meta.preprocessedProfileVersion", 62, r"meta\.preprocessedProfileVersion: 62"),
        ("meta.stackwalk", True, r"meta\.stackwalk: True"),
        ("meta.colour", "red", "'colour'} is unknown"),
        ("meta.categories.1.color", "pink", r"categories\[1\]\.color: 'pink'"),
        ("meta.markerSchema.0.fields.0.format", "byte", r"fields\[0\]\.format: 'byte'"),
        ("shared.frameTable.column", 1, r"frameTable\.column: 1"),
        ("shared.funcTable.isJS.2", None, r"isJS\[2\]: None"),
        ("shared.stackTable.length", 7, "rows"),
        ("threads.0", None, r"threads\[0\]: None"),
        ("threads.0.samples.time.1", math.nan, r"time\[1\]: nan"),
        ("threads.0.samples.stack.0", 1.0, r"stack\[0\]: 1\.0"),
        ("threads.0.samples.weight", [1], "weight: rows"),
        ("threads.0.samples.weight.3", math.inf, "weight: not numbers"),
        ("threads.0.markers.data.0", {}, "'type'} is missing"),
        ("counters.0.display.graphType", "line", r"graphType: 'line'"),
        # Indices.
        ("meta.initialSelectedThreads.0", 2, "initialSelectedThreads.* is not an index"),
        ("shared.stackTable.frame.0", 99, "frame.* is not an index"),
        ("shared.funcTable.source.1", 2, "source.* is not an index"),
        ("threads.1.samples.stack.1", 8, "stack.* is not an index"),
        # Contradictions.
        ("meta.profilingEndTime", 0, "profilingEndTime"),
        ("meta.extra.0.entries.1.value", "4 KB", "extra"),
        ("meta.categories.0.color", "blue", "the default"),
        ("meta.categories.2.name", "Python", "categories: two have one name"),
        ("meta.markerSchema.0.tableLabel", "{marker.data.size}", "no field {'size'}"),
        ("meta.markerSchema.0.name", "GCMinor", "Firefox's own name"),
        ("shared.stackTable.prefix.1", 1, "prefix: too late"),
        ("threads.0.samples.time.0", 2, "are not in order"),
        ("threads.1.samples.time.1", 3.001, "outside of the range"),
        ("threads.1.tid", 0, "two of one tid"),
        ("threads.0.markers.endTime.0", 0.5, "endTime: before the start"),
        ("threads.0.markers.data.0.type", "GC", "data"),
        ("threads.0.markers.data.0.arenas", "7", "data"),
        ("threads.0.markers.data.1.colour", "pink", "data"),
        ("threads.0.nativeAllocations.weight.2", -1, "weight: -1"),
        ("threads.0.nativeAllocations.memoryAddress.1", 0, "weight: 8192"),
        ("counters.0.pid", "4712", "pid"),
        ("counters.0.samples.count.0", 1, "takes the first one for 0"),
    ],
)
def test_a_fault_is_found(path: str, value: object, message: str, data: Json) -> None:
    put(data, path, value)
    with pytest.raises(AssertionError, match=message):
        check(data)


def test_an_object_dies_once(data: Json) -> None:
    allocations = data["threads"][0]["nativeAllocations"]
    for name, column in allocations.items():
        if isinstance(column, list):
            column.append(-8192 if name == "weight" else column[-1])
    allocations["length"] += 1
    allocations["memoryAddress"][-1] = 1
    with pytest.raises(AssertionError, match="weight: -8192"):
        check(data)
