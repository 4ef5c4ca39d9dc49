"""The collectors that a virtual machine can be made with, and the flags that settle its heap.

Invariant: nothing is resized, and no thread is born by itself, so that a trace replays.
"""

from __future__ import annotations

COLLECTOR = "collector"
"""The setting that chooses one, by its number."""
SERIAL, PARALLEL, G1 = COLLECTORS = ("serial", "parallel", "g1")
BUFFER_BYTES, WASTE_SHARE, WASTE_INCREMENT_WORDS = 2048, 8, 4
_HEAPS = {
    # Eden is the least in which the machine can begin.
    SERIAL: ("-XX:+UseSerialGC", "-Xmn640k"),
    PARALLEL: (
        *("-XX:+UseParallelGC", "-Xmn1536k", "-XX:-UseAdaptiveSizePolicy"),
        "-XX:ParallelGCThreads=1",
    ),
    G1: (
        *("-XX:+UseG1GC", "-Xmn2m", "-XX:G1HeapRegionSize=1m", "-XX:-G1UseAdaptiveIHOP"),
        *("-XX:InitiatingHeapOccupancyPercent=100", "-XX:ParallelGCThreads=1"),
        "-XX:ConcGCThreads=1",
    ),
}
_FLAGS = (
    *("-Xms24m", "-Xmx24m"),
    *("-XX:-ResizeTLAB", f"-XX:TLABSize={BUFFER_BYTES}", f"-XX:MinTLABSize={BUFFER_BYTES}"),
    f"-XX:TLABRefillWasteFraction={WASTE_SHARE}",
    f"-XX:TLABWasteIncrement={WASTE_INCREMENT_WORDS}",
    *("-XX:-UseDynamicNumberOfCompilerThreads", "-XX:-UseDynamicNumberOfGCThreads"),
    # The machine's own tests make it collect young objects alone by this.
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:+WhiteBoxAPI"),
    # No file is left, no signal taken, and nothing said but in answers.
    *("-XX:-UsePerfData", "-XX:+ErrorFileToStderr", "-XX:+DisplayVMOutputToStderr", "-Xrs"),
)


def flags_for(collector: str) -> tuple[str, ...]:
    """The machine's flags."""
    return *_HEAPS[collector], *_FLAGS
