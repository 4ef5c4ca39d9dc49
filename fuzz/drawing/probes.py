"""Probes: named situations that a session should reach sometimes.

A probe that a session never reaches is a finding about the session: whatever depends on that
situation was not tested. Each is a question about one action, its observation and the state of
the oracles; the counts say how often the answer was yes. Of actions that concern a collection there
is a probe for each state of the major collection, with sampling off and with sampling on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import attrs

from fuzz.mutator.legality import length_max
from fuzz.mutator.shadow import Age, ShadowObject
from fuzz.oracles import Bench
from fuzz.oracles.sampling_facts import SamplingFacts
from fuzz.protocol import actions
from fuzz.protocol.actions import ACTIONS, NAMES, Action, collects
from fuzz.protocol.contract import DRAWN, Contract, Range
from fuzz.protocol.observation import MAJOR_STATES, Observation

FAR_ITEM = 32
"""From this item on an array's cards, of four items each, are in a second byte. (incminimark.)"""


@attrs.define
class Moment:
    """One action and what came of it, and what the oracles knew before."""

    action: Action
    observation: Observation
    bench: Bench
    before: SamplingFacts
    pending: Mapping[ShadowObject, int]
    """The samples not yet reported; where there was a report, the survival oracle counts anew."""

    @property
    def allocated(self) -> ShadowObject:
        """The object just allocated."""
        return self.bench.shadow.roots[-1]


def _toggled_while(state: int) -> Callable[[Moment], bool]:
    return lambda moment: moment.observation.state == state


def _root(moment: Moment, field: str = "root") -> ShadowObject:
    """The object that the action names in that field."""
    slot: int = getattr(moment.action, field)
    return moment.bench.shadow.roots[slot]


def _copies_young(moment: Moment, into: Age) -> bool:
    """Whether a young object was copied into another array of that age."""
    action, dest = moment.action, _root(moment, "dest")
    assert isinstance(action, actions.CopyArray)
    copied = dest.refs[action.dest_start : action.dest_start + action.length]
    return dest.age is into and any(obj.age is Age.YOUNG for obj in filter(None, copied))


_Group = dict[str, Callable[[Moment], bool]]

# Asked of every allocation while sampling is on: of one that was sampled,
_OF_SAMPLED: _Group = {
    "sample_in_nursery": lambda m: not m.allocated.outside,
    "sample_outside": lambda m: m.allocated.outside,
    "several_samples_in_nursery": lambda m: m.observation.samples > 1 and not m.allocated.outside,
    "several_samples_outside": lambda m: m.observation.samples > 1 and m.allocated.outside,
    "sample_at_end_of_context": lambda m: (
        0 < m.before.room_bytes[m.action.thread] < m.allocated.size_bytes
    ),
    "sampled_beside_obstacle": lambda m: m.bench.shadow.has_obstacles and not m.allocated.outside,
    "old_object_sampled": lambda m: isinstance(m.action, actions.AllocateOldString),
}
# of one for which something was collected,
_OF_COLLECTING: _Group = {
    "sample_then_minor_collection": lambda m: "sM" in m.observation.order,
    "minor_collection_then_sample": lambda m: (
        "M" in m.observation.order and m.observation.order.endswith("s")
    ),
    "callback_sampled": lambda m: bool(m.bench.sampling.callback_samples),
    "collected_again_after_callback": lambda m: m.bench.sampling.callback_was_reported,
    "several_minor_collections_in_allocation": lambda m: m.observation.minors > 1,
}
# and of any.
_OF_ALLOCATIONS: _Group = {
    "object_ends_at_sample_point": lambda m: m.bench.sampling.bytes_until_sample() == 0,
    "object_larger_than_period": lambda m: m.allocated.size_bytes > (m.before.period_bytes or 0),
    "sample_point_at_top": lambda m: m.observation.sample_point == m.observation.top,
}
# Asked of every block.
_OF_BLOCKS: _Group = {
    "block_sampled": lambda m: m.observation.samples > 0,
    "first_byte_sampled": lambda m: any(offset == 0 for offset in m.bench.sampling.offsets),
    "last_byte_sampled": lambda m: any(
        offset + 1 == m.bench.sampling.counted_bytes for offset in m.bench.sampling.offsets
    ),
    "due_while_paused": lambda m: m.bench.sampling.unrecorded > 0,
    "sampled_by_another_thread": lambda m: m.observation.samples > 0 and m.action.thread > 0,
}
# Asked of enabling, of disabling, and of both.
_OF_ENABLING: _Group = {
    "enabled_beyond_nursery": lambda m: (
        (m.bench.sampling.period_bytes or 0) > m.bench.nursery_bytes
    ),
    "enabled_with_room_left": lambda m: m.observation.sample_point == m.observation.top,
    "enabled_beside_obstacle": lambda m: m.bench.shadow.has_obstacles,
    "reenabled_while_enabled": lambda m: m.before.is_on,
}
_OF_DISABLING: _Group = {
    "disabled_never_enabled": lambda m: not m.bench.sampling.was_enabled,
    "pending_samples_dropped": lambda m: bool(m.pending) and collects(m.action) == "never",
    "pending_samples_reported_by_disabling": lambda m: (
        bool(m.pending) and collects(m.action) == "minor"
    ),
}
_OF_TOGGLING: _Group = {
    f"toggled_while_{name}": _toggled_while(state) for state, name in enumerate(MAJOR_STATES)
}
# Asked of every report of pending samples.
_OF_REPORTS: _Group = {
    "sampled_object_survived": lambda m: any(obj.survived for obj in m.pending),
    "sampled_object_died": lambda m: not all(obj.survived for obj in m.pending),
    "sampled_weakref": lambda m: any(obj.kind == "weakref" for obj in m.pending),
    "sampled_object_pinned": lambda m: any(obj.pinned for obj in m.pending),
    "sampled_object_weakly_referenced": lambda m: any(
        obj in m.bench.shadow.weak_targets for obj in m.pending
    ),
}
# And of these.
_OF_ACTIONS: dict[type[Action], _Group] = {
    **{action: _OF_BLOCKS for action in NAMES if action.allocates and action.kind == "block"},
    actions.Realloc: {
        "block_moved_and_sampled": lambda m: m.observation.samples > 0,
        "block_stayed": lambda m: m.bench.sampling.counted_bytes is None,
    },
    actions.SetPeriod: {
        "period_set_while_paused": lambda m: not m.bench.sampling.is_on,
        "period_set": lambda m: m.bench.sampling.period_bytes != m.before.period_bytes,
    },
    actions.ReadProfile: {"profile_of_samples": lambda m: any(m.observation.profile or ())},
    actions.EnableSampling: _OF_ENABLING | _OF_TOGGLING,
    actions.DisableSampling: _OF_DISABLING | _OF_TOGGLING,
    actions.ReadWeakref: {
        "weakref_died": lambda m: m.observation.alive is False,
        "weakref_to_pinned_object": lambda m: (
            (target := _root(m).target) is not None and target.pinned
        ),
    },
    actions.Write: {
        "far_item_written": lambda m: (
            isinstance(m.action, actions.Write) and m.action.field >= FAR_ITEM
        )
    },
    actions.CopyArray: {
        "young_item_copied_into_old_array": lambda m: _copies_young(m, Age.OLD),
        "young_item_copied_into_young_array": lambda m: _copies_young(m, Age.YOUNG),
        "young_item_copied_within_array": lambda m: (
            _root(m, "source") is _root(m, "dest") and _copies_young(m, Age.OLD)
        ),
        "copied_into_prebuilt_array": lambda m: (
            _root(m, "dest") in m.bench.shadow.prebuilt
            and _root(m, "source") not in m.bench.shadow.prebuilt
        ),
    },
    actions.TakeIdentity: {
        "identity_taken_of_young_object": lambda m: _root(m).age is Age.YOUNG,
        "identity_taken_of_pinned_object": lambda m: _root(m).pinned,
    },
    actions.Pin: {"pinned_while_sampling": lambda m: m.before.is_on},
    actions.AddMemoryPressure: {
        "collection_due": lambda m: m.observation.limit == m.observation.free,
        "collection_due_while_sampling": lambda m: (
            m.observation.limit == m.observation.free and m.before.is_on
        ),
    },
    actions.Fork: {"forked_with_pending_samples": lambda m: bool(m.pending)},
    actions.PauseSampling: {"paused_with_pending_samples": lambda m: bool(m.pending)},
    actions.ResumeSampling: {
        "resumed": lambda m: m.bench.sampling.is_on and not m.before.is_on,
        "resumed_without_pause": lambda m: m.bench.sampling.period_bytes == m.before.period_bytes,
    },
}

_OF_PINS = (actions.Pin, actions.Unpin)
_CONCERNED = dict.fromkeys(
    (
        *(actions.AddMemoryPressure, actions.AllocateOldString, actions.AllocateWeakref),
        *(actions.CopyArray, actions.Fork, actions.Free, actions.LoadPrebuilt, actions.Pin),
        *(actions.ReadWeakref, actions.TakeIdentity, actions.Unpin, actions.Write),
    )
)
"""What may do the wrong thing in one state of a major collection, and the right one in others."""
IN_EACH_STATE: dict[tuple[type[Action], int | None, bool], str] = {
    (action, state, is_sampling): f"{NAMES[action]}_while_{name}{'_and_sampling' * is_sampling}"
    for action in _CONCERNED
    for state, name in enumerate(MAJOR_STATES)
    for is_sampling in (False, True)
}
"""The probe of each of them: the action, the state after it, and whether sampling was on."""

_OF_ANY = (_OF_SAMPLED, _OF_COLLECTING, _OF_ALLOCATIONS)
_GROUPS = (*_OF_ANY, *_OF_ACTIONS.values(), _OF_REPORTS)
PROBES = tuple(dict.fromkeys([*chain.from_iterable(_GROUPS), *IN_EACH_STATE.values()]))
"""The names of all probes."""


_NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_OF_BLOCKS, ("samples",)),
    **dict.fromkeys(("first_byte_sampled", "last_byte_sampled"), ("samples", "drawn distances")),
    "due_while_paused": ("samples", "goes on counting"),
    "sampled_by_another_thread": ("samples", "threads"),
    "block_moved_and_sampled": ("samples",),
    "block_stayed": ("samples", "blocks stay"),
    "period_set": ("several periods",),
    "period_set_while_paused": ("pause_sampling",),
    "sample_in_nursery": ("samples", "objects in nursery"),
    "sample_outside": ("samples", "objects outside"),
    "several_samples_in_nursery": ("samples", "several samples in nursery"),
    "several_samples_outside": ("samples", "several samples outside"),
    "sample_then_minor_collection": ("samples", "order"),
    "minor_collection_then_sample": ("samples", "order", "sampled after collecting"),
    "sample_point_at_top": ("sample_point", "top"),
    "sample_at_end_of_context": ("samples", "contexts"),
    "sampled_beside_obstacle": ("samples", "pin", "objects in nursery"),
    "old_object_sampled": ("samples", "allocate_old_string"),
    "object_ends_at_sample_point": ("stated distances", "sampled beyond"),
    "object_larger_than_period": ("objects beyond period",),
    "callback_sampled": ("samples", "set_callback", "stated distances"),
    "collected_again_after_callback": ("samples", "set_callback"),
    "several_minor_collections_in_allocation": ("minors", "set_callback"),
    "disabled_never_enabled": ("off at first",),
    "enabled_beyond_nursery": ("periods beyond nursery",),
    "enabled_with_room_left": ("sample_point", "top"),
    "enabled_beside_obstacle": ("pin",),
    "pending_samples_dropped": ("reports",),
    "pending_samples_reported_by_disabling": ("reports",),
    **{f"toggled_while_{name}": ("state",) for name in MAJOR_STATES},
    "sampled_object_survived": ("reports",),
    "sampled_object_died": ("reports",),
    "sampled_weakref": ("reports", "allocate_weakref"),
    "sampled_object_pinned": ("reports", "pin", "pins beside pending samples"),
    "sampled_object_weakly_referenced": ("reports", "allocate_weakref"),
    "weakref_died": ("alive", "allocate_weakref"),
    "far_item_written": ("far items",),
    "young_item_copied_into_old_array": ("old arrays",),
    "young_item_copied_within_array": ("old arrays",),
    "copied_into_prebuilt_array": ("load_prebuilt",),
    "identity_taken_of_pinned_object": ("pin",),
    "weakref_to_pinned_object": ("pin", "allocate_weakref"),
    "pinned_while_sampling": ("enable_sampling", "pins while sampling"),
    "collection_due": ("limit", "free"),
    "collection_due_while_sampling": ("limit", "free", "enable_sampling"),
    "forked_with_pending_samples": ("reports",),
    "paused_with_pending_samples": ("reports",),
}
"""What a probe needs of a contract beside its action: other actions, fields, and features."""


def _values(contract: Contract, name: str, stated: Range) -> Range:
    """The values that a field of the contract can have: those of the setting with its name."""
    return next((each.range for each in contract.settings if each.name == name), stated)


def _object_bytes(contract: Contract) -> dict[str, Range]:
    """The sizes of objects that the actions can allocate, unrounded, by the kind of object."""
    sizes = {}
    for action in contract.actions:
        kind = ACTIONS[action].kind if action in ACTIONS else None
        layout = contract.layout.kinds.get(kind or "")
        if kind and layout:
            length = length_max(kind, contract) if layout.item_bytes else 0
            largest_bytes = layout.fixed_bytes + length * layout.item_bytes
            sizes[kind] = Range(layout.fixed_bytes, largest_bytes)
    return sizes


def _features(contract: Contract) -> Iterator[str]:
    """What only some contracts have."""
    rule, actions = contract.sampling, contract.actions
    features = {
        "stated distances": rule.is_stated,
        "drawn distances": rule.distances in DRAWN,
        "contexts": rule.counting.local_buffers_end_distances,
        "sampled after collecting": not rule.counting.samples_before_collecting,
        "sampled beyond": rule.crosses == "beyond",
        "goes on counting": rule.paused == "counting",
        "off at first": not rule.initial_period_bytes,
        "blocks stay": rule.realloc != "always",
        "threads": _values(contract, "threads", Range(1, contract.threads)).maximum > 1,
        "far items": "array" in contract.layout.kinds and length_max("array", contract) > FAR_ITEM,
        "old arrays": "minors" in contract.observes or "load_prebuilt" in actions,
        **_features_of_sizes(contract),
    }
    # Which setting allows pins is not known, but one may.
    is_allowed = rule.pinning == "allowed" or bool(contract.settings)
    features["pins while sampling"] = is_allowed
    features["pins beside pending samples"] = is_allowed or "pause_sampling" in actions
    return (name for name, is_there in features.items() if is_there)


def _features_of_sizes(contract: Contract) -> dict[str, bool]:
    """What follows from how large objects, periods and the nursery can be."""
    layout, rule = contract.layout, contract.sampling
    sizes = _object_bytes(contract)
    largest_bytes = max((each.maximum for each in sizes.values()), default=0)
    large_bytes = layout.large_object_bytes
    large = _values(contract, "large_object_bytes", Range(large_bytes, large_bytes))
    in_nursery = {kind for kind, each in sizes.items() if each.minimum < large.maximum}
    is_outside = layout.nonmovable == "outside" or largest_bytes >= large.minimum
    legal = Range(min(rule.periods), max(rule.periods)) if rule.periods else rule.period_bytes
    period = _values(contract, "period_bytes", legal)
    nursery = _values(contract, "nursery_bytes", Range(contract.nursery_bytes, 0))
    is_several = rule.samples_per_allocation == "all" and largest_bytes > period.minimum
    return {
        "objects in nursery": bool(in_nursery),
        "strings in nursery": "string" in in_nursery,
        "objects outside": is_outside,
        "objects beyond period": largest_bytes > period.minimum,
        "several samples in nursery": is_several
        and bool(in_nursery)
        and large.maximum - 1 > period.minimum,
        "several samples outside": is_several and is_outside,
        "several periods": period.minimum < period.maximum,
        "periods beyond nursery": 0 < nursery.minimum < period.maximum,
    }


def probes_for(contract: Contract) -> tuple[str, ...]:
    """The probes that a target under this contract can reach."""
    has = {*contract.actions, *contract.observes, *_features(contract)}
    if "strings in nursery" not in has:  # Only these are pinned, and allocated by callbacks.
        has -= {"pin", "unpin", "set_callback"}
    groups = [group for action, group in _OF_ACTIONS.items() if NAMES[action] in has]
    if not contract.samples:
        has.discard("reports")
    elif any(NAMES[each] in has for each in NAMES if each.allocates and each.kind != "block"):
        groups = [*_OF_ANY, *groups]
    names = dict.fromkeys(chain(*groups, _OF_REPORTS))
    in_each_state = (
        name
        for (action, _, is_sampling), name in IN_EACH_STATE.items()
        if {NAMES[action], "state"} <= has
        and (contract.samples or not is_sampling)
        and (not is_sampling or action not in _OF_PINS or "pins while sampling" in has)
    )
    return (*(name for name in names if has.issuperset(_NEEDS.get(name, ()))), *in_each_state)


_MAKES_OBJECTS = frozenset(each for each in NAMES if each.allocates and each.kind != "block")
_GROUPS_OF_ACTIONS: dict[type[Action], tuple[_Group, ...]] = {
    kind: (group,) for kind, group in _OF_ACTIONS.items()
}


def _groups_of_allocation(observation: Observation, until_bytes: int) -> tuple[_Group, ...]:
    """What is asked of an object's, while sampling is on."""
    groups: tuple[_Group, ...] = ()
    if observation.samples:
        groups = (_OF_SAMPLED, _OF_ALLOCATIONS)
    elif observation.minors or until_bytes == 0 or observation.sample_point == observation.top:
        groups = (_OF_ALLOCATIONS,)
    return (*groups, _OF_COLLECTING) if observation.minors else groups


class ProbeCounter:
    """Counts what one session reaches; if a probe is `wanted`, until that one is."""

    def __init__(self, wanted: str | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.wanted = wanted

    def watch(
        self,
        action: Action,
        observation: Observation,
        bench: Bench,
        before: SamplingFacts,
        pending: Mapping[ShadowObject, int],
    ) -> None:
        """Ask the probes about a moment that the oracles found right; of most, none is asked."""
        kind, is_sampling = type(action), before.period_bytes is not None
        state = IN_EACH_STATE.get((kind, observation.state, is_sampling))
        if state is not None:
            self.counts[state] += 1
        groups = _GROUPS_OF_ACTIONS.get(kind, ())
        if is_sampling and kind in _MAKES_OBJECTS:
            groups = _groups_of_allocation(observation, bench.sampling.until_bytes[0])
        if observation.reports and pending:
            groups += (_OF_REPORTS,)
        if groups:
            moment = Moment(action, observation, bench, before, pending)
            for group in groups:
                for name, reached in group.items():
                    if reached(moment):
                        self.counts[name] += 1
