"""The Firefox Profiler's own command line reads a profile, and finds the recorder's totals."""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from recorded_programs import recorded_in
from waiting import LONG_SECONDS, PATIENCE_SECONDS, completed, wait_until

from gcmodel.collector.heap import Heap
from gcmodel.profiling.firefox import write
from gcmodel.profiling.firefox_look import COLOURS, category_of
from gcmodel.profiling.profile import Profile, ProfileSample, TimeSample
from gcmodel.profiling.recorder import Recorder

NPM = shutil.which("npm")
VIEWER = "@firefox-devtools/profiler-cli"
VERSION = "0.10.0"
Json = Any
Ask = Callable[..., Json]
"""Asks a question with the viewer's arguments."""

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
    recorders: list[Recorder] = []
    profile = recorded_in(path, program, 4096, time_period_us=1000, listener=recorders.append)
    return Counted(recorders[-1].weight_bytes, recorders[-1].time_samples, profile)


class Viewer:
    """The viewer's command line, which asks a viewer process that has loaded a profile.

    Its own `load` gives that process half a second to start, too little on a busy machine. So the
    processes are started here.
    """

    def __init__(self, folder: Path) -> None:
        self._program = str(folder / "node_modules" / ".bin" / "profiler-cli")
        self._home = folder
        self._environment = {**os.environ, "HOME": str(folder)}
        self._processes: list[subprocess.Popen[bytes]] = []

    def load(self, profile: Profile, file: Path) -> Ask:
        """Write a profile to a file and load it."""
        write(profile, file)
        session = file.name.partition(".")[0]
        command = [self._program, "--daemon", str(file), "--session", session]
        process = subprocess.Popen(command, env=self._environment)
        self._processes.append(process)
        log = self._home / ".profiler-cli" / f"{session}.log"

        def is_loaded() -> bool:
            output = log.read_text() if log.exists() else ""
            assert "Failed" not in output, output
            return "Profile loaded successfully" in output

        wait_until(is_loaded, f"the profile, see {log}", process)
        return lambda *arguments: self._answer(*arguments, "--session", session, "--json")

    def close(self) -> None:
        try:
            self._run("stop", "--all")
        finally:
            for process in self._processes:
                process.terminate()
                process.wait(PATIENCE_SECONDS)

    def _answer(self, *arguments: str) -> Json:
        ran = self._run(*arguments)
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
        return json.loads(ran.stdout)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self._program, *arguments]
        return completed(command, check=False, env=self._environment, timeout=LONG_SECONDS)


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """Installed in a folder, which is also its home."""
    folder = tmp_path_factory.mktemp("viewer")
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--save-exact"]
    command = [str(NPM), "install", "--prefix", str(folder), *options, f"{VIEWER}@{VERSION}"]
    subprocess.run(command, check=True, capture_output=True, timeout=LONG_SECONDS)
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


def categories(ask: Ask, thread: str) -> dict[str, int]:
    found = ask("thread", "samples", "--thread", thread)["categoryBreakdown"]["categories"]
    return {row["name"]: row["samples"] for row in found}


def test_the_totals_are_the_recorder_s(ask: Ask, counted: Counted) -> None:
    retained = sum(each.weight_bytes for each in counted.profile.live(counted.profile.ended_us))
    assert total_bytes(ask, "timing") == counted.weight_bytes
    assert total_bytes(ask, "native-allocations") == counted.weight_bytes
    assert total_bytes(ask, "native-retained-allocations") == retained > 0
    allocations, moments = (ask("thread", "info", "--thread", each) for each in ("t-0", "t-1"))
    assert allocations["sampleCount"] == len(counted.profile.samples) > 0
    assert moments["sampleCount"] == counted.time_samples > 0


def test_the_bytes_of_each_type_and_fate_are_the_samples(ask: Ask, counted: Counted) -> None:
    rows = ask("thread", "functions", "--thread", "t-0", "--limit", "0")["functions"]
    shown = {row["nameWithLibrary"]: row["selfSamples"] for row in rows if row["selfSamples"]}
    kinds, fates = Counter[str](), Counter[str]()
    for sample in counted.profile.samples:
        kinds[f"{sample.fate}!{sample.type}"] += sample.weight_bytes
        fates[sample.fate.capitalize()] += sample.weight_bytes
    assert len(kinds) > 2
    assert shown == kinds
    assert categories(ask, "t-0") == fates
    assert fates.keys() >= {"Died young", "Died old", "Survived"}


def test_there_is_a_mark_for_each_collection_and_phase(ask: Ask, counted: Counted) -> None:
    profile = counted.profile
    rows = ask("thread", "markers", "--thread", "t-0", "--list", "--limit", "0")["flatMarkers"]
    minor = [row["data"]["memoryUsed"] for row in rows if row["name"] == "minor collection"]
    assert minor == [each.memory_used_bytes for each in profile.minor_collections]
    states = [row["data"]["phase"] for row in rows if row["name"] == "major collection"]
    assert states == [phase.name for phase in profile.states]
    assert len(set(states)) == 4


def test_time_has_the_category_of_the_innermost_frame_with_one(ask: Ask, counted: Counted) -> None:
    def category(moment: TimeSample) -> str:
        frames = counted.profile.frames_of(moment.stack)
        own = (category_of(frame, is_outermost=False) for frame in frames)
        return next((list(COLOURS)[number] for number in own if number is not None), "Python")

    moments = Counter(map(category, counted.profile.time_samples))
    assert moments.keys() >= {"Heap", "Garbage collector"}
    assert categories(ask, "t-1") == moments


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


@pytest.mark.parametrize("count", [0, 1])
def test_a_recording_that_was_cut_off_is_shown(
    count: int, viewer: Viewer, counted: Counted, tmp_path: Path
) -> None:
    ask = viewer.load(first_of(counted.profile, count), tmp_path / f"first{count}.json")
    info = ask("thread", "info", "--thread", "t-0")
    assert (ask("profile", "info")["threadCount"], info["sampleCount"]) == (1, count)


def first_of(profile: Profile, count: int) -> Profile:
    """A profile that was cut off after its first samples."""
    samples: list[ProfileSample] = profile.samples[:count]
    return attrs.evolve(
        profile,
        samples=samples,
        time_samples=[],
        minor_collections=[],
        states=[],
        ended_us=samples[-1].at_us if samples else 0,
        is_complete=False,
    )
