"""A virtual thread that runs a program, and whose carrier is the driver's thread.

The driver is its scheduler: the task keeps what runs next until the driver runs it. So both take
turns, and the driver decides what happens while the virtual thread is unmounted. Its frames are in
the heap then. The constructor with a scheduler is not public: the JDK's own tests use it by
reflection. (Source: java/lang/VirtualThread.java, java/lang/ThreadBuilders.java.)
"""

from __future__ import annotations

from ctypes import c_int64

from fuzz.targets.hotspot.answers import LEAVE, OWNER
from fuzz.targets.hotspot.assembler import FIELD, METHOD, assembled_class
from fuzz.targets.hotspot.java_machine import (
    JavaError,
    JavaMachine,
    defined_class,
    held_class,
    there,
)

TASK = "gcfuzz/Task"
THREAD, CONTINUATION = "java/lang/VirtualThread", "jdk/internal/vm/Continuation"
CHUNK, THROWN = "jdk/internal/vm/StackChunk", "java/lang/Throwable"
RUNNABLE, EXECUTOR = "java/lang/Runnable", "java/util/concurrent/Executor"
MADE = f"(L{EXECUTOR};Ljava/lang/String;IL{RUNNABLE};)V"
TYPES = {"run": "()V", "execute": f"(L{RUNNABLE};)V"}
VARIABLES = {"next": f"L{RUNNABLE};", "thrown": f"L{THROWN};"}
CODE = {
    "run": """
        start: invokestatic program; end: return
        handler: astore 1; aload 1; putstatic thrown; return; catch start end handler
    """,
    "execute": "aload 1; putstatic next; return",
}
"""A task is what a virtual thread runs, and the scheduler of this thread."""
LEFT = "the virtual thread has not left its carrier"


class VirtualThreads:
    """The virtual threads of a machine, one after the other. Raises BadInputError before 21."""

    def __init__(self, machine: JavaMachine) -> None:
        self._jni, self._env = jni, env = machine.jni, machine.env
        self._kind, continuation, chunk, runnable = (
            held_class(jni, env, name) for name in (THREAD, CONTINUATION, CHUNK, RUNNABLE)
        )
        self._make, self._start, self._is_empty, self._go_on = (
            there(jni.GetMethodID(env, owner, name, kind.encode()))
            for owner, name, kind in (
                (self._kind, b"<init>", MADE),
                (self._kind, b"start", "()V"),
                (chunk, b"isEmpty", "()Z"),
                (runnable, b"run", "()V"),
            )
        )
        self._carrier, self._continuation, self._chunk = (
            there(jni.GetFieldID(env, owner, name, f"L{kind};".encode()))
            for owner, name, kind in (
                (self._kind, b"carrierThread", "java/lang/Thread"),
                (self._kind, b"cont", CONTINUATION),
                (continuation, b"tail", CHUNK),
            )
        )
        self._started = self.running = 0
        """The number of virtual threads so far; a reference to the last one."""
        # The JDK's own code loads classes, which are allocated in the first thread that needs them.
        self.start(OWNER, LEAVE)
        while self.go_on():
            pass

    def start(self, program: str, method: str) -> None:
        """Start a virtual thread that calls a method of a program."""
        jni, env, name = self._jni, self._env, f"{TASK}{self._started}"
        self._started += 1
        members = {
            "program": (METHOD, program, method, "()V"),
            **{each: (FIELD, name, each, kind) for each, kind in VARIABLES.items()},
        }
        data = assembled_class(
            *(name, {}, TYPES, CODE, members, VARIABLES), {RUNNABLE: "run", EXECUTOR: "execute"}
        )
        self._task = defined_class(jni, env, name, data)
        self._next, self._thrown = (
            there(jni.GetStaticFieldID(env, self._task, each.encode(), kind.encode()))
            for each, kind in VARIABLES.items()
        )
        task = there(jni.AllocObject(env, self._task))
        arguments = (c_int64 * 4)(task, 0, 0, task)
        made = there(jni.NewObjectA(env, self._kind, self._make, arguments))
        jni.DeleteGlobalRef(env, self.running or None)
        self.running = int(jni.NewGlobalRef(env, made))
        jni.CallVoidMethodA(env, made, self._start, None)
        for each in (task, made):
            jni.DeleteLocalRef(env, each)

    def go_on(self) -> bool:
        """Mount it until it leaves its carrier; returns whether it has not ended.

        What it has thrown is thrown again in this thread, when it has ended.
        """
        jni, env = self._jni, self._env
        runnable = jni.GetStaticObjectField(env, self._task, self._next)
        jni.SetStaticObjectField(env, self._task, self._next, None)
        jni.CallVoidMethodA(env, there(runnable), self._go_on, None)
        jni.DeleteLocalRef(env, runnable)
        runnable = jni.GetStaticObjectField(env, self._task, self._next)
        jni.DeleteLocalRef(env, runnable)
        if runnable is None:
            thrown = jni.GetStaticObjectField(env, self._task, self._thrown)
            if thrown is not None:
                jni.Throw(env, thrown)
        return runnable is not None

    def check_unmounted(self) -> None:
        """Raise JavaError if it is mounted, or has no frames in the heap."""
        jni, env = self._jni, self._env
        carrier = jni.GetObjectField(env, self.running, self._carrier)
        continuation = jni.GetObjectField(env, self.running, self._continuation)
        chunk = jni.GetObjectField(env, there(continuation), self._chunk)
        is_empty = chunk is None or jni.CallBooleanMethodA(env, chunk, self._is_empty, None)
        for each in (carrier, continuation, chunk):
            jni.DeleteLocalRef(env, each)
        if carrier is not None or is_empty:
            raise JavaError(LEFT)
