"""HotSpot, which dies of an address that is none when it is to make a node."""

import sys
from ctypes import c_int64

from fuzz.protocol.actions import Action, AllocateNode
from fuzz.protocol.observation import Observation
from fuzz.targets.hotspot.hotspot_driver import HotspotTarget, answer
from fuzz.targets.hotspot.java_machine import REF, TEXT, Functions

UNSAFE = "jdk/internal/misc/Unsafe"
CALLS = {"GetMethodID": (33, REF, REF, TEXT, TEXT), "CallVoidMethodA": (63, None, REF, REF, REF)}


class DyingTarget(HotspotTarget):
    def _run(self, action: Action) -> Observation:
        if isinstance(action, AllocateNode):
            jni, env = self._machine.jni, self._attached[0].env
            calls = Functions(CALLS, env)
            unsafe = jni.FindClass(env, UNSAFE.encode())
            get = jni.GetStaticMethodID(env, unsafe, b"getUnsafe", f"()L{UNSAFE};".encode())
            itself = jni.CallStaticObjectMethodA(env, unsafe, get, None)
            put = calls.GetMethodID(env, unsafe, b"putLong", b"(JJ)V")
            calls.CallVoidMethodA(env, itself, put, (c_int64 * 2)(0, 0))
        return super()._run(action)


if __name__ == "__main__":
    answer(DyingTarget(sys.argv[1]))
