"""The methods that the program of a trace calls: they show objects and numbers to the driver.

They are never compiled, so that the frame of their caller is easy to find: it shows what ran the
program when it called. While the program warms up they do nothing.
"""

from __future__ import annotations

import ctypes
from ctypes import PYFUNCTYPE, c_char_p, c_void_p
from typing import ClassVar, Protocol

from fuzz.targets.hotspot.assembler import FIELD, METHOD, assembled_class
from fuzz.targets.hotspot.class_file import OBJECT, class_file
from fuzz.targets.hotspot.java_machine import INT, LONG, REF, JavaMachine, defined_class, there
from fuzz.targets.hotspot.structs import WORD_BYTES, Structs, word

OWNER, NATIVES = "gcfuzz/Answers", "gcfuzz/Driver"
THROWN = "java/lang/Throwable"
STACK = THROWN.encode(), b"getStackTrace", b"()[Ljava/lang/StackTraceElement;"
LINE = b"java/lang/StackTraceElement", b"getLineNumber", b"()I"
SHOWN_TOGETHER = 4
LEAVE = "leave"
"""A method that leaves the carrier of a virtual thread, and tries to, with a lock."""
OBJECTS = f"L{OBJECT};" * SHOWN_TOGETHER
OF_DRIVER = {"shown": f"(L{OBJECT};)V", "told": "(IJ)I", "stayed": "()V", "again": "()I"}
"""What the driver itself carries out."""
TYPES = {
    "show": OF_DRIVER["shown"],
    "showSeveral": f"({OBJECTS})V",
    "tell": "(IJ)V",
    "call": "()V",
    "escape": OF_DRIVER["shown"],
    LEAVE: "()V",
}
_SEVERAL = "; ".join(f"aload {each}; invokestatic shown" for each in range(SHOWN_TOGETHER))
CODE = {
    "show": "getstatic muted; ifne end; aload 0; invokestatic shown; end: return",
    "showSeveral": f"getstatic muted; ifne end; {_SEVERAL}; end: return",
    "tell": """
        getstatic muted; ifne end; iload 0; lload 1; invokestatic told; ifeq end
        invokestatic yield; invokestatic stayed; end: return
    """,
    "call": "getstatic yields; ifeq end; invokestatic yield; end: return",
    "escape": "return",
    LEAVE: """
        invokestatic yield; getstatic thrown; monitorenter
        invokestatic yield; getstatic thrown; monitorexit; return
    """,
}
_LATER = ("rare", "rareToo", "yields")
NUMBERS = {"muted": 1, "rounds": 3, "round": 2, "taken": 1, **dict.fromkeys(_LATER, 0)}
"""The variables that programs read, with their values while a program warms up."""
VARIABLES = {**dict.fromkeys(NUMBERS, "I"), "thrown": f"L{THROWN};"}
MEMBERS = {
    **{name: (METHOD, OWNER, name, kind) for name, kind in TYPES.items()},
    **{name: (METHOD, NATIVES, name, kind) for name, kind in OF_DRIVER.items()},
    **{name: (FIELD, OWNER, name, kind) for name, kind in VARIABLES.items()},
    "yield": (METHOD, "java/lang/Thread", "yield", "()V"),
}
"""What the code of programs may refer to."""
Shown = PYFUNCTYPE(None, REF, REF, REF)
Told = PYFUNCTYPE(INT, REF, REF, INT, LONG)
Stayed = PYFUNCTYPE(None, REF, REF)
Again = PYFUNCTYPE(INT, REF, REF)


class Native(ctypes.Structure):
    """JNINativeMethod."""

    _fields_: ClassVar = [("name", c_char_p), ("kind", c_char_p), ("function", c_void_p)]


class Listener(Protocol):
    """What programs call."""

    def shown(self, reference: int | None) -> None:
        """Get an object, as a local reference, or null."""

    def told(self, number: int, value: int) -> bool:
        """Get a value of an action, or carry out what the program cannot.

        Returns whether the program's virtual thread is to leave its carrier for that.
        """

    def stayed(self) -> None:
        """Go on after that: the virtual thread has left its carrier and is back, or it stayed."""

    def again(self) -> bool:
        """Whether another round of the program follows this one."""


class Answers:
    """The methods, and the variables that programs read."""

    def __init__(self, machine: JavaMachine, structs: Structs, listener: Listener) -> None:
        self._jni, self._env = jni, env = machine.jni, machine.env
        natives = class_file(NATIVES, (), natives=tuple(OF_DRIVER.items()))
        driver = defined_class(jni, env, NATIVES, natives)
        data = assembled_class(OWNER, {}, TYPES, CODE, MEMBERS, VARIABLES)
        self._owner = defined_class(jni, env, OWNER, data)
        # The machine keeps their addresses only.
        self._functions = (
            Shown(lambda _, __, reference: listener.shown(reference)),
            Told(lambda _, __, number, value: listener.told(number, value)),
            Stayed(lambda _, __: listener.stayed()),
            Again(lambda _, __: listener.again()),
        )
        table = (Native * len(OF_DRIVER))(
            *(
                Native(name.encode(), kind.encode(), ctypes.cast(function, c_void_p))
                for (name, kind), function in zip(OF_DRIVER.items(), self._functions, strict=True)
            )
        )
        jni.call("RegisterNatives", env, driver, table, len(table))
        self._fields = {
            name: there(jni.GetStaticFieldID(env, self._owner, name.encode(), kind.encode()))
            for name, kind in VARIABLES.items()
        }
        thrown = there(jni.AllocObject(env, there(jni.FindClass(env, THROWN.encode()))))
        jni.SetStaticObjectField(env, self._owner, self._fields["thrown"], thrown)
        self._stack, self._line = (
            there(jni.GetMethodID(env, there(jni.FindClass(env, owner)), *named))
            for owner, *named in (STACK, LINE)
        )
        anchor = structs.place("_anchor", "JavaThread")
        self._last_frame = anchor + structs.place("_last_Java_fp", "JavaFrameAnchor")

    def warm_up(self) -> None:
        """Be silent until `speak`."""
        for name, number in NUMBERS.items():
            self._set(name, number)

    def speak(self, yields: bool) -> None:
        """The next round is the last one, which answers.

        `yields`: a call that does nothing else lets a virtual thread leave its carrier.
        """
        self._set("muted", 0)
        self._set("yields", yields)
        self._set("rare", 1)

    def leave_callback(self) -> None:
        """From here on, the method of callbacks takes a branch that it has not taken before."""
        self._set("rareToo", 1)

    def _set(self, name: str, number: int) -> None:
        self._jni.SetStaticIntField(self._env, self._owner, self._fields[name], number)

    def line_of(self, thrown: int) -> int:
        """The line of a program that threw an exception; 0 if it is unknown."""
        jni, env = self._jni, self._env
        stack = jni.CallObjectMethodA(env, thrown, self._stack, None)
        frames = (
            jni.GetObjectArrayElement(env, stack, place)
            for place in range(jni.GetArrayLength(env, stack))
        )
        lines = (jni.CallIntMethodA(env, frame, self._line, None) for frame in frames)
        return next((line for line in lines if line > 0), 0)

    def place_in_program(self, thread: int, frames: int) -> int:
        """Where the program called, which is `frames` away: an address in its code.

        The frames are those of the interpreter: a frame has the place of the frame before, and then
        where it returns to.
        """
        frame = word(thread + self._last_frame)
        for _ in range(frames - 1):
            frame = word(frame)
        return word(frame + WORD_BYTES)
