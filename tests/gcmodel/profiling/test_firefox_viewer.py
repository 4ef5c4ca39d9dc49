"""The Firefox Profiler's own command line reads what was recorded, and finds the same totals."""

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from firefox_check import check

from gcmodel.collector.heap import Heap
from gcmodel.profiling.firefox import write
from gcmodel.profiling.firefox_look import COLOURS, category_of
from gcmodel.profiling.profile import Profile, ProfileHeader, ProfileSample, TimeSample
from gcmodel.profiling.recorder import Recorder
from gcmodel.profiling.recording import RecordingWriter, read
from gcmodel.profiling.sampled_run import PROFILED, record

NPM = shutil.which("npm")
VIEWER = "@firefox-devtools/profiler-cli"
VERSION = "0.10.0"
PERIOD_BYTES = 4096
TIME_PERIOD_US = 1000

Json = Any
Ask = Callable[..., Json]
"""Words on the viewer's command line; what it answers."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NPM is None, reason="install npm and node 20 or newer for the viewer"),
]


@attrs.frozen
class Counted:
    """What the recorder counted, and the profile that was read."""

    weight_bytes: int
    time_samples: int
    profile: Profile


def short_lived(heap: Heap, number: int) -> None:
    heap.allocate_node(number)
    heap.free(len(heap.roots) - 1)


def program(heap: Heap) -> None:
    """Nodes that die at once, and strings that are kept for a while, some of them large."""
    for number in range(30_000):
        short_lived(heap, number)
        if number % 10 == 0:
            heap.allocate_string(number % 9000)
        if number % 1000 == 0:
            del heap.roots[:]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    path = tmp_path_factory.mktemp("recorded") / "recording"
    header = ProfileHeader.of_now(
        "kept strings",
        period_bytes=PERIOD_BYTES,
        is_random=False,
        nursery_bytes=PROFILED.nursery_bytes,
        time_period_us=TIME_PERIOD_US,
    )
    told: list[Recorder] = []
    with RecordingWriter(path, header, max_bytes=10**8) as writer:
        record(program, writer, told.append)
    recorder = told[-1]
    return Counted(recorder.weight_bytes, recorder.time_samples, read(path))


class Viewer:
    """The viewer's command line, which asks a process of the viewer that has loaded a profile.

    Its own `load` gives such a process half a second to begin, which a busy machine may not have;
    so the processes are started here, and there is one to be ended whatever happens.
    """

    def __init__(self, folder: Path) -> None:
        self._program = str(folder / "node_modules" / ".bin" / "profiler-cli")
        self._home = folder
        self._environment = {**os.environ, "HOME": str(folder)}
        self._processes: list[subprocess.Popen[bytes]] = []

    def load(self, profile: Profile, file: Path) -> Ask:
        """Ask about a profile, once it is loaded from a file written for that."""
        write(profile, file)
        session = file.name.partition(".")[0]
        command = [self._program, "--daemon", str(file), "--session", session]
        process = subprocess.Popen(command, env=self._environment)
        self._processes.append(process)
        self._wait_for(self._home / ".profiler-cli" / f"{session}.log", process)
        return lambda *words: self._answer(*words, "--session", session, "--json")

    def _wait_for(self, log: Path, process: subprocess.Popen[bytes]) -> None:
        """Until the process has loaded its profile; whoever asks it sooner may end its session."""
        said = ""
        while "Profile loaded successfully" not in said:
            assert "Failed" not in said, said
            assert process.poll() is None, said
            time.sleep(0.1)
            said = log.read_text() if log.exists() else ""

    def close(self) -> None:
        """End the processes."""
        try:
            self._run("stop", "--all")
        finally:
            for process in self._processes:
                process.terminate()
                process.wait()

    def _answer(self, *words: str) -> Json:
        ran = self._run(*words)
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
        return json.loads(ran.stdout)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *words],
            check=False,
            capture_output=True,
            text=True,
            env=self._environment,
        )


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """Installed in a folder, which is the home of what it keeps, too."""
    folder = tmp_path_factory.mktemp("viewer")
    subprocess.run(
        [
            *(str(NPM), "install", "--prefix", str(folder), "--ignore-scripts"),
            *("--no-audit", "--no-fund", "--save-exact", f"{VIEWER}@{VERSION}"),
        ],
        check=True,
        capture_output=True,
    )
    viewer = Viewer(folder)
    yield viewer
    viewer.close()


@pytest.fixture(scope="module")
def ask(viewer: Viewer, counted: Counted, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    return viewer.load(counted.profile, tmp_path_factory.mktemp("profile") / "recorded.json.gz")


def total_bytes(ask: Ask, strategy: str) -> int:
    found = ask("thread", "samples", "--thread", "t-0", "--strategy", strategy)
    assert found["weightType"] == "bytes"
    total: int = found["categoryBreakdown"]["totalSamples"]
    return total


def test_what_was_recorded_passes_the_checker(counted: Counted, tmp_path: Path) -> None:
    write(counted.profile, tmp_path / "profile.json")
    check(json.loads((tmp_path / "profile.json").read_text()))


@pytest.mark.parametrize("strategy", ["timing", "native-allocations"])
def test_the_viewer_s_total_is_the_recorder_s(strategy: str, ask: Ask, counted: Counted) -> None:
    assert total_bytes(ask, strategy) == counted.weight_bytes


def test_the_viewer_s_bytes_of_each_type_and_fate_are_the_samples(
    ask: Ask, counted: Counted
) -> None:
    rows = ask("thread", "functions", "--thread", "t-0", "--limit", "0")["functions"]
    shown = {row["nameWithLibrary"]: row["selfSamples"] for row in rows if row["selfSamples"]}
    sampled: Counter[str] = Counter()
    for sample in counted.profile.samples:
        sampled[f"{sample.fate}!{sample.type}"] += sample.weight_bytes
    assert len(sampled) > 2
    assert shown == sampled


def test_the_viewer_s_survivors_are_the_recorder_s(ask: Ask, counted: Counted) -> None:
    found = ask("thread", "samples", "--thread", "t-0")["categoryBreakdown"]["categories"]
    shown = {row["name"]: row["samples"] for row in found}
    fates: Counter[str] = Counter()
    for sample in counted.profile.samples:
        fates[sample.fate.capitalize()] += sample.weight_bytes
    assert shown == fates
    assert shown.keys() >= {"Died young", "Died old", "Survived"}


def test_the_viewer_retains_what_no_collection_has_told_to_be_dead(
    ask: Ask, counted: Counted
) -> None:
    retained = sum(each.weight_bytes for each in counted.profile.live(counted.profile.ended_us))
    assert total_bytes(ask, "native-retained-allocations") == retained > 0


def test_the_viewer_has_as_many_samples_and_time_samples(ask: Ask, counted: Counted) -> None:
    allocations, moments = (ask("thread", "info", "--thread", each) for each in ("t-0", "t-1"))
    assert allocations["sampleCount"] == len(counted.profile.samples) > 0
    assert moments["sampleCount"] == counted.time_samples > 0


def test_the_viewer_has_a_mark_for_each_collection_and_phase(ask: Ask, counted: Counted) -> None:
    groups = ask("thread", "markers", "--thread", "t-0", "--limit", "0")["byType"]
    assert {group["markerName"]: group["count"] for group in groups} == {
        "minor collection": len(counted.profile.minor_collections),
        "major collection": len(counted.profile.phases),
    }


def test_the_viewer_names_each_phase(ask: Ask, counted: Counted) -> None:
    rows = ask("thread", "markers", "--thread", "t-0", "--list", "--limit", "0")["flatMarkers"]
    shown = [row["data"]["phase"] for row in rows if row["name"] == "major collection"]
    assert shown == [phase.name for phase in counted.profile.phases]
    assert len(set(shown)) == 4


def test_the_viewer_tells_the_collector_s_time_from_the_heap_s(ask: Ask, counted: Counted) -> None:
    found = ask("thread", "samples", "--thread", "t-1")["categoryBreakdown"]["categories"]
    moments = Counter(category_name(counted.profile, each) for each in counted.profile.time_samples)
    assert moments.keys() >= {"Heap", "Garbage collector"}
    assert {row["name"]: row["samples"] for row in found} == moments


def category_name(profile: Profile, moment: TimeSample) -> str:
    """The category of the innermost frame that has one."""
    own = (category_of(frame, is_outermost=False) for frame in profile.frames_of(moment.stack))
    return next((list(COLOURS)[number] for number in own if number is not None), "Python")


def test_the_viewer_says_what_memory_there_was_after_a_collection(
    ask: Ask, counted: Counted
) -> None:
    rows = ask("thread", "markers", "--thread", "t-0", "--list", "--limit", "0")["flatMarkers"]
    shown = [row["data"]["memoryUsed"] for row in rows if row["name"] == "minor collection"]
    assert shown == [each.memory_used_bytes for each in counted.profile.minor_collections]


@pytest.mark.parametrize(
    ("counter", "name", "figure"),
    [
        ("c-0", "total_size_of_arenas", "arena_bytes"),
        ("c-1", "total_memory_used", "memory_used_bytes"),
        ("c-2", "vmRSS", "resident_bytes"),
    ],
)
def test_a_memory_track_rises_to_the_most_that_was_recorded(
    counter: str, name: str, figure: str, ask: Ask, counted: Counted
) -> None:
    found = ask("counter", "info", counter)
    most = max(getattr(each, figure) for each in counted.profile.minor_collections)
    assert found["name"] == name
    assert {row["source"]: row["value"] for row in found["stats"]}["count-range"] == most


def test_the_viewer_shows_a_recording_that_ends_with_its_first_sample(
    viewer: Viewer, counted: Counted, tmp_path: Path
) -> None:
    first = counted.profile.samples[0]
    ask = viewer.load(begun(counted.profile, [first]), tmp_path / "begun.json")
    assert total_bytes(ask, "timing") == first.weight_bytes


def test_the_viewer_shows_a_recording_of_nothing(
    viewer: Viewer, counted: Counted, tmp_path: Path
) -> None:
    ask = viewer.load(begun(counted.profile, []), tmp_path / "empty.json")
    assert ask("profile", "info")["threadCount"] == 1
    assert ask("thread", "info", "--thread", "t-0")["sampleCount"] == 0


def begun(profile: Profile, samples: list[ProfileSample]) -> Profile:
    """A profile that was cut off after its first samples."""
    return attrs.evolve(
        profile,
        samples=samples,
        time_samples=[],
        minor_collections=[],
        phases=[],
        ended_us=samples[-1].at_us if samples else 0,
        is_complete=False,
    )
