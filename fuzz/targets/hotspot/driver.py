"""The driver of `hotspot`: `python -m fuzz.targets.hotspot.driver NAME LIBJVM`.

It creates a virtual machine in its own process, as its first header requires, and the machine
carries out the actions. Invariant: a header empties the heap and sets the samplers, so the answers
to a trace do not depend on the traces before it. After that the driver reads only where a new
buffer starts and ends.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import repeat
from random import Random
from typing import Any, ClassVar

import attrs
from typing_extensions import override

from fuzz.problems import BadInputError
from fuzz.protocol import actions
from fuzz.protocol.actions import Action, name_of
from fuzz.protocol.contract import Contract, Setting
from fuzz.protocol.counting import Buffers
from fuzz.protocol.layout import Layout
from fuzz.protocol.written import contents_of, row_of
from fuzz.targets.hotspot import machines
from fuzz.targets.hotspot.contract import contract, contract_as_documented
from fuzz.targets.hotspot.hotspot_state import HEAPS, Samplers, ShenandoahHeap
from fuzz.targets.hotspot.java_machine import JavaMachine, JavaThread
from fuzz.targets.hotspot.machines import EPSILON, G1, PARALLEL, SERIAL, SHENANDOAH, TIER
from fuzz.targets.hotspot.makers import TIERS, Makers, MakingThread, Tier
from fuzz.targets.hotspot.structs import WORD_BYTES, Structs
from fuzz.targets.process.driver import CarryOut, Driver
from fuzz.targets.process.serve import serve
from fuzz.targets.process.threads import Threads, stay_on_one_processor

NODE_REFERENCES = 2
RESTING_PERIOD_BYTES = 2**19
"""The period between traces: the default of JVMTI (SetHeapSamplingInterval)."""
BIRTHS = 2
"""How many threads are started until it is known what each allocates."""
COLLECTIONS_MAX = 100
"""If eden is not empty after this many, another thread allocates."""
G1_PINS_REGIONS_SINCE = 22
CALLS_OUTSIDE_SINCE = 20
"""Before it, bytecode allocates in eden without a call if there are no buffers (JDK-8290706)."""


class HotspotDriver(Driver):
    """A virtual machine."""

    OF_THREADS: ClassVar[tuple[type[Action], ...]] = (actions.BeginThread, actions.EndThread)
    """The main thread carries these out, regardless of the action's thread."""
    PROMISES_PLACES: ClassVar[bool] = True
    """Whether the implementation's contract promises where objects and buffers are."""
    FLAGS: ClassVar[tuple[str, ...]] = ("-XX:-UseCompiler",)
    """A compiler's thread resolves a method's references, and for that takes a buffer in eden."""
    TAKES_TURNS: ClassVar[bool] = True
    """Whether one thread runs at a time."""

    def __init__(self, name: str, library: str) -> None:
        super().__init__(name)
        self._library = library
        self._promises_places = self.PROMISES_PLACES and not self.is_as_documented
        self._flags: tuple[str, ...] = ()
        self.roots: list[int] = []
        self._threads = Threads()
        self.attached: dict[int, JavaThread] = {}
        self.identities: dict[int, int] = {}
        self.string_count = 0
        """How many strings the trace has allocated: the number of the newest one."""
        self._is_on = False
        self._is_used = True
        self._birth_bytes = 0
        self._callback_length = 0
        self._sampled_at = 0
        self._helper = Threads(first_started=0)
        self._pinned: list[tuple[int, int, int]] = []

    @cached_property
    def _loaded(self) -> ctypes.CDLL:
        try:
            return ctypes.CDLL(self._library)
        except OSError as problem:
            raise BadInputError(f"{problem}; --java names a JVM's folder") from problem

    @cached_property
    def _structs(self) -> Structs:
        return Structs(self._loaded)

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        if not self._promises_places:
            return machines.SETTINGS_AS_DOCUMENTED
        return machines.settings_of(self._library, self._structs)

    @cached_property
    def machine(self) -> JavaMachine:
        """It is created at the first header, whose answer says if that is impossible."""
        machine = JavaMachine(self._loaded, self._flags)
        self._heap = HEAPS[self._collector](self._structs)
        if isinstance(self._heap, ShenandoahHeap):
            machine.send_collections_to(self._heap.counter.callback)
        self._samplers = Samplers(self._structs, self._library)
        if self._tier:
            makers = Makers(machine, self._structs, self._tier.level)
            machine.new_thread = partial(MakingThread, makers)
        self.attached[0] = self.main_thread = machine.attach()
        return machine

    @cached_property
    def _pinner(self) -> JavaThread:
        """The thread that does nothing but wait in critical sections."""
        return self._helper.run(0, self.machine.attach)

    @property
    def _collects_beside_pins(self) -> bool:
        """Whether the machine collects while an array is pinned.

        Shenandoah does, and G1 since version 22 (JEP 423). Others delay collections, so that an
        allocation may wait forever. To try it is not possible: G1 of version 21 never returns.
        """
        if self._collector == G1:
            return self.machine.feature_release >= G1_PINS_REGIONS_SINCE
        return self._collector == SHENANDOAH

    def _let_go(self, pinned: tuple[int, int, int]) -> None:
        array, items, _ = pinned
        self._helper.run(0, partial(self._pinner.unpin, array, items))
        self.main_thread.free(array)

    def _measure_birth(self) -> int:
        """What a thread allocates when it starts. The first ones also create shared objects."""
        for _ in range(BIRTHS):
            number = len(self.attached)
            self._attach(number)
            self.machine.collect()
            birth_bytes = self._samplers.allocated_bytes(self.attached[number].address)
            self._detach(number)
        return birth_bytes

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        self._settle(chosen)
        self.machine.names.use(chosen["node_longs"], chosen["string_item_bytes"])
        if self._is_used or not self.attached.keys() >= {*range(self.thread_count)}:
            self._clear()
        elif self._heap.is_used_up:
            raise SystemExit  # The next trace gets another process.
        layout = machines.layout_for(chosen, machines.has_compact_headers(self._library))
        # With other collectors two buffers might start in one action.
        may_call_back = self._is_serial or not self._promises_places
        self._callback_length = chosen.get(machines.CALLBACK.name, 0) if may_call_back else 0
        self.machine.called_back = self._called_back if self._callback_length else None
        if self._promises_places:
            self._begin_samplers(chosen["sampler_seed"], repeat(chosen["first_bytes"]))
            buffers = self._buffers(chosen, layout)
            stated = contract(self.actions, chosen, self._heap.nursery_bytes, layout, buffers)
            if self._collector == EPSILON:
                stated = stated.without(("collect_full", "begin_thread", "end_thread"))
        else:
            period_bytes = chosen["period_bytes"]
            random = Random(chosen["sampler_seed"])  # noqa: S311 - no secret
            first_bytes = (
                period_bytes and int(random.expovariate(1 / period_bytes)) + 1
                for _ in self.attached
            )
            self._begin_samplers(random.getrandbits(48), first_bytes)
            stated = contract_as_documented(self.actions, chosen, self._heap.nursery_bytes, layout)
        if not (self._collector in machines.HAVE_YOUNG and self.machine.names.can_collect_young):
            stated = stated.without((name_of(actions.CollectMinor),))
        pins = chosen.get("pins", 0) if self._collects_beside_pins else 0
        if not pins:
            stated = stated.without(("pin", "unpin"))
        if pins or self._callback_length:
            # The contract does not model that a pin keeps an object alive, or that a new object is
            # old if the callback has collected.
            stated = stated.without(("allocate_weakref",))
        has_weakrefs = name_of(actions.AllocateWeakref) in stated.actions
        return attrs.evolve(
            stated,
            version=self.machine.version,
            settings=self.settings,
            pins_max=pins,
            survivor_bytes=self._heap.survivor_bytes,
            weak_reads="kept" if has_weakrefs else "answered",
            tier_setting=TIER.name if TIER in self.settings else None,
        )

    def flags_for(self, chosen: Mapping[str, int]) -> tuple[str, ...]:
        """The machine's flags. Of two that contradict each other, the second one holds."""
        tier = _tier_of(chosen)
        return *machines.flags_for(chosen), *self.FLAGS, *(tier.flags if tier else ())

    def _settle(self, chosen: Mapping[str, int]) -> None:
        """Set the machine's flags. Raises BadInputError if it was created with others."""
        flags = self.flags_for(chosen)
        if self._flags not in ((), flags):
            raise BadInputError("this process has a machine with other flags")
        self._flags, self._collector = (flags, machines.COLLECTORS[chosen[machines.COLLECTOR]])
        self._is_serial = self._collector == SERIAL
        self._tier = _tier_of(chosen)

    def _clear(self) -> None:
        """Undo what a trace has done, and start all threads. This costs a full collection."""
        self.report_samples(is_on=False)
        self.machine.set_interval(RESTING_PERIOD_BYTES)
        while self._pinned:
            self._let_go(self._pinned.pop())
        self._free_roots()
        for number in range(self.thread_count):
            if number not in self.attached:
                self._attach(number)
        self._samplers.find_generator(lambda: self._attach(len(self.attached)))
        self._birth_bytes = self._birth_bytes or self._measure_birth()
        if self._collects_beside_pins:
            # Its thread allocates when it is attached. Attached by the first pin of a trace, it
            # would take a part of eden from the trace, so that samples come at other places.
            self._pinner  # noqa: B018 - see above
        self._empty_heap()
        self._is_used = False

    def _free_roots(self) -> None:
        for root in self.roots:
            self.main_thread.free(root)
        self.roots, self.identities, self.string_count = [], {}, 0

    def _begin_samplers(self, generator: int, first_bytes: Iterable[int]) -> None:
        self._samplers.begin(generator)
        attached = (thread for _, thread in sorted(self.attached.items()))
        for thread, until_bytes in zip(attached, first_bytes, strict=False):
            self._samplers.begin_thread(thread.address, until_bytes)

    def _attach(self, number: int) -> int:
        """Start a thread; returns the address of the machine's `Thread`."""
        self.attached[number] = self._threads.run(number, self.machine.attach)
        return self.attached[number].address

    def _detach(self, number: int) -> None:
        self._threads.run(number, self.machine.detach)
        self._threads.end(number)
        del self.attached[number]

    def report_samples(self, is_on: bool) -> None:
        self.machine.report_samples(is_on)
        self._is_on = is_on

    def _empty_heap(self) -> None:
        """Make all live objects old, eden empty, and take the threads' buffers away.

        Raises RuntimeError if another thread allocates.
        """
        for _ in range(COLLECTIONS_MAX):
            self.machine.collect()
            if self._collector == EPSILON:
                for thread in self.attached.values():
                    self._heap.end_buffer(thread.address)
            if self._heap.is_empty:
                return
        raise RuntimeError("eden is not empty after full collections")

    def _called_back(self, env: int, reference: int) -> None:
        """The callback of a sample allocates, which may move the sampled object."""
        self._sampled_at = self._heap.address_of(reference)
        self.machine.names.new_string(env, self._callback_length)

    def _buffers(self, chosen: Mapping[str, int], layout: Layout) -> Buffers:
        """The way to count. Without buffers their minimum is more than any object needs."""
        buffer_bytes = chosen["buffer_bytes"]
        is_inline_in_eden = (
            not buffer_bytes
            and self._collector in (SERIAL, PARALLEL)
            and self.machine.feature_release < CALLS_OUTSIDE_SINCE
        )
        desired_bytes = self._samplers.buffer_bytes(self.attached[0].address)
        return Buffers(
            desired_bytes=desired_bytes,
            least_bytes=0 if buffer_bytes else 2 * machines.OBJECT_BYTES_MAX,
            reserve_bytes=self._heap.reserve_bytes(chosen["header_bytes"]),
            waste_bytes=desired_bytes // WORD_BYTES // machines.WASTE_SHARE * WORD_BYTES,
            waste_increment_bytes=machines.WASTE_INCREMENT_WORDS * WORD_BYTES,
            birth_bytes=self._birth_bytes,
            callback_bytes=self._callback_length
            and layout.cost("string", self._callback_length, False)[0],
            charges="ahead" if self._samplers.charges_ahead else "allocated",
            taken="in order" if self._is_serial else "anywhere",
            generators="shared",
            births="reseeds",
            resting_period_bytes=RESTING_PERIOD_BYTES,
            inline_kinds=self._tier.inline_kinds if self._tier else (),
            inline_spare_bytes=self._tier.inline_spare_bytes if self._tier else 0,
            inline_outside="unseen" if is_inline_in_eden else "looked at",
        )

    @property
    def collections(self) -> int:  # type: ignore[override]
        return self._heap.collections

    def call(self, entry: Callable[[Any, Any], object], action: Action) -> object:
        self._is_used = True
        self._sampled_at = 0
        if isinstance(action, self.OF_THREADS):
            return entry(self, action)
        self.thread = thread = self.attached[action.thread]
        collections = self.collections
        buffer_start = 0 if self._is_serial else self._heap.buffer_start(thread.address)
        answer = self._threads.run(action.thread, lambda: self._answer(entry, action))
        if action.allocates and self._promises_places and not self._is_serial:
            self._observe_buffer(buffer_start, self.collections != collections)
        return answer

    def _answer(self, entry: Callable[[Any, Any], object], action: Action) -> object:
        answer = entry(self, action)
        allocated = self.roots[-1] if action.allocates else None
        self.observation.samples = self.machine.take_samples(self.thread, allocated)
        return answer

    def after_collection(self) -> None:
        self.observation.graph = self.graph(self.main_thread)
        for array, _, at in self._pinned:
            if self._heap.address_of(array) != at:
                raise RuntimeError("a pinned array has been moved")

    def _observe_buffer(self, before: int, has_collected: bool) -> None:
        """Observe where in its thread's buffer the object is, and the size of a new buffer.

        A collection ends the buffer before, and the new one may start at the same place.
        """
        observation = self.observation
        start = self._heap.buffer_start(self.thread.address)
        buffer_bytes = self._heap.buffer_end(self.thread.address) - start
        assert observation.at is not None
        at = observation.at + self._heap.start - start
        observation.at = at if 0 <= at < buffer_bytes else None
        if start and (start != before or has_collected):
            observation.buffer = buffer_bytes

    def place(self, reference: int) -> int:
        """Make a new object a root, and observe where it is; returns its size."""
        self.roots.append(reference)
        if self._promises_places:
            address = self._sampled_at or self._heap.address_of(reference)
            self.observation.at = address - self._heap.start
        return self.machine.size_bytes(reference)

    def new_node(self, number: int) -> int:
        size_bytes = self.place(self.thread.new_node())
        self.thread.set_number(self.roots[-1], number)
        return size_bytes

    def new_string(self, length: int) -> int:
        size_bytes = self.place(self.thread.new_string(length))
        self.string_count += 1
        count = length * self.machine.names.string_item_bytes
        self.thread.set_contents(self.roots[-1], contents_of(self.string_count, count))
        return size_bytes

    def read(self, root: int, field: int) -> int | None:
        found = self.thread.read(self.roots[root], field)
        if found is None:
            return None
        self.roots.append(self.thread.kept(found))
        return self._same(self.roots, self.roots[-1])

    def read_weakref(self, root: int, keep: bool) -> bool:
        """Whether its object is alive. If it is kept, it is a root, or else the reference again."""
        weakref, thread = self.roots[root], self.thread
        found = thread.referent(weakref)
        if keep:
            self.roots.append(thread.hold(weakref) if found is None else found)
        elif found is not None:
            thread.free(found)
        return found is not None

    def write(self, root: int, field: int, value: int | None) -> None:
        self.thread.write(self.roots[root], field, None if value is None else self.roots[value])

    def identity(self, root: int) -> int:
        code = self.machine.hash_code(self.roots[root])
        return self.identities.setdefault(code, len(self.identities) + 1)

    def pin(self, root: int) -> None:
        array = self.thread.hold(self.roots[root])
        items = self._helper.run(0, partial(self._pinner.pin, array))
        self._pinned.append((array, items, self._heap.address_of(array)))

    def unpin(self, root: int) -> None:
        places = [at for _, _, at in self._pinned]
        self._let_go(self._pinned.pop(places.index(self._heap.address_of(self.roots[root]))))

    def enable(self, period_bytes: int) -> None:
        self.machine.set_interval(period_bytes)
        self.report_samples(is_on=True)

    def end_thread(self, thread: int) -> None:
        if thread == 0:
            raise ValueError("the first thread does not end")
        self._detach(thread)

    def begin_thread(self, thread: int) -> int:
        """The seed. What the machine allocates for the thread is neither sampled nor kept."""
        if thread in self.attached:
            raise ValueError(f"thread {thread} has not ended")
        self.machine.report_samples(is_on=False)
        seed = self._samplers.seed_of(self._attach(thread))
        self.machine.collect()
        self.machine.report_samples(self._is_on)
        return seed

    CARRY_OUT: ClassVar[CarryOut] = {
        actions.AllocateNode: lambda driver, each: driver.new_node(each.number),
        actions.AllocateString: lambda driver, each: driver.new_string(each.length),
        actions.AllocateArray: lambda driver, each: driver.place(
            driver.thread.new_array(each.length)
        ),
        actions.AllocateWeakref: lambda driver, each: driver.place(
            driver.thread.new_weak(driver.roots[each.root])
        ),
        actions.Free: lambda driver, each: driver.thread.free(driver.roots.pop(each.root)),
        actions.Read: lambda driver, each: driver.read(each.root, each.field),
        actions.ReadNumber: lambda driver, each: _number(driver.thread, driver.roots[each.root]),
        actions.ReadWeakref: lambda driver, each: driver.read_weakref(each.root, each.keep),
        actions.Write: lambda driver, each: driver.write(each.root, each.field, each.value),
        actions.WriteNumber: lambda driver, each: driver.thread.set_number(
            driver.roots[each.root], each.number
        ),
        actions.CopyArray: lambda driver, each: driver.thread.copy(
            *(driver.roots[each.source], each.source_start),
            *(driver.roots[each.dest], each.dest_start, each.length),
        ),
        actions.TakeIdentity: lambda driver, each: driver.identity(each.root),
        actions.Pin: lambda driver, each: driver.pin(each.root),
        actions.Unpin: lambda driver, each: driver.unpin(each.root),
        actions.CollectMinor: lambda driver, _: driver.thread.collect_young(),
        actions.CollectFull: lambda driver, _: driver.machine.collect(),
        actions.CheckHeap: lambda driver, _: driver.graph(driver.thread),
        actions.CheckContents: lambda driver, _: driver.contents(driver.thread),
        actions.EnableSampling: lambda driver, each: driver.enable(each.period_bytes),
        actions.DisableSampling: lambda driver, _: driver.report_samples(is_on=False),
        actions.SetPeriod: lambda driver, each: driver.machine.set_interval(each.period_bytes),
        actions.EndThread: lambda driver, each: driver.end_thread(each.thread),
        actions.BeginThread: lambda driver, each: driver.begin_thread(each.thread),
    }

    def graph(self, thread: JavaThread) -> list[list[int]]:
        """What a walk from the roots finds."""
        with thread.frame():
            return [row for _, row in self._walk(thread)]

    def contents(self, thread: JavaThread) -> list[list[int]]:
        """What `check_contents` answers. The number of a string is read from its bytes."""
        with thread.frame():
            found = (each for each, row in self._walk(thread) if row[0] == machines.STRING)
            return [row_of(thread.contents(string)) for string in found]

    def _walk(self, thread: JavaThread) -> Iterator[tuple[int, list[int]]]:
        """Each object and its row. Nothing allocates meanwhile, so most heaps move nothing."""
        queue: list[int] = []
        rows: dict[int, int] = {}
        key_of, is_same = self._heap.key_of, self.main_thread.is_same

        def discover(reference: int) -> int:
            key = key_of(reference)
            row = rows.get(key)
            if self._heap.moves_at_any_time and (row is None or not is_same(queue[row], reference)):
                row = self._same(queue, reference)
            if row is None:
                row = len(queue)
                queue.append(reference)
            rows[key] = row
            return row

        for root in self.roots:
            discover(root)
        for reference in queue:  # It grows meanwhile.
            yield reference, _row(thread, reference, discover)

    def _same(self, references: Sequence[int], reference: int) -> int | None:
        is_same = self.main_thread.is_same
        return next((at for at, each in enumerate(references) if is_same(each, reference)), None)

    @classmethod
    @override
    def main(cls, answer: Callable[..., None] = serve) -> None:
        """Serve it. What the machine prints goes to standard error, not to the answers."""
        if cls.TAKES_TURNS:
            stay_on_one_processor()
        with open(os.dup(1), "w", encoding="utf-8") as own:  # noqa: PTH123 - no path
            os.dup2(2, 1)
            super().main(lambda target, lines, _: answer(target, lines, own))


def _tier_of(chosen: Mapping[str, int]) -> Tier | None:
    """The tier of makers; None if JNI allocates."""
    return TIERS.get(chosen.get(TIER.name, 0))


def _row(thread: JavaThread, reference: int, discover: Callable[[int], int]) -> list[int]:
    if thread.is_string(reference):
        return [machines.STRING, thread.length(reference)]
    if thread.is_node(reference):
        row = [machines.NODE, thread.number(reference)]
        references = [thread.field(reference, field) for field in range(NODE_REFERENCES)]
    elif thread.is_weak(reference):
        return [machines.WEAKREF, 0]
    else:
        row = [machines.ARRAY, thread.length(reference)]
        references = thread.items(reference, row[1])
    for field, found in enumerate(references):
        if found is not None:
            row += (field, discover(found))
    return row


def _number(thread: JavaThread, reference: int) -> int:
    is_node = thread.is_node(reference)
    return thread.number(reference) if is_node else thread.length(reference)


if __name__ == "__main__":
    HotspotDriver.main()
