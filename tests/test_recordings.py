"""The reference against recorded sessions of PyPy's own collector, incminimark, with sampling.

The recordings hold one bug of that collector: a large object may leave the nursery's limit at a
sample point that has moved away. With this bug planted, the reference must agree in everything
that was recorded; without it, in everything up to the first step where the limit is stale, and in
what an allocation counts and how often it is sampled to the end.

The environment variable GCFUZZ_RECORDINGS names another archive (.tar.xz), or a folder of
archives and .jsonl files, to check instead of those in `recordings`.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from fuzz.oracles import Bench, Mismatch
from fuzz.protocol.actions import (
    Action,
    AllocateArray,
    AllocateNode,
    AllocateString,
    AllocateWeakref,
    CollectFull,
    CollectMinor,
    CollectProgress,
    CollectStep,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Free,
    Read,
    ReadNumber,
    ReadWeakref,
    Write,
)
from fuzz.protocol.contract import Contract, KindLayout, Layout, Range, SamplingRule
from fuzz.protocol.observation import Observation
from fuzz.protocol.observation import Report as ObservedReport
from fuzz.targets.bugs.known_bugs import planted_parts
from gcmodel import Configuration, Heap, Parts, Report
from gcmodel.memory.configuration import ARENA_BYTES
from gcmodel.memory.objects import Object

SHIPPED = Path(__file__).parent / "recordings"
CHOSEN = os.environ.get("GCFUZZ_RECORDINGS")

DEFAULT_LARGE_OBJECT_BYTES = 64
CARD_ITEMS = 4
NODE_FIELDS = {"prev": 0, "next": 1}
COLLECT_AND_REPORT = -1

JsonObject = dict[str, Any]


@attrs.frozen
class Session:
    """A recorded session: what was asked of the collector and what it answered, step by step."""

    archive: str
    name: str
    text: str = attrs.field(repr=False)

    def steps(self) -> list[tuple[JsonObject, JsonObject]]:
        """The commands with their answers."""
        lines = [json.loads(line) for line in self.text.splitlines()]
        return [(line["cmd"], line["ans"]) for line in lines]


# Reading the recordings.


def sessions_of_archive(path: Path) -> Iterator[Session]:
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None and member.name.endswith(".jsonl"):
                text = io.TextIOWrapper(content, "utf-8").read()
                yield Session(path.name.removesuffix(".tar.xz"), Path(member.name).name, text)


def sessions_of(path: Path) -> Iterator[Session]:
    """All sessions of an archive, or of a folder of archives and single sessions."""
    if not path.is_dir():
        yield from sessions_of_archive(path)
        return
    for archive in path.rglob("*.tar.xz"):
        yield from sessions_of_archive(archive)
    for session in path.rglob("*.jsonl"):
        yield Session(session.parent.name, session.name, session.read_text("utf-8"))


def session_pairs(sessions: list[Session]) -> list[tuple[Session, Session]]:
    """The sessions recorded twice, under the same name: without sampling and with it."""
    plain = {each.name: each for each in sessions if each.archive.endswith("-plain")}
    sampling = {each.name: each for each in sessions if each.archive.endswith("-sampling")}
    return [(plain[name], sampling[name]) for name in sorted(plain.keys() & sampling.keys())]


SESSIONS = sorted(
    sessions_of(Path(CHOSEN) if CHOSEN else SHIPPED), key=lambda each: (each.archive, each.name)
)
PAIRS = session_pairs(SESSIONS)

ONE_IN = 1 if CHOSEN else 4
"""The fast tests take one in so many of the shipped recordings."""

each_session = pytest.mark.parametrize(
    "session",
    [
        pytest.param(
            each, marks=[pytest.mark.slow] * (number % ONE_IN > 0), id=f"{each.archive}/{each.name}"
        )
        for number, each in enumerate(SESSIONS)
    ],
)
each_pair = pytest.mark.parametrize(
    ("plain", "sampling"), PAIRS, ids=[plain.name for plain, _ in PAIRS]
)


# Playing them on the reference.


def configuration_of(setup: JsonObject) -> Configuration:
    return Configuration(
        nursery_bytes=setup["nursery_size"],
        large_object_bytes=setup["large_object"] or DEFAULT_LARGE_OBJECT_BYTES,
        card_items=CARD_ITEMS if setup["card_marking"] else 0,
        paged_arenas=not setup["simple_arena"],
        single_step_marking=setup["visit_single_step"],
        prebuilt_nodes=0,
        prebuilt_arrays=0,
    )


class Player:
    """Carries the recorded commands out on a heap and says what can be seen after each.

    Objects have ids in the order of their allocation, as in the recordings; a node's number is
    its id.
    """

    def __init__(self, setup: JsonObject, *bugs: str) -> None:
        self.heap = Heap(configuration_of(setup), Parts(**planted_parts(bugs)))
        self._ids = itertools.count(1)
        self._objects: dict[int, Object] = {}

    def carry_out(self, command: JsonObject) -> JsonObject:
        """What the command itself answers, and what can be seen of the heap after it."""
        answer: JsonObject = getattr(self, "_do_" + command["op"])(command) or {}
        return answer | self._events() | self._registers()

    def _events(self) -> JsonObject:
        order, reports = self.heap.events.take()
        return {
            "events": order,
            "samples": order.count("s"),
            "minors": order.count("M"),
            "reports": [array_of(report) for report in reports],
        }

    def _registers(self) -> JsonObject:
        nursery, sampling = self.heap.nursery, self.heap.sampling
        return {
            "free": nursery.nursery_free,
            "top": nursery.nursery_limit,
            "real_top": nursery.nursery_top,
            "sample_point": sampling.sample_point if sampling.period_bytes else None,
            "period": sampling.period_bytes,
            "young_sampled": len(sampling.pending),
            "gc_state": self.heap.major.state,
            "nroots": len(self.heap.roots),
        }

    def internal_figures(self) -> JsonObject:
        """The figures that the deeper recordings have besides."""
        heap, major = self.heap, self.heap.major
        return {
            "x_ac_used": heap.arenas.used_bytes,
            "x_arenas": heap.arenas.arena_bytes // ARENA_BYTES,
            "x_cards": len(heap.barrier.dirty_arrays),
            "x_initial": major.initial_bytes,
            "x_threshold": major.threshold_bytes,
            "x_made_old": major.made_old_bytes,
            "x_made_old_limit": major.made_old_limit_bytes,
            "x_more": len(major.to_rescan),
            "x_to_trace": len(major.to_trace),
            "x_o2y": len(heap.barrier.remembered),
            "x_old_raw": len(heap.large_objects.old),
            "x_raw_sweep": len(heap.large_objects.to_sweep),
            "x_raw_used": heap.large_objects.used_bytes,
            "x_surviving": heap.minor.surviving_bytes,
            "x_weak": [len(heap.weakrefs.young), len(heap.weakrefs.old)],
        }

    # One method a command.

    def _do_setup(self, _command: JsonObject) -> None:
        """The heap was set up when the player was made."""

    def _do_noop(self, _command: JsonObject) -> None:
        """Stands in a plain recording for what sampling would do."""

    def _allocated(self, number: int, placed: tuple[int, int | None]) -> JsonObject:
        self._objects[number] = self.heap.roots[-1]
        size_bytes, address = placed
        return {"id": number, "size": size_bytes, "at": address, "outside": address is None}

    def _do_malloc_node(self, command: JsonObject) -> JsonObject:
        number = next(self._ids)
        answer = self._allocated(number, self.heap.allocate_node(number))
        for name, field in NODE_FIELDS.items():
            self.heap.write(len(self.heap.roots) - 1, field, command[name])
        return answer

    def _do_malloc_array(self, command: JsonObject) -> JsonObject:
        answer = self._allocated(next(self._ids), self.heap.allocate_array(command["length"]))
        for index, root in enumerate(command["items"]):
            self.heap.write(len(self.heap.roots) - 1, index, root)
        return answer

    def _do_malloc_string(self, command: JsonObject) -> JsonObject:
        return self._allocated(next(self._ids), self.heap.allocate_string(command["length"]))

    def _do_malloc_string_nonmovable(self, command: JsonObject) -> JsonObject:
        placed = self.heap.allocate_string(command["length"], nonmovable=True)
        return self._allocated(next(self._ids), placed)

    def _do_malloc_weakref(self, command: JsonObject) -> JsonObject:
        return self._allocated(next(self._ids), self.heap.allocate_weakref(command["root"]))

    def _do_drop(self, command: JsonObject) -> None:
        self.heap.free(command["root"])

    def _do_read(self, command: JsonObject) -> JsonObject:
        if command["field"] == "x":
            return {"value": self.heap.read_number(command["root"])}
        value = self.heap.read(command["root"], field_of(command))
        return {"value": None if value is None else self._id_of(value)}

    def _id_of(self, obj: Object) -> int:
        """An object that was moved left behind where it is now."""
        return next(
            number
            for number, allocated in self._objects.items()
            if obj is allocated or obj is allocated.forwarded_to
        )

    def _do_write(self, command: JsonObject) -> None:
        has_references = bool(self.heap.roots[command["root"]].refs)
        if has_references:
            self.heap.write(command["root"], field_of(command), command["value"])

    def _do_copy_array(self, command: JsonObject) -> None:
        names = ("source", "dest", "source_start", "dest_start", "length")
        self.heap.copy_array(*[command[name] for name in names])

    def _do_deref(self, command: JsonObject) -> JsonObject:
        return {"alive": self.heap.is_weakref_alive(command["root"])}

    def _do_id(self, command: JsonObject) -> None:
        self.heap.identity(command["root"])

    def _do_minor(self, _command: JsonObject) -> None:
        self.heap.collect_minor()

    def _do_minor_progress(self, _command: JsonObject) -> None:
        self.heap.collect_progress()

    def _do_major_step(self, _command: JsonObject) -> None:
        self.heap.collect_step()

    def _do_collect(self, _command: JsonObject) -> None:
        self.heap.collect_full()

    def _do_enable_sampling(self, command: JsonObject) -> None:
        self.heap.enable_sampling(command["period"])

    def _do_disable_sampling(self, command: JsonObject) -> None:
        self.heap.disable_sampling(report=command["how"] == COLLECT_AND_REPORT)

    def _do_check(self, _command: JsonObject) -> JsonObject:
        return {"live": len(self.heap.walk())}

    def _do_finish(self, command: JsonObject) -> JsonObject:
        whole_steps = attrs.evolve(self.heap.configuration, single_step_marking=False)
        self.heap.configuration = whole_steps
        self.heap.collect_full()
        return self._do_check(command)


def field_of(command: JsonObject) -> int:
    """The number of a node's field, or of an array's item."""
    field = command["field"]
    return NODE_FIELDS[field] if isinstance(field, str) else int(field)


def array_of(report: Report) -> list[int]:
    """A report as the collector gave it: the entries, then three numbers."""
    statistics = [report.memory_used_bytes, report.arena_bytes, report.major_state]
    return report.entries + statistics


# Comparing.


def recorded(answer: JsonObject, names: JsonObject) -> JsonObject:
    """What the recording says of the fields that the player has."""
    reports = [report["array"] for report in answer.get("reports", [])]
    return {name: reports if name == "reports" else answer.get(name) for name in names}


def is_limit_stale(answer: JsonObject) -> bool:
    """Whether the collector's limit is not what it should be after this step."""
    sample_point = answer["sample_point"]
    return sample_point is not None and answer["top"] != min(sample_point, answer["real_top"])


def assert_agrees_in_everything(
    player: Player, step: int, command: JsonObject, answer: JsonObject
) -> None:
    seen = player.carry_out(command)
    if "x_ac_used" in answer:
        seen |= player.internal_figures()
    assert seen == recorded(answer, seen), f"step {step}: {command}"


def assert_samples_alike(
    player: Player, step: int, command: JsonObject, answer: JsonObject
) -> None:
    seen = player.carry_out(command)
    names = {"samples", "size", "outside"}.intersection(seen)
    assert {name: seen[name] for name in names} == {name: answer[name] for name in names}, (
        f"step {step}: {command}"
    )


@pytest.fixture(scope="module")
def checked(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """How much was compared; the terminal says it when all is done (but not a worker's)."""
    counts: Counter[str] = Counter()
    yield counts
    plugins = request.config.pluginmanager
    terminal, capture = (
        plugins.get_plugin(name) for name in ("terminalreporter", "capturemanager")
    )
    if terminal is not None and capture is not None:
        with capture.global_and_fixture_disabled():
            what = ", ".join(f"{number} {name}" for name, number in counts.items())
            terminal.write_line(f"\nrecordings: {what}")


@each_session
def test_with_incminimarks_bug_the_reference_agrees_in_everything_recorded(
    session: Session, checked: Counter[str]
) -> None:
    steps = session.steps()
    player = Player(steps[0][0], "stale-limit-after-large")
    for step, (command, answer) in enumerate(steps):
        assert_agrees_in_everything(player, step, command, answer)
        checked["commands with the bug"] += 1
    checked["sessions with the bug"] += 1


@each_session
def test_without_that_bug_it_agrees_up_to_the_first_stale_limit_and_then_in_samples(
    session: Session, checked: Counter[str]
) -> None:
    steps = session.steps()
    player = Player(steps[0][0])
    stale = False
    for step, (command, answer) in enumerate(steps):
        stale = stale or is_limit_stale(answer)
        agree = assert_samples_alike if stale else assert_agrees_in_everything
        agree(player, step, command, answer)
        checked["commands without it"] += 1
    checked["sessions of them with a stale limit"] += stale


def recorded_limits_are_stale(session: Session) -> int:
    return sum(is_limit_stale(answer) for _, answer in session.steps())


@pytest.mark.skipif(CHOSEN is not None, reason="counts the shipped recordings")
@pytest.mark.parametrize(
    ("archive", "sessions", "commands", "stale_limits"),
    [
        ("incminimark-plain", 120, 7440, 0),
        ("incminimark-sampling", 120, 7440, 42),
        ("incminimark-deep", 67, 13374, 91),
    ],
)
def test_the_shipped_recordings_are_complete(
    archive: str, sessions: int, commands: int, stale_limits: int
) -> None:
    chosen = [each for each in SESSIONS if each.archive == archive]
    assert len(chosen) == sessions
    assert sum(len(each.steps()) for each in chosen) == commands
    assert sum(recorded_limits_are_stale(each) for each in chosen) == stale_limits


def test_there_are_recordings_to_check() -> None:
    assert SESSIONS != []


# The recordings among themselves.


def without_sampling(command: JsonObject) -> JsonObject:
    """The command that stands in the plain recording instead."""
    if command["op"] == "enable_sampling":
        return {"op": "noop"}
    if command["op"] == "disable_sampling":
        return {"op": "minor" if command["how"] == COLLECT_AND_REPORT else "noop"}
    return command


@each_pair
def test_a_plain_recording_leaves_sampling_out_and_nothing_else(
    plain: Session, sampling: Session
) -> None:
    expected = [without_sampling(command) for command, _ in sampling.steps()]
    assert [command for command, _ in plain.steps()] == expected


@each_pair
def test_with_sampling_incminimark_collected_at_the_same_commands_as_without(
    plain: Session, sampling: Session, checked: Counter[str]
) -> None:
    for step, ((command, without), (_, answer)) in enumerate(
        zip(plain.steps(), sampling.steps(), strict=True)
    ):
        if CHOSEN and is_limit_stale(answer):
            break  # It may collect too early from here on; in the shipped recordings it does not.
        events = answer["events"].replace("s", "").replace("R", "")
        assert (events, answer["minors"]) == (without["events"], without["minors"]), (
            f"step {step}: {command}"
        )
        checked["commands with and without sampling"] += 1


# The recordings and the oracles, without the reference.

KINDS = {
    "node": KindLayout(type_index=1, fixed_bytes=32),
    "weakref": KindLayout(type_index=2, fixed_bytes=16),
    "array": KindLayout(type_index=3, fixed_bytes=16, item_bytes=8),
    "string": KindLayout(type_index=4, fixed_bytes=25, item_bytes=1),
}
OBSERVED = (
    *("samples", "minors", "size", "outside", "value", "alive", "identity"),
    *("reports", "limit", "state"),
)


def contract_of(setup: JsonObject) -> Contract:
    """What incminimark promises, as far as it was recorded."""
    return Contract(
        nursery_bytes=setup["nursery_size"],
        layout=Layout(
            kinds=KINDS,
            large_object_bytes=setup["large_object"] or DEFAULT_LARGE_OBJECT_BYTES,
            word_bytes=8,
            object_bytes_max=2**20,
        ),
        sampling=SamplingRule(period_bytes=Range(8, 2**40, 8)),
        settings=(),
        actions=(),
        observes=OBSERVED,
    )


def actions_of(  # noqa: PLR0911 - one return a command
    command: JsonObject, answer: JsonObject, slot: int
) -> list[Action]:
    """The actions for a command; an object that it allocates gets that slot."""
    match command["op"]:
        case "malloc_node":
            links = [Write(slot, field, command[name]) for name, field in NODE_FIELDS.items()]
            return [AllocateNode(answer["id"]), *links]
        case "malloc_array":
            items = [Write(slot, index, root) for index, root in enumerate(command["items"])]
            return [AllocateArray(command["length"]), *items]
        case "malloc_string" | "malloc_string_nonmovable" as op:
            return [AllocateString(command["length"], nonmovable=op.endswith("nonmovable"))]
        case "malloc_weakref":
            return [AllocateWeakref(command["root"])]
        case "enable_sampling":
            return [EnableSampling(command["period"])]
        case "disable_sampling":
            return [DisableSampling(report=command["how"] == COLLECT_AND_REPORT)]
    return accesses_of(command) if command["op"] in ACCESSES else COLLECTIONS.get(command["op"], [])


ACCESSES = ("drop", "read", "write", "copy_array", "deref")
COLLECTIONS: dict[str, list[Action]] = {
    "minor": [CollectMinor()],
    "minor_progress": [CollectProgress()],
    "major_step": [CollectStep()],
    "collect": [CollectFull()],
    "finish": [CollectFull()],
}


def accesses_of(command: JsonObject) -> list[Action]:
    match command["op"]:
        case "drop":
            return [Free(command["root"])]
        case "read" if command["field"] == "x":
            return [ReadNumber(command["root"])]
        case "read":
            return [Read(command["root"], field_of(command))]
        case "write":
            return [Write(command["root"], field_of(command), command["value"])]
        case "copy_array":
            names = ("source", "dest", "source_start", "dest_start", "length")
            return [CopyArray(*[command[name] for name in names])]
    return [ReadWeakref(command["root"])]


class Witness:
    """Tells the oracles what was recorded: an action or more for a command, with its answer."""

    def __init__(self, setup: JsonObject) -> None:
        self.bench = Bench(contract_of(setup))
        self._ids: list[int] = []
        """The id of the object in each slot: the recordings name what was read by it."""

    def tell(self, command: JsonObject, answer: JsonObject) -> set[tuple[str, str]]:
        """Let the oracles judge one recorded step; which of them object, and to what."""
        if command["op"] == "write" and not self.bench.shadow.roots[command["root"]].refs:
            return set()  # Without effect, as the recordings have it.
        actions = actions_of(command, answer, len(self._ids))
        seen = self._observation(command, answer)
        objections = set()
        for action in actions:
            try:
                self.bench.judge(action, seen)
            except Mismatch as mismatch:
                objections.add((mismatch.oracle, mismatch.field))
            # The rest of the actions fill a new object, and nothing happens in them.
            seen = attrs.evolve(seen, samples=0, minors=0, reports=[])
        return objections

    def _observation(self, command: JsonObject, answer: JsonObject) -> Observation:
        value = self._slots_after(command, answer)
        return Observation(
            samples=answer["samples"],
            minors=answer["minors"],
            size=answer.get("size"),
            outside=answer.get("outside"),
            at=answer.get("at"),
            value=value,
            alive=answer.get("alive"),
            reports=[
                ObservedReport(report["array"][:-3], *report["array"][-3:])
                for report in answer.get("reports", [])
            ],
            free=answer["free"],
            limit=answer["top"],
            top=answer["real_top"],
            sample_point=answer["sample_point"],
            state=answer["gc_state"],
        )

    def _slots_after(self, command: JsonObject, answer: JsonObject) -> int | None:
        """Follow the slots; returns what was read, an object as the lowest slot that holds it."""
        value: int | None = answer.get("value")
        if "id" in answer:
            self._ids.append(answer["id"])
        elif command["op"] == "drop":
            del self._ids[command["root"]]
        elif value is not None and command["field"] != "x":
            self._ids.append(value)
            return self._ids.index(value)
        return value


@each_session
def test_the_oracles_object_to_the_stale_limits_and_to_nothing_else(
    session: Session, checked: Counter[str]
) -> None:
    steps = session.steps()
    witness = Witness(steps[0][0])
    for step, (command, answer) in enumerate(steps):
        expected = {("pointers", "limit")} if is_limit_stale(answer) else set()
        if not actions_of(command, answer, 0):
            continue  # The command only looks; what it would show was shown before.
        assert witness.tell(command, answer) == expected, f"step {step}: {command}"
        checked["commands judged by the oracles"] += 1
