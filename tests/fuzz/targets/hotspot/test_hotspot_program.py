"""The target hotspot-program: each trace is one method, whose roots are local variables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from hotspot_sessions import AHEAD, ALLOCATED
from mistaken_program import removed_from
from night import fresh, part_of, rest_at_night
from target_helpers import ROOT, Changed, changed, first_failure, java_folder

from fuzz.engines.random import RandomEngine
from fuzz.failures.reduce import reduce_failure
from fuzz.mutator.shadow import Shadow
from fuzz.oracles import RERUN_ORACLES
from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract
from fuzz.protocol.layout import KindLayout
from fuzz.protocol.target import FullTarget, Target, full
from fuzz.reached.probes import ProbeCounter
from fuzz.replay import replay
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.hotspot.compilers import C1, C2, INTERPRETER
from fuzz.targets.hotspot.find import LIBRARY
from fuzz.targets.hotspot.machines import BUFFER_BYTES, COLLECTORS, SHENANDOAH, ZGC
from fuzz.targets.hotspot.program_contract import (
    ALLOCATE,
    DEOPTIMIZE,
    EACH_TIME,
    EVERY_SECOND_TIME,
    FULL,
    NOTHING,
    TRAP,
    VIRTUAL_THREAD,
    YOUNG,
)
from fuzz.targets.hotspot.virtual_thread import LEFT

pytestmark = pytest.mark.slow
MISTAKEN = ROOT / "tests" / "helpers" / "mistaken_program.py"
NOTICED_SHARE_MIN = 0.8
PROGRAMS = 60
ONE_PROCESS = {
    "collector": 0,
    "pointer_bytes": 4,
    "buffer_bytes": BUFFER_BYTES,
    "stress": 0,
    "verify": 0,
    "generations": 0,
}


@cache
def target_of(version: str) -> FullTarget:
    """It keeps its processes from test to test."""
    options = TargetOptions(paths={"java": java_folder(version)})
    return full(make_target("hotspot-program", options))


def mistaken(mistake: str, version: str = AHEAD) -> Target:
    command = (sys.executable, str(MISTAKEN), mistake, str(java_folder(version) / LIBRARY))
    return make_target("process", TargetOptions(command))


NIGHT = pytest.mark.night


@pytest.mark.parametrize("tier", [pytest.param(INTERPRETER, marks=NIGHT), C1, C2])
@pytest.mark.parametrize("version", [pytest.param(AHEAD, marks=NIGHT), ALLOCATED])
def test_a_session_in_each_tier_has_no_failure(version: str, tier: int) -> None:
    in_tier = Changed(target_of(version), lambda right: right, **ONE_PROCESS, tier=tier)
    assert first_failure(in_tier, part_of(400), fresh("1")) is None


WITH_GENERATIONS = [
    {"collector": COLLECTORS.index(collector), "generations": 1} for collector in (SHENANDOAH, ZGC)
]
IN_MACHINES: list[dict[str, int]] = [
    *({**each, VIRTUAL_THREAD: EACH_TIME} for each in WITH_GENERATIONS),
    *WITH_GENERATIONS,
    *({"collector": number} for number in range(1, len(COLLECTORS) - 1)),
    *({"buffer_bytes": 0}, {"stress": 1}, {"stress": 3}),
    *({"collector": number, "verify": 1} for number in range(len(COLLECTORS) - 1)),
]
"""What is drawn for a process, first with virtual threads."""


@pytest.mark.parametrize("settings", rest_at_night(IN_MACHINES), ids=str)
@pytest.mark.parametrize("version", rest_at_night([ALLOCATED, AHEAD]))
def test_a_session_in_each_machine_has_no_failure(version: str, settings: dict[str, int]) -> None:
    target = target_of(version)
    legal = {each.name: each.choices for each in target.default_contract().settings}
    chosen = {name: value for name, value in settings.items() if value in legal[name]}
    in_machine = Changed(target, lambda right: right, **ONE_PROCESS | {"tier": C2} | chosen)
    assert first_failure(in_machine, part_of(400), fresh("1")) is None


@pytest.mark.parametrize(
    ("version", "collector", "is_young"),
    [(ALLOCATED, ZGC, True), *((AHEAD, each, False) for each in (ZGC, SHENANDOAH))],
)
def test_young_objects_are_collected_alone_where_there_are_generations(
    version: str, collector: str, is_young: bool
) -> None:
    contract = target_of(version).start({"collector": COLLECTORS.index(collector)})
    assert ("collect_minor" in contract.actions) == is_young


ALLOCATED_TWICE = [do.EnableSampling(0), do.AllocateNode(1), do.AllocateString(1)]
WRITTEN = [do.AllocateNode(1), do.Write(0, 0, 0), do.Read(0, 0)]


PLANTED = [
    ("write", WRITTEN, "got null (what was last written to field 0"),
    ("stale read", WRITTEN, "got null (what was last written to field 0"),
    ("wrong line", ALLOCATED_TWICE, "has another line"),
]


@NIGHT
@pytest.mark.parametrize("tier", [INTERPRETER, C1, C2])
@pytest.mark.parametrize(("mistake", "trace", "message"), PLANTED)
def test_a_planted_mistake_is_found(
    mistake: str, trace: Sequence[Action], message: str, tier: int
) -> None:
    target = mistaken(mistake)
    failure = run_actions(target, {"tier": tier}, trace)
    assert failure is not None
    assert message in failure.message


@NIGHT
@pytest.mark.parametrize(
    ("mistake", "around", "sampled", "message"),
    [
        ("each round", {"loop": 1}, True, "has another object"),
        ("unlocked", {"locked": 1}, False, "the program throws an exception"),
        ("cleared", {"weak": 2}, False, "the program throws an exception"),
    ],
)
def test_a_mistake_in_a_trimming_is_found(
    mistake: str, around: dict[str, int], sampled: bool, message: str
) -> None:
    trace = [*ALLOCATED_TWICE[not sampled :], *[do.CollectFull()] * 3]
    target = mistaken(mistake)
    failure = run_actions(target, {"tier": C2, **around}, trace)
    assert failure is not None
    assert message in failure.message
    assert run_actions(target, {"tier": C2}, trace) is None


@NIGHT
def test_what_was_read_before_an_exception_is_answered() -> None:
    """Without the second write, the second read finds nothing, and the last action throws."""
    trace = [
        *(do.AllocateNode(1), do.AllocateNode(2), do.Write(0, 0, 1), do.Read(0, 0)),
        *(do.Write(1, 0, 0), do.Read(1, 0), do.WriteNumber(3, 5)),
    ]
    failure = run_actions(mistaken("write"), {"tier": INTERPRETER}, trace)
    assert failure is not None
    assert [*failure.actions] == trace[:-1]


@NIGHT
@pytest.mark.parametrize("rounds_inside", [0, 1])
@pytest.mark.parametrize("tier", [C1, C2])
def test_a_program_that_is_not_compiled_is_an_error(tier: int, rounds_inside: int) -> None:
    settings = {"tier": tier, "rounds_inside": rounds_inside}
    failure = run_actions(mistaken("uncompiled"), settings, [do.AllocateNode(1)])
    assert failure is not None
    assert "the program is not compiled at level" in failure.message


@NIGHT
def test_a_process_that_has_run_enough_programs_is_replaced() -> None:
    """Also if no rerun follows, whose header would be the next one."""
    target = Changed(mistaken("few programs"), lambda right: right, **ONE_PROCESS, tier=C1)
    engine = RandomEngine(target, "1")
    slices = [engine.run_slice(number, 10_000, ProbeCounter()) for number in range(1, 8)]
    assert [failure for each in slices for failure in each.failures] == []


@pytest.mark.parametrize("part", [1, 4])
def test_a_weak_reference_needs_no_object(part: int) -> None:
    settings = {**ONE_PROCESS, "tier": C2, "weak": part}
    assert run_actions(target_of(ALLOCATED), settings, [do.CollectFull()]) is None


@NIGHT
def test_a_reduction_removes_trimmings_before_actions() -> None:
    target = mistaken("stale read")
    trimmed = {"tier": C2, "rounds_inside": 1, "loop": 1, "branch": 2, "trap": 3, "calls": 4}
    failure = run_actions(target, trimmed, [do.AllocateNode(2), *WRITTEN[1:], do.CheckHeap()])
    assert failure is not None
    configurations: list[Mapping[str, int]] = []
    start = full(target).start

    def recorded(configuration: Mapping[str, int]) -> Contract:
        configurations.append(configuration)
        return start(configuration)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "start", recorded)
        reduced = reduce_failure(target, failure)
    assert reduced.configuration == {}
    assert len(reduced.actions) == len(WRITTEN)
    tried = [each for each in configurations if each != trimmed]
    assert all(len(each) < len(trimmed) for each in tried)


# Contracts with one mistake.


def _string_as_array(kinds: Mapping[str, KindLayout]) -> Mapping[str, KindLayout]:
    as_array = attrs.evolve(kinds["string"], type_index=kinds["array"].type_index)
    return {**kinds, "string": as_array}


def also(name: str) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    return lambda names: (*names, name)


MISTAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "kinds": ("heap", {"kinds": _string_as_array}),
    "large objects": ("heap", {"object_bytes_max": 2**18, "large_object_bytes": 2**18 + 1}),
    "weak references": ("heap", {"actions": also("allocate_weakref")}),
    "collections": ("heap", {"observes": also("minors")}),
    "sizes": ("sampling", {"observes": also("size")}),
    "each object sampled": ("estimate", {"distances": "random"}),
}
"""The oracle that finds it, and keys of the contract. C2 leaves objects out."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_contract_is_found(mistake: str) -> None:
    oracle, keys = MISTAKES[mistake]
    settings = {**ONE_PROCESS, "tier": C2}
    wrong = Changed(target_of(ALLOCATED), lambda right: changed(right, **keys), **settings)
    failure = first_failure(wrong, 2000)
    assert failure is not None
    assert failure.oracle == oracle


@NIGHT
def test_a_tier_that_reads_something_else_is_found() -> None:
    """Only the second run is wrong, which is in the interpreter."""
    target = mistaken("only interpreted")
    assert run_actions(target, {"tier": C1}, WRITTEN) is None
    failure = run_actions(target, {"tier": C1}, WRITTEN, RERUN_ORACLES.values())
    assert failure is not None
    assert (failure.oracle, failure.action) == ("tiers", "read")


# What a callback does.

LEFT_OUT = [
    do.EnableSampling(0),
    *(do.AllocateNode(1), do.AllocateNode(2), do.Write(0, 0, 1), do.CollectMinor()),
    *(do.AllocateString(3), do.AllocateArray(4), do.Read(0, 0), do.WriteNumber(1, 5)),
    *(do.AllocateNode(8), do.Read(0, 0), do.Free(1), do.Free(0), do.CheckHeap()),
]
"""C2 leaves the first node out. After the trap, which is before the collection, it is there."""


@NIGHT
@pytest.mark.parametrize("callback", [NOTHING, ALLOCATE, YOUNG, FULL, DEOPTIMIZE])
@pytest.mark.parametrize("version", [AHEAD, ALLOCATED])
def test_a_callback_may_do_anything_but_trap(version: str, callback: int) -> None:
    settings = {"tier": C2, "trap": 2, "callback": callback}
    assert run_actions(target_of(version), settings, LEFT_OUT) is None


@NIGHT
@pytest.mark.parametrize("version", [AHEAD, ALLOCATED])
def test_a_trap_in_a_callback_ends_the_machine(version: str) -> None:
    """See docs/findings/hotspot/trap-in-callback.md."""
    options = TargetOptions(paths={"java": java_folder(version)})
    target = make_target(DOCUMENTED, options)
    settings = {"tier": C2, "trap": 2, "callback": TRAP}
    failure = run_actions(target, settings, LEFT_OUT)
    assert failure is not None
    assert "unpack_on_stack" in failure.message
    assert run_actions(target, {**settings, "tier": INTERPRETER}, LEFT_OUT) is None
    assert run_actions(target, {**settings, "trap": 0}, LEFT_OUT) is None


# Virtual threads.

COLLECTED = [do.AllocateNode(1), do.CollectFull()]
UNLOCKED = "the program throws an exception"


def test_java_17_has_no_virtual_threads() -> None:
    with pytest.raises(BadInputError, match=r"virtual_thread is 1; it must be one of 0$"):
        target_of(AHEAD).start({VIRTUAL_THREAD: EACH_TIME})


@pytest.mark.parametrize("mistake", rest_at_night(["stays mounted", "answers while mounted"]))
def test_a_virtual_thread_that_is_mounted_in_a_collection_is_an_error(mistake: str) -> None:
    target = mistaken(mistake, ALLOCATED)
    failure = run_actions(target, {"tier": C2, VIRTUAL_THREAD: EACH_TIME}, COLLECTED)
    assert failure is not None
    assert (failure.action, LEFT in failure.message) == ("collect_full", True)
    assert run_actions(target, {"tier": C2}, COLLECTED) is None


@pytest.mark.parametrize(
    ("mistake", "trace", "message"),
    rest_at_night(
        [
            *PLANTED,
            ("unlocked", COLLECTED, UNLOCKED),
            ("another thread", ALLOCATED_TWICE, "has another thread"),
        ]
    ),
)
def test_a_mistake_in_a_virtual_thread_is_found(
    mistake: str, trace: Sequence[Action], message: str
) -> None:
    settings = {"tier": C2, VIRTUAL_THREAD: EACH_TIME, "locked": 1}
    failure = run_actions(mistaken(mistake, ALLOCATED), settings, trace)
    assert failure is not None
    assert message in failure.message


# The findings.

DOCUMENTED = "hotspot-program-as-documented"
FAILURES = [
    path
    for path in sorted((ROOT / "corpus" / "hotspot").glob("*.jsonl"))
    if traces.read(path).header.target == DOCUMENTED
]


@pytest.mark.parametrize("version", [pytest.param(AHEAD, marks=NIGHT), ALLOCATED])
@pytest.mark.parametrize("path", FAILURES, ids=lambda path: path.name)
def test_a_finding_fails_as_recorded(path: Path, version: str) -> None:
    options = TargetOptions(paths={"java": java_folder(version)})
    trace = traces.read(path)
    failure = replay(make_target(DOCUMENTED, options), trace, path.name)
    assert failure is not None
    assert trace.header.found is not None
    assert failure.message == trace.header.found.message
    # The promise is broken by what C2 leaves out.
    others = {**trace.header.config, "tier": C1}
    assert run_actions(make_target(DOCUMENTED, options), others, trace.actions) is None


# What a removed write changes.


class Announced(Changed):
    """Keeps the last trace."""

    contract: Contract
    trace: Sequence[Action] = ()

    def start(self, configuration: Mapping[str, int]) -> Contract:
        self.contract = super().start(configuration)
        return self.contract

    def announce(self, actions: Iterable[Action]) -> None:
        self.trace = [*actions]
        self._target.announce(self.trace)


def seen(contract: Contract, trace: Sequence[Action], removed: int | None) -> list[object]:
    """What reads and walks find, also after the last action, if a write is left out."""
    shadow, found = Shadow(contract), list[object]()
    for number, action in enumerate(trace):
        if isinstance(action, do.Read):
            ref = shadow.roots[action.root].refs[action.field]
            found.append(ref and ref.origin)
        elif isinstance(action, do.ReadNumber):
            found.append(shadow.roots[action.root].number)
        elif isinstance(action, do.CheckHeap):
            found.append(shadow.graph())
        # An object's origin is the number of its action, also after the write that is left out.
        shadow.follow(do.CheckHeap() if number == removed else action, 0)
    return [*found, shadow.graph()]


def is_relevant(contract: Contract, trace: Sequence[Action]) -> bool:
    """Whether the write that is removed from a trace makes a difference."""
    removed = removed_from(trace)
    if removed is None:
        return False
    try:
        return seen(contract, trace, None) != seen(contract, trace, removed)
    except (IndexError, AttributeError):
        return True  # A later action has no object.


@NIGHT
@pytest.mark.parametrize(
    ("version", "thread"), [(AHEAD, 0), (ALLOCATED, EACH_TIME), (ALLOCATED, EVERY_SECOND_TIME)]
)
def test_most_removed_writes_are_noticed(version: str, thread: int) -> None:
    """The gate: a harness that does not notice them would show nothing by its silence."""
    settings = {**ONE_PROCESS, "tier": C2, VIRTUAL_THREAD: thread}
    target = Announced(mistaken("write", version), lambda right: right, **settings)
    engine = RandomEngine(target, fresh("1"))
    relevant = noticed = 0
    for number in range(1, PROGRAMS):
        failures = engine.run_slice(number, 10_000, ProbeCounter()).failures
        if is_relevant(target.contract, target.trace):
            relevant += 1
            noticed += bool(failures)
    assert relevant > PROGRAMS // 4
    assert noticed >= NOTICED_SHARE_MIN * relevant
