"""The target `reference`: gcmodel in this process.

Its contract is written out here in figures, not taken from gcmodel's code, so that a mistake
there does not become a promise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from fuzz.actions import (
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
    CollectProgress,
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
from fuzz.contract import (
    Contract,
    KindLayout,
    Layout,
    Prebuilt,
    Range,
    SamplingRule,
    Setting,
    chosen_settings,
)
from fuzz.observation import Observation, Report
from gcmodel import Configuration, Events, Heap, HeapError, Parts
from gcmodel.sampling import Sampling

SETTINGS = (
    Setting("nursery_bytes", 256, Range(64, 65536, 8)),
    Setting("large_object_bytes", 64, Range(17, 65536), at_most="nursery_bytes"),
    Setting("card_items", 4, Range(0, 32), choices=(0, 4, 32)),
    Setting("paged_arenas", 1, Range(0, 1)),
    Setting("single_step_marking", 0, Range(0, 1)),
    Setting("moving_nursery", 0, Range(0, 1)),
    Setting("pin_while_sampling", 0, Range(0, 1)),
    Setting("prebuilt_nodes", 1, Range(0, 8)),
    Setting("prebuilt_arrays", 1, Range(0, 8)),
)
OF_BLOCKS = ("malloc", "calloc", "realloc", "set_period", "read_profile")
"""What only an allocator does whose mutator frees."""
KINDS = {
    "node": KindLayout(type_index=1, fixed_bytes=32),
    "weakref": KindLayout(type_index=2, fixed_bytes=16),
    "array": KindLayout(type_index=3, fixed_bytes=16, item_bytes=8),
    "string": KindLayout(type_index=4, fixed_bytes=25, item_bytes=1),
}
OBJECT_BYTES_MAX = 2**20
PREBUILT_ARRAY_LENGTH = 4
PERIODS = Range(minimum=8, maximum=2**40, multiple=8)
OBSERVES = (
    *("samples", "minors", "order", "size", "outside", "at", "value", "alive", "identity"),
    *("reports", "graph", "free", "limit", "top", "sample_point", "state"),
)


def _pins_max(nursery_bytes: int, large_object_bytes: int) -> int:
    """As many pinned objects leave room between them for the largest that a nursery takes."""
    largest_bytes = -(-large_object_bytes // 8) * 8
    return max(nursery_bytes // largest_bytes - 1, 0) // 2


class ReferenceTarget:
    """gcmodel's heap, with `parts` in place of its own where a known bug is planted."""

    settings: tuple[Setting, ...] = SETTINGS
    make_events: Callable[[], Events] = Events
    """Who hears what the next heap does, and keeps it until it is told."""

    def __init__(self, name: str, parts: Parts, without: Collection[str] = ()) -> None:
        self.name = name
        self._parts = parts
        self._without = without
        self._carry_out: dict[type[Action], Callable[..., None]] = {
            AllocateNode: self._allocate_node,
            AllocateString: self._allocate_string,
            AllocateArray: self._allocate_array,
            AllocateWeakref: self._allocate_weakref,
            LoadPrebuilt: lambda action, _: self._heap.load_prebuilt(action.index),
            Free: lambda action, _: self._heap.free(action.root),
            Read: self._read,
            ReadNumber: self._read_number,
            ReadWeakref: self._read_weakref,
            Write: self._write,
            WriteNumber: lambda action, _: self._heap.write_number(action.root, action.number),
            CopyArray: self._copy_array,
            TakeIdentity: self._take_identity,
            AllocateOldString: self._allocate_old_string,
            Pin: lambda action, _: self._heap.pin(action.root),
            Unpin: lambda action, _: self._heap.unpin(action.root),
            SetCallback: lambda action, _: self._heap.set_callback(action.length),
            AddMemoryPressure: lambda action, _: self._heap.add_memory_pressure(action.extra_bytes),
            PauseSampling: lambda action, _: self._heap.pause_sampling(),
            ResumeSampling: lambda action, _: self._heap.resume_sampling(),
            Fork: lambda action, _: self._heap.after_fork(),
            CollectMinor: lambda action, _: self._heap.collect_minor(),
            CollectProgress: lambda action, _: self._heap.collect_progress(),
            CollectStep: lambda action, _: self._heap.collect_step(),
            CollectFull: lambda action, _: self._heap.collect_full(),
            EnableSampling: lambda action, _: self._heap.enable_sampling(action.period_bytes),
            DisableSampling: lambda action, _: self._heap.disable_sampling(action.report),
            CheckHeap: self._check_heap,
        }
        self._heap = Heap(Configuration(), parts)

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """See Target. Raises BadInputError for a setting that the contract does not allow."""
        chosen = chosen_settings(configuration, self.settings)
        self._heap = Heap(self.configuration_of(chosen), self._parts, self.make_events())
        return self.contract_of(chosen).without(self._without)

    def configuration_of(self, chosen: Mapping[str, int]) -> Configuration:
        """The heap's parameters, where all settings were chosen."""
        return Configuration(
            nursery_bytes=chosen["nursery_bytes"],
            large_object_bytes=chosen["large_object_bytes"],
            card_items=chosen["card_items"],
            paged_arenas=bool(chosen["paged_arenas"]),
            single_step_marking=bool(chosen["single_step_marking"]),
            moving_nursery=bool(chosen["moving_nursery"]),
            pin_while_sampling=bool(chosen["pin_while_sampling"]),
            prebuilt_nodes=chosen["prebuilt_nodes"],
            prebuilt_arrays=chosen["prebuilt_arrays"],
        )

    def contract_of(self, chosen: Mapping[str, int]) -> Contract:
        """What is promised, where all settings were chosen."""
        return Contract(
            nursery_bytes=chosen["nursery_bytes"],
            layout=Layout(
                kinds=KINDS,
                large_object_bytes=chosen["large_object_bytes"],
                word_bytes=8,
                object_bytes_max=OBJECT_BYTES_MAX,
            ),
            sampling=SamplingRule(
                period_bytes=PERIODS,
                pinning="allowed" if chosen["pin_while_sampling"] else "excluded",
            ),
            settings=self.settings,
            actions=tuple(name for name in ACTIONS if name not in OF_BLOCKS),
            observes=OBSERVES,
            prebuilt=(
                *[Prebuilt("node")] * chosen["prebuilt_nodes"],
                *[Prebuilt("array", PREBUILT_ARRAY_LENGTH)] * chosen["prebuilt_arrays"],
            ),
            pins_max=_pins_max(chosen["nursery_bytes"], chosen["large_object_bytes"]),
        )

    def perform(self, action: Action) -> Observation:
        """See Target. A crash of the heap is an error like any other: it is under test."""
        observation = Observation()
        self._heap.thread = action.thread
        try:
            self._carry_out[type(action)](action, observation)
            if self._heap.events.order:
                self._tell_events(observation)
        except HeapError as problem:
            observation.error = f"{type(problem).__name__}: {problem}"
        except Exception as problem:  # noqa: BLE001 - whatever a broken collector raises
            observation.error = f"crash {type(problem).__name__}: {problem}"
        else:
            self._tell_pointers(observation)
        return observation

    def _tell_events(self, observation: Observation) -> None:
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

    def _tell_pointers(self, observation: Observation) -> None:
        heap = self._heap
        nursery, sampling = heap.nursery, heap.sampling
        start = nursery.nursery_start
        observation.free = nursery.nursery_free - start
        observation.limit = nursery.nursery_limit - start
        observation.top = nursery.nursery_top - start
        if isinstance(sampling, Sampling) and sampling.period_bytes:
            observation.sample_point = sampling.sample_point - start
        observation.state = heap.major.state

    def _allocate_node(self, action: AllocateNode, observation: Observation) -> None:
        _tell_place(observation, self._heap.allocate_node(action.number, action.nonmovable))

    def _allocate_string(self, action: AllocateString, observation: Observation) -> None:
        _tell_place(observation, self._heap.allocate_string(action.length, action.nonmovable))

    def _allocate_old_string(self, action: AllocateOldString, observation: Observation) -> None:
        _tell_place(observation, self._heap.allocate_old_string(action.length))

    def _allocate_array(self, action: AllocateArray, observation: Observation) -> None:
        _tell_place(observation, self._heap.allocate_array(action.length, action.nonmovable))

    def _allocate_weakref(self, action: AllocateWeakref, observation: Observation) -> None:
        _tell_place(observation, self._heap.allocate_weakref(action.root))

    def _read(self, action: Read, observation: Observation) -> None:
        found = self._heap.read(action.root, action.field)
        if found is not None:
            observation.value = self._heap.roots.index(found)

    def _read_number(self, action: ReadNumber, observation: Observation) -> None:
        observation.value = self._heap.read_number(action.root)

    def _read_weakref(self, action: ReadWeakref, observation: Observation) -> None:
        observation.alive = self._heap.is_weakref_alive(action.root)

    def _write(self, action: Write, observation: Observation) -> None:
        self._heap.write(action.root, action.field, action.value)

    def _copy_array(self, action: CopyArray, observation: Observation) -> None:
        self._heap.copy_array(
            action.source, action.dest, action.source_start, action.dest_start, action.length
        )

    def _take_identity(self, action: TakeIdentity, observation: Observation) -> None:
        observation.identity = self._heap.identity(action.root)

    def _check_heap(self, action: CheckHeap, observation: Observation) -> None:
        observation.graph = self._heap.walk()


def _tell_place(observation: Observation, placed: tuple[int, int | None]) -> None:
    observation.size, observation.at = placed
    observation.outside = observation.at is None
