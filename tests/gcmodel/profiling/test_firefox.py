"""What is in the file that the Firefox Profiler opens."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import attrs
import pytest
from firefox_check import problems

import gcmodel
from gcmodel.collector.heap import Heap
from gcmodel.profiling.firefox import processed, write
from gcmodel.profiling.firefox_look import CALLED_BACK, CATEGORY_OF_FILE
from gcmodel.profiling.profile import Fate, Frame, Phase, Profile, Stack, TimeSample

PERIOD_BYTES = 4096
ROOT = "gcbench", ""
GCBENCH = "gcbench", "/src/gcmodel/workloads/gcbench.py"
ALLOCATE = "Heap.allocate_node", "/src/gcmodel/collector/heap.py"
COLLECT = "MinorCollection.collect", "/src/gcmodel/collector/minor.py"
REPORT = "Sampler.report", "/src/gcmodel/sampling/sampler.py"
Json = Any
Place = tuple[str, str]
"""A function and its file."""
Read = Callable[[Profile], Json]
Change = Callable[[Profile], Profile]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Writes a profile and reads the file."""

    def written(profile: Profile) -> Json:
        write(profile, tmp_path / "profile.json")
        return json.loads((tmp_path / "profile.json").read_text())

    return written


@pytest.fixture
def data(profile: Profile, read: Read) -> Json:
    return read(profile)


def rows(table: Json) -> list[dict[str, Json]]:
    """The rows of a table of columns; what is no column is left out."""
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
        colour = outer[0][-1] if outer else "grey"  # As the viewer does it.
    return [(texts[func["name"]], file, frame["line"], colour), *outer]


def a_moment_in(profile: Profile, places: list[Place]) -> Profile:
    """A profile whose only stack is that of some places, the outermost first."""
    return attrs.evolve(
        profile,
        frames=[Frame(*place, 1, 2) for place in places],
        stacks=[Stack(number - 1 if number else None, number) for number in range(len(places))],
        samples=[],
        time_samples=[TimeSample(50, len(places) - 1)],
    )


def nothing(profile: Profile) -> Profile:
    return attrs.evolve(
        profile,
        frames=[],
        stacks=[],
        samples=[],
        time_samples=[],
        minor_collections=[],
        phases=[],
        ended_us=0,
    )


# The file.


@pytest.mark.parametrize(
    "made_less",
    [
        pytest.param(lambda profile: profile, id="whole"),
        pytest.param(lambda profile: attrs.evolve(profile, samples=[]), id="no samples"),
        pytest.param(lambda profile: attrs.evolve(profile, minor_collections=[]), id="no minors"),
        pytest.param(lambda profile: attrs.evolve(profile, time_samples=[]), id="no time"),
        pytest.param(nothing, id="nothing"),
    ],
)
def test_a_profile_of_any_kind_is_written_without_a_problem(
    made_less: Change, profile: Profile, read: Read
) -> None:
    assert problems(read(made_less(profile))) == []


def test_a_profile_can_be_checked_before_it_is_a_file(profile: Profile, data: Json) -> None:
    assert processed(profile) == data


def test_a_file_whose_name_says_so_is_compressed(profile: Profile, tmp_path: Path) -> None:
    write(profile, tmp_path / "profile.json")
    write(profile, tmp_path / "profile.json.gz")
    packed = (tmp_path / "profile.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "profile.json").read_bytes()


def test_the_period_and_whether_it_came_to_its_end_are_told(profile: Profile, read: Read) -> None:
    told = told_of(read(attrs.evolve(profile, is_complete=False)))
    assert (told["Sampling period"], told["Came to its end"]) == (PERIOD_BYTES, "no")


def test_an_object_that_was_sampled_twice_is_one_object_and_two_samples(data: Json) -> None:
    told = told_of(data)
    assert (told["Sampled objects"], told["Samples"]) == (5, 8)


def test_what_all_samples_stand_for_has_its_bounds(profile: Profile, read: Read) -> None:
    random = attrs.evolve(profile, header=attrs.evolve(profile.header, is_random=True))
    told = [told_of(read(each))["With 95% confidence"] for each in (profile, random)]
    assert told == ["no bounds: the distances are equal", "17,125 to 59,307 bytes"]


def told_of(data: Json) -> dict[str, Json]:
    (recording,) = data["meta"]["extra"]
    return {entry["label"]: entry["value"] for entry in recording["entries"]}


def test_the_viewer_s_title_names_the_program_and_it_knows_of_no_build(data: Json) -> None:
    assert data["meta"]["product"] == "gcfuzz: gcbench"
    assert "debug" not in data["meta"]


# Samples.


def test_the_weights_add_up_to_the_bytes_that_the_recorder_counted(
    profile: Profile, data: Json
) -> None:
    samples = data["threads"][0]["samples"]
    assert samples["weightType"] == "bytes"
    assert sum(samples["weight"]) == profile.weight_bytes == 8 * PERIOD_BYTES


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
def test_a_fate_is_a_colour_and_can_be_read(
    sample: int, name: str, colour: str, fate: str, data: Json
) -> None:
    stack = data["threads"][0]["samples"]["stack"][sample]
    assert frames_of(data, stack)[0] == (name, "", None, colour)
    shared = data["shared"]
    func = shared["frameTable"]["func"][shared["stackTable"]["frame"][stack]]
    resource = shared["resourceTable"]["name"][shared["funcTable"]["resource"][func]]
    assert shared["stringArray"][resource] == fate


def test_a_type_with_a_fate_is_one_function_wherever_it_is_allocated(data: Json) -> None:
    funcs = rows(data["shared"]["funcTable"])
    texts = data["shared"]["stringArray"]
    assert Counter(texts[func["name"]] for func in funcs)["node"] == 2


def test_what_allocates_is_a_function_with_the_line_at_which_it_does(data: Json) -> None:
    """The viewer shows a function's line in each row, and no frame's."""
    assert lines_of(data, "build") == [12, 14]


def test_what_only_calls_is_one_function_whatever_line_it_was_at(
    profile: Profile, read: Read
) -> None:
    assert lines_of(read(attrs.evolve(profile, samples=profile.samples[3:])), "build") == [10]


def lines_of(data: Json, function: str) -> list[int]:
    texts = data["shared"]["stringArray"]
    functions = rows(data["shared"]["funcTable"])
    return [each["lineNumber"] for each in functions if texts[each["name"]] == function]


def test_time_samples_have_a_thread_beside_the_allocations(data: Json) -> None:
    allocations, time = data["threads"]
    assert (allocations["name"], allocations["isMainThread"]) == ("Allocations", True)
    assert (time["name"], time["samples"]["weightType"]) == ("Time", "samples")
    assert time["samples"]["time"] == [0.05, 1.55]
    assert frames_of(data, time["samples"]["stack"][1])[0][0] == "name"
    assert data["meta"]["interval"] == 1.5


def test_without_time_samples_there_is_one_thread(profile: Profile, read: Read) -> None:
    assert len(read(attrs.evolve(profile, time_samples=[]))["threads"]) == 1


# What a frame belongs to.


@pytest.mark.parametrize(
    ("places", "colours"),
    [
        pytest.param([ROOT, ("main", "/me/server.py")], "yellow yellow", id="a script"),
        pytest.param([ROOT, ("main", "/me/heap.py")], "yellow yellow", id="a script named heap"),
        pytest.param([ROOT, ("[outer frames left out]", "")], "yellow yellow", id="no file"),
        pytest.param([ROOT, GCBENCH, ALLOCATE], "yellow yellow blue", id="the heap"),
        pytest.param(
            [ROOT, GCBENCH, ALLOCATE, ("Nursery.allocate", "/src/gcmodel/memory/nursery.py")],
            "yellow yellow blue blue",
            id="a helper of the heap",
        ),
        pytest.param(
            [ROOT, ALLOCATE, COLLECT, ("_first", "/src/gcmodel/collector/arenas.py")],
            "yellow blue orange orange",
            id="a minor collection",
        ),
        pytest.param(
            [ROOT, ALLOCATE, ("MajorCollection.step", "/src/gcmodel/collector/major.py")],
            "yellow blue orange",
            id="a major collection",
        ),
        pytest.param(
            [ROOT, ALLOCATE, COLLECT, ("Heap.place_old", "/src/gcmodel/collector/heap.py")],
            "yellow blue orange orange",
            id="the heap called by the collector",
        ),
        pytest.param(
            [
                ROOT,
                ALLOCATE,
                COLLECT,
                REPORT,
                ("Heap.statistics", "/src/gcmodel/collector/heap.py"),
            ],
            "yellow blue orange purple purple",
            id="the heap called by the sampler",
        ),
        pytest.param(
            [ROOT, COLLECT, ("Heap.memory_used_bytes", "/src/gcmodel/collector/heap.py")],
            "yellow orange orange",
            id="a figure of the heap's asked by the collector",
        ),
        pytest.param(
            [ROOT, ALLOCATE, ("Sampling.set_limit", "/src/gcmodel/sampling/sample_point.py")],
            "yellow blue purple",
            id="the sampler",
        ),
        pytest.param(
            [ROOT, COLLECT, ("Recorder._line", "/src/gcmodel/profiling/recorder.py"), ("x", "/x")],
            "yellow orange purple purple",
            id="the recorder and a library",
        ),
        pytest.param([GCBENCH, ALLOCATE], "yellow blue", id="a program without a root"),
        pytest.param([ALLOCATE, COLLECT], "blue orange", id="a heap without a program"),
        pytest.param(
            [("x", "/src/gcmodel/collector/arenas.py")], "yellow", id="a helper without a caller"
        ),
    ],
)
def test_time_is_the_program_s_the_heap_s_the_collector_s_or_the_sampler_s(
    places: list[Place], colours: str, profile: Profile, read: Read
) -> None:
    data = read(a_moment_in(profile, places))
    (stack,) = data["threads"][1]["samples"]["stack"]
    assert [colour for *_, colour in reversed(frames_of(data, stack))] == colours.split()
    assert problems(data) == []


def test_what_the_categories_are_told_by_is_there() -> None:
    source = Path(gcmodel.__file__).parents[1]
    assert [pattern for pattern in CATEGORY_OF_FILE if not [*source.glob(pattern)]] == []
    assert {function.__qualname__ for function in vars(Heap).values() if callable(function)} > (
        CALLED_BACK
    )


# Allocations as the viewer's other views want them.


def test_what_died_young_is_not_retained(profile: Profile, data: Json) -> None:
    allocations = rows(data["threads"][0]["nativeAllocations"])
    retained: Counter[int] = Counter()
    for row in allocations:
        retained[row["memoryAddress"]] += row["weight"]
    left = [sample.weight_bytes for sample in profile.samples if sample.fate != Fate.DIED_YOUNG]
    assert [weight for weight in retained.values() if weight] == left


def test_an_object_dies_when_its_fate_is_known(data: Json) -> None:
    allocations = rows(data["threads"][0]["nativeAllocations"])
    deaths = [(row["time"], row["weight"]) for row in allocations if row["weight"] < 0]
    assert deaths == [(1.0, -2 * PERIOD_BYTES), (2.0, -PERIOD_BYTES), (2.0, -3 * PERIOD_BYTES)]


def test_an_object_may_die_in_the_microsecond_of_its_birth(profile: Profile, read: Read) -> None:
    born_late = attrs.evolve(profile.samples[3], at_us=2000)
    data = read(attrs.evolve(profile, samples=[*profile.samples[:3], born_late]))
    assert problems(data) == []


def test_the_samples_are_not_repeated_as_allocations_of_javascript(data: Json) -> None:
    """The viewer would offer the same totals under a second name."""
    assert "nativeAllocations" in data["threads"][0]
    assert "jsAllocations" not in data["threads"][0]


# Collections and memory.


def test_a_minor_collection_is_a_mark_with_the_memory_after_it(data: Json) -> None:
    markers = rows(data["threads"][0]["markers"])
    first = markers[0]
    assert data["shared"]["stringArray"][first["name"]] == "minor collection"
    assert (first["startTime"], first["endTime"], first["phase"]) == (0.9, 1.1, 1)
    figures = {"memoryUsed": 1000, "arenas": 4096, "resident": 50_000}
    assert first["data"] == {"type": "MinorCollection", "colour": "grey", **figures}
    assert schema_of(data, first)["chartLabel"] == "{marker.data.memoryUsed}"


def test_a_phase_is_a_span_with_its_steps_and_the_time_that_they_took(data: Json) -> None:
    marking = rows(data["threads"][0]["markers"])[1]
    assert (marking["startTime"], marking["endTime"]) == (1.2, 2.3)
    assert marking["data"]["phase"] == "marking"
    assert (marking["data"]["steps"], marking["data"]["collecting"]) == (2, 0.15)
    assert schema_of(data, marking)["chartLabel"] == "{marker.data.phase}"


def test_phases_are_orange_above_the_allocations(data: Json) -> None:
    """The viewer paints marks by their names, then by their types; it knows one, not the other."""
    _, marking, _, sweeping = rows(data["threads"][0]["markers"])
    assert marking["data"]["type"] == sweeping["data"]["type"] == "GC Interrupt"
    assert marking["name"] == sweeping["name"]


def test_each_phase_has_a_colour_of_its_own_in_the_marker_chart(
    profile: Profile, read: Read
) -> None:
    names = ["scanning", "marking", "sweeping", "finalizing", "a phase of another collector"]
    phases = [Phase(name, 10, 20, 1, 5) for name in names]
    data = read(attrs.evolve(profile, phases=phases, minor_collections=[]))
    markers = rows(data["threads"][0]["markers"])
    assert len({marker["data"]["colour"] for marker in markers}) == len(names)
    assert problems(data) == []


def test_colours_are_for_painting_and_not_shown(data: Json) -> None:
    for schema in data["meta"]["markerSchema"]:
        hidden = [field["key"] for field in schema["fields"] if field.get("hidden")]
        assert hidden == [schema["colorField"]]


def test_there_are_no_marks_above_the_memory(data: Json) -> None:
    """As in the paper's figure 1: they would cover the curves."""
    assert {track["display"]["markerSchemaLocation"] for track in data["counters"]} == {None}
    places = [schema["display"] for schema in data["meta"]["markerSchema"]]
    assert places == [["marker-chart", "marker-table", "timeline-overview"]] * 2


def schema_of(data: Json, marker: Json) -> Json:
    schemas = {schema["name"]: schema for schema in data["meta"]["markerSchema"]}
    return schemas[marker["data"]["type"]]


def test_marks_and_spans_come_in_the_order_of_time(data: Json) -> None:
    texts = data["shared"]["stringArray"]
    assert [texts[row["name"]] for row in rows(data["threads"][0]["markers"])] == [
        "minor collection",
        "major collection",
        "minor collection",
        "major collection",
    ]


@pytest.mark.parametrize(
    ("name", "values_bytes"),
    [
        ("total_size_of_arenas", [0, 4096, 8192]),
        ("total_memory_used", [0, 1000, 700]),
        ("vmRSS", [0, 50_000, 60_000]),
    ],
)
def test_a_memory_track_adds_up_to_the_memory_after_each_collection(
    name: str, values_bytes: list[int], data: Json
) -> None:
    (track,) = (each for each in data["counters"] if each["name"] == name)
    assert list(accumulate(track["samples"]["count"])) == values_bytes
    # It rises at once where the first value is known, and does not climb from an earlier moment.
    assert track["samples"]["time"] == [1.1, 1.1, 2.1]


def test_a_memory_track_s_tooltip_says_whose_bytes_they_are(data: Json) -> None:
    for track in data["counters"]:
        labels = {row["source"]: row["label"] for row in track["display"]["tooltipRows"]}
        assert list(labels) == ["accumulated", "count", "count-range"]
        assert track["name"] in labels["accumulated"]


def test_without_minor_collections_there_are_no_memory_tracks(profile: Profile, read: Read) -> None:
    assert read(attrs.evolve(profile, minor_collections=[]))["counters"] == []
