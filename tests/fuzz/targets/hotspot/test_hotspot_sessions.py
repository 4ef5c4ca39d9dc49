"""Sessions on HotSpot: none fails, the reference does the same, and the findings are shown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
from hotspot_sessions import AHEAD, ALLOCATED, AS_DOCUMENTED, AS_USUAL, buffers_of
from night import fresh, part_of, rest_at_night
from target_helpers import CLEAN, ROOT, Changed, first_failure, java_folder
from typing_extensions import override

from fuzz.drawing.situation import Choices
from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.oracles import Bench
from fuzz.protocol import actions as do
from fuzz.protocol import trace as traces
from fuzz.protocol.actions import NAMES, Action
from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import FullTarget
from fuzz.reached.probes import ProbeCounter
from fuzz.replay import replay
from fuzz.run import run_actions
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.hotspot.machines import BUFFER_BYTES, COLLECTORS, EPSILON, WASTE_INCREMENT_WORDS
from fuzz.targets.references.collector import ReferenceTarget
from fuzz.terminal.commands.cli import run_command_line

FAILURES = [
    path
    for path in sorted((ROOT / "corpus" / "hotspot").glob("*.jsonl"))
    if traces.read(path).header.target == AS_DOCUMENTED
]
PAGES = ROOT / "docs" / "findings" / "hotspot"


# Sessions.


class Counting(ProbeCounter):
    """Counts the predicted places of objects, the other actions, samples and collections."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    @override
    def watch(
        self, action: Action, observation: Observation, bench: Bench, *before: object
    ) -> None:
        place = bench.sampling.place
        self.counts[place.where if place else NAMES[type(action)]] += 1
        self.counts["samples"] += observation.samples
        self.counts["collections"] += observation.minors


class Settled(RandomEngine):
    """An engine with fixed values for some settings."""

    def __init__(self, target: FullTarget, **settled: int) -> None:
        super().__init__(target, fresh("3"))
        self._settled = settled

    @override
    def draw_configuration(self, choices: Choices, number: int) -> dict[str, int]:
        return super().draw_configuration(choices, number) | self._settled


def counts_of(engine: RandomEngine, actions: int) -> Counter[str]:
    """The counts of a session without failures."""
    counting = Counting()
    for done in slices_of(engine, actions, counting):
        assert done.failures == []
    return counting.counts


@pytest.mark.parametrize(
    ("setting", "actions", "reached", "not_reached"),
    [
        ({}, 3000, ("new buffer", "outside", "collections", "enable_sampling"), ()),
        ({"pointer_bytes": 8}, 200, (), ()),
        ({"header_bytes": 16}, 200, (), ()),
        ({"buffer_bytes": 0}, 300, ("outside",), ("buffer", "new buffer")),
    ],
)
def test_a_session_predicts_every_sample_and_every_place(
    setting: dict[str, int],
    actions: int,
    reached: tuple[str, ...],
    not_reached: tuple[str, ...],
    target: FullTarget,
) -> None:
    counts = counts_of(Settled(target, **AS_USUAL | setting), actions)
    for name in ("samples", *reached):
        # Few objects lie outside a buffer: 23 to 41 of 3,000 actions, seeds 1 to 8.
        share = 300 if name == "outside" else 100
        assert counts[name] >= actions / share, name
    assert [name for name in not_reached if counts[name]] == []


ACTIONS = 10_000
LEAST = {
    "samples": 400,  # Seeds 1 to 4: 430 to 800. Inline code of 17 without buffers takes none.
    "new buffer": 250,
    "outside": 100,
    "collections": 50,
    "enable_sampling": 50,
    "disable_sampling": 50,
}


@pytest.mark.slow
@pytest.mark.parametrize("collector", COLLECTORS)
def test_a_session_with_each_collector_has_no_failure(collector: str, target: FullTarget) -> None:
    engine = Settled(target, collector=COLLECTORS.index(collector))
    counts = counts_of(engine, part_of(ACTIONS))
    least = LEAST | ({"collections": 0} if collector == EPSILON else {})
    too_few = [name for name in least if counts[name] < part_of(least[name])]
    assert too_few == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_at_night(["1", "7"]))
def test_a_long_session_has_no_failure(seed: str, tmp_path: Path) -> None:
    target = ["--target", "hotspot", "--java", str(java_folder(ALLOCATED))]
    plan = ["--actions", str(part_of(30_000)), "--seed", fresh(seed)]
    assert run_command_line(["run", *target, *plan, "--corpus", str(tmp_path)]) == CLEAN


@pytest.mark.slow
@pytest.mark.parametrize("version", rest_at_night([ALLOCATED, AHEAD]), scope="module")
def test_two_equal_machines_do_not_differ(java: Path, tmp_path: Path) -> None:
    """The seeds of started threads are random, and so are their samples."""
    arguments = ["--target", "hotspot", "--before", str(java), "--after", str(java)]
    arguments += ["--actions", "500", "--seed", "1", "--corpus", str(tmp_path)]
    assert run_command_line(["run", *arguments]) == CLEAN
    assert [*tmp_path.rglob("*.jsonl")] == []


@pytest.mark.slow
def test_a_new_machine_starts_before_epsilons_heap_is_full(target: FullTarget) -> None:
    """A trace takes an eighth of the heap."""
    trace = [each for _ in range(256) for each in (do.AllocateString(2**18 - 16), do.Free(0))]
    for _ in range(12):
        assert run_actions(target, {"collector": COLLECTORS.index(EPSILON)}, trace) is None


# The reference.


def widened(setting: Setting) -> Setting:
    """The setting with the machine's values too."""
    if setting.name != "waste_increment_bytes":
        return setting
    return attrs.evolve(setting, range=Range(0, 8 * WASTE_INCREMENT_WORDS, 8))


class Lockstep(FullTarget):
    """The reference with the machine's sizes; the machine carries out the same actions."""

    name = "hotspot"

    def __init__(self, machine: FullTarget) -> None:
        self._machine = machine
        charges_ahead = buffers_of(machine.default_contract()).charges == "ahead"
        without = ("collect_minor", "allocate_weakref", "load_prebuilt")
        self._reference = make_target(
            "reference-hotspot-17" if charges_ahead else "reference-hotspot",
            TargetOptions(without=without),
        )
        assert isinstance(self._reference, ReferenceTarget)
        self._reference.settings = tuple(map(widened, self._reference.settings))
        self.counts: Counter[str] = Counter()

    @override
    def start(self, configuration: Mapping[str, int]) -> Contract:
        settings = ("sampler_seed", "first_bytes", "threads")
        chosen = {name: configuration[name] for name in settings if name in configuration}
        promised = self._machine.start(chosen)
        figures = attrs.asdict(buffers_of(promised)) | {"nursery_bytes": promised.nursery_bytes}
        figures["least_bytes"] = 8  # No buffer is smaller than its reserve.
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
        expected = self._reference.perform(action)
        actual = self._machine.perform(as_large(action))
        assert (actual.error, actual.samples) == (None, expected.samples)
        if action.allocates:
            for field in ("minors", "at", "size"):
                assert getattr(actual, field) == getattr(expected, field)
            self.counts["minors"] += expected.minors
            self.counts["samples"] += expected.samples
        return expected


def as_large(action: Action) -> Action:
    """The action with an object of the same size, since headers and references are smaller."""
    if isinstance(action, do.AllocateString):
        return attrs.evolve(action, length=action.length + 9)
    if isinstance(action, do.AllocateArray):
        return attrs.evolve(action, length=2 * action.length)
    return action


@pytest.mark.slow
def test_the_reference_samples_places_and_collects_as_the_machine_does(target: FullTarget) -> None:
    lockstep = Lockstep(target)
    for done in slices_of(RandomEngine(lockstep, "1"), 6000, ProbeCounter()):
        assert done.failures == []
    assert lockstep.counts["samples"] > 100
    assert lockstep.counts["minors"] > 10


# The findings.


def shown_in(path: Path) -> str:
    """The versions that have the finding, according to its page."""
    pages = "".join(page.read_text("utf-8") for page in PAGES.glob("[a-z]*.md"))
    [versions] = re.findall(rf"corpus/hotspot/{path.name}\)\s+in\s+([\d, ]+)\b", pages)
    return str(versions)


@pytest.mark.slow
@pytest.mark.parametrize("path", FAILURES, ids=lambda path: path.name)
def test_a_finding_fails_in_the_versions_of_its_page(
    path: Path, version: str, as_documented: FullTarget
) -> None:
    trace = traces.read(path)
    assert trace.header.found is not None
    failure = replay(as_documented, trace, path.name)
    breaks = version in shown_in(path).split(", ")
    assert (failure and failure.message) == (trace.header.found.message if breaks else None)


@pytest.mark.slow
@pytest.mark.parametrize("path", FAILURES, ids=lambda path: path.name)
def test_a_finding_passes_under_the_contract_of_the_implementation(
    path: Path, target: FullTarget
) -> None:
    assert run_actions(target, {}, traces.read(path).actions) is None


@pytest.mark.slow
def test_a_session_under_the_documented_contract_fails_in_17_only(
    version: str, as_documented: FullTarget
) -> None:
    through_jni = Changed(as_documented, tier=0, buffer_bytes=BUFFER_BYTES)
    failure = first_failure(through_jni, 3000, seed="3")
    assert (failure is not None) == (version == AHEAD)


@pytest.mark.night
@pytest.mark.parametrize("settings", [{"tier": 3}, {"tier": 1, "buffer_bytes": 0}], ids=str)
def test_a_session_finds_what_inline_code_does_not_sample(
    settings: dict[str, int], version: str, as_documented: FullTarget
) -> None:
    """In 17 both, in 25 the first one: its code calls the machine outside of buffers."""
    inline = Changed(as_documented, lambda right: right, collector=0, **settings)
    failure = first_failure(inline, 10_000)
    if version == ALLOCATED and "buffer_bytes" in settings:
        assert failure is None
    else:
        assert failure is not None
        assert failure.oracle == "estimate"
