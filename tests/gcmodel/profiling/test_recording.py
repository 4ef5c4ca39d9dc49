"""The raw recording: what is written is read, and what is broken is named with its line."""

import json
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from gcmodel import Heap
from gcmodel.memory.errors import RecordingError
from gcmodel.profiling.profile import Fate, Profile, ProfileHeader, ProfileSample
from gcmodel.profiling.recording import RecordingWriter, is_recording, read

Recorded = Callable[..., Profile]


def allocate(heap: Heap) -> None:
    for number in range(100):
        heap.allocate_node(number)
        heap.allocate_string(number)
        heap.free(0)
    heap.collect_full()


@pytest.fixture
def header(profile: Profile) -> ProfileHeader:
    return profile.header


@pytest.fixture
def path(recorded: Recorded, tmp_path: Path) -> Path:
    """A whole recording."""
    recorded(allocate, 64)
    return tmp_path / "recording.jsonl"


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_a_whole_recording_is_complete_and_ends_with_its_last_moment(path: Path) -> None:
    profile = read(path)
    assert (profile.is_complete, profile.ended_us) == (True, json.loads(lines_of(path)[-1])[1])


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8, 0.999])
def test_a_recording_that_was_cut_off_anywhere_can_be_read(path: Path, share: float) -> None:
    whole = read(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    part = read(path)
    assert not part.is_complete
    assert len(part.samples) <= len(whole.samples)
    judged = [each for each in part.samples if each.fate is not Fate.UNKNOWN]
    assert judged == whole.samples[: len(judged)]


def test_a_header_alone_is_an_empty_profile(header: ProfileHeader, tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "empty", header, 10_000):
        pass
    assert read(tmp_path / "empty") == Profile(header=header)


def test_a_recording_is_known_by_its_beginning(path: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text('{"gcfuzz": 2, "target": "reference"}\n')
    assert is_recording(path)
    assert not is_recording(tmp_path / "trace.jsonl")


# Weights.


def read_samples(path: Path, header: ProfileHeader, lines: list[str]) -> list[ProfileSample]:
    with RecordingWriter(path, attrs.evolve(header, is_random=True), 10**9) as writer:
        for line in ['["frame", "", "", 0, 0]', '["stack", null, 0]', *lines]:
            writer.line(line)
    return read(path).samples


def test_with_random_distances_a_sample_stands_for_its_size_divided_by_its_chance(
    header: ProfileHeader, tmp_path: Path
) -> None:
    # The large one was certain to be sampled, and its number of hits does not matter.
    lines = ['["sample", 0, 0, 9, 64, 8000]', '["sample", 0, 0, 1, 64, 32]']
    large, small = read_samples(tmp_path / "recording", header, lines)
    assert large.weight_bytes == 8000
    assert small.weight_bytes in (80, 81)  # 32 / (1 - (63/64)^32) = 80.9


@pytest.mark.parametrize("every", [1, 2, 3, 10])
def test_rounding_changes_no_sum(header: ProfileHeader, tmp_path: Path, every: int) -> None:
    lines = ['["sample", 0, 0, 1, 8, 32]'] * 10_000
    samples = read_samples(tmp_path / "recording", header, lines)[::every]
    exact = len(samples) * 32 / (1 - (7 / 8) ** 32)
    assert sum(each.weight_bytes for each in samples) == pytest.approx(exact, abs=4)


# Broken recordings.


RIGHT = {
    "gcfuzz_profile": 1,
    "program": "",
    "period_bytes": 8,
    "is_random": False,
    "time_period_us": 1000,
    "began_unix_ms": 0,
    "pid": 1,
    "python": "",
    "nursery_bytes": 256,
    "types": [],
}


def header_with(**fields: object) -> str:
    return json.dumps(RIGHT | fields)


BROKEN = {
    "no header": (0, "", "begins with a header line"),
    "other bytes": (0, "\x00\xff", "begins with a header line"),
    "another version": (0, '{"gcfuzz_profile": 2}', "version 2 is unknown"),
    "no fields": (0, '{"gcfuzz_profile": 1}', "header is wrong"),
    "no period": (0, header_with(period_bytes=0), "'period_bytes' must be >= 1: 0"),
    "no time": (0, header_with(time_period_us=0), "'time_period_us' must be >= 1: 0"),
    "a huge date": (0, header_with(began_unix_ms=10**400), "'began_unix_ms' must be < 45"),
    "a text for a period": (0, header_with(period_bytes="x"), "invalid literal"),
    "a deep header": (0, '{"gcfuzz_profile": ' + "[" * 20_000, "recursion"),
    "no JSON": (9, "[", "not a line of JSON: Expecting value in column 2"),
    "no list": (9, '{"sample": 1}', "not a line of a recording"),
    "unknown name": (9, '["sampel", 1, 0, 1, 64, 32]', "not a line of a recording"),
    "too few": (9, '["sample", 1, 0, 1, 64]', "not a line of a recording"),
    "a text for a number": (9, '["sample", 1, 0, 1, "64", 32]', "not a line of a recording"),
    "an unknown stack": (-1, '["time", 99999999, 77]', "no stack 77"),
    "a negative stack": (-1, '["time", 99999999, -1]', "-1 is not a number from 0"),
    "a truth": (-1, '["sample", 99999999, 0, true, 64, 32]', "True is not a number"),
    "a huge entry": (-1, f'["report", 99999999, [{10**400}]]', "is not a number from 0"),
    "deep": (-1, "[" * 20_000, "recursion"),
    "no order": (-1, '["minor", 99999999, 999999999, 1, 1, 1]', "began at 999999999"),
    "an overlap": (-1, '["minor", 99999999, 1, 1, 1, 1]', "began at 1 us"),
    "an overlap of steps": (-1, '["step", 99999999, 1, 1, 1]', "began at 1 us"),
    "no hits": (-1, '["sample", 99999999, 0, 0, 64, 32]', "1 or more"),
    "no size": (-1, '["sample", 99999999, 0, 1, 64, 0]', "1 or more"),
    "before the line before": (-1, '["dropped", 0]', "0 us is before"),
    "a stack before its caller": (-1, '["stack", 999, 0]', "come before it"),
    "a stack without a frame": (-1, '["stack", null, 999]', "come before it"),
    "a report of nothing": (-1, '["report", 99999999, [5]]', "1 entries do not match"),
    "a phase of none": (-1, '["step", 99999999, 99999998, 9, 0]', "9 is not a valid State"),
    "another total": (-1, '["end", 99999999, 1, 64]', "the end has 1 hits"),
}


@pytest.mark.parametrize(("number", "line", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_named(path: Path, number: int, line: str, message: str) -> None:
    lines = lines_of(path)
    lines[number] = line
    path.write_text("\n".join(lines) + "\n")
    number = number % len(lines) + 1
    with pytest.raises(RecordingError, match=rf"{path.name}:{number}: .*{message}"):
        read(path)


def test_a_type_that_is_not_in_the_table_is_named(path: Path) -> None:
    lines = lines_of(path)
    header = json.loads(lines[0]) | {"types": ["", "node"]}
    path.write_text("\n".join([json.dumps(header), *lines[1:]]) + "\n")
    with pytest.raises(RecordingError, match="no type 4"):
        read(path)


def test_nothing_follows_the_end(path: Path) -> None:
    with path.open("a") as file:
        file.write('["dropped", 99999999]\n')
    with pytest.raises(RecordingError, match="nothing may follow the end"):
        read(path)


# Recordings that stop.


def test_a_full_recording_ends_at_a_line(header: ProfileHeader, tmp_path: Path) -> None:
    path = tmp_path / "full.jsonl"
    with RecordingWriter(path, header, 1000) as writer:
        for number in range(100):
            writer.line(f'["dropped",{number}]')
    assert writer.stopped_by == "it would be larger than 1,000 bytes"
    assert path.stat().st_size == writer.written_bytes <= 1000
    assert read(path).ended_us > 10


def test_a_recording_that_stops_does_not_stop_the_program(recorded: Recorded) -> None:
    done = []

    def program(heap: Heap) -> None:
        allocate(heap)
        done.append(heap)

    profile = recorded(program, 8, max_bytes=5000)
    assert done
    assert not profile.is_complete


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_a_disk_that_is_full_stops_the_recording(header: ProfileHeader) -> None:
    with RecordingWriter(Path("/dev/full"), header, 10**6) as writer:
        for number in range(100):
            writer.line(f'["dropped",{number}]')
        writer.flush()
        writer.line('["dropped",100]')
    assert writer.stopped_by == "it cannot be written: No space left on device"


def test_a_missing_folder_is_an_error_at_once(header: ProfileHeader, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RecordingWriter(tmp_path / "nowhere" / "recording.jsonl", header, 10**6)
