"""Probes: named situations that a session should reach.

If a session never reaches a probe, it has not tested what depends on that situation. A probe is a
question about one action, its observation and the state of the oracles; a session counts how often
the answer is yes. A probe also states what it needs of a contract, so the probes that a target can
reach follow from its contract. Some actions have a probe for each state of the major collection,
with sampling off and with sampling on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import attrs

from fuzz.mutator.legality import length_max
from fuzz.mutator.objects import Age, ShadowObject
from fuzz.mutator.shadow import Shadow
from fuzz.oracles import Bench
from fuzz.oracles.sampling_state import SamplingState
from fuzz.protocol import actions
from fuzz.protocol.actions import ACTIONS, NAMES, Action, collects
from fuzz.protocol.contract import DRAWN, Contract, Range
from fuzz.protocol.observation import MAJOR_STATES, Observation

FAR_ITEM = 32
"""From this item on, the cards of an array are in its second byte, where a card has 4 items."""


@attrs.define
class Moment:
    """One action, its observation, and what the oracles knew before it."""

    action: Action
    observation: Observation
    shadow: Shadow
    sampling: SamplingState
    nursery_bytes: int
    before: SamplingState
    pending: Mapping[ShadowObject, int]
    """The samples that were not reported before the action."""

    @property
    def allocated(self) -> ShadowObject:
        """The object, or the group, just allocated."""
        return self.shadow.placed

    @property
    def samples(self) -> int:
        """How often the action sampled."""
        return self.observation.samples

    def root(self, field: str = "root") -> ShadowObject:
        """The object in the slot that a field of the action names."""
        slot: int = getattr(self.action, field)
        return self.shadow.roots[slot]

    def copies_young(self, into: Age) -> bool:
        """Whether the action copied a young object into an array of that age."""
        action, dest = self.action, self.root("dest")
        assert isinstance(action, actions.CopyArray)
        copied = dest.refs[action.dest_start : action.dest_start + action.length]
        return dest.age is into and any(obj.age is Age.YOUNG for obj in filter(None, copied))

    @property
    def times_exhausted(self) -> int:
        """How often an action was exhausted."""
        occupancy = self.shadow.occupancy
        return 0 if occupancy is None else occupancy.exhausted

    @property
    def has_had_finalizer(self) -> bool:
        """Whether a finalizer of the object of the action has run."""
        table, obj = self.shadow.finalizers, self.root()
        return any(other is obj and n not in table.waiting for n, other in table.registered.items())

    def ephemerons_before(self) -> int:
        """How many ephemerons lead to the key of that of the action, each by its value."""
        key, count, ephemerons = self.root().target, 0, self.shadow.finalizers.ephemerons
        # They may lead into a cycle.
        while count < len(ephemerons) and (found := [e for e in ephemerons if e.value is key]):
            key, count = found[0].target, count + 1
            if key is self.root().target:
                break
        return count

    @property
    def is_young_in_old(self) -> bool:
        """Whether the array of the action is old and has a young item."""
        array = self.root()
        return array.age is Age.OLD and any(
            item.age is Age.YOUNG for item in filter(None, array.refs)
        )


@attrs.frozen
class Probe:
    """A question, and the fields, actions and features that it needs of a contract."""

    reached: Callable[[Moment], bool]
    needs: frozenset[str]


Group = dict[str, Probe]
"""Probes that are asked about the same moments, by name."""


def _ask(reached: Callable[[Moment], bool], *needs: str) -> Probe:
    return Probe(reached, frozenset(needs))


def _toggled_while(state: int) -> Probe:
    return _ask(lambda m: m.observation.state == state, "state")


# About an allocated object that was sampled,
_OF_SAMPLED: Group = {
    "sample_in_nursery": _ask(lambda m: not m.allocated.outside, "objects in nursery"),
    "sample_outside": _ask(lambda m: m.allocated.outside, "objects outside"),
    "several_samples_in_nursery": _ask(
        lambda m: m.samples > 1 and not m.allocated.outside, "several samples in nursery"
    ),
    "several_samples_outside": _ask(
        lambda m: m.samples > 1 and m.allocated.outside, "several samples outside"
    ),
    "sample_at_end_of_context": _ask(
        lambda m: 0 < m.before.free_bytes[m.action.thread] < m.allocated.size_bytes, "contexts"
    ),
    "sampled_beside_obstacle": _ask(
        lambda m: m.shadow.has_obstacles and not m.allocated.outside, "pin", "objects in nursery"
    ),
    "old_object_sampled": _ask(
        lambda m: isinstance(m.action, actions.AllocateOldString), "allocate_old_string"
    ),
}
# whose allocation collected while sampling was on,
_OF_COLLECTING: Group = {
    "sample_then_minor_collection": _ask(lambda m: "sM" in m.observation.order, "samples", "order"),
    "minor_collection_then_sample": _ask(
        lambda m: "M" in m.observation.order and m.observation.order.endswith("s"),
        *("samples", "order", "sampled after collecting"),
    ),
    "callback_sampled": _ask(
        lambda m: bool(m.sampling.callback_samples), "samples", "set_callback", "stated distances"
    ),
    "collected_again_after_callback": _ask(
        lambda m: m.sampling.callback_was_reported, "samples", "set_callback"
    ),
    "several_minor_collections_in_allocation": _ask(
        lambda m: m.observation.minors > 1, "minors", "set_callback"
    ),
}
# or that was allocated while sampling was on.
_OF_ALLOCATIONS: Group = {
    "object_ends_at_sample_point": _ask(
        lambda m: m.sampling.bytes_until_sample() == 0, "stated distances", "sampled beyond"
    ),
    "object_larger_than_period": _ask(
        lambda m: m.allocated.size_bytes > (m.before.period_bytes or 0), "objects beyond period"
    ),
    "sample_point_at_top": _ask(
        lambda m: m.observation.sample_point == m.observation.top, "sample_point", "top"
    ),
}
_OF_BLOCKS: Group = {
    "block_sampled": _ask(lambda m: m.samples > 0),
    "first_byte_sampled": _ask(lambda m: 0 in m.sampling.offsets, "drawn distances"),
    "last_byte_sampled": _ask(
        lambda m: (m.sampling.counted_bytes or 0) - 1 in m.sampling.offsets, "drawn distances"
    ),
    "due_while_paused": _ask(lambda m: m.sampling.unrecorded > 0, "goes on counting"),
    "sampled_by_another_thread": _ask(lambda m: m.samples > 0 and m.action.thread > 0, "threads"),
}
_OF_REPORTS: Group = {
    "sampled_object_survived": _ask(lambda m: any(obj.survived for obj in m.pending)),
    "sampled_object_died": _ask(lambda m: not all(obj.survived for obj in m.pending)),
    "sampled_weakref": _ask(
        lambda m: any(obj.kind == "weakref" for obj in m.pending), "allocate_weakref"
    ),
    "sampled_object_pinned": _ask(
        lambda m: any(obj.pinned for obj in m.pending), "pin", "pins beside pending samples"
    ),
    "sampled_object_weakly_referenced": _ask(
        lambda m: any(obj in m.shadow.weak_targets for obj in m.pending), "allocate_weakref"
    ),
}
# About an action that was exhausted,
_OF_EXHAUSTED: Group = {
    "allocation_exhausted": _ask(lambda m: m.action.allocates),
    "collection_exhausted": _ask(lambda m: not m.action.allocates, "collections exhausted"),
    "exhausted_beside_finalizer": _ask(
        lambda m: bool(m.shadow.finalizers.waiting), "register_finalizer"
    ),
    "exhausted_while_sampling": _ask(lambda m: m.before.is_on, "enable_sampling"),
    "exhausted_again": _ask(lambda m: m.times_exhausted > 1, "exhausted often"),
}
# or that allocates after one was.
_OF_RECOVERED: Group = {
    "allocated_after_exhaustion": _ask(lambda m: True),
    "sampled_after_exhaustion": _ask(lambda m: m.samples > 0, "samples"),
}
_OF_ACTIONS: dict[tuple[type[Action], ...], Group] = {
    (actions.AllocateGroup,): {
        "later_member_sampled": _ask(
            lambda m: any((m.observation.samples_by_member or [0])[1:]), "samples_by_member"
        ),
        "several_members_sampled": _ask(
            lambda m: sum(map(bool, m.observation.samples_by_member or ())) > 1,
            *("samples_by_member", "several samples in nursery"),
        ),
        "group_collected_and_was_sampled": _ask(
            lambda m: m.samples > 0 and m.observation.minors > 0, "samples", "minors"
        ),
    },
    (actions.Realloc,): {
        "block_moved_and_sampled": _ask(lambda m: m.samples > 0, "samples"),
        "block_stayed": _ask(lambda m: m.sampling.counted_bytes is None, "samples", "blocks stay"),
    },
    (actions.SetPeriod,): {
        "period_set_while_paused": _ask(lambda m: not m.sampling.is_on, "pause_sampling"),
        "period_set": _ask(
            lambda m: m.sampling.period_bytes != m.before.period_bytes, "several periods"
        ),
    },
    (actions.ReadProfile,): {
        "profile_of_samples": _ask(lambda m: any(m.observation.profile or ()))
    },
    (actions.EnableSampling,): {
        "enabled_beyond_nursery": _ask(
            lambda m: (m.sampling.period_bytes or 0) > m.nursery_bytes, "periods beyond nursery"
        ),
        "enabled_with_room_left": _ask(
            lambda m: m.observation.sample_point == m.observation.top, "sample_point", "top"
        ),
        "enabled_beside_obstacle": _ask(lambda m: m.shadow.has_obstacles, "pin"),
        "reenabled_while_enabled": _ask(lambda m: m.before.is_on),
    },
    (actions.DisableSampling,): {
        "disabled_never_enabled": _ask(lambda m: not m.sampling.was_enabled, "off at first"),
        "pending_samples_dropped": _ask(
            lambda m: bool(m.pending) and collects(m.action) == "never", "reports"
        ),
        "pending_samples_reported_by_disabling": _ask(
            lambda m: bool(m.pending) and collects(m.action) == "minor", "reports"
        ),
    },
    (actions.EnableSampling, actions.DisableSampling): {
        f"toggled_while_{name}": _toggled_while(state) for state, name in enumerate(MAJOR_STATES)
    },
    (actions.ReadWeakref,): {
        "weakref_died": _ask(lambda m: m.observation.alive is False, "alive", "allocate_weakref"),
        "weakref_to_pinned_object": _ask(
            lambda m: (target := m.root().target) is not None and target.pinned,
            *("pin", "allocate_weakref"),
        ),
    },
    (actions.RegisterFinalizer,): {
        "finalizer_of_old_object": _ask(lambda m: m.root().age is Age.OLD),
        "finalizer_of_sampled_object": _ask(lambda m: m.root() in m.pending, "reports"),
        "finalizer_of_holder_of_pinned_object": _ask(
            lambda m: any(ref.pinned for ref in filter(None, m.root().refs)), "pin"
        ),
        "finalizer_of_resurrected_object": _ask(lambda m: m.has_had_finalizer, "resurrect"),
        "finalizer_beside_destructor": _ask(
            lambda m: m.root() in m.shadow.finalizers.destructors.values(), "destructors"
        ),
    },
    (actions.RunFinalizers,): {
        "finalizer_ran": _ask(lambda m: len(m.observation.finalized) == 1),
        "several_finalizers_ran": _ask(lambda m: len(m.observation.finalized) > 1),
        "destructor_called": _ask(
            lambda m: (
                not m.shadow.finalizers.destructors.keys().isdisjoint(m.observation.finalized)
            ),
            "destructors",
        ),
    },
    (actions.Resurrect,): {
        "resurrected_while_marking": _ask(
            lambda m: m.observation.state == MAJOR_STATES.index("marking"), "state"
        ),
        "resurrected_with_child": _ask(lambda m: any(m.shadow.roots[-1].refs)),
        "resurrected_with_finalizer": _ask(
            lambda m: m.shadow.roots[-1] in m.shadow.finalizers.waiting.values()
        ),
    },
    (actions.ReadEphemeron,): {
        "ephemeron_without_value": _ask(lambda m: m.observation.value is None),
        "value_of_third_ephemeron": _ask(
            lambda m: m.observation.value is not None and m.ephemerons_before() > 1
        ),
    },
    (actions.Write,): {
        "far_item_written": _ask(
            lambda m: isinstance(m.action, actions.Write) and m.action.field >= FAR_ITEM,
            "far items",
        )
    },
    (actions.CopyArray,): {
        "young_item_copied_into_old_array": _ask(lambda m: m.copies_young(Age.OLD), "old arrays"),
        "young_item_copied_into_young_array": _ask(lambda m: m.copies_young(Age.YOUNG)),
        "young_item_copied_within_array": _ask(
            lambda m: m.root("source") is m.root("dest") and m.copies_young(Age.OLD), "old arrays"
        ),
        "copied_into_prebuilt_array": _ask(
            lambda m: (
                [m.root(name) in m.shadow.prebuilt for name in ("source", "dest")] == [False, True]
            ),
            "load_prebuilt",
        ),
    },
    (actions.FillArray,): {
        "old_array_filled_with_young_object": _ask(lambda m: m.is_young_in_old, "old arrays")
    },
    (actions.MoveArray,): {
        "young_item_moved_within_old_array": _ask(lambda m: m.is_young_in_old, "old arrays")
    },
    (actions.TakeIdentity,): {
        "identity_taken_of_young_object": _ask(lambda m: m.root().age is Age.YOUNG),
        "identity_taken_of_pinned_object": _ask(lambda m: m.root().pinned, "pin"),
    },
    (actions.Pin,): {
        "pinned_while_sampling": _ask(
            lambda m: m.before.is_on, "enable_sampling", "pins while sampling"
        )
    },
    (actions.AddMemoryPressure,): {
        "collection_due": _ask(
            lambda m: m.observation.limit == m.observation.free, "limit", "free"
        ),
        "collection_due_while_sampling": _ask(
            lambda m: m.observation.limit == m.observation.free and m.before.is_on,
            *("limit", "free", "enable_sampling"),
        ),
    },
    (actions.Fork,): {"forked_with_pending_samples": _ask(lambda m: bool(m.pending), "reports")},
    (actions.PauseSampling,): {
        "paused_with_pending_samples": _ask(lambda m: bool(m.pending), "reports")
    },
    (actions.ResumeSampling,): {
        "resumed": _ask(lambda m: m.sampling.is_on and not m.before.is_on),
        "resumed_without_pause": _ask(lambda m: m.sampling.period_bytes == m.before.period_bytes),
    },
}

_OBJECTS = tuple(kind for kind in NAMES if kind.allocates and kind.kind != "block")
_BLOCKS = tuple(kind for kind in NAMES if kind.allocates and kind.kind == "block")
# The actions after which a group is asked, what all its probes need, and the group.
_GROUPS: tuple[tuple[tuple[type[Action], ...], str, Group], ...] = (
    (_OBJECTS, "samples", _OF_SAMPLED),
    (_OBJECTS, "sampling", _OF_COLLECTING),
    (_OBJECTS, "sampling", _OF_ALLOCATIONS),
    (_BLOCKS, "samples", _OF_BLOCKS),
    *((after, "", group) for after, group in _OF_ACTIONS.items()),
    (tuple(NAMES), "reports", _OF_REPORTS),
    (_OBJECTS, "exhausted", _OF_EXHAUSTED),
    (_OBJECTS, "exhausted", _OF_RECOVERED),
)
_CONCERNED = (
    *("add_memory_pressure", "allocate_old_string", "allocate_weakref", "copy_array", "fork"),
    *("free", "load_prebuilt", "pin", "read_weakref", "take_identity", "unpin", "write"),
)
"""These actions may go wrong in one state of a major collection, and right in others."""
IN_EACH_STATE: dict[tuple[type[Action], int | None, bool], str] = {
    (ACTIONS[action], state, is_sampling): f"{action}_while_{name}{'_and_sampling' * is_sampling}"
    for action in _CONCERNED
    for state, name in enumerate(MAJOR_STATES)
    for is_sampling in (False, True)
}
"""Their probes, by the action, the state after it, and whether sampling was on."""
PROBES = tuple(dict.fromkeys([*chain(*(group for *_, group in _GROUPS)), *IN_EACH_STATE.values()]))
"""The names of all probes."""


def probes_for(contract: Contract) -> tuple[str, ...]:
    """The probes that a target under this contract can reach."""
    has = {"", *contract.actions, *contract.observes, *_features(contract)}
    if "strings in nursery" not in has:  # Only these are pinned, and allocated by callbacks.
        has -= {"pin", "unpin", "set_callback"}
    if not contract.samples:
        has -= {"reports", "samples"}
    return (
        *(
            name
            for after, needed, group in _GROUPS
            if needed in has and any(NAMES[action] in has for action in after)
            for name, probe in group.items()
            if probe.needs <= has
        ),
        *(
            name
            for (action, _, is_sampling), name in IN_EACH_STATE.items()
            if _needs_in_state(NAMES[action], is_sampling) <= has
        ),
    )


def _needs_in_state(action: str, is_sampling: bool) -> set[str]:
    while_sampling = {"sampling", "pins while sampling" if "pin" in action else "sampling"}
    return {action, "state"} | (while_sampling if is_sampling else set())


def _features(contract: Contract) -> Iterator[str]:
    """What probes can need beside actions and fields."""
    rule, exhaustion = contract.sampling, contract.exhaustion
    # Which values of a setting allow pins is unknown, but one of them may.
    may_pin = rule.pinning == "allowed" or bool(contract.settings)
    features = {
        "sampling": contract.samples,
        "stated distances": contract.samples and rule.is_stated,
        "drawn distances": rule.distances in DRAWN,
        "contexts": rule.counting.local_buffers_end_distances,
        "sampled after collecting": not rule.counting.samples_before_collecting,
        "sampled beyond": rule.crosses == "beyond",
        "goes on counting": rule.paused == "counting",
        "off at first": not rule.initial_period_bytes,
        "blocks stay": rule.realloc != "always",
        "threads": _values(contract, "threads", Range(1, contract.threads)).maximum > 1,
        "far items": "array" in contract.layout.kinds and length_max("array", contract) > FAR_ITEM,
        "destructors": contract.finalizers is not None and contract.finalizers.destructors,
        "old arrays": "minors" in contract.observes or "load_prebuilt" in contract.actions,
        "pins while sampling": may_pin,
        "pins beside pending samples": may_pin or "pause_sampling" in contract.actions,
        "collections exhausted": exhaustion and exhaustion.found_by == "major_collections",
        "exhausted often": exhaustion and exhaustion.survivable != 1,
        **features_of_sizes(contract),
    }
    return (name for name, is_there in features.items() if is_there)


def features_of_sizes(contract: Contract) -> dict[str, bool]:
    """What follows from how large objects, periods and the nursery can be."""
    layout, rule = contract.layout, contract.sampling
    sizes = _object_bytes(contract)
    largest_bytes = max((size.maximum for size in sizes.values()), default=0)
    large_bytes = layout.large_object_bytes
    large = _values(contract, "large_object_bytes", Range(large_bytes, large_bytes))
    in_nursery = {kind for kind, size in sizes.items() if size.minimum < large.maximum}
    is_outside = layout.nonmovable == "outside" or largest_bytes >= large.minimum
    legal = Range(min(rule.periods), max(rule.periods)) if rule.periods else rule.period_bytes
    period = _values(contract, "period_bytes", legal)
    nursery = _values(contract, "nursery_bytes", Range(contract.nursery_bytes, 0))
    is_beyond = contract.samples and largest_bytes > period.minimum
    is_several = is_beyond and rule.samples_per_allocation == "all"
    return {
        "objects in nursery": bool(in_nursery),
        "strings in nursery": "string" in in_nursery,
        "objects outside": is_outside,
        "objects beyond period": is_beyond,
        "several samples in nursery": (
            is_several and bool(in_nursery) and large.maximum - 1 > period.minimum
        ),
        "several samples outside": is_several and is_outside,
        "several periods": period.minimum < period.maximum,
        "periods beyond nursery": 0 < nursery.minimum < period.maximum,
    }


def _object_bytes(contract: Contract) -> dict[str, Range]:
    """The sizes of objects that the actions can allocate, unrounded, by the kind of object."""
    sizes = {}
    for kind in {ACTIONS[name].kind for name in contract.actions if name in ACTIONS}:
        layout = contract.layout.kinds.get(kind or "")
        if kind and layout:
            length = length_max(kind, contract) if layout.item_bytes else 0
            largest_bytes = layout.fixed_bytes + length * layout.item_bytes
            sizes[kind] = Range(layout.fixed_bytes, largest_bytes)
    return sizes


def _values(contract: Contract, name: str, stated: Range) -> Range:
    """The values that a field of the contract can have: those of the setting with its name."""
    return next((field.range for field in contract.settings if field.name == name), stated)


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
        before: SamplingState,
        pending: Mapping[ShadowObject, int],
    ) -> None:
        """Ask the probes about a moment that the oracles found right; about most, none is asked."""
        kind, sampling, is_sampling = type(action), bench.sampling, before.period_bytes is not None
        state = IN_EACH_STATE.get((kind, observation.state, is_sampling))
        if state is not None:
            self.counts[state] += 1
        groups: Sequence[Group] = _GROUPS_AFTER.get(kind, ())
        if is_sampling and kind in _OBJECTS:
            groups = (*groups, *_groups_of_object(observation, sampling.until_bytes[0]))
        if observation.reports and pending:
            groups = (*groups, _OF_REPORTS)
        if observation.exhausted:
            groups = (_OF_EXHAUSTED,)
        elif action.allocates and bench.shadow.occupancy and bench.shadow.occupancy.exhausted:
            groups = (*groups, _OF_RECOVERED)
        if not groups:
            return
        moment = Moment(
            action, observation, bench.shadow, sampling, bench.nursery_bytes, before, pending
        )
        for group in groups:
            for name, probe in group.items():
                if probe.reached(moment):
                    self.counts[name] += 1


_GROUPS_AFTER = {
    action: [group for after, group in _OF_ACTIONS.items() if action in after] for action in NAMES
} | {action: [_OF_BLOCKS] for action in _BLOCKS}


def _groups_of_object(observation: Observation, until_bytes: int) -> tuple[Group, ...]:
    """What is asked about an object that was allocated while sampling was on."""
    groups: tuple[Group, ...] = ()
    if observation.samples:
        groups = (_OF_SAMPLED, _OF_ALLOCATIONS)
    elif observation.minors or until_bytes == 0 or observation.sample_point == observation.top:
        groups = (_OF_ALLOCATIONS,)
    return (*groups, _OF_COLLECTING) if observation.minors else groups
