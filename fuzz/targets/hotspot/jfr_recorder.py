"""JDK Flight Recorder, called through JNI: recordings of `jdk.ObjectAllocationSample` alone.

Invariant: every sample is kept (`throttle=off`), and none is lost (`jdk.DataLoss` is an error). All
calls come from the thread that created the machine, whose own samples are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from ctypes import Array, c_int64
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from fuzz.targets.hotspot.java_machine import JavaError, JavaMachine, JavaThread, held_class, there
from fuzz.targets.hotspot.jfr_file import Event, events_in

SAMPLE, LOSS = "jdk.ObjectAllocationSample", "jdk.DataLoss"
INTERNALS = "jdk/jfr/internal/JVM"
RECORDING, SETTINGS, FILE = "jdk/jfr/Recording", "jdk/jfr/EventSettings", "java/io/File"
METHODS = {
    "new": (RECORDING, "<init>", "()V"),
    "enable": (RECORDING, "enable", f"(Ljava/lang/String;)L{SETTINGS};"),
    "disable": (RECORDING, "disable", f"(Ljava/lang/String;)L{SETTINGS};"),
    "start": (RECORDING, "start", "()V"),
    "dump": (RECORDING, "dump", "(Ljava/nio/file/Path;)V"),
    "close": (RECORDING, "close", "()V"),
    "with": (SETTINGS, "with", f"(Ljava/lang/String;Ljava/lang/String;)L{SETTINGS};"),
    "file": (FILE, "<init>", "(Ljava/lang/String;)V"),
    "path": (FILE, "toPath", "()Ljava/nio/file/Path;"),
}
LOCALS = 64
"""How many local references a call may need."""


class AllocationSample(NamedTuple):
    """A sample as the recording has it."""

    thread: int
    """The recorder's number. A recording of 17 may lack the thread, if it began meanwhile."""
    time: int
    kind: str
    """The object's class, as the machine names it."""
    weight: int


class FlightRecorder:
    """Creates recordings, one after another."""

    def __init__(self, machine: JavaMachine, thread: JavaThread, folder: Path) -> None:
        self._jni, self._names = machine.jni, machine.names
        self._thread, self._env = thread, thread.env
        jni, env = self._jni, self._env
        self._file = folder / "recording.jfr"
        names = (RECORDING, SETTINGS, FILE, INTERNALS)
        self._classes = {name: held_class(jni, env, name) for name in names}
        self._methods = {
            name: there(jni.GetMethodID(env, self._classes[owner], method.encode(), kind.encode()))
            for name, (owner, method, kind) in METHODS.items()
        }
        self._internals = self._classes[INTERNALS]
        self._read_clock = there(
            jni.GetStaticMethodID(env, self._internals, b"counterTime", b"()J")
        )
        self._numbering = self._find_numbering()
        self._recording: int | None = None

    @property
    def is_running(self) -> bool:
        return self._recording is not None

    def time(self, env: int) -> int:
        """The recorder's clock, read by the thread of `env`, which allocates nothing for that."""
        return int(self._jni.CallStaticLongMethodA(env, self._internals, self._read_clock, None))

    def number_of(self, env: int) -> int:
        """The recorder's number of the thread of `env`, which is the calling one."""
        itself = self._jni.CallStaticObjectMethodA(
            env, self._names.thread, self._names.current, None
        )
        call, on, method = self._numbering
        number = int(call(env, on, method, _values([itself])))
        self._jni.DeleteLocalRef(env, itself)
        return number

    def _find_numbering(self) -> tuple[Callable[..., int], int, int]:
        """The method for a thread's number; up to 21 it belongs to the only object of its class."""
        env, jni = self._env, self._jni
        get = (b"getThreadId", b"(Ljava/lang/Thread;)J")
        method = jni.GetStaticMethodID(env, self._internals, *get)
        if method is not None:
            return jni.CallStaticLongMethodA, self._internals, method
        jni.ExceptionClear(env)
        kind = f"()L{INTERNALS};"
        only = there(jni.GetStaticMethodID(env, self._internals, b"getJVM", kind.encode()))
        found = jni.CallStaticObjectMethodA(env, self._internals, only, None)
        method = there(jni.GetMethodID(env, self._internals, *get))
        return jni.CallLongMethodA, int(jni.NewGlobalRef(env, found)), method

    def start(self, is_on: bool) -> None:
        """Start a recording, in which samples are on or off."""
        with self._thread.frame(LOCALS):
            made = self._new(RECORDING, "new")
            self._recording = int(self._jni.NewGlobalRef(self._env, made))
            settings = self._call("enable", self._recording, self._text(SAMPLE))
            for key, value in {"throttle": "off", "stackTrace": "false"}.items():
                self._call("with", settings, self._text(key), self._text(value))
            self._call("enable", self._recording, self._text(LOSS))
            if not is_on:
                self._call("disable", self._recording, self._text(SAMPLE))
            self._do("start", self._recording)

    def switch(self, is_on: bool) -> None:
        """Switch samples on or off in the running recording."""
        with self._thread.frame(LOCALS):
            self._call("enable" if is_on else "disable", self._recording, self._text(SAMPLE))

    def stop(self, threads: Collection[int]) -> list[AllocationSample]:
        """End the recording; returns these threads' samples by time.

        Raises JavaError if events were lost.
        """
        with self._thread.frame(LOCALS):
            file = self._new(FILE, "file", self._text(str(self._file)))
            self._do("dump", self._recording, self._call("path", file))
        self.drop()
        samples = []
        for event in events_in(self._file.read_bytes(), (SAMPLE, LOSS)):
            if event.name == LOSS:
                raise JavaError(f"the recorder has lost events: {event.fields}")
            if event.fields["eventThread"] in threads:
                samples.append(_sample_of(event))
        self._file.unlink()
        return sorted(samples, key=attrgetter("time"))

    def drop(self) -> None:
        """End the recording, if there is one, without reading it."""
        if self._recording is not None:
            self._do("close", self._recording)
            self._jni.DeleteGlobalRef(self._env, self._recording)
            self._recording = None

    def _text(self, text: str) -> int:
        return int(self._jni.NewStringUTF(self._env, text.encode()))

    def _new(self, owner: str, method: str, *arguments: int | None) -> int | None:
        made, values = self._methods[method], _values(arguments)
        return self._checked(self._jni.NewObjectA(self._env, self._classes[owner], made, values))

    def _call(self, method: str, on: int | None, *arguments: int | None) -> int | None:
        called, values = self._methods[method], _values(arguments)
        return self._checked(self._jni.CallObjectMethodA(self._env, on, called, values))

    def _do(self, method: str, on: int | None, *arguments: int | None) -> None:
        called, values = self._methods[method], _values(arguments)
        self._checked(self._jni.CallVoidMethodA(self._env, on, called, values))

    def _checked(self, answer: int | None) -> int | None:
        if self._jni.ExceptionCheck(self._env):
            self._jni.ExceptionDescribe(self._env)  # It goes to standard error.
            raise JavaError("the recorder throws an exception")
        return answer


def _values(arguments: Sequence[int | None]) -> Array[c_int64]:
    return (c_int64 * max(1, len(arguments)))(*(each or 0 for each in arguments))


def _sample_of(event: Event) -> AllocationSample:
    fields, constants = event.fields, event.constants
    kind = constants["java.lang.Class"][fields["objectClass"]]
    name = constants["jdk.types.Symbol"][kind["name"]]["string"]
    return AllocationSample(fields["eventThread"], fields["startTime"], name, fields["weight"])
