"""A HotSpot virtual machine in this process, driven through JNI and JVMTI by ctypes alone.

A process can make one, once. Invariant: nothing here decides what is sampled; the machine says so
through its own event. Every call keeps Python's lock, so that threads take turns. (Java Native
Interface Specification; JVM Tool Interface 11.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import PYFUNCTYPE, c_int32, c_int64, c_uint8, c_void_p
from functools import cached_property
from typing import Any, ClassVar

from fuzz.problems import BadInputError
from fuzz.targets.hotspot.class_file import NEXT, NODE, NUMBER, OBJECT, PREV, class_file, node_with
from fuzz.targets.hotspot.structs import word

WHITE_BOX = "sun/hotspot/WhiteBox"
REGISTER, YOUNG = ("registerNatives", "()V"), ("youngGC", "()V")
WEAK = "java/lang/ref/WeakReference"
NODE_LONGS = (1, 7, 64)
"""So many further fields nodes may have."""
JNI_VERSION, JVMTI_VERSION = 0x00010008, 0x300B0000
REFERENCE_TAGS = 7
"""From version 21 on these bits of a reference say what kind it is."""
EVENT_MIN, COLLECTED_EVENT, SAMPLED_EVENT = 50, 82, 86
CAN_TELL_COLLECTIONS_BIT, CAN_SAMPLE_BIT = 31, 43
CAPABILITIES_BYTES = 16
ON, OFF = 1, 0

# The functions: where they stand in their table, what they return, and their further arguments.
REF, INT, LONG, TEXT = c_void_p, c_int32, c_int64, ctypes.c_char_p
JNI = {
    "DefineClass": (5, REF, TEXT, REF, TEXT, INT),
    "FindClass": (6, REF, TEXT),
    "ExceptionClear": (17, None),
    "PushLocalFrame": (19, INT, INT),
    "PopLocalFrame": (20, REF, REF),
    "NewGlobalRef": (21, REF, REF),
    "DeleteGlobalRef": (22, None, REF),
    "DeleteLocalRef": (23, None, REF),
    "IsSameObject": (24, c_uint8, REF, REF),
    "AllocObject": (27, REF, REF),
    "NewObjectA": (30, REF, REF, REF, REF),
    "IsInstanceOf": (32, c_uint8, REF, REF),
    "GetMethodID": (33, REF, REF, TEXT, TEXT),
    "GetFieldID": (94, REF, REF, TEXT, TEXT),
    "GetObjectField": (95, REF, REF, REF),
    "GetLongField": (101, LONG, REF, REF),
    "SetObjectField": (104, None, REF, REF, REF),
    "SetLongField": (110, None, REF, REF, LONG),
    "GetStaticMethodID": (113, REF, REF, TEXT, TEXT),
    "CallStaticObjectMethodA": (116, REF, REF, REF, REF),
    "CallStaticVoidMethodA": (143, None, REF, REF, REF),
    "GetArrayLength": (171, INT, REF),
    "NewObjectArray": (172, REF, INT, REF, REF),
    "GetObjectArrayElement": (173, REF, REF, INT),
    "SetObjectArrayElement": (174, None, REF, INT, REF),
    "NewByteArray": (176, REF, INT),
    "NewLongArray": (180, REF, INT),
    "GetPrimitiveArrayCritical": (222, REF, REF, REF),
    "ReleasePrimitiveArrayCritical": (223, None, REF, REF, INT),
    "ExceptionCheck": (228, c_uint8),
}
JVMTI = {
    "SetEventNotificationMode": (1, INT, INT, INT, REF),
    "GetObjectHashCode": (57, INT, REF, REF),
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
    """JavaVMAttachArgs. A thread without a name would be given one, of some length."""

    _fields_: ClassVar = [("version", INT), ("name", TEXT), ("group", REF)]


class JavaError(Exception):
    """The machine could not carry out a call."""


class Functions:
    """The functions of an interface, which is a pointer to a table of them, each by its name."""

    def __init__(self, table: dict[str, tuple[Any, ...]], interface: int) -> None:
        functions = word(interface)
        for name, (index, result, *arguments) in table.items():
            prototype = PYFUNCTYPE(result, REF, *arguments)
            setattr(self, name, prototype(word(functions + 8 * index)))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any function of ctypes
        raise AttributeError(name)


class JavaNames:
    """The classes, fields and methods that are needed, as JNI calls them.

    What nodes and strings are is settled by `use`.
    """

    def __init__(self, jni: Functions, env: int) -> None:
        def kind(name: str) -> int:
            local = there(jni.FindClass(env, name.encode()))
            return int(jni.NewGlobalRef(env, local))

        data = class_file()
        jni.DefineClass(env, NODE.encode(), None, data, len(data))
        self.node, self.object, self.weak = map(kind, (NODE, OBJECT, WEAK))
        self._nodes = {0: self.node}
        for longs in NODE_LONGS:
            name, data = node_with(longs)
            jni.DefineClass(env, name.encode(), None, data, len(data))
            self._nodes[longs] = kind(name)
        self._strings = {1: (kind("[B"), jni.NewByteArray), 8: (kind("[J"), jni.NewLongArray)}
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
        self.make_weak = there(jni.GetMethodID(env, self.weak, b"<init>", b"(Ljava/lang/Object;)V"))

        data = class_file(WHITE_BOX, (), natives=(REGISTER, YOUNG))
        jni.DefineClass(env, WHITE_BOX.encode(), None, data, len(data))
        self.white_box = kind(WHITE_BOX)
        register, self.collect_young = (
            there(jni.GetStaticMethodID(env, self.white_box, name.encode(), descriptor.encode()))
            for name, descriptor in (REGISTER, YOUNG)
        )
        jni.CallStaticVoidMethodA(env, self.white_box, register, None)
        self.can_collect_young = not jni.ExceptionCheck(env)
        jni.ExceptionClear(env)

    def use(self, node_longs: int, string_item_bytes: int) -> None:
        """From here on nodes have so many further fields, and strings such items."""
        self.node_to_make = self._nodes[node_longs]
        self.string, self.new_string = self._strings[string_item_bytes]


class JavaMachine:
    """A virtual machine."""

    def __init__(self, library: ctypes.CDLL, flags: Sequence[str]) -> None:
        """Raises BadInputError if there is no machine to be made."""
        java, env = c_void_p(), c_void_p()
        options = (Option * len(flags))(*(Option(flag.encode(), None) for flag in flags))
        arguments = Arguments(JNI_VERSION, len(flags), options, 0)
        code = library.JNI_CreateJavaVM(*map(ctypes.byref, (java, env, arguments)))
        if code:
            raise BadInputError(f"this JVM makes no machine (error {code})")
        assert java.value is not None
        assert env.value is not None
        self._java = java.value
        self._invocation = Functions(INVOCATION, self._java)
        self.jni = Functions(JNI, env.value)
        self._tools = self._interface(JVMTI_VERSION)
        self._jvmti = Functions(JVMTI, self._tools)
        self.samples = 0
        """How often the machine has told of a sample."""
        self.called_back: Callable[[int, int], None] | None = None
        """What is called then, with the thread's `JNIEnv` and the object."""
        self._listen()
        self.names = JavaNames(self.jni, env.value)

    def _interface(self, version: int) -> int:
        pointer = c_void_p()
        _check("GetEnv", self._invocation.GetEnv(self._java, ctypes.addressof(pointer), version))
        assert pointer.value is not None
        return pointer.value

    def _listen(self) -> None:
        self._callbacks = (c_void_p * (SAMPLED_EVENT - EVENT_MIN + 1))()
        self._callback = Sampled(self._sampled)  # The machine keeps only its address.
        callback = ctypes.cast(self._callback, c_void_p).value
        assert callback is not None
        self.send_samples_to(callback)

    def send_samples_to(self, callback: int) -> None:
        """Have the function that lies there called for each sample."""
        self._send_to(SAMPLED_EVENT, CAN_SAMPLE_BIT, callback)

    def send_collections_to(self, callback: int) -> None:
        """Have it called for each collection, by a thread of the machine's own."""
        self._send_to(COLLECTED_EVENT, CAN_TELL_COLLECTIONS_BIT, callback)
        self._switch(COLLECTED_EVENT, is_on=True)

    def _send_to(self, event: int, capability: int, callback: int) -> None:
        wanted = (1 << capability).to_bytes(CAPABILITIES_BYTES, "little")
        _check("AddCapabilities", self._jvmti.AddCapabilities(self._tools, wanted))
        self._callbacks[event - EVENT_MIN] = callback
        size = ctypes.sizeof(self._callbacks)
        call = self._jvmti.SetEventCallbacks
        _check("SetEventCallbacks", call(self._tools, self._callbacks, size))

    def _sampled(self, _: int, env: int, __: int, reference: int, *more: int) -> None:
        self.samples += 1
        if self.called_back is not None:
            self.called_back(env, reference)

    def attach(self) -> JavaThread:
        """Make the thread that calls one of the machine's."""
        pointer = c_void_p()
        newcomer = Newcomer(JNI_VERSION, b"mutator", None)
        attach = self._invocation.AttachCurrentThreadAsDaemon
        places = ctypes.addressof(pointer), ctypes.addressof(newcomer)
        _check("AttachCurrentThread", attach(self._java, *places))
        assert pointer.value is not None
        return JavaThread(self, pointer.value)

    @cached_property
    def version(self) -> str:
        """What this is, for people."""
        names = ("java.vm.name", "java.vm.version")
        return " ".join(map(self._property, names))

    def _property(self, name: str) -> str:
        text = ctypes.c_char_p()  # The machine's own, and kept.
        call = self._jvmti.GetSystemProperty
        _check("GetSystemProperty", call(self._tools, name.encode(), ctypes.addressof(text)))
        return (text.value or b"").decode()

    def detach(self) -> None:
        """The thread that calls is none of the machine's any more."""
        _check("DetachCurrentThread", self._invocation.DetachCurrentThread(self._java))

    def size_bytes(self, reference: int) -> int:
        """What the object takes."""
        size = c_int64()
        call = self._jvmti.GetObjectSize
        _check("GetObjectSize", call(self._tools, reference, ctypes.addressof(size)))
        return size.value

    def hash_code(self, reference: int) -> int:
        """The object's identity."""
        code = c_int32()
        call = self._jvmti.GetObjectHashCode
        _check("GetObjectHashCode", call(self._tools, reference, ctypes.addressof(code)))
        return code.value

    # Collection and sampling.

    def collect(self) -> None:
        """A full collection."""
        _check("ForceGarbageCollection", self._jvmti.ForceGarbageCollection(self._tools))

    def set_interval(self, interval_bytes: int) -> None:
        """The mean of the distances between samples."""
        call = self._jvmti.SetHeapSamplingInterval
        _check("SetHeapSamplingInterval", call(self._tools, interval_bytes))

    def report_samples(self, is_on: bool) -> None:
        """Switch the event on or off."""
        self._switch(SAMPLED_EVENT, is_on)

    def _switch(self, event: int, is_on: bool) -> None:
        mode = ON if is_on else OFF
        call = self._jvmti.SetEventNotificationMode
        _check("SetEventNotificationMode", call(self._tools, mode, event, None))


class JavaThread:
    """What one of the machine's threads asks of it.

    References are global, so that every thread may use them; what is said to be local lasts until
    the frame ends, or is kept.
    """

    def __init__(self, machine: JavaMachine, env: int) -> None:
        self.env = self._env = env
        self._jni, self._names = machine.jni, machine.names
        current = self._jni.CallStaticObjectMethodA(
            env, self._names.thread, self._names.current, None
        )
        self.address = int(self._jni.GetLongField(env, current, self._names.eetop))
        """The machine's own `Thread*`."""
        self._jni.DeleteLocalRef(env, current)

    # Allocation.

    def new_node(self) -> int:
        """A node."""
        return self.kept(self._jni.AllocObject(self._env, self._names.node_to_make))

    def new_string(self, length: int) -> int:
        """An array of bytes, or of long integers."""
        return self.kept(self._names.new_string(self._env, length))

    def new_weak(self, root: int) -> int:
        """A weak reference to an object."""
        names = self._names
        arguments = c_int64(root)
        made = self._jni.NewObjectA(
            self._env, names.weak, names.make_weak, ctypes.addressof(arguments)
        )
        return self.kept(made)

    def new_array(self, length: int) -> int:
        """An array of null references."""
        return self.kept(self._jni.NewObjectArray(self._env, length, self._names.object, None))

    def kept(self, local: int | None) -> int:
        """A global reference instead of a local one."""
        if local is None:
            self._jni.ExceptionClear(self._env)
            raise JavaError("the machine has no memory left")
        kept = self._jni.NewGlobalRef(self._env, local)
        self._jni.DeleteLocalRef(self._env, local)
        return int(kept)

    def free(self, reference: int) -> None:
        """Nobody holds the object by this reference any more."""
        self._jni.DeleteGlobalRef(self._env, reference)

    # Access.

    def is_node(self, reference: int) -> bool:
        """Whether the object is a node."""
        return bool(self._jni.IsInstanceOf(self._env, reference, self._names.node))

    def is_string(self, reference: int) -> bool:
        """Whether it is an array of what strings are made of."""
        return bool(self._jni.IsInstanceOf(self._env, reference, self._names.string))

    def is_weak(self, reference: int) -> bool:
        """Whether it is a weak reference."""
        return bool(self._jni.IsInstanceOf(self._env, reference, self._names.weak))

    def is_alive(self, weak: int) -> bool:
        """Whether a weak reference's object is."""
        found = self._jni.GetObjectField(self._env, weak, self._names.referent)
        if found is not None:
            self._jni.DeleteLocalRef(self._env, found)
        return found is not None

    def is_same(self, reference: int, other: int) -> bool:
        """Whether they refer to one object."""
        return bool(self._jni.IsSameObject(self.env, reference, other))

    def number(self, node: int) -> int:
        """A node's number."""
        return int(self._jni.GetLongField(self._env, node, self._names.number))

    def set_number(self, node: int, number: int) -> None:
        """Set it."""
        self._jni.SetLongField(self._env, node, self._names.number, number)

    def length(self, array: int) -> int:
        """The length of an array."""
        return int(self._jni.GetArrayLength(self._env, array))

    def read(self, root: int, field: int) -> int | None:
        """A local reference to what a node or an array refers to there."""
        return (self.field if self.is_node(root) else self.item)(root, field)

    def field(self, node: int, field: int) -> int | None:
        """That of a node."""
        found: int | None = self._jni.GetObjectField(self._env, node, self._names.references[field])
        return found

    def item(self, array: int, index: int) -> int | None:
        """That of an array."""
        found: int | None = self._jni.GetObjectArrayElement(self._env, array, index)
        return found

    def items(self, array: int, length: int) -> list[int | None]:
        """Those of an array that is so long."""
        item, env = self._jni.GetObjectArrayElement, self._env
        return [item(env, array, index) for index in range(length)]

    def write(self, root: int, field: int, value: int | None) -> None:
        """Make a node or an array refer to something there."""
        if self.is_node(root):
            self._jni.SetObjectField(self._env, root, self._names.references[field], value)
        else:
            self._jni.SetObjectArrayElement(self._env, root, field, value)

    def collect_young(self) -> None:
        """A collection of young objects alone."""
        names = self._names
        self._jni.CallStaticVoidMethodA(self._env, names.white_box, names.collect_young, None)

    def hold(self, reference: int) -> int:
        """Another global reference to the same object."""
        return int(self._jni.NewGlobalRef(self._env, reference))

    def pin(self, array: int) -> int:
        """Begin a critical section, in which the array's items stay where they are; where is that?

        A thread that is in one must do nothing else.
        """
        return there(self._jni.GetPrimitiveArrayCritical(self._env, array, None))

    def unpin(self, array: int, items: int) -> None:
        """End it."""
        self._jni.ReleasePrimitiveArrayCritical(self._env, array, items, 0)

    def copy(self, *arguments: int) -> None:
        """System.arraycopy(source, source_start, dest, dest_start, length)."""
        values = (c_int64 * len(arguments))(*arguments)
        names = self._names
        self._jni.CallStaticVoidMethodA(self._env, names.system, names.copy, values)
        if self._jni.ExceptionCheck(self._env):
            self._jni.ExceptionClear(self._env)
            raise JavaError("System.arraycopy throws")

    @contextmanager
    def frame(self) -> Iterator[None]:
        """In it local references last."""
        _check("PushLocalFrame", self._jni.PushLocalFrame(self._env, 16))
        try:
            yield
        finally:
            self._jni.PopLocalFrame(self._env, None)


def referred(reference: int) -> int:
    """What the machine keeps behind a reference: mostly the object's address."""
    return word(reference & ~REFERENCE_TAGS)


def there(pointer: int | None) -> int:
    """A pointer that is not null. Raises BadInputError."""
    if pointer is None:
        raise BadInputError("this JVM has no such class, field or method")
    return pointer


def _check(name: str, code: int) -> None:
    if code:
        raise JavaError(f"{name} answers with error {code}")
