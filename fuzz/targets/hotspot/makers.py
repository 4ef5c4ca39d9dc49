"""The methods that allocate a trace's objects in bytecode, and the tier in which they run.

They are called often before the first trace, so that the machine compiles them. Invariant: each
allocation of a trace ran in the tier that its header names; otherwise the action is an error.
"""

from __future__ import annotations

from ctypes import c_int64, c_uint8
from typing import Any, NamedTuple

from typing_extensions import override

from fuzz.problems import BadInputError
from fuzz.targets.hotspot.assembler import METHOD, assembled_class
from fuzz.targets.hotspot.class_file import NODE, OBJECT
from fuzz.targets.hotspot.compilers import C1, C2, INTERPRETER, LEVELS, flags_to_compile
from fuzz.targets.hotspot.java_machine import (
    NODE_LONGS,
    WEAK,
    JavaError,
    JavaMachine,
    JavaThread,
    defined_class,
    there,
)
from fuzz.targets.hotspot.structs import WORD_BYTES, Structs, word

MAKERS = "gcfuzz/Makers"
CALLS_MAX = 2**14
"""Far more than the calls after which the machine compiles a method."""
LENGTH, REFERENCE = f"(I)L{OBJECT};", f"(L{OBJECT};)L{OBJECT};"
OF_NODES = {f"node{longs}": f"new {NODE}{longs or ''}; areturn" for longs in (0, *NODE_LONGS)}
"""Nodes have no constructor. The machine does not verify classes that no class loader defines."""
CODE = {
    **OF_NODES,
    "string1": "iload 0; newarray 8; areturn",
    "string8": "iload 0; newarray 11; areturn",
    "array": f"iload 0; anewarray {OBJECT}; areturn",
    "weak": f"new {WEAK}; dup; aload 0; invokespecial init; areturn",
}
TYPES = {
    **dict.fromkeys(OF_NODES, f"()L{OBJECT};"),
    **dict.fromkeys(("string1", "string8", "array"), LENGTH),
    "weak": REFERENCE,
}


class Tier(NamedTuple):
    """A tier in which makers run."""

    number: int
    inline_kinds: tuple[str, ...]
    """See Buffers. The interpreter calls the machine for arrays."""
    inline_spare_bytes: int
    """See Buffers. C2 calls the machine for an object that would end where its buffer does."""

    @property
    def level(self) -> int:
        """The machine's number for it; 0 for the interpreter."""
        return LEVELS[self.number]

    @property
    def flags(self) -> tuple[str, ...]:
        """The machine's flags."""
        return flags_to_compile(self.number, f"{MAKERS}.*")


ALL_KINDS = ("node", "string", "array", "weakref")
TIERS = {
    INTERPRETER: Tier(INTERPRETER, ("node", "weakref"), 0),
    C1: Tier(C1, ALL_KINDS, 0),
    C2: Tier(C2, ALL_KINDS, WORD_BYTES),
}
"""By their numbers. Without one, JNI allocates."""
MEMBERS = {"init": (METHOD, WEAK, "<init>", f"(L{OBJECT};)V")}


class Makers:
    """The methods by their names, each with the machine code that it had after its warm-up.

    Raises BadInputError if the machine compiled one in another tier, or did not.
    """

    def __init__(self, machine: JavaMachine, structs: Structs, level: int) -> None:
        jni, env = machine.jni, machine.env
        data = assembled_class(MAKERS, {}, TYPES, CODE, MEMBERS)
        self.owner = defined_class(jni, env, MAKERS, data)
        self.methods = {
            name: there(jni.GetStaticMethodID(env, self.owner, name.encode(), kind.encode()))
            for name, kind in TYPES.items()
        }
        self.level = level
        self._code_offset = structs.place("_code", "Method")
        self._level_offset = structs.place("_comp_level", "nmethod")
        self._codes = {name: self._warm_up(jni, env, name) for name in self.methods}

    def _warm_up(self, jni: Any, env: int, name: str) -> int:  # noqa: ANN401 - functions of JNI
        argument = (c_int64 * 1)(self.owner if TYPES[name] == REFERENCE else 1)
        for _ in range(CALLS_MAX if self.level else 1):
            made = jni.CallStaticObjectMethodA(env, self.owner, self.methods[name], argument)
            jni.DeleteLocalRef(env, made)
            if self._code(name):
                break
        code = self._code(name)
        level = c_uint8.from_address(code + self._level_offset).value if code else 0
        if level != self.level:
            raise BadInputError(
                f"{name} runs at level {level} after {CALLS_MAX} calls, not at {self.level}: "
                "this JVM lacks a compiler, or options in JAVA_TOOL_OPTIONS exclude the method"
            )
        return code

    def _code(self, name: str) -> int:
        """The address of a method's machine code; 0 if the interpreter runs it."""
        return word(word(self.methods[name]) + self._code_offset)

    def check(self, name: str) -> None:
        """Raise JavaError if a method lost or changed its machine code after its warm-up."""
        if self._code(name) != self._codes[name]:
            raise JavaError(f"{name} did not run at level {self.level}")


class MakingThread(JavaThread):
    """A thread that calls a maker for each object."""

    def __init__(self, makers: Makers, machine: JavaMachine, env: int) -> None:
        super().__init__(machine, env)
        self._makers = makers

    def _made(self, name: str, argument: int = 0) -> int:
        makers = self._makers
        made = self._jni.CallStaticObjectMethodA(
            self.env, makers.owner, makers.methods[name], (c_int64 * 1)(argument)
        )
        makers.check(name)
        return self.kept(made)

    @override
    def new_node(self) -> int:
        return self._made(f"node{self._names.node_longs}")

    @override
    def new_string(self, length: int) -> int:
        return self._made(f"string{self._names.string_item_bytes}", length)

    @override
    def new_weak(self, root: int) -> int:
        return self._made("weak", root)

    @override
    def new_array(self, length: int) -> int:
        return self._made("array", length)
