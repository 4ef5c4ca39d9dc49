"""The target dotnet: the stock runtime of .NET 10, each of its samples foretold.

Without it everything is skipped that needs it: `pip install msmcp-azure`, and `apt install
mono-mcs`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random

import attrs
import psutil
import pytest
from target_helpers import CLEAN, ROOT, Changed, carried_out, first_failure

from fuzz.oracles.counting.distances import Dotnet
from fuzz.problems import BadInputError
from fuzz.protocol import lines as wire
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    CheckHeap,
    CollectFull,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Free,
    Read,
    ReadNumber,
    TakeIdentity,
    Write,
    WriteNumber,
)
from fuzz.protocol.counting import Bytes
from fuzz.protocol.target import FullTarget, full
from fuzz.run import Run, run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.dotnet import bundle, diagnostics, find
from fuzz.targets.dotnet.bundle import CarriedRuntime
from fuzz.targets.dotnet.contract import COLLECTORS, as_documented, contract
from fuzz.targets.dotnet.driver import DotnetDriver
from fuzz.targets.dotnet.find import COMPILER, HOW_TO_INSTALL, WHEEL, find_carrier, made_program
from fuzz.targets.dotnet.runtime import Ask, MutatorAnswer, MutatorThread
from fuzz.terminal.cli import run_command_line

AS_DOCUMENTED = "dotnet-as-documented"
DRIVER = "fuzz.targets.dotnet.driver"
PERIOD = 102_400
ON, OFF = EnableSampling(PERIOD), DisableSampling()


@pytest.fixture(scope="module")
def program() -> str:
    if find_spec(WHEEL) is None or shutil.which(COMPILER) is None:
        pytest.skip(HOW_TO_INSTALL)
    return str(made_program(None))


@pytest.fixture(scope="module")
def target(program: str) -> FullTarget:
    return full(make_target("dotnet"))


# The program.


def test_where_there_is_no_compiler_a_run_ends_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    carrier = tmp_path / "carrier"
    carrier.touch()
    with pytest.raises(BadInputError, match=f"needs a compiler of C#: {HOW_TO_INSTALL}"):
        made_program(carrier)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"text", "not a single-file program of .NET"),
        (bytes(8) + bundle.SIGNATURE, "a bundle of version 0; it must be 6"),
        (
            (40).to_bytes(8, "little") + bundle.SIGNATURE + b"\6" + bytes(60),
            "it carries no runtime",
        ),
        (b"", "not a complete program of .NET"),
        ((2**40).to_bytes(8, "little") + bundle.SIGNATURE, "not a complete program of .NET"),
    ],
    ids=["no bundle", "another version", "an empty bundle", "nothing", "a bundle's beginning"],
)
def test_a_program_that_carries_no_runtime_is_bad_input(
    content: bytes, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "carrier"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=what):
        bundle.runtime_of([path])


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="--dotnet names a program"):
        made_program(tmp_path / "carrier")


# An SDK.


def laid_out(folder: Path, version: str, host_version: str, runtime: CarriedRuntime) -> None:
    """The files of an SDK that are needed, as it has them."""
    host = folder / f"packs/Microsoft.NETCore.App.Host.linux-x64/{host_version}"
    host = host / "runtimes/linux-x64/native/singlefilehost"
    library = folder / f"shared/Microsoft.NETCore.App/{version}/{bundle.CORE_LIBRARY}"
    for path, content in ((host, runtime.host), (library, runtime.core_library)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_of_an_sdk_the_newest_host_with_its_own_library_is_taken(tmp_path: Path) -> None:
    nothing = CarriedRuntime(b"", b"")
    for version, host_version in (("10.0.9", "10.0.9"), ("10.0.12", "10.0.12"), ("10.0.13", "9.0")):
        laid_out(tmp_path, version, host_version, nothing)
    assert ["10.0.12" in str(path) for path in find_carrier(tmp_path)] == [True, True]


def test_without_the_wheel_the_sdk_on_path_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("DOTNET_ROOT", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path))
    laid_out(tmp_path, "10.0.1", "10.0.1", CarriedRuntime(b"", b""))
    (tmp_path / "dotnet").touch(0o755)
    host, library = find_carrier(None)
    assert (host.name, library.name) == ("singlefilehost", bundle.CORE_LIBRARY)


def test_a_folder_that_is_no_sdk_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"no SDK of \.NET 10 with its host pack"):
        find_carrier(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_an_sdks_runtime_is_found_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's host and library, as an SDK has them: the host is nobody's yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runtime = bundle.runtime_of(find_carrier(None))
    host = bytearray(runtime.host)
    signature = host.index(bundle.SIGNATURE)
    host[signature - 8 : signature] = bytes(8)
    name = signature + bundle.NAME_OFFSET
    host[name : name + bundle.NAME_BYTES] = bundle.NO_NAME
    laid_out(tmp_path, "10.0.12", "10.0.12", CarriedRuntime(bytes(host), runtime.core_library))
    target = full(make_target("dotnet", TargetOptions(paths={"dotnet": tmp_path})))
    assert run_actions(target, {"threads": 2}, EACH_ACTION) is None


# Events.


def test_an_event_may_be_earlier_than_the_one_before() -> None:
    flags = diagnostics.KIND | diagnostics.THREAD | diagnostics.PAYLOAD_SIZE
    first = bytes([flags, 5, 1, 9, 0]) + b"\x64" + b"\1A"
    earlier = bytes([0]) + b"\xf6" + b"\xff" * 8 + b"\1" + b"B"
    header = bytes([4, 0, 0, 0])
    data = header + first + earlier
    found = [*diagnostics.events_in(diagnostics.Reader(data, 0), len(data))]
    assert found == [(5, 9, 100, b"A"), (5, 9, 90, b"B")]


# One trace.


def test_a_sample_is_taken_where_the_distance_ends(target: FullTarget) -> None:
    [seed] = target.start({"sampler_seed": 3}).sampling.seeds
    offset = Dotnet(seed).draw(PERIOD)
    items = offset // 2**15 + 1
    *_, sampled = carried_out(target, [ON, AllocateString(items)])
    assert (sampled.samples, sampled.offsets) == (1, [offset])


def test_a_trace_is_sampled_alike_wherever_it_stands(target: FullTarget) -> None:
    """Where contexts begin and end makes a difference to small objects, but not to these."""
    actions: list[Action] = [ON, *[AllocateString(7), Free(0)] * 6]

    def play() -> list[list[int]]:
        target.start({"sampler_seed": 5})
        return [each.offsets for each in carried_out(target, actions)]

    first = play()
    target.start({"threads": 3})
    carried_out(target, [ON, AllocateString(3, thread=2), OFF])
    assert play() == first
    assert len([each for each in first if each]) >= 3


def test_a_context_goes_on_until_an_object_does_not_fit(target: FullTarget) -> None:
    run = Run(target, {})
    for _ in range(10):
        run.step(AllocateNode(1))
    place = run.bench.sampling.place
    assert place is not None
    assert (place.where, place.at) == ("buffer", 9 * 40)
    run.step(AllocateString(1))
    assert run.bench.sampling.place is not None
    assert run.bench.sampling.place.where == "new buffer"


@pytest.mark.parametrize(("length", "outside"), [(10_621, False), (10_622, True)])
def test_an_object_of_85000_bytes_lies_outside(
    length: int, outside: bool, target: FullTarget
) -> None:
    target.start({})
    [said] = carried_out(target, [AllocateArray(length)])
    assert (said.size, said.outside) == (24 + 8 * length, outside)


def test_what_is_impossible_is_an_error(target: FullTarget) -> None:
    target.start({"threads": 2})
    errors = [target.perform(action).error for action in (AllocateString(2**20), Free(7))]
    assert errors == ["ValueError: the runtime cannot do that"] * 2
    assert target.perform(AllocateNode(0)).error is None


EACH_ACTION: list[Action] = [
    *(ON, AllocateArray(4), AllocateNode(7), AllocateString(3, thread=1), AllocateArray(4)),
    *(Write(0, 1, 1), Write(1, 0, 2), Read(0, 1), ReadNumber(1), WriteNumber(1, 8)),
    *(CopyArray(0, 3, 0, 0, 4), TakeIdentity(1), CollectFull(), TakeIdentity(1), Write(0, 1, None)),
    *(Read(0, 1), Free(1), OFF, AllocateNode(9), CheckHeap()),
]


def test_each_action_is_found_right(target: FullTarget) -> None:
    assert run_actions(target, {"threads": 2}, EACH_ACTION) is None


def test_a_runtime_that_ends_at_once_ends_the_program() -> None:
    with pytest.raises(SystemExit, match=r"^1$"):
        DotnetDriver("dotnet", "true").start({})


@pytest.mark.usefixtures("program")
def test_what_the_users_environment_says_of_a_runtime_is_nothing_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOTNET_EnableDiagnostics", "0")
    assert full(make_target("dotnet")).start({}).version.startswith(".NET 10")


def test_the_program_ends_as_the_runtime_does(program: str) -> None:
    words = [sys.executable, "-m", DRIVER, "dotnet", program]
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, env=environment) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        driver.stdin.write(b'{"gcfuzz": 2, "target": "dotnet"}\n')
        driver.stdin.flush()
        assert b"contract" in driver.stdout.readline()
        [runtime] = psutil.Process(driver.pid).children()
        runtime.kill()
        driver.stdin.write(b'{"do": "collect_full"}\n')
        driver.stdin.flush()
        assert driver.wait() == -signal.SIGKILL


def test_a_sample_that_lies_elsewhere_is_an_error(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = DotnetDriver("dotnet", program)
    target.start({"sampler_seed": 3})
    disable = target.runtime.disable
    monkeypatch.setattr(
        target.runtime,
        "disable",
        lambda: [attrs.evolve(sample, address=sample.address + 8) for sample in disable()],
    )
    said = [target.perform(action) for action in (ON, AllocateString(7), AllocateString(7), OFF)]
    target.close()
    assert "a sample of no allocation" in str(said[2].error)


def test_a_context_that_ended_in_the_background_is_told(program: str) -> None:
    """It is taken from its thread, which then has one anew."""
    target = DotnetDriver("dotnet", program)
    target.start({})
    first = [target.perform(AllocateNode(0)) for _ in range(2)]
    [thread] = target.runtime.threads[:1]
    # The combined limit, where the thread allocates next, and the end.
    for word in (-8, 0, 8):
        thread.ask(Ask.POKE, thread.storage_end - target.runtime.context + word, 0)
    later = [target.perform(AllocateNode(0)) for _ in range(2)]
    target.close()
    assert [said.ended for said in (*first, *later)] == [None, None, True, None]
    assert [said.at for said in (*first, *later)] == [0, 40, 0, 40]
    assert [said.buffer is None for said in (*first, *later)] == [False, True, False, True]


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_a_change_that_is_none_makes_nothing_observable(tmp_path: Path) -> None:
    """A context may have another size each time, and so other bytes are sampled."""
    runtime = str(find_carrier(None)[0])
    words = ["--before", runtime, "--after", runtime, "--actions", "200", "--seed", "1"]
    assert (
        run_command_line(["run", "--target", "dotnet", *words, "--corpus", str(tmp_path)]) == CLEAN
    )
    assert [*tmp_path.rglob("*.jsonl")] == []


# What is not told.


def test_after_a_traces_start_nothing_is_read_but_the_bounds_of_contexts(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Ask, tuple[int, ...]]] = []
    ask = MutatorThread.ask

    def recorded(thread: MutatorThread, what: Ask, *numbers: int) -> MutatorAnswer:
        asked.append((what, numbers))
        return ask(thread, what, *numbers)

    monkeypatch.setattr(MutatorThread, "ask", recorded)
    target = DotnetDriver("dotnet", program)
    target.start({"threads": 2})
    bounds = [numbers for what, numbers in asked if what is Ask.BOUNDS]
    context, generator = (
        target.runtime.threads[0].storage_end - place
        for place in (target.runtime.context, target.runtime.generator)
    )
    # The combined limit stands in front of them, and the generator elsewhere.
    assert bounds[0] == (context,)
    assert not context - 8 < generator < context + 16
    asked.clear()
    actions = [*EACH_ACTION, *[ON, AllocateString(5), CollectFull(), OFF] * 9]
    said = [target.perform(action) for action in actions]
    assert [each.error for each in said] == [None] * len(said)
    assert sum(each.samples for each in said) >= 3
    target.close()
    assert not {what for what, _ in asked} & {Ask.PEEK, Ask.POKE, Ask.BOUNDS, Ask.THREAD}


def test_nothing_is_observed_of_samplers(target: FullTarget) -> None:
    told = {"samples", "offsets", "minors", "size", "outside", "at", "buffer", "ended"}
    assert {*target.start({}).observes} == told | {"value", "identity", "graph"}


# Sessions.


def dense(seed: int, count: int) -> list[Action]:
    """Allocations of three threads, hardly anything else; so many of them are sampled."""
    random = Random(seed)
    actions: list[Action] = [ON]
    roots = 0
    while len(actions) < count:
        thread = random.randrange(3)
        if roots == 12 or (roots and random.random() < 0.3):
            actions.append(Free(random.randrange(roots), thread=thread))
            roots -= 1
        elif random.random() < 0.003:
            actions += [OFF, AllocateNode(1, thread=thread), AllocateString(4), ON]
            roots += 2
        elif random.random() < 0.02:
            actions.append(CollectFull(thread=thread))
        else:
            kinds: list[Action] = [
                AllocateNode(0, thread=thread),
                AllocateArray(int(random.expovariate(1 / 300)), thread=thread),
                AllocateString(random.randrange(6), thread=thread),
            ]
            actions.append(random.choice(kinds))
            roots += 1
    return actions


def test_a_short_session_finds_nothing(target: FullTarget) -> None:
    counted = Changed(target, collector=0)
    assert run_actions(counted, {"threads": 3}, dense(1, 400)) is None
    assert counted.samples >= 20


@pytest.mark.slow
@pytest.mark.parametrize("collector", range(len(COLLECTORS)), ids=COLLECTORS)
def test_a_long_session_predicts_every_sample(collector: int, target: FullTarget) -> None:
    counted = Changed(target, collector=collector)
    assert run_actions(counted, {"threads": 3}, dense(collector, 11_000)) is None
    assert first_failure(counted, 1500) is None
    assert counted.samples >= 500
    assert counted.collections >= 100


# What is documented.


def test_of_contexts_nothing_is_documented() -> None:
    as_built = contract("", (), (7, 8))
    promised = as_documented(as_built)
    assert (promised.sampling.counting, promised.sampling.distances) == (Bytes(), "random")
    assert promised.threads == as_built.threads
    assert not {*promised.observes} & {"outside", "at", "buffer", "offsets"}


@pytest.mark.slow
def test_each_action_is_right_by_what_is_documented(program: str) -> None:
    target = DotnetDriver(AS_DOCUMENTED, program)
    stated = target.start({"threads": 16})
    said = [target.perform(action) for action in EACH_ACTION]
    target.close()
    assert {name for each in said for name in dict(wire.unstructured(each))} <= {*stated.observes}


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_a_session_finds_nothing_wrong_by_what_is_documented() -> None:
    target = full(make_target(AS_DOCUMENTED))
    assert run_actions(target, {"threads": 3}, dense(1, 4000)) is None


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_a_session_finds_what_is_not_sampled_as_documented() -> None:
    target = full(make_target(AS_DOCUMENTED))
    failure = first_failure(target, 20_000)
    assert failure is not None
    assert failure.identity == ("estimate", "samples", "allocate_array", "less")
