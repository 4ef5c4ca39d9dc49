"""The target `reference`: gcmodel in this process.

Its contract is written here in figures and not taken from gcmodel's code, so that a mistake there
does not become a promise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import attrs

from fuzz.protocol import actions
from fuzz.protocol.actions import NAMES, Action
from fuzz.protocol.contract import (
    Contract,
    OldSpace,
    Prebuilt,
    Promise,
    Range,
    SamplingRule,
    Setting,
    chosen_settings,
)
from fuzz.protocol.layout import KindLayout, Layout
from fuzz.protocol.observation import Observation, Report
from fuzz.protocol.target import FullTarget
from fuzz.protocol.written import contents_of, row_of
from gcmodel import Configuration, Heap, HeapError, Parts
from gcmodel.collector.invariants import check_invariants
from gcmodel.sampling.sample_point import Sampling

SINGLE_STEP_SHARE = 8
"""One heap in this many marks many objects in a step. The others mark one, since defects of marking
show between its steps."""
SETTINGS = (
    Setting("nursery_bytes", 256, Range(64, 65536, 8)),
    Setting("large_object_bytes", 64, Range(17, 65536), at_most="nursery_bytes"),
    Setting("card_items", 4, Range(0, 32), choices=(0, 4, 32)),
    Setting("paged_arenas", 1, Range(0, 1)),
    Setting("single_step_marking", 0, Range(0, 1), choices=(0, *[1] * (SINGLE_STEP_SHARE - 1))),
    Setting("moving_nursery", 0, Range(0, 1)),
    Setting("pin_while_sampling", 0, Range(0, 1)),
    Setting("prebuilt_nodes", 1, Range(0, 8)),
    Setting("prebuilt_arrays", 1, Range(0, 8)),
)
KINDS = {
    "node": KindLayout(type_index=1, fixed_bytes=32),
    "weakref": KindLayout(type_index=2, fixed_bytes=16),
    "array": KindLayout(type_index=3, fixed_bytes=16, item_bytes=8),
    "string": KindLayout(type_index=4, fixed_bytes=25, item_bytes=1),
}
OBJECT_BYTES_MAX = 2**20
ARENAS = {"arena_object_bytes_max": 40, "arena_bytes": 512, "arena_pages": 3, "page_room_bytes": 96}
PREBUILT_NODE, PREBUILT_ARRAY = Prebuilt("node"), Prebuilt("array", length=4)
RULE = SamplingRule(period_bytes=Range(minimum=8, maximum=2**40, multiple=8))
RULE_WITH_PINS = attrs.evolve(RULE, pinning="allowed")
OBSERVES = (
    *("samples", "minors", "order", "size", "outside", "at", "value", "alive", "identity"),
    *("reports", "graph", "free", "limit", "top", "sample_point", "state", "memory"),
    "contents",
)
PROMISES: tuple[Promise, ...] = ("collections", "memory", "progress", "pressure")


def _pins_max(nursery_bytes: int, large_object_bytes: int) -> int:
    """How many pinned objects leave room for the largest young object."""
    largest_bytes = -(-large_object_bytes // 8) * 8
    return max(nursery_bytes // largest_bytes - 1, 0) // 2


def _read(heap: Heap, action: actions.Read) -> int | None:
    """The lowest slot with the object of a field."""
    found = heap.read(action.root, action.field)
    return None if found is None else heap.roots.index(found)


CARRY_OUT: Mapping[type[Action], Callable[[Heap, Any], Any]] = {
    actions.AllocateNode: lambda heap, each: heap.allocate_node(each.number, each.nonmovable),
    actions.AllocateString: lambda heap, each: heap.allocate_string(each.length, each.nonmovable),
    actions.AllocateArray: lambda heap, each: heap.allocate_array(each.length, each.nonmovable),
    actions.AllocateWeakref: lambda heap, each: heap.allocate_weakref(each.root),
    actions.AllocateOldString: lambda heap, each: heap.allocate_old_string(each.length),
    actions.LoadPrebuilt: lambda heap, each: heap.load_prebuilt(each.index),
    actions.Free: lambda heap, each: heap.free(each.root),
    actions.Read: _read,
    actions.ReadNumber: lambda heap, each: heap.read_number(each.root),
    actions.ReadWeakref: lambda heap, each: heap.read_weakref(each.root, each.keep),
    actions.Write: lambda heap, each: heap.write(each.root, each.field, each.value),
    actions.WriteNumber: lambda heap, each: heap.write_number(each.root, each.number),
    actions.CopyArray: lambda heap, each: heap.copy_array(
        each.source, each.dest, each.source_start, each.dest_start, each.length
    ),
    actions.FillArray: lambda heap, each: heap.fill_array(each.root, each.value),
    actions.MoveArray: lambda heap, each: heap.move_array(
        each.root, each.source_start, each.dest_start, each.length
    ),
    actions.TakeIdentity: lambda heap, each: heap.identity(each.root),
    actions.Pin: lambda heap, each: heap.pin(each.root),
    actions.Unpin: lambda heap, each: heap.unpin(each.root),
    actions.SetCallback: lambda heap, each: heap.set_callback(each.length),
    actions.AddMemoryPressure: lambda heap, each: heap.add_memory_pressure(each.extra_bytes),
    actions.CollectMinor: lambda heap, _: heap.collect_minor(),
    actions.CollectProgress: lambda heap, _: heap.collect_progress(),
    actions.CollectStep: lambda heap, _: heap.collect_step(),
    actions.CollectFull: lambda heap, _: heap.collect_full(),
    actions.EnableSampling: lambda heap, each: heap.enable_sampling(each.period_bytes),
    actions.DisableSampling: lambda heap, each: heap.disable_sampling(each.report),
    actions.PauseSampling: lambda heap, _: heap.pause_sampling(),
    actions.ResumeSampling: lambda heap, _: heap.resume_sampling(),
    actions.Fork: lambda heap, _: heap.after_fork(),
    actions.CheckHeap: lambda heap, _: heap.walk(),
    actions.CheckContents: lambda heap, _: [row_of(each) for each in heap.contents()],
}
"""What carries out each action; returns an allocation's size and place, or the answer."""


def _checked(carry_out: Callable[[Heap, Any], Any]) -> Callable[[Heap, Any], Any]:
    """The same, followed by a check of all invariants. Raises InvariantError."""

    def carry_out_and_check(heap: Heap, action: Action) -> object:
        done = carry_out(heap, action)
        check_invariants(heap)
        return done

    return carry_out_and_check


class ReferenceTarget(FullTarget):
    """gcmodel's heap, made of `parts`."""

    PARTS = Parts()
    settings: tuple[Setting, ...] = SETTINGS
    carry_out = CARRY_OUT
    make_heap: Callable[..., Heap] = Heap
    """Creates the heap of each trace, of its configuration and parts; a profile adds a recorder."""

    def __init__(self, name: str, parts: Parts, without: Collection[str] = ()) -> None:
        self.name = name
        self._parts = parts
        self._without = without
        self._heap = Heap(Configuration(), parts)
        self._strings = 0

    def check_invariants(self) -> None:
        """Check the invariants after each action from now on; a broken one is an error."""
        self.carry_out = {each: _checked(do) for each, do in self.carry_out.items()}

    def start(self, configuration: Mapping[str, int]) -> Contract:
        chosen = chosen_settings(configuration, self.settings)
        # The heap and its parts are a cycle, which is cheaper to break than to collect.
        vars(self._heap).clear()
        self._heap = self.make_heap(self.configuration_of(chosen), self._parts)
        self._strings = 0
        return self.contract_of(chosen).without(self._without)

    def configuration_of(self, chosen: Mapping[str, Any]) -> Configuration:
        """The heap's parameters, which have the names of settings."""
        names = attrs.fields_dict(Configuration).keys() & chosen.keys()
        return Configuration(**{name: chosen[name] for name in names})

    def contract_of(self, chosen: Mapping[str, int]) -> Contract:
        return Contract(
            nursery_bytes=chosen["nursery_bytes"],
            layout=Layout(
                kinds=KINDS,
                large_object_bytes=chosen["large_object_bytes"],
                word_bytes=8,
                object_bytes_max=OBJECT_BYTES_MAX,
            ),
            sampling=self.rule_of(chosen),
            settings=self.settings,
            actions=tuple(map(NAMES.__getitem__, self.carry_out)),
            observes=OBSERVES,
            prebuilt=(
                *[PREBUILT_NODE] * chosen["prebuilt_nodes"],
                *[PREBUILT_ARRAY] * chosen["prebuilt_arrays"],
            ),
            pins_max=_pins_max(chosen["nursery_bytes"], chosen["large_object_bytes"]),
            promises=PROMISES,
            weak_reads="kept",
            contents="bytes",
            old_space=OldSpace(
                card_items=chosen["card_items"],
                threshold_bytes=chosen["nursery_bytes"] * 5 // 2,
                threshold_percent=250,
                **(ARENAS if chosen["paged_arenas"] else {}),
            ),
        )

    def rule_of(self, chosen: Mapping[str, int]) -> SamplingRule:
        return RULE_WITH_PINS if chosen["pin_while_sampling"] else RULE

    def perform(self, action: Action) -> Observation:
        observation = Observation()
        self._heap.run(action.thread)
        try:
            self._answer(action, observation)
            if self._heap.events.order:
                self._add_events(observation)
        except HeapError as problem:
            observation.error = f"{type(problem).__name__}: {problem}"
            observation.graph = problem.graph
        except Exception as problem:  # noqa: BLE001 - of the heap under test
            observation.error = f"crash {type(problem).__name__}: {problem}"
        else:
            self._add_pointers(observation)
        return observation

    def _answer(self, action: Action, observation: Observation) -> None:
        """Carry out the action, and observe what answers it, or each member of a group."""
        if isinstance(action, actions.AllocateGroup):
            members = [actions.alone(member, action.thread) for member in action.members]
            observation.members = [*map(self.perform, members)]
            return
        result = self.carry_out[type(action)](self._heap, action)
        if action.allocates:
            observation.size, observation.at = result
            observation.outside = observation.at is None
            if action.kind == "string":
                self._strings += 1
                contents = contents_of(self._strings, getattr(action, "length", 0))
                self._heap.write_contents(-1, contents)
        elif action.answer:
            setattr(observation, action.answer, result)
        if action.collects == "full":
            arena_bytes = self._heap.arenas.arena_bytes
            observation.memory = [self._heap.memory_used_bytes(), arena_bytes]

    def _add_events(self, observation: Observation) -> None:
        order, reports = self._heap.events.take()
        observation.order = order
        observation.samples = order.count("s")
        observation.minors = order.count("M")
        observation.reports = [
            Report(each.entries, each.memory_used_bytes, each.arena_bytes, each.major_state)
            for each in reports
        ]
        if observation.minors:
            observation.graph = self._heap.walk()

    def _add_pointers(self, observation: Observation) -> None:
        heap = self._heap
        nursery, sampling = heap.nursery, heap.sampling
        start = nursery.nursery_start
        observation.free = nursery.nursery_free - start
        observation.limit = nursery.nursery_limit - start
        observation.top = nursery.nursery_top - start
        if isinstance(sampling, Sampling) and sampling.period_bytes:
            observation.sample_point = sampling.sample_point - start
        # Not the enumeration's member, which takes twice as long to keep for a second run.
        observation.state = int(heap.major.state)
