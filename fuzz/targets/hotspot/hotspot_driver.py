"""The program that is the target `hotspot`, or `hotspot-as-documented`, on its side of the pipe.

`python -m fuzz.targets.hotspot.hotspot_driver LIBJVM [NAME]` makes a virtual machine in its own
process, as its first header wants it, and has it carry out the actions. Invariant: at a header the
heap is emptied and the samplers are set, so that a trace says the same wherever it stands in a
session; after that none of it is read, but where a buffer begins and ends that is new.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import repeat
from random import Random
from typing import ClassVar

import attrs

from fuzz.problems import BadInputError
from fuzz.protocol import actions
from fuzz.protocol.actions import Action, name_of
from fuzz.protocol.contract import Contract, Layout, Range, SamplingRule, Setting, chosen_settings
from fuzz.protocol.counting import Buffers
from fuzz.protocol.observation import Observation
from fuzz.targets.hotspot.collectors import (
    ARRAY,
    BUFFER_BYTES,
    CALLBACK,
    COLLECTOR,
    COLLECTORS,
    EPSILON,
    G1,
    HAVE_YOUNG,
    NODE,
    OBJECT_BYTES_MAX,
    PARALLEL,
    SERIAL,
    SETTINGS_AS_DOCUMENTED,
    SHENANDOAH,
    STRING,
    WASTE_INCREMENT_WORDS,
    WASTE_SHARE,
    WEAKREF,
    ZGC,
    flags_for,
    has_compact_headers,
    layout_for,
    settings_of,
)
from fuzz.targets.hotspot.hotspot_command import HOTSPOT
from fuzz.targets.hotspot.hotspot_state import (
    EpsilonHeap,
    G1Heap,
    JavaHeap,
    ParallelHeap,
    Samplers,
    SerialEden,
    ShenandoahHeap,
    ZHeap,
)
from fuzz.targets.hotspot.java_machine import JavaMachine, JavaThread
from fuzz.targets.hotspot.structs import WORD_BYTES, Structs
from fuzz.targets.process.serve import serve
from fuzz.targets.process.threads import Threads, stay_on_one_processor

NODE_REFERENCES = 2
PERIODS = Range(0, 2**31 - 1)
PROMISED_PERIODS = SETTINGS_AS_DOCUMENTED[-1]
RESTING_PERIOD_BYTES = 2**19
"""Until another is set."""
BIRTHS = 2
"""So many are tried until it is known what each allocates."""
COLLECTIONS_MAX = 100
"""After so many it is no chance that others allocate."""
PROMISED = ("samples", "minors", "size", "value", "alive", "identity", "graph")
OBSERVES = (*PROMISED, "at", "seed")
TOLD = (*OBSERVES, "buffer")
HEAPS: Mapping[str, type[JavaHeap]] = {
    SERIAL: SerialEden,
    PARALLEL: ParallelHeap,
    G1: G1Heap,
    ZGC: ZHeap,
    SHENANDOAH: ShenandoahHeap,
    EPSILON: EpsilonHeap,
}


def contract_under(
    chosen: Mapping[str, int], nursery_bytes: int, layout: Layout, buffers: Buffers
) -> Contract:
    """What HotSpot does as it is built; which settings it has, the library says."""
    threads = chosen["threads"]
    return Contract(
        nursery_bytes=nursery_bytes,
        layout=layout,
        actions=HotspotTarget.ACTIONS,
        observes=OBSERVES if buffers.taken == "in order" else TOLD,
        sampling=SamplingRule(
            period_bytes=PERIODS,
            crosses="at",
            surplus="dropped",
            samples_per_allocation="one",
            disabling=("drop",),
            pinning="allowed",
            enabling="keeps",
            counting=buffers,
            distances="hotspot",
            seeds=(chosen["sampler_seed"],) * threads,
            first_bytes=(chosen["first_bytes"],) * threads,
        ),
    )


def contract_as_documented(
    chosen: Mapping[str, int], nursery_bytes: int, layout: Layout
) -> Contract:
    """What JEP 331 and JVMTI promise instead.

    An event is sent "on average, once for every sampling_interval bytes of memory allocated by a
    given thread" (SetHeapSamplingInterval), and nothing is said of collections and buffers.
    """
    return Contract(
        nursery_bytes=nursery_bytes,
        layout=layout,
        actions=HotspotTarget.ACTIONS,
        observes=PROMISED,
        sampling=SamplingRule(
            period_bytes=PROMISED_PERIODS.range,
            periods=(chosen["period_bytes"],),
            surplus="dropped",
            samples_per_allocation="one",
            disabling=("drop",),
            distances="random",
            seeds=(0,) * chosen["threads"],
        ),
    ).without(("set_period", "end_thread", "begin_thread"))


class HotspotTarget:
    """See Target."""

    FLAGS: ClassVar[tuple[str, ...]] = ("-XX:-UseCompiler",)
    """A compiler's thread resolves what a method refers to, and that takes a buffer in eden."""

    def __init__(self, library: str, name: str = HOTSPOT) -> None:
        self.name = name
        self._library = library
        self._flags: tuple[str, ...] = ()
        self._roots: list[int] = []
        self._threads = Threads()
        self._attached: dict[int, JavaThread] = {}
        self._identities: dict[int, int] = {}
        self._threads_now = 0
        self._is_on = False
        self._is_used = True
        self._birth_bytes = 0
        self._callback_length = 0
        self._sampled_at = 0
        self._helper = Threads()
        self._pinned: list[tuple[int, int, int]] = []

    @cached_property
    def _loaded(self) -> ctypes.CDLL:
        """The library. Raises BadInputError."""
        try:
            return ctypes.CDLL(self._library)
        except OSError as problem:
            raise BadInputError(f"{problem}; --java names a JVM's folder") from problem

    @cached_property
    def _structs(self) -> Structs:
        return Structs(self._loaded)

    @cached_property
    def _settings(self) -> tuple[Setting, ...]:
        """All that a trace may choose."""
        if self.name != HOTSPOT:
            return SETTINGS_AS_DOCUMENTED
        return settings_of(self._library, self._structs)

    @cached_property
    def _begins_at_once(self) -> bool:
        return has_compact_headers(self._library)

    @cached_property
    def _machine(self) -> JavaMachine:
        """Made at the first header, whose answer can say why it cannot be. Raises BadInputError."""
        machine = JavaMachine(self._loaded, self._flags)
        self._heap = HEAPS[self._collector](self._structs)
        if isinstance(self._heap, ShenandoahHeap):
            machine.tell_collections_to(self._heap.counter.callback)
        self._samplers = Samplers(self._structs, self._library)
        self._attached[0] = machine.attach()
        return machine

    @cached_property
    def _pinner(self) -> JavaThread:
        """The thread that is in critical sections, and nowhere else."""
        return self._helper.run(1, self._machine.attach)

    @cached_property
    def _collects_beside_pins(self) -> bool:
        """Whether an array stays where it is while the rest is collected.

        By Shenandoah, and by G1 since version 22. Others put collections off, so that whoever
        allocates may wait for ever.
        """
        if self._collector not in (G1, SHENANDOAH):
            return False
        collections = self._heap.collections
        self._hold_still(self._attached[0].new_string(0))
        self._machine.collect()
        has_collected = self._heap.collections > collections
        self._let_go(self._pinned.pop())
        return has_collected

    def _hold_still(self, array: int) -> None:
        items = self._helper.run(1, partial(self._pinner.pin, array))
        self._pinned.append((array, items, self._heap.address_of(array)))

    def _let_go(self, pinned: tuple[int, int, int]) -> None:
        array, items, _ = pinned
        self._helper.run(1, partial(self._pinner.unpin, array, items))
        self._attached[0].free(array)

    def _check_pinned(self) -> None:
        for array, _, at in self._pinned:
            if self._heap.address_of(array) != at:
                raise RuntimeError("a pinned array has been moved")

    def _measure_birth(self) -> int:
        """What a thread allocates by itself when it begins; the first ones make what is kept."""
        for _ in range(BIRTHS):
            number = len(self._attached)
            self._attach(number)
            self._machine.collect()
            birth_bytes = self._samplers.allocated_bytes(self._attached[number].address)
            self._detach(number)
        return birth_bytes

    def start(self, configuration: Mapping[str, int]) -> Contract:
        """Raises BadInputError also if the library is no JVM that is known."""
        chosen = chosen_settings(configuration, self._settings)
        self._settle(chosen)
        self._machine.names.use(chosen["node_longs"], chosen["string_item_bytes"])
        self._threads_now = chosen["threads"]
        if self._is_used or not self._attached.keys() >= {*range(self._threads_now)}:
            self._clear()
        elif self._heap.is_used_up:
            raise SystemExit  # Whoever wants more begins another process.
        layout = layout_for(chosen, self._begins_at_once)
        # Elsewhere two buffers might begin in one action.
        may_call_back = self._is_serial or self.name != HOTSPOT
        self._callback_length = chosen.get(CALLBACK.name, 0) if may_call_back else 0
        self._machine.called_back = self._called_back if self._callback_length else None
        if self.name == HOTSPOT:
            self._begin(chosen["sampler_seed"], repeat(chosen["first_bytes"]))
            buffers = self._buffers(chosen["buffer_bytes"], layout)
            contract = contract_under(chosen, self._heap.nursery_bytes, layout, buffers)
            if self._collector == EPSILON:
                contract = contract.without(("collect_full", "begin_thread", "end_thread"))
        else:
            period_bytes = chosen["period_bytes"]
            random = Random(chosen["sampler_seed"])  # noqa: S311 - no secret
            first_bytes = (
                period_bytes and int(random.expovariate(1 / period_bytes)) + 1
                for _ in self._attached
            )
            self._begin(random.getrandbits(48), first_bytes)
            contract = contract_as_documented(chosen, self._heap.nursery_bytes, layout)
        if not (self._collector in HAVE_YOUNG and self._machine.names.can_collect_young):
            contract = contract.without((name_of(actions.CollectMinor),))
        pins = chosen.get("pins", 0) if self._collects_beside_pins else 0
        if not pins:
            contract = contract.without(("pin", "unpin"))
        if pins or self._callback_length:
            # Whether only a pin keeps an object alive, nobody else knows, nor that a new one is old
            # if the callback has collected.
            contract = contract.without(("allocate_weakref",))
        version = self._machine.version
        return attrs.evolve(
            contract,
            version=version,
            settings=self._settings,
            pins_max=pins,
            survivor_bytes=self._heap.survivor_bytes,
        )

    def _settle(self, chosen: Mapping[str, int]) -> None:
        """Say what the machine is made with, which may have been made. Raises BadInputError."""
        flags = (*flags_for(chosen), *self.FLAGS)
        if self._flags not in ((), flags):
            raise BadInputError("this process has made a machine with other flags")
        self._flags, self._collector = flags, COLLECTORS[chosen[COLLECTOR]]
        self._is_serial = self._collector == SERIAL

    def _clear(self) -> None:
        """Undo what a trace has done, which costs a full collection; all threads are there then."""
        self._tell_samples(is_on=False)
        self._machine.set_interval(RESTING_PERIOD_BYTES)
        while self._pinned:
            self._let_go(self._pinned.pop())
        for root in self._roots:
            self._attached[0].free(root)
        self._roots, self._identities = [], {}
        for number in range(self._threads_now):
            if number not in self._attached:
                self._attach(number)
        self._samplers.find_generator(lambda: self._attach(len(self._attached)))
        self._birth_bytes = self._birth_bytes or self._measure_birth()
        self._collects_beside_pins  # noqa: B018 - before the heap is emptied
        self._empty_heap()
        self._is_used = False

    def _begin(self, generator: int, first_bytes: Iterable[int]) -> None:
        """Set the samplers: the generator's state, and each thread's first distance."""
        self._samplers.begin(generator)
        attached = (thread for _, thread in sorted(self._attached.items()))
        for thread, until_bytes in zip(attached, first_bytes, strict=False):
            self._samplers.begin_thread(thread.address, until_bytes)

    def _attach(self, number: int) -> int:
        """Make a thread of that number; returns the machine's own address for it."""
        self._attached[number] = self._threads.run(number, self._machine.attach)
        return self._attached[number].address

    def _detach(self, number: int) -> None:
        self._threads.run(number, self._machine.detach)
        self._threads.end(number)
        del self._attached[number]

    def _tell_samples(self, is_on: bool) -> None:
        self._machine.tell_samples(is_on)
        self._is_on = is_on

    def _empty_heap(self) -> None:
        """What is alive is old then, eden empty, and no thread has a buffer.

        Raises RuntimeError if somebody else goes on allocating.
        """
        for _ in range(COLLECTIONS_MAX):
            self._machine.collect()
            if self._collector == EPSILON:
                for thread in self._attached.values():
                    self._heap.end_buffer(thread.address)
            if self._heap.is_empty:
                return
        raise RuntimeError("eden is not empty after full collections")

    def _called_back(self, env: int, reference: int) -> None:
        """Whoever is told of a sample allocates, and that may move the object."""
        self._sampled_at = self._heap.address_of(reference)
        self._machine.names.new_string(env, self._callback_length)

    def _buffers(self, buffer_bytes: int, layout: Layout) -> Buffers:
        """The buffers; if these have no bytes, nobody gets one, since they would be too small."""
        desired_bytes = self._samplers.buffer_bytes(self._attached[0].address)
        return Buffers(
            desired_bytes=desired_bytes,
            least_bytes=BUFFER_BYTES if buffer_bytes else 2 * OBJECT_BYTES_MAX,
            reserve_bytes=self._heap.reserve_bytes,
            waste_bytes=desired_bytes // WORD_BYTES // WASTE_SHARE * WORD_BYTES,
            waste_increment_bytes=WASTE_INCREMENT_WORDS * WORD_BYTES,
            birth_bytes=self._birth_bytes,
            callback_bytes=self._callback_length
            and layout.cost("string", self._callback_length, False)[0],
            charges="ahead" if self._samplers.charges_ahead else "allocated",
            taken="in order" if self._is_serial else "anywhere",
            generators="shared",
            births="reseeds",
            resting_period_bytes=RESTING_PERIOD_BYTES,
        )

    def perform(self, action: Action) -> Observation:
        """Nothing that goes wrong ends the process, whoever is to blame."""
        try:
            return self._run(action)
        except Exception as problem:  # noqa: BLE001 - also what nobody thought of is an answer
            return Observation(error=f"{type(problem).__name__}: {problem}")

    def _run(self, action: Action) -> Observation:
        if action.thread not in range(self._threads_now):
            raise ValueError(f"there is no thread {action.thread}")
        carry_out = self.CARRY_OUT.get(type(action))
        if carry_out is None:
            raise ValueError(f"{self.name} carries out no {name_of(type(action))}")
        self._is_used = True
        self._sampled_at = 0
        said = Observation()
        if isinstance(action, actions.BeginThread | actions.EndThread):
            carry_out(self, action, said)
            return said
        thread = self._attached[action.thread]
        samples, collections = self._machine.samples, self._heap.collections
        buffer_start = 0 if self._is_serial else self._heap.buffer_start(thread.address)
        self._threads.run(action.thread, partial(carry_out, self, thread, action, said))
        said.samples = self._machine.samples - samples
        said.minors = self._heap.collections - collections
        if action.allocates and not self._is_serial:
            self._tell_buffer(thread, buffer_start, said)
        if said.minors:
            said.graph = self._graph(self._attached[0])
            self._check_pinned()
        if self.name != HOTSPOT:  # Where objects lie is no promise.
            said.at = said.buffer = None
        return said

    def _tell_buffer(self, thread: JavaThread, before: int, said: Observation) -> None:
        """Where in its thread's buffer the object lies, and how large that is if it is new.

        A collection ends the one before, and the new one may begin where that did.
        """
        start = self._heap.buffer_start(thread.address)
        buffer_bytes = self._heap.buffer_end(thread.address) - start
        assert said.at is not None
        at = said.at + self._heap.start - start
        said.at = at if 0 <= at < buffer_bytes else None
        if start and (start != before or said.minors):
            said.buffer = buffer_bytes

    # Each action, by a thread, and what is said of it.

    def _allocate_node(
        self, thread: JavaThread, action: actions.AllocateNode, said: Observation
    ) -> None:
        self._placed(thread.new_node(), said)
        thread.set_number(self._roots[-1], action.number)

    def _allocate_string(
        self, thread: JavaThread, action: actions.AllocateString, said: Observation
    ) -> None:
        self._placed(thread.new_string(action.length), said)

    def _allocate_array(
        self, thread: JavaThread, action: actions.AllocateArray, said: Observation
    ) -> None:
        self._placed(thread.new_array(action.length), said)

    def _allocate_weakref(
        self, thread: JavaThread, action: actions.AllocateWeakref, said: Observation
    ) -> None:
        self._placed(thread.new_weak(self._roots[action.root]), said)

    def _placed(self, reference: int, said: Observation) -> None:
        self._roots.append(reference)
        said.size = self._machine.size_bytes(reference)
        said.at = (self._sampled_at or self._heap.address_of(reference)) - self._heap.start

    def _free(self, thread: JavaThread, action: actions.Free, said: Observation) -> None:
        thread.free(self._roots.pop(action.root))

    def _read(self, thread: JavaThread, action: actions.Read, said: Observation) -> None:
        found = thread.read(self._roots[action.root], action.field)
        if found is not None:
            self._roots.append(thread.kept(found))
            said.value = self._same(self._roots, self._roots[-1])

    def _read_number(
        self, thread: JavaThread, action: actions.ReadNumber, said: Observation
    ) -> None:
        said.value = _number(thread, self._roots[action.root])

    def _read_weakref(
        self, thread: JavaThread, action: actions.ReadWeakref, said: Observation
    ) -> None:
        said.alive = thread.is_alive(self._roots[action.root])

    def _write(self, thread: JavaThread, action: actions.Write, said: Observation) -> None:
        value = None if action.value is None else self._roots[action.value]
        thread.write(self._roots[action.root], action.field, value)

    def _write_number(
        self, thread: JavaThread, action: actions.WriteNumber, said: Observation
    ) -> None:
        thread.set_number(self._roots[action.root], action.number)

    def _copy_array(self, thread: JavaThread, action: actions.CopyArray, said: Observation) -> None:
        source, dest = self._roots[action.source], self._roots[action.dest]
        thread.copy(source, action.source_start, dest, action.dest_start, action.length)

    def _take_identity(
        self, thread: JavaThread, action: actions.TakeIdentity, said: Observation
    ) -> None:
        code = self._machine.hash_code(self._roots[action.root])
        said.identity = self._identities.setdefault(code, len(self._identities) + 1)

    def _pin(self, thread: JavaThread, action: actions.Pin, said: Observation) -> None:
        self._hold_still(thread.hold(self._roots[action.root]))

    def _unpin(self, thread: JavaThread, action: actions.Unpin, said: Observation) -> None:
        places = [at for _, _, at in self._pinned]
        self._let_go(
            self._pinned.pop(places.index(self._heap.address_of(self._roots[action.root])))
        )

    def _collect_minor(
        self, thread: JavaThread, action: actions.CollectMinor, said: Observation
    ) -> None:
        thread.collect_young()

    def _collect_full(
        self, thread: JavaThread, action: actions.CollectFull, said: Observation
    ) -> None:
        self._machine.collect()

    def _check_heap(self, thread: JavaThread, action: actions.CheckHeap, said: Observation) -> None:
        said.graph = self._graph(thread)

    def _enable(
        self, thread: JavaThread, action: actions.EnableSampling, said: Observation
    ) -> None:
        self._machine.set_interval(action.period_bytes)
        self._tell_samples(is_on=True)

    def _disable(
        self, thread: JavaThread, action: actions.DisableSampling, said: Observation
    ) -> None:
        self._tell_samples(is_on=False)

    def _set_period(self, thread: JavaThread, action: actions.SetPeriod, said: Observation) -> None:
        self._machine.set_interval(action.period_bytes)

    def _end_thread(self, action: actions.EndThread, said: Observation) -> None:
        if action.thread == 0:
            raise ValueError("the first thread does not end")
        self._detach(action.thread)

    def _begin_thread(self, action: actions.BeginThread, said: Observation) -> None:
        """What the machine allocates for it is neither sampled nor in the way of what follows."""
        if action.thread in self._attached:
            raise ValueError(f"thread {action.thread} has not ended")
        collections = self._heap.collections
        self._machine.tell_samples(is_on=False)
        said.seed = self._samplers.seed_of(self._attach(action.thread))
        self._machine.collect()
        self._machine.tell_samples(self._is_on)
        said.minors = self._heap.collections - collections
        said.graph = self._graph(self._attached[0])

    CARRY_OUT: ClassVar[Mapping[type[Action], Callable[..., None]]] = {
        actions.AllocateNode: _allocate_node,
        actions.AllocateString: _allocate_string,
        actions.AllocateArray: _allocate_array,
        actions.AllocateWeakref: _allocate_weakref,
        actions.Free: _free,
        actions.Read: _read,
        actions.ReadNumber: _read_number,
        actions.ReadWeakref: _read_weakref,
        actions.Write: _write,
        actions.WriteNumber: _write_number,
        actions.CopyArray: _copy_array,
        actions.TakeIdentity: _take_identity,
        actions.Pin: _pin,
        actions.Unpin: _unpin,
        actions.CollectMinor: _collect_minor,
        actions.CollectFull: _collect_full,
        actions.CheckHeap: _check_heap,
        actions.EnableSampling: _enable,
        actions.DisableSampling: _disable,
        actions.SetPeriod: _set_period,
        actions.EndThread: _end_thread,
        actions.BeginThread: _begin_thread,
    }
    ACTIONS: ClassVar = tuple(map(name_of, CARRY_OUT))

    def _graph(self, thread: JavaThread) -> list[list[int]]:
        """What a walk from the roots finds. Nobody allocates meanwhile, so that nothing moves."""
        queue: list[int] = []
        rows: dict[int, int] = {}
        key_of = self._heap.key_of

        def discover(reference: int) -> int:
            """The row of an object, which is a new one if it is met for the first time."""
            key = key_of(reference)
            row = rows.get(key)
            if row is None:
                row = self._same(queue, reference) if self._heap.moves_at_any_time else None
                if row is None:
                    row = len(queue)
                    queue.append(reference)
                rows[key] = row
            return row

        with thread.frame():
            for root in self._roots:
                discover(root)
            return [_row(thread, each, discover) for each in queue]  # It grows meanwhile.

    def _same(self, references: Sequence[int], reference: int) -> int | None:
        """Where one of these is the same object, first."""
        is_same = self._attached[0].is_same
        return next((at for at, each in enumerate(references) if is_same(each, reference)), None)


def _row(thread: JavaThread, reference: int, discover: Callable[[int], int]) -> list[int]:
    if thread.is_string(reference):
        return [STRING, thread.length(reference)]
    if thread.is_node(reference):
        row = [NODE, thread.number(reference)]
        references = [thread.field(reference, field) for field in range(NODE_REFERENCES)]
    elif thread.is_weak(reference):
        return [WEAKREF, 0]
    else:
        row = [ARRAY, thread.length(reference)]
        references = thread.items(reference, row[1])
    for field, found in enumerate(references):
        if found is not None:
            row += (field, discover(found))
    return row


def _number(thread: JavaThread, reference: int) -> int:
    """A node's number, or a length."""
    is_node = thread.is_node(reference)
    return thread.number(reference) if is_node else thread.length(reference)


def answer(target: HotspotTarget) -> None:
    """Serve it. What the machine says when it dies goes to standard error, and is no answer."""
    with open(os.dup(1), "w", encoding="utf-8") as answers:  # noqa: PTH123 - no path
        os.dup2(2, 1)
        serve(target, sys.stdin, answers)


if __name__ == "__main__":
    stay_on_one_processor()
    answer(HotspotTarget(*sys.argv[1:]))
