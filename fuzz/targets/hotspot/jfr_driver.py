"""The driver of `hotspot-jfr`: `python -m fuzz.targets.hotspot.jfr_driver NAME LIBJVM`.

The machine of `hotspot` carries out the actions, and JDK Flight Recorder records their samples,
which are known only when the recording has been dumped. Invariant: each trace has new threads, so
its answers do not depend on the traces before it. After a trace's start the driver reads only the
size of a new buffer, with collectors that choose it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import Any, ClassVar

import attrs
from typing_extensions import override

from fuzz.problems import BadInputError
from fuzz.protocol import actions
from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Setting
from fuzz.targets.hotspot import jfr_contract, machines
from fuzz.targets.hotspot.driver import HotspotDriver
from fuzz.targets.hotspot.java_machine import JavaMachine
from fuzz.targets.hotspot.jfr_recorder import FlightRecorder
from fuzz.targets.process.driver import CarryOut, without
from fuzz.targets.process.serve import serve_batch
from fuzz.targets.process.threads import Threads
from fuzz.targets.process.timed import TimedAllocation, allocation_of

BIRTHS_MAX = 20
"""How often threads are started until all allocate the same. The first create shared objects."""
PROBE_OBJECTS, PROBE_LENGTH = 1000, 1000
"""What two recordings allocate to find out whether the second one counts what the first had."""


class JfrDriver(HotspotDriver):
    """A virtual machine and its recorder. See LateTarget."""

    PROMISES_PLACES = False

    @cached_property
    @override
    def settings(self) -> tuple[Setting, ...]:
        return (
            jfr_contract.SETTINGS_AS_DOCUMENTED if self.is_as_documented else jfr_contract.SETTINGS
        )

    def __init__(self, name: str, library: str) -> None:
        super().__init__(name, library)
        self._folder = _new_folder()
        # Thread 0 is a new one, too: the thread that creates the machine is the recorder's.
        self._threads = Threads(first_started=0)
        self._unsettled: list[TimedAllocation] = []
        self._numbers: dict[int, int] = {}
        self._ever_attached: set[int] = set()
        self._has_one_recording = self._reports_buffers = False
        self._kinds: Mapping[str, str] = {}

    @override
    def flags_for(self, chosen: Mapping[str, int]) -> tuple[str, ...]:
        return (
            *super().flags_for(chosen),
            *jfr_contract.HEAP,
            f"-XX:TLABRefillWasteFraction={chosen[jfr_contract.WASTE_SHARE]}",
            f"-XX:FlightRecorderOptions=repository={self._folder}",
        )

    @cached_property
    @override
    def machine(self) -> JavaMachine:
        machine = super().machine
        del self.attached[0]
        self._recorder = FlightRecorder(machine, self.main_thread, self._folder)
        return machine

    @cached_property
    def _counts_all(self) -> bool:
        """Whether a recording's first weight has all that the thread has allocated.

        Two recordings on one thread show it, since fixes are ported back. Raises BadInputError.
        """
        self._start_threads(1)
        weights = []
        for _ in range(2):
            self._recorder.start(is_on=True)
            self._threads.run(0, self._allocate_probe)
            weights.append([each.weight for each in self._recorder.stop([self._numbers[0]])])
        first, second = weights
        if not (first and second):
            raise BadInputError("this JVM records no samples of allocations")
        return second[0] > sum(first) // 2

    def _allocate_probe(self) -> None:
        thread = self.attached[0]
        for _ in range(PROBE_OBJECTS):
            thread.free(thread.new_string(PROBE_LENGTH))

    @override
    def begin(self, chosen: Mapping[str, int]) -> Contract:
        self._settle(chosen)
        machine = self.machine
        machine.names.use(chosen["node_longs"], chosen["string_item_bytes"])
        self._has_one_recording = chosen[jfr_contract.EACH_OR_ONE] != jfr_contract.EACH
        self._clear()
        if self._has_one_recording:
            self._is_on = chosen[jfr_contract.EACH_OR_ONE] == jfr_contract.ALWAYS
            self._recorder.start(self._is_on)
        layout = attrs.evolve(
            machines.layout_for(chosen, machines.has_compact_headers(self._library)),
            large_object_bytes=jfr_contract.LARGE_OBJECT_BYTES,
            object_bytes_max=jfr_contract.OBJECT_BYTES_MAX,
        )
        desired_bytes = self._samplers.buffer_bytes(self.attached[0].address)
        buffers = jfr_contract.buffers_for(
            *(chosen, desired_bytes),
            *(self._heap.reserve_bytes(chosen.get("header_bytes", 12)), self._birth_bytes),
        )
        self._kinds = jfr_contract.kinds_for(chosen)
        self._reports_buffers = buffers.sizes == "reported" and not self.is_as_documented
        if not self._has_one_recording and self._counts_all:
            buffers = attrs.evolve(buffers, enabling_counts="all")
        stated = jfr_contract.contract(self.actions, chosen, layout, buffers)
        stated = attrs.evolve(stated, version=machine.version)
        return jfr_contract.as_documented(stated, chosen) if self.is_as_documented else stated

    @override
    def _clear(self) -> None:
        """End the threads of the trace before, and start new ones in an empty eden."""
        self._recorder.drop()
        self._is_on = False
        self._unsettled.clear()
        self._free_roots()
        self._counts_all  # noqa: B018 - before the threads start
        for _ in range(BIRTHS_MAX):
            births = self._start_threads(
                self.thread_count if self._birth_bytes else jfr_contract.THREADS_MAX
            )
            if births == {self._birth_bytes}:
                return
            self._birth_bytes = max(births)
        raise BadInputError(f"threads of this JVM allocate {births} bytes when they start")

    def _start_threads(self, count: int) -> set[int]:
        """Start new threads, and collect; returns what each has allocated."""
        for number in [*self.attached]:
            self._detach(number)
        self._ever_attached.clear()
        for number in range(count):
            self._attach(number)
        self.machine.collect()
        threads = self.attached.values()
        return {self._samplers.allocated_bytes(thread.address) for thread in threads}

    @override
    def _attach(self, number: int) -> int:
        address = super()._attach(number)
        number_of = partial(self._recorder.number_of, self.attached[number].env)
        self._numbers[number] = self._threads.run(number, number_of)
        self._ever_attached.add(self._numbers[number])
        return address

    @override
    def call(self, entry: Callable[[Any, Any], object], action: Action) -> object:
        if isinstance(action, self.OF_THREADS) or action.sampling:
            return entry(self, action)
        self.thread = self.attached[action.thread]
        if action.allocates:
            return self._threads.run(action.thread, partial(self._allocate, entry, action))
        return self._threads.run(action.thread, lambda: entry(self, action))

    def _allocate(self, entry: Callable[[Any, Any], object], action: Action) -> object:
        """Carry out an allocation, and note when it was."""
        address, env = self.thread.address, self.thread.env
        start, collections = self._heap.buffer_start(address), self.collections
        before = self._recorder.time(env)
        answer = entry(self, action)
        after = self._recorder.time(env)
        if self._recorder.is_running:
            made = self._numbers[action.thread], self._kinds[str(action.kind)]
            self._unsettled.append(TimedAllocation(before, after, made, self.observation))
        if self._reports_buffers:
            now = self._heap.buffer_start(address)
            if now and (now != start or self.collections != collections):
                self.observation.buffer = self._heap.buffer_end(address) - now
        return answer

    @override
    def enable(self, period_bytes: int) -> None:
        if self._has_one_recording:
            self._recorder.switch(is_on=True)
        else:
            self.settle()
            self._recorder.start(is_on=True)
        self._is_on = True

    def disable(self) -> None:
        self._is_on = False
        if self._has_one_recording:
            self._recorder.switch(is_on=False)
        else:
            self.settle()

    def settle(self) -> None:
        """End the recording, and give each allocation its samples."""
        if self._recorder.is_running:
            unsettled = self._unsettled
            for sample in self._recorder.stop(self._ever_attached):
                made = sample.thread, sample.kind
                if found := allocation_of(unsettled, sample.time, made):
                    found.observation.samples += 1
                    found.observation.weights.append(sample.weight)
                elif unsettled:
                    unsettled[-1].observation.error = f"a sample of no allocation: {sample}"
        self._unsettled.clear()

    @override
    def begin_thread(self, thread: int) -> None:  # type: ignore[override]
        if thread in self.attached:
            raise ValueError(f"thread {thread} has not ended")
        if self._is_on:
            self._recorder.switch(is_on=False)
        self._attach(thread)
        self.machine.collect()
        if self._is_on:
            self._recorder.switch(is_on=True)

    @override
    def close(self) -> None:
        rmtree(self._folder, ignore_errors=True)

    CARRY_OUT: ClassVar[CarryOut] = {
        **without(HotspotDriver.CARRY_OUT, *jfr_contract.EXCLUDED),
        actions.DisableSampling: lambda driver, _: driver.disable(),
    }


def _new_folder() -> Path:
    """The folder of this process's recordings. Removes those that killed processes have left."""
    folders = Path(gettempdir(), f"gcfuzz-jfr-{os.getuid()}")
    own = folders / str(os.getpid())
    folders.mkdir(mode=0o700, exist_ok=True)
    for other in folders.iterdir():
        if other == own or not Path("/proc", other.name).exists():
            rmtree(other, ignore_errors=True)
    own.mkdir()
    return own


if __name__ == "__main__":
    JfrDriver.main(serve_batch)
