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

from gcmodel.profiling.firefox import processed, write
from gcmodel.profiling.firefox_check import problems
from gcmodel.profiling.profile import Fate, Profile

PERIOD_BYTES = 4096
Json = Any
Read = Callable[[Profile], Json]
Change = Callable[[Profile], Profile]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Writes a profile and reads the file."""

    def written(profile: Profile) -> Json:
        write(processed(profile), tmp_path / "profile.json")
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
    shared, texts, found = data["shared"], data["shared"]["stringArray"], []
    number: int | None = stack
    while number is not None:
        frame = rows(shared["frameTable"])[shared["stackTable"]["frame"][number]]
        func = rows(shared["funcTable"])[frame["func"]]
        file = "" if func["source"] is None else shared["sources"]["filename"][func["source"]]
        found.append(
            (
                texts[func["name"]],
                file and texts[file],
                frame["line"],
                data["meta"]["categories"][frame["category"]]["color"],
            )
        )
        number = shared["stackTable"]["prefix"][number]
    return found


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
    write(processed(profile), tmp_path / "profile.json")
    write(processed(profile), tmp_path / "profile.json.gz")
    packed = (tmp_path / "profile.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "profile.json").read_bytes()


def test_the_period_and_whether_it_came_to_its_end_are_told(profile: Profile, read: Read) -> None:
    (recording,) = read(attrs.evolve(profile, is_complete=False))["meta"]["extra"]
    told = {entry["label"]: entry["value"] for entry in recording["entries"]}
    assert (told["Sampling period"], told["Came to its end"]) == (PERIOD_BYTES, "no")


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
        ("name", "/src/names.py", 4, "yellow"),
        ("build", "/src/tree.py", 12, "yellow"),
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


def test_a_function_is_one_whatever_line_it_was_at(data: Json) -> None:
    texts = data["shared"]["stringArray"]
    (build,) = (
        func for func in rows(data["shared"]["funcTable"]) if texts[func["name"]] == "build"
    )
    assert build["lineNumber"] == 10


def test_time_samples_have_a_thread_beside_the_allocations(data: Json) -> None:
    allocations, time = data["threads"]
    assert (allocations["name"], allocations["isMainThread"]) == ("Allocations", True)
    assert (time["name"], time["samples"]["weightType"]) == ("Time", "samples")
    assert time["samples"]["time"] == [0.05, 1.55]
    assert frames_of(data, time["samples"]["stack"][1])[0][0] == "name"
    assert data["meta"]["interval"] == 1.5


def test_without_time_samples_there_is_one_thread(profile: Profile, read: Read) -> None:
    assert len(read(attrs.evolve(profile, time_samples=[]))["threads"]) == 1


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


def test_an_allocation_has_its_type_and_its_place(data: Json) -> None:
    allocations = rows(data["threads"][0]["jsAllocations"])
    assert [(row["className"], row["inNursery"]) for row in allocations[2:]] == [
        ("node", True),
        ("string", False),
        ("unknown type", True),
    ]


# Collections and memory.


def test_a_minor_collection_is_a_mark_with_the_memory_after_it(data: Json) -> None:
    markers = rows(data["threads"][0]["markers"])
    first = markers[0]
    assert data["shared"]["stringArray"][first["name"]] == "minor collection"
    assert (first["startTime"], first["endTime"], first["phase"]) == (0.9, 1.1, 1)
    figures = {key: value for key, value in first["data"].items() if key != "type"}
    assert figures == {"memoryUsed": 1000, "arenas": 4096, "resident": 50_000}


def test_a_phase_is_a_span_with_its_steps_and_the_time_that_they_took(data: Json) -> None:
    marking = rows(data["threads"][0]["markers"])[1]
    assert data["shared"]["stringArray"][marking["name"]] == "major: marking"
    assert (marking["startTime"], marking["endTime"]) == (1.2, 2.3)
    assert (marking["data"]["steps"], marking["data"]["collecting"]) == (2, 0.15)


def test_marks_and_spans_come_in_the_order_of_time(data: Json) -> None:
    texts = data["shared"]["stringArray"]
    assert [texts[row["name"]] for row in rows(data["threads"][0]["markers"])] == [
        "minor collection",
        "major: marking",
        "minor collection",
        "major: sweeping",
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
    assert track["samples"]["time"] == [0.9, 1.1, 2.1]


def test_without_minor_collections_there_are_no_memory_tracks(profile: Profile, read: Read) -> None:
    assert read(attrs.evolve(profile, minor_collections=[]))["counters"] == []
