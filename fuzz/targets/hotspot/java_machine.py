"""A HotSpot virtual machine in this process, called through JNI and JVMTI by ctypes alone.

A process can create one machine, once. Invariant: nothing here decides what is sampled; the machine
reports it through its own event. Every call holds Python's lock, so that threads take turns. (Java
Native Interface Specification; JVM Tool Interface 11.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import PYFUNCTYPE, c_int32, c_int64, c_uint8, c_void_p
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

from fuzz.problems import BadInputError
from fuzz.targets.hotspot.class_file import NEXT, NODE, NUMBER, OBJECT, PREV, class_file, node_with
from fuzz.targets.hotspot.structs import word

WHITE_BOX = "sun/hotspot/WhiteBox"
REGISTER, YOUNG = ("registerNatives", "()V"), ("youngGC", "()V")
DEOPTIMIZE_FRAMES = ("deoptimizeFrames", "(Z)I")
WEAK, SOFT = "java/lang/ref/WeakReference", "java/lang/ref/SoftReference"
NODE_LONGS = (1, 7, 64)
"""The numbers of further fields that nodes may have."""
KNOWN_RELEASES = range(17, 26)
JNI_VERSION, JVMTI_VERSION = 0x00010008, 0x300B0000
EVENT_MIN, COLLECTED_EVENT, SAMPLED_EVENT = 50, 82, 86
CAN_NAME_LINES_BIT, CAN_REPORT_COLLECTIONS_BIT, CAN_SAMPLE_BIT = 12, 31, 43
CAPABILITIES_BYTES = 16

# The functions: the index in their table, the result, and the further arguments.
REF, INT, LONG, TEXT = c_void_p, c_int32, c_int64, ctypes.c_char_p
JNI = {
    "DefineClass": (5, REF, TEXT, REF, TEXT, INT),
    "FindClass": (6, REF, TEXT),
    "Throw": (13, INT, REF),
    "ExceptionOccurred": (15, REF),
    "ExceptionDescribe": (16, None),
    "ExceptionClear": (17, None),
    "PushLocalFrame": (19, INT, INT),
    "PopLocalFrame": (20, REF, REF),
    "NewGlobalRef": (21, REF, REF),
    "DeleteGlobalRef": (22, None, REF),
    "DeleteLocalRef": (23, None, REF),
    "IsSameObject": (24, c_uint8, REF, REF),
    "AllocObject": (27, REF, REF),
    "NewObjectA": (30, REF, REF, REF, REF),
    "GetObjectClass": (31, REF, REF),
    "IsInstanceOf": (32, c_uint8, REF, REF),
    "GetMethodID": (33, REF, REF, TEXT, TEXT),
    "CallObjectMethodA": (36, REF, REF, REF, REF),
    "CallBooleanMethodA": (39, c_uint8, REF, REF, REF),
    "CallIntMethodA": (51, INT, REF, REF, REF),
    "CallLongMethodA": (54, LONG, REF, REF, REF),
    "CallVoidMethodA": (63, None, REF, REF, REF),
    "GetFieldID": (94, REF, REF, TEXT, TEXT),
    "GetObjectField": (95, REF, REF, REF),
    "GetLongField": (101, LONG, REF, REF),
    "SetObjectField": (104, None, REF, REF, REF),
    "SetLongField": (110, None, REF, REF, LONG),
    "GetStaticMethodID": (113, REF, REF, TEXT, TEXT),
    "CallStaticObjectMethodA": (116, REF, REF, REF, REF),
    "CallStaticBooleanMethodA": (119, c_uint8, REF, REF, REF),
    "CallStaticIntMethodA": (131, INT, REF, REF, REF),
    "CallStaticLongMethodA": (134, LONG, REF, REF, REF),
    "CallStaticVoidMethodA": (143, None, REF, REF, REF),
    "GetStaticFieldID": (144, REF, REF, TEXT, TEXT),
    "GetStaticObjectField": (145, REF, REF, REF),
    "SetStaticObjectField": (154, None, REF, REF, REF),
    "SetStaticIntField": (159, None, REF, REF, INT),
    "NewStringUTF": (167, REF, TEXT),
    "GetStringUTFChars": (169, REF, REF, REF),
    "ReleaseStringUTFChars": (170, None, REF, REF),
    "GetArrayLength": (171, INT, REF),
    "NewObjectArray": (172, REF, INT, REF, REF),
    "GetObjectArrayElement": (173, REF, REF, INT),
    "SetObjectArrayElement": (174, None, REF, INT, REF),
    "NewByteArray": (176, REF, INT),
    "NewLongArray": (180, REF, INT),
    "GetByteArrayRegion": (200, None, REF, INT, INT, REF),
    "GetLongArrayRegion": (204, None, REF, INT, INT, REF),
    "SetByteArrayRegion": (208, None, REF, INT, INT, REF),
    "SetLongArrayRegion": (212, None, REF, INT, INT, REF),
    "RegisterNatives": (215, INT, REF, REF, INT),
    "GetPrimitiveArrayCritical": (222, REF, REF, REF),
    "ReleasePrimitiveArrayCritical": (223, None, REF, REF, INT),
    "ExceptionCheck": (228, c_uint8),
}
JVMTI = {
    "SetEventNotificationMode": (1, INT, INT, INT, REF),
    "GetFrameLocation": (18, INT, REF, INT, REF, REF),
    "Deallocate": (46, INT, REF),
    "GetObjectHashCode": (57, INT, REF, REF),
    "GetLineNumberTable": (69, INT, REF, REF, REF),
    "ForceGarbageCollection": (107, INT),
    "GetSystemProperty": (130, INT, TEXT, REF),
    "SetEventCallbacks": (121, INT, REF, INT),
    "AddCapabilities": (141, INT, REF),
    "GetObjectSize": (153, INT, REF, REF),
    "SetHeapSamplingInterval": (155, INT, INT),
}
INVOCATION = {
    "DetachCurrentThread": (5, INT),
    "GetEnv": (6, INT, REF, INT),
    "AttachCurrentThreadAsDaemon": (7, INT, REF, REF),
}
Sampled = PYFUNCTYPE(None, REF, REF, REF, REF, REF, LONG)


class Option(ctypes.Structure):
    """JavaVMOption."""

    _fields_: ClassVar = [("text", TEXT), ("extra", REF)]


class Arguments(ctypes.Structure):
    """JavaVMInitArgs."""

    _fields_: ClassVar = [
        ("version", INT),
        ("count", INT),
        ("options", ctypes.POINTER(Option)),
        ("ignore_unrecognized", c_uint8),
    ]


class Newcomer(ctypes.Structure):
    """JavaVMAttachArgs. A thread without a name would get one, whose length varies."""

    _fields_: ClassVar = [("version", INT), ("name", TEXT), ("group", REF)]


class Line(ctypes.Structure):
    """jvmtiLineNumberEntry."""

    _fields_: ClassVar = [("start", LONG), ("line", INT)]


class SampleEvent(NamedTuple):
    """An event of JVMTI's SampledObjectAlloc. Its references are global."""

    env: int
    thread: int
    """The address of the machine's `Thread`."""
    object: int
    kind: int
    """The object's class."""
    size_bytes: int


class JavaError(Exception):
    """The machine cannot carry out a call."""


class AllocationError(JavaError):
    """The machine threw an error instead of allocating an object."""

    def __init__(self, thrown: int) -> None:
        """`thrown` is a local reference."""
        super().__init__("the machine has no memory left")
        self.thrown = thrown


class Functions:
    """The functions of an interface, a pointer to a table of them, by their names."""

    def __init__(self, table: dict[str, tuple[Any, ...]], interface: int) -> None:
        functions = word(interface)
        for name, (index, result, *arguments) in table.items():
            prototype = PYFUNCTYPE(result, REF, *arguments)
            setattr(self, name, prototype(word(functions + 8 * index)))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any function of ctypes
        raise AttributeError(name)

    def call(self, name: str, interface: int, *arguments: Any) -> None:  # noqa: ANN401
        """Call a function that returns an error's number. Raises JavaError."""
        code = getattr(self, name)(interface, *arguments)
        if code:
            raise JavaError(f"{name} answers with error {code}")


def held_class(jni: Functions, env: int, name: str) -> int:
    """A global reference to the class of that name."""
    return int(jni.NewGlobalRef(env, there(jni.FindClass(env, name.encode()))))


def defined_class(jni: Functions, env: int, name: str, data: bytes) -> int:
    """The same, after the class was made from its file."""
    jni.DefineClass(env, name.encode(), None, data, len(data))
    return held_class(jni, env, name)


class JavaNames:
    """The classes, fields and methods; `use` chooses the classes of nodes and strings."""

    def __init__(self, jni: Functions, env: int) -> None:
        kind = partial(held_class, jni, env)
        self.node = defined_class(jni, env, NODE, class_file())
        self.object, *references = map(kind, (OBJECT, WEAK, SOFT))
        self.weak = references[0]
        self._nodes = {longs: defined_class(jni, env, *node_with(longs)) for longs in NODE_LONGS}
        self._nodes[0] = self.node
        self._strings = {
            1: (*(kind("[B"), jni.NewByteArray), *(jni.GetByteArrayRegion, jni.SetByteArrayRegion)),
            8: (*(kind("[J"), jni.NewLongArray), *(jni.GetLongArrayRegion, jni.SetLongArrayRegion)),
        }
        self.thread, self.system = map(kind, ("java/lang/Thread", "java/lang/System"))
        fields = [(self.node, *each) for each in (NUMBER, PREV, NEXT)]
        fields += [(self.thread, "eetop", "J"), (self.weak, "referent", f"L{OBJECT};")]
        self.number, *self.references, self.eetop, self.referent = (
            there(jni.GetFieldID(env, owner, name.encode(), descriptor.encode()))
            for owner, name, descriptor in fields
        )
        methods = (
            (self.thread, b"currentThread", b"()Ljava/lang/Thread;"),
            (self.system, b"arraycopy", b"(Ljava/lang/Object;ILjava/lang/Object;II)V"),
        )
        self.current, self.copy = (there(jni.GetStaticMethodID(env, *each)) for each in methods)
        made = (b"<init>", b"(Ljava/lang/Object;)V")
        self._references = [(each, there(jni.GetMethodID(env, each, *made))) for each in references]
        self.use_soft(False)

        box = class_file(WHITE_BOX, (), natives=(REGISTER, YOUNG, DEOPTIMIZE_FRAMES))
        self.white_box = defined_class(jni, env, WHITE_BOX, box)
        register, self.collect_young, self.deoptimize_frames = (
            there(jni.GetStaticMethodID(env, self.white_box, name.encode(), descriptor.encode()))
            for name, descriptor in (REGISTER, YOUNG, DEOPTIMIZE_FRAMES)
        )
        jni.CallStaticVoidMethodA(env, self.white_box, register, None)
        self.can_collect_young = not jni.ExceptionCheck(env)
        jni.ExceptionClear(env)

    def use(self, node_longs: int, string_item_bytes: int) -> None:
        """Choose how many further fields nodes have, and the size of strings' items."""
        self.node_longs, self.node_to_make = node_longs, self._nodes[node_longs]
        self.string_item_bytes = string_item_bytes
        self.string, self.new_string, self.get_region, self.set_region = self._strings[
            string_item_bytes
        ]

    def use_soft(self, is_soft: bool) -> None:
        """Choose soft references, or weak ones, for weak references."""
        self.weak, self.make_weak = self._references[is_soft]


class JavaMachine:
    """A virtual machine."""

    def __init__(self, library: ctypes.CDLL, flags: Sequence[str]) -> None:
        """Raises BadInputError if the machine cannot be created."""
        java, env = c_void_p(), c_void_p()
        options = (Option * len(flags))(*(Option(flag.encode(), None) for flag in flags))
        arguments = Arguments(JNI_VERSION, len(flags), options, 0)
        code = library.JNI_CreateJavaVM(*map(ctypes.byref, (java, env, arguments)))
        if code:
            raise BadInputError(f"this JVM cannot be created (error {code})")
        assert java.value is not None
        assert env.value is not None
        self._java = java.value
        self._invocation = Functions(INVOCATION, self._java)
        self.env, self.jni = env.value, Functions(JNI, env.value)
        self.new_thread: Callable[[JavaMachine, int], JavaThread] = JavaThread
        self._tools = self._interface("GetEnv", JVMTI_VERSION)
        self._jvmti = Functions(JVMTI, self._tools)
        self.samples: list[SampleEvent] = []
        """What the machine has reported since `take_samples`."""
        self.called_back: Callable[[int, int], None] | None = None
        """It is called for each sample, with the thread's `JNIEnv` and the object."""
        # Another version may count differently.
        if self.feature_release not in KNOWN_RELEASES:
            first, last = KNOWN_RELEASES[0], KNOWN_RELEASES[-1]
            raise BadInputError(
                f"{self.version}: how Java {self.feature_release} samples is not known; "
                f"name a JVM of version {first} to {last} with --java"
            )
        self._callbacks = (c_void_p * (SAMPLED_EVENT - EVENT_MIN + 1))()
        self._callback = Sampled(self.sampled)  # The machine keeps only its address.
        self.send_samples_to(ctypes.cast(self._callback, c_void_p).value)
        self.names = JavaNames(self.jni, env.value)

    def _interface(self, function: str, argument: int) -> int:
        """The interface that a function of the invocation interface gives to this thread."""
        pointer = c_void_p()
        self._invocation.call(function, self._java, ctypes.addressof(pointer), argument)
        assert pointer.value is not None
        return pointer.value

    def send_samples_to(self, callback: int | None) -> None:
        self._send_to(SAMPLED_EVENT, CAN_SAMPLE_BIT, callback)

    def send_collections_to(self, callback: int) -> None:
        """Have it called for each collection, by a thread of the machine."""
        self._send_to(COLLECTED_EVENT, CAN_REPORT_COLLECTIONS_BIT, callback)
        self._switch(COLLECTED_EVENT, is_on=True)

    def _send_to(self, event: int, capability: int, callback: int | None) -> None:
        self._add_capability(capability)
        self._callbacks[event - EVENT_MIN] = callback
        size = ctypes.sizeof(self._callbacks)
        self._jvmti.call("SetEventCallbacks", self._tools, self._callbacks, size)

    def _add_capability(self, bit: int) -> None:
        wanted = (1 << bit).to_bytes(CAPABILITIES_BYTES, "little")
        self._jvmti.call("AddCapabilities", self._tools, wanted)

    def sampled(
        self, _: int, env: int, thread: int, reference: int, kind: int, size_bytes: int
    ) -> None:
        address = int(self.jni.GetLongField(env, thread, self.names.eetop))
        held, held_kind = (int(self.jni.NewGlobalRef(env, each)) for each in (reference, kind))
        self.samples.append(SampleEvent(env, address, held, held_kind, size_bytes))
        if self.called_back is not None:
            self.called_back(env, reference)

    def take_samples(self, thread: JavaThread, allocated: int | None) -> int:
        """The number of samples since the last call, all of the object that a thread allocated.

        Raises JavaError if one has another object, class, size or thread.
        """
        taken, self.samples = self.samples, []
        for sample in taken:
            problem = allocated and self.problem_of(sample, thread, allocated)
            thread.free(sample.object)
            thread.free(sample.kind)
            if problem:
                raise JavaError(f"the event of a sample has another {problem}")
        return len(taken)

    def problem_of(self, sample: SampleEvent, thread: JavaThread, allocated: int) -> str | None:
        """What differs between a sample and an object that a thread allocated."""
        kind = self.jni.GetObjectClass(thread.env, allocated)
        is_right = {
            "object": thread.is_same(sample.object, allocated),
            "class": thread.is_same(sample.kind, kind),
            "size": sample.size_bytes == self.size_bytes(allocated),
            "thread": (sample.env, sample.thread) == (thread.env, thread.address),
        }
        self.jni.DeleteLocalRef(thread.env, kind)
        return next((what for what, right in is_right.items() if not right), None)

    def attach(self) -> JavaThread:
        """Make the calling thread one of the machine's."""
        newcomer = Newcomer(JNI_VERSION, b"mutator", None)
        env = self._interface("AttachCurrentThreadAsDaemon", ctypes.addressof(newcomer))
        return self.new_thread(self, env)

    @cached_property
    def version(self) -> str:
        return " ".join(map(self._property, ("java.vm.name", "java.vm.version")))

    @cached_property
    def feature_release(self) -> int:
        """The first number of the version, such as 17."""
        return int(self._property("java.vm.specification.version"))

    def _property(self, name: str) -> str:
        text = ctypes.c_char_p()  # The machine's own, and kept.
        place = ctypes.addressof(text)
        self._jvmti.call("GetSystemProperty", self._tools, name.encode(), place)
        return (text.value or b"").decode()

    def detach(self) -> None:
        self._invocation.call("DetachCurrentThread", self._java)

    def size_bytes(self, reference: int) -> int:
        size = c_int64()
        self._jvmti.call("GetObjectSize", self._tools, reference, ctypes.addressof(size))
        return size.value

    def hash_code(self, reference: int) -> int:
        code = c_int32()
        self._jvmti.call("GetObjectHashCode", self._tools, reference, ctypes.addressof(code))
        return code.value

    # Collection and sampling.

    def can_name_lines(self) -> None:
        """Let `lines_of` be called."""
        self._add_capability(CAN_NAME_LINES_BIT)

    def lines_of(self, method: int) -> list[tuple[int, int]]:
        """Where each line of a method starts in its bytecode, in order."""
        count, table = c_int32(), c_void_p()
        places = ctypes.addressof(count), ctypes.addressof(table)
        self._jvmti.call("GetLineNumberTable", self._tools, method, *places)
        assert table.value is not None
        entries = (Line * count.value).from_address(table.value)
        lines = [(entry.start, entry.line) for entry in entries]
        self._jvmti.call("Deallocate", self._tools, table.value)
        return lines

    def caller(self) -> tuple[int, int]:
        """The method that the thread is in, and where in its bytecode."""
        method, place = c_void_p(), c_int64()
        places = ctypes.addressof(method), ctypes.addressof(place)
        self._jvmti.call("GetFrameLocation", self._tools, None, 0, *places)
        return method.value or 0, place.value

    def collect(self) -> None:
        self._jvmti.call("ForceGarbageCollection", self._tools)

    def set_interval(self, interval_bytes: int) -> None:
        self._jvmti.call("SetHeapSamplingInterval", self._tools, interval_bytes)

    def report_samples(self, is_on: bool) -> None:
        self._switch(SAMPLED_EVENT, is_on)

    def _switch(self, event: int, is_on: bool) -> None:
        self._jvmti.call("SetEventNotificationMode", self._tools, int(is_on), event, None)


class JavaThread:
    """A thread of the machine. Its references are global, so that every thread may use them.

    A local reference lasts until the frame ends.
    """

    def __init__(self, machine: JavaMachine, env: int) -> None:
        self.env = env
        self._jni, self._names = machine.jni, machine.names
        current = self._jni.CallStaticObjectMethodA(
            env, self._names.thread, self._names.current, None
        )
        self.address = int(self._jni.GetLongField(env, current, self._names.eetop))
        """The machine's own `Thread*`."""
        self._jni.DeleteLocalRef(env, current)

    # Allocation.

    def new_node(self) -> int:
        return self.kept(self._jni.AllocObject(self.env, self._names.node_to_make))

    def new_string(self, length: int) -> int:
        return self.kept(self._names.new_string(self.env, length))

    def new_weak(self, root: int) -> int:
        names = self._names
        target = (c_int64 * 1)(root)
        return self.kept(self._jni.NewObjectA(self.env, names.weak, names.make_weak, target))

    def new_array(self, length: int) -> int:
        return self.kept(self._jni.NewObjectArray(self.env, length, self._names.object, None))

    def kept(self, local: int | None) -> int:
        """A global reference instead of a local one."""
        if local is None:
            thrown = there(self._jni.ExceptionOccurred(self.env))
            self._jni.ExceptionClear(self.env)
            raise AllocationError(thrown)
        kept = self._jni.NewGlobalRef(self.env, local)
        self._jni.DeleteLocalRef(self.env, local)
        return int(kept)

    def free(self, reference: int) -> None:
        self._jni.DeleteGlobalRef(self.env, reference)

    # Access.

    def is_node(self, reference: int) -> bool:
        return bool(self._jni.IsInstanceOf(self.env, reference, self._names.node))

    def is_string(self, reference: int) -> bool:
        """Whether the object is a string: an array of the items that strings have."""
        return bool(self._jni.IsInstanceOf(self.env, reference, self._names.string))

    def is_weak(self, reference: int) -> bool:
        return bool(self._jni.IsInstanceOf(self.env, reference, self._names.weak))

    def referent(self, weak: int) -> int | None:
        """The object of a weak reference, by a global reference; None if it is dead."""
        found = self._jni.GetObjectField(self.env, weak, self._names.referent)
        return None if found is None else self.kept(found)

    def is_same(self, reference: int, other: int) -> bool:
        return bool(self._jni.IsSameObject(self.env, reference, other))

    def number(self, node: int) -> int:
        return int(self._jni.GetLongField(self.env, node, self._names.number))

    def set_number(self, node: int, number: int) -> None:
        self._jni.SetLongField(self.env, node, self._names.number, number)

    def length(self, array: int) -> int:
        return int(self._jni.GetArrayLength(self.env, array))

    def read(self, root: int, field: int) -> int | None:
        return (self.field if self.is_node(root) else self.item)(root, field)

    def contents(self, string: int) -> bytes:
        """The bytes of all items, read from the heap."""
        length = self.length(string)
        data = ctypes.create_string_buffer(length * self._names.string_item_bytes)
        self._names.get_region(self.env, string, 0, length, data)
        return data.raw

    def set_contents(self, string: int, data: bytes) -> None:
        """Write the bytes of all items."""
        self._names.set_region(self.env, string, 0, self.length(string), data)

    def field(self, node: int, field: int) -> int | None:
        found: int | None = self._jni.GetObjectField(self.env, node, self._names.references[field])
        return found

    def item(self, array: int, index: int) -> int | None:
        found: int | None = self._jni.GetObjectArrayElement(self.env, array, index)
        return found

    def items(self, array: int, length: int) -> list[int | None]:
        item, env = self._jni.GetObjectArrayElement, self.env
        return [item(env, array, index) for index in range(length)]

    def write(self, root: int, field: int, value: int | None) -> None:
        if self.is_node(root):
            self._jni.SetObjectField(self.env, root, self._names.references[field], value)
        else:
            self._jni.SetObjectArrayElement(self.env, root, field, value)

    def collect_young(self) -> None:
        names = self._names
        self._jni.CallStaticVoidMethodA(self.env, names.white_box, names.collect_young, None)

    def deoptimize_frames(self) -> None:
        """Leave the machine code of all methods that the threads are in, when they return there."""
        names, keeps_code = self._names, (c_int64 * 1)(0)
        self._jni.CallStaticIntMethodA(
            self.env, names.white_box, names.deoptimize_frames, keeps_code
        )

    def hold(self, reference: int) -> int:
        return int(self._jni.NewGlobalRef(self.env, reference))

    def pin(self, array: int) -> int:
        """Begin a critical section, in which the array does not move; returns its items' address.

        A thread in a critical section must do nothing else.
        """
        return there(self._jni.GetPrimitiveArrayCritical(self.env, array, None))

    def unpin(self, array: int, items: int) -> None:
        self._jni.ReleasePrimitiveArrayCritical(self.env, array, items, 0)

    def copy(self, *arguments: int) -> None:
        values = (c_int64 * len(arguments))(*arguments)
        names = self._names
        self._jni.CallStaticVoidMethodA(self.env, names.system, names.copy, values)
        if self._jni.ExceptionCheck(self.env):
            self._jni.ExceptionClear(self.env)
            raise JavaError("System.arraycopy throws")

    @contextmanager
    def frame(self, references: int = 16) -> Iterator[None]:
        """At least this many local references last until it ends."""
        self._jni.call("PushLocalFrame", self.env, references)
        try:
            yield
        finally:
            self._jni.PopLocalFrame(self.env, None)


def there(pointer: int | None) -> int:
    """A pointer that is not null. Raises BadInputError if it is."""
    if pointer is None:
        raise BadInputError("this JVM has no such class, field or method")
    return pointer
