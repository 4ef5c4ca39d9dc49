"""The machines that can be created: their settings, their flags, and the layout of their objects.

Invariant: nothing is resized, no thread starts by itself, and a collector starts by itself only if
there is no room, so that a trace replays.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fuzz.protocol.contract import Range, Setting
from fuzz.protocol.layout import KindLayout, Layout, rounded_up
from fuzz.targets.hotspot.java_machine import NODE_LONGS
from fuzz.targets.hotspot.structs import WORD_BYTES, Structs

COLLECTOR = "collector"
"""The setting that chooses a collector by its number."""
SERIAL, PARALLEL, G1, ZGC, SHENANDOAH, EPSILON = COLLECTORS = (
    *("serial", "parallel", "g1"),
    *("zgc", "shenandoah", "epsilon"),
)
_BUILT_WITH = {
    ZGC: ("ZCollectedHeap", "_heap"),
    SHENANDOAH: ("ShenandoahHeap", "_num_regions"),
    EPSILON: ("EpsilonHeap", "_space"),
}
"""The fields of libraries that have an optional collector."""
BUFFER_BYTES, WASTE_SHARE, WASTE_INCREMENT_WORDS = 2048, 8, 128
RESERVE_BYTES = 192
"""What a buffer keeps free on every processor, if its settings are chosen: as little as possible.
No buffer is smaller."""
COMPACT_HEADERS = "UseCompactObjectHeaders"
_HEAPS = {
    SERIAL: ("-XX:+UseSerialGC",),
    PARALLEL: (
        *("-XX:+UseParallelGC", "-XX:-UseAdaptiveSizePolicy", "-XX:ParallelGCThreads=1"),
        "-XX:InitialSurvivorRatio=3",  # The largest survivor spaces that there can be.
    ),
    G1: (
        *("-XX:+UseG1GC", "-XX:G1HeapRegionSize=1m", "-XX:-G1UseAdaptiveIHOP"),
        *("-XX:InitiatingHeapOccupancyPercent=100", "-XX:ParallelGCThreads=1"),
        "-XX:ConcGCThreads=1",
    ),
    ZGC: ("-XX:+UseZGC", "-XX:-ZProactive", "-XX:ConcGCThreads=1", "-XX:ParallelGCThreads=1"),
    SHENANDOAH: (
        *("-XX:+UnlockDiagnosticVMOptions", "-XX:+UseShenandoahGC"),
        *("-XX:ShenandoahGCMode=passive", "-XX:ConcGCThreads=1", "-XX:ParallelGCThreads=1"),
    ),
    EPSILON: (
        *("-XX:+UnlockExperimentalVMOptions", "-XX:+UseEpsilonGC", "-XX:-EpsilonElasticTLAB"),
        "-Xlog:disable",
    ),
}
_YOUNG_KIB = {SERIAL: 640, PARALLEL: 5120, G1: 2048}
"""The serial collector's eden is the smallest one in which the machine can start."""
SERIAL_SHARE = 12
"""How many times more often Serial is chosen than another collector, since its places are predicted
too."""
HAVE_YOUNG = (SERIAL, PARALLEL, G1)
"""The collectors that can collect young objects alone."""
_HEAP_MIB = {ZGC: 256, SHENANDOAH: 48, EPSILON: 512}
"""So large that no cycle of ZGC starts by itself, and that no trace fills Epsilon's heap."""
HEAP_MIB = 24
_FLAGS = (
    *("-XX:-ResizeTLAB", f"-XX:TLABRefillWasteFraction={WASTE_SHARE}"),
    # The same for any number of processors.
    "-XX:ActiveProcessorCount=2",
    *("-XX:-UseDynamicNumberOfCompilerThreads", "-XX:-UseDynamicNumberOfGCThreads"),
    # The machine's own tests use this to collect young objects alone.
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:+WhiteBoxAPI"),
    # No files, no signal handlers, no output.
    *("-XX:-UsePerfData", "-XX:+ErrorFileToStderr", "-XX:+DisplayVMOutputToStderr", "-Xrs"),
)
_PREDICTED_BUFFERS = (
    *(f"-XX:MinTLABSize={RESERVE_BYTES}", "-XX:AllocatePrefetchDistance=0"),
    *("-XX:AllocatePrefetchLines=1", f"-XX:AllocatePrefetchStepSize={RESERVE_BYTES // 3}"),
    f"-XX:TLABWasteIncrement={WASTE_INCREMENT_WORDS}",
)
"""The limit of a buffer's waste grows fast enough that sessions reach it."""
OBJECT_BYTES_MAX = 2**18
"""Less than half a region of G1's."""


def process_setting(name: str, *choices: int) -> Setting:
    """A setting of the machine. The first choice is the default, and 0 is always legal."""
    return Setting(name, choices[0], Range(0, max(choices)), choices, of_process=True)


SETTINGS_OF_KINDS = (
    Setting("node_longs", 0, Range(0, max(NODE_LONGS)), choices=(0, 0, 0, *NODE_LONGS)),
    Setting("string_item_bytes", 1, Range(1, 8), choices=(1, 1, 8)),
)
"""The number of further longs in a node; whether strings are arrays of bytes or of longs."""
CALLBACK = Setting("callback_length", 0, Range(0, 64), choices=(0, 0, 0, 1, 64))
"""The length of the string that the callback of each sample allocates; 0 for none."""
TIER = process_setting("tier", 0, 0, 0, 1, 2, 3)
"""What allocates: 0 JNI, 1 the interpreter, 2 the compiler C1, 3 the compiler C2."""
SETTINGS_OF_TIERS = (TIER, process_setting("buffer_bytes", *[BUFFER_BYTES] * 7, 0))
_COLLECTOR = process_setting(COLLECTOR, *range(COLLECTORS.index(G1) + 1))
SETTINGS = (
    Setting("sampler_seed", 1, Range(0, 2**48 - 1)),
    Setting("first_bytes", 4096, Range(1, 2**20)),
    Setting("threads", 1, Range(1, 3), choices=(1, 1, 2, 3)),
    *SETTINGS_OF_KINDS,
)
"""The generator's state, and each thread's bytes until its first sample."""
PINS = Setting("pins", 0, Range(0, 2), choices=(0, 0, 0, 2))
"""How many strings may be pinned at once, if the machine still collects then."""
SETTINGS_AS_DOCUMENTED = (
    *(_COLLECTOR, *SETTINGS_OF_TIERS),
    *(SETTINGS[0], *SETTINGS[2:], CALLBACK),
    Setting("period_bytes", 512, Range(0, 2**16), choices=(16, 512, 4096, 2**16, 0)),
)
"""The first distances are drawn from the seed, for the only period: it is not promised that another
one counts before the next sample. Distances of less than 16 bytes on average are too long, because
each is rounded up to whole bytes."""


def collectors_of(structs: Structs) -> list[tuple[int, str]]:
    """The collectors that a library has, with their numbers."""
    return [
        (number, name)
        for number, name in enumerate(COLLECTORS)
        if name not in _BUILT_WITH or structs.has(*_BUILT_WITH[name])
    ]


def settings_of(library: str, structs: Structs) -> tuple[Setting, ...]:
    """The settings that the library allows."""
    collectors = [number for number, _ in collectors_of(structs)]
    return (
        process_setting(COLLECTOR, *[COLLECTORS.index(SERIAL)] * SERIAL_SHARE, *collectors),
        process_setting("buffer_bytes", *[BUFFER_BYTES] * 4, 0, 8 * BUFFER_BYTES),
        process_setting("heap_scale", 1, 2),
        process_setting("pointer_bytes", 4, 8),
        process_setting("header_bytes", 12, 16, *([8] if has_compact_headers(library) else [])),
        *SETTINGS,
        PINS,
        CALLBACK,
        TIER,
    )


@cache
def has_text(library: str, text: str) -> bool:
    """Whether a text, such as a flag's name, is in the library."""
    return text.encode() in Path(library).read_bytes()


def has_compact_headers(library: str) -> bool:
    """Whether headers can have 8 bytes; then items start right after an array's length."""
    return has_text(library, COMPACT_HEADERS)


def flags_for(chosen: Mapping[str, int]) -> tuple[str, ...]:
    """The machine's flags for these settings. Some settings may be missing."""
    collector, scale = COLLECTORS[chosen[COLLECTOR]], chosen.get("heap_scale", 1)
    heap_mib = heap_bytes(chosen) >> 20
    flags = [*_HEAPS[collector], f"-Xmx{heap_mib}m"]
    if collector in _YOUNG_KIB:
        flags += [f"-Xms{heap_mib}m", f"-Xmn{scale * _YOUNG_KIB[collector]}k"]
    buffer_bytes = chosen.get("buffer_bytes", BUFFER_BYTES)
    flags += [f"-XX:TLABSize={buffer_bytes}"] if buffer_bytes else ["-XX:-UseTLAB"]
    if "heap_scale" in chosen or "waste_share" in chosen:
        # `hotspot` and `hotspot-jfr` predict buffers.
        flags += _PREDICTED_BUFFERS
    else:
        flags += [f"-XX:MinTLABSize={BUFFER_BYTES}", "-XX:TLABWasteIncrement=4"]
    if chosen.get("pointer_bytes") == WORD_BYTES:
        flags.append("-XX:-UseCompressedOops")
    match chosen.get("header_bytes"):
        case 16:
            flags.append("-XX:-UseCompressedClassPointers")
        case 8:
            flags += ["-XX:+UnlockExperimentalVMOptions", f"-XX:+{COMPACT_HEADERS}"]
    return *flags, *_FLAGS


def heap_bytes(chosen: Mapping[str, int]) -> int:
    """The size of the heap."""
    mib = _HEAP_MIB.get(COLLECTORS[chosen[COLLECTOR]], HEAP_MIB)
    return (chosen.get("heap_scale", 1) * mib) << 20


def old_bytes(chosen: Mapping[str, int]) -> int:
    """The size of the old space, if the collector has one of fixed size."""
    young_kib = _YOUNG_KIB[COLLECTORS[chosen[COLLECTOR]]]
    return heap_bytes(chosen) - ((chosen.get("heap_scale", 1) * young_kib) << 10)


def layout_for(chosen: Mapping[str, int], begins_at_once: bool) -> Layout:
    """The objects' sizes: a header, and in arrays a length of 4 bytes.

    Items start at a multiple of their size if `begins_at_once`, otherwise at a multiple of a word.
    ZGC's references are never compressed.
    """
    is_zgc = COLLECTORS[chosen[COLLECTOR]] == ZGC
    reference_bytes = WORD_BYTES if is_zgc else chosen.get("pointer_bytes", 4)
    header_bytes = chosen.get("header_bytes", 12)

    def array(type_index: int, item_bytes: int) -> KindLayout:
        unit_bytes = item_bytes if begins_at_once else WORD_BYTES
        return KindLayout(type_index, rounded_up(header_bytes + 4, unit_bytes), item_bytes)

    def fixed(type_index: int, longs: int, references: int) -> KindLayout:
        field_bytes = WORD_BYTES * longs + reference_bytes * references
        return KindLayout(type_index, rounded_up(header_bytes + field_bytes, WORD_BYTES))

    return Layout(
        kinds={
            "node": fixed(NODE, 1 + chosen["node_longs"], 2),
            "string": array(STRING, chosen["string_item_bytes"]),
            "array": array(ARRAY, reference_bytes),
            "weakref": fixed(WEAKREF, 0, 4),
        },
        large_object_bytes=OBJECT_BYTES_MAX + 1,
        word_bytes=WORD_BYTES,
        object_bytes_max=OBJECT_BYTES_MAX,
        nonmovable="ignored",
    )


NODE, STRING, ARRAY, WEAKREF = 1, 2, 3, 4
"""The type indices of the kinds."""
