"""The machines that run programs, the tiers in which they run, and what proves it.

The driver proves it whenever the program calls it in the round that answers: the program returns to
an address in its machine code, or, in the interpreter, to none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ctypes import c_int32, c_uint8

from fuzz.targets.hotspot.answers import OWNER
from fuzz.targets.hotspot.compilers import flags_to_compile
from fuzz.targets.hotspot.machines import (
    COLLECTOR,
    COLLECTORS,
    HAVE_YOUNG,
    SHENANDOAH,
    ZGC,
    has_text,
)
from fuzz.targets.hotspot.structs import Structs, word

PROGRAM = "gcfuzz/Program"
_LARGE = (
    # C2 compiles nothing larger by itself, and gives up if a program has more nodes.
    *("-XX:-DontCompileHugeMethods", "-XX:MaxNodeLimit=400000", "-XX:NodeLimitFudgeFactor=8000"),
    *("-XX:ReservedCodeCacheSize=240m", f"-XX:CompileCommand=dontinline,{OWNER}.*"),
)


_STRESS = ("StressLCM", "StressGCM", "StressIGVN", "StressCCP", "StressMacroExpansion")
_VERIFY = {
    ZGC: ("-XX:+ZVerifyObjects", "-XX:+ZVerifyMarking"),
    SHENANDOAH: ("-XX:+ShenandoahVerify",),
}
_CONCURRENT_SHENANDOAH = (
    # It starts by itself only if nearly no room is left.
    *("-XX:ShenandoahGCMode=satb", "-XX:ShenandoahGCHeuristics=static"),
    *("-XX:+UnlockExperimentalVMOptions", "-XX:ShenandoahGuaranteedGCInterval=0"),
)
Z_HAS_GENERATIONS, SHENANDOAH_HAS_GENERATIONS = "ZGenerational", "ShenandoahGenerationalHeap"
"""What libraries name from 21 on, and from 24 on, where ZGC always has generations."""
VIRTUAL_THREADS = "JVM_VirtualThreadStart"
"""What libraries name from 21 on."""


def has_generations(library: str) -> bool:
    """Whether ZGC or Shenandoah can have generations."""
    return has_text(library, Z_HAS_GENERATIONS)


def has_virtual_threads(library: str) -> bool:
    """Whether the library has them, and not only as a preview."""
    return has_text(library, VIRTUAL_THREADS)


def is_generational_z(library: str, chosen: Mapping[str, int]) -> bool:
    """Whether the collector is ZGC with generations.

    If an object becomes old before C2's code gets it, this code is left: it has no barriers for
    what it stores there (ZBarrierSet::on_slowpath_allocation_exit).
    """
    always = has_text(library, SHENANDOAH_HAS_GENERATIONS)
    return COLLECTORS[chosen[COLLECTOR]] == ZGC and bool(chosen["generations"] or always)


def collects_young(library: str, chosen: Mapping[str, int]) -> bool:
    """Whether the collector collects young objects alone when it is asked to."""
    is_young = COLLECTORS[chosen[COLLECTOR]] in HAVE_YOUNG
    return is_young or is_generational_z(library, chosen)


def flags_of(library: str, chosen: Mapping[str, int]) -> Iterator[str]:
    """The machine's flags. An exception must have its line, however often it is thrown."""
    collector, tier = COLLECTORS[chosen[COLLECTOR]], chosen["tier"]
    compiled = flags_to_compile(tier, f"{PROGRAM}*.run", f"{PROGRAM}*.callback")
    yield from compiled
    yield from _LARGE if compiled else ()
    yield "-XX:-OmitStackTraceInFastThrow"
    if collector == SHENANDOAH:
        yield from _CONCURRENT_SHENANDOAH
    if chosen["generations"]:
        if collector == SHENANDOAH and has_text(library, SHENANDOAH_HAS_GENERATIONS):
            yield "-XX:ShenandoahGCMode=generational"
        if collector == ZGC and not has_text(library, SHENANDOAH_HAS_GENERATIONS):
            yield "-XX:+ZGenerational"
    if chosen["stress"]:
        yield f"-XX:StressSeed={chosen['stress']}"
        yield from (f"-XX:+{flag}" for flag in _STRESS if has_text(library, flag))
    if chosen["verify"]:
        yield from _VERIFY.get(collector, ("-XX:+VerifyBeforeGC", "-XX:+VerifyAfterGC"))


class MachineCode:
    """Finds the machine code of methods."""

    def __init__(self, structs: Structs) -> None:
        self._code = structs.place("_code", "Method")
        self._level = structs.place("_comp_level", "nmethod")
        self._size = structs.place("_size", "CodeBlob")
        self._next = structs.place("_osr_link", "nmethod")
        self._to_loops = [
            structs.place(field, kind)
            for field, kind in (
                ("_constMethod", "Method"),
                ("_constants", "ConstMethod"),
                ("_pool_holder", "ConstantPool"),
                ("_osr_nmethods_head", "InstanceKlass"),
            )
        ]

    def of(self, method: int, level: int) -> list[range]:
        """The addresses of all code of a method that has this level."""
        return [
            range(code, code + c_int32.from_address(code + self._size).value)
            for code in self._codes(method)
            if c_uint8.from_address(code + self._level).value == level
        ]

    def _codes(self, method: int) -> Iterator[int]:
        """That which is called, and those that are entered in a loop, of all methods of a class."""
        place = word(method)
        if word(place + self._code):
            yield word(place + self._code)
        for offset in self._to_loops:
            place = word(place + offset)
        while place:
            yield place
            place = word(place + self._next)
