"""The target `reference`: its observations, its contract, its settings, and a broken heap."""

from typing import Any

import attrs
import pytest
from target_helpers import carried_out

from fuzz.problems import BadInputError
from fuzz.protocol import actions as do
from fuzz.protocol.actions import ACTIONS, Action
from fuzz.protocol.contract import Contract, Range, problem_of_configuration
from fuzz.protocol.observation import Observation, Report
from fuzz.protocol.target import Target, name_of
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.references.collector import ReferenceTarget
from gcmodel import HeapError, Parts
from gcmodel.collector.barrier import Barrier
from gcmodel.memory.objects import Object
from gcmodel.sampling.sample_point import Sampling

NODE, CHECK, MINOR, STEP = do.AllocateNode(0), do.CheckHeap(), do.CollectMinor(), do.CollectStep()
FORK = (do.EnableSampling(8), NODE, do.Fork())
PINNED = (NODE, do.AllocateString(1), do.Pin(1), MINOR)
WEAKREF = (NODE, do.AllocateWeakref(0))
ARRAYS = (do.AllocateArray(1), do.AllocateArray(2), do.Write(0, 0, 1))
ONE_NODE = {"prebuilt_nodes": 0, "prebuilt_arrays": 0}
TIGHT = {"nursery_bytes": 64, "large_object_bytes": 64}


def last_of(target: Target, *actions: Action, **configuration: int) -> Observation:
    """The observation of the last of these actions."""
    target.start(configuration)
    return [target.perform(action) for action in actions][-1]


OBSERVED: dict[str, tuple[Any, ...]] = {
    "the size and place of an object in the nursery": (
        [NODE, do.AllocateString(1)],
        {"size": 32, "outside": False, "at": 32},
    ),
    "the size of a large object": (
        [do.AllocateString(100)],
        {"size": 125, "outside": True, "at": None},
    ),
    "the size of an old string": (
        [do.AllocateOldString(1)],
        {"size": 26, "outside": True, "at": None},
    ),
    "samples": ([do.EnableSampling(8), NODE], {"samples": 3, "order": "sss"}),
    "a minor collection and the graph": (
        [do.AllocateNode(9), MINOR],
        {"minors": 1, "order": "M", "graph": [[1, 9]]},
        ONE_NODE,
    ),
    "a step's minor collection and the graph": (
        [do.AllocateNode(9), STEP],
        {"minors": 1, "order": "M", "graph": [[1, 9]]},
        ONE_NODE,
    ),
    "a minor collection in an allocation": ([NODE] * 9, {"minors": 1, "at": 0}),
    "no graph after an allocation": ([NODE], {"graph": None}),
    "no graph after enabling": ([do.EnableSampling(8)], {"graph": None}),
    "a node's number": ([do.AllocateNode(-5), do.ReadNumber(0)], {"value": -5}),
    "a string's length": ([do.AllocateString(6), do.ReadNumber(0)], {"value": 6}),
    "an array's length": ([do.AllocateArray(7), do.ReadNumber(0)], {"value": 7}),
    "a written number": (
        [do.AllocateNode(5), do.WriteNumber(0, 6), do.ReadNumber(0)],
        {"value": 6},
    ),
    "the lowest slot of a read object": (
        [NODE, do.Write(0, 1, 0), do.Read(0, 1), do.Read(1, 1)],
        {"value": 0},
    ),
    "nothing for a null reference": ([NODE, do.Read(0, 1)], {"value": None}),
    "a copied item": ([*ARRAYS, do.CopyArray(0, 1, 0, 1, 1), do.Read(1, 1)], {"value": 1}),
    "a live weak reference": ([*WEAKREF, do.ReadWeakref(1)], {"alive": True}),
    "a dead weak reference": ([*WEAKREF, do.Free(0), MINOR, do.ReadWeakref(0)], {"alive": False}),
    "an identity": ([NODE, NODE, do.TakeIdentity(1)], {"identity": 1}),
    "the graph when asked": (
        [do.AllocateNode(5), do.LoadPrebuilt(1), do.Write(0, 0, 1), CHECK],
        {"graph": [[1, 5, 0, 1], [3, 4], [1, 0]]},
    ),
    "the pointers": (
        [NODE, do.EnableSampling(64), CHECK],
        {"free": 32, "limit": 96, "top": 256, "sample_point": 96},
    ),
    "no sample point while sampling is off": (
        [do.EnableSampling(64), do.DisableSampling()],
        {"limit": 256, "sample_point": None},
    ),
    "places in a nursery that moved": (
        [MINOR, NODE, NODE],
        {"at": 32, "free": 64, "limit": 256, "top": 256},
        {"moving_nursery": 1},
    ),
    "the report of disabling": (
        [do.EnableSampling(24), NODE, do.DisableSampling(report=True)],
        {"order": "MR", "sample_point": None},
    ),
    "nothing twice": (
        [do.EnableSampling(8), NODE, do.CollectFull(), CHECK],
        {"samples": 0, "minors": 0, "order": "", "reports": []},
    ),
    "a nursery divided by a pinned object": (PINNED, {"top": 32}),
    "a nursery after the pin": ([*PINNED, do.Unpin(1), MINOR], {"top": 256}),
    "a pin beside sampling if that is allowed": (
        [do.EnableSampling(8), do.AllocateString(0), do.Pin(0)],
        {"error": None},
        {"pin_while_sampling": 1},
    ),
    "a callback after an allocation's collection": (
        [do.SetCallback(0), *[NODE] * 9],
        {"minors": 1, "at": 32, "free": 64},
    ),
    "no callback after a requested collection": (
        [do.SetCallback(0), NODE, MINOR],
        {"minors": 1, "free": 0},
    ),
    "no callback once it is removed": (
        [do.SetCallback(0), do.SetCallback(None), *[NODE] * 9],
        {"minors": 1, "at": 0},
    ),
    "a second collection if the callback leaves no room": (
        [do.SetCallback(30), *[NODE] * 3],
        {"order": "MM", "at": 0},
        TIGHT,
    ),
    "a due collection after memory pressure": (
        [NODE, do.AddMemoryPressure(2**40)],
        {"minors": 0, "free": 32, "limit": 32},
    ),
    "no change by a little memory pressure": (
        [NODE, do.AddMemoryPressure(1)],
        {"free": 32, "limit": 256},
    ),
    "no sample point while paused": (
        [do.EnableSampling(64), do.PauseSampling()],
        {"sample_point": None},
    ),
    "the paused period after resuming": (
        [do.EnableSampling(64), do.PauseSampling(), NODE, do.ResumeSampling()],
        {"sample_point": 96},
    ),
    "nothing to resume after a fork": ([*FORK, do.ResumeSampling()], {"sample_point": None}),
    "no report after a fork": ([*FORK, MINOR], {"order": "M"}),
    "the configured heap": (
        [CHECK],
        {"top": 512, "graph": [[1, 0]] * 2 + [[3, 4]] * 3},
        {"nursery_bytes": 512, "prebuilt_nodes": 2, "prebuilt_arrays": 3},
    ),
}


@pytest.mark.parametrize("what", OBSERVED)
def test_the_reference_observes(reference: Target, what: str) -> None:
    actions, fields, *configuration = OBSERVED[what]
    observation = last_of(reference, *actions, **dict(*configuration))
    assert {name: getattr(observation, name) for name in fields} == fields


def test_a_report_has_entries_and_figures(reference: Target) -> None:
    observation = last_of(reference, do.EnableSampling(24), NODE, MINOR)
    arena_bytes = reference.start({}).old_space.arena_bytes
    assert observation.reports == [Report([1 << 2 | 1], 32, arena_bytes, 0)]
    assert observation.order == "MR"


@pytest.mark.parametrize("steps", range(5))
def test_the_state_of_the_major_collection_is_observed(reference: Target, steps: int) -> None:
    assert last_of(reference, *[STEP] * steps, CHECK).state == steps % 4


@pytest.mark.parametrize(("paged_arenas", "arena_bytes"), [(1, 512), (0, 0)])
def test_memory_is_observed_after_a_full_collection(
    reference: Target, paged_arenas: int, arena_bytes: int
) -> None:
    contract = reference.start({"paged_arenas": paged_arenas})
    assert contract.old_space.arena_bytes == arena_bytes
    observations = carried_out(reference, (NODE, MINOR, do.CollectFull()))
    assert [each.memory for each in observations] == [None, None, [32, arena_bytes]]


def test_memory_pressure_makes_the_next_allocation_collect(reference: Target) -> None:
    assert last_of(reference, do.AddMemoryPressure(2**40), NODE).minors >= 1


def test_some_action_fills_every_field_of_the_contract(reference: Target) -> None:
    promised = reference.start({}).observes
    actions = (
        *(do.EnableSampling(8), NODE, do.AllocateWeakref(0), do.Write(0, 0, 0), do.Read(0, 0)),
        *(do.ReadWeakref(1), do.TakeIdentity(0), MINOR, do.CollectFull()),
        *(do.AllocateString(9), do.CheckContents()),
    )
    observations = carried_out(reference, actions)
    nothing = Observation()
    filled = {
        n for n in promised if any(getattr(o, n) != getattr(nothing, n) for o in observations)
    }
    assert filled == set(promised)


# The contract.


@pytest.fixture
def contract(reference: Target) -> Contract:
    return reference.start({})


def test_the_contract_promises_every_field_but_those_of_others(contract: Contract) -> None:
    fields = {field.name for field in attrs.fields(Observation)}
    of_others = {"buffer", "ended", "offsets", "weights", "profile", "shares", "seed", "tlab"}
    of_others |= {"samples_by_member", "members"}
    assert {*contract.observes} == fields - of_others - {"error", "finalized", "exhausted"}


def test_the_contract_has_every_action_but_those_of_others(contract: Contract) -> None:
    of_others = {
        *("malloc", "calloc", "realloc", "set_period", "read_profile"),
        *("run_at_once", "end_thread", "begin_thread"),
        *("register_finalizer", "unregister_finalizer", "run_finalizers", "resurrect"),
        *("allocate_ephemeron", "read_ephemeron", "allocate_group"),
    }
    assert set(contract.actions) == set(ACTIONS) - of_others


@pytest.mark.parametrize(
    ("kind", "length", "size_bytes", "outside"),
    [
        *(("node", 0, 32, False), ("weakref", 0, 16, False), ("array", 0, 16, False)),
        *(("array", 5, 56, False), ("string", 0, 32, False), ("string", 100, 125, True)),
    ],
)
def test_the_size_of_an_object(
    contract: Contract, kind: str, length: int, size_bytes: int, outside: bool
) -> None:
    assert contract.layout.cost(kind, length, nonmovable=False) == (size_bytes, outside)


def test_the_type_indices_are_those_of_reports_and_walks(contract: Contract) -> None:
    indices = {kind: layout.type_index for kind, layout in contract.layout.kinds.items()}
    assert indices == {"node": 1, "weakref": 2, "array": 3, "string": 4}


def test_the_sampling_rule_is_the_papers(contract: Contract) -> None:
    rule = contract.sampling
    assert rule.period_bytes == Range(8, 2**40, 8)
    assert (rule.crosses, rule.surplus, rule.samples_per_allocation) == ("beyond", "carried", "all")
    assert (rule.distances, rule.pinning) == ("period", "excluded")


@pytest.mark.parametrize(
    ("nursery_bytes", "large_object_bytes", "pins_max"),
    [(256, 64, 1), (256, 17, 4), (64, 64, 0), (128, 64, 0), (192, 64, 1), (320, 57, 2)],
)
def test_the_pins_leave_room_for_the_largest_young_object(
    reference: Target, nursery_bytes: int, large_object_bytes: int, pins_max: int
) -> None:
    sizes = {"nursery_bytes": nursery_bytes, "large_object_bytes": large_object_bytes}
    assert reference.start(sizes).pins_max == pins_max


@pytest.mark.parametrize("nursery_bytes", [256, 320, 512])
def test_any_object_fits_beside_the_promised_pins(reference: Target, nursery_bytes: int) -> None:
    pins_max = reference.start({"nursery_bytes": nursery_bytes}).pins_max
    strings = [
        action for root in range(pins_max) for action in (do.AllocateString(30), do.Pin(root))
    ]
    largest = [do.AllocateString(38)] * 20
    observation = last_of(reference, *strings, MINOR, *largest, nursery_bytes=nursery_bytes)
    assert (observation.error, observation.size) == (None, 64)


def test_the_contract_states_the_configuration(reference: Target) -> None:
    contract = reference.start(
        {"nursery_bytes": 512, "large_object_bytes": 100, "prebuilt_nodes": 2, "prebuilt_arrays": 3}
    )
    assert (contract.nursery_bytes, contract.layout.large_object_bytes) == (512, 100)
    assert [each.kind for each in contract.prebuilt] == ["node"] * 2 + ["array"] * 3


# Settings.


def test_the_defaults_are_legal_and_may_be_left_out(reference: Target) -> None:
    contract = reference.start({})
    defaults = {setting.name: setting.default for setting in contract.settings}
    assert problem_of_configuration(defaults, contract.settings) is None
    assert reference.start(defaults) == contract


@pytest.mark.parametrize(
    "configuration",
    [
        *({"nursery_bytes": 64, "large_object_bytes": 17}, {"nursery_bytes": 65536}),
        *({"nursery_bytes": 65536, "large_object_bytes": 65536}, {"card_items": 0}),
        *({"card_items": 32}, {"paged_arenas": 0}, {"single_step_marking": 1}),
        *({"prebuilt_nodes": 0}, {"prebuilt_nodes": 8}, {"prebuilt_arrays": 8}),
        *({"moving_nursery": 1}, {"pin_while_sampling": 1}),
    ],
    ids=str,
)
def test_a_heap_runs_at_every_border_of_a_setting(
    reference: Target, configuration: dict[str, int]
) -> None:
    assert last_of(reference, NODE, do.CollectFull(), CHECK, **configuration).error is None


@pytest.mark.parametrize(
    ("configuration", "problem"),
    [
        ({"nursery": 64}, "config has no setting 'nursery'"),
        ({"nursery_bytes": 60}, "nursery_bytes is 60; it must be a multiple of 8 from 64 to 65536"),
        ({"large_object_bytes": 16}, "large_object_bytes is 16"),
        ({"large_object_bytes": 257}, "must be at most nursery_bytes, 256"),
        ({"card_items": 8}, "card_items is 8; it must be one of 0, 4, 32"),
        ({"paged_arenas": 2}, "paged_arenas is 2"),
        ({"prebuilt_nodes": 9}, "prebuilt_nodes is 9"),
        ({"moving_nursery": 2}, "moving_nursery is 2"),
        ({"pin_while_sampling": -1}, "pin_while_sampling is -1"),
    ],
    ids=str,
)
def test_an_illegal_configuration_is_bad_input(
    reference: Target, configuration: dict[str, int], problem: str
) -> None:
    last_of(reference, do.AllocateNode(5))
    with pytest.raises(BadInputError, match=problem):
        reference.start(configuration)
    assert reference.perform(do.ReadNumber(0)).value == 5


# A new trace.


def test_starting_forgets_everything(reference: Target) -> None:
    last_of(reference, do.EnableSampling(8), *[NODE] * 5, do.TakeIdentity(0), STEP)
    observation = last_of(reference, NODE, do.TakeIdentity(0))
    assert (observation.identity, observation.free, observation.state) == (1, 32, 0)
    assert observation.sample_point is None


def test_events_before_a_start_are_not_observed_after_it(reference: Target) -> None:
    class Crashing(Sampling):
        def report(self, statistics: object) -> None:
            raise LookupError("no report")

    target = ReferenceTarget("crashing", Parts(sampling=Crashing))
    assert last_of(target, MINOR).error == "crash LookupError: no report"
    assert last_of(target, CHECK).order == ""


# A broken heap.


class CrashingBarrier(Barrier):
    def before_write(self, obj: Object, index: int) -> None:
        raise IndexError("no such card")


class ComplainingBarrier(Barrier):
    def before_write(self, obj: Object, index: int) -> None:
        raise HeapError("out of cards")


@pytest.mark.parametrize(
    ("barrier", "error"),
    [
        (CrashingBarrier, "crash IndexError: no such card"),
        (ComplainingBarrier, "HeapError: out of cards"),
    ],
)
def test_an_exception_of_the_heap_is_the_whole_observation(
    barrier: type[Barrier], error: str
) -> None:
    target = ReferenceTarget("broken", Parts(barrier=barrier))
    assert last_of(target, NODE, do.Write(0, 0, None)) == Observation(error=error)


@pytest.mark.parametrize(
    ("name", "actions", "error"),
    [
        ("reference", (NODE, do.Pin(0)), "PinningError: "),
        ("reference", (do.EnableSampling(8), do.AllocateString(0), do.Pin(0)), "PinningError: "),
        (
            "reference+forgotten-remembered-entry",
            (NODE, MINOR, NODE, do.Write(0, 0, 1), do.Free(1), MINOR),
            "DanglingReferenceError: ",
        ),
    ],
)
def test_an_error_names_its_kind(name: str, actions: tuple[Action, ...], error: str) -> None:
    assert str(last_of(make_target(name), *actions).error).startswith(error)


# Names of targets.


def test_a_target_has_the_name_with_its_bugs() -> None:
    assert name_of(make_target("reference+sample-on-equality")) == "reference+sample-on-equality"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *((name, "unknown target") for name in ("", "pypy", "Reference", "+fixed-stride-bias")),
        ("reference+no-such-bug", "unknown bug"),
        ("reference-jemalloc+toggle-kill", r"did you mean `toggle-kills-sampling`\?"),
        ("reference+", r"names no bug after \+"),
        ("reference+one-sample-per-object+", r"names no bug after \+"),
        ("reference+sample-on-equality+sample-on-equality", "planted twice"),
        ("reference-dotnet+sample-on-equality", "can be planted in reference only, not in"),
    ],
)
def test_a_wrong_name_is_bad_input(name: str, problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        make_target(name)


@pytest.mark.parametrize("name", ["reference", "reference-dotnet", "incminimark", "jemalloc"])
def test_only_a_process_has_a_command(name: str) -> None:
    with pytest.raises(BadInputError, match=f"--command is the program of process; {name} needs"):
        make_target(name, TargetOptions(command=("true",)))


def test_a_planted_bug_changes_only_its_action() -> None:
    target = make_target("reference+disable-before-enable")
    assert last_of(target, do.EnableSampling(64), do.DisableSampling()).limit == 256
    assert last_of(target, do.DisableSampling()).limit == 0


def test_two_bugs_can_be_planted_in_one_part() -> None:
    target = make_target("reference+large-objects-uncounted+one-sample-per-object")
    outside = last_of(target, do.EnableSampling(8), do.AllocateNode(0, nonmovable=True))
    assert outside.samples == 0
    assert last_of(target, do.EnableSampling(8), NODE).samples == 1
