"""The reference as a target: it tells all that its contract promises, and takes a broken heap."""

import attrs
import pytest

from fuzz.problems import BadInputError
from fuzz.protocol.actions import (
    ACTIONS,
    Action,
    AddMemoryPressure,
    AllocateArray,
    AllocateNode,
    AllocateOldString,
    AllocateString,
    AllocateWeakref,
    CheckHeap,
    CollectFull,
    CollectMinor,
    CollectStep,
    CopyArray,
    DisableSampling,
    EnableSampling,
    Fork,
    Free,
    LoadPrebuilt,
    PauseSampling,
    Pin,
    Read,
    ReadNumber,
    ReadWeakref,
    ResumeSampling,
    SetCallback,
    TakeIdentity,
    Unpin,
    Write,
    WriteNumber,
)
from fuzz.protocol.contract import Contract, Range, problem_of_configuration
from fuzz.protocol.observation import Observation
from fuzz.protocol.target import Target
from fuzz.targets import TargetOptions, make_target
from fuzz.targets.references.collector import ReferenceTarget
from gcmodel import HeapError, Parts
from gcmodel.collector.barrier import Barrier
from gcmodel.memory.objects import Object
from gcmodel.sampling.sample_point import Sampling


def last_of(target: Target, *actions: Action, **configuration: int) -> Observation:
    """What the target says of the last of these actions."""
    target.start(configuration)
    return [target.perform(action) for action in actions][-1]


# What it observes.


def test_an_object_in_the_nursery_has_a_size_and_an_address(reference: Target) -> None:
    told = last_of(reference, AllocateNode(0), AllocateString(1))
    assert (told.size, told.outside, told.at) == (32, False, 32)


def test_an_object_outside_has_a_size_and_no_address(reference: Target) -> None:
    told = last_of(reference, AllocateString(100))
    assert (told.size, told.outside, told.at) == (125, True, None)


def test_samples_are_told(reference: Target) -> None:
    told = last_of(reference, EnableSampling(8), AllocateNode(0))
    assert (told.samples, told.order) == (3, "sss")


@pytest.mark.parametrize("action", [CollectMinor(), CollectStep()], ids=str)
def test_a_minor_collection_is_told_with_the_graph_after_it(
    reference: Target, action: Action
) -> None:
    told = last_of(reference, AllocateNode(9), action, prebuilt_nodes=0, prebuilt_arrays=0)
    assert (told.minors, told.order, told.graph) == (1, "M", [[1, 9]])


def test_a_minor_collection_inside_an_allocation_is_told(reference: Target) -> None:
    told = last_of(reference, *[AllocateNode(0)] * 9)
    assert (told.minors, told.at) == (1, 0)


def test_a_report_is_told_with_its_figures(reference: Target) -> None:
    told = last_of(reference, EnableSampling(24), AllocateNode(0), CollectMinor())
    (report,) = told.reports
    assert told.order == "MR"
    assert (report.entries, report.memory_used_bytes, report.major_state) == ([1 << 2 | 1], 32, 0)
    assert report.arena_bytes > 0


@pytest.mark.parametrize(
    ("action", "number"), [(AllocateNode(-5), -5), (AllocateString(6), 6), (AllocateArray(7), 7)]
)
def test_a_number_is_told(reference: Target, action: Action, number: int) -> None:
    assert last_of(reference, action, ReadNumber(0)).value == number


def test_a_number_that_was_written_is_told(reference: Target) -> None:
    assert last_of(reference, AllocateNode(5), WriteNumber(0, 6), ReadNumber(0)).value == 6


def test_a_read_tells_the_lowest_slot_of_what_it_found(reference: Target) -> None:
    told = last_of(reference, AllocateNode(0), Write(0, 1, 0), Read(0, 1), Read(1, 1))
    assert told.value == 0


def test_a_read_of_null_tells_nothing(reference: Target) -> None:
    assert last_of(reference, AllocateNode(0), Read(0, 1)).value is None


def test_copied_items_are_read(reference: Target) -> None:
    arrays = (AllocateArray(1), AllocateArray(2), Write(0, 0, 1))
    assert last_of(reference, *arrays, CopyArray(0, 1, 0, 1, 1), Read(1, 1)).value == 1


@pytest.mark.parametrize(("actions", "alive"), [((), True), ((Free(0), CollectMinor()), False)])
def test_a_weak_reference_tells_whether_it_is_alive(
    reference: Target, actions: tuple[Action, ...], alive: bool
) -> None:
    weakref = 0 if actions else 1
    told = last_of(reference, AllocateNode(0), AllocateWeakref(0), *actions, ReadWeakref(weakref))
    assert told.alive is alive


def test_an_identity_is_told(reference: Target) -> None:
    assert last_of(reference, AllocateNode(0), AllocateNode(0), TakeIdentity(1)).identity == 1


def test_the_heap_is_walked_when_asked(reference: Target) -> None:
    told = last_of(reference, AllocateNode(5), LoadPrebuilt(1), Write(0, 0, 1), CheckHeap())
    assert told.graph == [[1, 5, 0, 1], [3, 4], [1, 0]]


@pytest.mark.parametrize("action", [AllocateNode(0), CheckHeap(), EnableSampling(8)], ids=str)
def test_the_heap_is_walked_otherwise_only_after_a_collection(
    reference: Target, action: Action
) -> None:
    walked = last_of(reference, action).graph is not None
    assert walked is isinstance(action, CheckHeap)


def test_the_pointers_are_told_after_every_action(reference: Target) -> None:
    told = last_of(reference, AllocateNode(0), EnableSampling(64), CheckHeap())
    assert (told.free, told.limit, told.top, told.sample_point) == (32, 96, 256, 96)


def test_no_sample_point_is_told_while_sampling_is_off(reference: Target) -> None:
    told = last_of(reference, EnableSampling(64), DisableSampling())
    assert (told.limit, told.sample_point) == (256, None)


@pytest.mark.parametrize("steps", range(5))
def test_the_state_of_the_major_collection_is_told(reference: Target, steps: int) -> None:
    assert last_of(reference, *[CollectStep()] * steps, CheckHeap()).state == steps % 4


def test_disabling_with_a_report_collects_first(reference: Target) -> None:
    told = last_of(reference, EnableSampling(24), AllocateNode(0), DisableSampling(report=True))
    assert (told.order, told.sample_point) == ("MR", None)


@pytest.mark.parametrize(("paged_arenas", "arena_bytes"), [(1, 512), (0, 0)])
def test_memory_is_told_after_a_full_collection(
    reference: Target, paged_arenas: int, arena_bytes: int
) -> None:
    contract = reference.start({"paged_arenas": paged_arenas})
    assert contract.old_space.arena_bytes == arena_bytes
    told = [reference.perform(each) for each in (AllocateNode(0), CollectMinor(), CollectFull())]
    assert [each.memory for each in told] == [None, None, [32, arena_bytes]]


def test_what_was_told_once_is_not_told_again(reference: Target) -> None:
    told = last_of(reference, EnableSampling(8), AllocateNode(0), CollectFull(), CheckHeap())
    assert (told.samples, told.minors, told.order, told.reports) == (0, 0, "", [])


def test_every_field_that_the_contract_promises_is_filled_by_some_action(reference: Target) -> None:
    promised = reference.start({}).observes
    actions = (
        *(EnableSampling(8), AllocateNode(0), AllocateWeakref(0), Write(0, 0, 0), Read(0, 0)),
        *(ReadWeakref(1), TakeIdentity(0), CollectMinor(), CollectFull()),
    )
    told = [reference.perform(action) for action in actions]
    nothing = Observation()
    filled = {n for n in promised if any(getattr(o, n) != getattr(nothing, n) for o in told)}
    assert filled == set(promised)


def test_the_contract_promises_every_field_but_errors(reference: Target) -> None:
    fields = {field.name for field in attrs.fields(Observation)}
    of_others = {"buffer", "ended", "offsets", "weights", "profile", "shares", "seed", "tlab"}
    assert {*reference.start({}).observes} == fields - of_others - {"error"}


# Pins, callbacks, pressure, old strings, pauses and forks.


def test_an_old_string_has_a_size_and_no_address(reference: Target) -> None:
    told = last_of(reference, AllocateOldString(1))
    assert (told.size, told.outside, told.at) == (26, True, None)


def test_a_pinned_object_divides_the_nursery(reference: Target) -> None:
    string = (AllocateNode(0), AllocateString(1), Pin(1), CollectMinor())
    assert last_of(reference, *string).top == 32
    assert last_of(reference, *string, Unpin(1), CollectMinor()).top == 256


def test_pinning_what_cannot_be_pinned_is_an_error(reference: Target) -> None:
    error = last_of(reference, AllocateNode(0), Pin(0)).error
    assert error is not None
    assert error.startswith("PinningError: ")


def test_a_callback_follows_the_collection_of_an_allocation(reference: Target) -> None:
    told = last_of(reference, SetCallback(0), *[AllocateNode(0)] * 9)
    assert (told.minors, told.at, told.free) == (1, 32, 64)


def test_a_callback_does_not_follow_a_collection_that_was_asked_for(reference: Target) -> None:
    told = last_of(reference, SetCallback(0), AllocateNode(0), CollectMinor())
    assert (told.minors, told.free) == (1, 0)


def test_no_callback_follows_once_it_is_taken_away(reference: Target) -> None:
    told = last_of(reference, SetCallback(0), SetCallback(None), *[AllocateNode(0)] * 9)
    assert (told.minors, told.at) == (1, 0)


def test_a_callback_that_leaves_too_little_room_is_followed_by_a_second_collection(
    reference: Target,
) -> None:
    tight = {"nursery_bytes": 64, "large_object_bytes": 64}
    told = last_of(reference, SetCallback(30), *[AllocateNode(0)] * 3, **tight)
    assert (told.order, told.at) == ("MM", 0)


def test_memory_pressure_makes_a_collection_due(reference: Target) -> None:
    pressed = last_of(reference, AllocateNode(0), AddMemoryPressure(2**40))
    assert (pressed.minors, pressed.free, pressed.limit) == (0, 32, 32)
    assert last_of(reference, AddMemoryPressure(2**40), AllocateNode(0)).minors >= 1


def test_a_little_memory_pressure_changes_nothing(reference: Target) -> None:
    told = last_of(reference, AllocateNode(0), AddMemoryPressure(1))
    assert (told.free, told.limit) == (32, 256)


def test_resuming_samples_with_the_period_that_was_paused(reference: Target) -> None:
    paused = (EnableSampling(64), PauseSampling())
    assert last_of(reference, *paused).sample_point is None
    assert last_of(reference, *paused, AllocateNode(0), ResumeSampling()).sample_point == 96


def test_a_fork_ends_sampling_and_leaves_nothing_to_resume(reference: Target) -> None:
    forked = (EnableSampling(8), AllocateNode(0), Fork())
    assert last_of(reference, *forked, ResumeSampling()).sample_point is None
    assert last_of(reference, *forked, CollectMinor()).order == "M"


def test_an_address_is_told_from_the_start_of_a_nursery_that_moved(reference: Target) -> None:
    told = last_of(reference, CollectMinor(), AllocateNode(0), AllocateNode(0), moving_nursery=1)
    assert (told.at, told.free, told.limit, told.top) == (32, 64, 256, 256)


# The contract's figures.


@pytest.fixture
def promise(reference: Target) -> Contract:
    return reference.start({})


def test_all_actions_are_carried_out(promise: Contract) -> None:
    of_others = {
        *("malloc", "calloc", "realloc", "set_period", "read_profile"),
        *("run_at_once", "end_thread", "begin_thread"),
    }
    assert set(promise.actions) == set(ACTIONS) - of_others


@pytest.mark.parametrize(
    ("kind", "length", "size_bytes"),
    [("node", 0, 32), ("weakref", 0, 16), ("array", 0, 16), ("array", 5, 56), ("string", 0, 32)],
)
def test_what_an_object_costs(promise: Contract, kind: str, length: int, size_bytes: int) -> None:
    assert promise.layout.cost(kind, length, nonmovable=False) == (size_bytes, False)


def test_what_a_string_outside_costs(promise: Contract) -> None:
    assert promise.layout.cost("string", 100, nonmovable=False) == (125, True)


def test_the_type_indices_are_those_of_reports_and_walks(promise: Contract) -> None:
    indices = {kind: layout.type_index for kind, layout in promise.layout.kinds.items()}
    assert indices == {"node": 1, "weakref": 2, "array": 3, "string": 4}


def test_periods_are_whole_words(promise: Contract) -> None:
    assert promise.sampling.period_bytes == Range(8, 2**40, 8)


def test_the_sampling_rule_is_the_papers(promise: Contract) -> None:
    rule = promise.sampling
    assert (rule.crosses, rule.surplus, rule.samples_per_allocation) == ("beyond", "carried", "all")


def test_sampling_excludes_pinning_unless_the_configuration_allows_it(reference: Target) -> None:
    assert reference.start({}).sampling.pinning == "excluded"
    assert reference.start({"pin_while_sampling": 1}).sampling.pinning == "allowed"


def test_where_pinning_is_allowed_both_can_be_on(reference: Target) -> None:
    actions = (EnableSampling(8), AllocateString(0), Pin(0))
    assert last_of(reference, *actions, pin_while_sampling=1).error is None
    assert last_of(reference, *actions).error is not None


def test_the_samples_are_a_period_apart(promise: Contract) -> None:
    assert promise.sampling.distances == "period"


@pytest.mark.parametrize(
    ("nursery_bytes", "large_object_bytes", "pins_max"),
    [(256, 64, 1), (256, 17, 4), (64, 64, 0), (128, 64, 0), (192, 64, 1), (320, 57, 2)],
)
def test_as_many_pins_are_promised_as_leave_room_for_the_largest_object(
    reference: Target, nursery_bytes: int, large_object_bytes: int, pins_max: int
) -> None:
    promise = reference.start(
        {"nursery_bytes": nursery_bytes, "large_object_bytes": large_object_bytes}
    )
    assert promise.pins_max == pins_max


@pytest.mark.parametrize("nursery_bytes", [256, 320, 512])
def test_beside_as_many_pins_as_are_promised_any_object_fits(
    reference: Target, nursery_bytes: int
) -> None:
    pins_max = reference.start({"nursery_bytes": nursery_bytes}).pins_max
    strings = [action for root in range(pins_max) for action in (AllocateString(30), Pin(root))]
    largest = [AllocateString(38)] * 20
    told = last_of(reference, *strings, CollectMinor(), *largest, nursery_bytes=nursery_bytes)
    assert (told.error, told.size) == (None, 64)


def test_the_largest_object_is_a_mebibyte(promise: Contract) -> None:
    assert promise.layout.object_bytes_max == 2**20


def test_the_defaults_are_legal(promise: Contract) -> None:
    defaults = {setting.name: setting.default for setting in promise.settings}
    assert problem_of_configuration(defaults, promise.settings) is None


def test_a_setting_that_is_left_out_has_its_default(reference: Target) -> None:
    defaults = {setting.name: setting.default for setting in reference.start({}).settings}
    assert reference.start(defaults) == reference.start({})


def test_the_contract_is_that_of_the_configuration(reference: Target) -> None:
    promise = reference.start(
        {"nursery_bytes": 512, "large_object_bytes": 100, "prebuilt_nodes": 2, "prebuilt_arrays": 3}
    )
    assert (promise.nursery_bytes, promise.layout.large_object_bytes) == (512, 100)
    assert [each.kind for each in promise.prebuilt] == ["node"] * 2 + ["array"] * 3


def test_the_heap_is_that_of_the_configuration(reference: Target) -> None:
    configuration = {"nursery_bytes": 512, "prebuilt_nodes": 2, "prebuilt_arrays": 3}
    told = last_of(reference, CheckHeap(), **configuration)
    assert (told.top, told.graph) == (512, [[1, 0]] * 2 + [[3, 4]] * 3)


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
def test_every_border_of_a_setting_can_run(
    reference: Target, configuration: dict[str, int]
) -> None:
    told = last_of(reference, AllocateNode(0), CollectFull(), CheckHeap(), **configuration)
    assert told.error is None


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
        ({"page_bytes": 64}, "config has no setting 'page_bytes'"),
    ],
    ids=str,
)
def test_an_illegal_configuration_is_bad_input(
    reference: Target, configuration: dict[str, int], problem: str
) -> None:
    with pytest.raises(BadInputError, match=problem):
        reference.start(configuration)


def test_an_illegal_configuration_leaves_the_heap_as_it_was(reference: Target) -> None:
    last_of(reference, AllocateNode(5))
    with pytest.raises(BadInputError):
        reference.start({"nursery_bytes": 60})
    assert reference.perform(ReadNumber(0)).value == 5


def test_starting_forgets_everything(reference: Target) -> None:
    last_of(reference, EnableSampling(8), *[AllocateNode(0)] * 5, TakeIdentity(0), CollectStep())
    told = last_of(reference, AllocateNode(0), TakeIdentity(0))
    assert (told.identity, told.free, told.state, told.sample_point) == (1, 32, 0, None)


def test_what_happened_just_before_a_start_is_not_told_after_it(reference: Target) -> None:
    class Crashing(Sampling):
        def report(self, statistics: object) -> None:
            raise LookupError("no report")

    target = ReferenceTarget("crashing", Parts(sampling=Crashing))
    assert last_of(target, CollectMinor()).error == "crash LookupError: no report"
    assert last_of(target, CheckHeap()).order == ""


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
def test_what_a_broken_heap_raises_is_observed(barrier: type[Barrier], error: str) -> None:
    target = ReferenceTarget("broken", Parts(barrier=barrier))
    assert last_of(target, AllocateNode(0), Write(0, 0, None)).error == error


def test_a_reference_to_a_dead_object_is_an_error_of_the_heap() -> None:
    target = make_target("reference+forgotten-remembered-entry")
    actions = (AllocateNode(0), CollectMinor(), AllocateNode(0), Write(0, 0, 1), Free(1))
    error = last_of(target, *actions, CollectMinor()).error
    assert error is not None
    assert error.startswith("DanglingReferenceError: ")


def test_after_an_error_nothing_is_told_of_pointers_that_may_mean_nothing() -> None:
    target = ReferenceTarget("broken", Parts(barrier=CrashingBarrier))
    told = last_of(target, AllocateNode(0), Write(0, 0, None))
    assert told == Observation(error="crash IndexError: no such card")


# Names of targets.


def test_a_target_bears_the_name_that_was_asked_for() -> None:
    assert make_target("reference+sample-on-equality").name == "reference+sample-on-equality"


@pytest.mark.parametrize("name", ["", "pypy", "Reference", "+one-sample-per-object"])
def test_an_unknown_target_is_bad_input(name: str) -> None:
    with pytest.raises(BadInputError, match="unknown target"):
        make_target(name)


@pytest.mark.parametrize("name", ["reference", "reference-dotnet", "incminimark", "jemalloc"])
def test_only_a_process_has_a_command(name: str) -> None:
    with pytest.raises(BadInputError, match=f"--command is the program of process; {name} needs"):
        make_target(name, TargetOptions(command=("true",)))


def test_an_unknown_bug_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="unknown bug"):
        make_target("reference+no-such-bug")


def test_a_bug_s_name_that_is_nearly_right_is_put_right() -> None:
    with pytest.raises(BadInputError, match=r"did you mean `toggle-kills-sampling`\?"):
        make_target("reference-jemalloc+toggle-kill")


@pytest.mark.parametrize("bug", ["", "one-sample-per-object+"])
def test_a_plus_that_no_bug_follows_is_bad_input(bug: str) -> None:
    with pytest.raises(BadInputError, match=r"names no bug after \+"):
        make_target(f"reference+{bug}")


def test_a_bug_planted_twice_is_bad_input() -> None:
    with pytest.raises(BadInputError, match="planted twice"):
        make_target("reference+sample-on-equality+sample-on-equality")


def test_a_planted_bug_changes_only_what_it_is_about() -> None:
    target = make_target("reference+disable-before-enable")
    assert last_of(target, EnableSampling(64), DisableSampling()).limit == 256
    assert last_of(target, DisableSampling()).limit == 0


def test_two_bugs_in_one_part_can_be_planted_together() -> None:
    target = make_target("reference+large-objects-uncounted+one-sample-per-object")
    outside = last_of(target, EnableSampling(8), AllocateNode(0, nonmovable=True))
    assert outside.samples == 0
    assert last_of(target, EnableSampling(8), AllocateNode(0)).samples == 1
