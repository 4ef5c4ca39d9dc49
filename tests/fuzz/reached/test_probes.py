"""Each probe: the fewest actions that reach it, and nearly the same that do not."""

from collections import deque
from typing import Any

import attrs
import pytest
from command_line import Gcfuzz

from fuzz.engines.engine import slices_of
from fuzz.engines.random import RandomEngine
from fuzz.failure import Reaching
from fuzz.mutator.legality import why_illegal
from fuzz.protocol import actions as do
from fuzz.protocol.actions import ACTIONS, Action
from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.counting import Contexts
from fuzz.protocol.observation import MAJOR_STATES
from fuzz.protocol.target import Target
from fuzz.reached.probes import IN_EACH_STATE, ProbeCounter, probes_for
from fuzz.run import ProbeReached, Run, run_again
from fuzz.sessions.reach import reach
from fuzz.targets import make_target

INCONCLUSIVE = 3
MIB = 2**20
NODE = do.AllocateNode(0)  # 32 bytes
OUTSIDE = do.AllocateNode(0, nonmovable=True)  # 32 bytes
ARRAY = do.AllocateArray(3)  # 40 bytes
WEAKREF = do.AllocateWeakref(0)  # 16 bytes
NEARLY_FULL = [NODE] * 7  # 224 of 256 bytes
MINOR, STEP = do.CollectMinor(), do.CollectStep()
STRING = do.AllocateString(0)  # 32 bytes
LONGEST = do.AllocateString(223)  # 248 bytes, in a nursery that takes them
OBSTACLE = [STRING, do.Pin(0), MINOR]
PRESSED: list[Action] = [do.AddMemoryPressure(640)]
PINS_ALLOWED = {"pin_while_sampling": 1}
CONFIGURATIONS = {"collected_again_after_callback": {"large_object_bytes": 256}}
ALL_OF_REFERENCE = probes_for(make_target("reference").start({}))
OF_REFERENCE = [probe for probe in ALL_OF_REFERENCE if probe not in IN_EACH_STATE.values()]
YOUNG_ITEM_OF_1 = [NODE, ARRAY, do.Write(2, 0, 1)]
"""An array in slot 2 whose item is in slot 1."""
FAR = do.AllocateArray(33)
OFF, REPORT = do.DisableSampling(), do.DisableSampling(report=True)


def every(period_bytes: int) -> Action:
    return do.EnableSampling(period_bytes)


REACHED: dict[str, list[Action]] = {
    "sample_in_nursery": [every(24), NODE],
    "sample_outside": [every(24), OUTSIDE],
    "several_samples_in_nursery": [every(8), NODE],
    "several_samples_outside": [every(8), OUTSIDE],
    "sample_then_minor_collection": [*NEARLY_FULL, every(8), ARRAY],
    "minor_collection_then_sample": [*NEARLY_FULL, every(40), do.AllocateArray(4)],
    "object_ends_at_sample_point": [every(32), NODE],
    "object_larger_than_period": [every(24), NODE],
    "sample_point_at_top": [every(256), NODE],
    "sampled_beside_obstacle": [*OBSTACLE, every(8), NODE],
    "old_object_sampled": [every(8), do.AllocateOldString(0)],
    "callback_sampled": [do.SetCallback(0), every(8), *PRESSED, NODE],
    "collected_again_after_callback": [do.SetCallback(31), every(8), *PRESSED, LONGEST],
    "several_minor_collections_in_allocation": [every(8), do.AllocateString(616)],
    "enabled_beside_obstacle": [*OBSTACLE, every(8)],
    "enabled_beyond_nursery": [every(264)],
    "enabled_with_room_left": [NODE, every(224)],
    "reenabled_while_enabled": [every(8), every(8)],
    "disabled_never_enabled": [OFF],
    "pending_samples_dropped": [every(8), NODE, OFF],
    "pending_samples_reported_by_disabling": [every(8), NODE, REPORT],
    "toggled_while_scanning": [OFF],
    "toggled_while_marking": [STEP, OFF],
    "toggled_while_sweeping": [STEP, STEP, every(8)],
    "toggled_while_finalizing": [STEP, STEP, STEP, every(8)],
    "sampled_object_survived": [every(8), NODE, MINOR],
    "sampled_object_died": [every(8), NODE, do.Free(0), MINOR],
    "sampled_weakref": [NODE, every(8), WEAKREF, MINOR],
    "weakref_died": [NODE, WEAKREF, do.Free(0), MINOR, do.ReadWeakref(0)],
    "young_item_copied_into_old_array": [
        *(ARRAY, MINOR, *YOUNG_ITEM_OF_1, do.CopyArray(2, 0, 0, 0, 1))
    ],
    "young_item_copied_into_young_array": [ARRAY, *YOUNG_ITEM_OF_1, do.CopyArray(2, 0, 0, 0, 1)],
    "young_item_copied_within_array": [
        *(ARRAY, MINOR, NODE, do.Write(0, 0, 1), do.CopyArray(0, 0, 0, 1, 1))
    ],
    "old_array_filled_with_young_object": [ARRAY, MINOR, NODE, do.FillArray(0, 1)],
    "young_item_moved_within_old_array": [
        *(ARRAY, MINOR, NODE, do.Write(0, 0, 1), do.MoveArray(0, 0, 1, 1))
    ],
    "far_item_written": [FAR, do.Write(0, 32, 0)],
    "weakref_to_pinned_object": [STRING, do.Pin(0), WEAKREF, do.ReadWeakref(1)],
    "identity_taken_of_young_object": [NODE, do.TakeIdentity(0)],
    "sampled_object_pinned": [every(8), STRING, do.Pin(0), MINOR],
    "sampled_object_weakly_referenced": [every(8), STRING, WEAKREF, MINOR],
    "copied_into_prebuilt_array": [ARRAY, do.LoadPrebuilt(1), do.CopyArray(0, 1, 0, 0, 1)],
    "identity_taken_of_pinned_object": [STRING, do.Pin(0), do.TakeIdentity(0)],
    "pinned_while_sampling": [STRING, every(8), do.Pin(0)],
    "collection_due": PRESSED,
    "collection_due_while_sampling": [every(8), *PRESSED],
    "forked_with_pending_samples": [every(8), NODE, do.Fork()],
    "paused_with_pending_samples": [every(8), NODE, do.PauseSampling()],
    "resumed": [every(8), do.PauseSampling(), do.ResumeSampling()],
    "resumed_without_pause": [do.ResumeSampling()],
}
NEARLY: dict[str, list[list[Action]]] = {
    "sample_in_nursery": [[every(32), NODE], [every(8), OUTSIDE]],
    "sample_outside": [[every(32), OUTSIDE], [every(8), NODE]],
    "several_samples_in_nursery": [[every(16), NODE], [every(8), OUTSIDE]],
    "several_samples_outside": [[every(16), OUTSIDE], [every(8), NODE]],
    "sample_then_minor_collection": [
        [*NEARLY_FULL, every(8), NODE],
        [*NEARLY_FULL, every(40), do.AllocateArray(4)],
    ],
    "minor_collection_then_sample": [
        [*NEARLY_FULL, every(48), do.AllocateArray(4)],
        [*NEARLY_FULL, every(40), MINOR, do.AllocateArray(4)],
    ],
    "object_ends_at_sample_point": [[every(40), NODE], [every(24), NODE]],
    "object_larger_than_period": [[every(32), NODE]],
    "sample_point_at_top": [[every(264), NODE], [every(248), NODE]],
    "enabled_beyond_nursery": [[every(256)]],
    "enabled_with_room_left": [[NODE, every(216)], [NODE, every(232)]],
    "reenabled_while_enabled": [[every(8), OFF, every(8)]],
    "disabled_never_enabled": [[every(8), OFF], [every(8), OFF, OFF]],
    "pending_samples_dropped": [[every(8), NODE, REPORT], [every(8), NODE, MINOR, OFF]],
    "pending_samples_reported_by_disabling": [
        [every(8), NODE, OFF],
        [every(8), NODE, MINOR, REPORT],
    ],
    "toggled_while_scanning": [[STEP, OFF]],
    "toggled_while_marking": [[OFF, STEP], [STEP, STEP, OFF]],
    "toggled_while_sweeping": [[STEP, STEP, STEP, OFF]],
    "toggled_while_finalizing": [[STEP, STEP, STEP, STEP, OFF]],
    "sampled_object_survived": [[every(8), NODE, do.Free(0), MINOR], [every(8), NODE, OFF, MINOR]],
    "sampled_object_died": [[every(8), NODE, MINOR, do.Free(0), MINOR]],
    "sampled_weakref": [[NODE, WEAKREF, every(8), NODE, MINOR]],
    "weakref_died": [
        [NODE, WEAKREF, do.Free(0), do.ReadWeakref(0)],
        [NODE, WEAKREF, MINOR, do.ReadWeakref(1)],
    ],
    "young_item_copied_into_old_array": [[ARRAY, *YOUNG_ITEM_OF_1, do.CopyArray(2, 0, 0, 0, 1)]],
    "young_item_copied_into_young_array": [
        [ARRAY, MINOR, *YOUNG_ITEM_OF_1, do.CopyArray(2, 0, 0, 0, 1)]
    ],
    "young_item_copied_within_array": [
        [ARRAY, NODE, do.Write(0, 0, 1), do.CopyArray(0, 0, 0, 1, 1)]
    ],
    "old_array_filled_with_young_object": [
        [ARRAY, NODE, do.FillArray(0, 1)],
        [ARRAY, NODE, MINOR, do.FillArray(0, 1)],
        [ARRAY, MINOR, do.FillArray(0, None)],
    ],
    "young_item_moved_within_old_array": [
        [ARRAY, NODE, do.Write(0, 0, 1), do.MoveArray(0, 0, 1, 1)],
        [ARRAY, NODE, do.Write(0, 0, 1), MINOR, do.MoveArray(0, 0, 1, 1)],
    ],
    "far_item_written": [[FAR, do.Write(0, 31, 0)]],
    "weakref_to_pinned_object": [[STRING, WEAKREF, do.Pin(0), do.Unpin(0), do.ReadWeakref(1)]],
    "identity_taken_of_young_object": [[NODE, MINOR, do.TakeIdentity(0)]],
    "sampled_beside_obstacle": [[*OBSTACLE, every(32), NODE], [*OBSTACLE, every(8), OUTSIDE]],
    "old_object_sampled": [[every(32), do.AllocateOldString(0)], [every(8), OUTSIDE]],
    "callback_sampled": [
        [do.SetCallback(0), every(64), *PRESSED, NODE],
        [do.SetCallback(0), every(8), MINOR, NODE],
    ],
    "collected_again_after_callback": [[do.SetCallback(31), every(8), *PRESSED, NODE]],
    "several_minor_collections_in_allocation": [[every(8), *PRESSED, NODE]],
    "enabled_beside_obstacle": [
        [STRING, do.Pin(0), every(8)],
        [*OBSTACLE, do.Unpin(0), MINOR, every(8)],
    ],
    "sampled_object_pinned": [
        [every(8), STRING, do.Pin(0), do.Unpin(0), MINOR],
        [every(8), STRING, MINOR, OFF, STRING, do.Pin(1), MINOR],
    ],
    "sampled_object_weakly_referenced": [[every(8), STRING, MINOR, WEAKREF, MINOR]],
    "copied_into_prebuilt_array": [
        [ARRAY, do.LoadPrebuilt(1), do.CopyArray(1, 0, 0, 0, 1)],
        [do.LoadPrebuilt(1), do.CopyArray(0, 0, 0, 0, 1)],
    ],
    "identity_taken_of_pinned_object": [[STRING, do.TakeIdentity(0), do.Pin(0)]],
    "pinned_while_sampling": [[STRING, every(8), OFF, do.Pin(0)]],
    "collection_due": [[do.AddMemoryPressure(608)]],
    "collection_due_while_sampling": [[every(8), OFF, *PRESSED]],
    "forked_with_pending_samples": [[every(8), NODE, MINOR, do.Fork()]],
    "paused_with_pending_samples": [[every(8), NODE, MINOR, do.PauseSampling()]],
    "resumed": [[every(8), do.ResumeSampling()]],
    "resumed_without_pause": [[every(8), do.PauseSampling(), do.ResumeSampling()]],
}


def count(target: Target, probe: str, actions: list[Action]) -> int:
    """How often actions reach a probe, up to the first that is illegal."""
    probes = ProbeCounter()
    run = Run(target, CONFIGURATIONS.get(probe, PINS_ALLOWED), probes)
    for action in actions:
        if why_illegal(action, run.contract, run.bench.shadow):
            break
        run.step(action)
    return probes.counts[probe]


def test_every_probe_has_its_actions_and_near_misses() -> None:
    assert set(REACHED) == set(NEARLY) == set(OF_REFERENCE)


def test_each_probe_is_reached_once(reference: Target) -> None:
    for probe in OF_REFERENCE:
        assert count(reference, probe, REACHED[probe]) == 1, probe


def test_no_probe_is_reached_without_one_of_its_actions(reference: Target) -> None:
    for probe, actions in REACHED.items():
        fewer = [actions[:number] + actions[number + 1 :] for number in range(len(actions))]
        assert [each for each in fewer if count(reference, probe, each)] == [], probe


def test_no_near_miss_reaches_a_probe_although_all_its_actions_are_legal(reference: Target) -> None:
    for probe, misses in NEARLY.items():
        for actions in misses:
            run = Run(reference, CONFIGURATIONS.get(probe, PINS_ALLOWED), probes := ProbeCounter())
            for action in actions:
                assert why_illegal(action, run.contract, run.bench.shadow) is None, probe
                run.step(action)
            assert probes.counts[probe] == 0, probe


# Of finalizers and ephemerons.

FINALIZER, AGAIN = do.RegisterFinalizer(0, 0), do.RegisterFinalizer(0, 1)
FULL, RUN, KEEP, RESURRECT = (
    do.CollectFull(),
    do.RunFinalizers(),
    do.RunFinalizers(True),
    do.Resurrect(0),
)
DEAD = [NODE, FINALIZER, do.Free(0), FULL]
DESTRUCTIBLE = do.AllocateNode(0, destructor=7)
CHAIN = [NODE, NODE, NODE, *[do.AllocateEphemeron(each, each + 1) for each in (0, 1, 2)]]
OF_DEATHS: dict[str, tuple[list[Action], list[Action]]] = {
    "finalizer_of_old_object": ([NODE, MINOR, FINALIZER], [NODE, FINALIZER]),
    "finalizer_of_sampled_object": ([every(8), NODE, FINALIZER], [NODE, every(8), FINALIZER]),
    "finalizer_of_holder_of_pinned_object": (
        [NODE, STRING, do.Pin(1), do.Write(0, 0, 1), FINALIZER],
        [NODE, STRING, do.Pin(1), FINALIZER],
    ),
    "finalizer_of_resurrected_object": ([*DEAD, KEEP, RESURRECT, AGAIN], [NODE, FINALIZER, AGAIN]),
    "finalizer_beside_destructor": ([DESTRUCTIBLE, FINALIZER], [NODE, FINALIZER]),
    "destructor_called": ([DESTRUCTIBLE, do.Free(0), FULL, RUN], [*DEAD, RUN]),
    "finalizer_ran": ([*DEAD, RUN], [NODE, FINALIZER, do.Free(0), RUN]),
    "several_finalizers_ran": ([*DEAD, *DEAD[:1], AGAIN, do.Free(0), FULL, RUN], [*DEAD, RUN]),
    "resurrected_while_marking": ([*DEAD, KEEP, STEP, RESURRECT], [*DEAD, KEEP, RESURRECT]),
    "resurrected_with_child": (
        [NODE, do.Write(0, 0, 0), *DEAD[1:], KEEP, RESURRECT],
        [*DEAD, KEEP, RESURRECT],
    ),
    "resurrected_with_finalizer": (
        [NODE, AGAIN, *DEAD[1:], KEEP, do.Resurrect(1)],
        [*DEAD, KEEP, RESURRECT],
    ),
    "ephemeron_without_value": (
        [NODE, NODE, do.AllocateEphemeron(0, 1), do.Free(0), FULL, do.ReadEphemeron(1)],
        [NODE, NODE, do.AllocateEphemeron(0, 1), FULL, do.ReadEphemeron(2)],
    ),
    "value_of_third_ephemeron": (
        [NODE, *CHAIN, do.ReadEphemeron(6)],
        [NODE, *CHAIN, do.ReadEphemeron(5)],
    ),
}
"""For each probe, actions that reach it once, and a near miss."""


def test_each_probe_of_finalizers_is_reached_once_and_not_by_its_near_miss() -> None:
    target = make_target("reference-finalizers")
    plain = {*ALL_OF_REFERENCE}
    assert {*probes_for(target.start({}))} - plain == OF_DEATHS.keys()
    for probe, (reaching, missing) in OF_DEATHS.items():
        assert count(target, probe, reaching) == 1, probe
        assert count(target, probe, missing) == 0, probe


# Of exhaustion.

FULL_HEAP = do.AllocateString(872)
"""With the reserved half of a nursery, its 904 bytes exceed the limit, 1024 bytes."""
OF_EXHAUSTION: dict[str, tuple[list[Action], list[Action]]] = {
    "allocation_exhausted": ([FULL_HEAP], [do.AllocateString(840)]),
    "collection_exhausted": (
        [do.AllocateString(800), *[do.AllocateString(38)] * 8, FULL],
        [do.AllocateString(800), FULL],
    ),
    "exhausted_beside_finalizer": ([NODE, FINALIZER, FULL_HEAP], [FULL_HEAP, NODE, FINALIZER]),
    "exhausted_while_sampling": ([every(8), FULL_HEAP], [FULL_HEAP, every(8)]),
    "allocated_after_exhaustion": ([FULL_HEAP, NODE], [NODE, FULL_HEAP]),
    "sampled_after_exhaustion": ([FULL_HEAP, every(8), NODE], [every(8), FULL_HEAP]),
}


def test_each_probe_of_exhaustion_is_reached_once_and_not_by_its_near_miss() -> None:
    target = make_target("reference-exhaustion")
    others = {*ALL_OF_REFERENCE, *OF_DEATHS}
    assert {*probes_for(target.start({}))} - others == OF_EXHAUSTION.keys()
    for probe, (reaching, missing) in OF_EXHAUSTION.items():
        assert count(target, probe, reaching) == 1, probe
        assert count(target, probe, missing) == 0, probe


def test_only_a_target_that_survives_it_can_be_exhausted_again() -> None:
    contract = make_target("reference-exhaustion").start({})
    assert contract.exhaustion is not None
    often = attrs.evolve(contract.exhaustion, survivable=None)
    assert "exhausted_again" not in probes_for(contract)
    assert "exhausted_again" in probes_for(attrs.evolve(contract, exhaustion=often))


def test_ephemerons_may_lead_into_a_cycle() -> None:
    """The key of the first one is its value too."""
    into = [NODE, NODE, do.AllocateEphemeron(0, 0), do.AllocateEphemeron(0, 1)]
    actions = [*into, do.AllocateEphemeron(1, 0), do.ReadEphemeron(4)]
    assert count(make_target("reference-finalizers"), "value_of_third_ephemeron", actions) == 1


# Of each state of a major collection.

BEFORE: dict[type[Action], list[Action]] = {
    do.AddMemoryPressure: [do.AddMemoryPressure(8)],
    do.AllocateOldString: [do.AllocateOldString(0)],
    do.AllocateWeakref: [STRING, WEAKREF],
    do.CopyArray: [ARRAY, do.CopyArray(0, 0, 0, 0, 1)],
    do.Fork: [do.Fork()],
    do.Free: [STRING, do.Free(0)],
    do.LoadPrebuilt: [do.LoadPrebuilt(0)],
    do.Pin: [STRING, do.Pin(0)],
    do.ReadWeakref: [STRING, WEAKREF, do.ReadWeakref(1)],
    do.TakeIdentity: [STRING, do.TakeIdentity(0)],
    do.Unpin: [STRING, do.Pin(0), do.Unpin(0)],
    do.Write: [ARRAY, do.Write(0, 0, None)],
}
"""Each of these actions, and what it needs before it."""


def test_each_action_is_counted_in_its_state(reference: Target) -> None:
    for (action, state, is_sampling), probe in IN_EACH_STATE.items():
        steps = state or 0
        *before, last = BEFORE[action]
        on = [every(MIB)] if is_sampling else []
        assert count(reference, probe, [*[STEP] * steps, *before, *on, last]) == 1, probe
        assert count(reference, probe, [*[STEP] * (steps + 1), *before, *on, last]) == 0, probe


def test_every_time_counts_but_only_while_sampling_is_on(reference: Target) -> None:
    actions = [every(24), NODE, NODE, NODE, OFF, NODE]
    assert count(reference, "object_larger_than_period", actions) == 3


@pytest.mark.night
def test_a_session_of_200000_actions_reaches_every_probe(reference: Target) -> None:
    counter = ProbeCounter()
    deque(slices_of(RandomEngine(reference, "1"), 200_000, counter), maxlen=0)
    assert [each for each in probes_for(reference.start({})) if not counter.counts[each]] == []


@pytest.mark.slow
def test_a_probe_is_reached_by_its_smallest_trace_if_it_was_reached(reference: Target) -> None:
    results = reach(reference, seed=1, actions=60)
    assert {bool(each.times) for each in results} == {True, False}
    for each in results:
        assert (each.smallest is None) == (not each.times)
        if each.smallest is not None:
            run = Run(reference, each.smallest.configuration, probes := ProbeCounter())
            for action in each.smallest.actions:
                run.step(action)
            assert probes.counts[each.probe] == 1


@pytest.mark.slow
def test_probes_are_printed_with_their_smallest_traces(gcfuzz: Gcfuzz) -> None:
    printed = gcfuzz(INCONCLUSIVE, "probes", "--actions", "60").out
    assert "\n  disable_sampling" in printed
    assert "never" in printed
    assert f"of {len(ALL_OF_REFERENCE)} probes reached in 60 actions" in printed


def test_a_wanted_probe_ends_the_run_with_the_trace_that_reaches_it(reference: Target) -> None:
    run = Run(reference, {}, ProbeCounter(wanted="object_larger_than_period"))
    run.step(every(8))
    with pytest.raises(ProbeReached) as reached:
        run.step(NODE)
    trace = reached.value.trace
    assert trace == Reaching({}, (every(8), NODE), "object_larger_than_period")
    assert run_again(reference, trace, {}, [*trace.actions, NODE]) == trace
    assert run_again(reference, trace, {}, [NODE]) is None


# Which probes a contract lets a target reach.

OF_COPIES = {f"young_item_copied_{where}_array" for where in ("into_old", "into_young", "within")}


def test_without_an_action_its_probes_cannot_be_reached(reference: Target) -> None:
    contract = reference.start({}).without(("copy_array", "pin", "allocate_weakref"))
    missing = set(OF_REFERENCE) - set(probes_for(contract))
    assert missing == OF_COPIES | {
        *("copied_into_prebuilt_array", "pinned_while_sampling", "weakref_died"),
        *("enabled_beside_obstacle", "sampled_beside_obstacle", "weakref_to_pinned_object"),
        *("sampled_object_pinned", "identity_taken_of_pinned_object", "sampled_weakref"),
        "sampled_object_weakly_referenced",
    }


def test_without_sampling_only_the_heap_s_probes_can_be_reached(reference: Target) -> None:
    sampling = [name for name in ACTIONS if name.endswith("_sampling")]
    probes = probes_for(reference.start({}).without((*sampling, "fork", "add_memory_pressure")))
    assert set(probes) - set(IN_EACH_STATE.values()) == OF_COPIES | {
        *("weakref_died", "weakref_to_pinned_object", "copied_into_prebuilt_array"),
        *("identity_taken_of_young_object", "identity_taken_of_pinned_object"),
        *("old_array_filled_with_young_object", "young_item_moved_within_old_array"),
        "far_item_written",
    }
    assert not [probe for probe in probes if probe.endswith("_and_sampling")]


def without_field(contract: Contract, field: str) -> Contract:
    return attrs.evolve(
        contract, observes=tuple(each for each in contract.observes if each != field)
    )


def test_without_a_field_the_probes_that_look_at_it_cannot_be_reached(reference: Target) -> None:
    missing = set(ALL_OF_REFERENCE) - set(probes_for(without_field(reference.start({}), "state")))
    assert missing == {
        *(f"toggled_while_{state}" for state in MAJOR_STATES),
        *IN_EACH_STATE.values(),
    }


def without_settings(contract: Contract, **layout: Any) -> Contract:
    return attrs.evolve(contract, settings=(), layout=attrs.evolve(contract.layout, **layout))


def test_without_objects_in_the_nursery_its_probes_cannot_be_reached(reference: Target) -> None:
    probes = probes_for(without_settings(reference.start({}), large_object_bytes=1))
    of_pins = {each for each in ALL_OF_REFERENCE if {"pin", "unpin", "pinned"} & {*each.split("_")}}
    assert set(ALL_OF_REFERENCE) - set(probes) == of_pins | {
        *("sample_in_nursery", "several_samples_in_nursery"),
        *("sampled_beside_obstacle", "enabled_beside_obstacle"),
        *("callback_sampled", "collected_again_after_callback"),
        "several_minor_collections_in_allocation",
    }


def test_what_a_setting_makes_possible_can_be_reached(reference: Target) -> None:
    contract = without_settings(reference.start({}), large_object_bytes=1)
    large = Setting("large_object_bytes", 1, Range(1, 64))
    assert "sample_in_nursery" in probes_for(attrs.evolve(contract, settings=(large,)))


@pytest.mark.parametrize(
    ("probe", "rule"),
    [
        ("enabled_beyond_nursery", {"period_bytes": Range(8, 256, 8)}),
        ("object_larger_than_period", {"period_bytes": Range(2**20, 2**21, 8)}),
        ("several_samples_in_nursery", {"periods": (64, 128)}),
        ("several_samples_outside", {"samples_per_allocation": "one"}),
        ("minor_collection_then_sample", {"counting": Contexts(64, outside="in_turn")}),
        ("pinned_while_sampling", {"pinning": "excluded"}),
        ("unpin_while_marking_and_sampling", {"pinning": "excluded"}),
    ],
    ids=str,
)
def test_what_the_rule_excludes_cannot_be_reached(
    probe: str, rule: dict[str, Any], reference: Target
) -> None:
    contract = without_settings(reference.start({"pin_while_sampling": 1}))
    sampling = attrs.evolve(contract.sampling, **rule)
    assert probe in probes_for(contract)
    assert probe not in probes_for(attrs.evolve(contract, sampling=sampling))


def test_where_nothing_ages_no_item_is_copied_into_an_old_array(reference: Target) -> None:
    contract = reference.start({}).without(("load_prebuilt",))
    probes = probes_for(without_field(contract, "minors"))
    assert OF_COPIES.intersection(probes) == {"young_item_copied_into_young_array"}
