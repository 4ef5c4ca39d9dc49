"""HotSpot with one mistake: `python mistaken_hotspot.py MISTAKE LIBJVM`."""

import sys
from collections.abc import Mapping
from ctypes import c_int64, c_void_p, cast
from typing import Any, ClassVar

from fuzz.protocol.actions import Action, AllocateNode, AllocateWeakref, CollectFull, RunAtOnce
from fuzz.protocol.contract import Contract
from fuzz.targets.hotspot import java_machine
from fuzz.targets.hotspot.class_file import class_file
from fuzz.targets.hotspot.concurrent_driver import ConcurrentDriver
from fuzz.targets.hotspot.driver import HotspotDriver
from fuzz.targets.hotspot.java_machine import REF, TEXT, Functions, Sampled
from fuzz.targets.hotspot.makers import MAKERS
from fuzz.targets.hotspot.sample_counter import LoggedSample
from fuzz.targets.hotspot.share_class import CODE, RUN, share_class

KEEPING = "aload 0; iload 7; aload 6; aastore"
DEOPTIMIZE = ("deoptimizeAll", "()V")
UNSAFE = "jdk/internal/misc/Unsafe"
CALLS = {"GetMethodID": (33, REF, REF, TEXT, TEXT), "CallVoidMethodA": (63, None, REF, REF, REF)}


class Holding(HotspotDriver):
    """The object of a weak reference is held."""

    held: ClassVar[list[int]] = []

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        while self.held:
            self.attached[0].free(self.held.pop())
        return super().begin(chosen)

    def carry_out(self, action: Action) -> None:
        if isinstance(action, AllocateWeakref):
            self.held.append(self.attached[0].hold(self.roots[action.root]))
        super().carry_out(action)


class Damaging(HotspotDriver):
    """A full collection clears the last byte of the first root, a string."""

    def carry_out(self, action: Action) -> None:
        super().carry_out(action)
        if isinstance(action, CollectFull):
            thread, string = self.attached[0], self.roots[0]
            thread.set_contents(string, thread.contents(string)[:-1] + b"\0")


class Dying(HotspotDriver):
    """It writes to address 0 when it allocates a node."""

    def carry_out(self, action: Action) -> None:
        if isinstance(action, AllocateNode):
            jni, env = self.machine.jni, self.attached[0].env
            calls = Functions(CALLS, env)
            unsafe = jni.FindClass(env, UNSAFE.encode())
            get = jni.GetStaticMethodID(env, unsafe, b"getUnsafe", f"()L{UNSAFE};".encode())
            itself = jni.CallStaticObjectMethodA(env, unsafe, get, None)
            put = calls.GetMethodID(env, unsafe, b"putLong", b"(JJ)V")
            calls.CallVoidMethodA(env, itself, put, (c_int64 * 2)(0, 0))
        super().carry_out(action)


class Uncompiled(HotspotDriver):
    """One of the methods that allocate is not compiled."""

    def flags_for(self, chosen: Mapping[str, int]) -> tuple[str, ...]:
        excluded = f"-XX:CompileCommand=exclude,{MAKERS}.array"
        return *super().flags_for(chosen), excluded


class Deoptimizing(HotspotDriver):
    """A full collection drops all machine code."""

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin(chosen)
        names, (name, kind) = self.machine.names, map(str.encode, DEOPTIMIZE)
        self._deoptimize = self.machine.jni.GetStaticMethodID(
            self.machine.env, names.white_box, name, kind
        )
        return contract

    def carry_out(self, action: Action) -> None:
        super().carry_out(action)
        if isinstance(action, CollectFull):
            box = self.machine.names.white_box
            self.machine.jni.CallStaticVoidMethodA(self.machine.env, box, self._deoptimize, None)


def with_deoptimization(*arguments: Any, natives: tuple[tuple[str, str], ...] = ()) -> bytes:
    """A class file, whose natives have one more of the machine's tests."""
    more: dict[str, Any] = {"natives": (*natives, DEOPTIMIZE)} if natives else {}
    return class_file(*arguments, **more)


class Mislabelling(HotspotDriver):
    """The event of a sample is that of the oldest object, where there is one."""

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin(chosen)
        machine: Any = self.machine

        def mislabelled(tools: int, env: int, thread: int, reference: int, *more: int) -> None:
            wrong = self.roots[0] if self.roots else reference
            type(machine).sampled(machine, tools, env, thread, wrong, *more)

        self._wrong = Sampled(mislabelled)
        machine.send_samples_to(cast(self._wrong, c_void_p).value)
        return contract


class Losing(ConcurrentDriver):
    """A thread does not put its objects into the table."""

    CODE = share_class({**CODE, RUN: CODE[RUN].replace(KEEPING, "")})


class Mixing(ConcurrentDriver):
    """The threads race for one table."""

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin(chosen)
        self._tables[1:] = self._tables[:1] * len(self._tables[1:])
        return contract


class SamplingWhileOff(ConcurrentDriver):
    """The event is on whenever threads run at once."""

    def run_at_once(self, action: RunAtOnce) -> list[list[int]]:
        self.machine.report_samples(is_on=True)
        return super().run_at_once(action)


class SamplingRarely(ConcurrentDriver):
    """It samples half as often as it must."""

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin(chosen)
        set_interval = type(self.machine).set_interval
        machine: Any = self.machine
        machine.set_interval = lambda size: set_interval(machine, 2 * size)
        return contract


class MislabellingConcurrent(ConcurrentDriver):
    """Where a thread has several samples, the last one is that of an earlier object."""

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin(chosen)
        counter: Any = self._counter
        take = type(counter).take_logged

        def mislabelled(thread: int) -> list[LoggedSample]:
            samples: list[LoggedSample] = take(counter, thread)
            if len(samples) > 2:
                hold = self.attached[0].hold
                wrong = [hold(each) for each in samples[-3][1:3]]
                samples[-1] = samples[-3]._replace(
                    thread=samples[-1].thread, object=wrong[0], kind=wrong[1]
                )
            return samples

        counter.take_logged = mislabelled
        return contract


class SwappingThreads(ConcurrentDriver):
    """The first two threads have each other's rows."""

    def begin(self, chosen: Mapping[str, int]) -> Contract:
        contract = super().begin(chosen)
        for number in (0, 1):
            self._counter.add(number, self.attached[1 - number].env)
        return contract


MISTAKES = {
    "holding": Holding,
    "damaging": Damaging,
    "dying": Dying,
    "mislabelling": Mislabelling,
    "uncompiled": Uncompiled,
    "deoptimizing": Deoptimizing,
    "mislabelling-concurrent": MislabellingConcurrent,
    "swapping": SwappingThreads,
    "losing": Losing,
    "mixing": Mixing,
    "while-off": SamplingWhileOff,
    "rarely": SamplingRarely,
}

if __name__ == "__main__":
    kind = MISTAKES[sys.argv[1]]
    vars(java_machine)["class_file"] = with_deoptimization
    sys.argv[1] = "hotspot-concurrent" if issubclass(kind, ConcurrentDriver) else "hotspot"
    kind.main()
