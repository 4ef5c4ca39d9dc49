"""The target `ddtrace`: its memory profiler for Python. gcfuzz predicts each of its samples.

Start reading with `python_profilers`.
"""

from fuzz.targets.registration import PathOption, Program, lazily

DDTRACE = Program(
    name="ddtrace",
    description="ddtrace's memory profiler for Python",
    options=(PathOption("python", "The Python that has ddtrace.  [default: this one]"),),
    command=lazily("fuzz.targets.ddtrace.find:driver_command"),
)
TARGETS = (DDTRACE, DDTRACE.as_documented())
