"""The driver of `hotspot-exhaustion`: phantom references in a heap that is full again and again.

`python -m fuzz.targets.hotspot.exhaustion_driver NAME LIBJVM`. An allocation that throws
OutOfMemoryError with the message "Java heap space" is exhausted. Invariant: only "Java heap space"
is; "Requested array size exceeds VM limit" and other errors are errors of the action.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import attrs
from typing_extensions import override

from fuzz.protocol.actions import Action
from fuzz.protocol.contract import Contract, Range, Setting
from fuzz.protocol.exhaustion import Exhaustion
from fuzz.targets.hotspot.finalizers_driver import HotspotFinalizersDriver
from fuzz.targets.hotspot.java_machine import AllocationError, JavaMachine, there
from fuzz.targets.hotspot.machines import (
    COLLECTOR,
    COLLECTORS,
    SERIAL,
    SETTINGS_OF_KINDS,
    heap_bytes,
    old_bytes,
)

HEAP_SPACE = b"Java heap space"
OBJECT_BYTES_MAX = 2**23
"""Eight of these fill the heap."""
MACHINE_BYTES = 2**20
"""More than what the machine and the driver keep alive themselves."""
RESERVE_LENGTH = 2**14
"""An array of this length is larger than the phantom references of a trace."""
WITH_SERIAL = {COLLECTOR: COLLECTORS.index(SERIAL)}
"""Other collectors place large objects in whole regions, or promise less."""
SOFT = Setting("soft_references", 0, Range(0, 1))
"""Whether weak references are soft. "All soft references to softly-reachable objects are guaranteed
to have been cleared before the virtual machine throws an OutOfMemoryError" (SoftReference)."""
SETTINGS = (*SETTINGS_OF_KINDS, SOFT)
TIMESTAMP_BYTES = 8
"""What a soft reference has more than a weak one."""
THROWABLE, MESSAGE = b"java/lang/Throwable", (b"detailMessage", b"Ljava/lang/String;")


class HotspotExhaustionDriver(HotspotFinalizersDriver):
    """Allocations that may fail."""

    settings = SETTINGS
    # A machine that collects for too long without success would throw another error.
    FLAGS = (*HotspotFinalizersDriver.FLAGS, "-XX:-UseGCOverheadLimit")

    def __init__(self, name: str, library: str) -> None:
        super().__init__(name, library)
        self._reserve: int | None = None

    @cached_property
    @override
    def machine(self) -> JavaMachine:
        machine = super().machine
        jni, env = machine.jni, self.attached[0].env
        throwable = there(jni.FindClass(env, THROWABLE))
        self._message = there(jni.GetFieldID(env, throwable, *MESSAGE))
        return machine

    @override
    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin({**WITH_SERIAL, **chosen})
        if self._reserve is None:
            self._reserve = self.attached[0].new_array(RESERVE_LENGTH)
        self.machine.names.use_soft(is_soft := bool(chosen[SOFT.name]))
        capacity_bytes = old_bytes(WITH_SERIAL) - MACHINE_BYTES
        weakref = contract.layout.kinds["weakref"]
        reference_bytes = weakref.fixed_bytes + is_soft * TIMESTAMP_BYTES
        return attrs.evolve(
            contract,
            layout=attrs.evolve(
                contract.layout,
                kinds={
                    **contract.layout.kinds,
                    "weakref": attrs.evolve(weakref, fixed_bytes=reference_bytes),
                },
                object_bytes_max=OBJECT_BYTES_MAX,
                large_object_bytes=OBJECT_BYTES_MAX + 1,
            ),
            observes=(*contract.observes, "exhausted"),
            settings=SETTINGS,
            # A string that does not fit in eden is old from the start.
            survivor_bytes=0,
            exhaustion=Exhaustion(
                capacity_bytes, heap_bytes(WITH_SERIAL) - capacity_bytes, soft=is_soft
            ),
        )

    @override
    def call(self, entry: Callable[[Any, Any], object], action: Action) -> object:
        try:
            return super().call(entry, action)
        except AllocationError as problem:
            if self._message_of(problem) != HEAP_SPACE:
                raise
            self.observation.exhausted = True
            return None

    @override
    def add(self, target: int, number: int) -> None:
        """Only allocations may be exhausted, so the reference may take the place of the reserve."""
        try:
            super().add(target, number)
        except AllocationError as problem:
            if self._reserve is None:
                raise
            self.machine.jni.DeleteLocalRef(self.attached[0].env, problem.thrown)
            self.attached[0].free(self._reserve)
            self._reserve = None
            super().add(target, number)

    @override
    def add_sentinel(self) -> None:
        """There is none: in a heap that is nearly full, young collections find no dead objects."""

    def _message_of(self, problem: AllocationError) -> bytes | None:
        """The message of what was thrown. At this moment nothing can be allocated."""
        jni, thread = self.machine.jni, self.attached[0]
        message = None
        with thread.frame():
            text = jni.GetObjectField(thread.env, problem.thrown, self._message)
            if text is not None:
                characters = jni.GetStringUTFChars(thread.env, text, None)
                message = ctypes.string_at(characters)
                jni.ReleaseStringUTFChars(thread.env, text, characters)
        jni.DeleteLocalRef(thread.env, problem.thrown)
        return message


if __name__ == "__main__":
    HotspotExhaustionDriver.main()
