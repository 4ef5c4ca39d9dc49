"""The target dotnet: the stock runtime of .NET 10, with each of its samples predicted.

Tests that need it are skipped without it: `pip install msmcp-azure`, and `apt install mono-mcs`.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random

import attrs
import psutil
import pytest
from night import fresh, part_of
from target_helpers import CLEAN, Changed, carried_out, changed, first_failure
from typing_extensions import override
from waiting import PATIENCE_SECONDS, completed, killed_at_end, wait_for_line

from fuzz.oracles import Bench, Mismatch
from fuzz.oracles.counting.contexts import ContextClock
from fuzz.oracles.counting.distances.dotnet import Dotnet
from fuzz.oracles.counting.expected import ExpectedSample, Request
from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol import lines as wire
from fuzz.protocol.actions import Action
from fuzz.protocol.counting import Bytes, Contexts
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget, full
from fuzz.run import Run, run_actions
from fuzz.targets import NO_OPTIONS, TargetOptions, make_target
from fuzz.targets.dotnet import DOTNET, FINALIZERS, bundle, diagnostics, find
from fuzz.targets.dotnet.bundle import CarriedRuntime
from fuzz.targets.dotnet.contract import (
    CALL,
    COLLECTORS,
    CONTEXT_BYTES,
    NEW,
    OPTIMIZED,
    TIERS,
    JitTier,
    as_documented,
    contract,
)
from fuzz.targets.dotnet.diagnostics import Compiled, Sampled
from fuzz.targets.dotnet.driver import DotnetDriver
from fuzz.targets.dotnet.find import COMPILER, HOW_TO_INSTALL, WHEEL, find_carrier, made_program
from fuzz.targets.dotnet.runtime import Ask, MutatorAnswer, MutatorThread, Runtime, is_in
from fuzz.targets.process.byte_reader import ByteReader
from fuzz.targets.registration import Program
from fuzz.terminal.commands.cli import run_command_line

AS_DOCUMENTED = "dotnet-as-documented"
PERIOD = 102_400
NODE_BYTES = 40
ITEMS_AT = 16
"""Where the items of a string start."""
ON, OFF = do.EnableSampling(PERIOD), do.DisableSampling()
DRIVER = [sys.executable, "-m", "fuzz.targets.dotnet.driver", "dotnet"]
HEADER = '{"gcfuzz": 2, "target": "dotnet"}\n'


@pytest.fixture(scope="module")
def program() -> str:
    if find_spec(WHEEL) is None or shutil.which(COMPILER) is None:
        pytest.skip(HOW_TO_INSTALL)
    return str(made_program(None))


@pytest.fixture(scope="module")
def target(program: str) -> FullTarget:
    return full(make_target("dotnet"))


# An SDK.


def write_sdk(folder: Path, version: str, host_version: str, runtime: CarriedRuntime) -> None:
    """Write the files of an SDK that are needed."""
    host = folder / f"packs/Microsoft.NETCore.App.Host.linux-x64/{host_version}"
    host = host / "runtimes/linux-x64/native/singlefilehost"
    library = folder / f"shared/Microsoft.NETCore.App/{version}/{bundle.CORE_LIBRARY}"
    for path, content in ((host, runtime.host), (library, runtime.core_library)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_the_newest_host_of_an_sdk_with_its_library_is_used(tmp_path: Path) -> None:
    nothing = CarriedRuntime(b"", b"")
    for version, host_version in (("10.0.9", "10.0.9"), ("10.0.12", "10.0.12"), ("10.0.13", "9.0")):
        write_sdk(tmp_path, version, host_version, nothing)
    assert ["10.0.12" in str(path) for path in find_carrier(tmp_path)] == [True, True]


def test_without_the_wheel_the_sdk_on_path_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("DOTNET_ROOT", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path))
    write_sdk(tmp_path, "10.0.1", "10.0.1", CarriedRuntime(b"", b""))
    (tmp_path / "dotnet").touch(0o755)
    host, library = find_carrier(None)
    assert (host.name, library.name) == ("singlefilehost", bundle.CORE_LIBRARY)


def test_a_folder_that_is_not_an_sdk_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"no SDK of \.NET 10 with its host pack"):
        find_carrier(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_the_runtime_of_an_sdk_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's host and library as files of an SDK, whose host has no program yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runtime = bundle.runtime_of(find_carrier(None))
    host = bytearray(runtime.host)
    signature = host.index(bundle.SIGNATURE)
    host[signature - 8 : signature] = bytes(8)
    name = signature + bundle.NAME_OFFSET
    host[name : name + bundle.NAME_BYTES] = bundle.NO_NAME
    write_sdk(tmp_path, "10.0.12", "10.0.12", CarriedRuntime(bytes(host), runtime.core_library))
    target = full(make_target("dotnet", TargetOptions(paths={"dotnet": tmp_path})))
    assert run_actions(target, {"threads": 2}, EACH_ACTION) is None


# Events.


def test_a_refused_runtime_has_nothing_to_settle() -> None:
    """Otherwise another error would hide why its header was refused."""
    DotnetDriver("dotnet", "refused").settle()


def test_an_event_may_be_earlier_than_its_predecessor() -> None:
    flags = diagnostics.KIND | diagnostics.THREAD | diagnostics.PAYLOAD_SIZE
    first = bytes([flags, 5, 1, 9, 0]) + b"\x64" + b"\1A"
    earlier = bytes([0]) + b"\xf6" + b"\xff" * 8 + b"\1" + b"B"
    header = bytes([4, 0, 0, 0])
    data = header + first + earlier
    found = [*diagnostics.events_in(ByteReader(data), len(data))]
    assert found == [(5, 9, 100, b"A"), (5, 9, 90, b"B")]


# One trace.


@pytest.mark.slow
def test_a_sample_is_taken_at_the_end_of_the_distance(target: FullTarget) -> None:
    [seed] = target.start({"sampler_seed": 3}).sampling.seeds
    offset = Dotnet(seed).draw(PERIOD)
    items = offset // 2**15 + 1
    *_, sampled = carried_out(target, [ON, do.AllocateString(items)])
    assert (sampled.samples, sampled.offsets) == (1, [offset])


def distances_of(sampler_seed: int) -> tuple[int, int]:
    """The first two distances of a trace."""
    generator = Dotnet(contract_seed(sampler_seed))
    return generator.draw(PERIOD), generator.draw(PERIOD)


def contract_seed(sampler_seed: int) -> int:
    return Random(sampler_seed).getrandbits(64)


class EndsEarly(ContextClock):
    """An object that ends right before the sampled byte ends the distance."""

    @override
    def _allocate(self, request: Request, observation: Observation) -> Sequence[ExpectedSample]:
        is_exact = request.size_bytes == self.until_bytes
        hits = super()._allocate(request, observation)
        if is_exact and request.period_bytes:
            self._draw(request.period_bytes)
        return hits


@pytest.mark.parametrize("clock", [ContextClock, EndsEarly])
def test_an_object_may_end_right_before_the_sampled_byte(
    clock: type[ContextClock], target: FullTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node begins a context, the array takes the whole distance, and the next node is due."""
    monkeypatch.setattr("fuzz.oracles.counting.contexts.ContextClock", clock)
    seed, bytes_left = next(
        (seed, second)
        for seed in range(10_000)
        for first, second in [distances_of(seed)]
        if first >= NODE_BYTES and second % 8 == 0 and 24 <= second < 4096
    )
    trace = [ON, do.AllocateNode(1), do.AllocateArray((bytes_left - 24) // 8), do.AllocateNode(2)]
    counted = Changed(target)
    failure = run_actions(counted, {"sampler_seed": seed}, trace)
    assert counted.samples == 1
    assert (failure is None) == (clock is ContextClock)


def test_a_trace_has_the_same_samples_after_any_other(target: FullTarget) -> None:
    """The bounds of contexts change the samples of small objects, but not of these."""
    actions: list[Action] = [ON, *[do.AllocateString(7), do.Free(0)] * 6]

    def play() -> list[list[int]]:
        target.start({"sampler_seed": 5})
        return [each.offsets for each in carried_out(target, actions)]

    first = play()
    target.start({"threads": 3})
    carried_out(target, [ON, do.AllocateString(3, thread=2), OFF])
    assert play() == first
    assert len([each for each in first if each]) >= 3


def test_a_context_lasts_until_an_object_does_not_fit(target: FullTarget) -> None:
    run = Run(target, {})
    for _ in range(10):
        run.step(do.AllocateNode(1))
    place = run.bench.sampling.place
    assert place is not None
    assert (place.where, place.at) == ("buffer", 9 * 40)
    run.step(do.AllocateString(1))
    assert run.bench.sampling.place is not None
    assert run.bench.sampling.place.where == "new buffer"


@pytest.mark.parametrize(("length", "outside"), [(10_621, False), (10_622, True)])
def test_an_object_of_85000_bytes_lies_outside(
    length: int, outside: bool, target: FullTarget
) -> None:
    target.start({})
    [observation] = carried_out(target, [do.AllocateArray(length)])
    assert (observation.size, observation.outside) == (24 + 8 * length, outside)


def test_an_impossible_action_is_an_error(target: FullTarget) -> None:
    target.start({"threads": 2})
    errors = [target.perform(action).error for action in (do.AllocateString(2**20), do.Free(7))]
    assert errors == ["ValueError: the runtime cannot do that"] * 2
    assert target.perform(do.AllocateNode(0)).error is None


EACH_ACTION: list[Action] = [
    *(ON, do.AllocateArray(4), do.AllocateNode(7), do.AllocateString(3, thread=1)),
    *(do.AllocateArray(4), do.Write(0, 1, 1), do.Write(1, 0, 2), do.Read(0, 1), do.ReadNumber(1)),
    *(do.WriteNumber(1, 8), do.CopyArray(0, 3, 0, 0, 4), do.TakeIdentity(1), do.CollectFull()),
    *(do.TakeIdentity(1), do.Write(0, 1, None), do.Read(0, 1), do.Free(1), OFF, do.AllocateNode(9)),
    *(do.CheckHeap(), do.CheckContents()),
]


def test_each_action_passes(target: FullTarget) -> None:
    assert run_actions(target, {"threads": 2}, EACH_ACTION) is None


def test_the_end_of_the_runtime_ends_the_program() -> None:
    with pytest.raises(SystemExit, match=r"^1$"):
        DotnetDriver("dotnet", "true").start({})


@pytest.mark.usefixtures("program")
def test_the_users_environment_does_not_change_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOTNET_EnableDiagnostics", "0")
    assert full(make_target("dotnet")).start({}).version.startswith(".NET 10")


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("target", [DOTNET, pytest.param(FINALIZERS, marks=pytest.mark.slow)])
def test_the_program_ends_with_the_signal_of_the_runtime(target: Program) -> None:
    pipe = subprocess.PIPE
    command = target.command_line(NO_OPTIONS)
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    with killed_at_end(process) as driver:
        assert driver.stdin is not None
        driver.stdin.write(HEADER)
        driver.stdin.flush()
        wait_for_line(driver.stdout, "contract")
        [runtime] = psutil.Process(driver.pid).children()
        runtime.kill()
        driver.stdin.write('{"do": "collect_full"}\n')
        driver.stdin.flush()
        assert driver.wait(PATIENCE_SECONDS) == -signal.SIGKILL


def test_a_sampling_session_starts_no_thread_whose_end_it_would_wait_for(program: str) -> None:
    earlier = {*psutil.Process().children()}
    runtime = Runtime(program, COLLECTORS["workstation"], TIERS[0], 1)
    [process] = {*psutil.Process().children()} - earlier
    before = process.num_threads()
    runtime.enable()
    during = process.num_threads()
    runtime.close()
    assert during == before


@pytest.mark.slow
def test_a_sampling_session_may_have_thousands_of_samples(program: str) -> None:
    """All lines come at once, so the samples are asked for once."""
    pair = '{"do": "allocate_string", "length": 7}\n{"do": "free", "root": 0}\n'
    lines = f'{HEADER}{{"do": "enable_sampling", "period_bytes": {PERIOD}}}\n{pair * 3000}'
    command = [*DRIVER, program]
    done = completed(command, input=lines, encoding="utf-8")
    sampled = [line for line in done.stdout.splitlines() if json.loads(line).get("samples") == 1]
    assert len(sampled) >= 2000


def test_a_sample_at_another_place_is_an_error(
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
    actions = (ON, do.AllocateString(7), do.AllocateString(7), OFF)
    observations = [target.perform(action) for action in actions]
    target.close()
    assert "a sample of no allocation" in str(observations[2].error)


def test_a_sample_without_an_allocation_is_an_error(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = DotnetDriver("dotnet", program)
    target.start({})
    [thread] = target.runtime.threads[:1]
    phantom = Sampled(1, thread.number, 0x1000, 40, 0)
    disable = target.runtime.disable
    monkeypatch.setattr(target.runtime, "disable", lambda: [*disable(), phantom])
    observations = [target.perform(action) for action in (ON, do.CheckHeap(), OFF)]
    target.close()
    assert [bool(each.error) for each in observations] == [False, False, True]


def test_a_context_that_ended_in_the_background_is_observed(program: str) -> None:
    """The runtime takes it from its thread, which then gets a new one."""
    target = DotnetDriver("dotnet", program)
    target.start({})
    first = [target.perform(do.AllocateNode(0)) for _ in range(2)]
    [thread] = target.runtime.threads[:1]
    # The combined limit, the next place of an object, and the end.
    for word in (-8, 0, 8):
        thread.ask(Ask.POKE, thread.storage_end - target.runtime.context + word, 0)
    later = [target.perform(do.AllocateNode(0)) for _ in range(2)]
    target.close()
    nodes = (*first, *later)
    assert [each.ended for each in nodes] == [None, None, True, None]
    assert [each.at for each in nodes] == [0, 40, 0, 40]
    assert [each.buffer is None for each in nodes] == [False, True, False, True]


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_two_equal_runtimes_do_not_differ(tmp_path: Path) -> None:
    """A context may have another size each time, and so other bytes are sampled."""
    runtime = str(find_carrier(None)[0])
    arguments = ["--target", "dotnet", "--before", runtime, "--after", runtime]
    arguments += ["--actions", "200", "--seed", "1", "--corpus", str(tmp_path)]
    assert run_command_line(["run", *arguments]) == CLEAN
    assert [*tmp_path.rglob("*.jsonl")] == []


# What is not observed.


def test_after_a_traces_start_only_the_bounds_of_contexts_are_read(
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
    # The combined limit is before them, and the generator elsewhere.
    assert bounds[0] == (context,)
    assert not context - 8 < generator < context + 16
    asked.clear()
    actions = [*EACH_ACTION, *[ON, do.AllocateString(5), do.CollectFull(), OFF] * 9]
    assert sum(each.samples for each in carried_out(target, actions)) >= 3
    target.close()
    assert not {what for what, _ in asked} & {Ask.PEEK, Ask.POKE, Ask.BOUNDS, Ask.THREAD}


@pytest.mark.slow
def test_a_byte_that_changes_in_a_string_is_found(program: str) -> None:
    target = DotnetDriver("dotnet", program)
    bench = Bench(target.start({}))
    for action in (do.AllocateString(2), do.AllocateString(1), do.CheckContents()):
        bench.judge(action, target.perform(action))
    last = 2 * 2**15 - 1
    [[_, _, string], *_] = target.thread.walk()
    address = string + ITEMS_AT + last - 7
    target.thread.ask(Ask.POKE, address, target.thread.ask(Ask.PEEK, address).value ^ 2**62)
    with pytest.raises(Mismatch, match=f"contents: contents: expected .. at offset {last}, got"):
        bench.judge(do.CheckContents(), target.perform(do.CheckContents()))
    target.close()


def test_samplers_are_not_observed(target: FullTarget) -> None:
    observed = {"samples", "offsets", "minors", "size", "outside", "at", "buffer", "ended"}
    assert {*target.start({}).observes} == observed | {"value", "identity", "graph", "contents"}


# Sessions.


def dense(seed: int, count: int) -> list[Action]:
    """Mostly allocations of three threads, so that many are sampled."""
    random = Random(seed)
    actions: list[Action] = [ON]
    roots = 0
    while len(actions) < count:
        thread = random.randrange(3)
        if roots == 12 or (roots and random.random() < 0.3):
            actions.append(do.Free(random.randrange(roots), thread=thread))
            roots -= 1
        elif random.random() < 0.003:
            actions += [OFF, do.AllocateNode(1, thread=thread), do.AllocateString(4), ON]
            roots += 2
        elif random.random() < 0.02:
            actions.append(do.CollectFull(thread=thread))
        else:
            kinds: list[Action] = [
                do.AllocateNode(0, thread=thread),
                do.AllocateArray(int(random.expovariate(1 / 300)), thread=thread),
                do.AllocateString(random.randrange(6), thread=thread),
            ]
            actions.append(random.choice(kinds))
            roots += 1
    return actions


def test_a_short_session_has_no_failure(target: FullTarget) -> None:
    counted = Changed(target, collector=0)
    assert run_actions(counted, {"threads": 3}, dense(1, 400)) is None
    assert counted.samples >= 20


@pytest.mark.slow
@pytest.mark.parametrize("collector", range(len(COLLECTORS)), ids=COLLECTORS)
def test_a_long_session_predicts_every_sample(collector: int, target: FullTarget) -> None:
    counted = Changed(target, collector=collector, tier=0)
    actions = dense(int(fresh(str(collector))), part_of(11_000))
    assert run_actions(counted, {"threads": 3}, actions) is None
    assert first_failure(counted, part_of(1500), fresh("1")) is None
    assert counted.samples >= part_of(500)
    assert counted.collections >= part_of(100)


# Tiers, and what calls the runtime.


@pytest.mark.slow
def test_a_session_in_tier_1_that_calls_the_runtime_has_no_failure(target: FullTarget) -> None:
    in_tier = Changed(target, collector=0, tier=3, maker=CALL)
    assert run_actions(in_tier, {"threads": 3}, dense(1, 400)) is None
    assert in_tier.samples >= 20


@pytest.mark.slow
@pytest.mark.parametrize("tier", range(len(TIERS)))
@pytest.mark.parametrize("maker", [NEW, CALL])
def test_a_session_in_each_tier_has_no_failure(maker: int, tier: int, target: FullTarget) -> None:
    in_tier = Changed(target, tier=tier, maker=maker)
    assert first_failure(in_tier, part_of(1000), fresh("1")) is None
    in_one_process = Changed(target, collector=0, tier=tier, maker=maker)
    actions = dense(int(fresh(str(tier))), part_of(5000))
    assert run_actions(in_one_process, {"threads": 3}, actions) is None
    assert in_one_process.samples >= part_of(250)


@pytest.mark.night
@pytest.mark.usefixtures("program")
def test_the_stateful_engine_mixes_the_tiers(tmp_path: Path) -> None:
    arguments = ["--target", "dotnet", "--engine", "stateful", "--actions", "1000"]
    arguments += ["--seed", fresh("1"), "--corpus", str(tmp_path)]
    assert run_command_line(["run", *arguments]) == CLEAN


@pytest.mark.night
@pytest.mark.parametrize(
    ("maker", "slow_kinds"), [(CALL, ()), (CALL, ("node", "array")), (NEW, ("array",))]
)
def test_a_mistake_in_what_calls_the_runtime_is_found(
    maker: int, slow_kinds: tuple[str, ...], target: FullTarget
) -> None:
    counting = Contexts(CONTEXT_BYTES, "reported", "in_turn", slow_kinds)
    settings = {"collector": 0, "tier": 0, "maker": maker}
    wrong = Changed(target, lambda right: changed(right, counting=counting), **settings)
    failure = first_failure(wrong, 6000)
    assert failure is not None
    assert failure.oracle == "sampling"


@pytest.mark.parametrize(
    ("levels", "compiled", "expected"),
    [
        ((3, 4), [(1, 10, 3), (2, 30, 3), (1, 20, 4)], True),
        ((3, 4), [(1, 10, 3), (2, 30, 3), (1, 20, 3)], False),
        ((3, 6, 4), [(1, 10, 3), (2, 30, 6), (1, 20, 4)], False),
        ((4,), [(1, 10, 4), (1, 20, 3)], False),
        ((3,), [(1, 10, 3)], False),
    ],
    ids=["yes", "another level", "without a profile", "not the last code", "not listed"],
)
def test_a_method_is_in_a_tier_if_its_code_is_the_last_of_its_levels(
    levels: tuple[int, ...], compiled: list[tuple[int, int, int]], expected: bool
) -> None:
    listed = [Compiled(*each) for each in compiled]
    assert is_in(JitTier(levels, {}), listed, 20) == expected


@pytest.mark.slow
def test_a_method_that_leaves_its_tier_is_an_error(program: str) -> None:
    target = DotnetDriver("dotnet", program)
    target.start({"tier": 2})
    target.settle()
    assert target.perform(do.AllocateNode(1)).error is None
    target.runtime.proved_code -= 1
    observation = target.perform(do.AllocateNode(1))
    target.settle()
    target.close()
    assert observation.error == "the method that allocates did not stay in its tier"


@pytest.mark.slow
def test_a_tier_that_is_never_reached_is_bad_input(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.targets.dotnet.runtime.SESSIONS_MAX", 1)
    never = JitTier((OPTIMIZED,), TIERS[2].flags)
    with pytest.raises(BadInputError, match=r"10.* did not compile the mutator in the tiers \(2,"):
        Runtime(program, COLLECTORS["workstation"], never, 1)


# What is documented.


def test_contexts_are_not_documented() -> None:
    implemented = contract("", (), (7, 8))
    promised = as_documented(implemented)
    assert (promised.sampling.counting, promised.sampling.distances) == (Bytes(), "random")
    assert promised.threads == implemented.threads
    assert not {*promised.observes} & {"outside", "at", "buffer", "offsets"}


@pytest.mark.slow
def test_each_answer_has_only_documented_fields(program: str) -> None:
    target = DotnetDriver(AS_DOCUMENTED, program)
    target.is_as_documented = True
    observes = {*target.start({"threads": 16}).observes}
    observations = carried_out(target, EACH_ACTION)
    target.close()
    assert {name for each in observations for name in dict(wire.unstructured(each))} <= observes


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_a_session_finds_only_what_is_not_sampled_as_documented() -> None:
    target = full(make_target(AS_DOCUMENTED))
    assert run_actions(target, {"threads": 3}, dense(1, 4000)) is None
    failure = first_failure(target, 20_000)
    assert failure is not None
    assert failure.identity == ("estimate", "samples", "allocate_array", "less"), failure.message
