"""The driver of `hotspot-finalizers`: phantom references, without the sampler.

`python -m fuzz.targets.hotspot.finalizers_driver NAME LIBJVM`. The machine puts a PhantomReference
into a ReferenceQueue. Invariant: after a collection the driver waits until the reference to a
sentinel is in the queue, to which nothing else has referred, and the machine's thread for
references has nothing left to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import c_int64
from functools import cached_property
from typing import ClassVar

import attrs
from typing_extensions import override

from fuzz.protocol import actions
from fuzz.protocol.contract import NO_SAMPLING, Contract
from fuzz.protocol.finalizers import Finalizers
from fuzz.targets.hotspot.driver import HotspotDriver
from fuzz.targets.hotspot.java_machine import JavaMachine, held_class, there
from fuzz.targets.hotspot.machines import COLLECTOR, SETTINGS_AS_DOCUMENTED, SETTINGS_OF_KINDS
from fuzz.targets.process.driver import CarryOut, without

PROMISE = Finalizers(within=0, weak="cleared_before", objects="dead")
"""java.lang.ref.PhantomReference: references are queued "at the same time or at some later time",
and an object is phantom reachable only if it is not weakly reachable."""
SETTINGS = tuple(
    each for each in SETTINGS_AS_DOCUMENTED if each.name == COLLECTOR or each in SETTINGS_OF_KINDS
)
OTHERS = {each.name: each.default for each in SETTINGS_AS_DOCUMENTED if each not in SETTINGS}
OF_SAMPLING = (actions.EnableSampling, actions.DisableSampling)
OF_PINS = (actions.Pin, actions.Unpin)
REFERENCES_BYTES = 1 << 14
"""The driver's own references, which survive, too: 340 of at most 48 bytes."""
ROUNDS_MAX = 10_000
"""How often the driver looks for the sentinel's reference while the machine has nothing to do."""
SENTINEL = -1
"""The number of a finalizer that is none of a trace's."""
QUEUE, PHANTOM = "java/lang/ref/ReferenceQueue", "java/lang/ref/PhantomReference"
REFERENCE = "java/lang/ref/Reference"


class HotspotFinalizersDriver(HotspotDriver):
    """Phantom references."""

    PROMISES_PLACES = False
    settings = SETTINGS

    @cached_property
    @override
    def machine(self) -> JavaMachine:
        machine = super().machine
        jni, env = machine.jni, self.attached[0].env
        queue, self._phantom, self._reference = (
            held_class(jni, env, name) for name in (QUEUE, PHANTOM, REFERENCE)
        )
        constructor = b"(Ljava/lang/Object;Ljava/lang/ref/ReferenceQueue;)V"
        self._new, new_queue, self._poll, self._clear_it, self._refers_to = (
            there(jni.GetMethodID(env, *each))
            for each in (
                (self._phantom, b"<init>", constructor),
                (queue, b"<init>", b"()V"),
                (queue, b"poll", b"()Ljava/lang/ref/Reference;"),
                (self._reference, b"clear", b"()V"),
                (self._reference, b"refersTo", b"(Ljava/lang/Object;)Z"),
            )
        )
        self._wait = there(
            jni.GetStaticMethodID(env, self._reference, b"waitForReferenceProcessing", b"()Z")
        )
        self._queue = self.attached[0].kept(jni.NewObjectA(env, queue, new_queue, None))
        # The references that have not been queued, and the numbers of those that have.
        self._phantoms: dict[int, int] = {}
        self._pending: list[int] = []
        return machine

    @override
    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin({**OTHERS, **chosen})
        for phantom in self._phantoms:
            self.attached[0].free(phantom)
        self._phantoms = {}
        self._pending = []
        self.add_sentinel()
        assert contract.survivor_bytes is not None
        return attrs.evolve(
            contract,
            survivor_bytes=contract.survivor_bytes - REFERENCES_BYTES,
            observes=(
                *("minors", "size", "value", "alive", "identity", "graph", "contents"),
                "finalized",
            ),
            sampling=NO_SAMPLING,
            settings=SETTINGS,
            finalizers=PROMISE,
        )

    @override
    def after_collection(self) -> None:
        super().after_collection()
        jni, thread = self.machine.jni, self.attached[0]
        is_busy, rounds = True, 0
        while is_busy or SENTINEL in self._phantoms.values():
            rounds += not is_busy
            if rounds > ROUNDS_MAX:
                raise RuntimeError("the reference to the sentinel was not queued")
            is_busy = jni.CallStaticBooleanMethodA(thread.env, self._reference, self._wait, None)
            while found := jni.CallObjectMethodA(thread.env, self._queue, self._poll, None):
                self._take(found)
                jni.DeleteLocalRef(thread.env, found)
        self._pending = [number for number in self._pending if number != SENTINEL]
        self.add_sentinel()

    def _take(self, found: int) -> None:
        """A reference was queued; one of an earlier trace does nothing."""
        thread = self.attached[0]
        for phantom in self._phantoms:
            if thread.is_same(phantom, found):
                thread.free(phantom)
                self._pending.append(self._phantoms.pop(phantom))
                return

    def add_sentinel(self) -> None:
        """Register an object that is dead already."""
        thread = self.attached[0]
        target = thread.new_array(0)
        self.add(target, SENTINEL)
        thread.free(target)

    def add(self, target: int, number: int) -> None:
        jni, thread = self.machine.jni, self.attached[0]
        arguments = (c_int64 * 2)(target, self._queue)
        made = jni.NewObjectA(thread.env, self._phantom, self._new, arguments)
        self._phantoms[thread.kept(made)] = number

    def unregister(self, root: int) -> None:
        jni, thread = self.machine.jni, self.attached[0]
        target = (c_int64 * 1)(self.roots[root])
        for phantom in [*self._phantoms]:
            if jni.CallBooleanMethodA(thread.env, phantom, self._refers_to, target):
                jni.CallVoidMethodA(thread.env, phantom, self._clear_it, None)
                thread.free(phantom)
                del self._phantoms[phantom]

    def run(self) -> list[int]:
        pending, self._pending = self._pending, []
        return pending

    CARRY_OUT: ClassVar[CarryOut] = {
        **without(HotspotDriver.CARRY_OUT, *OF_SAMPLING, *OF_PINS),
        actions.RegisterFinalizer: lambda driver, each: driver.add(
            driver.roots[each.root], each.number
        ),
        actions.UnregisterFinalizer: lambda driver, each: driver.unregister(each.root),
        actions.RunFinalizers: lambda driver, _: driver.run(),
    }


if __name__ == "__main__":
    HotspotFinalizersDriver.main()
