"""The content of the file that the Firefox Profiler opens."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import attrs
import pytest
from firefox_check import check

import gcmodel
from gcmodel.collector.heap import Heap
from gcmodel.profiling.firefox import processed, write
from gcmodel.profiling.firefox_look import CALLED_BACK, CATEGORY_OF_FILE
from gcmodel.profiling.profile import Fate, Frame, Profile, Stack, StateMark, TimeSample

PERIOD_BYTES = 4096
Json = Any
Read = Callable[[Profile], Json]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Writes a profile, and reads and checks the file."""

    def written(profile: Profile) -> Json:
        write(profile, tmp_path / "profile.json")
        data = json.loads((tmp_path / "profile.json").read_text())
        check(data)
        return data

    return written


@pytest.fixture
def data(profile: Profile, read: Read) -> Json:
    return read(profile)


def rows(table: Json) -> list[dict[str, Json]]:
    """The rows of a table of columns."""
    columns = {name: column for name, column in table.items() if isinstance(column, list)}
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def frames_of(data: Json, stack: int) -> list[tuple[str, str, int | None, str]]:
    """Name, file, line and category's colour of each frame of a stack, the innermost first."""
    shared, texts = data["shared"], data["shared"]["stringArray"]
    frame = rows(shared["frameTable"])[shared["stackTable"]["frame"][stack]]
    func = rows(shared["funcTable"])[frame["func"]]
    file = "" if func["source"] is None else texts[shared["sources"]["filename"][func["source"]]]
    caller = shared["stackTable"]["prefix"][stack]
    outer = [] if caller is None else frames_of(data, caller)
    if frame["category"] is not None:
        colour = data["meta"]["categories"][frame["category"]]["color"]
    else:
        colour = outer[0][-1] if outer else "grey"  # As in the viewer.
    return [(texts[func["name"]], file, frame["line"], colour), *outer]


# The file.


@pytest.mark.parametrize(
    "empty",
    [
        ("samples",),
        ("minor_collections",),
        ("time_samples",),
        ("frames", "stacks", "samples", "time_samples", "minor_collections", "states"),
    ],
)
def test_a_partial_profile_is_valid(empty: tuple[str, ...], profile: Profile, read: Read) -> None:
    without: dict[str, Any] = {name: [] for name in empty}
    read(attrs.evolve(profile, **without))


def test_the_file_is_the_processed_profile(profile: Profile, data: Json) -> None:
    assert processed(profile) == data


def test_a_file_named_gz_is_compressed(profile: Profile, tmp_path: Path) -> None:
    write(profile, tmp_path / "profile.json")
    write(profile, tmp_path / "profile.json.gz")
    packed = (tmp_path / "profile.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "profile.json").read_bytes()


def entries_of(data: Json) -> dict[str, Json]:
    (recording,) = data["meta"]["extra"]
    return {entry["label"]: entry["value"] for entry in recording["entries"]}


def test_the_metadata_describes_the_recording(profile: Profile, read: Read) -> None:
    entries = entries_of(read(attrs.evolve(profile, is_complete=False)))
    assert (entries["Sampling period"], entries["Complete"]) == (PERIOD_BYTES, "no")
    # An object that was sampled twice is one object and two samples.
    assert (entries["Sampled objects"], entries["Samples"]) == (5, 8)


@pytest.mark.parametrize(
    ("is_random", "bounds"),
    [(False, "no bounds: the distances are equal"), (True, "17,125 to 59,307 bytes")],
)
def test_the_metadata_has_the_bounds_of_all_samples(
    is_random: bool, bounds: str, profile: Profile, read: Read
) -> None:
    header = attrs.evolve(profile.header, is_random=is_random)
    data = read(attrs.evolve(profile, header=header))
    assert entries_of(data)["With 95% confidence"] == bounds


def test_the_title_has_the_program_and_no_build(data: Json) -> None:
    assert data["meta"]["product"] == "gcfuzz: gcbench"
    assert "debug" not in data["meta"]


# Samples.


def test_the_weights_add_up_to_the_recorder_s_bytes(profile: Profile, data: Json) -> None:
    weights = data["threads"][0]["samples"]["weight"]
    assert sum(weights) == profile.weight_bytes == 8 * PERIOD_BYTES


def test_a_sample_is_its_stack_with_the_type_on_top(data: Json) -> None:
    assert frames_of(data, data["threads"][0]["samples"]["stack"][3]) == [
        ("string", "", None, "green"),
        ("name", "names.py", 4, "yellow"),
        ("build", "tree.py", 12, "yellow"),
        ("gcbench", "", None, "yellow"),
    ]


@pytest.mark.parametrize(
    ("sample", "name", "colour", "fate"),
    [
        (0, "node", "red", "survived"),
        (1, "node", "green", "died young"),
        (4, "unknown type", "lightblue", "fate not known yet"),
    ],
)
def test_a_fate_has_a_colour_and_a_name(
    sample: int, name: str, colour: str, fate: str, data: Json
) -> None:
    stack = data["threads"][0]["samples"]["stack"][sample]
    assert frames_of(data, stack)[0] == (name, "", None, colour)
    shared = data["shared"]
    func = shared["frameTable"]["func"][shared["stackTable"]["frame"][stack]]
    resource = shared["resourceTable"]["name"][shared["funcTable"]["resource"][func]]
    assert shared["stringArray"][resource] == fate


def lines_of(data: Json, function: str) -> list[int]:
    texts, functions = data["shared"]["stringArray"], rows(data["shared"]["funcTable"])
    return [each["lineNumber"] for each in functions if texts[each["name"]] == function]


def test_a_type_with_a_fate_is_one_function(data: Json) -> None:
    assert len(lines_of(data, "node")) == 2


def test_an_allocating_function_is_listed_with_each_line(profile: Profile, read: Read) -> None:
    """The viewer shows a function's line in each row, and no frame's."""
    assert lines_of(read(profile), "build") == [12, 14]
    only_calls = attrs.evolve(profile, samples=profile.samples[3:])
    assert lines_of(read(only_calls), "build") == [10]


def test_time_samples_have_a_thread_of_their_own(profile: Profile, read: Read) -> None:
    data = read(profile)
    allocations, time = data["threads"]
    assert (allocations["name"], allocations["isMainThread"]) == ("Allocations", True)
    assert (time["name"], time["samples"]["weightType"]) == ("Time", "samples")
    assert time["samples"]["time"] == [0.05, 1.55]
    assert frames_of(data, time["samples"]["stack"][1])[0][0] == "name"
    assert data["meta"]["interval"] == 1.5
    assert len(read(attrs.evolve(profile, time_samples=[]))["threads"]) == 1


# The category of a frame. A file's path is given without its start, and "" is no file.

HEAP, MINOR, SAMPLER = "collector/heap.py", "collector/minor.py", "sampling/sampler.py"


@pytest.mark.parametrize(
    ("frames", "colours"),
    [
        pytest.param("root: main:/me/server.py", "yellow yellow", id="a script"),
        pytest.param("root: main:/me/heap.py", "yellow yellow", id="a script named heap"),
        pytest.param("root: f:workloads/x.py g:" + HEAP, "yellow yellow blue", id="the heap"),
        pytest.param(f"root: g:{HEAP} h:memory/x.py", "yellow blue blue", id="a helper"),
        pytest.param(f"root: g:{MINOR} h:collector/x.py", "yellow orange orange", id="minor"),
        pytest.param("root: g:collector/major.py", "yellow orange", id="major"),
        pytest.param(f"root: g:{MINOR} Heap.place_old:{HEAP}", "yellow orange orange", id="back"),
        pytest.param(
            f"root: g:{MINOR} h:{SAMPLER} Heap.statistics:{HEAP}",
            "yellow orange purple purple",
            id="the heap called by the sampler",
        ),
        pytest.param("root: g:sampling/sample_point.py", "yellow purple", id="the sampler"),
        pytest.param("root: g:profiling/x.py h:/x", "yellow purple purple", id="the recorder"),
        pytest.param(f"f:workloads/x.py g:{HEAP}", "yellow blue", id="no root"),
        pytest.param(f"g:{HEAP} h:{MINOR}", "blue orange", id="no program"),
        pytest.param("h:collector/arenas.py", "yellow", id="a helper without a caller"),
    ],
)
def test_time_belongs_to_the_program_the_heap_the_collector_or_the_sampler(
    frames: str, colours: str, profile: Profile, read: Read
) -> None:
    places = [each.partition(":") for each in frames.split()]
    files = [file if file[:1] in {"", "/"} else f"/src/gcmodel/{file}" for _, _, file in places]
    data = read(
        attrs.evolve(
            profile,
            frames=[Frame(each[0], file, 1, 2) for each, file in zip(places, files, strict=True)],
            stacks=[Stack(row - 1 if row else None, row) for row in range(len(places))],
            samples=[],
            time_samples=[TimeSample(50, len(places) - 1)],
        )
    )
    (stack,) = data["threads"][1]["samples"]["stack"]
    assert [colour for *_, colour in reversed(frames_of(data, stack))] == colours.split()


def test_the_files_and_methods_that_define_categories_exist() -> None:
    source = Path(gcmodel.__file__).parents[1]
    assert [pattern for pattern in CATEGORY_OF_FILE if not [*source.glob(pattern)]] == []
    methods = {function.__qualname__ for function in vars(Heap).values() if callable(function)}
    assert methods > CALLED_BACK


# Allocations and deallocations.


def test_only_what_is_not_dead_is_retained(profile: Profile, data: Json) -> None:
    retained: Counter[int] = Counter()
    for row in rows(data["threads"][0]["nativeAllocations"]):
        retained[row["memoryAddress"]] += row["weight"]
    left = [sample.weight_bytes for sample in profile.samples if sample.fate != Fate.DIED_YOUNG]
    assert [weight for weight in retained.values() if weight] == left


def test_an_object_dies_when_its_fate_is_known(data: Json) -> None:
    allocations = rows(data["threads"][0]["nativeAllocations"])
    deaths = [(row["time"], row["weight"]) for row in allocations if row["weight"] < 0]
    assert deaths == [(1.0, -2 * PERIOD_BYTES), (2.0, -PERIOD_BYTES), (2.0, -3 * PERIOD_BYTES)]


def test_an_object_may_die_in_the_microsecond_of_its_birth(profile: Profile, read: Read) -> None:
    born_late = attrs.evolve(profile.samples[3], at_us=2000)
    read(attrs.evolve(profile, samples=[*profile.samples[:3], born_late]))


# Collections and memory.


def test_collections_are_marks_in_the_order_of_time(data: Json) -> None:
    texts, markers = data["shared"]["stringArray"], rows(data["threads"][0]["markers"])
    names = [texts[row["name"]] for row in markers]
    assert names == ["minor collection", "major collection"] * 2
    minor, marking, _, sweeping = markers
    assert (minor["startTime"], minor["endTime"], minor["phase"]) == (0.9, 1.1, 1)
    figures: Json = {"memoryUsed": 1000, "arenas": 4096, "resident": 50_000}
    assert minor["data"] == {"type": "MinorCollection", "colour": "grey", **figures}
    assert (marking["startTime"], marking["endTime"]) == (1.2, 2.3)
    figures = {"phase": "marking", "steps": 2, "collecting": 0.15}
    # The viewer draws markers of this type in orange.
    assert marking["data"] == {"type": "GC Interrupt", "colour": "orange", **figures}
    assert sweeping["data"]["type"] == "GC Interrupt"


def test_each_phase_has_a_colour_of_its_own(profile: Profile, read: Read) -> None:
    names = ["scanning", "marking", "sweeping", "finalizing"]
    states = [StateMark(name, 10, 20, 1, 5) for name in names]
    data = read(attrs.evolve(profile, states=states, minor_collections=[]))
    markers = rows(data["threads"][0]["markers"])
    assert len({marker["data"]["colour"] for marker in markers}) == len(names)


def test_marks_are_labelled_and_not_above_the_memory(data: Json) -> None:
    """In the paper's figure 1 no marks cover the curves."""
    minor, major = data["meta"]["markerSchema"]
    assert minor["chartLabel"] == "{marker.data.memoryUsed}"
    assert major["chartLabel"] == "{marker.data.phase}"
    for schema in (minor, major):
        assert schema["display"] == ["marker-chart", "marker-table", "timeline-overview"]
        hidden = [field["key"] for field in schema["fields"] if field.get("hidden")]
        assert hidden == [schema["colorField"]]
    assert {track["display"]["markerSchemaLocation"] for track in data["counters"]} == {None}


@pytest.mark.parametrize(
    ("number", "name", "values_bytes"),
    [
        (0, "total_size_of_arenas", [0, 4096, 8192]),
        (1, "total_memory_used", [0, 1000, 700]),
        (2, "vmRSS", [0, 50_000, 60_000]),
    ],
)
def test_a_memory_track_has_the_memory_after_each_collection(
    number: int, name: str, values_bytes: list[int], data: Json
) -> None:
    track = data["counters"][number]
    assert list(accumulate(track["samples"]["count"])) == values_bytes
    # It starts at the first known value, and does not climb from an earlier moment.
    assert track["samples"]["time"] == [1.1, 1.1, 2.1]
    labels = {row["source"]: row["label"] for row in track["display"]["tooltipRows"]}
    assert list(labels) == ["accumulated", "count", "count-range"]
    assert name in labels["accumulated"]


def test_without_minor_collections_there_are_no_memory_tracks(profile: Profile, read: Read) -> None:
    assert read(attrs.evolve(profile, minor_collections=[]))["counters"] == []
